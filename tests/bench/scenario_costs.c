/* SPDX-License-Identifier: MIT */
/* What an operation costs the library itself: operations that do nothing, by the size of each dimension
 * with and without statistics and a trace; and what one costs the simulator. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_pipeline.h"

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

typedef struct cost {
  char label[40];
  bench_shape_t shape;
  uint64_t microbatches; /* 0: as many as fill a repetition */
  ovl_pipeline_t *pipeline;
  double values[BENCH_MOST_REPETITIONS];
  size_t count;
} cost_t;

static uv_loop_t loop;

/* How many fill a repetition, found by runs that double. */
static uint64_t find_count(bench_t *bench, ovl_pipeline_t *pipeline) {
  uint64_t n = 64, elapsed_ns = bench_pipeline_run(pipeline, &loop, n);
  while (elapsed_ns != 0 && elapsed_ns < bench->repetition_ns / 4) {
    n *= 2;
    elapsed_ns = bench_pipeline_run(pipeline, &loop, n);
  }
  return elapsed_ns == 0 ? 0 : n * bench->repetition_ns / elapsed_ns + 1;
}

static bool open_cost(bench_t *bench, cost_t *cost) {
  cost->shape.run = do_nothing;
  cost->pipeline = bench_pipeline_open(&cost->shape);
  if (cost->pipeline == NULL)
    return false;
  if (cost->microbatches == 0)
    cost->microbatches = find_count(bench, cost->pipeline);
  else
    cost->microbatches =
        cost->microbatches <= 1000 ? cost->microbatches : bench_scale(bench, cost->microbatches);
  return cost->microbatches != 0;
}

/* Short runs are repeated until they fill a repetition too. */
static double ns_per_op(bench_t *bench, cost_t *cost) {
  uint64_t total_ns = 0, ops = 0;
  do {
    uint64_t elapsed_ns = bench_pipeline_run(cost->pipeline, &loop, cost->microbatches);
    if (elapsed_ns == 0)
      return 0;
    total_ns += elapsed_ns;
    ops += cost->microbatches * cost->shape.stages;
  } while (total_ns < bench->repetition_ns / 2);
  return (double)total_ns / (double)ops;
}

/* In turns: those of one group are to be compared. */
static void measure_group(bench_t *bench, const bench_scenario_t *scenario, cost_t *costs, size_t count) {
  bool fine = true;
  for (size_t c = 0; c < count; c++) {
    bench_report_progress(&bench->report, scenario->name, costs[c].label, "");
    fine = open_cost(bench, &costs[c]) && fine;
  }
  for (unsigned r = 0; fine && r < bench->options.repetitions; r++)
    for (size_t c = 0; c < count; c++) {
      double value = ns_per_op(bench, &costs[c]);
      if (value > 0)
        costs[c].values[costs[c].count++] = value;
      fine = fine && value > 0;
    }
  for (size_t c = 0; c < count; c++) {
    bench_result_t result = {.scenario = scenario->name, .system = "libovl", .unit = "ns/op"};
    snprintf(result.label, sizeof result.label, "%.*s", (int)sizeof result.label - 1, costs[c].label);
    result.microbatches = costs[c].microbatches;
    result.summary = bench_summarize(costs[c].values, costs[c].count);
    bench_report_row(&bench->report, &result);
    ovl_pipeline_close(costs[c].pipeline, NULL);
  }
  if (!fine)
    bench_fail(bench, scenario->name, "a run failed");
}

static void begin(bench_t *bench, const bench_scenario_t *scenario) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  if (uv_loop_init(&loop) != 0)
    abort();
}

/* ---- statistics ---- */

void bench_run_statistics(bench_t *bench, const bench_scenario_t *scenario) {
  cost_t costs[] = {
      {.label = "two lanes, statistics", .shape = {.lanes = 2, .stages = 2, .window = 8}},
      {.label = "two lanes, no_stats", .shape = {.lanes = 2, .stages = 2, .window = 8, .no_stats = true}},
      {.label = "two lanes, and a trace", .shape = {.lanes = 2, .stages = 2, .window = 8, .trace = 4096}},
      {.label = "one lane, statistics", .shape = {.lanes = 1, .stages = 2, .window = 8}},
      {.label = "one lane, no_stats", .shape = {.lanes = 1, .stages = 2, .window = 8, .no_stats = true}},
      {.label = "one lane, and a trace", .shape = {.lanes = 1, .stages = 2, .window = 8, .trace = 4096}},
  };
  begin(bench, scenario);
  measure_group(bench, scenario, costs, sizeof costs / sizeof costs[0]);
  uv_loop_close(&loop);
}

/* ---- sizes: one dimension grows, the others stay ---- */

enum { MOST_SIZES = 8 };

typedef enum dimension { MICROBATCHES, STAGES, LANES, WINDOW, DEPENDENCIES, DIMENSIONS } dimension_t;

