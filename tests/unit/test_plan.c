/* SPDX-License-Identifier: MIT */
/* Shows what a description is frozen into: its edges, the order of its stages, the widths that can be used, and
 * that what cannot finish is found and named. */
#include <stdlib.h>
#include <string.h>

#include "ovl/errors.h"
#include "plan/plan.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

static ovl_plan_t *build(rig_t *rig) {
  rig_build(rig);
  return &rig->plan;
}

static int try_to_plan(rig_t *rig) {
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_description_t description = rig_description(rig);
  ovl_plan_t plan;
  int r = ovl_plan_init(&plan, &description, &memory);
  if (r == 0)
    ovl_plan_finish(&plan, &memory);
  return r;
}

/* ---- edges ----------------------------------------------------------------------------------------------------- */

/* That stage's edges are exactly these (stage, distance), in this order. */
#define assert_edges(edges, stage, ...)                                                                   \
  check_edges(edges, stage, (const ovl_edge_t[]){__VA_ARGS__}, sizeof((const ovl_edge_t[]){__VA_ARGS__}), \
              __LINE__)
#define assert_no_edges(edges, stage) check_edges(edges, stage, NULL, 0, __LINE__)

static void check_edges(const ovl_edges_t *edges, uint32_t stage, const ovl_edge_t *expected, size_t bytes,
                        int line) {
  uint32_t first = edges->first[stage], count = edges->first[stage + 1] - first;
  _assert_int_equal(count, bytes / sizeof *expected, __FILE__, line);
  for (uint32_t i = 0; i < count; i++) {
    _assert_int_equal(edges->edges[first + i].stage, expected[i].stage, __FILE__, line);
    _assert_int_equal(edges->edges[first + i].distance, expected[i].distance, __FILE__, line);
  }
}

static void stages_are_chained_unless_they_are_not_to_be(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  uint32_t lane = rig_lane(rig, 1);
  rig_stage(rig, lane);
  rig_stage(rig, lane);
  rig_unchained_stage(rig, lane);
  rig_stage(rig, lane);
  const ovl_graph_t *graph = &build(rig)->graphs[OVL_OVERLAP];
  assert_edges(&graph->out, 0, {1, 0});
  assert_no_edges(&graph->out, 1);
  assert_edges(&graph->out, 2, {3, 0});
  assert_no_edges(&graph->out, 3);
  assert_no_edges(&graph->in, 0);
  assert_edges(&graph->in, 1, {0, 0});
  assert_no_edges(&graph->in, 2);
  assert_edges(&graph->in, 3, {2, 0});
  assert_false(graph->crosses);
  assert_int_equal(graph->limit, 4);
  rig_free(rig);
}

static void a_dependency_that_the_window_implies_is_left_out(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  uint32_t lane = rig_lane(rig, 1), a = rig_unchained_stage(rig, lane), b = rig_unchained_stage(rig, lane);
  rig_depend(rig, a, b, 3);
  rig_depend(rig, a, b, 4);
  rig_depend(rig, a, b, UINT32_MAX);
  rig_depend(rig, a, b, 2);
  const ovl_graph_t *graph = &build(rig)->graphs[OVL_OVERLAP];
  assert_edges(&graph->out, a, {b, 2});
  assert_edges(&graph->in, b, {a, 2});
  assert_true(graph->crosses);
  rig_free(rig);
}

static void a_window_of_one_leaves_only_what_is_within_a_microbatch(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  uint32_t lane = rig_lane(rig, 1), a = rig_unchained_stage(rig, lane), b = rig_unchained_stage(rig, lane);
  rig_depend(rig, a, a, 1);
  rig_depend(rig, b, a, 1);
  rig_depend(rig, a, b, 0);
  const ovl_graph_t *graph = &build(rig)->graphs[OVL_OVERLAP];
  assert_edges(&graph->out, a, {b, 0});
  assert_no_edges(&graph->out, b);
  assert_false(graph->crosses);
  rig_free(rig);
}

