/* SPDX-License-Identifier: MIT */
/* METG(50 %), the minimum effective task granularity of Task Bench (Slaughter et al., SC'20): the smallest
 * g with which a system reaches half of what is possible in two_lanes. Found by bisection on a logarithmic
 * scale. */
#include <math.h>
#include <stdio.h>

#include "bench_grid.h"

enum { TRIES = 3 };

#define LEAST_NS 8.0
#define MOST_NS 1e6 /* where the search ends */
#define MOST_SMOKE_NS 500.0
#define PRECISION 1.06 /* largest / smallest of the bracket that is left */

typedef struct search {
  bench_t *bench;
  const bench_system_t *system;
  double most_ns;
  bool failed;
} search_t;

/* The median efficiency with operations of g ns. */
static double efficiency_at(search_t *search, double g) {
  bench_work_t work = {.lanes = 2, .stages = 2, .window = 8};
  double values[TRIES];
  size_t count = 0;
  uint64_t g_ns = (uint64_t)(g + 0.5), ns = search->bench->repetition_ns / 4;
  if (!bench_work_init(&work, &(bench_durations_t){.even_ns = g_ns, .odd_ns = g_ns}))
    return 0;
  uint64_t wanted = bench_ideal_count(&work, bench_ideal_two_lanes, ns);
  uint64_t n = bench_warm_up(search->bench, search->system, &work, wanted, ns);
  for (int i = 0; n != 0 && i < TRIES; i++) {
    uint64_t elapsed_ns = bench_repeat(search->bench, search->system, &work, n);
    if (elapsed_ns != 0)
      values[count++] = (double)bench_ideal_two_lanes(&work) / (double)elapsed_ns;
  }
  bench_work_finish(&work);
  search->failed = count == 0;
  return bench_summarize(values, count).median;
}

/* The bracket is [too little, enough]; both are the end of the search where nothing was enough. */
static bench_summary_t find(search_t *search) {
  double low = LEAST_NS, high = 128;
  if (efficiency_at(search, low) >= 0.5)
    high = low;
  while (!search->failed && high > low && efficiency_at(search, high) < 0.5) {
    low = high;
    if (high >= search->most_ns)
      break;
    high = fmin(4 * high, search->most_ns);
  }
  while (!search->failed && high / low > PRECISION) {
    double middle = sqrt(low * high);
    *(efficiency_at(search, middle) >= 0.5 ? &high : &low) = middle;
  }
  return (bench_summary_t){
      .median = high, .p99 = high, .min = low, .max = high, .count = search->failed ? 0 : 1};
}

void bench_run_metg(bench_t *bench, const bench_scenario_t *scenario) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  bench_systems_open(bench);
  for (size_t s = 0; s < bench_system_count; s++) {
    search_t search = {.bench = bench,
                       .system = bench_systems[s],
                       .most_ns = bench->options.effort == BENCH_SMOKE ? MOST_SMOKE_NS : MOST_NS};
    bench_result_t result = {
        .scenario = scenario->name, .system = bench_systems[s]->name, .unit = "ns", .label = "METG(50 %)"};
    if (!bench_system_is_open(s))
      continue;
    bench_report_progress(&bench->report, scenario->name, "", bench_systems[s]->name);
    result.summary = find(&search);
    if (result.summary.min >= search.most_ns)
      snprintf(result.label, sizeof result.label, "METG(50 %%) is more than this");
    if (result.summary.count > 0)
      bench_report_row(&bench->report, &result);
  }
  bench_systems_close(bench);
}
