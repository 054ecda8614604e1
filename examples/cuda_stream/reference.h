/* SPDX-License-Identifier: MIT */
/* The numbers that the matrices are made of, and what a product of them must be, on the processor.
 * They are small whole numbers, so that all sums are exact in any order of adding and every run has the same bits. */
#ifndef EXAMPLES_CUDA_STREAM_REFERENCE_H
#define EXAMPLES_CUDA_STREAM_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

/* Seeds: of the weights, and of a member's input. */
#define REFERENCE_WEIGHTS UINT64_C(1)
#define REFERENCE_INPUT(rank, microbatch) ((((uint64_t)(rank) + 1) << 32) + (microbatch))

/* What a product should be: some columns of (the inputs of members first to last, added) times the weights. */
typedef struct reference {
  uint64_t microbatch;
  unsigned first, last;
  size_t column, columns;
} reference_t;

/* dimension x dimension numbers from -2 to 2, column by column. */
void reference_fill(float *matrix, size_t dimension, uint64_t seed);

/* How many of the product's columns are wrong; -1: no memory. Takes n^2 steps instead of n^3: both sides are
 * multiplied by a row of random numbers. A wrong column gets through once in a thousand. */
int64_t reference_wrong_columns(const float *product, size_t dimension, const reference_t *what);

#endif
