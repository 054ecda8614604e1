/* SPDX-License-Identifier: MIT */
/* What one GPU has for the program: streams, buffers, cuBLAS; and what its two lanes put on their streams.
 * All functions that return int return 0 or a library's code, after one line on stderr. */
#ifndef EXAMPLES_CUDA_STREAM_GPU_H
#define EXAMPLES_CUDA_STREAM_GPU_H

#include "cuda_stream/backend_cuda.h"
#include "cuda_stream/checks.h"
#include "cuda_stream/collective.h"
#include "cuda_stream/team.h"

typedef struct gpu_plan {
  uint64_t microbatches;
  uint64_t window;
  uint64_t dimension; /* of the square matrices */
  uint64_t products;  /* so many times a compute op multiplies the same two matrices */
  collective_kind_t kind;
} gpu_plan_t;

typedef struct gpu {
  const team_t *team;
  gpu_plan_t plan;
  backend_cuda_t cuda;
  cudaStream_t compute, comm, origin;
  cublasHandle_t
      blas; /* the compute lane's, with a workspace of its own: another lane that multiplied would need another */
  void *workspace;
  float *inputs;            /* a matrix for each microbatch */
  float *weights;           /* the matrix that all are multiplied by */
  float *slots;             /* a product for each slot */
  float *results;           /* what communication brings, for each microbatch */
  float *pinned;            /* a matrix for each slot, on the host: how copies travel */
  float *host;              /* a microbatch's result, to look at */
  collective_t *collective; /* NULL: one GPU alone, which copies to the host and back */
} gpu_t;

/* finish is fine after both results. */
int gpu_init(gpu_t *gpu, const team_t *team, const gpu_plan_t *plan);
void gpu_finish(gpu_t *gpu);

/* The input of a microbatch times the weights, into the slot; and the slot to where its result belongs. */
int gpu_multiply(gpu_t *gpu, uint64_t microbatch, uint32_t slot);
int gpu_communicate(gpu_t *gpu, uint64_t microbatch, uint32_t slot);

/* Waits on the host until the event is done, without blocking: others' failures are seen meanwhile. */
int gpu_wait(gpu_t *gpu, cudaEvent_t event);

/* Before a run: no results. After it: a hash of all of them, for comparing runs to the last bit. */
int gpu_clear_results(gpu_t *gpu);
int gpu_hash_results(gpu_t *gpu, uint64_t *hash);

/* Are they right? *wrong: how many columns are not. */
int gpu_check_results(gpu_t *gpu, uint64_t *wrong);

#endif
