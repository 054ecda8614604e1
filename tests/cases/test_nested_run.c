/* SPDX-License-Identifier: MIT */
/* Case 8: a blocking run from inside a callback would wait for the thread that it blocks. It is refused in every
 * callback, whatever the pool size; started on the loop instead, it works. [taskflow 402] Built twice: with the
 * pool that the environment says, and with a pool of one thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/pool.h"
#include "support/watchdog.h"

typedef enum place {
  IN_POOL_OP,
  IN_LOOP_OP,
  IN_POOL_POLL,
  IN_LOOP_POLL,
  IN_CANCEL_HOOK,
  IN_REPORT,
  IN_ROOM,
  IN_FAILURE,
  IN_DONE,
  IN_CLOSED,
  PLACES
} place_t;

static const char *const names[PLACES] = {"a pool op",
                                          "a loop op",
                                          "a pool lane's poll",
                                          "a loop lane's poll",
                                          "a cancel hook",
                                          "on_microbatch",
                                          "on_room",
                                          "on_failure",
                                          "done",
                                          "closed"};

static ovl_pipeline_t *outer, *other;
static uv_loop_t loop;
static bool on_own_loop; /* the outer run is a blocking one */
static atomic_uint tried[PLACES];
static ovl_pipeline_t *inner[PLACES]; /* started from a callback of the loop */
static atomic_uint inner_ops;
static unsigned inner_done;

static int inner_op(ovl_op_t *op) {
  (void)op;
  atomic_fetch_add(&inner_ops, 1);
  return 0;
}

static ovl_pipeline_t *make_inner(void) {
  ovl_pipeline_options_t options = pipeline_options(2);
  options.compute = options.comm = inner_op;
  return make_pipeline(&options);
}

static void on_inner_done(ovl_pipeline_t *p, int status) {
  expect(status == 0, "an inner run ended with %s", ovl_err_name(status));
  expect(ovl_pipeline_run(p, 1) == OVL_EDEADLK, "a run inside an inner run's done was not refused");
  inner_done++;
}

static void start_inner(place_t place) {
  bool on_loop = place != IN_POOL_OP && place != IN_POOL_POLL;
  if (!on_loop || on_own_loop || inner[place] == NULL || atomic_load(&tried[place]) > 1)
    return;
  int r = ovl_pipeline_start(inner[place], &loop, 5, on_inner_done);
  expect(r == 0, "start inside %s: %s", names[place], ovl_err_name(r));
}

static void try_run(place_t place) {
  atomic_fetch_add(&tried[place], 1);
  int r = ovl_pipeline_run(other, 1);
  expect(r == OVL_EDEADLK, "a blocking run inside %s: %s", names[place], ovl_err_name(r));
  r = ovl_pipeline_run(other, OVL_STREAMING);
  expect(r == OVL_EDEADLK, "a blocking streaming run inside %s: %s", names[place], ovl_err_name(r));
  if (place != IN_CLOSED) {
    r = ovl_pipeline_run(outer, 1);
    expect(r == OVL_EDEADLK, "a blocking run of the same pipeline inside %s: %s", names[place],
           ovl_err_name(r));
  }
  start_inner(place);
}

/* ---- a pipeline with every callback there is ----------------------------------------------------------------------- */

static ovl_op_t *polled[2];

static int run_op(ovl_op_t *op) {
  try_run(op->lane.id == 1 ? IN_POOL_OP : IN_LOOP_OP);
  return 0;
}

static int run_polled(ovl_op_t *op) {
  polled[op->data != NULL] = op;
  return OVL_PENDING;
}

static void poll_op(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  int which = data != NULL;
  ovl_op_t *op = polled[which];
  if (op == NULL)
    return;
  try_run(which == 0 ? IN_POOL_POLL : IN_LOOP_POLL);
  polled[which] = NULL;
  expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
}

/* The third microbatch waits here for its cancel. */
static int wait_for_cancel(ovl_op_t *op) {
  if (op->microbatch == 2)
    expect(ovl_pipeline_cancel(outer) == 0, "cancel was refused");
  return op->microbatch == 2 ? OVL_PENDING : 0;
}

static int on_cancel(ovl_op_t *op) {
  try_run(IN_CANCEL_HOOK);
  expect(ovl_op_complete(op, OVL_ECANCELED) == 0, "a completion was refused");
  return 0;
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
  try_run(IN_REPORT);
}

static void on_room(ovl_pipeline_t *p) {
  (void)p;
  try_run(IN_ROOM);
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)p;
  (void)failure;
  try_run(IN_FAILURE);
}

static void on_closed(ovl_pipeline_t *p) {
  (void)p;
  try_run(IN_CLOSED);
}

static void on_done(ovl_pipeline_t *p, int status) {
  expect(status == OVL_ECANCELED, "the run ended with %s", ovl_err_name(status));
  try_run(IN_DONE);
  ovl_pipeline_close(p, on_closed);
  try_run(IN_CLOSED); /* still inside done; the other pipeline is all that is left to try */
}

