/* SPDX-License-Identifier: MIT */
/* Pipelines in virtual time, through the public API: every op takes as long as a table says, when it started and
 * ended is written down, and each schedule is seen to be a legal one before anybody looks at how long it is. */
#ifndef OVL_TESTS_VIRTUAL_H
#define OVL_TESTS_VIRTUAL_H

#include "ovl.h"
#include "support/describe.h"
#include "support/random.h"

enum { VIRTUAL_LANES = 6, VIRTUAL_STAGES = 16, VIRTUAL_MICROBATCHES = 64, VIRTUAL_DEPENDENCIES = 16 };

typedef struct virtual_dependency {
  uint32_t before, after, distance;
} virtual_dependency_t;

typedef struct virtual_shape {
  uint32_t lane_count, stage_count, dependency_count, window;
  uint32_t width[VIRTUAL_LANES];
  ovl_order_t order[VIRTUAL_LANES];
  ovl_role_t role[VIRTUAL_LANES];
  uint32_t lane[VIRTUAL_STAGES];
  bool unchained[VIRTUAL_STAGES];
  virtual_dependency_t dependencies[VIRTUAL_DEPENDENCIES];
  ovl_mode_t mode;
} virtual_shape_t;

typedef struct virtual_op {
  uint32_t microbatch, stage;
} virtual_op_t;

typedef struct virtual_run {
  virtual_shape_t shape;
  ovl_pipeline_t *pipeline;
  uint32_t count;
  uint64_t duration[VIRTUAL_MICROBATCHES][VIRTUAL_STAGES];
  uint64_t start[VIRTUAL_MICROBATCHES][VIRTUAL_STAGES];
  uint64_t end[VIRTUAL_MICROBATCHES][VIRTUAL_STAGES];
  virtual_op_t starts[VIRTUAL_MICROBATCHES * VIRTUAL_STAGES]; /* in their order */
  uint32_t start_count;
  ovl_stats_t stats;
} virtual_run_t;

/* One stage on each of `lanes` lanes, chained. */
virtual_shape_t virtual_chain(uint32_t lanes, uint32_t window);

/* Any pipeline with at most so many stages. */
virtual_shape_t virtual_random_shape(random_source_t *random, uint32_t most_stages);

/* Makes the pipeline. Durations are 0 until they are filled in. */
virtual_run_t *virtual_new(const virtual_shape_t *shape);
void virtual_free(virtual_run_t *run);

/* Every op of a stage takes the same. */
void virtual_equal(virtual_run_t *run, const uint64_t *by_stage);

/* Every op takes something below `bound`. */
void virtual_random(virtual_run_t *run, random_source_t *random, uint32_t bound);

/* Simulates `count` microbatches, asserts that the schedule is legal, and returns how long it takes. */
uint64_t virtual_simulate(virtual_run_t *run, uint32_t count);

/* Gives every lane that keeps an order the one in which it started its ops in the last simulation of `from`. */
void virtual_give_orders(virtual_run_t *run, const virtual_run_t *from);

/* In the last simulation: when the microbatch ended; did they end in the order of their numbers? */
uint64_t virtual_retired(const virtual_run_t *run, uint32_t microbatch);
bool virtual_in_order(const virtual_run_t *run);

#endif
