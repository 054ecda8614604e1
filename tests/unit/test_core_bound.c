/* SPDX-License-Identifier: MIT */
/* Shows in virtual time that the core's schedules take exactly as long as theory says, and that the bound, which is
 * worked out on the fly, is what they take: no shorter, no longer, and without anybody's overhead. */
#include "core/core.h"
#include "ovl/errors.h"
#include "ovl/theory.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

#define MS UINT64_C(1000000)

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t bound_of(const rig_t *rig) { return rig->core.tally.bound - rig->core.started; }

/* Nothing is in the way in virtual time: the run takes its bound, and that is what theory says. */
#define assert_takes(rig, mode, count, durations, expected)                        \
  do {                                                                             \
    uint64_t expected_ = (expected);                                               \
    assert_int_equal(rig_simulate_stages(rig, mode, count, durations), expected_); \
    assert_int_equal(bound_of(rig), expected_);                                    \
  } while (0)

/* ---- two lanes --------------------------------------------------------------------------------------------------- */

static void eight_times_50_and_30_ms_take_430_ms_and_640_in_serial(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(4);
  const uint64_t durations[] = {50 * MS, 30 * MS};
  assert_takes(rig, OVL_OVERLAP, 8, durations, 430 * MS);
  assert_int_equal(rig->core.tally.work, 640 * MS);
  assert_int_equal(rig->core.tally.hidden, 7 * 30 * MS); /* all but the last communication */
  assert_int_equal(rig->core.tally.exposed, 30 * MS);
  assert_takes(rig, OVL_SERIAL, 8, durations, 640 * MS);
  assert_int_equal(rig->core.tally.hidden, 0);
  assert_int_equal(rig->core.tally.exposed, 8 * 30 * MS);
  rig_free(rig);
}

static void two_lanes_take_what_the_closed_form_says(void **state) {
  (void)state;
  const uint64_t pairs[][2] = {{1, 1}, {3, 2}, {2, 3}, {0, 5}, {5, 0}, {0, 0}, {7, 1}};
  for (uint32_t window = 2; window <= 5; window++) {
    rig_t *rig = rig_new_two_lanes(window);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
      for (uint64_t n = 0; n <= 9; n++) {
        assert_takes(rig, OVL_OVERLAP, n, pairs[k], ovl_bound_overlap(n, pairs[k][0], pairs[k][1]));
        assert_takes(rig, OVL_SERIAL, n, pairs[k], ovl_bound_serial(n, pairs[k][0], pairs[k][1]));
      }
    rig_free(rig);
  }
}

static void a_window_of_one_is_serial(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(1);
  const uint64_t durations[] = {5, 3};
  for (uint64_t n = 0; n <= 9; n++)
    assert_takes(rig, OVL_OVERLAP, n, durations, ovl_bound_serial(n, 5, 3));
  rig_free(rig);
}

/* Durations that differ from microbatch to microbatch: op (i, s) takes table[2 i + s]. */
enum { N = 12 };

static uint64_t from_table(const ovl_core_op_t *op, void *table) {
  return ((const uint64_t *)table)[2 * op->pub.microbatch + op->stage];
}

static void fill_table(uint64_t *table, unsigned seed) {
  for (unsigned i = 0; i < 2 * N; i++)
    table[i] = (seed * 7919 + i * i * 31 + i * seed * 17) % 23;
}

/* S1(j) = max(C1(j-1), C2(j-W)), S2(j) = max(C1(j), C2(j-1)) */
static uint64_t by_recurrence(const uint64_t *table, uint32_t window) {
  uint64_t c1[N], c2[N];
  for (uint32_t j = 0; j < N; j++) {
    uint64_t s1 = larger(j > 0 ? c1[j - 1] : 0, j >= window ? c2[j - window] : 0);
    c1[j] = s1 + table[2 * j];
    c2[j] = larger(c1[j], j > 0 ? c2[j - 1] : 0) + table[2 * j + 1];
  }
  return c2[N - 1];
}

