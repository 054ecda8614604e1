/* SPDX-License-Identifier: MIT */
/* Collectives between the GPUs of a team: collective_nccl.c where NCCL was found, else collective_none.c, with which
 * a team has one GPU. */
#ifndef EXAMPLES_CUDA_STREAM_COLLECTIVE_H
#define EXAMPLES_CUDA_STREAM_COLLECTIVE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "cuda_stream/team.h"

typedef enum collective_kind {
  COLLECTIVE_ALL_REDUCE,
  COLLECTIVE_REDUCE_SCATTER,
  COLLECTIVE_ALL_GATHER
} collective_kind_t;

typedef struct collective collective_t;

/* A communicator, for one lane alone. Waits for all members. NULL: one line on stderr said why. */
collective_t *collective_open(const team_t *team);

/* Puts it on the stream: each member sends `count` numbers; how many it receives is collective_received(). 0, or NCCL's
 * code. */
int collective_put(collective_t *collective, collective_kind_t kind, const float *from, float *to,
                   size_t count, cudaStream_t stream);
size_t collective_received(const team_t *team, collective_kind_t kind, size_t count);

/* Has another member failed? Then this one's work never ends by itself: it is ended here. 0, or NCCL's code. */
int collective_check(collective_t *collective);

void collective_close(collective_t *collective);

/* 1 with NCCL. */
int collective_possible(void);

#endif
