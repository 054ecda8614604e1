/* SPDX-License-Identifier: MIT */
/* Shows that a lane of fixed order starts its ops in that order whatever happens, that an order is planned from the
 * cost hints alone, and how good a planned order is. */
#include "core/core.h"
#include "ovl/errors.h"
#include "sim/orders.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"
#include "support/random.h"

#define FAILED (-5)

/* ---- microbatch by microbatch ------------------------------------------------------------------------------------ */

/* Stages 0 and 2 on a fixed lane, stage 1 between them on another. */
static rig_t *there_and_back(uint32_t window) {
  rig_t *rig = rig_new(window);
  uint32_t fixed = rig_fixed_lane(rig), other = rig_lane(rig, 4);
  rig_stage(rig, fixed);
  rig_stage(rig, other);
  rig_stage(rig, fixed);
  return rig;
}

static void without_a_source_the_order_is_microbatch_by_microbatch(void **state) {
  (void)state;
  rig_t *rig = there_and_back(3);
  for (int run = 0; run < 2; run++) { /* and in every run again */
    rig_begin(rig, OVL_OVERLAP, 4);
    for (uint64_t i = 0; i < 4; i++) {
      rig_end(rig, rig_take_op(rig, 0, i, 0), 0);
      assert_int_equal(rig_startable(rig, 0), 0); /* the first stage of the next one has to wait */
      rig_end(rig, rig_take_op(rig, 1, i, 1), 0);
      rig_end(rig, rig_take_op(rig, 0, i, 2), 0);
    }
    assert_true(ovl_core_over(&rig->core));
    ovl_core_leave(&rig->core);
  }
  rig_free(rig);
}

static void nothing_overtakes(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t wide = rig_lane(rig, 3), fixed = rig_fixed_lane(rig);
  rig_stage(rig, wide);
  rig_stage(rig, fixed);
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *ops[3];
  for (uint64_t i = 0; i < 3; i++)
    ops[i] = rig_take_op(rig, wide, i, 0);
  rig_end(rig, ops[2], 0);
  rig_end(rig, ops[1], 0);
  assert_int_equal(rig->core.lanes[fixed].ready, 2);
  assert_int_equal(rig_startable(rig, fixed), 0);
  rig_end(rig, ops[0], 0);
  for (uint64_t i = 0; i < 3; i++)
    rig_end(rig, rig_take_op(rig, fixed, i, 1), 0);
  rig_free(rig);
}

