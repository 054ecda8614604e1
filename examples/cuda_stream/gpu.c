/* SPDX-License-Identifier: MIT */
/* All memory is taken before the first run, so nothing that a capture forbids happens in one. */
#include "cuda_stream/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_stream/reference.h"
#include "parts/matrix.h"

#define WORKSPACE_BYTES ((size_t)32 << 20) /* what cuBLAS wants at most */
#define PAUSE_NS 20000

static size_t count_of(const gpu_t *gpu) { return (size_t)(gpu->plan.dimension * gpu->plan.dimension); }

/* Of a microbatch's result. */
static size_t received(const gpu_t *gpu) {
  return collective_received(gpu->team, gpu->plan.kind, count_of(gpu));
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static int make_streams(gpu_t *gpu) {
  int code = CUDA(backend_cuda_init(&gpu->cuda, (int)gpu->team->rank));
  if (code == 0)
    code = CUDA(backend_cuda_stream(&gpu->cuda, BACKEND_CUDA_NORMAL, &gpu->compute));
  if (code == 0)
    code = CUDA(backend_cuda_stream(&gpu->cuda, BACKEND_CUDA_URGENT, &gpu->comm));
  if (code == 0)
    code = CUDA(backend_cuda_stream(&gpu->cuda, BACKEND_CUDA_NORMAL, &gpu->origin));
  return code;
}

static int new_matrices(float **matrices, size_t count) {
  return CUDA(cudaMalloc((void **)matrices, count * sizeof(float)));
}

static int make_memory(gpu_t *gpu) {
  size_t count = count_of(gpu), microbatches = (size_t)gpu->plan.microbatches,
         window = (size_t)gpu->plan.window;
  int code = new_matrices(&gpu->inputs, microbatches * count);
  if (code == 0)
    code = new_matrices(&gpu->weights, count);
  if (code == 0)
    code = new_matrices(&gpu->slots, window * count);
  if (code == 0)
    code = new_matrices(&gpu->results, microbatches * received(gpu));
  if (code == 0 && gpu->team->size == 1)
    code = CUDA(cudaMallocHost((void **)&gpu->pinned, window * count * sizeof(float)));
  gpu->host = matrix_new(received(gpu) > count ? received(gpu) : count);
  return code == 0 && gpu->host == NULL ? check(-1, "no memory", "matrix_new()") : code;
}

/* Setting the stream takes the workspace away again, so that comes first. Once and for all: a lane has one stream. */
static int make_blas(gpu_t *gpu) {
  int code = CUBLAS(cublasCreate(&gpu->blas));
  if (code == 0)
    code = CUBLAS(cublasSetStream(gpu->blas, gpu->compute));
  if (code == 0)
    code = CUDA(cudaMalloc(&gpu->workspace, WORKSPACE_BYTES));
  if (code == 0)
    code = CUBLAS(cublasSetWorkspace(gpu->blas, gpu->workspace, WORKSPACE_BYTES));
  return code;
}

static int upload(gpu_t *gpu, float *matrix, uint64_t seed) {
  reference_fill(gpu->host, (size_t)gpu->plan.dimension, seed);
  return CUDA(cudaMemcpy(matrix, gpu->host, count_of(gpu) * sizeof(float), cudaMemcpyHostToDevice));
}

static int upload_all(gpu_t *gpu) {
  int code = upload(gpu, gpu->weights, REFERENCE_WEIGHTS);
  for (uint64_t i = 0; i < gpu->plan.microbatches && code == 0; i++)
    code = upload(gpu, gpu->inputs + i * count_of(gpu), REFERENCE_INPUT(gpu->team->rank, i));
  return code;
}

int gpu_init(gpu_t *gpu, const team_t *team, const gpu_plan_t *plan) {
  memset(gpu, 0, sizeof *gpu);
  gpu->team = team;
  gpu->plan = *plan;
  int code = make_streams(gpu);
  if (code == 0)
    code = make_memory(gpu);
  if (code == 0)
    code = make_blas(gpu);
  if (code == 0)
    code = upload_all(gpu);
  if (code == 0 && team->size > 1)
    code = (gpu->collective = collective_open(team)) == NULL ? -1 : 0;
  return code;
}

void gpu_finish(gpu_t *gpu) {
  cudaStream_t streams[] = {gpu->compute, gpu->comm, gpu->origin};
  void *memory[] = {gpu->inputs, gpu->weights, gpu->slots, gpu->results, gpu->workspace};
  if (gpu->collective != NULL)
    collective_close(gpu->collective);
  if (gpu->blas != NULL)
    (void)CUBLAS(cublasDestroy(gpu->blas));
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
    (void)CUDA(cudaFree(memory[i]));
  (void)CUDA(cudaFreeHost(gpu->pinned));
  for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
    if (streams[i] != NULL)
      (void)CUDA(cudaStreamDestroy(streams[i]));
  free(gpu->host);
}

/* ---- what the lanes do ------------------------------------------------------------------------------------------- */

int gpu_multiply(gpu_t *gpu, uint64_t microbatch, uint32_t slot) {
  const float one = 1, zero = 0;
  int n = (int)gpu->plan.dimension, code = 0;
  for (uint64_t i = 0; i < gpu->plan.products && code == 0; i++)
    code = CUBLAS(cublasSgemm(gpu->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one,
                              gpu->inputs + microbatch * count_of(gpu), n, gpu->weights, n, &zero,
                              gpu->slots + slot * count_of(gpu), n));
  return code;
}

/* To the host and back. */
static int copy(gpu_t *gpu, const float *from, float *to, float *pinned) {
  size_t bytes = count_of(gpu) * sizeof(float);
  int code = CUDA(cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDeviceToHost, gpu->comm));
  return code != 0 ? code : CUDA(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, gpu->comm));
}