/* The longest of the paths that compute the first k and then communicate. */
static uint64_t by_paths(const uint64_t *table) {
  uint64_t longest = 0;
  for (uint32_t k = 0; k < N; k++) {
    uint64_t path = 0;
    for (uint32_t i = 0; i < N; i++)
      path += (i <= k ? table[2 * i] : 0) + (i >= k ? table[2 * i + 1] : 0);
    longest = larger(longest, path);
  }
  return longest;
}

static void unequal_durations_take_what_the_window_allows(void **state) {
  (void)state;
  uint64_t table[2 * N];
  for (uint32_t window = 1; window <= N + 1; window++) {
    rig_t *rig = rig_new_two_lanes(window);
    for (unsigned seed = 1; seed <= 20; seed++) {
      fill_table(table, seed);
      uint64_t expected = by_recurrence(table, window);
      assert_int_equal(rig_simulate(rig, OVL_OVERLAP, N, from_table, table), expected);
      assert_int_equal(bound_of(rig), expected);
      if (window > N)
        assert_int_equal(expected, by_paths(table));
    }
    rig_free(rig);
  }
}

/* ---- more lanes -------------------------------------------------------------------------------------------------- */

/* A chain of stages on lanes of their own: T = max(S + (n-1) P, (K+1) S + (n-1-KW) P), K = floor((n-1) / W). */
static void a_chain_takes_what_its_longest_stage_or_its_window_allows(void **state) {
  (void)state;
  const uint64_t durations[] = {4, 7, 2, 5};
  const uint64_t sum = 18, longest = 7;
  for (uint32_t window = 1; window <= 5; window++) {
    rig_t *rig = rig_new(window);
    for (int s = 0; s < 4; s++)
      rig_stage(rig, rig_lane(rig, 1));
    for (uint64_t n = 1; n <= 17; n++) {
      uint64_t k = (n - 1) / window;
      uint64_t expected = larger(sum + (n - 1) * longest, (k + 1) * sum + (n - 1 - k * window) * longest);
      assert_takes(rig, OVL_OVERLAP, n, durations, expected);
    }
    rig_free(rig);
  }
}

/* Layers of compute and communication, back and forth between two lanes, all microbatches in the window. */
static void layers_take_the_longer_lane_and_once_the_shorter(void **state) {
  (void)state;
  enum { LAYERS = 4 };
  const uint64_t pairs[][2] = {{3, 2}, {2, 3}, {2, 2}, {9, 1}};
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
    for (uint32_t n = 1; n <= 5; n++) {
      rig_t *rig = rig_new(n);
      uint64_t durations[2 * LAYERS], c = pairs[k][0], m = pairs[k][1];
      rig_lane(rig, 1);
      rig_lane(rig, 1);
      for (uint32_t s = 0; s < 2 * LAYERS; s++) {
        rig_stage(rig, s % 2);
        durations[s] = pairs[k][s % 2];
      }
      uint64_t expected = n == 1 ? LAYERS * (c + m) : n * LAYERS * larger(c, m) + smaller(c, m);
      assert_takes(rig, OVL_OVERLAP, n, durations, expected);
      rig_free(rig);
    }
}

static void a_wide_lane_takes_several_at_a_time(void **state) {
  (void)state;
  rig_t *rig = rig_new(6);
  rig_stage(rig, rig_lane(rig, 3));
  const uint64_t durations[] = {10};
  assert_takes(rig, OVL_OVERLAP, 6, durations, 20);
  assert_takes(rig, OVL_OVERLAP, 7, durations, 30);
  rig_free(rig);
}

/* a and b side by side, then a join: 10 + 4 for each microbatch, and b of the next meanwhile. */
static void branches_run_side_by_side(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  uint32_t a = rig_unchained_stage(rig, rig_lane(rig, 1)), b = rig_unchained_stage(rig, rig_lane(rig, 1)),
           join = rig_unchained_stage(rig, rig_lane(rig, 1));
  rig_depend(rig, a, join, 0);
  rig_depend(rig, b, join, 0);
  const uint64_t durations[] = {10, 6, 4};
  assert_takes(rig, OVL_OVERLAP, 3, durations, 3 * 14);
  rig_free(rig);
}