static const struct {
  const char *before, *after; /* the size, in a row's label */
  uint32_t sizes[MOST_SIZES]; /* up to a 0 */
} dimensions[DIMENSIONS] = {
    [MICROBATCHES] = {"", " microbatches", {100, 1000, 10000, 100000, 1000000, 10000000}},
    [STAGES] = {"", " stages", {2, 4, 8, 16, 32, 64, 128, 256}},
    [LANES] = {"", " lanes", {2, 4, 8, 16, 32}},
    [WINDOW] = {"window ", "", {1, 2, 4, 8, 16, 64, 256}},
    [DEPENDENCIES] = {"", " dependencies", {1, 2, 4, 8, 16, 32}},
};

static cost_t cost_of(dimension_t dimension, uint32_t size, uint32_t lanes) {
  cost_t cost = {.shape = {.lanes = lanes, .stages = 2, .window = 8}};
  switch (dimension) {
  case MICROBATCHES:
    cost.microbatches = size;
    break;
  case STAGES:
    cost.shape.stages = size;
    break;
  case LANES:
    cost.shape.stages = size;
    cost.shape.lanes = lanes == 1 ? 1 : size;
    break;
  case WINDOW:
    cost.shape.window = size;
    break;
  case DEPENDENCIES:
    cost.shape.window = 64;
    cost.shape.dependencies = size;
    break;
  case DIMENSIONS:
    break;
  }
  return cost;
}

/* On two lanes two runners contend for the scheduler; on one lane a single runner does everything. */
static size_t costs_of_size(dimension_t dimension, uint32_t size, cost_t *costs) {
  size_t count = dimension == LANES ? 1 : 2;
  for (size_t k = 0; k < count; k++) {
    const char *lanes = dimension == LANES ? "" : k == 0 ? ", two lanes" : ", one lane";
    costs[k] = cost_of(dimension, size, k == 0 ? 2 : 1);
    snprintf(costs[k].label, sizeof costs[k].label, "%s%u%s%s", dimensions[dimension].before, size,
             dimensions[dimension].after, lanes);
  }
  return count;
}

static void measure_dimension(bench_t *bench, const bench_scenario_t *scenario, dimension_t dimension) {
  unsigned step = bench->options.effort == BENCH_FULL ? 1 : 2;
  cost_t costs[2 * MOST_SIZES];
  size_t count = 0;
  for (unsigned i = 0; i < MOST_SIZES && dimensions[dimension].sizes[i] != 0; i += step)
    count += costs_of_size(dimension, dimensions[dimension].sizes[i], &costs[count]);
  measure_group(bench, scenario, costs, count);
}

void bench_run_sizes(bench_t *bench, const bench_scenario_t *scenario) {
  begin(bench, scenario);
  for (int d = 0; d < DIMENSIONS; d++)
    measure_dimension(bench, scenario, (dimension_t)d);
  uv_loop_close(&loop);
}

/* ---- the simulator ---- */

/* Million operations a second. */
static double simulate(ovl_pipeline_t *pipeline, uint64_t microbatches, uint32_t stages) {
  uint64_t begun_ns = bench_now_ns();
  if (ovl_pipeline_simulate(pipeline, microbatches, NULL, NULL) != 0)
    return 0;
  return (double)(microbatches * stages) * 1000 / (double)(bench_now_ns() - begun_ns);
}

void bench_run_simulator(bench_t *bench, const bench_scenario_t *scenario) {
  static const struct {
    const char *label;
    bench_shape_t shape;
  } cases[] = {
      {"two lanes, window 8", {.lanes = 2, .stages = 2, .window = 8, .cost_ns = 1000}},
      {"two lanes, 8 stages, window 4", {.lanes = 2, .stages = 8, .window = 4, .cost_ns = 1000}},
      {"8 lanes, 8 stages, window 16", {.lanes = 8, .stages = 8, .window = 16, .cost_ns = 1000}},
  };
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    double values[BENCH_MOST_REPETITIONS];
    size_t count = 0;
    ovl_pipeline_t *pipeline = bench_pipeline_open(&cases[c].shape);
    bench_result_t result = {.scenario = scenario->name, .system = "libovl", .unit = "M op/s"};
    if (pipeline == NULL)
      abort();
    snprintf(result.label, sizeof result.label, "%s", cases[c].label);
    bench_report_progress(&bench->report, scenario->name, cases[c].label, "libovl");
    result.microbatches = bench_scale(bench, 1000000) / cases[c].shape.stages;
    for (unsigned r = 0; r < bench->options.repetitions; r++)
      values[count++] = simulate(pipeline, result.microbatches, cases[c].shape.stages);
    result.summary = bench_summarize(values, count);
    bench_report_row(&bench->report, &result);
    ovl_pipeline_close(pipeline, NULL);
  }
}
