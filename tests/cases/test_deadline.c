/* SPDX-License-Identifier: MIT */
/* Case 17: an op that outlives its deadline fails the run at once, but keeps its slot, and the pipeline its
 * memory, until it has really ended. Nothing here measures time: ops are held until the deadline has been told. */
#include "support/probe.h"

#define SHORT_NS UINT64_C(2000000)
#define HOURS_NS UINT64_C(36000000000000)

static const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};

enum { MICROBATCHES = 4 };

static void assert_timed_out(const probe_t *probe, const probe_event_t *event, uint32_t stage,
                             uint64_t microbatch) {
  const char name[] = {'S', (char)('0' + stage), '\0'};
  assert_non_null(event);
  assert_int_equal(event->failure.status, OVL_ETIMEDOUT);
  assert_int_equal(event->failure.native, 0);
  assert_int_equal(event->failure.stage.id, probe->stages[stage].id);
  assert_int_equal(event->failure.lane.id, probe->lanes[stage].id);
  assert_int_equal(event->failure.microbatch, microbatch);
  assert_string_equal(event->failure.stage_name, name);
}

static ovl_stage_stats_t stage_stats(const probe_t *probe, uint32_t stage) {
  ovl_stage_stats_t stats;
  ovl_stage_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stage_stats(probe->pipeline, probe->stages[stage], &stats), 0);
  return stats;
}

/* ---- one op outlives its deadline --------------------------------------------------------------------------- */

/* The deadline has been told: the op, and so its run, is still there. Then it ends with `status`. */
static void end_late(probe_t *probe, uint32_t stage, int status) {
  assert_true(probe_has(probe, PROBE_FAILURE, stage, 0));
  probe_turn_until_seen(probe, PROBE_HOOK, stage, 0);
  probe_turn_in_vain(probe);
  assert_int_equal(probe_count(probe, PROBE_DONE), 0);
  assert_false(probe_has(probe, PROBE_MICROBATCH, PROBE_NONE, 0));
  assert_int_equal(probe_complete(probe, probe_take(probe, stage, 0), status), 0);
  assert_int_equal(probe_finish(probe), OVL_ETIMEDOUT);
  assert_timed_out(probe, probe_nth(probe, PROBE_FAILURE, 0), stage, 0);
  assert_int_equal(probe->counts[PROBE_FAILURE], 1);
  assert_int_equal(stage_stats(probe, stage).failed, 1);
}

/* Each stage in turn hangs and has little time; how its op ends at last does not matter. */
static void case_17_any_op_outlives_its_deadline(void **state) {
  (void)state;
  const int statuses[] = {0, -5, 35, OVL_ECANCELED};
  for (uint32_t combination = 0; combination < 24; combination++) {
    uint32_t s = combination % 3;
    probe_options_t options = {.stage_count = 3, .window = 1 + combination % 2};
    for (uint32_t k = 0; k < 3; k++)
      options.stages[k] =
          (probe_stage_t){.way = ways[(combination + k) % 2], .timeout_ns = k == s ? SHORT_NS : HOURS_NS};
    probe_t *probe = probe_open(&options);
    probe_start(probe, MICROBATCHES);
    for (uint32_t k = 0; k < s; k++) {
      probe_turn_until_seen(probe, PROBE_STARTS, k, 0);
      assert_int_equal(probe_complete(probe, probe_take(probe, k, 0), 0), 0);
    }
    probe_turn_until(probe, PROBE_FAILURE, 1);
    for (uint32_t k = 0; k < s; k++) /* the second microbatch may have come so far */
      if (probe_has(probe, PROBE_STARTS, k, 1))
        assert_int_equal(probe_complete(probe, probe_take(probe, k, 1), 0), 0);
    end_late(probe, s, statuses[combination % 4]);
    probe_close(probe);
  }
}

/* A callback that blocks on the pool is awaited like any other, and its result comes too late. */
static void case_17_a_callback_that_blocks(void **state) {
  (void)state;
  for (int result = 0; result < 3; result++) {
    const probe_options_t options = {
        .stage_count = 2,
        .stages = {{.way = PROBE_POOL_GATED, .timeout_ns = SHORT_NS}, {.way = PROBE_LOOP}},
        .window = 2};
    probe_t *probe = probe_open(&options);
    probe->fault.status = result == 0 ? 0 : result == 1 ? -5 : 35;
    probe_start(probe, MICROBATCHES);
    probe_turn_until(probe, PROBE_HOOK, 1);
    assert_timed_out(probe, probe_nth(probe, PROBE_FAILURE, 0), 0, 0);
    assert_int_equal(probe_count(probe, PROBE_DONE), 0);
    probe_open_gate(probe);
    assert_int_equal(probe_finish(probe), OVL_ETIMEDOUT);
    assert_int_equal(probe->counts[PROBE_STARTS], 1);
    assert_int_equal(probe->counts[PROBE_HOOK], 1);
    probe_close(probe);
  }
}