static void an_op_that_is_skipped_has_had_its_turn(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t wide = rig_lane(rig, 3), fixed = rig_fixed_lane(rig);
  rig->options.keep_going = true;
  rig_stage(rig, wide);
  rig_stage(rig, fixed);
  rig_begin(rig, OVL_OVERLAP, 3);
  ovl_core_op_t *zero = rig_take_op(rig, wide, 0, 0), *one = rig_take_op(rig, wide, 1, 0);
  rig_end(rig, one, FAILED);
  rig_end(rig, rig_take_op(rig, wide, 2, 0), 0);
  assert_int_equal(rig_startable(rig, fixed), 0);
  rig_end(rig, zero, 0);
  rig_end(rig, rig_take_op(rig, fixed, 0, 1), 0);
  rig_end(rig, rig_take_op(rig, fixed, 2, 1), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void streams_have_that_order_too(void **state) {
  (void)state;
  rig_t *rig = there_and_back(3);
  rig->options.queue = 10;
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (int i = 0; i < 6; i++)
    assert_int_equal(rig_submit(rig, NULL), 0);
  for (uint64_t i = 0; i < 6; i++) {
    rig_end(rig, rig_take_op(rig, 0, i, 0), 0);
    rig_end(rig, rig_take_op(rig, 1, i, 1), 0);
    rig_end(rig, rig_take_op(rig, 0, i, 2), 0);
  }
  rig_finish(rig);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- orders from outside ----------------------------------------------------------------------------------------- */

/* An order of one lane, written down. */
typedef struct script {
  const ovl_op_ref_t *refs;
  size_t count, at;
} script_t;

static bool next_of_script(void *context, ovl_core_t *core, uint32_t lane, ovl_op_ref_t *ref) {
  script_t *script = context;
  (void)core;
  (void)lane;
  if (script->at == script->count)
    return false;
  *ref = script->refs[script->at++];
  return true;
}

static void set_script(rig_t *rig, script_t *script) {
  const ovl_order_source_t source = {.next = next_of_script, .context = script};
  rig_build(rig);
  ovl_core_set_order(&rig->core, &source);
}

static void an_order_is_kept_as_it_is_given(void **state) {
  (void)state;
  const ovl_op_ref_t refs[] = {{1, 0}, {0, 0}, {0, 2}, {1, 2}};
  script_t script = {refs, 4, 0};
  rig_t *rig = there_and_back(2);
  set_script(rig, &script);
  rig_begin(rig, OVL_OVERLAP, 2);
  rig_end(rig, rig_take_op(rig, 0, 1, 0), 0);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  rig_end(rig, rig_take_op(rig, 1, 1, 1), 0);
  assert_int_equal(rig_startable(rig, 0), 0); /* stage 2 of 1 is ready, but it is 0's turn */
  rig_end(rig, rig_take_op(rig, 1, 0, 1), 0);
  rig_end(rig, rig_take_op(rig, 0, 0, 2), 0);
  rig_end(rig, rig_take_op(rig, 0, 1, 2), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_serial_run_has_an_order_of_its_own(void **state) {
  (void)state;
  const ovl_op_ref_t refs[] = {{1, 0}, {0, 0}, {0, 2}, {1, 2}};
  script_t script = {refs, 4, 0};
  rig_t *rig = there_and_back(2);
  set_script(rig, &script);
  rig_begin(rig, OVL_SERIAL, 2);
  for (uint64_t i = 0; i < 2; i++)
    for (uint32_t s = 0; s < 3; s++)
      rig_end(rig, rig_take_op(rig, s % 2, i, s), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* Microbatch 2 has the turn and will never come: what is ready behind it, and cleans up, must not wait for it. */
static void after_a_stop_nobody_waits_for_one_that_never_comes(void **state) {
  (void)state;
  const ovl_op_ref_t refs[] = {{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {2, 1}};
  script_t script = {refs, 6, 0};
  rig_t *rig = rig_new(2);
  uint32_t fixed = rig_fixed_lane(rig);
  rig_always_stage(rig, fixed);
  rig_always_stage(rig, fixed);
  set_script(rig, &script);
  rig_begin(rig, OVL_OVERLAP, 3);
  rig_end(rig, rig_take_op(rig, fixed, 0, 0), 0);
  rig_end(rig, rig_take_op(rig, fixed, 1, 0), 0);
  ovl_core_op_t *last_of_zero = rig_take_op(rig, fixed, 0, 1);
  rig_cancel(rig);
  rig_end(rig, last_of_zero, 0);
  ovl_core_op_t *cleaning = rig_take_op(rig, fixed, 1, 1);
  assert_int_equal(cleaning->pub.status, OVL_ECANCELED);
  rig_end(rig, cleaning, 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* ---- planned orders ---------------------------------------------------------------------------------------------- */

static const uint64_t *hints; /* by stage */

static uint64_t hint(void *context, const ovl_op_t *op) {
  (void)context;
  return hints[op->stage.id - 1];
}

static const ovl_order_list_t none_given[RIG_LANES];

static void plan_orders(rig_t *rig, ovl_orders_t *orders, const uint64_t *costs,
                        const ovl_order_list_t *given) {
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  rig_build(rig);
  hints = costs;
  assert_int_equal(ovl_orders_init(orders, &rig->plan, given, hint, NULL, false, NULL, &memory), 0);
}

static void begin_orders(rig_t *rig, ovl_orders_t *orders, uint64_t count) {
  const ovl_order_source_t source = ovl_orders_source(orders);
  assert_int_equal(ovl_orders_begin(orders, count), 0);
  ovl_core_set_order(&rig->core, &source);
}

enum { LAYERS = 4 };

static rig_t *layers(void) {
  rig_t *rig = rig_new(2);
  rig_fixed_lane(rig);
  rig_fixed_lane(rig);
  for (uint32_t s = 0; s < 2 * LAYERS; s++)
    rig_stage(rig, s % 2);
  return rig;
}

/* Four layers, all ops equally long, two microbatches: 16 in serial, 15 oldest first, and 9 at best. */
static void a_planned_order_keeps_both_lanes_busy(void **state) {
  (void)state;
  const uint64_t ones[2 * LAYERS] = {1, 1, 1, 1, 1, 1, 1, 1};
  rig_t *rig = layers();
  assert_int_equal(rig_simulate_stages(rig, OVL_SERIAL, 2, ones), 16);
  assert_int_equal(rig_simulate_stages(rig, OVL_OVERLAP, 2, ones), 15);
  ovl_orders_t orders;
  plan_orders(rig, &orders, ones, none_given);
  begin_orders(rig, &orders, 2);
  assert_int_equal(rig_simulate_stages(rig, OVL_OVERLAP, 2, ones), 9);
  ovl_orders_finish(&orders);
  rig_free(rig);
}

typedef struct starts {
  random_source_t random;
  ovl_op_ref_t refs[2][64];
  uint32_t counts[2];
} starts_t;

static uint64_t note_start_and_draw_duration(const ovl_core_op_t *op, void *context) {
  starts_t *starts = context;
  uint32_t lane = op->lane;
  starts->refs[lane][starts->counts[lane]++] =
      (ovl_op_ref_t){.microbatch = op->pub.microbatch, .stage = op->stage};
  return random_below(&starts->random, 20);
}

static void the_order_is_the_same_whatever_the_durations_are(void **state) {
  (void)state;
  const uint64_t costs[2 * LAYERS] = {3, 1, 4, 1, 5, 9, 2, 6};
  static starts_t first, starts;
  rig_t *rig = layers();
  ovl_orders_t orders;
  plan_orders(rig, &orders, costs, none_given);
  for (uint64_t run = 0; run < 50; run++) {
    starts = (starts_t){.random = {run}};
    begin_orders(rig, &orders, 5);
    rig_simulate(rig, OVL_OVERLAP, 5, note_start_and_draw_duration, &starts);
    if (run == 0)
      first = starts;
    assert_memory_equal(starts.refs, first.refs, sizeof first.refs);
  }
  ovl_orders_finish(&orders);
  rig_free(rig);
}

/* The first lane runs as far ahead of the second as the window lets it, and much further in the plan. */
static void a_plan_may_run_ahead_by_two_windows(void **state) {
  (void)state;
  enum { WINDOW = 4, COUNT = 20 };
  const uint64_t costs[] = {10, 10, 1, 1};
  rig_t *rig = rig_new(WINDOW);
  uint32_t ahead = rig_fixed_lane(rig), behind = rig_fixed_lane(rig);
  for (uint32_t s = 0; s < 4; s++)
    rig_unchained_stage(rig, s < 2 ? ahead : behind);
  ovl_orders_t orders;
  plan_orders(rig, &orders, costs, none_given);
  begin_orders(rig, &orders, COUNT);
  rig_begin(rig, OVL_OVERLAP, COUNT);
  uint32_t ops = 0;
  while (!ovl_core_over(&rig->core)) {
    uint32_t lane = rig_startable(rig, ahead) > 0 ? ahead : behind;
    rig_end(rig, rig_take(rig, lane), 0);
    ops++;
  }
  assert_int_equal(ops, 4 * COUNT);
  ovl_orders_finish(&orders);
  rig_free(rig);
}

enum { HELD = 4, WIDE = 5, SKIPPING_COUNT = 20 };

/* What can go on without the first stage of microbatch HELD: on the lane that runs ahead first. */
static uint32_t lane_without_the_held_op(const rig_t *rig) {
  for (uint32_t l = 0; l < rig->lane_count; l++) {
    const ovl_core_op_t *op = rig->core.lanes[l].head;
    if (rig_startable(rig, l) > 0 && !(l == 2 && ovl_core_op_microbatch(&rig->core, op) == HELD))
      return l;
  }
  return OVL_NO_LANE;
}

/* The second lane's turn is that of a microbatch which is held up, while those before it fail: their last ops, which
 * stand behind that turn in the plan, are skipped, and the first lane runs a window ahead. Then the plan of the
 * second lane begins a window before its turn and ends two windows behind it. */
static void a_plan_may_hold_three_windows_when_microbatches_fail(void **state) {
  (void)state;
  const uint64_t costs[] = {100, 100, 1, 1, 50, 1};
  rig_t *rig = rig_new(WIDE);
  rig->options.keep_going = true;
  uint32_t ahead = rig_fixed_lane(rig), behind = rig_fixed_lane(rig);
  uint32_t first = rig_lane(rig, WIDE), between = rig_lane(rig, WIDE);
  rig_unchained_stage(rig, ahead);
  rig_unchained_stage(rig, ahead);
  rig_unchained_stage(rig, first);
  rig_stage(rig, behind);
  rig_stage(rig, between);
  rig_stage(rig, behind);
  ovl_orders_t orders;
  plan_orders(rig, &orders, costs, none_given);
  begin_orders(rig, &orders, SKIPPING_COUNT);
  rig_begin(rig, OVL_OVERLAP, SKIPPING_COUNT);
  for (uint32_t l; (l = lane_without_the_held_op(rig)) != OVL_NO_LANE;) {
    ovl_core_op_t *op = rig_take(rig, l);
    rig_end(rig, op, l == between && op->pub.microbatch < HELD ? FAILED : 0);
  }
  assert_int_equal(rig->core.next, HELD + WIDE); /* all before it have retired */
  assert_int_equal(ovl_core_lane_ops(&rig->core, ahead), 2 * (HELD + WIDE));
  rig_run_dry(rig);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.skipped, HELD);
  assert_int_equal(rig->core.tally.ops, 6 * SKIPPING_COUNT - HELD);
  ovl_orders_finish(&orders);
  rig_free(rig);
}

/* A run that is cancelled leaves its plan half used; the next one starts from its beginning. */
static void a_plan_is_made_anew_for_every_run(void **state) {
  (void)state;
  const uint64_t costs[2 * LAYERS] = {1, 1, 1, 1, 1, 1, 1, 1};
  rig_t *rig = layers();
  ovl_orders_t orders;
  plan_orders(rig, &orders, costs, none_given);
  for (int stop_after = 0; stop_after < 2 * LAYERS; stop_after++) {
    begin_orders(rig, &orders, 4);
    rig_begin(rig, OVL_OVERLAP, 4);
    for (int k = 0; k < stop_after; k++)
      rig_end(rig, rig_take(rig, rig_startable(rig, 0) > 0 ? 0 : 1), 0);
    rig_cancel(rig);
    assert_true(ovl_core_over(&rig->core));
    ovl_core_leave(&rig->core);
    begin_orders(rig, &orders, 2);
    assert_int_equal(rig_simulate_stages(rig, OVL_OVERLAP, 2, costs), 9);
  }
  ovl_orders_finish(&orders);
  rig_free(rig);
}

/* ---- orders that cannot be kept ---------------------------------------------------------------------------------- */

static bool feasible(rig_t *rig, uint32_t lane, ovl_op_ref_t *refs, uint64_t count, uint64_t microbatches,
                     ovl_op_ref_t *turn) {
  const uint64_t costs[] = {1, 1, 1};
  ovl_order_list_t given[RIG_LANES] = {{0}};
  ovl_orders_t orders;
  uint32_t stuck = OVL_NO_LANE;
  given[lane] = (ovl_order_list_t){.refs = refs, .count = count};
  plan_orders(rig, &orders, costs, given);
  bool kept = ovl_orders_feasible(&orders, microbatches, &stuck, turn);
  if (!kept)
    assert_int_equal(stuck, lane);
  ovl_orders_finish(&orders);
  return kept;
}

static void an_order_that_waits_for_itself_is_found_out(void **state) {
  (void)state;
  rig_t *rig = there_and_back(2);
  ovl_op_ref_t turn = {0};
  ovl_op_ref_t good[] = {{0, 0}, {1, 0}, {1, 2}, {0, 2}};
  assert_true(feasible(rig, 0, good, 4, 2, &turn));
  ovl_op_ref_t upside_down[] = {{0, 0}, {1, 2}, {1, 0}, {0, 2}};
  assert_false(feasible(rig, 0, upside_down, 4, 2, &turn));
  assert_int_equal(turn.microbatch, 1);
  assert_int_equal(turn.stage, 2);
  rig_free(rig);
}

static void an_order_that_the_window_forbids_is_found_out(void **state) {
  (void)state;
  rig_t *rig = there_and_back(2);
  ovl_op_ref_t turn = {0};
  ovl_op_ref_t wide[] = {{0, 0}, {1, 0}, {2, 0}, {0, 2}, {1, 2}, {2, 2}}; /* three in flight */
  assert_false(feasible(rig, 0, wide, 6, 3, &turn));
  assert_int_equal(turn.microbatch, 2);
  assert_int_equal(turn.stage, 0);
  ovl_op_ref_t narrow[] = {{0, 0}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 2}};
  assert_true(feasible(rig, 0, narrow, 6, 3, &turn));
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_source_the_order_is_microbatch_by_microbatch),
      cmocka_unit_test(nothing_overtakes),
      cmocka_unit_test(an_op_that_is_skipped_has_had_its_turn),
      cmocka_unit_test(streams_have_that_order_too),
      cmocka_unit_test(an_order_is_kept_as_it_is_given),
      cmocka_unit_test(a_serial_run_has_an_order_of_its_own),
      cmocka_unit_test(after_a_stop_nobody_waits_for_one_that_never_comes),
      cmocka_unit_test(a_planned_order_keeps_both_lanes_busy),
      cmocka_unit_test(the_order_is_the_same_whatever_the_durations_are),
      cmocka_unit_test(a_plan_may_run_ahead_by_two_windows),
      cmocka_unit_test(a_plan_may_hold_three_windows_when_microbatches_fail),
      cmocka_unit_test(a_plan_is_made_anew_for_every_run),
      cmocka_unit_test(an_order_that_waits_for_itself_is_found_out),
      cmocka_unit_test(an_order_that_the_window_forbids_is_found_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
