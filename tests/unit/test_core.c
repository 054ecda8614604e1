/* SPDX-License-Identifier: MIT */
/* Shows who is admitted when, what may start in which order, and when a microbatch retires: the core alone, with
 * no error, no library around it, no thread and no clock. */
#include "core/core.h"
#include "ovl/errors.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

/* ---- admission, window, slots ---------------------------------------------------------------------------------- */

static void the_window_admits_that_many_and_no_more(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig_begin(rig, OVL_OVERLAP, 10);
  assert_int_equal(rig->core.in_flight, 3);
  assert_int_equal(rig->core.next, 3);
  assert_int_equal(rig->core.lanes[0].ready, 3);
  rig_free(rig);
}

static void fewer_microbatches_than_the_window_are_all_admitted(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(8);
  rig_begin(rig, OVL_OVERLAP, 3);
  assert_int_equal(rig->core.in_flight, 3);
  assert_int_equal(rig_run_dry(rig), 6);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void an_op_says_what_it_is(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig_begin(rig, OVL_OVERLAP, 10);
  for (uint64_t i = 0; i < 10; i++) {
    ovl_core_op_t *op = rig_take_op(rig, 0, i, 0);
    assert_int_equal(op->pub.slot, i % 3);
    assert_int_equal(op->pub.stage.id, 1);
    assert_int_equal(op->pub.lane.id, 1);
    assert_int_equal(op->pub.status, 0);
    assert_null(op->pub.item);
    rig_end(rig, op, 0);
    op = rig_take_op(rig, 1, i, 1);
    assert_int_equal(op->pub.slot, i % 3);
    assert_int_equal(op->pub.stage.id, 2);
    assert_int_equal(op->pub.lane.id, 2);
    rig_end(rig, op, 0);
  }
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* Microbatch 1 ends first; 2 needs slot 0 and waits for 0, and 3 waits for 2 though its slot is free. */
static void a_microbatch_waits_for_the_one_a_window_earlier_whoever_ends_first(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig_stage(rig, rig_lane(rig, 2));
  rig_begin(rig, OVL_OVERLAP, 4);
  ovl_core_op_t *first = rig_take_op(rig, 0, 0, 0), *second = rig_take_op(rig, 0, 1, 0);
  rig_end(rig, second, 0);
  assert_int_equal(rig->core.next, 2);
  assert_int_equal(rig->core.in_flight, 1);
  assert_int_equal(rig_startable(rig, 0), 0);
  rig_end(rig, first, 0);
  assert_int_equal(rig->core.next, 4);
  rig_take_op(rig, 0, 2, 0);
  rig_take_op(rig, 0, 3, 0);
  rig_free(rig);
}

static void nothing_to_do_is_done_at_once(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 0);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.retired, 0);
  rig_free(rig);
}

static void microbatches_without_stages_all_retire(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig_begin(rig, OVL_OVERLAP, UINT64_C(1000000000000));
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.retired, UINT64_C(1000000000000));
  rig_free(rig);
}

static void microbatches_without_stages_are_reported_one_by_one(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->options.report = true;
  rig_begin(rig, OVL_OVERLAP, 5);
  for (uint64_t i = 0; i < 5; i++) {
    assert_false(ovl_core_over(&rig->core));
    ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
    assert_non_null(slot);
    assert_int_equal(slot->microbatch, i);
    rig_retire(rig, slot);
  }
  assert_null(ovl_core_next_ended(&rig->core));
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- what waits for what --------------------------------------------------------------------------------------- */

static void a_stage_starts_only_after_the_one_before_it(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 2);
  assert_int_equal(rig_startable(rig, 1), 0);
  ovl_core_op_t *op = rig_take_op(rig, 0, 0, 0);
  assert_int_equal(rig_startable(rig, 1), 0);
  rig_end(rig, op, 0);
  assert_int_equal(rig_startable(rig, 1), 1);
  rig_take_op(rig, 1, 0, 1);
  assert_int_equal(rig_startable(rig, 0), 1); /* meanwhile the next one may compute */
  rig_free(rig);
}

