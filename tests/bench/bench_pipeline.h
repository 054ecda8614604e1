/* SPDX-License-Identifier: MIT */
/* Pipelines of libovl as the benchmarks need them: described in one call, run on a loop that stays warm. */
#ifndef OVL_BENCH_PIPELINE_H
#define OVL_BENCH_PIPELINE_H

#include <stdbool.h>
#include <uv.h>

#include "bench_work.h"
#include "ovl.h"

/* Stage s is on lane s mod lanes; all lanes have width 1 and ready order. */
typedef struct bench_shape {
  uint32_t lanes, stages, window, queue;
  ovl_op_cb run; /* of every stage; NULL: nothing to do */
  void *data;    /* op->data */
  uint64_t cost_ns;
  uint32_t dependencies; /* stage 1 of i waits for stage 0 of i, i-1, ..., i-dependencies+1; 0 is as 1 */
  uint64_t spin_ns;
  bool no_stats;
  size_t trace;   /* records kept */
  bool loop_last; /* the last lane is the loop, the others are pool lanes */
} bench_shape_t;

/* NULL after a message on stderr. */
ovl_pipeline_t *bench_pipeline_open(const bench_shape_t *shape);

/* From ovl_pipeline_start() until `done` has been called and the loop has nothing left; ns. 0: after a
 * message. */
uint64_t bench_pipeline_run(ovl_pipeline_t *pipeline, uv_loop_t *loop, uint64_t microbatches);

typedef void (*bench_simulated_cb)(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data);

/* The virtual time that the work takes, in ns. on_op may be NULL. 0: after a message. */
uint64_t bench_pipeline_simulate(const bench_work_t *work, bench_simulated_cb on_op, void *data);

#endif
