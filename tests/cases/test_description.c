/* SPDX-License-Identifier: MIT */
/* Case 25: a cycle of total distance 0 is refused before anything runs, in words that name its stages, and without
 * a trace; a cycle with a distance in it runs, in its order. [Ray 45594, 48953] */
#include <stdio.h>
#include <string.h>

#include "support/probe.h"

enum { STAGES = PROBE_STAGES, MICROBATCHES = 6 };

/* Stages S0 ... S5, chained or not. */
static probe_t *open_stages(uint32_t count, uint32_t window, bool chained) {
  const probe_way_t ways[] = {PROBE_POOL, PROBE_LOOP, PROBE_POOL_FOREIGN};
  probe_options_t options = {.stage_count = count, .window = window};
  for (uint32_t s = 0; s < count; s++)
    options.stages[s] = (probe_stage_t){.way = ways[s % 3], .unchained = !chained};
  return probe_open(&options);
}

static int add(probe_t *probe, uint32_t before, uint32_t after, uint32_t distance) {
  return ovl_pipeline_add_dependency(probe->pipeline, probe->stages[before], probe->stages[after], distance);
}

/* The text has the stages of the cycle in their order, beginning and ending with the same one. */
static void assert_names_cycle(const probe_t *probe, const uint32_t *cycle, uint32_t length) {
  const char *text = ovl_pipeline_error(probe->pipeline);
  char wanted[STAGES * 8 + 8], name[8];
  for (uint32_t turn = 0; turn < length; turn++) {
    wanted[0] = '\0';
    for (uint32_t i = 0; i <= length; i++) {
      snprintf(name, sizeof name, "\"S%u\"", (unsigned)cycle[(turn + i) % length]);
      strcat(strcat(wanted, i == 0 ? "" : " -> "), name);
    }
    if (strstr(text, wanted) != NULL)
      return;
  }
  fail_msg("the cycle is not named in: %s", text);
}

/* Nothing of the refused dependency is left: the pipeline runs as if it had never been asked. */
static void assert_runs(probe_t *probe) {
  probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
  probe_close(probe);
}

/* ---- refused --------------------------------------------------------------------------------------------------------- */

static void case_25_a_stage_that_waits_for_itself(void **state) {
  (void)state;
  for (uint32_t s = 0; s < STAGES; s++)
    for (int chained = 0; chained < 2; chained++) {
      probe_t *probe = open_stages(STAGES, 2, chained != 0);
      assert_int_equal(add(probe, s, s, 0), OVL_ECYCLE);
      assert_names_cycle(probe, &s, 1);
      assert_runs(probe);
    }
}

/* Back from any stage of a chain to any before it: the chain between them is the cycle. */
static void case_25_back_along_the_chain(void **state) {
  (void)state;
  for (uint32_t to = 0; to < STAGES; to++)
    for (uint32_t from = to + 1; from < STAGES; from++) {
      uint32_t cycle[STAGES], length = 0;
      probe_t *probe = open_stages(STAGES, 1 + (from + to) % 3, true);
      for (uint32_t s = to; s <= from; s++)
        cycle[length++] = s;
      assert_int_equal(add(probe, from, to, 0), OVL_ECYCLE);
      assert_names_cycle(probe, cycle, length);
      assert_int_equal(probe->event_count, 0);
      assert_runs(probe);
    }
}

/* A ring of declared dependencies among unchained stages: whichever comes last is refused. */
static void case_25_a_ring_closed_by_any_of_its_dependencies(void **state) {
  (void)state;
  const uint32_t ring[] = {3, 0, 4, 1, 5, 2};
  for (uint32_t length = 2; length <= STAGES; length++)
    for (uint32_t last = 0; last < length; last++) {
      probe_t *probe = open_stages(STAGES, 3, false);
      for (uint32_t i = 1; i < length; i++)
        assert_int_equal(add(probe, ring[(last + i) % length], ring[(last + i + 1) % length], 0), 0);
      assert_string_equal(ovl_pipeline_error(probe->pipeline), "");
      assert_int_equal(add(probe, ring[last], ring[(last + 1) % length], 0), OVL_ECYCLE);
      assert_names_cycle(probe, ring, length);
      assert_runs(probe);
    }
}

