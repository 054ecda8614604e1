/* SPDX-License-Identifier: MIT */
/* A random pipeline and how it is to be run: what the random tests of the core play with. */
#ifndef OVL_TESTS_SHAPE_H
#define OVL_TESTS_SHAPE_H

#include "core/core.h"
#include "support/random.h"

enum { SHAPE_LANES = 4, SHAPE_STAGES = 7, SHAPE_DEPENDENCIES = 8 };

typedef struct shape {
  ovl_lane_desc_t lanes[SHAPE_LANES];
  ovl_stage_desc_t stages[SHAPE_STAGES];
  ovl_dependency_t dependencies[SHAPE_DEPENDENCIES];
  uint32_t lane_count, stage_count, dependency_count;
  uint32_t window, spare_rows;
  ovl_core_options_t options;

  /* All stages, each after those that it waits for within a microbatch, the lowest numbered first; fewer when
   * there is a cycle. */
  uint32_t order[SHAPE_STAGES];
  uint32_t ordered;
} shape_t;

/* With at least one lane; stages and dependencies there may be none of. Now and then it has a cycle. */
void shape_random(shape_t *shape, random_source_t *random);

/* Does `stage` wait for `before` within a microbatch? */
bool shape_waits(const shape_t *shape, uint32_t before, uint32_t stage);

ovl_description_t shape_description(const shape_t *shape);

#endif