static void a_dependency_waits_for_the_microbatch_that_far_back(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  uint32_t before = rig_unchained_stage(rig, rig_lane(rig, 4)),
           after = rig_unchained_stage(rig, rig_lane(rig, 4));
  rig_depend(rig, before, after, 2);
  rig_begin(rig, OVL_OVERLAP, 4);
  assert_int_equal(rig_startable(rig, 1), 2); /* of 0 and 1: there is nothing to wait for */
  rig_take_op(rig, 1, 0, after);
  rig_take_op(rig, 1, 1, after);
  ovl_core_op_t *zero = rig_take_op(rig, 0, 0, before), *one = rig_take_op(rig, 0, 1, before);
  rig_end(rig, one, 0);
  rig_take_op(rig, 1, 3, after);
  rig_end(rig, zero, 0);
  rig_take_op(rig, 1, 2, after);
  rig_free(rig);
}

static void one_admitted_late_sees_what_has_ended_already(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t slow = rig_unchained_stage(rig, rig_lane(rig, 1)),
           before = rig_unchained_stage(rig, rig_lane(rig, 1)),
           after = rig_unchained_stage(rig, rig_lane(rig, 1));
  rig_depend(rig, before, after, 1);
  rig_begin(rig, OVL_OVERLAP, 3);
  rig_end(rig, rig_take_op(rig, 1, 0, before), 0);
  rig_end(rig, rig_take_op(rig, 1, 1, before), 0);
  rig_end(rig, rig_take_op(rig, 2, 0, after), 0);
  rig_end(rig, rig_take_op(rig, 2, 1, after), 0);
  assert_int_equal(rig_startable(rig, 2), 0);
  rig_end(rig, rig_take_op(rig, 0, 0, slow), 0); /* 0 retires and 2 comes: `before` of 1 has ended */
  rig_take_op(rig, 2, 2, after);
  rig_free(rig);
}

/* Distances 0 .. window - 1 together wait for all earlier microbatches. */
static void a_join_waits_for_all_earlier_microbatches(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t before = rig_unchained_stage(rig, rig_lane(rig, 3)),
           after = rig_unchained_stage(rig, rig_lane(rig, 3));
  for (uint32_t distance = 0; distance < 3; distance++)
    rig_depend(rig, before, after, distance);
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *ops[3];
  for (uint64_t i = 0; i < 3; i++)
    ops[i] = rig_take_op(rig, 0, i, before);
  rig_end(rig, ops[2], 0);
  rig_end(rig, ops[1], 0);
  assert_int_equal(rig_startable(rig, 1), 0);
  rig_end(rig, ops[0], 0);
  assert_int_equal(rig_startable(rig, 1), 3);
  rig_free(rig);
}

