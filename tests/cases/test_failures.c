/* SPDX-License-Identifier: MIT */
/* What on_failure is told, and when; which cancel hooks are called; what a run that continues after errors comes
 * to. (Guarantee 6. That every hook is called at most once, on the loop, is checked after every run.) */
#include "support/probe.h"

enum { MICROBATCHES = 4 };

static const probe_way_t held[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};

static ovl_stats_t stats_of(const probe_t *probe) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stats(probe->pipeline, &stats), 0);
  return stats;
}

static void assert_told(const probe_t *probe, uint32_t nth, int status, uint32_t stage, uint64_t microbatch) {
  const probe_event_t *told = probe_nth(probe, PROBE_FAILURE, nth);
  assert_non_null(told);
  assert_int_equal(told->failure.status, status);
  assert_int_equal(told->failure.microbatch, microbatch);
  if (stage == PROBE_NONE) {
    assert_int_equal(told->failure.stage.id, 0);
    assert_int_equal(told->failure.lane.id, 0);
    assert_string_equal(told->failure.stage_name, "");
    assert_string_equal(told->failure.lane_name, "");
  } else {
    const char name[] = {'S', (char)('0' + stage), '\0'};
    assert_int_equal(told->failure.stage.id, probe->stages[stage].id);
    assert_int_equal(told->failure.lane.id, probe->lanes[stage].id);
    assert_string_equal(told->failure.stage_name, name);
  }
}

/* ---- on_failure, STOP ------------------------------------------------------------------------------------------ */

/* Three ops are in flight. One fails: that is told while the others are still there. Then they fail too. */
static void on_failure_with_stop_is_called_once_and_at_once(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++)
    for (uint64_t first = 0; first < 3; first++) {
      const probe_options_t options = {
          .stage_count = 1, .stages = {{.way = held[way], .width = 3}}, .window = 3};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 8);
      probe_turn_until(probe, PROBE_STARTS, 3);
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, first), -20), 0);
      probe_turn_until(probe, PROBE_FAILURE, 1);
      probe_turn_until(probe, PROBE_HOOK, 2);
      assert_int_equal(probe_count(probe, PROBE_DONE), 0);
      for (uint64_t i = 0; i < 3; i++)
        if (i != first)
          assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), -21), 0);
      assert_int_equal(probe_finish(probe), -20);
      assert_int_equal(probe->counts[PROBE_FAILURE], 1);
      assert_told(probe, 0, -20, 0, first);
      assert_null(probe_find(probe, PROBE_HOOK, 0, first)); /* it had ended */
      assert_true(probe_nth(probe, PROBE_FAILURE, 0)->number < probe_nth(probe, PROBE_MICROBATCH, 0)->number);
      probe_close(probe);
    }
}

/* ---- on_failure, CONTINUE ---------------------------------------------------------------------------------------- */

/* Both ops of a microbatch fail: it is told once, with the first of the two. The other microbatch is not touched:
 * no hook, no error. */
static void on_failure_with_continue_is_called_once_for_a_microbatch(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++)
    for (uint32_t first = 0; first < 2; first++) {
      const probe_options_t options = {
          .stage_count = 2,
          .stages = {{.way = held[way], .width = 2}, {.way = held[1 - way], .width = 2, .unchained = true}},
          .window = 2,
          .on_error = OVL_ON_ERROR_CONTINUE};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 2);
      probe_turn_until(probe, PROBE_STARTS, 4);
      assert_int_equal(probe_complete(probe, probe_take(probe, first, 1), -30), 0);
      probe_turn_until(probe, PROBE_HOOK, 1);
      assert_int_equal(probe_complete(probe, probe_take(probe, 1 - first, 1), -31), 0);
      probe_turn_until(probe, PROBE_MICROBATCH, 1);
      probe_open_gate(probe);
      assert_int_equal(probe_finish(probe), -30);
      assert_int_equal(probe->counts[PROBE_FAILURE], 1);
      assert_told(probe, 0, -30, first, 1);
      assert_int_equal(probe->counts[PROBE_HOOK], 1);
      assert_non_null(probe_find(probe, PROBE_HOOK, 1 - first, 1));
      assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, 1)->status, -30);
      assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, 0)->status, 0);
      probe_close(probe);
    }
}

