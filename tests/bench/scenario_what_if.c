/* SPDX-License-Identifier: MIT */
/* Whether advice is right: what ovl_pipeline_explain says that a change would bring, and what it brings, for operations
 * that sleep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "ovl.h"

enum { MICROBATCHES = 24, MOST_REPETITIONS = 5 };

typedef struct setting {
  ovl_mode_t mode;
  uint32_t window, width; /* of the compute lane */
} setting_t;

static const struct {
  const char *label, *advice;
  unsigned compute_ms, comm_ms;
  setting_t before, after;
} changes[] = {
    {"serial to overlapped", "what if: OVL_OVERLAP", 10, 8, {OVL_SERIAL, 4, 1}, {OVL_OVERLAP, 4, 1}},
    {"window 1 to 2", "what if: window 1 -> 2", 10, 8, {OVL_OVERLAP, 1, 1}, {OVL_OVERLAP, 2, 1}},
    {"compute's width 1 to 2",
     "what if: lane \"compute\" width",
     14,
     8,
     {OVL_OVERLAP, 6, 1},
     {OVL_OVERLAP, 6, 2}},
};

static int sleep_ms(ovl_op_t *op) {
  const unsigned *ms = op->data;
  uint64_t end_ns = bench_now_ns() + *ms * UINT64_C(1000000), now_ns;
  while ((now_ns = bench_now_ns()) < end_ns)
    uv_sleep((unsigned)((end_ns - now_ns) / 1000000) + 1);
  return 0;
}

static void add(ovl_pipeline_t *pipeline, const char *name, uint32_t width, const unsigned *ms) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.name = stage.name = name;
  lane.width = width;
  stage.run = sleep_ms;
  stage.data = (void *)(uintptr_t)ms;
  if (ovl_pipeline_add_lane(pipeline, &lane, &stage.lane) != 0 ||
      ovl_pipeline_add_stage(pipeline, &stage, NULL) != 0)
    abort();
}

/* How long a run takes; 0: it failed. *promise: what the advice says, if one is asked for and given. */
static uint64_t run(const setting_t *setting, const unsigned *compute_ms, const unsigned *comm_ms,
                    const char *advice, double *promise) {
  static char text[8192];
  ovl_pipeline_options_t options;
  ovl_pipeline_t *pipeline;
  ovl_stats_t stats;
  ovl_pipeline_options_init(&options);
  ovl_stats_init(&stats);
  options.mode = setting->mode;
  options.window = setting->window;
  if (ovl_pipeline_create(&pipeline, &options) != 0)
    abort();
  add(pipeline, "compute", setting->width, compute_ms);
  add(pipeline, "comm", 1, comm_ms);
  bool failed = ovl_pipeline_run(pipeline, MICROBATCHES) != 0 || ovl_pipeline_stats(pipeline, &stats) != 0 ||
                ovl_pipeline_explain(pipeline, text, sizeof text) < 0;
  ovl_pipeline_close(pipeline, NULL);
  const char *said = advice != NULL ? strstr(text, advice) : NULL;
  said = said != NULL ? strstr(said, "would bring ") : NULL;
  if (said != NULL)
    *promise = strtod(said + strlen("would bring "), NULL);
  return failed ? 0 : stats.elapsed_ns;
}

static void report(bench_t *bench, const bench_scenario_t *scenario, const char *label, const char *what,
                   double *values, size_t count) {
  bench_result_t result = {.scenario = scenario->name, .system = "libovl", .unit = "x"};
  snprintf(result.label, sizeof result.label, "%s, %s", label, what);
  result.summary = bench_summarize(values, count);
  bench_report_row(&bench->report, &result);
}

static void measure(bench_t *bench, const bench_scenario_t *scenario, size_t c) {
  double promises[MOST_REPETITIONS], gains[MOST_REPETITIONS], ratios[MOST_REPETITIONS];
  size_t count =
      bench->options.repetitions < MOST_REPETITIONS ? bench->options.repetitions : MOST_REPETITIONS;
  for (size_t i = 0; i < count; i++) {
    const unsigned *compute_ms = &changes[c].compute_ms, *comm_ms = &changes[c].comm_ms;
    double promise = 0;
    bench_report_progress(&bench->report, scenario->name, changes[c].label, "libovl");
    uint64_t before_ns = run(&changes[c].before, compute_ms, comm_ms, changes[c].advice, &promise);
    uint64_t after_ns = run(&changes[c].after, compute_ms, comm_ms, NULL, NULL);
    if (before_ns == 0 || after_ns == 0 || !(promise > 0)) {
      bench_fail(bench, scenario->name, changes[c].label);
      return;
    }
    promises[i] = promise;
    gains[i] = (double)before_ns / (double)after_ns;
    ratios[i] = gains[i] / promises[i];
  }
  report(bench, scenario, changes[c].label, "said", promises, count);
  report(bench, scenario, changes[c].label, "had", gains, count);
  report(bench, scenario, changes[c].label, "had / said", ratios, count);
}

void bench_run_what_if(bench_t *bench, const bench_scenario_t *scenario) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++)
    measure(bench, scenario, c);
}
