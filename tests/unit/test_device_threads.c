/* SPDX-License-Identifier: MIT */
/* Shows device lanes on a device whose streams are threads: slots are kept apart also when one side is late, and a device that
 * fails at any point ends the run with its code and leaves nothing hanging. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "device_threads.h"
#include "support/describe.h"
#include "support/watchdog.h"

enum { MICROBATCHES = 40, WINDOW = 2, STAGES = 3 };

static device_threads_t device;
static device_threads_stream_t *streams[STAGES];

/* A slot goes round: compute fills it, comm empties it, and who finds it otherwise came too early or too late. */
static atomic_ullong slots[WINDOW];
static atomic_uint wrong, computed, sent, logged;

typedef struct piece {
  uint64_t microbatch;
  uint32_t slot;
} piece_t;

static piece_t pieces[2][MICROBATCHES];

static void compute(void *data) {
  const piece_t *piece = data;
  atomic_fetch_add(&wrong, atomic_exchange(&slots[piece->slot], piece->microbatch + 1) != 0);
  atomic_fetch_add(&computed, 1);
}

static void send_on(void *data) {
  const piece_t *piece = data;
  atomic_fetch_add(&wrong, atomic_exchange(&slots[piece->slot], 0) != piece->microbatch + 1);
  atomic_fetch_add(&wrong, atomic_fetch_add(&sent, 1) != piece->microbatch);
}

static int put(ovl_op_t *op, int kind, device_threads_work_cb work) {
  pieces[kind][op->microbatch] = (piece_t){.microbatch = op->microbatch, .slot = op->slot};
  return device_threads_launch(op->stream, work, &pieces[kind][op->microbatch]);
}

static int run_compute(ovl_op_t *op) { return put(op, 0, compute); }
static int run_comm(ovl_op_t *op) { return put(op, 1, send_on); }

/* On the host: what it looks at has been sent. */
static int run_log(ovl_op_t *op) {
  atomic_fetch_add(&wrong, atomic_load(&sent) <= op->microbatch);
  atomic_fetch_add(&logged, 1);
  return 0;
}

static ovl_lane_t add_stream(ovl_pipeline_t *p, int index) {
  ovl_lane_options_t options = lane_options(NULL, OVL_LANE_DEVICE, 0);
  options.device = &device.table;
  options.stream = streams[index];
  return add_lane_with(p, &options);
}

static ovl_pipeline_t *make(bool log) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_stream(p, 0), run_compute, NULL);
  add_stage(p, add_stream(p, 1), run_comm, NULL);
  if (log)
    add_stage(p, add_lane(p, OVL_LANE_POOL, 1), run_log, NULL);
  return p;
}

