/* SPDX-License-Identifier: MIT */
/* The scenarios that all systems are measured in: which work, and what its efficiency is held against. */
#include "bench_grid.h"

enum { US = 1000, MS = 1000000 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EVEN(ns) \
  { .even_ns = (ns), .odd_ns = (ns) }
#define PAIR(even, odd) \
  { .even_ns = (even), .odd_ns = (odd) }
#define RANDOM(ns) \
  { .even_ns = (ns), .odd_ns = (ns), .random = true }

/* A stage on each. */
static bench_grid_t on_two_lanes(const bench_case_t *cases, size_t count) {
  return (bench_grid_t){.lanes = 2,
                        .stages = 2,
                        .ideal = bench_ideal_two_lanes,
                        .cases = cases,
                        .case_count = count,
                        .stretch = 1};
}

static const bench_case_t evens[] = {
    {"0, ns/op", EVEN(0), 8, true},    {"0.25 us", EVEN(250), 8, true},      {"0.5 us", EVEN(500), 8, false},
    {"1 us", EVEN(1 * US), 8, true},   {"2 us", EVEN(2 * US), 8, false},     {"5 us", EVEN(5 * US), 8, true},
    {"20 us", EVEN(20 * US), 8, true}, {"100 us", EVEN(100 * US), 8, false}, {"1 ms", EVEN(1 * MS), 8, false},
};

void bench_run_two_lanes(bench_t *bench, const bench_scenario_t *scenario) {
  bench_grid_t grid = on_two_lanes(evens, COUNT(evens));
  bench_grid_run(bench, scenario, &grid);
}

/* Both ways: the one table after the other. */
void bench_run_unbalanced(bench_t *bench, const bench_scenario_t *scenario) {
  static const bench_case_t first_longer[] = {
      {"0.25/0.125", PAIR(250, 125), 8, false},         {"0.5/0.25", PAIR(500, 250), 8, false},
      {"1/0.5 us", PAIR(1 * US, 500), 8, true},         {"2/1 us", PAIR(2 * US, 1 * US), 8, false},
      {"5/2.5 us", PAIR(5 * US, 2500), 8, false},       {"20/10 us", PAIR(20 * US, 10 * US), 8, false},
      {"100/50 us", PAIR(100 * US, 50 * US), 8, false}, {"1/0.5 ms", PAIR(1 * MS, 500 * US), 8, false},
  };
  static const bench_case_t second_longer[] = {
      {"0.25/0.5", PAIR(250, 500), 8, false},
      {"0.5/1 us", PAIR(500, 1 * US), 8, true},
      {"1/2 us", PAIR(1 * US, 2 * US), 8, false},
      {"2/4 us", PAIR(2 * US, 4 * US), 8, false},
      {"5/10 us", PAIR(5 * US, 10 * US), 8, false},
      {"20/40 us", PAIR(20 * US, 40 * US), 8, false},
      {"100/200 us", PAIR(100 * US, 200 * US), 8, false},
      {"1/2 ms", PAIR(1 * MS, 2 * MS), 8, false},
  };
  bench_grid_t grid = on_two_lanes(first_longer, COUNT(first_longer));
  bench_grid_run(bench, scenario, &grid);
  grid = on_two_lanes(second_longer, COUNT(second_longer));
  bench_grid_run(bench, scenario, &grid);
}

void bench_run_random(bench_t *bench, const bench_scenario_t *scenario) {
  static const bench_case_t cases[] = {
      {"0.25 us", RANDOM(250), 8, false},     {"0.5 us", RANDOM(500), 8, false},
      {"1 us", RANDOM(1 * US), 8, true},      {"2 us", RANDOM(2 * US), 8, false},
      {"5 us", RANDOM(5 * US), 8, false},     {"20 us", RANDOM(20 * US), 8, true},
      {"100 us", RANDOM(100 * US), 8, false}, {"1 ms", RANDOM(1 * MS), 8, false},
  };
  bench_grid_t grid = on_two_lanes(cases, COUNT(cases));
  bench_grid_run(bench, scenario, &grid);
}

static void run_ping_pong(bench_t *bench, const bench_scenario_t *scenario, const bench_case_t *cases,
                          size_t count) {
  bench_grid_run(bench, scenario,
                 &(bench_grid_t){.lanes = 2,
                                 .stages = 8,
                                 .ideal = bench_ideal_simulated,
                                 .cases = cases,
                                 .case_count = count,
                                 .stretch = 1});
}

/* A table for each window. */
void bench_run_ping_pong(bench_t *bench, const bench_scenario_t *scenario) {
  static const bench_case_t two[] = {
      {"0.25us W=2", EVEN(250), 2, false},      {"0.5 us W=2", EVEN(500), 2, false},
      {"1 us W=2", EVEN(1 * US), 2, true},      {"2 us W=2", EVEN(2 * US), 2, false},
      {"5 us W=2", EVEN(5 * US), 2, false},     {"20 us W=2", EVEN(20 * US), 2, true},
      {"100 us W=2", EVEN(100 * US), 2, false}, {"1 ms W=2", EVEN(1 * MS), 2, false},
  };
  static const bench_case_t four[] = {
      {"0.25us W=4", EVEN(250), 4, false},
      {"0.5 us W=4", EVEN(500), 4, false},
      {"1 us W=4", EVEN(1 * US), 4, true},
      {"2 us W=4", EVEN(2 * US), 4, false},
      {"5 us W=4", EVEN(5 * US), 4, false},
      {"20 us W=4", EVEN(20 * US), 4, true},
      {"20/10 W=4", PAIR(20 * US, 10 * US), 4, false},
      {"100 us W=4", EVEN(100 * US), 4, false},
      {"1 ms W=4", EVEN(1 * MS), 4, false},
  };
  run_ping_pong(bench, scenario, two, COUNT(two));
  run_ping_pong(bench, scenario, four, COUNT(four));
}

void bench_run_four_lanes(bench_t *bench, const bench_scenario_t *scenario) {
  static const bench_case_t cases[] = {
      {"0.25 us", EVEN(250), 8, false},     {"0.5 us", EVEN(500), 8, false},
      {"1 us", EVEN(1 * US), 8, true},      {"2 us", EVEN(2 * US), 8, false},
      {"5 us", EVEN(5 * US), 8, false},     {"20 us", EVEN(20 * US), 8, true},
      {"100 us", EVEN(100 * US), 8, false}, {"1 ms", EVEN(1 * MS), 8, false},
  };
  bench_grid_run(bench, scenario,
                 &(bench_grid_t){.lanes = 4,
                                 .stages = 4,
                                 .ideal = bench_ideal_processors,
                                 .cases = cases,
                                 .case_count = COUNT(cases),
                                 .stretch = 2});
}

void bench_run_short_runs(bench_t *bench, const bench_scenario_t *scenario) {
  static const bench_case_t cases[] = {
      {"2 x 50 us", EVEN(50 * US), 8, false, 2}, {"8 x 20 us", EVEN(20 * US), 8, false, 8},
      {"8 x 50 us", EVEN(50 * US), 8, true, 8},  {"8 x 200 us", EVEN(200 * US), 8, false, 8},
      {"8 x 1 ms", EVEN(1 * MS), 8, false, 8},
  };
  bench_grid_t grid = on_two_lanes(cases, COUNT(cases));
  bench_grid_run(bench, scenario, &grid);
}

void bench_run_oversubscribed(bench_t *bench, const bench_scenario_t *scenario) {
  bench_grid_t grid = on_two_lanes(evens, COUNT(evens));
  grid.stretch = 2;
  grid.loaded = true;
  bench_grid_run(bench, scenario, &grid);
}
