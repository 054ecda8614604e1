/* SPDX-License-Identifier: MIT */
/* Cases 12, 16 and 29: a run that meets an error ends, soon, with that error, and leaves a pipeline that can run
 * again; a run with nothing to do ends at once; another library's code is an error and not a wait. */
#include <limits.h>
#include <string.h>

#include "support/probe.h"

/* ---- descriptions ------------------------------------------------------------------------------------------ */

/* Three stages each. In the last two the neighbours of an op that fails wait for its lane. */
static const probe_options_t shapes[] = {
    {.stage_count = 3, .stages = {{.way = PROBE_POOL}, {.way = PROBE_LOOP}, {.way = PROBE_POOL}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL_FOREIGN}, {.way = PROBE_POOL_POLLED}, {.way = PROBE_LOOP_FOREIGN}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_LOOP_POLLED}, {.way = PROBE_POOL, .width = 2}, {.way = PROBE_LOOP}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL}, {.way = PROBE_POOL, .shares = 1}, {.way = PROBE_POOL, .shares = 1}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL_FOREIGN, .width = 2},
                {.way = PROBE_LOOP},
                {.way = PROBE_POOL, .shares = 1}}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MICROBATCHES = 5 };

static const uint32_t windows[] = {1, 2, 4};
enum { WINDOWS = sizeof windows / sizeof *windows };

/* ---- case 12: an op fails --------------------------------------------------------------------------------------- */

static ovl_stats_t stats_of(const probe_t *probe) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stats(probe->pipeline, &stats), 0);
  return stats;
}

static void assert_failure_is(const probe_t *probe, const probe_fault_t *fault, int status, int native) {
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  assert_int_equal(ovl_pipeline_failure(probe->pipeline, &failure), 0);
  assert_int_equal(failure.status, status);
  assert_int_equal(failure.native, native);
  assert_int_equal(failure.microbatch, fault->microbatch);
  assert_int_equal(failure.stage.id, probe->stages[fault->stage].id);
  assert_int_equal(failure.lane.id, probe->lanes[fault->stage].id);
  const char stage_name[] = {'S', (char)('0' + fault->stage), '\0'};
  const uint32_t shares = probe->options.stages[fault->stage].shares;
  const char lane_name[] = {'L', (char)('0' + (shares != 0 ? shares - 1 : fault->stage)), '\0'};
  assert_string_equal(failure.stage_name, stage_name);
  assert_string_equal(failure.lane_name, lane_name);
}

/* The microbatch that failed: no later stage of it ran. */
static void assert_rest_was_skipped(const probe_t *probe, const probe_fault_t *fault) {
  for (uint32_t s = 0; s < probe->options.stage_count; s++)
    assert_int_equal(probe_find(probe, PROBE_STARTS, s, fault->microbatch) != NULL, s <= fault->stage);
  if (!probe->options.no_on_microbatch)
    assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, fault->microbatch)->status,
                     fault->status);
}

/* What was admitted has either run or been skipped, and nothing is lost in between. */
static void assert_all_accounted(const probe_t *probe) {
  ovl_stats_t stats = stats_of(probe);
  assert_int_equal(stats.ops, probe->counts[PROBE_STARTS]);
  assert_int_equal(stats.ops + stats.skipped, stats.microbatches * probe->options.stage_count);
  if (probe->options.on_error == OVL_ON_ERROR_CONTINUE) {
    assert_int_equal(stats.microbatches, MICROBATCHES);
    assert_int_equal(stats.failed, 1);
  } else {
    assert_true(stats.failed >= 1);
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
      assert_failure_is(probe, &probe->fault, -77, 0);
      assert_rest_was_skipped(probe, &probe->fault);
      assert_all_accounted(probe);
      probe->fault.status = 0;
      probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
    }
  probe_close(probe);
}

static void for_each_window_and_mode(uint32_t shape, ovl_on_error_t on_error) {
  for (uint32_t w = 0; w < WINDOWS; w++)
    for (int mode = 0; mode < 2; mode++) {
      probe_options_t options = shapes[shape];
      options.window = windows[w];
      options.mode = mode == 0 ? OVL_OVERLAP : OVL_SERIAL;
      options.on_error = on_error;
      options.no_on_microbatch = options.no_on_failure = (w + shape) % 3 == 0;
      fail_each_op_in_turn(&options);
    }
}

static void case_12_any_op_fails_and_the_run_stops(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for_each_window_and_mode(shape, OVL_ON_ERROR_STOP);
}

static void case_12_any_op_fails_and_the_run_continues(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for_each_window_and_mode(shape, OVL_ON_ERROR_CONTINUE);
}

