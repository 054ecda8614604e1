/* SPDX-License-Identifier: MIT */
/* Case 7: calls from threads that are not the loop's. Every function of libuv that only the loop's thread
 * may call is wrapped (the linker's --wrap), so that a call from elsewhere is seen. [libuv 3118, 4837] */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/scale.h"
#include "support/watchdog.h"

/* ---- libuv under watch ------------------------------------------------------------------------------------------- */

static _Thread_local bool is_loop_thread; /* the loop that the run is on belongs to this thread */
static atomic_uint watched_calls;

static void on_loop_thread_only(const char *name) {
  atomic_fetch_add_explicit(&watched_calls, 1, memory_order_relaxed); /* orders nothing */
  expect(is_loop_thread, "%s was called off the loop's thread", name);
}

/* XX(name, parameters, arguments): functions that return int. */
#define LOOP_FUNCTIONS(XX)                                                                        \
  XX(uv_async_init, (uv_loop_t * loop, uv_async_t * async, uv_async_cb cb), (loop, async, cb))    \
  XX(uv_cancel, (uv_req_t * req), (req))                                                          \
  XX(uv_check_init, (uv_loop_t * loop, uv_check_t * check), (loop, check))                        \
  XX(uv_check_start, (uv_check_t * check, uv_check_cb cb), (check, cb))                           \
  XX(uv_check_stop, (uv_check_t * check), (check))                                                \
  XX(uv_idle_init, (uv_loop_t * loop, uv_idle_t * idle), (loop, idle))                            \
  XX(uv_idle_start, (uv_idle_t * idle, uv_idle_cb cb), (idle, cb))                                \
  XX(uv_idle_stop, (uv_idle_t * idle), (idle))                                                    \
  XX(uv_prepare_init, (uv_loop_t * loop, uv_prepare_t * prepare), (loop, prepare))                \
  XX(uv_prepare_start, (uv_prepare_t * prepare, uv_prepare_cb cb), (prepare, cb))                 \
  XX(uv_prepare_stop, (uv_prepare_t * prepare), (prepare))                                        \
  XX(uv_queue_work, (uv_loop_t * loop, uv_work_t * req, uv_work_cb work, uv_after_work_cb after), \
     (loop, req, work, after))                                                                    \
  XX(uv_timer_again, (uv_timer_t * timer), (timer))                                               \
  XX(uv_timer_init, (uv_loop_t * loop, uv_timer_t * timer), (loop, timer))                        \
  XX(uv_timer_start, (uv_timer_t * timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat),     \
     (timer, cb, timeout, repeat))                                                                \
  XX(uv_timer_stop, (uv_timer_t * timer), (timer))

#define WRAP(name, parameters, arguments) \
  int __real_##name parameters;           \
  int __wrap_##name parameters;           \
  int __wrap_##name parameters {          \
    on_loop_thread_only(#name);           \
    return __real_##name arguments;       \
  }
LOOP_FUNCTIONS(WRAP)

void __real_uv_close(uv_handle_t *handle, uv_close_cb cb);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb cb);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb cb) {
  on_loop_thread_only("uv_close");
  __real_uv_close(handle, cb);
}

/* Never to be called by the library on a loop that it did not make, nor by the run of any thread but its own. */
static atomic_bool loop_is_ours;        /* the run is on a loop of the test's */
static _Thread_local bool in_test_call; /* of uv_run or uv_loop_close */

int __real_uv_run(uv_loop_t *loop, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode) {
  expect(in_test_call || !atomic_load(&loop_is_ours), "the library called uv_run on the application's loop");
  return __real_uv_run(loop, mode);
}

int __real_uv_loop_close(uv_loop_t *loop);
int __wrap_uv_loop_close(uv_loop_t *loop);
int __wrap_uv_loop_close(uv_loop_t *loop) {
  expect(in_test_call || !atomic_load(&loop_is_ours),
         "the library called uv_loop_close on the application's loop");
  return __real_uv_loop_close(loop);
}

void __wrap_uv_stop(uv_loop_t *loop);
void __wrap_uv_stop(uv_loop_t *loop) {
  (void)loop;
  note_fault("the library called uv_stop");
}

uv_loop_t *__wrap_uv_default_loop(void);
uv_loop_t *__wrap_uv_default_loop(void) {
  note_fault("the library called uv_default_loop");
  return NULL;
}

static void turn_until_empty(uv_loop_t *loop) {
  in_test_call = true;
  uv_run(loop, UV_RUN_DEFAULT);
  in_test_call = false;
}

/* ---- a pipeline in which everything happens ---------------------------------------------------------------------- */

