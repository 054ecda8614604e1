/* SPDX-License-Identifier: MIT */
/* What must be true of a run, worked out from the guarantees alone: it is told the same events as the core, keeps
 * every microbatch of the run in a table, and finds anew after each event what follows from them, by looking at
 * everything until nothing changes. It shares no code with the core. */
#ifndef OVL_TESTS_MODEL_H
#define OVL_TESTS_MODEL_H

#include "random/shape.h"

enum { MODEL_MICROBATCHES = 64 };

typedef enum model_state {
  MODEL_ABSENT,  /* its microbatch is not admitted */
  MODEL_WAITING, /* for what it depends on */
  MODEL_READY,
  MODEL_RUNNING,
  MODEL_RAN,
  MODEL_SKIPPED
} model_state_t;

typedef struct model_op {
  model_state_t state;
  uint64_t ready_at; /* instant */
  uint64_t started;  /* time */
  uint64_t bound;    /* v of the recurrence in ovl/stats.h */
  uint32_t place;
} model_op_t;

typedef struct model_microbatch {
  bool admitted, ended, retired;
  int status; /* the first error in it, OVL_ECANCELED when the run was stopped over it; 0: none */
  bool owes_fault;
  void *item;
  uint64_t arrived, bound;
  model_op_t ops[SHAPE_STAGES];
} model_microbatch_t;

/* The order of a fixed lane: every op of it once. NULL: microbatch by microbatch. */
typedef struct model_turns {
  const ovl_op_ref_t *refs;
  uint64_t count;
} model_turns_t;

typedef struct model {
  const shape_t *shape;
  ovl_mode_t mode;
  uint64_t count; /* or OVL_STREAMING */
  bool active, stopped, finished;
  uint64_t instant, started, now, bound;
  model_microbatch_t microbatches[MODEL_MICROBATCHES];
  uint32_t admitted;
  uint32_t dropped; /* items given back after the run, numbered on from those admitted */
  uint64_t place_bound[SHAPE_LANES][MODEL_MICROBATCHES];
  bool held[SHAPE_LANES];
  bool fixed[SHAPE_LANES];
  bool reached[SHAPE_LANES]; /* an op was ready */
  uint64_t idle[SHAPE_LANES][OVL_IDLE_REASONS];
  model_turns_t turns[SHAPE_LANES]; /* of the next runs */

  void *items[MODEL_MICROBATCHES]; /* submitted, not admitted */
  uint64_t arrivals[MODEL_MICROBATCHES];
  uint32_t item_count;

  ovl_fault_t first;
  ovl_fault_t owed[MODEL_MICROBATCHES + 1]; /* faults, and a cancel, that have to be told, the oldest first */
  uint32_t owed_count;

  uint64_t ops, skipped, retired, failed;
  uint64_t stage_ops[SHAPE_STAGES], stage_failed[SHAPE_STAGES], stage_skipped[SHAPE_STAGES];

  const char *wrong; /* the first thing that was wrong; NULL: none so far */
} model_t;

void model_init(model_t *model, const shape_t *shape);

/* ---- events; `now` is the time that the core was told -------------------------------------------------------- */

void model_begin(model_t *model, ovl_mode_t mode, uint64_t count, uint64_t now);
void model_submitted(model_t *model, int result, void *item, uint64_t now);
void model_finished(model_t *model, uint64_t now);
void model_taken(model_t *model, const ovl_core_op_t *op, uint64_t now);
void model_ended(model_t *model, ovl_op_ref_t op, int status, int native, uint64_t now);
void model_failed(model_t *model, ovl_op_ref_t op, int status, uint64_t now);
void model_cancelled(model_t *model, uint64_t now);
void model_told(model_t *model, const ovl_fault_t *fault, uint64_t now);
void model_reported(model_t *model, const ovl_core_slot_t *slot);
void model_retired(model_t *model, uint64_t microbatch, uint64_t now);
void model_dropped(model_t *model, uint64_t microbatch, void *item); /* after the run */
void model_left(model_t *model);

/* ---- questions ------------------------------------------------------------------------------------------------ */

bool model_is_over(const model_t *model);
bool model_has_way_on(const model_t *model);
uint32_t model_startable(const model_t *model, uint32_t lane);
uint32_t model_in_flight(const model_t *model);

/* The op that is to start next on the lane; false: none can. */
bool model_next(const model_t *model, uint32_t lane, ovl_op_ref_t *next);

/* Holds the core's whole state against the model's (compare.c), and when a run has ended, what it counted. */
void model_compare(model_t *model, const ovl_core_t *core);

/* Starts an op as model_taken does, unchecked. */
void model_start(model_t *model, ovl_op_ref_t ref, uint32_t place, uint64_t now);

/* ---- between the model's own files ----------------------------------------------------------------------------- */

void model_advance(model_t *model, uint64_t now);
void model_idle(model_t *model, uint64_t passed); /* so much time passes, and nothing changes */
void model_settle(model_t *model);                /* works out what follows, until nothing does */
void model_stop(model_t *model);
void model_op_failed(model_t *model, ovl_op_ref_t op, int status, int native);
void model_retire(model_t *model, model_microbatch_t *m);
void *model_pop_item(model_t *model, uint64_t *arrived);
uint32_t model_count(const model_t *model, uint32_t lane, model_state_t state);
static inline uint32_t model_lane_of(const model_t *model, uint32_t stage) {
  return model->shape->stages[stage].lane;
}

/* Notes what is wrong unless something was wrong before. */
void model_require(model_t *model, bool condition, const char *text);

#endif
