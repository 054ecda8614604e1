/* SPDX-License-Identifier: MIT */
/* Case 5: a submit that comes after the end of its run has begun is refused at once, wherever it comes from; and
 * what was accepted is reported, however close the race was. [tokio 7499] */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

enum { ITEMS = 1 << 16, PRODUCERS = 3, OWN_ERROR = -4711, TRIGGER = 2 };

typedef enum ending { BY_FINISH, BY_CANCEL, BY_ERROR } ending_t;

static const char *const ending_names[] = {"finish", "cancel", "an error"};

/* From where the run is ended, and the late submit comes. */
typedef enum place { IN_POOL_OP, IN_LOOP_OP, IN_REPORT, IN_FAILURE, IN_POLL, IN_THREAD, PLACES } place_t;

static const char *const place_names[] = {"a pool op",  "a loop op",   "on_microbatch",
                                          "on_failure", "a poll hook", "another thread"};

typedef struct late {
  ovl_pipeline_t *pipeline;
  uv_loop_t loop;
  ending_t ending;
  place_t place;
  atomic_bool triggered, refused, thread_busy;
  bool over;
  int status; /* of the run */
  ovl_op_t *polled;
  uv_thread_t thread, producers[PRODUCERS];
  unsigned delay, error_at;
  atomic_bool stop; /* producers are to give up */
  atomic_uint next;
  atomic_uchar accepted[ITEMS], reported[ITEMS], ran[ITEMS]; /* by item; item 0 is none */
} late_t;

static late_t late; /* one at a time: it is large */

static unsigned number_of(const void *item) { return (unsigned)(uintptr_t)item; }

static int submit_number(unsigned number) {
  if (number >= ITEMS)
    return OVL_ETOOBIG;
  int r = ovl_pipeline_submit(late.pipeline, (void *)(uintptr_t)number);
  if (r == 0)
    atomic_store(&late.accepted[number], 1);
  return r;
}

static int submit_next(void) { return submit_number(atomic_fetch_add(&late.next, 1)); }

/* ---- ending a run and submitting from the same place ----------------------------------------------------------- */

static void submit_late(void) {
  int expected = late.ending == BY_FINISH ? OVL_EPIPE : OVL_ECANCELED;
  for (int i = 0; i < 3; i++) {
    int r = submit_next();
    expect(r == expected, "a submit from %s after %s: %s", place_names[late.place], ending_names[late.ending],
           ovl_err_name(r));
  }
  atomic_store(&late.refused, true);
}

static void end_and_submit(void) {
  int r = late.ending == BY_FINISH ? ovl_pipeline_finish(late.pipeline) : ovl_pipeline_cancel(late.pipeline);
  expect(r == 0, "%s from %s: %s", ending_names[late.ending], place_names[late.place], ovl_err_name(r));
  submit_late();
  expect(ovl_pipeline_finish(late.pipeline) == 0, "finish is refused, once there is nothing to finish");
  submit_late();
}

static void trigger(place_t place, uint64_t microbatch) {
  if (place == late.place && microbatch >= TRIGGER && !atomic_exchange(&late.triggered, true))
    end_and_submit();
}

static int run_op(ovl_op_t *op) {
  trigger(op->lane.id == 1 ? IN_POOL_OP : IN_LOOP_OP, op->microbatch);
  atomic_fetch_add(&late.ran[number_of(op->item)], 1);
  return late.ending == BY_ERROR && op->microbatch == late.error_at ? OWN_ERROR : 0;
}

static int pend(ovl_op_t *op) {
  late.polled = op;
  return OVL_PENDING;
}

static void poll_op(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
  trigger(IN_POLL, TRIGGER);
  expect(ovl_op_complete(late.polled, 0) == 0, "a completion was refused");
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  unsigned number = number_of(item);
  (void)p;
  if (number == 0) /* a counted run's */
    return;
  bool known = status == 0 || status == OVL_ECANCELED || (status == OWN_ERROR && late.ending == BY_ERROR);
  expect(known && (status != 0 || late.ran[number] > 0), "item %u was reported with %s", number,
         ovl_err_name(status));
  expect(atomic_fetch_add(&late.reported[number], 1) == 0, "item %u was reported twice", number);
  while (atomic_load(&late.thread_busy))
    sched_yield(); /* what the thread submits is late as long as the run is not over: it would be the next run's */
  if (!late.over)
    trigger(IN_REPORT, microbatch);
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)p;
  (void)failure;
  if (late.place == IN_FAILURE)
    submit_late();
}

