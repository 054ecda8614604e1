/* SPDX-License-Identifier: MIT */
/* What a two-lane pipeline can reach at best: the figures that measurements are held against. */
#ifndef OVL_THEORY_H
#define OVL_THEORY_H

#include "ovl/types.h"

OVL_BEGIN_DECLS

/* One after another: n (c + m). Nanoseconds; UINT64_MAX when the result does not fit. Any thread. */
OVL_EXTERN uint64_t ovl_bound_serial(uint64_t n, uint64_t compute_ns, uint64_t comm_ns);

/* Overlapped, two lanes of width 1, window >= 2: n max(c, m) + min(c, m); 0 for n = 0.
 * No schedule that keeps "communication of i after computation of i" is shorter: the slower lane
 * works n times, and before its first or after its last op the other lane works once.
 * (Johnson 1954, two-machine flow shop with equal jobs.)
 * Nanoseconds; UINT64_MAX when the result does not fit. Any thread. */
OVL_EXTERN uint64_t ovl_bound_overlap(uint64_t n, uint64_t compute_ns, uint64_t comm_ns);

OVL_END_DECLS

#endif
