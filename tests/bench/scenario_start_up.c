/* SPDX-License-Identifier: MIT */
/* Short runs: what it takes to start a run of ten operations and to be told of its end, on a loop and a
 * thread pool that are warm; beside ten calls of uv_queue_work(). */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_pipeline.h"

enum { OPERATIONS = 10, STAGES = 2, SAMPLES = 1000 };

static uv_loop_t loop;
static uv_work_t requests[OPERATIONS];
static unsigned left;

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static const bench_shape_t shape = {.lanes = STAGES, .stages = STAGES, .window = 8, .run = do_nothing};
static ovl_pipeline_t *warm;

static uint64_t run_warm(void) { return bench_pipeline_run(warm, &loop, OPERATIONS / STAGES); }

static uint64_t run_whole_life(void) {
  uint64_t begun_ns = bench_now_ns();
  ovl_pipeline_t *pipeline = bench_pipeline_open(&shape);
  uint64_t run_ns = bench_pipeline_run(pipeline, &loop, OPERATIONS / STAGES);
  ovl_pipeline_close(pipeline, NULL);
  return run_ns == 0 ? 0 : bench_now_ns() - begun_ns;
}

static uint64_t run_blocking(void) {
  uint64_t begun_ns = bench_now_ns();
  return ovl_pipeline_run(warm, OPERATIONS / STAGES) == 0 ? bench_now_ns() - begun_ns : 0;
}

static void work_nothing(uv_work_t *request) { (void)request; }

static void queue_next(uv_work_t *request, int status) {
  if (status == 0 && --left > 0)
    uv_queue_work(&loop, request, work_nothing, queue_next);
}

static uint64_t run_in_turn(void) {
  uint64_t begun_ns = bench_now_ns();
  left = OPERATIONS;
  uv_queue_work(&loop, &requests[0], work_nothing, queue_next);
  uv_run(&loop, UV_RUN_DEFAULT);
  return bench_now_ns() - begun_ns;
}

static uint64_t run_at_once(void) {
  uint64_t begun_ns = bench_now_ns();
  for (unsigned i = 0; i < OPERATIONS; i++)
    uv_queue_work(&loop, &requests[i], work_nothing, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return bench_now_ns() - begun_ns;
}

static const struct {
  const char *label, *system;
  uint64_t (*run)(void);
} ways[] = {
    {"start to done", "libovl", run_warm},
    {"create, start, done, close", "libovl", run_whole_life},
    {"ovl_pipeline_run", "libovl", run_blocking},
    {"ten uv_queue_work, one after another", "uv", run_in_turn},
    {"ten uv_queue_work at once", "uv", run_at_once},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static void measure(bench_t *bench, const bench_scenario_t *scenario, size_t samples, double *values[WAYS],
                    size_t counts[WAYS]) {
  bench_report_progress(&bench->report, scenario->name, "", "");
  for (size_t i = 0; i < samples + 1; i++)
    for (size_t w = 0; w < WAYS; w++) {
      uint64_t ns = ways[w].run();
      if (ns == 0)
        bench_fail(bench, scenario->name, ways[w].label);
      else if (i > 0) /* the first is to warm up */
        values[w][counts[w]++] = (double)ns / 1000;
    }
}

void bench_run_start_up(bench_t *bench, const bench_scenario_t *scenario) {
  size_t samples = (size_t)bench_scale(bench, SAMPLES), counts[WAYS] = {0};
  double *values[WAYS], *all = calloc(samples * WAYS, sizeof *all);
  warm = bench_pipeline_open(&shape);
  if (all == NULL || warm == NULL || uv_loop_init(&loop) != 0)
    abort();
  for (size_t w = 0; w < WAYS; w++)
    values[w] = all + w * samples;
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  measure(bench, scenario, samples, values, counts);
  for (size_t w = 0; w < WAYS; w++) {
    bench_result_t result = {.scenario = scenario->name, .system = ways[w].system, .unit = "us"};
    snprintf(result.label, sizeof result.label, "%s", ways[w].label);
    result.summary = bench_summarize(values[w], counts[w]);
    bench_report_row(&bench->report, &result);
  }
  ovl_pipeline_close(warm, NULL);
  uv_loop_close(&loop);
  free(all);
}
