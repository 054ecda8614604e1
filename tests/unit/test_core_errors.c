/* SPDX-License-Identifier: MIT */
/* Shows what the core does when an op fails or outlives its deadline: what is skipped, what still runs, and which
 * error is kept. */
#include "core/core.h"
#include "ovl/errors.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

#define FAILED (-5)
#define FAILED_LATER (-6)

static const ovl_core_slot_t *slot_of(const rig_t *rig, uint64_t microbatch) {
  return &rig->core.slots[microbatch % rig->window];
}

static void assert_first(const rig_t *rig, int status, uint32_t stage, uint64_t microbatch) {
  assert_int_equal(rig->core.first.status, status);
  assert_int_equal(rig->core.first.stage, stage);
  assert_int_equal(rig->core.first.microbatch, microbatch);
}

/* ---- stop ------------------------------------------------------------------------------------------------------ */

static void after_an_error_nothing_starts_and_what_runs_is_awaited(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig_begin(rig, OVL_OVERLAP, 10);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  ovl_core_op_t *comm = rig_take_op(rig, 1, 0, 1), *compute = rig_take_op(rig, 0, 1, 0);
  rig_end(rig, compute, FAILED);
  assert_int_equal(rig->core.startable[OVL_LANE_POOL], 0);
  assert_false(ovl_core_over(&rig->core)); /* comm of 0 is on its way */
  assert_int_equal(rig->core.next, 3);
  rig_end(rig, comm, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.next, 3); /* nobody was admitted any more */
  assert_first(rig, FAILED, 0, 1);
  assert_int_equal(rig->core.tally.ops, 3);
  assert_int_equal(rig->core.tally.skipped, 3);
  assert_int_equal(rig->core.tally.retired, 3);
  rig_free(rig);
}

static void a_microbatch_with_nothing_left_to_start_is_not_affected(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.report = true;
  rig_begin(rig, OVL_OVERLAP, 10);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  ovl_core_op_t *comm = rig_take_op(rig, 1, 0, 1);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), FAILED);
  rig_end(rig, comm, 0);
  const ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
  assert_int_equal(slot->microbatch, 1);
  assert_int_equal(slot->fault.status, FAILED);
  slot = ovl_core_next_ended(&rig->core);
  assert_int_equal(slot->microbatch, 0);
  assert_int_equal(slot->fault.status, 0);
  rig_free(rig);
}

static void the_others_that_are_stopped_report_that_they_were_cancelled(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig->options.report = true;
  rig_begin(rig, OVL_OVERLAP, 3);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  for (uint64_t i = 0; i < 3; i++) {
    ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
    assert_int_equal(slot->microbatch, i);
    assert_int_equal(slot->fault.status, i == 0 ? FAILED : OVL_ECANCELED);
    rig_retire(rig, slot);
  }
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.failed, 3);
  rig_free(rig);
}

static void the_first_error_is_kept_with_its_native_code(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig_stage(rig, rig_lane(rig, 2));
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *zero = rig_take_op(rig, 0, 0, 0), *one = rig_take_op(rig, 0, 1, 0);
  ovl_core_end(&rig->core, one, OVL_EBADRESULT, 35, rig->now);
  rig_end(rig, zero, FAILED_LATER);
  assert_first(rig, OVL_EBADRESULT, 0, 1);
  assert_int_equal(rig->core.first.native, 35);
  assert_int_equal(rig->core.faults, 2);
  assert_int_equal(rig->core.tally.failed, 2);
  assert_int_equal(rig->core.tally.stages[0].failed, 2);
  rig_free(rig);
}

