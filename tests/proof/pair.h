/* SPDX-License-Identifier: MIT */
/* A core, the orders of its fixed lanes, and the spec, driven side by side: after every event the core must be
 * where the spec says. Deviations are noted, the first is kept. */
#ifndef OVL_TESTS_PAIR_H
#define OVL_TESTS_PAIR_H

#include "proof/spec.h"
#include "sim/orders.h"

/* A pipeline and how it is to be run. */
typedef struct pair_shape {
  ovl_lane_desc_t lanes[SPEC_LANES];
  ovl_stage_desc_t stages[SPEC_STAGES];
  ovl_dependency_t dependencies[2 * SPEC_SOURCES];
  uint32_t lane_count, stage_count, dependency_count, window;
  ovl_mode_t mode;
  uint32_t count; /* of microbatches */
  ovl_core_options_t options;
  uint64_t hints[SPEC_STAGES]; /* 0: 1 */
  bool from_calls;             /* the hints come from calls, and differ from microbatch to microbatch */
  bool given[SPEC_LANES];      /* the lane's order is given explicitly: the one that would be planned */
} pair_shape_t;

/* A pair that is not quite one, to show that it is noticed. */
typedef enum pair_mutant {
  PAIR_INTACT,
  PAIR_WIDER_LANES,
  PAIR_WIDER_WINDOW,
  PAIR_FEWER_DEPENDENCIES,
  PAIR_NEVER_ALWAYS,
  PAIR_OTHER_POLICY,
  PAIR_LOOSE_LANES, /* fixed lanes are ready ones */
  PAIR_LOSES_ERRORS,
  PAIR_MUTANTS
} pair_mutant_t;

/* What does not change from begin() on. */
typedef struct pair_frame {
  pair_shape_t shape;
  pair_mutant_t mutant;
  ovl_plan_t plan;
  spec_run_t run;
  spec_order_t expected[SPEC_LANES]; /* of fixed lanes */
  ovl_op_ref_t given_refs[SPEC_LANES][SPEC_OPS];
  ovl_order_list_t given[SPEC_LANES];
} pair_frame_t;

/* What does. The core and the orders hold their own memory besides. */
typedef struct pair {
  pair_frame_t *frame;
  ovl_core_t core;
  ovl_orders_t orders;
  bool ordered; /* the run takes its orders from `orders` */
  spec_t spec;
  uint64_t now;
  const char *wrong;
} pair_t;

/* Works out the plan and the orders that fixed lanes must keep. 0, OVL_ECYCLE, OVL_ENOMEM; frame->run knows in any
 * case what there is. */
#define pair_frame_has_cycle(frame) ((frame)->run.sequence_count < (frame)->run.stage_count)
int pair_frame_init(pair_frame_t *frame, const pair_shape_t *shape, pair_mutant_t mutant);
void pair_frame_finish(pair_frame_t *frame);

/* The core's and the orders' memory comes from `memory`. 0, OVL_ENOMEM, OVL_ETOOBIG. */
int pair_init(pair_t *pair, pair_frame_t *frame, const ovl_memory_t *memory);
void pair_finish(pair_t *pair);

void pair_begin(pair_t *pair);

/* ---- events: false, and nothing happened, if there is nothing of the kind ------------------------------------------ */

bool pair_take(pair_t *pair, uint32_t lane, spec_op_t *op); /* op may be NULL */
bool pair_end(pair_t *pair, spec_op_t op, int status);
bool pair_expire(pair_t *pair, spec_op_t op);
bool pair_cancel(pair_t *pair);
bool pair_tell(pair_t *pair);
bool pair_retire(pair_t *pair);

bool pair_is_over(const pair_t *pair);

/* Holds the two against each other, and sees that there is a way on. Called by the events. */
void pair_check(pair_t *pair);

/* What an op is expected to take. */
uint64_t pair_hint(const pair_shape_t *shape, uint64_t microbatch, uint32_t stage);

/* malloc and free. */
extern const ovl_memory_t pair_heap;

#endif