/* Four microbatches are admitted, one has the lane, three wait for it; the one that has it fails. */
static void case_12_neighbours_that_wait_for_the_lane_never_start(void **state) {
  (void)state;
  const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};
  for (int way = 0; way < 2; way++)
    for (uint64_t k = 0; k < 4; k++) {
      const probe_options_t options = {
          .stage_count = 2, .stages = {{.way = ways[way]}, {.way = ways[way], .shares = 1}}, .window = 4};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 4);
      for (uint64_t i = 0; i <= k; i++) { /* stage 0 of all is ready first, so the lane takes it in order */
        probe_turn_until(probe, PROBE_STARTS, (uint32_t)i + 1);
        assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), i == k ? -5 : 0), 0);
      }
      assert_int_equal(probe_finish(probe), -5);
      assert_int_equal(probe->counts[PROBE_STARTS], k + 1);
      assert_int_equal(stats_of(probe).skipped, 8 - (k + 1));
      probe_open_gate(probe);
      probe_assert_complete(probe, probe_run(probe, 4), 4);
      probe_close(probe);
    }
}

/* Two ops in flight fail, the second stage's first or last: the earlier error is kept, and told alone. */
static void case_12_the_first_of_two_errors_is_kept(void **state) {
  (void)state;
  for (uint64_t first = 0; first < 2; first++) {
    const probe_options_t options = {
        .stage_count = 1, .stages = {{.way = PROBE_POOL_HELD, .width = 2}}, .window = 2};
    const probe_fault_t fault = {.microbatch = first};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 8);
    ovl_op_t *ops[2] = {probe_take(probe, 0, 0), probe_take(probe, 0, 1)};
    assert_int_equal(probe_complete(probe, ops[first], -11), 0);
    probe_await_error(probe, -11);
    assert_int_equal(probe_complete(probe, ops[1 - first], -12), 0);
    assert_int_equal(probe_finish(probe), -11);
    assert_failure_is(probe, &fault, -11, 0);
    assert_int_equal(probe->counts[PROBE_FAILURE], 1);
    assert_int_equal(probe->counts[PROBE_STARTS], 2);
    probe_close(probe);
  }
}

/* ---- case 16: nothing to do -------------------------------------------------------------------------------------- */

static const uint64_t counts[] = {0, 1, 3, 1000};

static void case_16_no_stages(void **state) {
  (void)state;
  for (uint32_t w = 0; w < WINDOWS; w++)
    for (int reports = 0; reports < 2; reports++) {
      const probe_options_t options = {.window = windows[w], .no_on_microbatch = reports == 0};
      probe_t *probe = probe_open(&options);
      for (size_t i = 0; i < sizeof counts / sizeof *counts - (reports != 0); i++) {
        assert_int_equal(probe_run(probe, counts[i]), 0);
        assert_int_equal(stats_of(probe).microbatches, counts[i]);
        assert_int_equal(probe_run_blocking(probe, counts[i]), 0);
      }
      probe_close(probe);
    }
}

/* So many that counting them up would take for ever. */
static void case_16_no_stages_and_countless_microbatches(void **state) {
  (void)state;
  const probe_options_t options = {.no_on_microbatch = true};
  probe_t *probe = probe_open(&options);
  assert_int_equal(probe_run(probe, UINT64_MAX - 1), 0);
  assert_int_equal(stats_of(probe).microbatches, UINT64_MAX - 1);
  assert_int_equal(probe_run_blocking(probe, UINT64_MAX - 1), 0);
  probe_close(probe);
}

static void case_16_no_stages_in_a_stream(void **state) {
  (void)state;
  for (int reports = 0; reports < 2; reports++) {
    const probe_options_t options = {.window = 2, .queue = 3, .no_on_microbatch = reports == 0};
    probe_t *probe = probe_open(&options);
    for (uint32_t before = 0; before < 4; before++) {
      for (uint32_t i = 0; i < before; i++)
        probe_submit(probe, NULL);
      probe_start(probe, OVL_STREAMING);
      assert_int_equal(ovl_pipeline_finish(probe->pipeline), 0);
      assert_int_equal(probe_finish(probe), 0);
      assert_int_equal(stats_of(probe).microbatches, before);
    }
    probe_close(probe);
  }
}

static void case_16_no_microbatches(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (int mode = 0; mode < 2; mode++) {
      probe_options_t options = shapes[shape];
      options.mode = mode == 0 ? OVL_OVERLAP : OVL_SERIAL;
      probe_t *probe = probe_open(&options);
      probe_assert_complete(probe, probe_run(probe, 0), 0);
      probe_assert_complete(probe, probe_run_blocking(probe, 0), 0);
      assert_int_equal(ovl_pipeline_finish(probe->pipeline), 0); /* of the next run, before its start */
      probe_assert_complete(probe, probe_run(probe, OVL_STREAMING), 0);
      probe_assert_complete(probe, probe_run(probe, 2), 2);
      probe_close(probe);
    }
}

