/* SPDX-License-Identifier: MIT */
/* The two-lane bounds, with arithmetic that saturates. */
#include "ovl/theory.h"

#include "core/tally.h"

static uint64_t multiply(uint64_t a, uint64_t b) { return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

uint64_t ovl_bound_serial(uint64_t n, uint64_t compute_ns, uint64_t comm_ns) {
  return ovl_later(multiply(n, compute_ns), multiply(n, comm_ns));
}

uint64_t ovl_bound_overlap(uint64_t n, uint64_t compute_ns, uint64_t comm_ns) {
  if (n == 0)
    return 0;
  uint64_t longer = compute_ns > comm_ns ? compute_ns : comm_ns;
  uint64_t shorter = compute_ns > comm_ns ? comm_ns : compute_ns;
  return ovl_later(multiply(n, longer), shorter);
}