int gpu_communicate(gpu_t *gpu, uint64_t microbatch, uint32_t slot) {
  const float *from = gpu->slots + slot * count_of(gpu);
  float *to = gpu->results + microbatch * received(gpu);
  if (gpu->collective == NULL)
    return copy(gpu, from, to, gpu->pinned + slot * count_of(gpu));
  return collective_put(gpu->collective, gpu->plan.kind, from, to, count_of(gpu), gpu->comm);
}

int gpu_wait(gpu_t *gpu, cudaEvent_t event) {
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  int code;
  while ((code = gpu->cuda.device.event_query(&gpu->cuda, event)) == OVL_PENDING) {
    code = gpu->collective != NULL ? collective_check(gpu->collective) : 0;
    if (code != 0)
      return code;
    (void)nanosleep(&pause, NULL);
  }
  return check(code, cudaGetErrorString((cudaError_t)code), "cudaEventQuery");
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

int gpu_clear_results(gpu_t *gpu) {
  size_t bytes = (size_t)gpu->plan.microbatches * received(gpu) * sizeof(float);
  int code = CUDA(cudaMemsetAsync(gpu->results, 0xff, bytes, gpu->origin));
  return code != 0 ? code : CUDA(cudaStreamSynchronize(gpu->origin));
}

static int download(gpu_t *gpu, uint64_t microbatch) {
  return CUDA(cudaMemcpy(gpu->host, gpu->results + microbatch * received(gpu), received(gpu) * sizeof(float),
                         cudaMemcpyDeviceToHost));
}

static uint64_t hash_of(uint64_t hash, const float *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x100000001b3);
  }
  return hash;
}

int gpu_hash_results(gpu_t *gpu, uint64_t *hash) {
  int code = 0;
  *hash = UINT64_C(0xcbf29ce484222325);
  for (uint64_t i = 0; i < gpu->plan.microbatches && code == 0; i++) {
    code = download(gpu, i);
    if (code == 0)
      *hash = hash_of(*hash, gpu->host, received(gpu));
  }
  return code;
}

/* Of the microbatch on the host: a share of the sum, the sum, or all members' products one after another. */
static int64_t wrong_columns(const gpu_t *gpu, uint64_t microbatch) {
  size_t n = (size_t)gpu->plan.dimension, size = gpu->team->size;
  reference_t what = {.microbatch = microbatch, .last = gpu->team->size - 1, .columns = n};
  if (gpu->plan.kind == COLLECTIVE_REDUCE_SCATTER) {
    what.columns = n / size;
    what.column = gpu->team->rank * what.columns;
  }
  if (gpu->plan.kind != COLLECTIVE_ALL_GATHER)
    return reference_wrong_columns(gpu->host, n, &what);
  int64_t wrong = 0, here = 0;
  for (unsigned r = 0; r < size && here >= 0; r++) {
    what.first = what.last = r;
    here = reference_wrong_columns(gpu->host + r * count_of(gpu), n, &what);
    wrong = here < 0 ? here : wrong + here;
  }
  return wrong;
}

int gpu_check_results(gpu_t *gpu, uint64_t *wrong) {
  int code = 0;
  *wrong = 0;
  for (uint64_t i = 0; i < gpu->plan.microbatches && code == 0; i++) {
    code = download(gpu, i);
    int64_t here = code == 0 ? wrong_columns(gpu, i) : 0;
    if (here < 0)
      code = check(-1, "no memory", "reference_wrong_columns()");
    else
      *wrong += (uint64_t)here;
  }
  return code;
}
