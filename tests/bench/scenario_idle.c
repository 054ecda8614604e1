/* SPDX-License-Identifier: MIT */
/* What a run costs that does nothing but wait: processor time while a foreign thread takes seconds to
 * complete an operation, with and without a poll hook, and while work on a device is not done; beside a bare loop that waits for a
 * uv_async_send(). */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_device.h"
#include "ovl.h"

typedef struct wait_for {
  unsigned ms;
  _Atomic(ovl_op_t *) op;
  uv_async_t async;
  uv_loop_t loop;
} wait_for_t;

/* Of the whole process. */
static double processor_us(void) {
  uv_rusage_t usage;
  if (uv_getrusage(&usage) != 0)
    return 0;
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int leave_pending(ovl_op_t *op) {
  wait_for_t *w = op->data;
  atomic_store(&w->op, op);
  return OVL_PENDING;
}

static void poll_in_vain(ovl_pipeline_t *pipeline, ovl_lane_t lane, void *data) {
  (void)pipeline;
  (void)lane;
  (void)data;
}

static void complete_later(void *argument) {
  wait_for_t *w = argument;
  ovl_op_t *op;
  uv_sleep(w->ms);
  while ((op = atomic_load(&w->op)) == NULL) /* on a busy machine it may not have begun by now */
    uv_sleep(1);
  ovl_op_complete(op, 0);
}

static ovl_pipeline_t *open_pipeline(wait_for_t *w, ovl_lane_kind_t kind, ovl_poll_cb poll) {
  ovl_pipeline_t *pipeline;
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.kind = kind;
  lane.poll = poll;
  stage.run = leave_pending;
  stage.data = w;
  if (ovl_pipeline_create(&pipeline, NULL) != 0 || ovl_pipeline_add_lane(pipeline, &lane, &stage.lane) != 0 ||
      ovl_pipeline_add_stage(pipeline, &stage, NULL) != 0)
    abort();
  return pipeline;
}

static void run_pipeline(wait_for_t *w, ovl_lane_kind_t kind, ovl_poll_cb poll) {
  ovl_pipeline_t *pipeline = open_pipeline(w, kind, poll);
  uv_thread_t thread;
  atomic_store(&w->op, NULL);
  if (ovl_pipeline_start(pipeline, &w->loop, 1, NULL) != 0 ||
      uv_thread_create(&thread, complete_later, w) != 0)
    abort();
  uv_run(&w->loop, UV_RUN_DEFAULT);
  uv_thread_join(&thread);
  ovl_pipeline_close(pipeline, NULL);
}

static void wait_pool(wait_for_t *w) { run_pipeline(w, OVL_LANE_POOL, NULL); }
static void wait_pool_poll(wait_for_t *w) { run_pipeline(w, OVL_LANE_POOL, poll_in_vain); }
static void wait_loop_poll(wait_for_t *w) { run_pipeline(w, OVL_LANE_LOOP, poll_in_vain); }

static bench_device_t device;

static int put_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void release_later(void *argument) {
  wait_for_t *w = argument;
  uv_sleep(w->ms);
  atomic_store(&device.held, 0);
}

static void wait_device(wait_for_t *w) {
  ovl_pipeline_t *pipeline;
  ovl_stage_options_t stage;
  uv_thread_t thread;
  bench_device_init(&device);
  atomic_store(&device.held, 1);
  ovl_stage_options_init(&stage);
  stage.run = put_nothing;
  if (ovl_pipeline_create(&pipeline, NULL) != 0)
    abort();
  stage.lane = bench_device_lane(&device, pipeline);
  if (ovl_pipeline_add_stage(pipeline, &stage, NULL) != 0 ||
      ovl_pipeline_start(pipeline, &w->loop, 1, NULL) != 0 ||
      uv_thread_create(&thread, release_later, w) != 0)
    abort();
  uv_run(&w->loop, UV_RUN_DEFAULT);
  uv_thread_join(&thread);
  ovl_pipeline_close(pipeline, NULL);
}

static void on_async(uv_async_t *async) { uv_close((uv_handle_t *)async, NULL); }

static void send_later(void *argument) {
  wait_for_t *w = argument;
  uv_sleep(w->ms);
  uv_async_send(&w->async);
}

static void wait_bare(wait_for_t *w) {
  uv_thread_t thread;
  if (uv_async_init(&w->loop, &w->async, on_async) != 0 || uv_thread_create(&thread, send_later, w) != 0)
    abort();
  uv_run(&w->loop, UV_RUN_DEFAULT);
  uv_thread_join(&thread);
}

static const struct {
  const char *label, *system;
  void (*wait)(wait_for_t *);
  bool is_brief; /* costs the same every second */
} ways[] = {
    {"a foreign completion", "libovl", wait_pool, false},
    {"uv_async_send to a bare loop", "uv", wait_bare, false},
    {"with a poll hook on the pool", "libovl", wait_pool_poll, true},
    {"with a poll hook on the loop", "libovl", wait_loop_poll, true},
    {"with work on a device", "libovl", wait_device, true},
};

static void measure(bench_t *bench, const bench_scenario_t *scenario, size_t way, unsigned ms) {
  wait_for_t w = {.ms = 0};
  bench_result_t result = {.scenario = scenario->name, .system = ways[way].system, .unit = "us/s"};
  snprintf(result.label, sizeof result.label, "%s", ways[way].label);
  bench_report_progress(&bench->report, scenario->name, ways[way].label, ways[way].system);
  if (uv_loop_init(&w.loop) != 0)
    abort();
  w.ms = 1; /* to warm up */
  ways[way].wait(&w);
  w.ms = ms;
  uint64_t begun_ns = bench_now_ns();
  double begun_us = processor_us();
  ways[way].wait(&w);
  double value = (processor_us() - begun_us) / ((double)(bench_now_ns() - begun_ns) / 1e9);
  uv_loop_close(&w.loop);
  result.summary = bench_summarize(&value, 1);
  bench_report_row(&bench->report, &result);
}

void bench_run_idle(bench_t *bench, const bench_scenario_t *scenario) {
  unsigned ms = bench->options.effort == BENCH_FULL    ? 10000
                : bench->options.effort == BENCH_QUICK ? 2000
                                                       : 20;
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
    measure(bench, scenario, w, ways[w].is_brief ? ms / 4 : ms);
}