/* ---- CONTINUE: the others go on, the slot does not ----------------------------------------------------------------- */

/* Microbatch k of `window` hangs. The others end (if late, they fail, which is no matter here); those behind it
 * wait for its slot, since admission is in order. */
static void hang_in_slot(uint32_t window, uint64_t k, probe_way_t way) {
  const probe_options_t options = {
      .stage_count = 2,
      .stages = {{.way = way, .width = 4, .timeout_ns = SHORT_NS}, {.way = PROBE_LOOP}},
      .window = window,
      .on_error = OVL_ON_ERROR_CONTINUE};
  probe_t *probe = probe_open(&options);
  probe_start(probe, 8);
  for (uint64_t i = 0; i < window + k; i++) {
    if (i == k)
      continue;
    probe_turn_until_seen(probe, PROBE_STARTS, 0, i);
    assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), 0), 0);
  }
  probe_turn_until_seen(probe, PROBE_FAILURE, 0, k);
  probe_turn_until(probe, PROBE_MICROBATCH, window + (uint32_t)k - 1);
  probe_turn_in_vain(probe);
  assert_false(probe_has(probe, PROBE_STARTS, 0, window + k));
  assert_int_equal(probe_complete(probe, probe_take(probe, 0, k), 0), 0);
  probe_open_gate(probe);
  assert_int_equal(probe_finish(probe), OVL_ETIMEDOUT);
  assert_int_equal(probe->counts[PROBE_MICROBATCH], 8);
  assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, k)->status, OVL_ETIMEDOUT);
  assert_null(probe_find(probe, PROBE_STARTS, 1, k));
  probe_close(probe);
}

static void case_17_the_slot_is_not_reused_before_the_op_has_ended(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 3; window++)
    for (uint64_t k = 0; k < window; k++)
      for (int way = 0; way < 2; way++)
        hang_in_slot(window, k, ways[way]);
}

/* Several hang at once: each is told and hooked once, and each microbatch alone is failed by it. */
static void case_17_several_at_once(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    const probe_options_t options = {.stage_count = 1,
                                     .stages = {{.way = ways[way], .width = 3, .timeout_ns = SHORT_NS}},
                                     .window = 3,
                                     .on_error = OVL_ON_ERROR_CONTINUE};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 3);
    probe_turn_until(probe, PROBE_HOOK, 3);
    assert_int_equal(probe_count(probe, PROBE_FAILURE), 3);
    for (uint64_t i = 3; i-- > 0;)
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), 0), 0);
    assert_int_equal(probe_finish(probe), OVL_ETIMEDOUT);
    for (uint32_t i = 0; i < 3; i++) {
      const probe_event_t *told = probe_nth(probe, PROBE_FAILURE, i);
      assert_timed_out(probe, told, 0, told->microbatch);
      assert_non_null(probe_find(probe, PROBE_FAILURE, 0, i));
      assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i)->status, OVL_ETIMEDOUT);
    }
    assert_int_equal(stage_stats(probe, 0).failed, 3);
    probe_close(probe);
  }
}

/* ---- what a cancel hook is for ---------------------------------------------------------------------------------------- */

/* The hook makes the request end: here, as with many a library, from within. */
static void complete_in_hook(probe_t *probe, const probe_event_t *event) {
  if (event->type != PROBE_HOOK)
    return;
  if (probe_complete(probe, probe_take(probe, event->stage, event->microbatch), OVL_ECANCELED) != 0)
    probe_die("a completion in a cancel hook was refused");
}

static void case_17_the_hook_ends_the_op(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++)
    for (uint32_t window = 1; window <= 2; window++) {
      const probe_options_t options = {.stage_count = 1,
                                       .stages = {{.way = ways[way], .timeout_ns = SHORT_NS}},
                                       .window = window,
                                       .on_event = complete_in_hook};
      probe_t *probe = probe_open(&options);
      assert_int_equal(probe_run(probe, MICROBATCHES), OVL_ETIMEDOUT);
      assert_int_equal(probe_run_blocking(probe, MICROBATCHES), OVL_ETIMEDOUT);
      assert_int_equal(probe->counts[PROBE_STARTS], 1);
      assert_int_equal(probe->counts[PROBE_HOOK], 1);
      assert_int_equal(probe->counts[PROBE_FAILURE], 1);
      probe_close(probe);
    }
}

/* The same with CONTINUE, where the slot has its next user as soon as it is free: not before the hook returns. */
static void complete_in_hook_and_linger(probe_t *probe, const probe_event_t *event) {
  complete_in_hook(probe, event);
  if (event->type == PROBE_HOOK)
    uv_sleep(5);
}