/* ---- on_failure, cancel -------------------------------------------------------------------------------------------- */

static void on_failure_is_called_once_for_a_cancel(void **state) {
  (void)state;
  for (int on_error = 0; on_error < 2; on_error++)
    for (int times = 1; times <= 3; times++) {
      const probe_options_t options = {.stage_count = 1,
                                       .stages = {{.way = PROBE_POOL_HELD, .width = 2}},
                                       .window = 2,
                                       .on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 8);
      probe_turn_until(probe, PROBE_STARTS, 2);
      for (int i = 0; i < times; i++)
        assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
      probe_turn_until(probe, PROBE_HOOK, 2);
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, 1), 0), 0);
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, 0), 0), 0);
      assert_int_equal(probe_finish(probe), OVL_ECANCELED);
      assert_int_equal(probe->counts[PROBE_FAILURE], 1);
      assert_told(probe, 0, OVL_ECANCELED, PROBE_NONE, OVL_NO_MICROBATCH);
      probe_close(probe);
    }
}

/* A microbatch fails, then the run is cancelled, before the loop could tell of either. The error is the first, so
 * it is what the run ends with, and with CONTINUE it is what is told first. */
static void on_failure_is_told_in_the_order_of_events(void **state) {
  (void)state;
  for (int on_error = 0; on_error < 2; on_error++) {
    const probe_options_t options = {.stage_count = 1,
                                     .stages = {{.way = PROBE_POOL_HELD, .width = 2}},
                                     .window = 2,
                                     .on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 8);
    ovl_op_t *other = probe_take(probe, 0, 0);
    assert_int_equal(probe_complete(probe, probe_take(probe, 0, 1), -40), 0);
    probe_await_error(probe, -40);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_int_equal(probe_complete(probe, other, -41), 0);
    probe_open_gate(probe);
    assert_int_equal(probe_finish(probe), -40);
    assert_told(probe, 0, -40, 0, 1);
    if (on_error == 1)
      assert_told(probe, 1, OVL_ECANCELED, PROBE_NONE, OVL_NO_MICROBATCH);
    probe_close(probe);
  }
}

/* ---- CONTINUE: what comes of the run ------------------------------------------------------------------------------------ */

/* The microbatches of a set fail, each at another stage and with its own code. */
static int fail_set(probe_t *probe, const ovl_op_t *op) {
  const unsigned *set = probe->options.data;
  const probe_place_t *place = op->data;
  bool fails =
      (*set >> op->microbatch & 1) != 0 && place->stage == op->microbatch % probe->options.stage_count;
  return fails ? -50 - (int)op->microbatch : 0;
}

/* Those of the set ended with their own error and were told of; the others are complete. */
static void assert_others_unaffected(const probe_t *probe, unsigned set) {
  uint32_t failed = 0, ops = 0;
  for (uint32_t i = 0; i < MICROBATCHES; i++) {
    bool fails = (set >> i & 1) != 0;
    const uint32_t at = i % probe->options.stage_count;
    failed += fails;
    ops += fails ? at + 1 : probe->options.stage_count;
    assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i)->status, fails ? -50 - (int)i : 0);
    assert_int_equal(probe_find(probe, PROBE_FAILURE, at, i) != NULL, fails);
  }
  assert_int_equal(probe->counts[PROBE_STARTS], ops);
  assert_int_equal(probe->counts[PROBE_FAILURE], failed);
  assert_int_equal(probe->counts[PROBE_HOOK], 0);
  assert_int_equal(stats_of(probe).failed, failed);
  assert_int_equal(stats_of(probe).skipped, MICROBATCHES * probe->options.stage_count - ops);
}