static void an_edge_said_twice_stands_once(void **state) {
  (void)state;
  rig_t *rig = rig_new(8);
  uint32_t lane = rig_lane(rig, 1), a = rig_stage(rig, lane), b = rig_stage(rig, lane);
  rig_depend(rig, a, b, 0); /* the chain says so already */
  for (int i = 0; i < 3; i++)
    rig_depend(rig, a, b, 5);
  rig_depend(rig, a, b, 1);
  const ovl_graph_t *graph = &build(rig)->graphs[OVL_OVERLAP];
  assert_edges(&graph->out, a, {b, 0}, {b, 1}, {b, 5});
  assert_edges(&graph->in, b, {a, 0}, {a, 1}, {a, 5});
  rig_free(rig);
}

static void edges_out_are_sorted_by_distance_then_stage(void **state) {
  (void)state;
  rig_t *rig = rig_new(8);
  uint32_t lane = rig_lane(rig, 1);
  for (int i = 0; i < 4; i++)
    rig_unchained_stage(rig, lane);
  rig_depend(rig, 1, 2, 2);
  rig_depend(rig, 1, 3, 0);
  rig_depend(rig, 1, 0, 2);
  rig_depend(rig, 1, 1, 1);
  rig_depend(rig, 1, 0, 1);
  rig_depend(rig, 1, 2, 0);
  assert_edges(&build(rig)->graphs[OVL_OVERLAP].out, 1, {2, 0}, {3, 0}, {0, 1}, {1, 1}, {0, 2}, {2, 2});
  rig_free(rig);
}

/* ---- order ----------------------------------------------------------------------------------------------------- */

static void the_order_of_independent_stages_is_that_of_their_numbers(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t lane = rig_lane(rig, 1);
  for (int i = 0; i < 20; i++)
    rig_unchained_stage(rig, lane);
  const ovl_plan_t *plan = build(rig);
  for (uint32_t i = 0; i < 20; i++)
    assert_int_equal(plan->order[i], i);
  rig_free(rig);
}

static void a_dependency_that_leads_backwards_moves_a_stage_behind_and_no_other(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t lane = rig_lane(rig, 1);
  for (int i = 0; i < 5; i++)
    rig_unchained_stage(rig, lane);
  rig_depend(rig, 3, 0, 0);
  rig_depend(rig, 0, 2, 0);
  rig_depend(rig, 4, 1, 1); /* another microbatch's: says nothing of the order */
  const uint32_t expected[] = {1, 3, 0, 2, 4};
  assert_memory_equal(build(rig)->order, expected, sizeof expected);
  rig_free(rig);
}

static void the_serial_graph_is_a_chain_along_the_order(void **state) {
  (void)state;
  rig_t *rig = rig_new(5);
  uint32_t lane = rig_lane(rig, 3);
  for (int i = 0; i < 4; i++)
    rig_unchained_stage(rig, lane);
  rig_depend(rig, 3, 0, 0);
  rig_depend(rig, 1, 2, 2);
  const ovl_plan_t *plan = build(rig); /* order 1, 2, 3, 0 */
  const ovl_graph_t *graph = &plan->graphs[OVL_SERIAL];
  assert_edges(&graph->out, 1, {2, 0});
  assert_edges(&graph->out, 2, {3, 0});
  assert_edges(&graph->out, 3, {0, 0});
  assert_no_edges(&graph->out, 0);
  assert_no_edges(&graph->in, 1);
  assert_edges(&graph->in, 0, {3, 0});
  assert_int_equal(graph->limit, 1);
  assert_false(graph->crosses);
  rig_free(rig);
}

/* ---- lanes ----------------------------------------------------------------------------------------------------- */

static void widths_are_cut_to_what_window_and_stages_can_use(void **state) {
  (void)state;
  rig_t *rig = rig_new(3);
  const uint32_t widths[] = {5, 6, 7, UINT32_MAX, 1, 9};
  for (uint32_t l = 0; l < 6; l++)
    rig_lane(rig, widths[l]);
  for (uint32_t l = 0; l < 4; l++) { /* two stages on each of these, so at most 6 ops at a time */
    rig_stage(rig, l);
    rig_stage(rig, l);
  }
  rig_stage(rig, 4);
  const uint32_t expected[] = {5, 6, 6, 6, 1, 1}; /* the last has no stage */
  const ovl_plan_t *plan = build(rig);
  for (uint32_t l = 0; l < 6; l++)
    assert_int_equal(plan->lanes[l].width, expected[l]);
  rig_free(rig);
}