static void add_polled(ovl_lane_kind_t kind, void *data) {
  ovl_lane_options_t lane = lane_options(NULL, kind, 1);
  lane.poll = poll_op;
  lane.data = data;
  add_stage(outer, add_lane_with(outer, &lane), run_polled, data);
}

static void describe_outer(void) {
  ovl_pipeline_options_t options = pipeline_options(2);
  options.queue = 1;
  options.on_microbatch = on_microbatch;
  options.on_room = on_room;
  options.on_failure = on_failure;
  outer = make_pipeline(&options);
  ovl_lane_t pool = add_lane(outer, OVL_LANE_POOL, 1), on_loop = add_lane(outer, OVL_LANE_LOOP, 1);
  add_stage(outer, pool, run_op, NULL);
  add_stage(outer, on_loop, run_op, NULL);
  add_polled(OVL_LANE_POOL, NULL);
  add_polled(OVL_LANE_LOOP, outer);
  ovl_stage_options_t stage = stage_options(on_loop, wait_for_cancel, NULL);
  stage.cancel = on_cancel;
  add_stage_with(outer, &stage);
  for (int i = 0; i < 3; i++)
    assert_int_equal(ovl_pipeline_submit(outer, NULL), 0);
  assert_int_equal(ovl_pipeline_submit(outer, NULL), OVL_EAGAIN); /* so on_room will be called */
}

static void check_places(bool blocking) {
  for (place_t place = 0; place < PLACES; place++)
    if (!(blocking && (place == IN_DONE || place == IN_CLOSED)))
      expect(atomic_load(&tried[place]) > 0, "%s was not tried", names[place]);
  expect(stats_of(other).ops == 0, "a run that was refused has run");
  assert_no_faults("a blocking run inside a callback");
}

static void set_up(bool blocking) {
  watchdog_expect("a pipeline with every callback");
  memset(tried, 0, sizeof tried);
  on_own_loop = blocking;
  inner_done = 0;
  atomic_store(&inner_ops, 0);
  other = make_inner();
  for (int i = 0; i < PLACES; i++)
    inner[i] = make_inner();
  describe_outer();
}

static unsigned tear_down(void) {
  unsigned started = 0;
  for (int i = 0; i < PLACES; i++) {
    started += stats_of(inner[i]).microbatches == 5;
    ovl_pipeline_close(inner[i], NULL);
  }
  atomic_store(&inner_ops, 0);
  assert_int_equal(ovl_pipeline_run(other, 3), 0); /* outside of callbacks it runs */
  assert_int_equal(atomic_load(&inner_ops), 6);
  ovl_pipeline_close(other, NULL);
  return started;
}

static void case_08_run_is_refused_and_start_works_in_callbacks(void **state) {
  (void)state;
  set_up(false);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(outer, &loop, OVL_STREAMING, on_done), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  check_places(false);
  assert_int_equal(uv_loop_close(&loop), 0);
  unsigned done = inner_done;
  assert_int_equal(tear_down(), PLACES - 2); /* not from the two places on the pool */
  assert_int_equal(done, PLACES - 2);
}

static void case_08_run_is_refused_inside_a_blocking_run(void **state) {
  (void)state;
  set_up(true);
  assert_int_equal(ovl_pipeline_run(outer, OVL_STREAMING), OVL_ECANCELED);
  check_places(true);
  ovl_pipeline_close(outer, NULL);
  assert_int_equal(tear_down(), 0);
}

/* A thread that is in no callback may block, while a run is in flight elsewhere. */
static uv_thread_t bystander;

static void run_other(void *unused) {
  (void)unused;
  int r = ovl_pipeline_run(other, 3);
  expect(r == 0, "a blocking run beside another run: %s", ovl_err_name(r));
}

static int start_bystander(ovl_op_t *op) {
  if (op->microbatch == 0)
    expect(uv_thread_create(&bystander, run_other, NULL) == 0, "no thread");
  return 0;
}

static void case_08_run_on_another_thread_works(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  outer = make_pipeline(&options);
  other = make_inner();
  add_stage(outer, add_lane(outer, OVL_LANE_LOOP, 1), start_bystander, NULL);
  assert_int_equal(ovl_pipeline_run(outer, 2000), 0);
  uv_thread_join(&bystander);
  assert_no_faults("a blocking run beside another");
  assert_int_equal(stats_of(other).microbatches, 3);
  ovl_pipeline_close(outer, NULL);
  ovl_pipeline_close(other, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_08_run_is_refused_and_start_works_in_callbacks),
      cmocka_unit_test(case_08_run_is_refused_inside_a_blocking_run),
      cmocka_unit_test(case_08_run_on_another_thread_works),
  };
  set_pool_size();
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