static void on_done(ovl_pipeline_t *p, int status) {
  (void)p;
  expect(!late.over, "done was called twice");
  late.over = true;
  late.status = status;
}

static void late_open(ending_t ending, place_t place) {
  memset(&late, 0, sizeof late);
  late.ending = ending;
  late.place = place;
  late.error_at = TRIGGER;
  atomic_store(&late.next, 1);
  watchdog_expect(place_names[place]);
  assert_int_equal(uv_loop_init(&late.loop), 0);
  ovl_pipeline_options_t options = pipeline_options(2);
  options.queue = 4;
  options.on_microbatch = on_microbatch;
  options.on_failure = on_failure;
  late.pipeline = make_pipeline(&options);
  ovl_lane_options_t polled = lane_options("polled", POOL, 1);
  polled.poll = poll_op;
  add_stage(late.pipeline, add_lane(late.pipeline, POOL, 1), run_op, NULL);
  add_stage(late.pipeline, add_lane_with(late.pipeline, &polled), pend, NULL);
  add_stage(late.pipeline, add_lane(late.pipeline, LOOP, 1), run_op, NULL);
}

/* Whatever was accepted has been reported, once the pipeline is closed. */
static void late_close(const char *where) {
  ovl_pipeline_close(late.pipeline, NULL);
  expect(uv_loop_close(&late.loop) == 0, "something is left in the loop");
  expect(late.over, "done was not called");
  int expected = late.ending == BY_FINISH ? 0 : late.ending == BY_CANCEL ? OVL_ECANCELED : OWN_ERROR;
  expect(late.status == expected, "the run ended with %s", ovl_err_name(late.status));
  for (unsigned i = 1; i < ITEMS; i++)
    expect(late.accepted[i] == late.reported[i], "item %u was %s", i,
           late.accepted[i] ? "accepted and lost" : "refused and reported");
  assert_no_faults(where);
}

static void end_from_thread(void *unused) {
  (void)unused;
  end_and_submit();
  atomic_store(&late.thread_busy, false);
}

static void submit_some(int count) {
  for (int i = 0; i < count; i++)
    assert_int_equal(submit_next(), 0);
}

static void run_late(ending_t ending, place_t place) {
  late_open(ending, place);
  atomic_store(&late.thread_busy, place == IN_THREAD);
  submit_some(6);
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, OVL_STREAMING, on_done), 0);
  if (place == IN_THREAD)
    assert_int_equal(uv_thread_create(&late.thread, end_from_thread, NULL), 0);
  uv_run(&late.loop, UV_RUN_DEFAULT);
  if (place == IN_THREAD)
    uv_thread_join(&late.thread);
  assert_true(atomic_load(&late.refused));
  late_close(place_names[place]);
}

static void case_05_late_submits_are_refused_at_once(void **state) {
  (void)state;
  for (place_t place = 0; place < PLACES; place++) {
    if (place == IN_FAILURE)
      continue;
    run_late(BY_FINISH, place);
    run_late(BY_CANCEL, place);
  }
  run_late(BY_ERROR, IN_FAILURE);
}

/* ---- between runs ------------------------------------------------------------------------------------------------ */

static void case_05_finish_before_start(void **state) {
  (void)state;
  late_open(BY_FINISH, IN_THREAD);
  submit_some(3);
  end_and_submit();
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, OVL_STREAMING, on_done), 0);
  submit_late();
  uv_run(&late.loop, UV_RUN_DEFAULT);
  late_close("finish before start");
}

static void start_anew(ovl_pipeline_t *p, int status) {
  on_done(p, status);
  late.over = false;
  submit_some(2); /* these are the next run's */
  expect(ovl_pipeline_start(p, &late.loop, OVL_STREAMING, on_done) == 0, "start inside done was refused");
  expect(submit_next() == 0, "a submit to the next run was refused");
  end_and_submit();
}

static void case_05_submits_inside_done_are_the_next_runs(void **state) {
  (void)state;
  late_open(BY_FINISH, IN_THREAD);
  submit_some(3);
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, OVL_STREAMING, start_anew), 0);
  assert_int_equal(ovl_pipeline_finish(late.pipeline), 0);
  uv_run(&late.loop, UV_RUN_DEFAULT);
  assert_int_equal(stats_of(late.pipeline).microbatches, 3);
  late_close("submits inside done");
}