/* The op of microbatch i waits for that of i - 2: two chains, side by side. */
static void a_distance_makes_so_many_chains(void **state) {
  (void)state;
  rig_t *rig = rig_new(8);
  rig_stage(rig, rig_lane(rig, 8));
  rig_depend(rig, 0, 0, 2);
  const uint64_t durations[] = {10};
  assert_takes(rig, OVL_OVERLAP, 8, durations, 40);
  rig_free(rig);
}

/* ---- what is no part of the bound -------------------------------------------------------------------------------- */

/* Every op starts 100 later than it could, and takes 10. */
static void the_time_before_an_op_starts_is_not_in_the_bound(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig_begin(rig, OVL_OVERLAP, 3);
  uint64_t now = rig->core.started;
  for (uint32_t lane; (lane = ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, OVL_NO_LANE)) != OVL_NO_LANE;) {
    ovl_core_op_t *op = ovl_core_take(&rig->core, lane, now += 100);
    ovl_core_end(&rig->core, op, 0, 0, now += 10);
  }
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.now - rig->core.started, 6 * 110);
  assert_int_equal(bound_of(rig), ovl_bound_overlap(3, 10, 10));
  rig_free(rig);
}

/* Retirement is reported 1000 late; the next microbatch could have come at once. */
static void a_late_report_is_not_in_the_bound(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  rig->options.report = true;
  rig_stage(rig, rig_lane(rig, 1));
  rig_begin(rig, OVL_OVERLAP, 2);
  uint64_t now = rig->core.started;
  for (int i = 0; i < 2; i++) {
    ovl_core_op_t *op = ovl_core_take(&rig->core, 0, now);
    ovl_core_end(&rig->core, op, 0, 0, now += 10);
    ovl_core_retire(&rig->core, ovl_core_next_ended(&rig->core), now += 1000);
  }
  assert_int_equal(bound_of(rig), 20);
  rig_free(rig);
}

static void an_arrival_is_in_the_bound(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig->options.queue = 2;
  rig_stage(rig, rig_lane(rig, 1));
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  uint64_t begun = rig->core.started;
  assert_int_equal(ovl_core_submit(&rig->core, NULL, begun + 500), 0);
  ovl_core_op_t *op = ovl_core_take(&rig->core, 0, begun + 600);
  ovl_core_end(&rig->core, op, 0, 0, begun + 610);
  assert_int_equal(bound_of(rig), 510);
  rig_free(rig);
}

/* An item that came before the run began: it could start with the run, no sooner. */
static void what_came_before_the_run_arrives_with_it(void **state) {
  (void)state;
  rig_t *rig = rig_new(1);
  rig->options.queue = 2;
  rig_stage(rig, rig_lane(rig, 1));
  rig->now = 5000;
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  rig_finish(rig);
  ovl_core_leave(&rig->core);
  assert_int_equal(ovl_core_submit(&rig->core, NULL, 0), 0);
  assert_int_equal(ovl_core_submit(&rig->core, NULL, 0), 0);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  uint64_t now = rig->core.started;
  for (int i = 0; i < 2; i++) {
    ovl_core_op_t *op = ovl_core_take(&rig->core, 0, now);
    ovl_core_end(&rig->core, op, 0, 0, now += 10);
  }
  assert_int_equal(bound_of(rig), 20);
  rig_free(rig);
}

/* Times from several threads come slightly out of order: durations stay positive, the bound below the time. */
static void times_out_of_order_do_no_harm(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t lane = rig_lane(rig, 2);
  rig->lanes[lane].role = OVL_ROLE_COMM;
  rig_stage(rig, lane);
  rig_begin(rig, OVL_OVERLAP, 4);
  uint64_t now = rig->core.started + 1000;
  ovl_core_op_t *a = ovl_core_take(&rig->core, lane, now), *b = ovl_core_take(&rig->core, lane, now - 30);
  ovl_core_end(&rig->core, b, 0, 0, now - 20); /* ends before the latest time seen */
  ovl_core_end(&rig->core, a, 0, 0, now + 100);
  a = ovl_core_take(&rig->core, lane, now + 90);
  ovl_core_end(&rig->core, a, 0, 0, now + 95);
  assert_int_equal(rig->core.now, now + 100);
  assert_int_equal(rig->core.tally.work, 100);
  assert_int_equal(rig->core.tally.stages[0].max, 100);
  assert_int_equal(rig->core.tally.stages[0].min, 0);
  assert_int_equal(bound_of(rig), 100);
  assert_int_equal(rig->core.tally.exposed, 100);
  rig_free(rig);
}