enum { WINDOW = 5, STAGES = 6 };

typedef enum caller { BY_WORKER, BY_LOOP, BY_STRANGER } caller_t;

typedef struct busy {
  ovl_pipeline_t *pipeline;
  uv_loop_t loop;
  const char *name;
  caller_t caller; /* who ends the run */
  bool cancels;    /* how */
  uint64_t end_at; /* microbatch */
  foreign_t foreign;
  atomic_bool end_wanted, ended, over;
  int status;
  _Atomic(ovl_op_t *) meeting[WINDOW]; /* by slot: the op that the helper is to complete */
  ovl_op_t *polled[2];                 /* by lane; no lock: `run` and poll of a lane never overlap */
  int polls[2];
  uv_thread_t stranger;
  atomic_uint accepted, reported;
} busy_t;

static ovl_op_t helper_was_here; /* in place of an op: the helper came first */

static void submit_one(busy_t *b) {
  int r = ovl_pipeline_submit(b->pipeline, b);
  expect(r == 0 || r == OVL_EAGAIN || r == OVL_EPIPE || r == OVL_ECANCELED, "submit: %s", ovl_err_name(r));
  if (r == 0)
    atomic_fetch_add(&b->accepted, 1);
}

static void end_run(busy_t *b) {
  if (atomic_exchange(&b->ended, true))
    return;
  int r = b->cancels ? ovl_pipeline_cancel(b->pipeline) : ovl_pipeline_finish(b->pipeline);
  expect(r == 0, "%s: %s", b->name, ovl_err_name(r));
}

static void look_at(busy_t *b) {
  ovl_stats_t stats;
  ovl_lane_stats_t lane;
  ovl_stage_stats_t stage;
  ovl_failure_t failure;
  ovl_stats_init(&stats);
  ovl_lane_stats_init(&lane);
  ovl_stage_stats_init(&stage);
  ovl_failure_init(&failure);
  expect(ovl_pipeline_stats(b->pipeline, &stats) == 0, "stats were refused");
  expect(ovl_pipeline_lane_stats(b->pipeline, (ovl_lane_t){1}, &lane) == 0, "lane stats were refused");
  expect(ovl_pipeline_stage_stats(b->pipeline, (ovl_stage_t){1}, &stage) == 0, "stage stats were refused");
  expect(ovl_pipeline_failure(b->pipeline, &failure) == 0, "failure was refused");
  expect(stats.bound_ns <= stats.elapsed_ns, "a snapshot is faster than its bound");
}

/* A thread that knows nothing of libuv. */
static void be_strange(void *argument) {
  busy_t *b = argument;
  while (!atomic_load(&b->over)) {
    if (!atomic_load(&b->ended))
      submit_one(b);
    look_at(b);
    if (b->caller == BY_STRANGER && atomic_load(&b->end_wanted))
      end_run(b);
    uv_sleep(1);
  }
}

static void want_end(busy_t *b, caller_t caller, uint64_t microbatch) {
  if (microbatch < b->end_at)
    return;
  atomic_store(&b->end_wanted, true);
  if (b->caller == caller)
    end_run(b);
}

static int feed(ovl_op_t *op) { /* a worker submits */
  busy_t *b = op->data;
  submit_one(b);
  want_end(b, BY_WORKER, op->microbatch);
  return 0;
}

static void complete(ovl_op_t *op, int status) {
  int r = ovl_op_complete(op, status);
  expect(r == 0 || r == OVL_EALREADY, "ovl_op_complete: %s", ovl_err_name(r));
}

static int meet(ovl_op_t *op) {
  busy_t *b = op->data;
  want_end(b, BY_LOOP, op->microbatch);
  if (atomic_exchange(&b->meeting[op->slot], op) == &helper_was_here)
    complete(op, 0);
  return OVL_PENDING;
}

static int help(ovl_op_t *op) { /* a worker completes another op */
  busy_t *b = op->data;
  ovl_op_t *other = atomic_exchange(&b->meeting[op->slot], &helper_was_here);
  if (other != NULL)
    complete(other, 0);
  return 0;
}

static int give_up(ovl_op_t *op) { /* meet's cancel hook: its helper may never come */
  complete(op, OVL_ECANCELED);
  return 0;
}

static int clear(ovl_op_t *op) { /* always: the meeting is over */
  busy_t *b = op->data;
  atomic_store(&b->meeting[op->slot], NULL);
  return 0;
}

static int give(ovl_op_t *op) {
  busy_t *b = op->data;
  foreign_give(&b->foreign, op);
  return OVL_PENDING;
}

