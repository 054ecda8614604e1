/* SPDX-License-Identifier: MIT */
/* A second pipeline, whose stages have nothing to do: arrival, then the server's three.
 *
 *   arrival    |--1--|---2---|-3-|        each op ends when its request arrives
 *   prefill           1 1 1 2 2 2 3 3     all requests are admitted at once, so that arrivals wait for nobody;
 *   transfer                1 1   2 2     the server's window is a dependency instead: prefill of i waits for
 *   decode                      1 1       decode of i - window */
#include "pd_disaggregation/forecast.h"

#include "parts/report.h"

typedef struct forecast {
  const serving_t *serving;
  ovl_pipeline_t *pipeline;
  ovl_stage_t arrival;
  ovl_stage_t stages[SERVING_STAGES];
  uint64_t *first_token_ns;
} forecast_t;

static int describe(forecast_t *forecast, uint32_t window) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  int status = ovl_pipeline_add_lane(forecast->pipeline, &lane, &stage.lane);
  if (status == 0)
    status = ovl_pipeline_add_stage(forecast->pipeline, &stage, &forecast->arrival);
  for (int s = 0; s < SERVING_STAGES && status == 0; s++) {
    status = ovl_pipeline_add_lane(forecast->pipeline, &lane, &stage.lane);
    if (status == 0)
      status = ovl_pipeline_add_stage(forecast->pipeline, &stage, &forecast->stages[s]);
  }
  if (status == 0)
    status = ovl_pipeline_add_dependency(forecast->pipeline, forecast->stages[SERVING_DECODE],
                                         forecast->stages[SERVING_PREFILL], window);
  return status;
}

/* Of a request's arrival, since the start of the run. */
static uint64_t arrival(const serving_t *serving, uint64_t i) {
  return serving->requests[i].arrived_ns - serving->start_ns;
}

static uint64_t pause_before(const serving_t *serving, uint64_t i) {
  return i == 0 ? arrival(serving, 0) : arrival(serving, i) - arrival(serving, i - 1);
}

static const op_time_t *measured(const forecast_t *forecast, const ovl_op_t *op) {
  ovl_stage_t stage = forecast->serving->stages[op->stage.id - forecast->stages[0].id];
  return op_times_of(&forecast->serving->times, op->microbatch, stage);
}

static uint64_t duration(const ovl_op_t *op, void *data) {
  const forecast_t *forecast = data;
  if (op->stage.id == forecast->arrival.id)
    return pause_before(forecast->serving, op->microbatch);
  return measured(forecast, op)->end_ns - measured(forecast, op)->start_ns;
}

/* Decode takes as long for its first token as it did. */
static void on_op(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data) {
  forecast_t *forecast = data;
  const serving_t *serving = forecast->serving;
  (void)end_ns;
  if (op->stage.id != forecast->stages[SERVING_DECODE].id)
    return;
  uint64_t to_first_ns = serving->requests[op->microbatch].first_ns - measured(forecast, op)->start_ns;
  forecast->first_token_ns[op->microbatch] = start_ns + to_first_ns - arrival(serving, op->microbatch);
}

int forecast_run(const serving_t *serving, uint32_t window, uint64_t *elapsed_ns, uint64_t *first_token_ns) {
  forecast_t forecast = {.serving = serving, .first_token_ns = first_token_ns};
  ovl_pipeline_options_t options;
  ovl_simulation_t simulation;
  ovl_stats_t stats;
  ovl_pipeline_options_init(&options);
  ovl_simulation_init(&simulation);
  ovl_stats_init(&stats);
  options.window = (uint32_t)serving->count + 1;
  simulation.duration = duration;
  simulation.on_op = on_op;
  simulation.data = &forecast;
  int status = ovl_pipeline_create(&forecast.pipeline, &options);
  if (status == 0)
    status = describe(&forecast, window);
  if (status == 0)
    status = ovl_pipeline_simulate(forecast.pipeline, serving->count, &simulation, &stats);
  ovl_pipeline_close(forecast.pipeline, NULL);
  *elapsed_ns = stats.elapsed_ns;
  return status == 0 ? 0 : report_failure(serving->program, "predicting a run", status);
}