/* Some of the way is chain (0 to 1, 2 to 3, 4 to 5), some declared. */
static void case_25_half_declared_half_chained(void **state) {
  (void)state;
  const uint32_t cycle[] = {0, 1, 4, 5, 2}, other[] = {2, 3, 4, 5};
  probe_t *probe = probe_open(&(probe_options_t){.stage_count = STAGES,
                                                 .stages = {{.way = PROBE_POOL},
                                                            {.way = PROBE_POOL},
                                                            {.way = PROBE_POOL, .unchained = true},
                                                            {.way = PROBE_POOL},
                                                            {.way = PROBE_POOL, .unchained = true},
                                                            {.way = PROBE_POOL}},
                                                 .window = 2});
  assert_int_equal(add(probe, 5, 2, 0), 0);
  assert_int_equal(add(probe, 2, 0, 0), 0);
  assert_int_equal(add(probe, 1, 4, 0), OVL_ECYCLE);
  assert_names_cycle(probe, cycle, 5);
  assert_int_equal(add(probe, 3, 4, 0), OVL_ECYCLE);
  assert_names_cycle(probe, other, 4);
  assert_int_equal(add(probe, 3, 0, 0), 0);
  assert_runs(probe);
}

/* Names are the user's, and may be as long as they like. */
static void case_25_long_names(void **state) {
  (void)state;
  char name[600];
  ovl_pipeline_t *p;
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_stage_t stages[40];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  stage.name = lane.name = name;
  assert_int_equal(ovl_pipeline_create(&p, NULL), 0);
  assert_int_equal(ovl_pipeline_add_lane(p, &lane, &stage.lane), 0);
  for (int i = 0; i < 40; i++)
    assert_int_equal(ovl_pipeline_add_stage(p, &stage, &stages[i]), 0);
  assert_int_equal(ovl_pipeline_add_dependency(p, stages[39], stages[0], 0), OVL_ECYCLE);
  assert_true(strlen(ovl_pipeline_error(p)) > 20);
  assert_int_equal(ovl_pipeline_run(p, 2), 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- runs --------------------------------------------------------------------------------------------------------------- */

/* `before` of microbatch i - distance ended before `after` of microbatch i started. */
static void assert_kept(const probe_t *probe, uint32_t before, uint32_t after, uint32_t distance) {
  for (uint64_t i = distance; i < MICROBATCHES; i++) {
    const probe_event_t *ended = probe_find(probe, PROBE_ENDS, before, i - distance);
    const probe_event_t *started = probe_find(probe, PROBE_STARTS, after, i);
    assert_true(ended->number < started->number);
  }
}

/* Any stage may wait for any of an earlier microbatch, itself included: with the chain it makes a cycle, whose
 * distance is not 0. */
static void case_25_a_cycle_with_a_distance_runs(void **state) {
  (void)state;
  const uint32_t stages = 4;
  for (uint32_t before = 0; before < stages; before++)
    for (uint32_t after = 0; after <= before; after++)
      for (uint32_t distance = 1; distance <= 4; distance++)
        for (uint32_t window = 1; window <= 4; window += 1 + (before + after) % 2) {
          probe_t *probe = open_stages(stages, window, true);
          assert_int_equal(add(probe, before, after, distance), 0);
          probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
          assert_kept(probe, before, after, distance);
          assert_int_equal(ovl_pipeline_set_mode(probe->pipeline, OVL_SERIAL), 0);
          probe->options.mode = OVL_SERIAL;
          probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
          assert_kept(probe, before, after, distance);
          probe_close(probe);
        }
}

/* Forward and back at once, and a join over all earlier microbatches: distances 1 ... window - 1. */
static void case_25_several_cycles_with_distances_run(void **state) {
  (void)state;
  for (uint32_t window = 2; window <= 4; window++) {
    probe_t *probe = open_stages(3, window, true);
    for (uint32_t distance = 1; distance < window; distance++) {
      assert_int_equal(add(probe, 2, 0, distance), 0);
      assert_int_equal(add(probe, 0, 2, distance), 0);
      assert_int_equal(add(probe, 1, 1, distance), 0);
      assert_int_equal(add(probe, 1, 1, distance), 0); /* twice is once */
    }
    assert_int_equal(add(probe, 2, 1, 0), OVL_ECYCLE);
    probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
    for (uint32_t distance = 1; distance < window; distance++) {
      assert_kept(probe, 2, 0, distance);
      assert_kept(probe, 0, 2, distance);
      assert_kept(probe, 1, 1, distance);
    }
    probe_close(probe);
  }
}

/* Unchained stages tied by distances alone: one in the first direction, 0 in the other. */
static void case_25_distance_one_forward_and_none_back(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 3; window++) {
    probe_t *probe = open_stages(2, window, false);
    assert_int_equal(add(probe, 1, 0, 0), 0);
    assert_int_equal(add(probe, 0, 1, 1), 0);
    probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
    assert_kept(probe, 1, 0, 0);
    assert_kept(probe, 0, 1, 1);
    probe_close(probe);
  }
}

/* ---- other refusals ------------------------------------------------------------------------------------------------------ */

static void dependencies_on_stages_that_are_not_there(void **state) {
  (void)state;
  probe_t *probe = open_stages(2, 2, true);
  const ovl_stage_t none = {0}, beyond = {3};
  assert_int_equal(ovl_pipeline_add_dependency(NULL, probe->stages[0], probe->stages[1], 0), OVL_EINVAL);
  for (uint32_t distance = 0; distance < 2; distance++) {
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, none, probe->stages[1], distance),
                     OVL_ENOSTAGE);
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, probe->stages[0], none, distance),
                     OVL_ENOSTAGE);
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, beyond, probe->stages[1], distance),
                     OVL_ENOSTAGE);
    assert_int_equal(ovl_pipeline_add_dependency(probe->pipeline, probe->stages[0], beyond, distance),
                     OVL_ENOSTAGE);
  }
  assert_int_not_equal(strlen(ovl_pipeline_error(probe->pipeline)), 0);
  assert_runs(probe);
}