static void a_width_is_not_cut_by_a_product_that_overflows(void **state) {
  (void)state;
  rig_t *rig = rig_new(UINT32_C(1) << 31);
  rig_lane(rig, 1000);
  rig_stage(rig, 0);
  rig_stage(rig, 0); /* window x 2 does not fit into 32 bits */
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_description_t description = rig_description(rig);
  ovl_plan_t plan;
  assert_int_equal(ovl_plan_init(&plan, &description, &memory), 0);
  assert_int_equal(plan.lanes[0].width, 1000);
  ovl_plan_finish(&plan, &memory);
  rig_free(rig);
}

static void roles_and_kinds_are_kept(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->lanes[rig_lane(rig, 1)].role = OVL_ROLE_COMM;
  rig->lanes[rig_lane(rig, 1)].kind = OVL_LANE_LOOP;
  rig->stages[rig_stage(rig, 1)].always = true;
  const ovl_plan_t *plan = build(rig);
  assert_int_equal(plan->lanes[0].role, OVL_ROLE_COMM);
  assert_int_equal(plan->lanes[0].kind, OVL_LANE_POOL);
  assert_int_equal(plan->lanes[1].kind, OVL_LANE_LOOP);
  assert_int_equal(plan->stages[0].lane, 1);
  assert_true(plan->stages[0].always);
  rig_free(rig);
}

/* ---- nothing and much ------------------------------------------------------------------------------------------ */

static void an_empty_pipeline_has_an_empty_plan(void **state) {
  (void)state;
  rig_t *rig = rig_new(7);
  const ovl_plan_t *plan = build(rig);
  assert_int_equal(plan->stage_count, 0);
  assert_int_equal(plan->lane_count, 0);
  assert_int_equal(plan->window, 7);
  for (int mode = 0; mode < 2; mode++) {
    assert_int_equal(plan->graphs[mode].in.first[0], 0);
    assert_int_equal(plan->graphs[mode].out.first[0], 0);
    assert_false(plan->graphs[mode].crosses);
  }
  rig_free(rig);
}

enum { MANY = 10000 };

static const ovl_stage_desc_t *many_stages(bool chained) {
  static ovl_stage_desc_t stages[MANY];
  for (uint32_t s = 0; s < MANY; s++)
    stages[s] = (ovl_stage_desc_t){.chained = chained};
  return stages;
}

static void a_chain_of_ten_thousand_stages_has_its_edges_and_order(void **state) {
  (void)state;
  const ovl_lane_desc_t lane = {.width = 1};
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  const ovl_description_t description = {
      .lanes = &lane, .stages = many_stages(true), .lane_count = 1, .stage_count = MANY, .window = 2};
  ovl_plan_t plan;
  assert_int_equal(ovl_plan_init(&plan, &description, &memory), 0);
  for (uint32_t s = 0; s < MANY; s++) {
    assert_int_equal(plan.order[s], s);
    assert_int_equal(plan.graphs[OVL_OVERLAP].in.first[s + 1], s);
    assert_int_equal(plan.graphs[OVL_OVERLAP].out.first[s], s);
  }
  ovl_plan_finish(&plan, &memory);
  assert_int_equal(counting_held(&allocator), 0);
}

