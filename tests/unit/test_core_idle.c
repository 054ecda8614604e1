/* SPDX-License-Identifier: MIT */
/* Shows for each reason why a lane may be idle that it is the one counted, exactly so long as it holds; that the
 * stage which a lane waited for most is named; and how long ops were ready before they started. That all reasons
 * together are the time in which a lane was not busy is checked after every step (core/check.c). */
#include <string.h>

#include "core/idle.h"
#include "observe/stats.h"
#include "ovl/errors.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

static ovl_lane_stats_t lane_of(const rig_t *rig, uint32_t lane) {
  ovl_lane_stats_t s;
  ovl_stats_of_lane(&rig->core, lane, rig->core.now - rig->core.started, &s);
  return s;
}

typedef struct idle {
  uint64_t fill, dependency, window, input, fixed_order, runner, tail;
} idle_t;

#define assert_idle(rig, lane, ...) check_idle(rig, lane, (idle_t){__VA_ARGS__}, __FILE__, __LINE__)

static void check_idle(const rig_t *rig, uint32_t lane, idle_t expected, const char *file, int line) {
  const ovl_lane_stats_t s = lane_of(rig, lane);
  _assert_int_equal(s.idle_fill_ns, expected.fill, file, line);
  _assert_int_equal(s.idle_dependency_ns, expected.dependency, file, line);
  _assert_int_equal(s.idle_window_ns, expected.window, file, line);
  _assert_int_equal(s.idle_input_ns, expected.input, file, line);
  _assert_int_equal(s.idle_fixed_order_ns, expected.fixed_order, file, line);
  _assert_int_equal(s.idle_runner_ns, expected.runner, file, line);
  _assert_int_equal(s.idle_tail_ns, expected.tail, file, line);
}

/* So much time passes. */
static void pass(rig_t *rig, uint64_t time) {
  rig->now += time;
  ovl_core_advance(&rig->core, rig->now);
}

/* A driver's calls at the time that it is. */
static ovl_core_op_t *take(rig_t *rig, uint32_t lane) { return ovl_core_take(&rig->core, lane, rig->now); }

static void end(rig_t *rig, ovl_core_op_t *op) {
  rig->core.instant++;
  ovl_core_end(&rig->core, op, 0, 0, rig->now);
}

/* ---- counted runs ------------------------------------------------------------------------------------------------ */

/* 8 x 50 and 30: communication waits for the first computation, then 20 for each other one. */
static void communication_that_is_shorter_waits_for_computation(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(4);
  const uint64_t durations[] = {50, 30};
  rig_simulate_stages(rig, OVL_OVERLAP, 8, durations);
  assert_idle(rig, 0, .tail = 30);
  assert_idle(rig, 1, .fill = 50, .dependency = 7 * 20);
  assert_int_equal(lane_of(rig, 0).busy_ns, 400);
  assert_int_equal(lane_of(rig, 1).busy_ns, 240);
  assert_int_equal(lane_of(rig, 1).waiting.id, 2);
  assert_int_equal(lane_of(rig, 1).awaited.id, 1);
  assert_int_equal(lane_of(rig, 1).awaited_ns, 7 * 20);
  assert_int_equal(lane_of(rig, 0).waiting.id + lane_of(rig, 0).awaited.id, 0);
  rig_free(rig);
}

static void computation_waits_for_a_slot_when_the_window_is_small(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  const uint64_t durations[] = {30, 50};
  rig_simulate_stages(rig, OVL_OVERLAP, 8, durations); /* 30, 8 x 50; from the third on it waits 20 */
  assert_idle(rig, 0, .window = 6 * 20, .tail = 50 + 20);
  assert_idle(rig, 1, .fill = 30);
  rig_free(rig);
}

static void a_serial_run_has_one_slot(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(4);
  const uint64_t durations[] = {5, 3};
  rig_simulate_stages(rig, OVL_SERIAL, 4, durations);
  assert_idle(rig, 0, .window = 3 * 3, .tail = 3);
  assert_idle(rig, 1, .fill = 5, .dependency = 3 * 5);
  rig_free(rig);
}

