/* SPDX-License-Identifier: MIT */
/* Shows that pipelines take in virtual time exactly what theory says: closed forms and recurrences for two lanes,
 * chains and layers, over random parameters. */
#include <inttypes.h>

#include "proof/virtual.h"
#include "support/seed.h"

enum { ROUNDS = 400 };

static uint64_t rounds;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Every test plays its rounds from the same seeds. */
#define for_each_round(random)                         \
  for (uint64_t round_ = 0; round_ < rounds; round_++) \
    for (random_source_t random = begin_round(round_), *once_ = &random; once_; once_ = NULL)

static random_source_t begin_round(uint64_t round) {
  seed_round(seed_first() + round);
  return (random_source_t){.state = seed_first() + round};
}

/* ---- two lanes, equal microbatches ------------------------------------------------------------------------------- */

static uint64_t simulate_pair(const virtual_shape_t *shape, uint32_t n, uint64_t compute, uint64_t comm) {
  virtual_run_t *run = virtual_new(shape);
  const uint64_t durations[] = {compute, comm};
  virtual_equal(run, durations);
  uint64_t elapsed = virtual_simulate(run, n);
  virtual_free(run);
  return elapsed;
}

static void two_lanes_take_n_times_the_longer_and_once_the_shorter(void **state) {
  (void)state;
  for_each_round(random) {
    uint32_t n = random_below(&random, VIRTUAL_MICROBATCHES + 1);
    uint64_t c = random_below(&random, 100), m = random_below(&random, 100);
    virtual_shape_t shape = virtual_chain(2, 2 + random_below(&random, 6));
    assert_int_equal(simulate_pair(&shape, n, c, m), ovl_bound_overlap(n, c, m));
    assert_int_equal(ovl_bound_overlap(n, c, m), n > 0 ? n * larger(c, m) + smaller(c, m) : 0);
    shape.window = 1;
    assert_int_equal(simulate_pair(&shape, n, c, m), ovl_bound_serial(n, c, m));
    shape.window = 1 + random_below(&random, 8);
    shape.mode = OVL_SERIAL;
    assert_int_equal(simulate_pair(&shape, n, c, m), n * (c + m));
  }
}

/* Hints are what is simulated when no durations are given; a hint of 0 counts as 1. */
static void hints_are_durations(void **state) {
  (void)state;
  for_each_round(random) {
    uint64_t costs[2] = {random_below(&random, 50), random_below(&random, 50)};
    uint32_t n = random_below(&random, 40);
    const ovl_pipeline_options_t options = pipeline_options(2 + random_below(&random, 4));
    ovl_pipeline_t *p = make_pipeline(&options);
    for (int s = 0; s < 2; s++) {
      ovl_stage_options_t stage = stage_options(add_lane(p, OVL_LANE_POOL, 1), NULL, NULL);
      stage.cost_ns = costs[s];
      add_stage_with(p, &stage);
    }
    ovl_stats_t stats;
    ovl_stats_init(&stats);
    assert_int_equal(ovl_pipeline_simulate(p, n, NULL, &stats), 0);
    assert_int_equal(stats.elapsed_ns, ovl_bound_overlap(n, larger(costs[0], 1), larger(costs[1], 1)));
    ovl_pipeline_close(p, NULL);
  }
}

/* ---- two lanes, unequal microbatches ------------------------------------------------------------------------------ */

/* S1(j) = max(C1(j-1), C2(j-W)), S2(j) = max(C1(j), C2(j-1)); every single start is compared. */
static void assert_recurrence(const virtual_run_t *run) {
  uint64_t c1[VIRTUAL_MICROBATCHES] = {0}, c2[VIRTUAL_MICROBATCHES] = {0};
  uint32_t window = run->shape.window;
  for (uint32_t j = 0; j < run->count; j++) {
    uint64_t s1 = larger(j > 0 ? c1[j - 1] : 0, j >= window ? c2[j - window] : 0);
    assert_int_equal(run->start[j][0], s1);
    c1[j] = s1 + run->duration[j][0];
    uint64_t s2 = larger(c1[j], j > 0 ? c2[j - 1] : 0);
    assert_int_equal(run->start[j][1], s2);
    c2[j] = s2 + run->duration[j][1];
  }
}

