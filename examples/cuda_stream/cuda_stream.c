/* SPDX-License-Identifier: MIT */
/* Overlaps matrix products with communication on a GPU's streams. So far it only says which GPUs there are. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_stream/backend_cuda.h"
#include "parts/report.h"

#define PROGRAM "cuda_stream"
#define EXIT_SKIPPED 77

int main(void) {
  int count = 0; /* stays so without a driver */
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    printf(PROGRAM ": skipped, there is no GPU to use: %s\n",
           code != cudaSuccess ? cudaGetErrorString(code) : "none was found");
    return report_flush(PROGRAM, EXIT_SKIPPED);
  }
  for (int i = 0; i < count; i++) {
    backend_cuda_t cuda;
    code = (cudaError_t)backend_cuda_init(&cuda, i);
    printf("%s: %s\n", cuda.name, cudaGetErrorString(code));
  }
  return report_flush(PROGRAM, EXIT_SUCCESS);
}