/* Nobody takes what is ready; nobody says for a while that an op has ended. */
static void the_driver_takes_its_time(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 1);
  pass(rig, 7);
  assert_idle(rig, 0, .runner = 7); /* a snapshot in the midst of a wait */
  assert_idle(rig, 1, .fill = 7);
  ovl_core_hold_lane(&rig->core, 0, true); /* that is the driver's doing, too */
  pass(rig, 2);
  ovl_core_hold_lane(&rig->core, 0, false);
  ovl_core_op_t *op = take(rig, 0);
  pass(rig, 10);
  assert_int_equal(lane_of(rig, 0).busy_ns, 10); /* it runs */
  rig->core.instant++;
  ovl_core_end(&rig->core, op, 0, 0, rig->now - 4);
  assert_int_equal(lane_of(rig, 0).busy_ns, 6);
  assert_idle(rig, 0, .runner = 7 + 2 + 4);
  assert_idle(rig, 1, .fill = 7 + 2 + 10);
  pass(rig, 3);
  end(rig, take(rig, 1));
  assert_idle(rig, 0, .runner = 13, .tail = 3);
  assert_idle(rig, 1, .fill = 19, .runner = 3);
  assert_true(ovl_core_over(&rig->core));
  const ovl_stage_tally_t *stages = rig->core.tally.stages;
  assert_int_equal(stages[0].delay, 9);
  assert_int_equal(stages[1].delay, 3);
  rig_free(rig);
}

/* Each free place is matched with an op. */
static void places_of_one_lane_may_be_free_for_different_reasons(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t first = rig_lane(rig, 1), wide = rig_lane(rig, 5), none = rig_lane(rig, 2);
  rig_stage(rig, first);
  rig_stage(rig, wide);
  rig_stage(rig, wide);
  rig_begin(rig, OVL_OVERLAP, 4);
  pass(rig, 1);
  assert_int_equal(lane_of(rig, wide).width, 5);
  assert_idle(rig, wide, .fill = 5); /* for six ops that wait */
  end(rig, take(rig, first));
  pass(rig, 10); /* one is ready, five wait */
  assert_idle(rig, wide, .fill = 5, .runner = 10, .dependency = 4 * 10);
  ovl_core_op_t *op = take(rig, wide);
  pass(rig, 100);
  assert_idle(rig, wide, .fill = 5, .runner = 10, .dependency = 4 * 10 + 4 * 100);
  end(rig, op);
  end(rig, take(rig, wide)); /* the first microbatch has gone, the last has come: three times two wait */
  pass(rig, 1000);
  assert_idle(rig, wide, .fill = 5, .runner = 10, .dependency = 440 + 5 * 1000);
  for (int i = 0; i < 2; i++) {
    end(rig, take(rig, first));
    end(rig, take(rig, wide));
    end(rig, take(rig, wide));
  }
  pass(rig, 10000); /* two wait, and nothing more will come */
  assert_idle(rig, wide, .fill = 5, .runner = 10, .dependency = 5440 + 2 * 10000, .tail = 3 * 10000);
  assert_idle(rig, none, .tail = 11111);
  rig_free(rig);
}

static void without_microbatches_there_is_no_time(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_idle(rig, 0, .tail = 0);
  rig_free(rig);
}

/* ---- the longest wait -------------------------------------------------------------------------------------------- */

/* `last` waits for `early` and `late`; whichever ends later is the one it waited for. */
static void the_wait_is_for_what_ends_last(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t early_lane = rig_lane(rig, 1), late_lane = rig_lane(rig, 1), last_lane = rig_lane(rig, 1);
  uint32_t early = rig_stage(rig, early_lane), late = rig_unchained_stage(rig, late_lane),
           last = rig_unchained_stage(rig, last_lane);
  rig_depend(rig, early, last, 0);
  rig_depend(rig, late, last, 0);
  const uint64_t durations[] = {3, 10, 1};
  rig_simulate_stages(rig, OVL_OVERLAP, 5, durations);
  assert_idle(rig, last_lane, .fill = 10, .dependency = 4 * 9);
  assert_int_equal(lane_of(rig, last_lane).waiting.id, last + 1);
  assert_int_equal(lane_of(rig, last_lane).awaited.id, late + 1);
  assert_int_equal(lane_of(rig, last_lane).awaited_ns, 4 * 9);
  rig_free(rig);
}

/* Two stages of one lane, of which each waits for its own: the longer wait is told. */
static void of_two_waits_the_longer_is_told(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  uint32_t a_lane = rig_lane(rig, 1), b_lane = rig_lane(rig, 1), lane = rig_lane(rig, 1);
  rig_stage(rig, a_lane);
  rig_stage(rig, lane);
  rig_stage(rig, b_lane);
  rig_stage(rig, lane);
  rig_stage(rig, a_lane);
  rig_stage(rig, lane);
  const uint64_t durations[] = {5, 1, 7, 1, 6, 1};
  rig_simulate_stages(rig, OVL_OVERLAP, 1, durations);
  assert_idle(rig, lane, .fill = 5, .dependency = 13);
  assert_int_equal(lane_of(rig, lane).waiting.id, 4);
  assert_int_equal(lane_of(rig, lane).awaited.id, 3);
  assert_int_equal(lane_of(rig, lane).awaited_ns, 7);
  rig_free(rig);
}