static void a_stage_may_wait_for_itself_one_microbatch_back(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  rig_stage(rig, rig_lane(rig, 4));
  rig_depend(rig, 0, 0, 1);
  rig_begin(rig, OVL_OVERLAP, 6);
  for (uint64_t i = 0; i < 6; i++) {
    assert_int_equal(rig_startable(rig, 0), 1);
    rig_end(rig, rig_take_op(rig, 0, i, 0), 0);
  }
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_dependency_may_lead_backwards(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  uint32_t lane = rig_lane(rig, 2);
  rig_unchained_stage(rig, lane);
  rig_unchained_stage(rig, lane);
  rig_depend(rig, 1, 0, 0);
  rig_begin(rig, OVL_OVERLAP, 1);
  ovl_core_op_t *op = rig_take_op(rig, 0, 0, 1);
  assert_int_equal(rig_startable(rig, 0), 0);
  rig_end(rig, op, 0);
  rig_take_op(rig, 0, 0, 0);
  rig_free(rig);
}

/* ---- lanes: order and width ------------------------------------------------------------------------------------ */

static void first_ready_is_first_started(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t wide = rig_lane(rig, 2), narrow = rig_lane(rig, 1);
  rig_stage(rig, wide);
  rig_stage(rig, narrow);
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *zero = rig_take_op(rig, wide, 0, 0), *one = rig_take_op(rig, wide, 1, 0);
  rig_end(rig, one, 0);
  rig_end(rig, zero, 0);
  rig_end(rig, rig_take_op(rig, narrow, 1, 1), 0);
  rig_end(rig, rig_take_op(rig, narrow, 0, 1), 0);
  rig_free(rig);
}

/* The same, but both become ready at the same time. */
static void ties_go_by_microbatch_then_stage(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t wide = rig_lane(rig, 4), narrow = rig_lane(rig, 1);
  for (int i = 0; i < 2; i++) {
    rig_unchained_stage(rig, wide);
    rig_stage(rig, narrow); /* stages 1 and 3 */
  }
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *ops[4];
  for (int i = 0; i < 4; i++)
    ops[i] = rig_take(rig, wide);
  for (int i = 3; i >= 0; i--)
    ovl_core_end(&rig->core, ops[i], 0, 0, rig->now); /* one instant for all four */
  for (uint64_t i = 0; i < 2; i++) {
    rig_end(rig, rig_take_op(rig, narrow, i, 1), 0);
    rig_end(rig, rig_take_op(rig, narrow, i, 3), 0);
  }
  rig_free(rig);
}

static void a_lane_runs_no_more_than_its_width(void **state) {
  (void)state;
  rig_t *rig = rig_new(5);
  rig_stage(rig, rig_lane(rig, 3));
  rig_begin(rig, OVL_OVERLAP, 5);
  assert_int_equal(rig_startable(rig, 0), 3);
  assert_int_equal(rig->core.startable[OVL_LANE_POOL], 3);
  ovl_core_op_t *op = rig_take_op(rig, 0, 0, 0);
  ovl_core_op_t *second = rig_take_op(rig, 0, 1, 0), *third = rig_take_op(rig, 0, 2, 0);
  assert_int_equal(rig_startable(rig, 0), 0);
  assert_int_equal(ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, 0), OVL_NO_LANE);
  rig_end(rig, op, 0);
  rig_end(rig, rig_take_op(rig, 0, 3, 0), 0);
  assert_int_equal(rig_startable(rig, 0), 1);
  rig_end(rig, second, 0);
  rig_end(rig, third, 0);
  rig_end(rig, rig_take_op(rig, 0, 4, 0), 0); /* alone */
  assert_int_equal(rig->core.lanes[0].peak, 3);
  rig_free(rig);
}

static void a_held_lane_starts_nothing_until_it_is_let_go(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 2);
  ovl_core_op_t *op = rig_take_op(rig, 0, 0, 0);
  ovl_core_hold_lane(&rig->core, 1, true);
  rig_end(rig, op, 0);
  assert_int_equal(rig->core.lanes[1].ready, 1);
  assert_int_equal(rig_startable(rig, 1), 0);
  assert_int_equal(ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, 1), 0);
  ovl_core_hold_lane(&rig->core, 1, false);
  assert_int_equal(rig_startable(rig, 1), 1);
  rig_take_op(rig, 1, 0, 1);
  rig_free(rig);
}

static void a_hold_does_not_outlive_its_run(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 0);
  ovl_core_hold_lane(&rig->core, 0, true);
  ovl_core_leave(&rig->core);
  rig_begin(rig, OVL_OVERLAP, 1);
  assert_int_equal(rig_run_dry(rig), 2);
  rig_free(rig);
}

static void the_preferred_lane_is_picked_else_the_lowest_of_the_kind(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  for (uint32_t l = 0; l < 150; l++) { /* more than fit into two words of bits */
    rig_unchained_stage(rig, rig_lane(rig, 1));
    rig->lanes[l].kind = l % 2 == 0 ? OVL_LANE_POOL : OVL_LANE_LOOP;
  }
  rig_begin(rig, OVL_OVERLAP, 1);
  const ovl_core_t *core = &rig->core;
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_POOL, OVL_NO_LANE), 0);
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_LOOP, OVL_NO_LANE), 1);
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_POOL, 146), 146);
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_POOL, 147), 0); /* of the other kind */
  for (uint32_t l = 0; l < 149; l++)
    rig_take(rig, l);
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_POOL, OVL_NO_LANE), OVL_NO_LANE);
  assert_int_equal(ovl_core_pick_lane(core, OVL_LANE_LOOP, 5), 149);
  rig_free(rig);
}