static int await_polls(ovl_op_t *op) {
  busy_t *b = op->data;
  int which = op->stage.id == STAGES;
  b->polled[which] = op;
  b->polls[which] = (int)(op->microbatch % 6);
  return OVL_PENDING;
}

static void poll_op(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  busy_t *b = ovl_pipeline_data(p);
  int which = *(const int *)data;
  (void)lane;
  if (b->polled[which] == NULL || b->polls[which]-- > 0)
    return;
  ovl_op_t *op = b->polled[which];
  b->polled[which] = NULL;
  complete(op, 0);
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  busy_t *b = ovl_pipeline_data(p);
  (void)microbatch;
  expect(is_loop_thread, "on_microbatch was called off the loop's thread");
  /* After the run, close gives back what the stranger submitted too late. */
  expect(item == b && (status == 0 || ((b->cancels || atomic_load(&b->over)) && status == OVL_ECANCELED)),
         "a report of %s", ovl_err_name(status));
  atomic_fetch_add(&b->reported, 1);
}

static void on_room(ovl_pipeline_t *p) {
  expect(is_loop_thread, "on_room was called off the loop's thread");
  submit_one(ovl_pipeline_data(p));
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  const busy_t *b = ovl_pipeline_data(p);
  expect(is_loop_thread, "on_failure was called off the loop's thread");
  expect(b->cancels && failure->status == OVL_ECANCELED, "a failure: %s", ovl_err_name(failure->status));
}

static void on_done(ovl_pipeline_t *p, int status) {
  busy_t *b = ovl_pipeline_data(p);
  expect(is_loop_thread, "done was called off the loop's thread");
  b->status = status;
  atomic_store(&b->over, true);
}

static void add_busy_stage(busy_t *b, ovl_lane_t lane, ovl_op_cb run, bool unchained, ovl_op_cb cancel) {
  ovl_stage_options_t stage = stage_options(lane, run, b);
  stage.unchained = unchained;
  stage.cancel = cancel;
  stage.always = run == clear;
  stage.timeout_ns = UINT64_C(600) * 1000000000; /* so there is a timer, too */
  add_stage_with(b->pipeline, &stage);
}

static void describe_busy(busy_t *b) {
  static int which[2] = {0, 1};
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.data = b;
  options.on_microbatch = on_microbatch;
  options.on_room = on_room;
  options.on_failure = on_failure;
  b->pipeline = make_pipeline(&options);
  ovl_lane_t pool = add_lane(b->pipeline, OVL_LANE_POOL, 2), loop = add_lane(b->pipeline, OVL_LANE_LOOP, 2);
  ovl_lane_options_t polled = lane_options("polled", OVL_LANE_POOL, 1);
  polled.poll = poll_op;
  polled.data = &which[0];
  ovl_lane_t polled_pool = add_lane_with(b->pipeline, &polled);
  polled.kind = OVL_LANE_LOOP;
  polled.data = &which[1];
  ovl_lane_t polled_loop = add_lane_with(b->pipeline, &polled);
  add_busy_stage(b, pool, feed, false, NULL);
  add_busy_stage(b, loop, meet, true, give_up);
  add_busy_stage(b, pool, help, true, NULL);
  add_busy_stage(b, loop, give, false, NULL);
  add_busy_stage(b, polled_pool, await_polls, false, NULL);
  add_busy_stage(b, polled_loop, await_polls, false, NULL);
  add_busy_stage(b, pool, clear, false, NULL);
  assert_int_equal(ovl_pipeline_add_dependency(b->pipeline, (ovl_stage_t){2}, (ovl_stage_t){4}, 0), 0);
}

static void run_busy(const char *name, caller_t caller, bool cancels) {
  static busy_t busy;
  busy_t *b = &busy;
  memset(b, 0, sizeof *b);
  b->name = name;
  b->caller = caller;
  b->cancels = cancels;
  b->end_at = TEST_SANITIZED ? 30 : 300;
  watchdog_expect(name);
  describe_busy(b);
  foreign_start(&b->foreign, 2, WINDOW, NULL);
  assert_int_equal(uv_loop_init(&b->loop), 0);
  atomic_store(&loop_is_ours, true);
  submit_one(b);
  assert_int_equal(ovl_pipeline_start(b->pipeline, &b->loop, OVL_STREAMING, on_done), 0);
  assert_int_equal(uv_thread_create(&b->stranger, be_strange, b), 0);
  turn_until_empty(&b->loop);
  uv_thread_join(&b->stranger);
  foreign_stop(&b->foreign);
  expect(atomic_load(&b->over), "done was not called");
  expect(b->status == (cancels ? OVL_ECANCELED : 0), "the run ended with %s", ovl_err_name(b->status));
  ovl_pipeline_close(b->pipeline, NULL);
  expect(atomic_load(&b->accepted) == atomic_load(&b->reported), "%u items were accepted and %u reported",
         atomic_load(&b->accepted), atomic_load(&b->reported));
  in_test_call = true;
  expect(uv_loop_close(&b->loop) == 0, "something is left in the loop");
  in_test_call = false;
  atomic_store(&loop_is_ours, false);
  assert_no_faults(name);
  assert_true(atomic_exchange(&watched_calls, 0) > 0);
}

