/* SPDX-License-Identifier: MIT */
/* What a run must do, to the last op: which ops are ready, which of them starts next on each lane, what is skipped,
 * who retires and is admitted. Worked out from the guarantees by looking at everything until nothing changes, for
 * lanes of either order. Small and flat, so that it can be copied at every step of a search. Shares no code with
 * the core. */
#ifndef OVL_TESTS_SPEC_H
#define OVL_TESTS_SPEC_H

#include "core/core.h"

enum {
  SPEC_LANES = 4,
  SPEC_STAGES = 6,
  SPEC_MICROBATCHES = 48,
  SPEC_OPS = SPEC_MICROBATCHES * SPEC_STAGES,
  SPEC_SOURCES = 16 /* that one stage waits for */
};

typedef struct spec_op {
  uint8_t microbatch, stage;
} spec_op_t;

typedef struct spec_order {
  spec_op_t ops[SPEC_OPS];
  uint32_t count;
} spec_order_t;

/* What is run, and how. Constant. */
typedef struct spec_run {
  uint32_t lane_count, stage_count, window, count;
  uint32_t width[SPEC_LANES];
  uint8_t lane[SPEC_STAGES];
  bool always[SPEC_STAGES];
  bool keep_going, report, tell;
  ovl_edge_t sources[SPEC_STAGES][SPEC_SOURCES];
  uint32_t source_count[SPEC_STAGES];
  uint8_t sequence[SPEC_STAGES]; /* all stages, each after those that it waits for, the lowest first */
  uint32_t sequence_count;       /* fewer than the stages: there is a cycle */
  bool fixed[SPEC_LANES];
  const spec_order_t *orders[SPEC_LANES]; /* of fixed lanes */
} spec_run_t;

typedef enum spec_state {
  SPEC_ABSENT, /* its microbatch is not admitted */
  SPEC_WAITING,
  SPEC_FRESH, /* became ready by the event in hand */
  SPEC_READY,
  SPEC_RUNNING,
  SPEC_RAN,
  SPEC_SKIPPED
} spec_state_t;

typedef enum spec_fate { SPEC_FINE, SPEC_FAILED, SPEC_STOPPED } spec_fate_t;

typedef struct spec_microbatch {
  uint8_t ops[SPEC_STAGES]; /* spec_state_t */
  uint8_t fate;             /* spec_fate_t */
  bool ended, retired, owes_fault;
} spec_microbatch_t;

typedef struct spec {
  spec_microbatch_t microbatches[SPEC_MICROBATCHES];
  spec_op_t ready[SPEC_OPS]; /* first ready first, ties by microbatch, then stage */
  uint32_t ready_count;
  uint32_t admitted, oldest; /* all below `oldest` have retired */
  uint32_t running[SPEC_LANES];
  uint32_t position[SPEC_LANES]; /* of fixed lanes: what stands before it has had its turn */
  bool stopped;
  uint32_t ops, skipped, retired, failed;
} spec_t;

/* The window must not be 0, and everything must be within the limits above. In a serial run no lane is fixed; else
 * `orders` has one for each fixed lane, made with spec_order_by_microbatch or otherwise. */
void spec_run_init(spec_run_t *run, const ovl_description_t *description, ovl_mode_t mode, uint32_t count,
                   const ovl_core_options_t *options, const spec_order_t *orders);
void spec_order_by_microbatch(const spec_run_t *run, uint32_t lane, spec_order_t *order);

/* ---- events, each in an instant of its own ---------------------------------------------------------------------- */

void spec_begin(spec_t *spec, const spec_run_t *run);

/* The op that is to start next on the lane; false: none may. */
bool spec_next(const spec_t *spec, const spec_run_t *run, uint32_t lane, spec_op_t *op);
uint32_t spec_startable(const spec_t *spec, const spec_run_t *run, uint32_t lane);

void spec_taken(spec_t *spec, const spec_run_t *run, spec_op_t op);
void spec_ended(spec_t *spec, const spec_run_t *run, spec_op_t op, bool failed);
void spec_expired(spec_t *spec, const spec_run_t *run, spec_op_t op); /* failed, and runs on */
void spec_cancelled(spec_t *spec, const spec_run_t *run);
void spec_told(spec_t *spec, const spec_run_t *run, uint32_t microbatch); /* its fault */
void spec_retired(spec_t *spec, const spec_run_t *run, uint32_t microbatch);

/* ---- questions ---------------------------------------------------------------------------------------------------- */

bool spec_is_over(const spec_t *spec, const spec_run_t *run);

/* NULL, or what a run that is over has left undone. */
const char *spec_left_undone(const spec_t *spec, const spec_run_t *run);

/* NULL, or where the core differs. */
const char *spec_compare(const spec_t *spec, const spec_run_t *run, const ovl_core_t *core);

#endif