/* After the first run, and during one, a description stays as it is. */
static void describe_on(probe_t *probe, const probe_event_t *event) {
  if (event->on_loop && event->type != PROBE_DONE && event->type != PROBE_CLOSED)
    if (add(probe, 0, 1, 0) != OVL_EBUSY)
      probe_die("a description was changed while a run was in flight");
}

static void a_description_is_frozen_by_its_first_run(void **state) {
  (void)state;
  probe_t *probe = open_stages(2, 2, true);
  probe->options.on_event = describe_on;
  probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
  assert_int_equal(add(probe, 0, 1, 0), OVL_EFROZEN);
  assert_int_equal(add(probe, 1, 0, 0), OVL_EFROZEN);
  assert_int_not_equal(strlen(ovl_pipeline_error(probe->pipeline)), 0);
  assert_runs(probe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_25_a_stage_that_waits_for_itself),
      cmocka_unit_test(case_25_back_along_the_chain),
      cmocka_unit_test(case_25_a_ring_closed_by_any_of_its_dependencies),
      cmocka_unit_test(case_25_half_declared_half_chained),
      cmocka_unit_test(case_25_long_names),
      cmocka_unit_test(case_25_a_cycle_with_a_distance_runs),
      cmocka_unit_test(case_25_several_cycles_with_distances_run),
      cmocka_unit_test(case_25_distance_one_forward_and_none_back),
      cmocka_unit_test(dependencies_on_stages_that_are_not_there),
      cmocka_unit_test(a_description_is_frozen_by_its_first_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
