/* SPDX-License-Identifier: MIT */
/* Streaming: how fast one thread, or four, can submit items to a pipeline whose operations do nothing. A
 * thread that is refused for want of room lets others run and tries again. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_pipeline.h"

enum { MOST_THREADS = 4, WINDOW = 64, QUEUE = 1024 };

typedef struct stream {
  ovl_pipeline_t *pipeline;
  uint64_t items_each;
  atomic_bool go, failed;
  atomic_uint left; /* threads that still submit: the last one says that there are no more items */
} stream_t;

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int submit_one(stream_t *stream) {
  int status;
  while ((status = ovl_pipeline_submit(stream->pipeline, NULL)) == OVL_EAGAIN)
    sched_yield();
  return status;
}

static void submitter_main(void *argument) {
  stream_t *stream = argument;
  while (!atomic_load(&stream->go))
    sched_yield();
  for (uint64_t i = 0; i < stream->items_each; i++)
    if (submit_one(stream) != 0)
      atomic_store(&stream->failed, true);
  if (atomic_fetch_sub(&stream->left, 1) == 1)
    ovl_pipeline_finish(stream->pipeline);
}

/* From the first submit until all items have retired; ns, 0: it failed. */
static uint64_t run_stream(stream_t *stream, uv_loop_t *loop, unsigned count) {
  uv_thread_t threads[MOST_THREADS];
  atomic_store(&stream->go, false);
  atomic_store(&stream->left, count);
  for (unsigned i = 0; i < count; i++)
    if (uv_thread_create(&threads[i], submitter_main, stream) != 0)
      abort();
  if (ovl_pipeline_start(stream->pipeline, loop, OVL_STREAMING, NULL) != 0)
    abort();
  uint64_t begun_ns = bench_now_ns();
  atomic_store(&stream->go, true);
  uv_run(loop, UV_RUN_DEFAULT);
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  for (unsigned i = 0; i < count; i++)
    uv_thread_join(&threads[i]);
  return atomic_load(&stream->failed) ? 0 : elapsed_ns;
}

static void measure(bench_t *bench, const bench_scenario_t *scenario, unsigned threads) {
  bench_shape_t shape = {.lanes = 1, .stages = 1, .window = WINDOW, .queue = QUEUE, .run = do_nothing};
  stream_t stream = {.pipeline = bench_pipeline_open(&shape)};
  double values[BENCH_MOST_REPETITIONS];
  size_t count = 0;
  uv_loop_t loop;
  bench_result_t result = {.scenario = scenario->name, .system = "libovl", .unit = "ns/item"};
  if (stream.pipeline == NULL || uv_loop_init(&loop) != 0)
    abort();
  snprintf(result.label, sizeof result.label, threads == 1 ? "one thread" : "%u threads", threads);
  stream.items_each = bench_scale(bench, 1000000) / threads;
  result.microbatches = stream.items_each * threads;
  for (unsigned r = 0; r < bench->options.repetitions; r++) {
    bench_report_progress(&bench->report, scenario->name, result.label, "libovl");
    uint64_t elapsed_ns = run_stream(&stream, &loop, threads);
    if (elapsed_ns != 0)
      values[count++] = (double)elapsed_ns / (double)result.microbatches;
  }
  ovl_pipeline_close(stream.pipeline, NULL);
  uv_loop_close(&loop);
  result.summary = bench_summarize(values, count);
  bench_report_row(&bench->report, &result);
  if (count < bench->options.repetitions)
    bench_fail(bench, scenario->name, "a submit was refused");
}

void bench_run_submit(bench_t *bench, const bench_scenario_t *scenario) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  measure(bench, scenario, 1);
  measure(bench, scenario, MOST_THREADS);
}
