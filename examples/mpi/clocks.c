/* SPDX-License-Identifier: MIT */
/* Differences of clocks that may be far apart, but not by more than 292 years. */
#include "mpi/clocks.h"

static int64_t difference(uint64_t a, uint64_t b) { return a >= b ? (int64_t)(a - b) : -(int64_t)(b - a); }

void clocks_narrow(clocks_offset_t *offset, const clocks_barrier_t *theirs, const clocks_barrier_t *ours) {
  int64_t least = difference(theirs->entered_ns, ours->left_ns);
  int64_t most = difference(theirs->left_ns, ours->entered_ns);
  if (least > offset->least_ns)
    offset->least_ns = least;
  if (most < offset->most_ns)
    offset->most_ns = most;
}

int64_t clocks_middle(const clocks_offset_t *offset) {
  return offset->least_ns + (offset->most_ns - offset->least_ns) / 2;
}

uint64_t clocks_error(const clocks_offset_t *offset) {
  return (uint64_t)(offset->most_ns - offset->least_ns + 1) / 2;
}
