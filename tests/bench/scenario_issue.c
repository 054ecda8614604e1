/* SPDX-License-Identifier: MIT */
/* What issuing costs: time an op that ovl_pipeline_enqueue and runs with device lanes take on a device whose entries do
 * nothing; beside the same callbacks, records and waits written down by hand. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_device.h"

enum { OPS = 200000, REPETITIONS = 5 };

static bench_device_t device;
static uint64_t put_down;

static int put(ovl_op_t *op) {
  (void)op;
  put_down++;
  return 0;
}

typedef struct way {
  const char *label, *system;
  unsigned lanes; /* with a stage each */
  uint32_t window;
  ovl_device_timing_t timing;
  int (*play)(ovl_pipeline_t *pipeline, const struct way *way, uint64_t microbatches);
} way_t;

static ovl_pipeline_t *open_pipeline(const way_t *way) {
  ovl_pipeline_options_t options;
  ovl_stage_options_t stage;
  ovl_pipeline_t *pipeline;
  ovl_pipeline_options_init(&options);
  options.window = way->window;
  options.device_timing = way->timing;
  if (ovl_pipeline_create(&pipeline, &options) != 0)
    abort();
  for (unsigned l = 0; l < way->lanes; l++) {
    ovl_stage_options_init(&stage);
    stage.lane = bench_device_lane(&device, pipeline);
    stage.run = put;
    if (ovl_pipeline_add_stage(pipeline, &stage, NULL) != 0)
      abort();
  }
  return pipeline;
}

static int enqueue(ovl_pipeline_t *pipeline, const way_t *way, uint64_t microbatches) {
  ovl_enqueue_t call;
  (void)way;
  ovl_enqueue_init(&call);
  call.microbatches = microbatches;
  call.origin = &device;
  return ovl_pipeline_enqueue(pipeline, &call);
}

static int run(ovl_pipeline_t *pipeline, const way_t *way, uint64_t microbatches) {
  (void)way;
  return ovl_pipeline_run(pipeline, microbatches);
}

/* One record and one wait for each op but the last of a microbatch, and for the slot. */
static int by_hand(ovl_pipeline_t *pipeline, const way_t *way, uint64_t microbatches) {
  const ovl_device_t *table = &device.table;
  ovl_op_cb volatile callback = put; /* not to be looked through */
  int status = 0;
  (void)pipeline;
  for (uint64_t i = 0; i < microbatches; i++)
    for (unsigned l = 0; l < way->lanes; l++) {
      status |= table->stream_wait(&device, &device, &device);
      status |= callback(NULL);
      status |= table->event_record(&device, &device, &device);
    }
  return status;
}

static const way_t ways[] = {
    {"by hand, two lanes", "hand", 2, 2, OVL_DEVICE_TIMING_OFF, by_hand},
    {"enqueue, two lanes", "libovl", 2, 2, OVL_DEVICE_TIMING_OFF, enqueue},
    {"enqueue, two lanes, window 16", "libovl", 2, 16, OVL_DEVICE_TIMING_OFF, enqueue},
    {"enqueue, eight lanes", "libovl", 8, 2, OVL_DEVICE_TIMING_OFF, enqueue},
    {"run, two lanes", "libovl", 2, 2, OVL_DEVICE_TIMING_OFF, run},
    {"run, two lanes, timed", "libovl", 2, 2, OVL_DEVICE_TIMING_ALL, run},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static double measure_once(bench_t *bench, const bench_scenario_t *scenario, const way_t *way,
                           ovl_pipeline_t *pipeline, uint64_t ops) {
  uint64_t microbatches = ops / way->lanes + 1, begun_ns = bench_now_ns();
  put_down = 0;
  if (way->play(pipeline, way, microbatches) != 0 || put_down != microbatches * way->lanes)
    bench_fail(bench, scenario->name, way->label);
  return (double)(bench_now_ns() - begun_ns) / (double)(microbatches * way->lanes);
}

void bench_run_issue(bench_t *bench, const bench_scenario_t *scenario) {
  uint64_t ops = bench_scale(bench, OPS);
  double values[WAYS][REPETITIONS];
  ovl_pipeline_t *pipelines[WAYS];
  bench_device_init(&device);
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (size_t w = 0; w < WAYS; w++) {
    pipelines[w] = open_pipeline(&ways[w]);
    (void)measure_once(bench, scenario, &ways[w], pipelines[w], ops / 10); /* to warm up */
  }
  for (size_t i = 0; i < REPETITIONS; i++)
    for (size_t w = 0; w < WAYS; w++) {
      bench_report_progress(&bench->report, scenario->name, ways[w].label, ways[w].system);
      values[w][i] = measure_once(bench, scenario, &ways[w], pipelines[w], ops);
    }
  for (size_t w = 0; w < WAYS; w++) {
    bench_result_t result = {.scenario = scenario->name, .system = ways[w].system, .unit = "ns/op"};
    snprintf(result.label, sizeof result.label, "%s", ways[w].label);
    result.summary = bench_summarize(values[w], REPETITIONS);
    bench_report_row(&bench->report, &result);
    ovl_pipeline_close(pipelines[w], NULL);
  }
}
