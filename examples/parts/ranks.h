/* SPDX-License-Identifier: MIT */
/* Two ranks in one process: a pipeline each, on one loop, joined by the reductions of backend_reduce.
 * They compare fingerprints before they start; if one fails the other is not left waiting. */
#ifndef EXAMPLES_PARTS_RANKS_H
#define EXAMPLES_PARTS_RANKS_H

#include <stdint.h>

#include "backend_reduce.h"
#include "ovl.h"
#include "parts/op_times.h"
#include "parts/report.h"

#define RANKS BACKEND_REDUCE_RANKS

typedef struct ranks ranks_t;

/* ovl_pipeline_data() of its pipeline. */
typedef struct rank {
  ranks_t *ranks;
  unsigned index;
  void *program;            /* the program's own */
  ovl_pipeline_t *pipeline; /* NULL outside of open .. close */
  op_times_t times;         /* of the last run */
  int status;               /* of the last run */
} rank_t;

struct ranks {
  const char *program; /* its name, for messages */
  backend_reduce_t reduce;
  rank_t each[RANKS];
  uint64_t microbatches; /* of each run */
};

/* Adds lanes and stages to a rank's pipeline. 0 or an error. */
typedef int (*ranks_describe_cb)(rank_t *rank);

/* The reduction they share. 0, or an error after a message, as everywhere here. */
int ranks_init(ranks_t *ranks, const char *program);
void ranks_finish(ranks_t *ranks);

/* Makes the pipelines, for runs of `microbatches` microbatches through `stages` stages each. on_microbatch may be
 * NULL. After an error, too, close is due. */
int ranks_open(ranks_t *ranks, uint64_t microbatches, uint32_t stages, uint32_t window,
               ranks_describe_cb describe, ovl_microbatch_cb on_microbatch);
void ranks_close(ranks_t *ranks);

/* Runs both to the end and checks every rank's diary. The times are those of the slower rank. */
int ranks_run(ranks_t *ranks, ovl_mode_t mode, run_times_t *result);

/* The mean duration of a stage in the last run, over the ranks. */
uint64_t ranks_mean(const ranks_t *ranks, ovl_stage_t stage);

/* For a reduction's `run`, which has told the diary that it began. */
int ranks_reduce(rank_t *rank, ovl_op_t *op, float *values, size_t count, uint64_t flight_ns);

#endif
