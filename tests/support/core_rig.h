/* SPDX-License-Identifier: MIT */
/* A core with no library around it. A test describes a pipeline in a few lines, and then is the driver: step by
 * step, or in virtual time. Indexes count from 0. */
#ifndef OVL_TESTS_CORE_RIG_H
#define OVL_TESTS_CORE_RIG_H

#include "core/core.h"
#include "support/counting_allocator.h"

enum { RIG_LANES = 160, RIG_STAGES = 160, RIG_DEPENDENCIES = 320 };

typedef struct rig {
  ovl_lane_desc_t lanes[RIG_LANES];
  ovl_stage_desc_t stages[RIG_STAGES];
  ovl_dependency_t dependencies[RIG_DEPENDENCIES];
  uint32_t lane_count, stage_count, dependency_count;
  uint32_t window;
  ovl_core_options_t options; /* statistics are on unless a test turns them off */
  counting_allocator_t allocator;
  bool built;
  ovl_plan_t plan;
  ovl_core_t core;
  uint64_t now;
} rig_t;

rig_t *rig_new(uint32_t window);
void rig_free(rig_t *rig); /* and sees that nothing leaked */

uint32_t rig_lane(rig_t *rig, uint32_t width);
uint32_t rig_fixed_lane(rig_t *rig);
uint32_t rig_stage(rig_t *rig, uint32_t lane); /* chained */
uint32_t rig_unchained_stage(rig_t *rig, uint32_t lane);
uint32_t rig_always_stage(rig_t *rig, uint32_t lane); /* chained */
void rig_depend(rig_t *rig, uint32_t before, uint32_t after, uint32_t distance);
ovl_description_t rig_description(const rig_t *rig);

/* One lane of width 1 and one stage on each, chained: what most tests need. */
rig_t *rig_new_two_lanes(uint32_t window);

/* Makes plan and core, unless they are there. */
void rig_build(rig_t *rig);

/* What a driver does. Every call is a new instant, one time unit after the last. */
void rig_begin(rig_t *rig, ovl_mode_t mode, uint64_t count);
ovl_core_op_t *rig_take(rig_t *rig, uint32_t lane);
void rig_end(rig_t *rig, ovl_core_op_t *op, int status);
void rig_fail(rig_t *rig, ovl_core_op_t *op, int status);
void rig_cancel(rig_t *rig);
int rig_submit(rig_t *rig, void *item);
void rig_finish(rig_t *rig);
void rig_retire(rig_t *rig, ovl_core_slot_t *slot);

uint32_t rig_startable(const rig_t *rig, uint32_t lane);

/* Takes the lane's next op, which must be this one. */
#define rig_take_op(rig, lane, microbatch, stage) \
  rig_take_expected(rig, lane, microbatch, stage, __FILE__, __LINE__)
ovl_core_op_t *rig_take_expected(rig_t *rig, uint32_t lane, uint64_t microbatch, uint32_t stage,
                                 const char *file, int line);

/* Takes and ends, one after the other, what can start, until nothing can. How many ops that were. */
uint64_t rig_run_dry(rig_t *rig);

/* Virtual time: how long an op takes. */
typedef uint64_t (*rig_duration_cb)(const ovl_core_op_t *op, void *data);

/* Runs `count` microbatches; every op starts as soon as it can, and what ends at the same time ends in the same
 * instant. Returns the time that it took. */
uint64_t rig_simulate(rig_t *rig, ovl_mode_t mode, uint64_t count, rig_duration_cb duration, void *data);

/* The same with a duration for each stage. */
uint64_t rig_simulate_stages(rig_t *rig, ovl_mode_t mode, uint64_t count, const uint64_t *durations);

#endif
