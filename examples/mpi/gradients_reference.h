/* SPDX-License-Identifier: MIT */
/* What training has to come to: the samples of all ranks, one after another, by one thread of one process.
 * Sums are added in another order than by the ranks, so results are equal within rounding. */
#ifndef EXAMPLES_MPI_GRADIENTS_REFERENCE_H
#define EXAMPLES_MPI_GRADIENTS_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct reference {
  unsigned ranks;
  size_t width;   /* of the layers */
  size_t samples; /* of a microbatch */
  uint64_t steps;
  uint64_t accumulate; /* microbatches of a rank in a step */
} reference_t;

/* Learns as the ranks do, and compares. 0, or -1 after one line on stderr that says what differs. */
int reference_check(const reference_t *reference, const float *weights, const char *program);

#endif
