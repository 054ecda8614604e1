/* SPDX-License-Identifier: MIT */
/* Shows that a cancel ends a run wherever it is, and what is told of cancels and errors, and when. */
#include "core/core.h"
#include "ovl/errors.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

#define FAILED (-5)

static void assert_first(const rig_t *rig, int status, uint32_t stage, uint64_t microbatch) {
  assert_int_equal(rig->core.first.status, status);
  assert_int_equal(rig->core.first.stage, stage);
  assert_int_equal(rig->core.first.microbatch, microbatch);
}

/* ---- cancel ---------------------------------------------------------------------------------------------------- */

/* One event of a run of five microbatches; false: nothing is left to do. `taken` is an op on its way. */
static bool step(rig_t *rig, ovl_core_op_t **taken) {
  uint32_t lane = ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, OVL_NO_LANE);
  if (*taken != NULL) {
    rig_end(rig, *taken, 0);
    *taken = NULL;
  } else if (lane != OVL_NO_LANE) {
    *taken = rig_take(rig, lane);
  } else {
    return false;
  }
  return true;
}

static void check_cancel_after(rig_t *rig, int steps) {
  ovl_core_op_t *taken = NULL;
  rig_begin(rig, OVL_OVERLAP, 5);
  for (int i = 0; i < steps; i++)
    assert_true(step(rig, &taken));
  rig_cancel(rig);
  assert_int_equal(rig->core.startable[OVL_LANE_POOL], 0);
  assert_int_equal(ovl_core_over(&rig->core), taken == NULL);
  rig_cancel(rig); /* once more changes nothing */
  if (taken != NULL)
    rig_end(rig, taken, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_first(rig, OVL_ECANCELED, OVL_NO_STAGE, OVL_NO_MICROBATCH);
  const ovl_tally_t *tally = &rig->core.tally;
  assert_int_equal(tally->retired, rig->core.next);
  assert_int_equal(tally->ops + tally->skipped, 2 * rig->core.next);
  assert_int_equal(tally->ops, (steps + 1) / 2);
  ovl_core_leave(&rig->core);
}

static void a_cancel_between_any_two_events_ends_the_run(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  for (int steps = 0; steps < 20; steps++) /* 20 events are all there are */
    check_cancel_after(rig, steps);
  rig_free(rig);
}

static void a_cancel_stops_a_run_that_keeps_going_after_errors(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.keep_going = rig->options.tell = true;
  rig_begin(rig, OVL_OVERLAP, 100);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  rig_cancel(rig);
  assert_first(rig, FAILED, 0, 0); /* the error came before it */
  ovl_fault_t fault;
  assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now)); /* told in that order too */
  assert_int_equal(fault.status, FAILED);
  assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_int_equal(fault.status, OVL_ECANCELED);
  assert_false(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_cancel_is_told_once(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.tell = true;
  rig_begin(rig, OVL_OVERLAP, 5);
  rig_cancel(rig);
  rig_cancel(rig);
  ovl_fault_t fault;
  assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_int_equal(fault.status, OVL_ECANCELED);
  assert_int_equal(fault.stage, OVL_NO_STAGE);
  assert_int_equal(fault.microbatch, OVL_NO_MICROBATCH);
  assert_false(ovl_core_next_fault(&rig->core, &fault, rig->now));
  rig_free(rig);
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

static void a_failed_microbatch_does_not_retire_before_its_fault_is_told(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  rig->options.tell = rig->options.keep_going = true;
  rig_stage(rig, rig_lane(rig, 1));
  rig_begin(rig, OVL_OVERLAP, 2);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  assert_int_equal(rig->core.tally.retired, 0);
  assert_int_equal(rig->core.next, 1);
  ovl_fault_t fault;
  assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_int_equal(fault.status, FAILED);
  assert_int_equal(fault.stage, 0);
  assert_int_equal(fault.microbatch, 0);
  assert_int_equal(rig->core.tally.retired, 1);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), 0);
  assert_false(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* One fails before the cancel, and one, which had nothing left to start, after it. */
static void a_cancel_is_told_between_the_errors_that_it_came_between(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  rig->options.tell = rig->options.keep_going = true;
  rig_stage(rig, rig_lane(rig, 3));
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *ops[3];
  for (uint64_t i = 0; i < 3; i++)
    ops[i] = rig_take_op(rig, 0, i, 0);
  rig_end(rig, ops[1], -11);
  rig_cancel(rig);
  rig_end(rig, ops[0], -10);
  rig_end(rig, ops[2], 0);
  const int expected[] = {-11, OVL_ECANCELED, -10};
  ovl_fault_t fault;
  for (int k = 0; k < 3; k++) {
    assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now));
    assert_int_equal(fault.status, expected[k]);
  }
  assert_false(ovl_core_next_fault(&rig->core, &fault, rig->now));
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void what_is_not_told_in_one_run_is_not_told_in_the_next(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.tell = true;
  ovl_fault_t fault;
  rig_begin(rig, OVL_OVERLAP, 5);
  rig_cancel(rig);
  assert_true(ovl_core_over(&rig->core));
  ovl_core_leave(&rig->core);
  rig_begin(rig, OVL_OVERLAP, 5);
  assert_false(ovl_core_next_fault(&rig->core, &fault, rig->now));
  rig_free(rig);
}

static unsigned faults_told(bool keep_going) {
  rig_t *rig = rig_new(3);
  rig->options.tell = rig->options.report = true;
  rig->options.keep_going = keep_going;
  rig_stage(rig, rig_lane(rig, 3));
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *ops[3];
  for (uint64_t i = 0; i < 3; i++)
    ops[i] = rig_take_op(rig, 0, i, 0);
  for (int i = 2; i >= 0; i--)
    rig_end(rig, ops[i], -10 - i);
  ovl_fault_t fault;
  unsigned told = 0;
  for (; ovl_core_next_fault(&rig->core, &fault, rig->now); told++)
    assert_int_equal(fault.status, -12 + (int)told); /* in the order in which they failed */
  for (ovl_core_slot_t *slot; (slot = ovl_core_next_ended(&rig->core)) != NULL;)
    rig_retire(rig, slot);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
  return told;
}

static void faults_are_told_once_or_once_for_each_microbatch(void **state) {
  (void)state;
  assert_int_equal(faults_told(false), 1);
  assert_int_equal(faults_told(true), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cancel_between_any_two_events_ends_the_run),
      cmocka_unit_test(a_cancel_stops_a_run_that_keeps_going_after_errors),
      cmocka_unit_test(a_cancel_is_told_once),
      cmocka_unit_test(a_cancel_is_told_between_the_errors_that_it_came_between),
      cmocka_unit_test(what_is_not_told_in_one_run_is_not_told_in_the_next),
      cmocka_unit_test(a_failed_microbatch_does_not_retire_before_its_fault_is_told),
      cmocka_unit_test(faults_are_told_once_or_once_for_each_microbatch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