/* ---- the serial mode ------------------------------------------------------------------------------------------- */

static void serial_runs_one_op_at_a_time_microbatch_by_microbatch(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t wide = rig_lane(rig, 3);
  for (int i = 0; i < 3; i++)
    rig_unchained_stage(rig, wide);
  rig_depend(rig, 2, 0, 0);
  rig_begin(rig, OVL_SERIAL, 5);
  const uint32_t order[] = {1, 2, 0};
  for (uint64_t i = 0; i < 5; i++)
    for (int k = 0; k < 3; k++) {
      assert_int_equal(rig->core.in_flight, 1);
      ovl_core_op_t *op = rig_take_op(rig, wide, i, order[k]);
      assert_int_equal(op->pub.slot, i % 3); /* slots go on in turn */
      assert_int_equal(rig->core.startable[OVL_LANE_POOL], 0);
      rig_end(rig, op, 0);
    }
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- ending and retiring --------------------------------------------------------------------------------------- */

static void microbatches_are_reported_in_the_order_in_which_they_end(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  rig->options.report = true;
  rig_stage(rig, rig_lane(rig, 3));
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *ops[3];
  for (uint64_t i = 0; i < 3; i++)
    ops[i] = rig_take_op(rig, 0, i, 0);
  const int order[] = {2, 0, 1};
  for (int i = 0; i < 3; i++)
    rig_end(rig, ops[order[i]], 0);
  for (int i = 0; i < 3; i++) {
    ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
    assert_int_equal(slot->microbatch, order[i]);
    rig_retire(rig, slot);
  }
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_slot_is_not_used_again_before_its_microbatch_is_retired(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->options.report = true;
  rig_stage(rig, rig_lane(rig, 2));
  rig_begin(rig, OVL_OVERLAP, 3);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
  assert_int_equal(rig->core.next, 2);
  assert_int_equal(rig->core.tally.retired, 0);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), 0);
  assert_int_equal(rig->core.next, 2);
  rig_retire(rig, slot);
  assert_int_equal(rig->core.next, 3);
  rig_take_op(rig, 0, 2, 0);
  rig_free(rig);
}

/* Retired out of order: 1 before 0. 2 still waits for 0. */
static void retirement_may_be_out_of_order_but_admission_is_not(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->options.report = true;
  rig_stage(rig, rig_lane(rig, 2));
  rig_begin(rig, OVL_OVERLAP, 4);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), 0);
  ovl_core_slot_t *zero = ovl_core_next_ended(&rig->core), *one = ovl_core_next_ended(&rig->core);
  rig_retire(rig, one);
  assert_int_equal(rig->core.next, 2);
  rig_retire(rig, zero);
  assert_int_equal(rig->core.next, 4);
  rig_free(rig);
}