/* From one microbatch to the next: the edge with a distance is the one. */
static void a_wait_may_be_for_an_earlier_microbatch(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t lane = rig_lane(rig, 1), other = rig_lane(rig, 1);
  uint32_t first = rig_stage(rig, lane), second = rig_stage(rig, other);
  rig_depend(rig, second, first, 1);
  const uint64_t durations[] = {2, 9};
  rig_simulate_stages(rig, OVL_OVERLAP, 3, durations);
  assert_int_equal(lane_of(rig, lane).waiting.id, first + 1);
  assert_int_equal(lane_of(rig, lane).awaited.id, second + 1);
  assert_int_equal(lane_of(rig, lane).awaited_ns, 2 * 9);
  rig_free(rig);
}

/* ---- fixed order ------------------------------------------------------------------------------------------------- */

static void an_op_may_be_ready_before_its_turn(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t first = rig_lane(rig, 2), fixed = rig_fixed_lane(rig);
  rig_stage(rig, first);
  rig_stage(rig, fixed);
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *slow = take(rig, first), *fast = take(rig, first);
  pass(rig, 4);
  end(rig, fast); /* of the second microbatch, which comes second */
  pass(rig, 10);
  assert_idle(rig, fixed, .fill = 4, .fixed_order = 10);
  end(rig, slow);
  pass(rig, 100);
  assert_idle(rig, fixed, .fill = 4, .fixed_order = 10, .runner = 100);
  end(rig, take(rig, fixed));
  end(rig, take(rig, fixed));
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- streaming --------------------------------------------------------------------------------------------------- */

static int submit(rig_t *rig) {
  rig->core.instant++;
  return ovl_core_submit(&rig->core, NULL, rig->now);
}

static void a_stream_waits_for_items_for_a_slot_and_for_its_end(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(1);
  rig->options.queue = 2;
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  pass(rig, 1);
  assert_idle(rig, 0, .input = 1);
  assert_idle(rig, 1, .input = 1);
  assert_int_equal(submit(rig), 0);
  end(rig, take(rig, 0));
  ovl_core_op_t *op = take(rig, 1);
  pass(rig, 10); /* its only slot is taken, but nothing is there that could use another */
  assert_idle(rig, 0, .input = 11);
  assert_int_equal(submit(rig), 0);
  pass(rig, 100);
  assert_idle(rig, 0, .input = 11, .window = 100);
  end(rig, op);
  pass(rig, 1000);
  assert_idle(rig, 0, .input = 11, .window = 100, .runner = 1000);
  assert_idle(rig, 1, .input = 1, .dependency = 1000);
  end(rig, take(rig, 0));
  ovl_core_finish_items(&rig->core, rig->now);
  op = take(rig, 1);
  pass(rig, 10000);
  assert_idle(rig, 0, .input = 11, .window = 100, .runner = 1000, .tail = 10000);
  end(rig, op);
  assert_true(ovl_core_over(&rig->core));
  ovl_core_leave(&rig->core);
  assert_int_equal(submit(rig), 0); /* for the next run: it changes nothing of this one */
  assert_idle(rig, 0, .input = 11, .window = 100, .runner = 1000, .tail = 10000);
  rig_free(rig);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void after_an_error_nothing_more_comes(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t compute = rig_lane(rig, 1), comm = rig_lane(rig, 1);
  rig_stage(rig, compute);
  rig_stage(rig, comm);
  rig_begin(rig, OVL_OVERLAP, 9);
  end(rig, take(rig, compute));
  ovl_core_op_t *op = take(rig, comm);
  pass(rig, 5); /* the second microbatch is ready */
  rig->core.instant++;
  ovl_core_cancel(&rig->core, rig->now);
  pass(rig, 20);
  assert_idle(rig, compute, .runner = 5, .tail = 20);
  assert_int_equal(lane_of(rig, comm).busy_ns, 25);
  end(rig, op);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(communication_that_is_shorter_waits_for_computation),
      cmocka_unit_test(computation_waits_for_a_slot_when_the_window_is_small),
      cmocka_unit_test(a_serial_run_has_one_slot),
      cmocka_unit_test(the_driver_takes_its_time),
      cmocka_unit_test(places_of_one_lane_may_be_free_for_different_reasons),
      cmocka_unit_test(without_microbatches_there_is_no_time),
      cmocka_unit_test(the_wait_is_for_what_ends_last),
      cmocka_unit_test(of_two_waits_the_longer_is_told),
      cmocka_unit_test(a_wait_may_be_for_an_earlier_microbatch),
      cmocka_unit_test(an_op_may_be_ready_before_its_turn),
      cmocka_unit_test(a_stream_waits_for_items_for_a_slot_and_for_its_end),
      cmocka_unit_test(after_an_error_nothing_more_comes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