static const probe_options_t shapes[] = {
    {.stage_count = 3, .stages = {{.way = PROBE_POOL}, {.way = PROBE_LOOP}, {.way = PROBE_POOL}}},
    {.stage_count = 2, .stages = {{.way = PROBE_POOL_FOREIGN, .width = 2}, {.way = PROBE_LOOP_POLLED}}},
    {.stage_count = 2, .stages = {{.way = PROBE_POOL_POLLED}, {.way = PROBE_POOL, .shares = 1}}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* With the join of distance 1 a microbatch waits for the one before it, which may have failed. */
static void continue_with(uint32_t shape, uint32_t window, bool join) {
  probe_options_t options = shapes[shape];
  unsigned set = 0;
  options.window = window;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.outcome = fail_set;
  options.data = &set;
  probe_t *probe = probe_open(&options);
  if (join)
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, probe->stages[options.stage_count - 1],
                                                 probe->stages[0], 1),
                     0);
  for (set = 0; set < 1u << MICROBATCHES; set++) {
    int status = set % 2 != 0 ? probe_run(probe, MICROBATCHES) : probe_run_blocking(probe, MICROBATCHES);
    assert_int_equal(status != 0, set != 0);
    if (set != 0) /* the first error, in time, is the run's */
      assert_int_equal(status, probe_nth(probe, PROBE_FAILURE, 0)->status);
    assert_others_unaffected(probe, set);
  }
  probe_close(probe);
}

static void continue_affects_the_failed_microbatches_alone(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint32_t window = 1; window <= 3; window++)
      for (int join = 0; join < 2; join++)
        continue_with(shape, window, join != 0);
}

/* ---- cancel hooks ----------------------------------------------------------------------------------------------------------- */

/* Every op in flight when the run stops is hooked once, wherever it runs and whether it blocks or is pending; ops
 * without a hook, ops that ended and ops that never started are not. */
static void hooks_are_called_for_what_is_in_flight(void **state) {
  (void)state;
  for (int by_cancel = 0; by_cancel < 2; by_cancel++) {
    const probe_options_t options = {.stage_count = 5,
                                     .stages = {{.way = PROBE_LOOP},
                                                {.way = PROBE_LOOP_HELD},
                                                {.way = PROBE_POOL_HELD, .unchained = true},
                                                {.way = PROBE_POOL_HELD, .unchained = true, .no_hook = true},
                                                {.way = PROBE_LOOP_HELD, .unchained = true}},
                                     .window = 1};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 3);
    probe_turn_until(probe, PROBE_STARTS, 5);
    if (by_cancel)
      assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    else
      assert_int_equal(probe_complete(probe, probe_take(probe, 4, 0), -60), 0);
    probe_turn_until(probe, PROBE_HOOK, by_cancel ? 3 : 2);
    probe_turn_in_vain(probe);
    probe_open_gate(probe);
    assert_int_equal(probe_finish(probe), by_cancel ? OVL_ECANCELED : -60);
    assert_int_equal(probe->counts[PROBE_HOOK], by_cancel ? 3 : 2);
    assert_non_null(probe_find(probe, PROBE_HOOK, 1, 0));
    assert_non_null(probe_find(probe, PROBE_HOOK, 2, 0));
    probe_close(probe);
  }
}

/* A callback that is on its way and blocks is in flight as well; the hook is what may make it return. */
static void open_gate_in_hook(probe_t *probe, const probe_event_t *event) {
  if (event->type == PROBE_HOOK)
    probe_open_gate(probe);
}

static void a_hook_makes_a_blocked_callback_return(void **state) {
  (void)state;
  const probe_options_t options = {.stage_count = 2,
                                   .stages = {{.way = PROBE_POOL_GATED}, {.way = PROBE_POOL}},
                                   .window = 2,
                                   .on_event = open_gate_in_hook};
  probe_t *probe = probe_open(&options);
  probe_start(probe, 4);
  probe_turn_until(probe, PROBE_STARTS, 1);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
  assert_int_equal(probe_finish(probe), OVL_ECANCELED);
  assert_int_equal(probe->counts[PROBE_HOOK], 1);
  assert_int_equal(probe->counts[PROBE_STARTS], 1);
  probe_close(probe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_failure_with_stop_is_called_once_and_at_once),
      cmocka_unit_test(on_failure_with_continue_is_called_once_for_a_microbatch),
      cmocka_unit_test(on_failure_is_called_once_for_a_cancel),
      cmocka_unit_test(on_failure_is_told_in_the_order_of_events),
      cmocka_unit_test(continue_affects_the_failed_microbatches_alone),
      cmocka_unit_test(hooks_are_called_for_what_is_in_flight),
      cmocka_unit_test(a_hook_makes_a_blocked_callback_return),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