/* Every stage waits for the one of the next number: all lead backwards, and the order is upside down. */
static void ten_thousand_dependencies_that_lead_backwards_turn_the_order_round(void **state) {
  (void)state;
  static ovl_dependency_t dependencies[MANY - 1];
  for (uint32_t s = 0; s < MANY - 1; s++)
    dependencies[s] = (ovl_dependency_t){.before = s + 1, .after = s};
  const ovl_lane_desc_t lane = {.width = 1};
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  const ovl_description_t description = {.lanes = &lane,
                                         .stages = many_stages(false),
                                         .dependencies = dependencies,
                                         .lane_count = 1,
                                         .stage_count = MANY,
                                         .dependency_count = MANY - 1,
                                         .window = 2};
  ovl_plan_t plan;
  assert_int_equal(ovl_plan_init(&plan, &description, &memory), 0);
  for (uint32_t s = 0; s < MANY; s++)
    assert_int_equal(plan.order[s], MANY - 1 - s);
  ovl_plan_finish(&plan, &memory);

  static uint32_t path[MANY];
  uint32_t length = 0;
  assert_int_equal(ovl_plan_find_path(&description, MANY - 1, 0, &memory, path, &length), 0);
  assert_int_equal(length, MANY);
  for (uint32_t i = 0; i < length; i++)
    assert_int_equal(path[i], MANY - 1 - i);
  assert_int_equal(counting_held(&allocator), 0);
}

/* ---- cycles ---------------------------------------------------------------------------------------------------- */

static uint32_t find_path(rig_t *rig, uint32_t from, uint32_t to, uint32_t *path) {
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_description_t description = rig_description(rig);
  uint32_t length = UINT32_MAX;
  assert_int_equal(ovl_plan_find_path(&description, from, to, &memory, path, &length), 0);
  return length;
}

static void a_cycle_within_a_microbatch_is_refused_and_nothing_is_held(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  uint32_t lane = rig_lane(rig, 1);
  for (int i = 0; i < 3; i++)
    rig_stage(rig, lane);
  rig_depend(rig, 2, 1, 0);
  assert_int_equal(try_to_plan(rig), OVL_ECYCLE);
  assert_int_equal(counting_held(&rig->allocator), 0);
  rig_free(rig);
}

static void a_stage_that_waits_for_itself_is_a_cycle(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  rig_stage(rig, rig_lane(rig, 1));
  rig_depend(rig, 0, 0, 0);
  assert_int_equal(try_to_plan(rig), OVL_ECYCLE);
  rig_free(rig);
}

static void a_cycle_over_microbatches_is_none(void **state) {
  (void)state;
  rig_t *rig = rig_new(4);
  uint32_t lane = rig_lane(rig, 1);
  for (int i = 0; i < 3; i++)
    rig_stage(rig, lane);
  rig_depend(rig, 2, 0, 1);
  rig_depend(rig, 1, 1, 1);
  assert_int_equal(try_to_plan(rig), 0);
  rig_free(rig);
}

/* 0 -> 1, 2 -> 3 -> 4 chained; declared 1 -> 2 one microbatch later only, and 4 -> 0. */
static rig_t *two_chains(void) {
  rig_t *rig = rig_new(4);
  uint32_t lane = rig_lane(rig, 1);
  rig_stage(rig, lane);
  rig_stage(rig, lane);
  rig_unchained_stage(rig, lane);
  rig_stage(rig, lane);
  rig_stage(rig, lane);
  rig_depend(rig, 1, 2, 1);
  rig_depend(rig, 4, 0, 0);
  return rig;
}

static void a_path_names_every_stage_on_the_way(void **state) {
  (void)state;
  rig_t *rig = two_chains();
  uint32_t path[RIG_STAGES] = {0};
  const uint32_t expected[] = {2, 3, 4, 0, 1};
  assert_int_equal(find_path(rig, 2, 1, path), 5);
  assert_memory_equal(path, expected, sizeof expected);
  assert_int_equal(find_path(rig, 3, 3, path), 1);
  assert_int_equal(path[0], 3);
  rig_free(rig);
}

static void there_is_no_path_along_edges_to_other_microbatches(void **state) {
  (void)state;
  rig_t *rig = two_chains();
  uint32_t path[RIG_STAGES] = {0};
  assert_int_equal(find_path(rig, 1, 2, path), 0);
  assert_int_equal(find_path(rig, 1, 0, path), 0);
  assert_int_equal(find_path(rig, 0, 3, path), 0);
  rig_free(rig);
}