/* A driver's times may begin anew with every run, as those of a simulator do. */
static void a_run_may_begin_at_an_earlier_time(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  const uint64_t durations[] = {50, 30};
  rig->now = 1000000;
  assert_takes(rig, OVL_OVERLAP, 8, durations, 430);
  rig->now = 0;
  assert_takes(rig, OVL_OVERLAP, 8, durations, 430);
  rig_free(rig);
}

/* ---- the rest of the statistics ---------------------------------------------------------------------------------- */

static void lanes_and_stages_are_told_apart(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  uint32_t one = rig_lane(rig, 1), other = rig_lane(rig, 1);
  rig_stage(rig, one);
  rig_stage(rig, other);
  rig_stage(rig, one);
  const uint64_t durations[] = {4, 5, 6};
  rig_simulate_stages(rig, OVL_OVERLAP, 3, durations);
  const ovl_tally_t *tally = &rig->core.tally;
  assert_int_equal(ovl_core_lane_ops(&rig->core, one), 6);
  assert_int_equal(rig->core.lanes[one].busy, 3 * 10);
  assert_int_equal(rig->core.lanes[one].peak, 1);
  assert_int_equal(ovl_core_lane_ops(&rig->core, other), 3);
  assert_int_equal(rig->core.lanes[other].busy, 15);
  assert_int_equal(tally->stages[2].ops, 3);
  assert_int_equal(tally->stages[2].total, 18);
  assert_int_equal(tally->stages[2].min, 6);
  assert_int_equal(tally->stages[2].max, 6);
  assert_int_equal(tally->work, 45);
  assert_int_equal(tally->hidden + tally->exposed, 0); /* no lane has a role */
  rig_free(rig);
}

static void without_statistics_only_the_counts_are_kept(void **state) {
  (void)state;
  rig_t *rig = rig_new_two_lanes(2);
  rig->options.statistics = false;
  const uint64_t durations[] = {5, 3};
  assert_int_equal(rig_simulate_stages(rig, OVL_OVERLAP, 4, durations), 23);
  const ovl_tally_t *tally = &rig->core.tally;
  assert_int_equal(tally->ops, 8);
  assert_int_equal(tally->retired, 4);
  assert_int_equal(ovl_core_lane_ops(&rig->core, 0), 4);
  assert_int_equal(rig->core.lanes[0].peak, 1);
  assert_int_equal(tally->stages[1].ops, 4);
  assert_int_equal(bound_of(rig), 0);
  assert_int_equal(
      tally->work + tally->hidden + tally->exposed + rig->core.lanes[0].busy + tally->stages[1].total, 0);
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_times_50_and_30_ms_take_430_ms_and_640_in_serial),
      cmocka_unit_test(two_lanes_take_what_the_closed_form_says),
      cmocka_unit_test(a_window_of_one_is_serial),
      cmocka_unit_test(unequal_durations_take_what_the_window_allows),
      cmocka_unit_test(a_chain_takes_what_its_longest_stage_or_its_window_allows),
      cmocka_unit_test(layers_take_the_longer_lane_and_once_the_shorter),
      cmocka_unit_test(a_wide_lane_takes_several_at_a_time),
      cmocka_unit_test(branches_run_side_by_side),
      cmocka_unit_test(a_distance_makes_so_many_chains),
      cmocka_unit_test(the_time_before_an_op_starts_is_not_in_the_bound),
      cmocka_unit_test(a_late_report_is_not_in_the_bound),
      cmocka_unit_test(an_arrival_is_in_the_bound),
      cmocka_unit_test(what_came_before_the_run_arrives_with_it),
      cmocka_unit_test(times_out_of_order_do_no_harm),
      cmocka_unit_test(a_run_may_begin_at_an_earlier_time),
      cmocka_unit_test(lanes_and_stages_are_told_apart),
      cmocka_unit_test(without_statistics_only_the_counts_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