/* The first op fails, and what is left, however much, is done with. */
static void case_16_everything_is_skipped_because_the_first_failed(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint32_t w = 0; w < WINDOWS; w++) {
      probe_options_t options = shapes[shape];
      options.window = windows[w];
      options.stages[0].width = 1;
      probe_t *probe = probe_open(&options);
      probe->fault.status = -3;
      assert_int_equal(probe_run(probe, UINT64_MAX - 1), -3);
      assert_int_equal(probe->counts[PROBE_STARTS], 1);
      assert_true(probe->counts[PROBE_MICROBATCH] <= windows[w]);
      assert_int_equal(probe_run_blocking(probe, UINT64_MAX - 1), -3);
      probe_close(probe);
    }
}

/* ---- case 29: codes ------------------------------------------------------------------------------------------------ */

static const int positive[] = {1, 2, 35, 700, OVL_PENDING - 1, OVL_PENDING + 1, INT_MAX};
static const int negative[] = {-1, -35, OVL_ECANCELED, OVL_EBADRESULT, OVL_EAGAIN, -OVL_PENDING, INT_MIN};

/* Ends an op of each way with the code: it is returned, or given to ovl_op_complete. */
static void end_with(int code, int status, int native, ovl_on_error_t on_error) {
  for (int way = PROBE_POOL; way <= PROBE_LOOP_POLLED; way++) {
    const probe_options_t options = {.stage_count = 2,
                                     .stages = {{.way = (probe_way_t)way}, {.way = (probe_way_t)way}},
                                     .window = 2,
                                     .on_error = on_error};
    probe_t *probe = probe_open(&options);
    for (uint32_t s = 0; s < 2; s++) {
      probe->fault = (probe_fault_t){.status = code, .stage = s, .microbatch = 1};
      assert_int_equal(probe_run(probe, 3), status);
      assert_failure_is(probe, &probe->fault, status, native);
      const ovl_failure_t *told = &probe_nth(probe, PROBE_FAILURE, 0)->failure;
      assert_int_equal(told->native, native);
      assert_int_equal(told->stage.id, probe->stages[s].id);
      assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, 1)->status, status);
      if (on_error == OVL_ON_ERROR_CONTINUE)
        assert_int_equal(probe->counts[PROBE_STARTS], 6 - (s == 0));
    }
    probe_close(probe);
  }
}

static void case_29_a_positive_code_is_an_error(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
    end_with(positive[i], OVL_EBADRESULT, positive[i],
             i % 2 == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE);
}

static void case_29_a_negative_code_is_passed_on_as_it_is(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof negative / sizeof *negative; i++)
    end_with(negative[i], negative[i], 0, i % 2 == 0 ? OVL_ON_ERROR_CONTINUE : OVL_ON_ERROR_STOP);
}

/* OVL_PENDING says nothing about how an op ended, so it completes none. */
static void case_29_pending_completes_nothing(void **state) {
  (void)state;
  const probe_options_t options = {.stage_count = 1, .stages = {{.way = PROBE_POOL_HELD}}};
  probe_t *probe = probe_open(&options);
  probe_start(probe, 1);
  ovl_op_t *op = probe_take(probe, 0, 0);
  assert_int_equal(ovl_op_complete(op, OVL_PENDING), OVL_EINVAL);
  assert_int_equal(probe_complete(probe, op, 0), 0);
  assert_int_equal(probe_finish(probe), 0);
  probe_close(probe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_12_any_op_fails_and_the_run_stops),
      cmocka_unit_test(case_12_any_op_fails_and_the_run_continues),
      cmocka_unit_test(case_12_neighbours_that_wait_for_the_lane_never_start),
      cmocka_unit_test(case_12_the_first_of_two_errors_is_kept),
      cmocka_unit_test(case_16_no_stages),
      cmocka_unit_test(case_16_no_stages_and_countless_microbatches),
      cmocka_unit_test(case_16_no_stages_in_a_stream),
      cmocka_unit_test(case_16_no_microbatches),
      cmocka_unit_test(case_16_everything_is_skipped_because_the_first_failed),
      cmocka_unit_test(case_29_a_positive_code_is_an_error),
      cmocka_unit_test(case_29_a_negative_code_is_passed_on_as_it_is),
      cmocka_unit_test(case_29_pending_completes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
