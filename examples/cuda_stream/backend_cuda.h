/* SPDX-License-Identifier: MIT */
/* CUDA for device lanes: an ovl_device_t for one GPU, and streams that suit it.
 * Plain C on the runtime API (CUDA 11 or later); copy this pair of files into your project.
 *
 * All GPUs of the process are of one sync domain: they wait for each other's events, and the host waits for none. */
#ifndef EXAMPLES_CUDA_STREAM_BACKEND_CUDA_H
#define EXAMPLES_CUDA_STREAM_BACKEND_CUDA_H

#include <cuda_runtime_api.h>

#include "ovl.h"

typedef struct backend_cuda {
  ovl_device_t device; /* for ovl_lane_options_t.device */
  int ordinal;         /* CUDA's number of it */
  char name[24];       /* "cuda:0" */
} backend_cuda_t;

/* Of those that compete for the GPU, work on an urgent stream starts first. Communication is short of time, not of
 * processors: let it be the urgent one. */
typedef enum backend_cuda_priority { BACKEND_CUDA_NORMAL, BACKEND_CUDA_URGENT } backend_cuda_priority_t;

/* The table of GPU number `ordinal`, which becomes the thread's current device. It holds nothing, and must not be moved
 * while a pipeline uses it. 0, or CUDA's code. */
int backend_cuda_init(backend_cuda_t *cuda, int ordinal);

/* A stream of that GPU, which becomes the current device. It is non-blocking: what others put on the legacy stream does
 * not order it. The caller's to cudaStreamDestroy, once the pipelines that use it are closed. 0, or CUDA's code. */
int backend_cuda_stream(const backend_cuda_t *cuda, backend_cuda_priority_t priority, cudaStream_t *stream);

/* Why no lane or origin can be this stream, in words; NULL: it can. The table's entries return OVL_EINVAL for those:
 * 0 and cudaStreamLegacy wait for all blocking streams of the GPU, which ends the overlap, and cannot be captured;
 * cudaStreamPerThread is another stream in each thread. */
const char *backend_cuda_refuses(cudaStream_t stream);

#endif
