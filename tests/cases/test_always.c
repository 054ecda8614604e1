/* SPDX-License-Identifier: MIT */
/* Stages marked `always`: they run for microbatches that failed or were cancelled too, in their place, and see
 * what became of the microbatch. (Guarantee 6.) */
#include "support/probe.h"

enum { MICROBATCHES = 4 };

static const probe_options_t shapes[] = {
    {.stage_count = 4,
     .stages = {{.way = PROBE_POOL},
                {.way = PROBE_POOL, .always = true},
                {.way = PROBE_LOOP},
                {.way = PROBE_LOOP, .always = true}}},
    {.stage_count = 4,
     .stages = {{.way = PROBE_POOL_FOREIGN, .width = 2},
                {.way = PROBE_LOOP_FOREIGN},
                {.way = PROBE_POOL_POLLED, .always = true},
                {.way = PROBE_LOOP_POLLED, .always = true}}},
    {.stage_count = 3, /* one lane: cleaning up waits its turn there */
     .stages = {{.way = PROBE_POOL},
                {.way = PROBE_POOL, .shares = 1, .always = true},
                {.way = PROBE_POOL, .shares = 1, .always = true}}},
    {.stage_count = 3, /* the first is `always`, which makes no difference to it */
     .stages = {{.way = PROBE_LOOP, .always = true},
                {.way = PROBE_POOL},
                {.way = PROBE_POOL, .always = true}}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- a fault anywhere ---------------------------------------------------------------------------------------------- */

/* In the microbatch that failed: what comes after runs if it is `always`, and then sees the error. */
static void assert_failed_microbatch(const probe_t *probe, const probe_fault_t *fault) {
  for (uint32_t s = 0; s < probe->options.stage_count; s++) {
    const probe_event_t *started = probe_find(probe, PROBE_STARTS, s, fault->microbatch);
    assert_int_equal(started != NULL, s <= fault->stage || probe->options.stages[s].always);
    if (started != NULL)
      assert_int_equal(started->status, s <= fault->stage ? 0 : fault->status);
  }
  assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, fault->microbatch)->status, fault->status);
}

/* In every other that was admitted: every stage that is `always` ran, and saw nothing but 0 or the status that the
 * microbatch ended with. With CONTINUE all is well there. */
static void assert_other_microbatches(const probe_t *probe, const probe_fault_t *fault) {
  for (uint64_t i = 0; i < probe->counts[PROBE_MICROBATCH]; i++) {
    int status = probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i)->status;
    if (i == fault->microbatch)
      continue;
    assert_true(status == 0 || (status == OVL_ECANCELED && probe->options.on_error == OVL_ON_ERROR_STOP));
    for (uint32_t s = 0; s < probe->options.stage_count; s++) {
      const probe_event_t *started = probe_find(probe, PROBE_STARTS, s, i);
      if (status == 0 || probe->options.stages[s].always)
        assert_non_null(started);
      if (started != NULL)
        assert_true(started->status == 0 || (started->status == status && probe->options.stages[s].always));
    }
  }
}

static void fail_each_op_in_turn(const probe_options_t *options) {
  probe_t *probe = probe_open(options);
  for (uint64_t i = 0; i < MICROBATCHES; i++)
    for (uint32_t s = 0; s < options->stage_count; s++) {
      probe->fault = (probe_fault_t){.status = -77, .stage = s, .microbatch = i};
      int status =
          (i + s) % 2 == 0 ? probe_run(probe, MICROBATCHES) : probe_run_blocking(probe, MICROBATCHES);
      assert_int_equal(status, -77);
      assert_failed_microbatch(probe, &probe->fault);
      assert_other_microbatches(probe, &probe->fault);
    }
  probe->fault.status = 0;
  probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
  probe_close(probe);
}

static void always_stages_run_for_failed_microbatches(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint32_t window = 1; window <= 3; window++)
      for (int mode = 0; mode < 2; mode++)
        for (int on_error = 0; on_error < 2; on_error++) {
          probe_options_t options = shapes[shape];
          options.window = window;
          options.mode = mode == 0 ? OVL_OVERLAP : OVL_SERIAL;
          options.on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE;
          fail_each_op_in_turn(&options);
        }
}

/* ---- errors of the cleaning up itself --------------------------------------------------------------------------------- */

/* Every op fails, those of `always` stages too, each with a code of its own. */
static int fail_all(probe_t *probe, const ovl_op_t *op) {
  const probe_place_t *place = op->data;
  (void)probe;
  return -100 - (int)place->stage;
}