static void case_07_calls_from_workers_and_strangers(void **state) {
  (void)state;
  is_loop_thread = true;
  for (int round = 0; round < 3; round++) {
    run_busy("finish by a worker", BY_WORKER, false);
    run_busy("finish by a loop op", BY_LOOP, false);
    run_busy("finish by a stranger", BY_STRANGER, false);
    run_busy("cancel by a worker", BY_WORKER, true);
    run_busy("cancel by a loop op", BY_LOOP, true);
    run_busy("cancel by a stranger", BY_STRANGER, true);
  }
}

/* ---- blocking runs on several threads at once ---------------------------------------------------------------------- */

static int count_op(ovl_op_t *op) {
  atomic_fetch_add((atomic_uint *)op->data, 1);
  return 0;
}

static void run_blocking(void *argument) {
  is_loop_thread = true;
  int r = ovl_pipeline_run(argument, 200);
  expect(r == 0, "a blocking run on a thread of its own: %s", ovl_err_name(r));
}

static void case_07_blocking_runs_on_several_threads(void **state) {
  enum { THREADS = 3 };
  uv_thread_t threads[THREADS];
  ovl_pipeline_t *pipelines[THREADS];
  atomic_uint counts[THREADS];
  (void)state;
  watchdog_expect("blocking runs on several threads");
  for (int i = 0; i < THREADS; i++) {
    ovl_pipeline_options_t options = pipeline_options(3);
    pipelines[i] = make_pipeline(&options);
    atomic_init(&counts[i], 0);
    add_stage(pipelines[i], add_lane(pipelines[i], OVL_LANE_POOL, 1), count_op, &counts[i]);
    add_stage(pipelines[i], add_lane(pipelines[i], OVL_LANE_LOOP, 1), count_op, &counts[i]);
    assert_int_equal(uv_thread_create(&threads[i], run_blocking, pipelines[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    assert_int_equal(atomic_load(&counts[i]), 400);
    ovl_pipeline_close(pipelines[i], NULL);
  }
  assert_no_faults("blocking runs on several threads");
}

/* One after another, on threads that nothing orders but the clock: nothing of an ended run, in the library or in
 * what it keeps of the pool, may be touched by the next one without having been handed over. */
typedef struct turn {
  ovl_pipeline_t *pipeline;
  atomic_int *whose;
  int mine;
} turn_t;

static void run_in_turn(void *argument) {
  const turn_t *turn = argument;
  while (atomic_load_explicit(turn->whose, memory_order_relaxed) != turn->mine)
    uv_sleep(1);
  run_blocking(turn->pipeline);
  atomic_store_explicit(turn->whose, turn->mine + 1, memory_order_relaxed);
}

static void case_07_blocking_runs_one_after_another(void **state) {
  enum { THREADS = 4 };
  uv_thread_t threads[THREADS];
  turn_t turns[THREADS];
  atomic_uint counts[THREADS];
  atomic_int whose;
  (void)state;
  watchdog_expect("blocking runs one after another");
  atomic_init(&whose, 0);
  for (int i = 0; i < THREADS; i++) {
    ovl_pipeline_options_t options = pipeline_options(3);
    turns[i] = (turn_t){make_pipeline(&options), &whose, i};
    atomic_init(&counts[i], 0);
    add_stage(turns[i].pipeline, add_lane(turns[i].pipeline, OVL_LANE_POOL, 1), count_op, &counts[i]);
    assert_int_equal(uv_thread_create(&threads[i], run_in_turn, &turns[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    assert_int_equal(atomic_load(&counts[i]), 200);
    ovl_pipeline_close(turns[i].pipeline, NULL);
  }
  assert_no_faults("blocking runs one after another");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_07_calls_from_workers_and_strangers),
      cmocka_unit_test(case_07_blocking_runs_on_several_threads),
      cmocka_unit_test(case_07_blocking_runs_one_after_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
