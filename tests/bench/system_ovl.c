/* SPDX-License-Identifier: MIT */
/* libovl: pool lanes of width 1 in ready order, statistics on, all options at their defaults but the window.
 * The loop and libuv's pool stay warm between runs, and the pipeline is made once for all runs of a work. */
#include <stdint.h>
#include <uv.h>

#include "bench_pipeline.h"
#include "bench_system.h"

static uv_loop_t loop;
static ovl_pipeline_t *pipeline;
static uint64_t made_for; /* number of the work; 0: there is no pipeline */

static int open_loop(void) { return uv_loop_init(&loop); }

static void drop_pipeline(void) {
  if (made_for != 0)
    ovl_pipeline_close(pipeline, NULL);
  made_for = 0;
}

static void close_loop(void) {
  drop_pipeline();
  uv_loop_close(&loop);
}

static int spin_op(ovl_op_t *op) {
  bench_op(op->data, op->microbatch, op->stage.id - 1);
  return 0;
}

static void make_pipeline(const bench_work_t *work) {
  drop_pipeline();
  bench_shape_t shape = {.lanes = work->lanes,
                         .stages = work->stages,
                         .window = work->window,
                         .run = spin_op,
                         .data = (void *)(uintptr_t)work};
  pipeline = bench_pipeline_open(&shape);
  made_for = pipeline != NULL ? work->number : 0;
}

static uint64_t run_ovl(const bench_work_t *work) {
  if (made_for != work->number)
    make_pipeline(work);
  return made_for != 0 ? bench_pipeline_run(pipeline, &loop, work->microbatches) : 0;
}

const bench_system_t bench_system_ovl = {
    .name = "libovl",
    .what = "pool lanes of width 1, ready order, statistics on, a pipeline that has run before",
    .open = open_loop,
    .close = close_loop,
    .run = run_ovl,
};
