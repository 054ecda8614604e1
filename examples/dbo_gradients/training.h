/* SPDX-License-Identifier: MIT */
/* A rank's pipeline for data-parallel training: forward, backward, buckets of gradients reduced, weights updated.
 * A microbatch of the pipeline is one of training too; every `accumulate` of them make a step.
 *
 *   compute lane   F0 F1 F2 B2 B1 B0          F = forward, B = backward of a layer, one after another
 *   link           R: a bucket's reduction    after B of the last layer to add to it, of all of the step's microbatches
 *   compute lane   U: a bucket's update       after R
 *
 * F of a layer waits for the U of the previous microbatch of those buckets alone that hold its weights. Within a step,
 * R and U have nothing to do but to keep that order; at its end they do the work of all. */
#ifndef EXAMPLES_DBO_GRADIENTS_TRAINING_H
#define EXAMPLES_DBO_GRADIENTS_TRAINING_H

#include <stddef.h>
#include <stdint.h>

#include "dbo_gradients/network.h"
#include "ovl.h"
#include "parts/op_times.h"

#define TRAINING_RATE 0.15F /* of learning */

/* A stretch of the gradients. */
typedef struct bucket {
  size_t first;
  size_t count;
  size_t highest; /* layer that it holds something of; finished first */
  size_t lowest;  /* and last */
} bucket_t;

/* What stages of one kind cost, for hints; measured once and handed to all ranks. */
typedef struct training_costs {
  uint64_t forward_ns[NETWORK_LAYERS];
  uint64_t backward_ns[NETWORK_LAYERS];
  double update_ns; /* of one weight */
  double flight_ns; /* of one gradient */
  uint64_t latency_ns;
} training_costs_t;

typedef struct training training_t;
typedef struct training_part training_part_t; /* of one stage */

/* What sums gradients over the ranks. */
typedef struct training_carrier {
  unsigned ranks;
  void *data;          /* its own */
  uint64_t timeout_ns; /* a reduction that is under way for longer fails; 0: never */
  int always;          /* not 0: a rank takes part in the reductions of a microbatch that has failed, too */

  /* For a reduction's `run`. What is written in the diary at its end is the carrier's. */
  int (*reduce)(training_t *training, ovl_op_t *op, float *values, size_t count);

  /* The first thing that a forward does. Not 0: what it returns. NULL: nothing. */
  int (*disturb)(void *data, const ovl_op_t *op);
} training_carrier_t;

struct training {
  training_carrier_t carrier;
  op_times_t *diary;        /* that ops write; NULL: none */
  ovl_pipeline_t *pipeline; /* as described */
  network_t network;
  uint64_t accumulate;
  const training_costs_t *costs; /* the ranks' */
  double *losses;                /* by microbatch */
  bucket_t *buckets;
  size_t bucket_count;
  training_part_t *parts;
  ovl_lane_t link;
  ovl_stage_t forward[NETWORK_LAYERS];
  ovl_stage_t backward[NETWORK_LAYERS];
  ovl_stage_t *reduction; /* by bucket */
  ovl_stage_t *update;
};

/* How many microbatches are in flight: those of a step, and the first of the next. */
uint32_t training_window(uint64_t accumulate);

/* How many stages there are with buckets of `values` gradients each. */
uint32_t training_stages(const network_t *network, size_t values);

/* Cuts the gradients into buckets. 0 or OVL_ENOMEM; uncut is fine after both. */
int training_cut(training_t *training, size_t values);
void training_uncut(training_t *training);

/* Adds stages and dependencies to a pipeline, for a lane that computes and one of fixed order that is the link. 0, or what
 * libovl returned. */
int training_describe(training_t *training, ovl_pipeline_t *pipeline, ovl_lane_t compute, ovl_lane_t link);

/* Every dependency was kept in the run that `times` is of. 0, or -1 after a message. */
int training_check(const training_t *training, const op_times_t *times, const char *program);

/* How long the link takes for that many gradients. */
uint64_t training_flight(const training_costs_t *costs, size_t count);

#endif
