/* SPDX-License-Identifier: MIT */
/* A call is quoted up to its first parenthesis: what follows are names of variables. */
#include "cuda_stream/checks.h"

#include <stdio.h>
#include <string.h>

int check(int code, const char *words, const char *call) {
  if (code != 0)
    fprintf(stderr, PROGRAM ": %.*s: %s (%d)\n", (int)strcspn(call, "("), call, words, code);
  return code;
}

int check_cuda(int code, const char *call) {
  return check(code, cudaGetErrorString((cudaError_t)code), call);
}

int check_cublas(cublasStatus_t code, const char *call) {
  return check((int)code, cublasGetStatusString(code), call);
}