static int set_up(void **state) {
  (void)state;
  assert_int_equal(device_threads_init(&device), 0);
  for (int i = 0; i < STAGES; i++)
    assert_int_equal(device_threads_stream(&device, &streams[i]), 0);
  for (int i = 0; i < WINDOW; i++)
    atomic_store(&slots[i], 0);
  atomic_store(&wrong, 0);
  atomic_store(&computed, 0);
  atomic_store(&sent, 0);
  atomic_store(&logged, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  device_threads_finish(&device);
  return 0;
}

static void assert_all_done(void) {
  assert_int_equal(atomic_load(&wrong), 0);
  assert_int_equal(atomic_load(&computed), MICROBATCHES);
  assert_int_equal(atomic_load(&sent), MICROBATCHES);
}

static void slots_are_kept_apart(void **state) {
  (void)state;
  for (int log = 0; log < 2; log++)
    for (uint64_t delay = 0; delay <= 200000; delay += 200000) {
      set_up(NULL);
      device_threads_delay(&device, delay); /* events come late, and are asked for early */
      ovl_pipeline_t *p = make(log);
      watchdog_expect("a run on streams that are threads");
      assert_int_equal(ovl_pipeline_run(p, MICROBATCHES), 0);
      assert_all_done();
      assert_int_equal(atomic_load(&logged), log ? MICROBATCHES : 0);
      ovl_pipeline_close(p, NULL);
      tear_down(NULL);
    }
}

static void what_is_enqueued_is_done_in_order(void **state) {
  (void)state;
  ovl_pipeline_t *p = make(false);
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = MICROBATCHES;
  call.origin = streams[2];
  device_threads_delay(&device, 50000);
  assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
  device_threads_wait(streams[2]); /* which comes after all of it */
  assert_all_done();
  ovl_pipeline_close(p, NULL);
}

static void a_device_that_fails_ends_the_run(void **state) {
  (void)state;
  for (uint64_t works = 0; works < 2 * MICROBATCHES; works += 7) {
    set_up(NULL);
    ovl_pipeline_t *p = make(works % 2 == 0);
    device_threads_fail(&device, works, 719);
    watchdog_expect("a run on a device that fails");
    assert_int_equal(ovl_pipeline_run(p, MICROBATCHES), OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, 719);
    assert_int_equal(atomic_load(&computed) + atomic_load(&sent), works);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

static void sleep_long(void *data) {
  (void)data;
  uv_sleep(250);
}

static int run_long(ovl_op_t *op) { return device_threads_launch(op->stream, sleep_long, NULL); }

/* All are issued at once, and together they take longer than one may. */
static void deadlines_leave_out_the_time_in_the_queue(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.issue_ahead = 6;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_stage_options_t stage = stage_options(add_stream(p, 0), run_long, NULL);
  stage.timeout_ns = 1000000000;
  add_stage_with(p, &stage);
  watchdog_expect("a run with deadlines");
  assert_int_equal(ovl_pipeline_run(p, 6), 0);
  ovl_pipeline_close(p, NULL);
}

/* The device's own times: no less than the works take, and in the order of the streams. */
static void the_device_tells_its_times(void **state) {
  (void)state;
  ovl_trace_record_t records[4];
  ovl_trace_t trace;
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.device_timing = OVL_DEVICE_TIMING_ALL;
  options.trace = 4;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_stream(p, 0), run_long, NULL);
  add_stage(p, add_stream(p, 1), run_long, NULL);
  watchdog_expect("a run that is timed");
  assert_int_equal(ovl_pipeline_run(p, 2), 0);
  ovl_trace_init(&trace, records, 4);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  assert_int_equal(trace.count, 4);
  for (size_t i = 0; i < trace.count; i++) {
    assert_true(records[i].end_ns - records[i].start_ns > 240000000);
    for (size_t k = 0; k < trace.count; k++)
      if (records[k].microbatch == records[i].microbatch && records[k].stage.id < records[i].stage.id)
        assert_true(records[k].end_ns <= records[i].start_ns);
  }
  ovl_pipeline_close(p, NULL);
}

static atomic_bool looked_enough;
static atomic_uint looks;

static void look_again(void *pipeline) {
  while (!atomic_load(&looked_enough)) {
    ovl_stage_stats_t stage;
    ovl_stage_stats_init(&stage);
    (void)ovl_pipeline_stage_stats(pipeline, (ovl_stage_t){1}, &stage);
    atomic_fetch_add(&wrong, stage.timed_ops > stage.ops);
    (void)stats_of(pipeline);
    atomic_fetch_add(&looks, 1);
  }
}

/* Also as runs start and end. What a thread may not look at then, a sanitizer says. */
static void times_may_be_looked_at_by_any_thread(void **state) {
  (void)state;
  uv_thread_t looker;
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.device_timing = OVL_DEVICE_TIMING_ALL;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_stream(p, 0), run_compute, NULL);
  add_stage(p, add_stream(p, 1), run_comm, NULL);
  atomic_store(&looked_enough, false);
  atomic_store(&looks, 0);
  assert_int_equal(uv_thread_create(&looker, look_again, p), 0);
  watchdog_expect("runs that are looked at");
  do {
    atomic_store(&sent, 0);
    assert_int_equal(ovl_pipeline_run(p, MICROBATCHES), 0);
  } while (atomic_load(&looks) < 100);
  atomic_store(&looked_enough, true);
  assert_int_equal(uv_thread_join(&looker), 0);
  assert_int_equal(atomic_load(&wrong), 0);
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_are_kept_apart),
      cmocka_unit_test_setup_teardown(what_is_enqueued_is_done_in_order, set_up, tear_down),
      cmocka_unit_test(a_device_that_fails_ends_the_run),
      cmocka_unit_test_setup_teardown(deadlines_leave_out_the_time_in_the_queue, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_device_tells_its_times, set_up, tear_down),
      cmocka_unit_test_setup_teardown(times_may_be_looked_at_by_any_thread, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
