/* SPDX-License-Identifier: MIT */
/* libovl: pool lanes of width 1 in ready order, statistics on, all options at their defaults but the window.
 * The loop and libuv's pool stay warm between runs. */
#include <stdint.h>
#include <uv.h>

#include "bench_pipeline.h"
#include "bench_system.h"

static uv_loop_t loop;

static int open_loop(void) { return uv_loop_init(&loop); }

static void close_loop(void) { uv_loop_close(&loop); }

static int spin_op(ovl_op_t *op) {
  bench_op(op->data, op->microbatch, op->stage.id - 1);
  return 0;
}

static uint64_t run_ovl(const bench_work_t *work) {
  bench_shape_t shape = {.lanes = work->lanes,
                         .stages = work->stages,
                         .window = work->window,
                         .run = spin_op,
                         .data = (void *)(uintptr_t)work};
  ovl_pipeline_t *pipeline = bench_pipeline_open(&shape);
  if (pipeline == NULL)
    return 0;
  uint64_t elapsed_ns = bench_pipeline_run(pipeline, &loop, work->microbatches);
  ovl_pipeline_close(pipeline, NULL);
  return elapsed_ns;
}

const bench_system_t bench_system_ovl = {
    .name = "libovl",
    .what = "pool lanes of width 1, ready order, statistics on, ovl_pipeline_start() on a warm loop",
    .open = open_loop,
    .close = close_loop,
    .run = run_ovl,
};