static void every_run_starts_afresh(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 3);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), -5);
  rig_run_dry(rig);
  assert_true(ovl_core_over(&rig->core));
  ovl_core_leave(&rig->core);
  for (int run = 0; run < 2; run++) {
    rig_begin(rig, run == 0 ? OVL_SERIAL : OVL_OVERLAP, 3);
    assert_int_equal(rig->core.first.status, 0);
    assert_int_equal(rig_run_dry(rig), 6);
    assert_true(ovl_core_over(&rig->core));
    assert_int_equal(rig->core.tally.ops, 6);
    assert_int_equal(rig->core.tally.retired, 3);
    assert_int_equal(rig->core.tally.failed, 0);
    assert_int_equal(rig->core.tally.skipped, 0);
    ovl_core_leave(&rig->core);
    assert_false(ovl_core_over(&rig->core)); /* there is no run to be over */
  }
  rig_free(rig);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void every_allocation_of_a_core_may_fail(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  for (uint32_t width = 1; width <= 3; width++) /* wide ones have more to allocate */
    rig_stage(rig, rig_lane(rig, width));
  rig_build(rig); /* for its plan */
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  unsigned long held = counting_held(&rig->allocator);
  long failing = 1;
  for (int r = OVL_ENOMEM; r != 0; failing++) {
    ovl_core_t core;
    unsigned long failures = atomic_load(&rig->allocator.failures);
    atomic_store(&rig->allocator.fail_at, failing);
    r = ovl_core_init(&core, &rig->plan, &rig->options, &memory);
    assert_int_equal(r, atomic_load(&rig->allocator.failures) > failures ? OVL_ENOMEM : 0);
    if (r == 0)
      ovl_core_finish(&core);
    assert_int_equal(counting_held(&rig->allocator), held);
  }
  assert_true(failing > 10);
  rig_free(rig);
}

static void more_items_than_can_be_counted_are_too_big(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig_build(rig);
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_core_options_t options = {.queue = UINT32_MAX - 2};
  unsigned long held = counting_held(&rig->allocator);
  ovl_core_t core;
  assert_int_equal(ovl_core_init(&core, &rig->plan, &options, &memory), OVL_ETOOBIG);
  assert_int_equal(counting_held(&rig->allocator), held);
  rig_free(rig);
}

static void a_run_allocates_nothing(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(3);
  rig_build(rig);
  unsigned long allocations = atomic_load(&rig->allocator.allocations);
  rig_begin(rig, OVL_OVERLAP, 1000);
  assert_int_equal(rig_run_dry(rig), 2000);
  assert_int_equal(atomic_load(&rig->allocator.allocations), allocations);
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_window_admits_that_many_and_no_more),
      cmocka_unit_test(fewer_microbatches_than_the_window_are_all_admitted),
      cmocka_unit_test(an_op_says_what_it_is),
      cmocka_unit_test(a_microbatch_waits_for_the_one_a_window_earlier_whoever_ends_first),
      cmocka_unit_test(nothing_to_do_is_done_at_once),
      cmocka_unit_test(microbatches_without_stages_all_retire),
      cmocka_unit_test(microbatches_without_stages_are_reported_one_by_one),
      cmocka_unit_test(a_stage_starts_only_after_the_one_before_it),
      cmocka_unit_test(a_dependency_waits_for_the_microbatch_that_far_back),
      cmocka_unit_test(one_admitted_late_sees_what_has_ended_already),
      cmocka_unit_test(a_join_waits_for_all_earlier_microbatches),
      cmocka_unit_test(a_stage_may_wait_for_itself_one_microbatch_back),
      cmocka_unit_test(a_dependency_may_lead_backwards),
      cmocka_unit_test(first_ready_is_first_started),
      cmocka_unit_test(ties_go_by_microbatch_then_stage),
      cmocka_unit_test(a_lane_runs_no_more_than_its_width),
      cmocka_unit_test(a_held_lane_starts_nothing_until_it_is_let_go),
      cmocka_unit_test(a_hold_does_not_outlive_its_run),
      cmocka_unit_test(the_preferred_lane_is_picked_else_the_lowest_of_the_kind),
      cmocka_unit_test(serial_runs_one_op_at_a_time_microbatch_by_microbatch),
      cmocka_unit_test(microbatches_are_reported_in_the_order_in_which_they_end),
      cmocka_unit_test(a_slot_is_not_used_again_before_its_microbatch_is_retired),
      cmocka_unit_test(retirement_may_be_out_of_order_but_admission_is_not),
      cmocka_unit_test(every_run_starts_afresh),
      cmocka_unit_test(every_allocation_of_a_core_may_fail),
      cmocka_unit_test(more_items_than_can_be_counted_are_too_big),
      cmocka_unit_test(a_run_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
