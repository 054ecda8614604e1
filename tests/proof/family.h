/* SPDX-License-Identifier: MIT */
/* All pipelines of a size, numbered. */
#ifndef OVL_TESTS_FAMILY_H
#define OVL_TESTS_FAMILY_H

#include "proof/explore.h"

/* One or two lanes, each of width 1 with either order or of width 2, in every way to put the stages on them; every
 * set of dependencies within a microbatch; up to `back_edges` dependencies of distance 1 in every direction; every
 * window and count up to the limits; overlapped and serial; with and without reports. Where anything may fail, also
 * both policies and every choice of `always` stages. */
typedef struct family {
  const char *name;
  uint32_t stages; /* 1 to 3 */
  uint32_t windows, microbatches, back_edges;
  explore_limits_t limits;
} family_t;

uint64_t family_size(const family_t *family);

/* Number k; false: another number is the same pipeline in all that matters. */
bool family_member(const family_t *family, uint64_t k, pair_shape_t *shape);

#endif
