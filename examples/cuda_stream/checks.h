/* SPDX-License-Identifier: MIT */
/* Calls of CUDA, cuBLAS and NCCL, each checked: CUDA(cudaMalloc(&p, n)) is 0, or the library's code after one line on
 * stderr that names the call. */
#ifndef EXAMPLES_CUDA_STREAM_CHECKS_H
#define EXAMPLES_CUDA_STREAM_CHECKS_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#define PROGRAM "cuda_stream"

#define CUDA(call) check_cuda((int)(call), #call)
#define CUBLAS(call) check_cublas((call), #call)

int check_cuda(int code, const char *call);
int check_cublas(cublasStatus_t code, const char *call);

/* For codes of other libraries: `words` says what the code means. Returns the code. */
int check(int code, const char *words, const char *call);

#endif
