/* SPDX-License-Identifier: MIT */
/* Ranks that communicate, one on each device of the stand-in: a pipeline each, with a lane that computes and two that
 * communicate, each by a communicator of its own. Both collectives of a microbatch wait for its compute only, so they
 * are put down in one order because libovl keeps one. */
#ifndef TEST_SUPPORT_STAND_IN_RANKS_H
#define TEST_SUPPORT_STAND_IN_RANKS_H

#include <stdbool.h>

#include "cuda_stream/backend_cuda.h"
#include "support/cuda_stand_in/stand_in.h"

enum {
  RANK_MICROBATCHES = 6,
  RANK_WINDOW = 3,
  RANK_COMPUTE_NS = 50,
  RANK_COLLECTIVE_NS = 20,
  RANK_NODES = 8 /* of a microbatch, at most: works, and waits for other lanes */
};

typedef struct rank {
  uint32_t number;
  backend_cuda_t cuda;
  cudaStream_t streams[3]; /* compute, first and second collective */
  ovl_pipeline_t *pipeline;
} rank_t;

typedef struct ranks {
  uint32_t count;
  uint32_t communicators[2]; /* of the first and of the second collective; the test may make them one */
  bool modules;              /* each stage has one of its own, which is not loaded */
  bool chained;              /* first and second collectives wait for each other in turn */
  bool own_hints; /* the last rank has measured a longer first collective, so it puts others between */
  void (*abort_part)(uint32_t communicator, uint32_t rank); /* by the abort hooks; NULL: there are none */
  rank_t ranks[STAND_IN_RANKS];
} ranks_t;

extern ranks_t ranks;

/* Everything anew; settings of the stand-in and of `ranks` may follow, then ranks_open() makes the pipelines. The last
 * fails the test if anything is left. */
void ranks_reset(uint64_t seed, uint32_t count);
void ranks_open(const ovl_pipeline_options_t *options); /* NULL: none but the window */
void ranks_close(void);

/* All enqueue, each on a host of its own (or all on host 0), and finish. */
void ranks_enqueue(bool one_host);
int ranks_enqueue_one(uint32_t rank);

/* The stand-in is in a deadlock, and these words are in what it says of it. */
void ranks_assert_deadlock(const char *words);

#endif