/* The longest path that computes up to k and communicates from k on. */
static uint64_t by_paths(const virtual_run_t *run) {
  uint64_t longest = 0;
  for (uint32_t k = 0; k < run->count; k++) {
    uint64_t path = 0;
    for (uint32_t i = 0; i < run->count; i++)
      path += (i <= k ? run->duration[i][0] : 0) + (i >= k ? run->duration[i][1] : 0);
    longest = larger(longest, path);
  }
  return longest;
}

/* No-wait: a microbatch begins to compute when the one before it begins to communicate. */
static uint64_t without_waiting(const virtual_run_t *run) {
  uint64_t time = run->count > 0 ? run->duration[0][0] : 0;
  for (uint32_t j = 0; j < run->count; j++)
    time += larger(run->duration[j][1], j + 1 < run->count ? run->duration[j + 1][0] : 0);
  return time;
}

/* A flow shop with `buffers` places between the lanes: who finds none keeps the first lane. */
static uint64_t with_buffers(const virtual_run_t *run, uint32_t buffers) {
  uint64_t left = 0, done[VIRTUAL_MICROBATCHES] = {0};
  for (uint32_t j = 0; j < run->count; j++) {
    left += run->duration[j][0];
    done[j] = larger(left, j > 0 ? done[j - 1] : 0) + run->duration[j][1];
    left = larger(left, j > buffers ? done[j - buffers - 1] : 0);
  }
  return run->count > 0 ? done[run->count - 1] : 0;
}

static void unequal_microbatches_follow_the_recurrence(void **state) {
  (void)state;
  for_each_round(random) {
    uint32_t n = random_below(&random, VIRTUAL_MICROBATCHES + 1);
    const virtual_shape_t shape = virtual_chain(2, 1 + random_below(&random, n + 2));
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 40);
    uint64_t elapsed = virtual_simulate(run, n);
    assert_recurrence(run);
    if (shape.window > n)
      assert_int_equal(elapsed, by_paths(run));
    if (shape.window == 2)
      assert_int_equal(elapsed, without_waiting(run));
    if (shape.window >= 2)
      assert_int_equal(elapsed, with_buffers(run, shape.window - 2));
    virtual_free(run);
  }
}

/* ---- chains --------------------------------------------------------------------------------------------------------- */

/* T = max(S + (n-1)P, (K+1)S + (n-1-KW)P) with K = floor((n-1)/W). */
static uint64_t chain_takes(uint64_t n, uint64_t window, uint64_t sum, uint64_t longest) {
  uint64_t k = (n - 1) / window;
  return larger(sum + (n - 1) * longest, (k + 1) * sum + (n - 1 - k * window) * longest);
}

static void a_chain_takes_what_its_longest_stage_or_its_window_allows(void **state) {
  (void)state;
  for_each_round(random) {
    const virtual_shape_t shape =
        virtual_chain(1 + random_below(&random, VIRTUAL_LANES), 1 + random_below(&random, 8));
    uint64_t durations[VIRTUAL_STAGES] = {0}, sum = 0, longest = 0;
    for (uint32_t s = 0; s < shape.stage_count; s++) {
      durations[s] = random_below(&random, 30);
      sum += durations[s];
      longest = larger(longest, durations[s]);
    }
    virtual_run_t *run = virtual_new(&shape);
    virtual_equal(run, durations);
    uint32_t n = 1 + random_below(&random, VIRTUAL_MICROBATCHES);
    uint64_t elapsed = virtual_simulate(run, n), full_rate = sum + (n - 1) * longest;
    assert_int_equal(elapsed, chain_takes(n, shape.window, sum, longest));
    if (shape.window * longest >= sum)
      assert_int_equal(elapsed, full_rate);
    else if (n > shape.window) /* below S / P the window costs something as soon as it is felt */
      assert_true(elapsed > full_rate);
    virtual_free(run);
  }
}

