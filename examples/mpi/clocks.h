/* SPDX-License-Identifier: MIT */
/* How much the clocks of two machines differ, from barriers that both pass.
 * In each barrier there is a moment at which the last rank enters: all have entered by then, and none has left. So on
 * either clock it lies between entering and leaving, and the difference of the clocks is within bounds that no barrier can
 * widen. */
#ifndef EXAMPLES_MPI_CLOCKS_H
#define EXAMPLES_MPI_CLOCKS_H

#include <stdint.h>

/* When a rank entered and left a barrier, on its own clock. */
typedef struct clocks_barrier {
  uint64_t entered_ns;
  uint64_t left_ns;
} clocks_barrier_t;

/* What another clock shows, less what this one does, at the same time. */
typedef struct clocks_offset {
  int64_t least_ns;
  int64_t most_ns;
} clocks_offset_t;

/* Nothing is known. */
static inline clocks_offset_t clocks_unknown(void) {
  const clocks_offset_t offset = {INT64_MIN, INT64_MAX};
  return offset;
}

/* What the two ranks' times of one barrier tell. */
void clocks_narrow(clocks_offset_t *offset, const clocks_barrier_t *theirs, const clocks_barrier_t *ours);

/* The middle, and how much it may be off. */
int64_t clocks_middle(const clocks_offset_t *offset);
uint64_t clocks_error(const clocks_offset_t *offset);

#endif