/* The first error of a microbatch stays, whatever comes after it. */
static void an_always_stage_that_fails_does_not_replace_the_error(void **state) {
  (void)state;
  for (int on_error = 0; on_error < 2; on_error++) {
    const probe_options_t options = {.stage_count = 3,
                                     .stages = {{.way = PROBE_POOL},
                                                {.way = PROBE_LOOP, .always = true},
                                                {.way = PROBE_POOL, .always = true}},
                                     .window = 2,
                                     .on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE,
                                     .outcome = fail_all};
    probe_t *probe = probe_open(&options);
    assert_int_equal(probe_run(probe, MICROBATCHES), -100);
    for (uint64_t i = 0; i < probe->counts[PROBE_MICROBATCH]; i++) {
      int status = probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i)->status;
      assert_true(status == -100 || (on_error == 0 && i > 0 && status == OVL_ECANCELED));
      for (uint32_t s = 1; s < 3; s++)
        assert_int_equal(probe_find(probe, PROBE_STARTS, s, i)->status, status);
    }
    assert_int_equal(probe->counts[PROBE_FAILURE], on_error == 0 ? 1 : MICROBATCHES);
    probe_close(probe);
  }
}

/* ---- cancel ----------------------------------------------------------------------------------------------------------- */

/* The run is cancelled with ops of the first stage in flight. Then the others, `always`, clean up: for each
 * microbatch that was admitted and no other; and nobody tells them to hurry, for they know already; not if it is cancelled again either. */
static void clean_up_after_cancel(probe_way_t way, uint32_t window) {
  const probe_options_t options = {
      .stage_count = 3,
      .stages = {{.way = way, .width = 2}, {.way = PROBE_LOOP}, {.way = way, .width = 4, .always = true}},
      .window = window};
  const uint32_t in_flight = window < 2 ? window : 2;
  probe_t *probe = probe_open(&options);
  probe_start(probe, 8);
  probe_turn_until(probe, PROBE_STARTS, in_flight);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
  probe_turn_until(probe, PROBE_HOOK, in_flight);
  for (uint64_t i = 0; i < in_flight; i++)
    assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), 0), 0);
  probe_turn_until(probe, PROBE_STARTS, in_flight + window);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
  probe_turn_in_vain(probe);
  for (uint64_t i = 0; i < window; i++)
    assert_int_equal(probe_complete(probe, probe_take(probe, 2, i), 0), 0);
  assert_int_equal(probe_finish(probe), OVL_ECANCELED);
  assert_int_equal(probe->counts[PROBE_HOOK], in_flight);
  assert_int_equal(probe->counts[PROBE_MICROBATCH], window);
  for (uint64_t i = 0; i < window; i++) {
    assert_null(probe_find(probe, PROBE_STARTS, 1, i));
    assert_int_equal(probe_find(probe, PROBE_STARTS, 2, i)->status, OVL_ECANCELED);
  }
  probe_close(probe);
}

static void always_stages_run_for_cancelled_microbatches(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 4; window++) {
    clean_up_after_cancel(PROBE_POOL_HELD, window);
    clean_up_after_cancel(PROBE_LOOP_HELD, window);
  }
}

/* ---- in order ------------------------------------------------------------------------------------------------------------ */

/* A microbatch fails at once in one branch while the other, unchained, is in flight: the stage behind both waits
 * for both, though everything between is skipped. (In case another rank's collective is still in progress.) */
static void an_always_stage_waits_for_what_is_in_flight_before_it(void **state) {
  (void)state;
  for (int on_error = 0; on_error < 2; on_error++) {
    const probe_options_t options = {.stage_count = 4,
                                     .stages = {{.way = PROBE_POOL_HELD},
                                                {.way = PROBE_LOOP},
                                                {.way = PROBE_LOOP_HELD, .unchained = true},
                                                {.way = PROBE_POOL, .always = true}},
                                     .window = 1,
                                     .on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE};
    probe_t *probe = probe_open(&options);
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, probe->stages[1], probe->stages[3], 0), 0);
    probe_start(probe, 1);
    probe_turn_until(probe, PROBE_STARTS, 2);
    assert_int_equal(probe_complete(probe, probe_take(probe, 2, 0), -80), 0);
    probe_turn_until(probe, PROBE_FAILURE, 1);
    probe_turn_in_vain(probe);
    assert_false(
        probe_has(probe, PROBE_STARTS, 3, 0)); /* the first stage, before it by way of the second, runs */
    assert_int_equal(probe_complete(probe, probe_take(probe, 0, 0), 0), 0);
    assert_int_equal(probe_finish(probe), -80);
    assert_int_equal(probe_find(probe, PROBE_STARTS, 3, 0)->status, -80);
    assert_null(probe_find(probe, PROBE_STARTS, 1, 0));
    assert_true(probe_find(probe, PROBE_ENDS, 0, 0)->number < probe_find(probe, PROBE_STARTS, 3, 0)->number);
    probe_close(probe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(always_stages_run_for_failed_microbatches),
      cmocka_unit_test(an_always_stage_that_fails_does_not_replace_the_error),
      cmocka_unit_test(always_stages_run_for_cancelled_microbatches),
      cmocka_unit_test(an_always_stage_waits_for_what_is_in_flight_before_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