/* ---- layers ---------------------------------------------------------------------------------------------------------- */

static virtual_shape_t layers_of(uint32_t layers, uint32_t window) {
  virtual_shape_t shape = {.lane_count = 2, .stage_count = 2 * layers, .window = window, .width = {1, 1}};
  for (uint32_t s = 0; s < shape.stage_count; s++)
    shape.lane[s] = s % 2;
  return shape;
}

/* One microbatch: L(c+m). k >= 2 that ping-pong: kL max(c,m) + min(c,m). */
static void layers_keep_the_longer_lane_busy_from_two_microbatches_on(void **state) {
  (void)state;
  for_each_round(random) {
    uint32_t layers = 1 + random_below(&random, VIRTUAL_STAGES / 2), k = 1 + random_below(&random, 8);
    uint64_t c = 1 + random_below(&random, 60), m = 1 + random_below(&random, 60);
    uint64_t durations[VIRTUAL_STAGES];
    const virtual_shape_t shape = layers_of(layers, k + random_below(&random, 3));
    for (uint32_t s = 0; s < shape.stage_count; s++)
      durations[s] = s % 2 == 0 ? c : m;
    virtual_run_t *run = virtual_new(&shape);
    virtual_equal(run, durations);
    uint64_t expected = k == 1 ? layers * (c + m) : k * layers * larger(c, m) + smaller(c, m);
    assert_int_equal(virtual_simulate(run, k), expected);
    virtual_free(run);
  }
}

/* ---- anything -------------------------------------------------------------------------------------------------------- */

static void a_serial_run_takes_the_sum_of_all(void **state) {
  (void)state;
  for_each_round(random) {
    virtual_shape_t shape = virtual_random_shape(&random, 8);
    shape.mode = OVL_SERIAL;
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 25);
    uint64_t elapsed = virtual_simulate(run, random_below(&random, 20));
    assert_int_equal(elapsed, run->stats.work_ns);
    virtual_free(run);
  }
}

/* Communication is hidden where some computation runs in the same nanosecond. */
static void hidden_and_exposed_time_is_counted_to_the_nanosecond(void **state) {
  (void)state;
  for_each_round(random) {
    const virtual_shape_t shape = virtual_random_shape(&random, 5);
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 12);
    uint64_t elapsed = virtual_simulate(run, random_below(&random, 10)), hidden = 0, exposed = 0;
    for (uint64_t t = 0; t < elapsed; t++) {
      bool works[3] = {false};
      for (uint32_t k = 0; k < run->start_count; k++) {
        virtual_op_t op = run->starts[k];
        bool runs = run->start[op.microbatch][op.stage] <= t && t < run->end[op.microbatch][op.stage];
        works[shape.role[shape.lane[op.stage]]] |= runs;
      }
      hidden += works[OVL_ROLE_COMM] && works[OVL_ROLE_COMPUTE];
      exposed += works[OVL_ROLE_COMM] && !works[OVL_ROLE_COMPUTE];
    }
    assert_int_equal(run->stats.hidden_ns, hidden);
    assert_int_equal(run->stats.exposed_ns, exposed);
    virtual_free(run);
  }
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  print_message("%" PRIu64 " rounds from OVL_SEED=%" PRIu64 "\n", rounds, seed_first());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_lanes_take_n_times_the_longer_and_once_the_shorter),
      cmocka_unit_test(hints_are_durations),
      cmocka_unit_test(unequal_microbatches_follow_the_recurrence),
      cmocka_unit_test(a_chain_takes_what_its_longest_stage_or_its_window_allows),
      cmocka_unit_test(layers_keep_the_longer_lane_busy_from_two_microbatches_on),
      cmocka_unit_test(a_serial_run_takes_the_sum_of_all),
      cmocka_unit_test(hidden_and_exposed_time_is_counted_to_the_nanosecond),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