static void a_path_avoids_dead_ends(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  uint32_t lane = rig_lane(rig, 1), path[RIG_STAGES] = {0};
  for (int i = 0; i < 6; i++)
    rig_unchained_stage(rig, lane);
  rig_depend(rig, 0, 1, 0);
  rig_depend(rig, 1, 2, 0); /* a dead end */
  rig_depend(rig, 1, 3, 0); /* another */
  rig_depend(rig, 0, 4, 0);
  rig_depend(rig, 4, 3, 0);
  rig_depend(rig, 4, 5, 0);
  const uint32_t expected[] = {0, 4, 5};
  assert_int_equal(find_path(rig, 0, 5, path), 3);
  assert_memory_equal(path, expected, sizeof expected);
  rig_free(rig);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void every_allocation_of_a_plan_may_fail(void **state) {
  (void)state;
  rig_t *rig = two_chains();
  long failing = 1;
  for (int r = OVL_ENOMEM; r != 0; failing++) {
    unsigned long failures = atomic_load(&rig->allocator.failures);
    atomic_store(&rig->allocator.fail_at, failing);
    r = try_to_plan(rig);
    assert_int_equal(r, atomic_load(&rig->allocator.failures) > failures ? OVL_ENOMEM : 0);
    assert_int_equal(counting_held(&rig->allocator), 0);
  }
  assert_true(failing > 8);
  rig_free(rig);
}

static void every_allocation_of_a_search_may_fail(void **state) {
  (void)state;
  rig_t *rig = two_chains();
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_description_t description = rig_description(rig);
  uint32_t path[RIG_STAGES], length = 0;
  long failing = 1;
  for (int r = OVL_ENOMEM; r != 0; failing++) {
    unsigned long failures = atomic_load(&rig->allocator.failures);
    atomic_store(&rig->allocator.fail_at, failing);
    r = ovl_plan_find_path(&description, 2, 1, &memory, path, &length);
    assert_int_equal(r, atomic_load(&rig->allocator.failures) > failures ? OVL_ENOMEM : 0);
    assert_int_equal(counting_held(&rig->allocator), 0);
  }
  assert_true(failing > 4);
  assert_int_equal(length, 5);
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages_are_chained_unless_they_are_not_to_be),
      cmocka_unit_test(a_dependency_that_the_window_implies_is_left_out),
      cmocka_unit_test(a_window_of_one_leaves_only_what_is_within_a_microbatch),
      cmocka_unit_test(an_edge_said_twice_stands_once),
      cmocka_unit_test(edges_out_are_sorted_by_distance_then_stage),
      cmocka_unit_test(the_order_of_independent_stages_is_that_of_their_numbers),
      cmocka_unit_test(a_dependency_that_leads_backwards_moves_a_stage_behind_and_no_other),
      cmocka_unit_test(the_serial_graph_is_a_chain_along_the_order),
      cmocka_unit_test(widths_are_cut_to_what_window_and_stages_can_use),
      cmocka_unit_test(a_width_is_not_cut_by_a_product_that_overflows),
      cmocka_unit_test(roles_and_kinds_are_kept),
      cmocka_unit_test(an_empty_pipeline_has_an_empty_plan),
      cmocka_unit_test(a_chain_of_ten_thousand_stages_has_its_edges_and_order),
      cmocka_unit_test(ten_thousand_dependencies_that_lead_backwards_turn_the_order_round),
      cmocka_unit_test(a_cycle_within_a_microbatch_is_refused_and_nothing_is_held),
      cmocka_unit_test(a_stage_that_waits_for_itself_is_a_cycle),
      cmocka_unit_test(a_cycle_over_microbatches_is_none),
      cmocka_unit_test(a_path_names_every_stage_on_the_way),
      cmocka_unit_test(there_is_no_path_along_edges_to_other_microbatches),
      cmocka_unit_test(a_path_avoids_dead_ends),
      cmocka_unit_test(every_allocation_of_a_plan_may_fail),
      cmocka_unit_test(every_allocation_of_a_search_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