static void case_05_counted_runs_take_no_items(void **state) {
  (void)state;
  late_open(BY_FINISH, IN_THREAD);
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, 3, on_done), 0);
  assert_int_equal(submit_next(), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_finish(late.pipeline), OVL_EINVAL);
  uv_run(&late.loop, UV_RUN_DEFAULT);
  assert_int_equal(late.status, 0);
  submit_some(3);
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, 3, on_done), OVL_EITEMS);
  assert_int_equal(ovl_pipeline_run(late.pipeline, 3), OVL_EITEMS);
  late_close("a counted run"); /* which gives the three back */
}

static void case_05_a_finish_outlasts_counted_runs(void **state) {
  (void)state;
  late_open(BY_FINISH, IN_THREAD);
  assert_int_equal(ovl_pipeline_finish(late.pipeline), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ovl_pipeline_run(late.pipeline, 3), 0);
    assert_int_equal(submit_next(), OVL_EPIPE);
  }
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, OVL_STREAMING, on_done), 0);
  uv_run(&late.loop, UV_RUN_DEFAULT); /* ends */
  submit_some(1);                     /* the next run's */
  late_close("a finish, counted runs, a streaming run");
}

/* ---- races -------------------------------------------------------------------------------------------------------- */

/* An item that finds no room is offered again: else they would run out while nobody runs ops, and the run would wait for
 * ever for the one that ends it. */
static void produce(void *unused) {
  (void)unused;
  int r = 0;
  unsigned number = 0;
  while (!atomic_load(&late.stop) && (r == 0 || r == OVL_EAGAIN)) {
    if (r == OVL_EAGAIN)
      sched_yield();
    else
      number = atomic_fetch_add(&late.next, 1);
    r = submit_number(number);
  }
  int expected = late.ending == BY_FINISH ? OVL_EPIPE : OVL_ECANCELED;
  expect(r == 0 || r == OVL_EAGAIN || r == OVL_ETOOBIG || r == expected, "a submit while the run ends: %s",
         ovl_err_name(r));
}

static void end_after_a_while(void *unused) {
  (void)unused;
  for (unsigned i = 0; i < late.delay; i++)
    atomic_thread_fence(memory_order_seq_cst);
  if (late.ending == BY_FINISH)
    expect(ovl_pipeline_finish(late.pipeline) == 0, "finish was refused");
  else if (late.ending == BY_CANCEL)
    expect(ovl_pipeline_cancel(late.pipeline) == 0, "cancel was refused");
}

static void run_race(ending_t ending, unsigned round) {
  late_open(ending, PLACES - 1);
  late.place = PLACES; /* none */
  late.delay = (round * 2654435761u >> 16) % 20000;
  late.error_at = late.delay % 23;
  assert_int_equal(ovl_pipeline_start(late.pipeline, &late.loop, OVL_STREAMING, on_done), 0);
  for (int i = 0; i < PRODUCERS; i++)
    assert_int_equal(uv_thread_create(&late.producers[i], produce, NULL), 0);
  assert_int_equal(uv_thread_create(&late.thread, end_after_a_while, NULL), 0);
  uv_run(&late.loop, UV_RUN_DEFAULT);
  atomic_store(&late.stop, true); /* what they submit from now on is the next run's, which will not come */
  for (int i = 0; i < PRODUCERS; i++)
    uv_thread_join(&late.producers[i]);
  uv_thread_join(&late.thread);
  late_close(ending_names[ending]);
}

static void case_05_submits_race_with_the_end(void **state) {
  (void)state;
  for (unsigned round = 0; round < test_count(1000); round++) {
    run_race(BY_FINISH, round);
    run_race(BY_CANCEL, round);
    run_race(BY_ERROR, round);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_05_late_submits_are_refused_at_once),
      cmocka_unit_test(case_05_finish_before_start),
      cmocka_unit_test(case_05_submits_inside_done_are_the_next_runs),
      cmocka_unit_test(case_05_counted_runs_take_no_items),
      cmocka_unit_test(case_05_a_finish_outlasts_counted_runs),
      cmocka_unit_test(case_05_submits_race_with_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
