/* SPDX-License-Identifier: MIT */
/* A diary of a run: when each op began and ended, kept by the callbacks themselves.
 * It predicts what the run should have taken with those durations, and shows whether the rules were kept. */
#ifndef EXAMPLES_PARTS_OP_TIMES_H
#define EXAMPLES_PARTS_OP_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "ovl.h"

/* On uv_hrtime()'s clock. */
typedef struct op_time {
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t lane; /* its id */
  uint32_t runs; /* how often it began: 1 in a run without fault */
} op_time_t;

/* Each op writes its own place alone, so there is no lock; read it after the run. */
typedef struct op_times {
  uint64_t microbatches;
  uint32_t stages;
  op_time_t *ops; /* of microbatch i and stage id s: [i * stages + s - 1] */
} op_times_t;

/* 0 or OVL_ENOMEM; finish is fine after both. */
int op_times_init(op_times_t *times, uint64_t microbatches, uint32_t stages);
void op_times_finish(op_times_t *times);

/* For a new run. */
void op_times_clear(op_times_t *times);

/* The first and the last thing that an op does; one that is still pending ends before ovl_op_complete(). */
void op_times_begin(op_times_t *times, const ovl_op_t *op);
void op_times_end(op_times_t *times, const ovl_op_t *op);

const op_time_t *op_times_of(const op_times_t *times, uint64_t microbatch, ovl_stage_t stage);

/* The mean duration of a stage's ops. */
uint64_t op_times_mean(const op_times_t *times, ovl_stage_t stage);

/* From the first begin to the last end. */
uint64_t op_times_span(const op_times_t *times);

/* For ovl_simulation_t.duration, with the diary as data. */
uint64_t op_times_duration(const ovl_op_t *op, void *times);

/* What a run in the pipeline's present mode takes in virtual time, with the durations of this one. 0, or what
 * ovl_pipeline_simulate returned. */
int op_times_predict(op_times_t *times, ovl_pipeline_t *pipeline, uint64_t *predicted_ns);

/* ---- rules; 0, or -1 after one line on stderr that says which was broken ---- */

/* Every op ran once; no lane ran two at a time, and in OVL_SERIAL the whole pipeline did not. From this
 * follows that the run was not faster than its busiest lane, or in OVL_SERIAL, than the sum of all its ops. */
int op_times_check(const op_times_t *times, ovl_mode_t mode, const char *program);

/* `after` of each microbatch i began when `before` of microbatch i - distance had ended. */
int op_times_check_after(const op_times_t *times, ovl_stage_t before, ovl_stage_t after, uint64_t distance,
                         const char *program);

#endif
