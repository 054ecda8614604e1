/* SPDX-License-Identifier: MIT */
/* METG(50 %), the minimum effective task granularity of Task Bench (Slaughter et al., SC'20): the smallest
 * g with which a system reaches half of what is possible, in each of the scenarios that have one. Found by bisection on a
 * logarithmic scale, some times over, the systems in turns. */
#include <math.h>
#include <stdio.h>

#include "bench_grid.h"
#include "bench_load.h"
#include "bench_ratio.h"

enum { TRIES = 3, ROUNDS = 3 };

#define LEAST_NS 8.0
#define MOST_NS 1e6 /* where the search ends */
#define MOST_SMOKE_NS 500.0
#define PRECISION 1.06 /* largest / smallest of the bracket that is left */

typedef struct shape {
  const char *label; /* the scenario, as told in bench_scenarios, and its case */
  uint32_t lanes, stages, window;
  double odd; /* times g is what stages of odd number take; those of even number take g */
  uint64_t (*ideal)(const bench_work_t *work);
  bool random, loaded;
  double possible; /* efficiency */
} shape_t;

static const shape_t shapes[] = {
    {"two_lanes", 2, 2, 8, 1, bench_ideal_two_lanes, false, false, 1},
    {"unbalanced, g and g/2", 2, 2, 8, 0.5, bench_ideal_two_lanes, false, false, 1},
    {"unbalanced, g and 2 g", 2, 2, 8, 2, bench_ideal_two_lanes, false, false, 1},
    {"random", 2, 2, 8, 1, bench_ideal_two_lanes, true, false, 1},
    {"ping_pong, W=2", 2, 8, 2, 1, bench_ideal_simulated, false, false, 1},
    {"ping_pong, W=4", 2, 8, 4, 1, bench_ideal_simulated, false, false, 1},
    {"four_lanes", 4, 4, 8, 1, bench_ideal_processors, false, false, 1},
    {"oversubscribed", 2, 2, 8, 1, bench_ideal_two_lanes, false, true, 0.5},
};

typedef struct search {
  bench_t *bench;
  const shape_t *shape;
  const bench_system_t *system;
  double most_ns;
  bool failed;
} search_t;

/* The median efficiency with operations of g ns, of what is possible. */
static double efficiency_at(search_t *search, double g) {
  const shape_t *shape = search->shape;
  bench_work_t work = {.lanes = shape->lanes, .stages = shape->stages, .window = shape->window};
  bench_durations_t durations = {
      .even_ns = (uint64_t)(g + 0.5), .odd_ns = (uint64_t)(g * shape->odd + 0.5), .random = shape->random};
  double values[TRIES];
  size_t count = 0;
  uint64_t ns = search->bench->repetition_ns / 4;
  if (!bench_work_init(&work, &durations))
    return 0;
  uint64_t wanted = bench_ideal_count(&work, shape->ideal, ns);
  uint64_t n = bench_warm_up(search->bench, search->system, &work, wanted, ns);
  for (int i = 0; n != 0 && i < TRIES; i++) {
    uint64_t elapsed_ns = bench_repeat(search->bench, search->system, &work, n);
    if (elapsed_ns != 0)
      values[count++] = (double)shape->ideal(&work) / (double)elapsed_ns / shape->possible;
  }
  bench_work_finish(&work);
  search->failed = count == 0;
  return bench_summarize(values, count).median;
}

/* Between too little and enough; most_ns where nothing was enough. */
static double find(search_t *search) {
  double low = LEAST_NS, high = 128;
  if (efficiency_at(search, low) >= 0.5)
    return low;
  while (!search->failed && efficiency_at(search, high) < 0.5) {
    low = high;
    if (high >= search->most_ns)
      return search->most_ns;
    high = fmin(4 * high, search->most_ns);
  }
  while (!search->failed && high / low > PRECISION) {
    double middle = sqrt(low * high);
    *(efficiency_at(search, middle) >= 0.5 ? &high : &low) = middle;
  }
  return high;
}

static void report(bench_t *bench, const bench_scenario_t *scenario, const search_t *search, double *values,
                   size_t count) {
  bench_result_t result = {.scenario = scenario->name, .system = search->system->name, .unit = "ns"};
  result.summary = bench_summarize(values, count);
  snprintf(result.label, sizeof result.label, "%s", search->shape->label);
  if (result.summary.median >= search->most_ns)
    result.limit = BENCH_MORE_THAN;
  else if (result.summary.median <= LEAST_NS)
    result.limit = BENCH_AT_MOST;
  if (count > 0)
    bench_report_row(&bench->report, &result);
}

static void print_ratio(const char *what, double ratio, const char *other) {
  if (ratio > 0)
    printf("%-38s %-12s %11.3f\n", what, other, ratio);
  else
    printf("%-38s %-12s %11s\n", what, other, "-");
}

static void print_ratios(const bench_t *bench, const bench_scenario_t *scenario, const shape_t *shape) {
  bench_ratios_t ratios = bench_ratios(&bench->report, scenario->name, shape->label);
  print_ratio("  libovl : floor", ratios.to_floor, "");
  print_ratio("  libovl : best", ratios.to_best, ratios.best != NULL ? ratios.best : "");
  fflush(stdout);
}

static void measure(bench_t *bench, const bench_scenario_t *scenario, const shape_t *shape) {
  search_t searches[BENCH_MOST_SYSTEMS];
  double values[BENCH_MOST_SYSTEMS][ROUNDS];
  size_t counts[BENCH_MOST_SYSTEMS] = {0};
  bool smokes = bench->options.effort == BENCH_SMOKE;
  size_t rounds = bench->options.effort == BENCH_FULL ? ROUNDS : 1;
  for (size_t r = 0; r < rounds; r++)
    for (size_t k = 0; k < bench_system_count; k++) {
      size_t s = (k + r) % bench_system_count;
      if (!bench_system_is_open(s))
        continue;
      bench_report_progress(&bench->report, scenario->name, shape->label, bench_systems[s]->name);
      searches[s] = (search_t){.bench = bench,
                               .shape = shape,
                               .system = bench_systems[s],
                               .most_ns = smokes ? MOST_SMOKE_NS : MOST_NS};
      double g = find(&searches[s]);
      if (!searches[s].failed)
        values[s][counts[s]++] = g;
    }
  for (size_t s = 0; s < bench_system_count; s++)
    if (bench_system_is_open(s))
      report(bench, scenario, &searches[s], values[s], counts[s]);
  print_ratios(bench, scenario, shape);
}

void bench_run_metg(bench_t *bench, const bench_scenario_t *scenario) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  bench_systems_open(bench);
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    if (bench->options.effort == BENCH_QUICK && i > 0)
      break;
    if (shapes[i].loaded)
      bench_load_begin();
    measure(bench, scenario, &shapes[i]);
    if (shapes[i].loaded)
      bench_load_end();
  }
  bench_systems_close(bench);
}