static void the_first_error_of_a_microbatch_is_kept(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  rig->options.report = true;
  uint32_t lane = rig_lane(rig, 2);
  rig_unchained_stage(rig, lane);
  rig_unchained_stage(rig, lane);
  rig_begin(rig, OVL_OVERLAP, 1);
  ovl_core_op_t *a = rig_take_op(rig, 0, 0, 0), *b = rig_take_op(rig, 0, 0, 1);
  rig_end(rig, b, FAILED);
  rig_end(rig, a, FAILED_LATER);
  assert_int_equal(ovl_core_next_ended(&rig->core)->fault.status, FAILED);
  assert_first(rig, FAILED, 1, 0);
  rig_free(rig);
}

/* Microbatch k fails at stage s: for every k and s the run ends, and the next one works. */
static void a_failure_anywhere_ends_the_run(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t lanes[2] = {rig_lane(rig, 1), rig_lane(rig, 1)};
  for (int s = 0; s < 4; s++)
    rig_stage(rig, lanes[s % 2]);
  for (uint64_t k = 0; k < 5; k++)
    for (uint32_t s = 0; s < 4; s++) {
      rig_begin(rig, OVL_OVERLAP, 5);
      for (uint32_t lane; (lane = ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, 1)) != OVL_NO_LANE;) {
        ovl_core_op_t *op = rig_take(rig, lane);
        rig_end(rig, op, op->pub.microbatch == k && op->stage == s ? FAILED : 0);
      }
      assert_true(ovl_core_over(&rig->core));
      assert_first(rig, FAILED, s, k);
      assert_int_equal(rig->core.in_flight, 0);
      ovl_core_leave(&rig->core);
      rig_begin(rig, OVL_OVERLAP, 5);
      assert_int_equal(rig_run_dry(rig), 20);
      assert_int_equal(rig->core.first.status, 0);
      ovl_core_leave(&rig->core);
    }
  rig_free(rig);
}

/* ---- continue -------------------------------------------------------------------------------------------------- */

static void with_continue_only_the_failed_microbatch_is_skipped(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.keep_going = true;
  rig_begin(rig, OVL_OVERLAP, 6);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), FAILED);
  assert_int_equal(rig_run_dry(rig), 9);
  assert_true(ovl_core_over(&rig->core));
  assert_first(rig, FAILED, 0, 1);
  assert_int_equal(rig->core.tally.retired, 6);
  assert_int_equal(rig->core.tally.failed, 1);
  assert_int_equal(rig->core.tally.ops, 11);
  assert_int_equal(rig->core.tally.skipped, 1);
  assert_int_equal(rig->core.tally.stages[0].failed, 1);
  assert_int_equal(rig->core.tally.stages[1].skipped, 1);
  rig_free(rig);
}

static void with_continue_a_later_error_does_not_replace_the_first(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.keep_going = true;
  rig_begin(rig, OVL_OVERLAP, 4);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), FAILED_LATER);
  rig_run_dry(rig);
  assert_first(rig, FAILED, 0, 0);
  assert_int_equal(rig->core.tally.failed, 2);
  rig_free(rig);
}

/* `after` of 1 waits for `before` of 0, which is skipped: that counts as ended. */
static void a_skipped_op_counts_as_ended_for_what_waits_for_it(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->options.keep_going = true;
  uint32_t first = rig_stage(rig, rig_lane(rig, 2)), second = rig_stage(rig, rig_lane(rig, 2));
  rig_depend(rig, second, second, 1);
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *zero = rig_take_op(rig, 0, 0, first), *one = rig_take_op(rig, 0, 1, first);
  rig_end(rig, one, 0);
  assert_int_equal(rig_startable(rig, 1), 0);
  rig_end(rig, zero, FAILED);
  rig_end(rig, rig_take_op(rig, 1, 1, second), 0);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.skipped, 1);
  rig_free(rig);
}