static void case_17_the_op_is_there_as_long_as_its_hook_runs(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 2; window++) {
    const probe_options_t options = {.stage_count = 1,
                                     .stages = {{.way = PROBE_POOL_HELD, .timeout_ns = SHORT_NS}},
                                     .window = window,
                                     .on_error = OVL_ON_ERROR_CONTINUE,
                                     .no_on_microbatch = true,
                                     .on_event = complete_in_hook_and_linger};
    probe_t *probe = probe_open(&options);
    assert_int_equal(probe_run(probe, MICROBATCHES), OVL_ETIMEDOUT);
    assert_int_equal(probe->counts[PROBE_HOOK], MICROBATCHES);
    assert_int_equal(probe->counts[PROBE_FAILURE], MICROBATCHES);
    probe_close(probe);
  }
}

/* ---- in time ------------------------------------------------------------------------------------------------------------ */

static void case_17_an_op_that_ends_in_time_has_not_failed(void **state) {
  (void)state;
  const uint64_t timeouts[] = {HOURS_NS, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
  for (int t = 0; t < 4; t++)
    for (int way = PROBE_POOL; way <= PROBE_LOOP_POLLED; way++) {
      const probe_options_t options = {.stage_count = 2,
                                       .stages = {{.way = (probe_way_t)way, .timeout_ns = timeouts[t]},
                                                  {.way = PROBE_LOOP, .timeout_ns = timeouts[3 - t]}},
                                       .window = 2};
      probe_t *probe = probe_open(&options);
      probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
      probe_close(probe);
    }
}

/* The loop's idea of the time is old when the run starts, so its timers fire early; an op is not late for that. */
static void case_17_a_loop_that_was_busy_is_not_in_a_hurry(void **state) {
  (void)state;
  const uint64_t timeout = UINT64_C(40000000), slack = UINT64_C(1000000);
  const probe_options_t options = {.stage_count = 1,
                                   .stages = {{.way = PROBE_POOL_HELD, .timeout_ns = timeout}}};
  probe_t *probe = probe_open(&options);
  uv_update_time(probe->loop);
  uv_sleep(80);
  uint64_t before = uv_hrtime();
  probe_start(probe, 1);
  probe_wait_for(probe, PROBE_STARTS, 1);
  probe_turn_until(probe, PROBE_FAILURE, 1);
  assert_true(uv_hrtime() - before + slack >= timeout);
  assert_int_equal(probe_complete(probe, probe_take(probe, 0, 0), 0), 0);
  assert_int_equal(probe_finish(probe), OVL_ETIMEDOUT);
  probe_close(probe);
}

static void count_turn(uv_prepare_t *handle) { ++*(uint32_t *)handle->data; }

static void stop_waiting(uv_timer_t *timer) {
  probe_t *probe = timer->data;
  uv_close((uv_handle_t *)timer, NULL);
  assert_int_equal(probe_complete(probe, probe_take(probe, 0, 0), 0), 0);
}

/* While nothing happens for 300 ms the loop sleeps: it does not look for deadlines that are years away. */
static void case_17_far_deadlines_leave_the_loop_asleep(void **state) {
  (void)state;
  const uint64_t timeouts[] = {HOURS_NS, UINT64_MAX / 2, UINT64_MAX};
  for (int t = 0; t < 3; t++) {
    const probe_options_t options = {.stage_count = 1,
                                     .stages = {{.way = PROBE_LOOP_HELD, .timeout_ns = timeouts[t]}}};
    probe_t *probe = probe_open(&options);
    uint32_t turns = 0;
    uv_timer_t timer = {.data = probe};
    uv_prepare_t prepare = {.data = &turns};
    uv_timer_init(probe->loop, &timer);
    uv_timer_start(&timer, stop_waiting, 300, 0);
    uv_prepare_init(probe->loop, &prepare);
    uv_prepare_start(&prepare, count_turn);
    uv_unref((uv_handle_t *)&prepare);
    probe_start(probe, 1);
    probe_assert_complete(probe, probe_finish(probe), 1);
    assert_true(turns < 100);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_run(probe->loop, UV_RUN_DEFAULT);
    probe_close(probe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_17_any_op_outlives_its_deadline),
      cmocka_unit_test(case_17_a_callback_that_blocks),
      cmocka_unit_test(case_17_the_slot_is_not_reused_before_the_op_has_ended),
      cmocka_unit_test(case_17_several_at_once),
      cmocka_unit_test(case_17_the_hook_ends_the_op),
      cmocka_unit_test(case_17_the_op_is_there_as_long_as_its_hook_runs),
      cmocka_unit_test(case_17_an_op_that_ends_in_time_has_not_failed),
      cmocka_unit_test(case_17_a_loop_that_was_busy_is_not_in_a_hurry),
      cmocka_unit_test(case_17_far_deadlines_leave_the_loop_asleep),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
