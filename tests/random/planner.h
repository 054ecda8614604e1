/* SPDX-License-Identifier: MIT */
/* The orders that fixed lanes are planned to have, worked out with the model instead of the library's simulator. */
#ifndef OVL_TESTS_PLANNER_H
#define OVL_TESTS_PLANNER_H

#include "random/model.h"

typedef uint64_t (*planner_duration_fn)(void *context, uint64_t microbatch, uint32_t stage);

typedef struct planner_list {
  ovl_op_ref_t refs[MODEL_MICROBATCHES * SHAPE_STAGES];
  uint64_t count;
} planner_list_t;

/* Runs `count` microbatches in virtual time; lists[l] becomes the order in which lane l starts its ops. Fixed lanes
 * keep given[l], where that has refs, and are free of any order where it has none. */
void planner_run(const shape_t *shape, uint64_t count, planner_duration_fn duration, void *context,
                 const model_turns_t *given, planner_list_t *lists);

#endif