/* The last stage waits for both branches; one fails while the other runs. */
static void a_skipped_op_waits_for_what_came_before_it(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  rig->options.keep_going = true;
  uint32_t lane = rig_lane(rig, 2), left = rig_unchained_stage(rig, lane),
           right = rig_unchained_stage(rig, lane), join = rig_unchained_stage(rig, lane),
           last = rig_always_stage(rig, lane);
  rig_depend(rig, left, join, 0);
  rig_depend(rig, right, join, 0);
  rig_begin(rig, OVL_OVERLAP, 1);
  ovl_core_op_t *slow = rig_take_op(rig, 0, 0, left);
  rig_end(rig, rig_take_op(rig, 0, 0, right), FAILED);
  assert_int_equal(rig_startable(rig, 0), 0); /* `last` may not pass the running `left` */
  rig_end(rig, slow, 0);
  ovl_core_op_t *op = rig_take_op(rig, 0, 0, last);
  assert_int_equal(op->pub.status, FAILED);
  rig_end(rig, op, 0);
  assert_int_equal(rig->core.tally.stages[join].skipped, 1);
  rig_free(rig);
}

/* Whatever fails, its dependents, theirs, and the admissions that follow come one after another. */
static void ten_thousand_skips_in_a_row_need_no_stack(void **state) {
  (void)state;
  enum { WINDOW = 10000 };
  const ovl_lane_desc_t lane = {.width = 1};
  const ovl_stage_desc_t stages[2] = {{.chained = true}, {.chained = true}};
  const ovl_dependency_t self = {.before = 1, .after = 1, .distance = 1};
  const ovl_description_t description = {.lanes = &lane,
                                         .stages = stages,
                                         .dependencies = &self,
                                         .lane_count = 1,
                                         .stage_count = 2,
                                         .dependency_count = 1,
                                         .window = WINDOW};
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  const ovl_core_options_t options = {.queue = 0};
  ovl_plan_t plan;
  ovl_core_t core;
  assert_int_equal(ovl_plan_init(&plan, &description, &memory), 0);
  assert_int_equal(ovl_core_init(&core, &plan, &options, &memory), 0);
  ovl_core_begin(&core, OVL_OVERLAP, WINDOW, 0);
  ovl_core_end(&core, ovl_core_take(&core, 0, 1), FAILED, 0, 2);
  assert_true(ovl_core_over(&core));
  assert_int_equal(core.tally.skipped, 2 * WINDOW - 1);
  assert_int_equal(core.tally.retired, WINDOW);
  ovl_core_finish(&core);
  ovl_plan_finish(&plan, &memory);
}

/* ---- always ---------------------------------------------------------------------------------------------------- */

/* first, then a stage that cleans up, then one that does not. */
static rig_t *with_a_cleaning_stage(void) {
  rig_t *rig = rig_new(2);
  rig_stage(rig, rig_lane(rig, 1));
  rig_always_stage(rig, rig_lane(rig, 1));
  rig_stage(rig, rig_lane(rig, 1));
  return rig;
}

static void a_stage_that_always_runs_sees_the_error(void **state) {
  (void)state;
  rig_t *rig = with_a_cleaning_stage();
  rig_begin(rig, OVL_OVERLAP, 2);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  ovl_core_op_t *op = rig_take_op(rig, 1, 0, 1);
  assert_int_equal(op->pub.status, FAILED);
  rig_end(rig, op, 0);
  op = rig_take_op(rig, 1, 1, 1); /* of the other one, which was stopped before its first stage */
  assert_int_equal(op->pub.status, OVL_ECANCELED);
  rig_end(rig, op, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.ops, 3);
  assert_int_equal(rig->core.tally.skipped, 3);
  rig_free(rig);
}

static void without_an_error_it_sees_none(void **state) {
  (void)state;
  rig_t *rig = with_a_cleaning_stage();
  rig_begin(rig, OVL_OVERLAP, 1);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  ovl_core_op_t *op = rig_take_op(rig, 1, 0, 1);
  assert_int_equal(op->pub.status, 0);
  rig_end(rig, op, 0);
  assert_int_equal(rig_run_dry(rig), 1);
  rig_free(rig);
}

