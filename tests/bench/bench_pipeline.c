/* SPDX-License-Identifier: MIT */
/* Describes pipelines by a few numbers and runs them; complains on stderr when libovl refuses.
 * Nothing here is measured but what bench_pipeline_run() says it measures. */
#include "bench_pipeline.h"

#include <stdio.h>

#include "bench_clock.h"

/* 0: what those that return a time return. */
static uint64_t complain(const char *what, int status) {
  fprintf(stderr, "bench: %s: %s\n", what, ovl_strerror(status));
  return 0;
}

static int add_stages(ovl_pipeline_t *pipeline, const bench_shape_t *shape) {
  ovl_lane_t lanes[64];
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  if (shape->lanes == 0 || shape->lanes > sizeof lanes / sizeof lanes[0])
    return OVL_EINVAL;
  int status = 0;
  for (uint32_t l = 0; status == 0 && l < shape->lanes; l++) {
    lane.kind = shape->loop_last && l + 1 == shape->lanes ? OVL_LANE_LOOP : OVL_LANE_POOL;
    status = ovl_pipeline_add_lane(pipeline, &lane, &lanes[l]);
  }
  stage.run = shape->run;
  stage.data = shape->data;
  stage.cost_ns = shape->cost_ns;
  for (uint32_t s = 0; status == 0 && s < shape->stages; s++) {
    stage.lane = lanes[s % shape->lanes];
    status = ovl_pipeline_add_stage(pipeline, &stage, NULL);
  }
  return status;
}

static int add_dependencies(ovl_pipeline_t *pipeline, const bench_shape_t *shape) {
  ovl_stage_t before = {.id = 1}, after = {.id = 2};
  int status = 0;
  for (uint32_t distance = 1; status == 0 && distance < shape->dependencies; distance++)
    status = ovl_pipeline_add_dependency(pipeline, before, after, distance);
  return status;
}

ovl_pipeline_t *bench_pipeline_open(const bench_shape_t *shape) {
  ovl_pipeline_t *pipeline;
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.window = shape->window;
  options.queue = shape->queue;
  options.spin_ns = shape->spin_ns;
  options.no_stats = shape->no_stats;
  options.trace = shape->trace;
  int status = ovl_pipeline_create(&pipeline, &options);
  if (status == 0)
    status = add_stages(pipeline, shape);
  if (status == 0)
    status = add_dependencies(pipeline, shape);
  if (status == 0)
    return pipeline;
  complain("describing a pipeline", status);
  ovl_pipeline_close(pipeline, NULL);
  return NULL;
}

static int run_status; /* of the run in flight; the benchmarks have one at a time */

static void on_done(ovl_pipeline_t *pipeline, int status) {
  (void)pipeline;
  run_status = status;
}

uint64_t bench_pipeline_run(ovl_pipeline_t *pipeline, uv_loop_t *loop, uint64_t microbatches) {
  uint64_t begun_ns = bench_now_ns();
  run_status = OVL_ENOTRUNNING;
  int status = ovl_pipeline_start(pipeline, loop, microbatches, on_done);
  if (status == 0) {
    uv_run(loop, UV_RUN_DEFAULT);
    status = run_status;
  }
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  return status == 0 ? elapsed_ns : complain("running a pipeline", status);
}

typedef struct simulation {
  const bench_work_t *work;
  bench_simulated_cb on_op;
  void *data;
} simulation_t;

static uint64_t duration_of(const ovl_op_t *op, void *data) {
  const simulation_t *simulation = data;
  return bench_duration(simulation->work, op->microbatch, op->stage.id - 1);
}

static void pass_on(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data) {
  const simulation_t *simulation = data;
  simulation->on_op(op, start_ns, end_ns, simulation->data);
}

uint64_t bench_pipeline_simulate(const bench_work_t *work, bench_simulated_cb on_op, void *data) {
  simulation_t simulation = {.work = work, .on_op = on_op, .data = data};
  ovl_simulation_t options;
  ovl_stats_t stats;
  ovl_pipeline_t *pipeline = bench_pipeline_open(&(bench_shape_t){
      .lanes = work->lanes, .stages = work->stages, .window = work->window, .no_stats = true});
  if (pipeline == NULL)
    return 0;
  ovl_simulation_init(&options);
  ovl_stats_init(&stats);
  options.duration = duration_of;
  options.on_op = on_op != NULL ? pass_on : NULL;
  options.data = &simulation;
  int status = ovl_pipeline_simulate(pipeline, work->microbatches, &options, &stats);
  ovl_pipeline_close(pipeline, NULL);
  return status == 0 ? stats.elapsed_ns : complain("simulating a pipeline", status);
}