static void its_own_error_does_not_replace_the_first(void **state) {
  (void)state;
  rig_t *rig = with_a_cleaning_stage();
  rig_begin(rig, OVL_OVERLAP, 1);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), FAILED);
  rig_end(rig, rig_take_op(rig, 1, 0, 1), FAILED_LATER);
  assert_true(ovl_core_over(&rig->core));
  assert_first(rig, FAILED, 0, 0);
  rig_free(rig);
}

static void one_that_is_ready_when_the_run_stops_stays_so(void **state) {
  (void)state;
  rig_t *rig = with_a_cleaning_stage();
  rig_begin(rig, OVL_OVERLAP, 2);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  assert_int_equal(rig_startable(rig, 1), 1);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), FAILED);
  ovl_core_op_t *op = rig_take_op(rig, 1, 0, 1);
  assert_int_equal(op->pub.status, OVL_ECANCELED);
  rig_end(rig, op, 0);
  op = rig_take_op(rig, 1, 1, 1);
  assert_int_equal(op->pub.status, FAILED);
  rig_end(rig, op, 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- deadlines ------------------------------------------------------------------------------------------------- */

static void an_op_that_outlives_its_deadline_keeps_its_slot(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.keep_going = true;
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *late = rig_take_op(rig, 0, 0, 0);
  rig_fail(rig, late, OVL_ETIMEDOUT);
  assert_first(rig, OVL_ETIMEDOUT, 0, 0);
  assert_int_equal(late->state, OVL_OP_RUNNING);
  assert_int_equal(slot_of(rig, 0)->state, OVL_SLOT_ACTIVE);
  assert_int_equal(rig->core.next, 2);
  assert_int_equal(rig_startable(rig, 0), 0); /* it still has the lane */
  rig_end(rig, late, 0);
  assert_int_equal(rig->core.next, 3);
  assert_int_equal(rig_run_dry(rig), 4);
  assert_int_equal(rig->core.tally.failed, 1);
  assert_int_equal(rig->core.tally.stages[0].failed, 1);
  rig_free(rig);
}

static void the_last_op_outlives_its_deadline(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(1);
  rig->options.tell = true;
  rig_begin(rig, OVL_OVERLAP, 1);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  ovl_core_op_t *late = rig_take_op(rig, 1, 0, 1);
  rig_fail(rig, late, OVL_ETIMEDOUT);
  ovl_fault_t fault;
  assert_true(ovl_core_next_fault(&rig->core, &fault, rig->now)); /* at once, the op still runs */
  assert_int_equal(fault.status, OVL_ETIMEDOUT);
  assert_false(ovl_core_over(&rig->core));
  rig_end(rig, late, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.failed, 1);
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(after_an_error_nothing_starts_and_what_runs_is_awaited),
      cmocka_unit_test(a_microbatch_with_nothing_left_to_start_is_not_affected),
      cmocka_unit_test(the_others_that_are_stopped_report_that_they_were_cancelled),
      cmocka_unit_test(the_first_error_is_kept_with_its_native_code),
      cmocka_unit_test(the_first_error_of_a_microbatch_is_kept),
      cmocka_unit_test(a_failure_anywhere_ends_the_run),
      cmocka_unit_test(with_continue_only_the_failed_microbatch_is_skipped),
      cmocka_unit_test(with_continue_a_later_error_does_not_replace_the_first),
      cmocka_unit_test(a_skipped_op_counts_as_ended_for_what_waits_for_it),
      cmocka_unit_test(a_skipped_op_waits_for_what_came_before_it),
      cmocka_unit_test(ten_thousand_skips_in_a_row_need_no_stack),
      cmocka_unit_test(a_stage_that_always_runs_sees_the_error),
      cmocka_unit_test(without_an_error_it_sees_none),
      cmocka_unit_test(its_own_error_does_not_replace_the_first),
      cmocka_unit_test(one_that_is_ready_when_the_run_stops_stays_so),
      cmocka_unit_test(an_op_that_outlives_its_deadline_keeps_its_slot),
      cmocka_unit_test(the_last_op_outlives_its_deadline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
