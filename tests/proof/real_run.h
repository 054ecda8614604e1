/* SPDX-License-Identifier: MIT */
/* A random pipeline on the real executor: described, run, and what happened written into a log that all threads
 * share. An entry that says that something starts is written after it has, and one that says that something ends
 * before it does, so whatever the log shows in a wrong order, happened so. */
#ifndef OVL_TESTS_REAL_RUN_H
#define OVL_TESTS_REAL_RUN_H

#include <stdatomic.h>
#include <uv.h>

#include "ovl.h"
#include "support/foreign.h"
#include "support/random.h"

enum { REAL_LANES = 4, REAL_STAGES = 5, REAL_MICROBATCHES = 32, REAL_DEPENDENCIES = 5, REAL_EVENTS = 2048 };

/* How an op is carried out. */
typedef enum real_manner {
  REAL_INLINE,  /* in the callback, at once or after some microseconds */
  REAL_EARLY,   /* the callback completes it, then returns OVL_PENDING */
  REAL_FOREIGN, /* a thread that is nobody's completes it */
  REAL_POLLED,  /* its lane's poll hook does */
  REAL_NOTHING, /* there is no callback */
  REAL_MANNERS
} real_manner_t;

typedef enum real_cancel { REAL_NO_CANCEL, REAL_CANCEL_FROM_OP, REAL_CANCEL_FROM_THREAD } real_cancel_t;

typedef struct real_lane {
  ovl_lane_kind_t kind;
  uint32_t width;
  bool fixed, polled;
} real_lane_t;

typedef struct real_stage {
  uint32_t lane;
  real_manner_t manner;
  bool unchained, always, hook;
  uint64_t timeout_ns, cost_ns;
} real_stage_t;

typedef struct real_dependency {
  uint32_t before, after, distance;
} real_dependency_t;

typedef struct real_shape {
  real_lane_t lanes[REAL_LANES];
  real_stage_t stages[REAL_STAGES];
  real_dependency_t dependencies[REAL_DEPENDENCIES];
  uint32_t lane_count, stage_count, dependency_count, window, queue;
  ovl_mode_t mode;
  ovl_on_error_t on_error;
  bool reports, tells, rooms, no_stats, traced;
  uint64_t spin_ns;
} real_shape_t;

/* How one run of it goes. */
typedef struct real_plan {
  uint32_t count; /* microbatches, or items */
  bool streaming, blocking;
  bool dawdles;     /* ops take their time */
  bool gives;       /* fixed lanes are given an order: one in which a run without them could go */
  uint32_t trouble; /* per thousand of ops that fail */
  real_cancel_t cancel;
  uint32_t cancel_at; /* op by its number, or microseconds */
  uint64_t seed;      /* of what ops do */
} real_plan_t;

typedef enum real_event_kind {
  REAL_STARTS,
  REAL_ENDS,
  REAL_HOOK,
  REAL_MICROBATCH, /* written when on_microbatch is about to return */
  REAL_FAILURE,
  REAL_CANCELLED, /* a cancel returned 0 */
  REAL_DONE
} real_event_kind_t;

typedef struct real_event {
  real_event_kind_t kind;
  uint64_t written; /* by uv_hrtime */
  uint32_t stage;
  uint64_t microbatch;
  int status; /* of the op as it starts, or as it ends, of the microbatch, the failure, the run */
  void *item;
} real_event_t;

typedef struct real_run {
  real_shape_t shape;
  real_plan_t plan;
  ovl_pipeline_t *pipeline;
  foreign_t foreign;
  uv_loop_t loop;
  uv_thread_t producer, canceller;
  bool has_producer, has_canceller;

  real_event_t events[REAL_EVENTS];
  atomic_uint event_count;

  uv_mutex_t mutex; /* protects all below */
  uv_cond_t changed;
  ovl_op_t *polled[REAL_LANES][REAL_MICROBATCHES * REAL_STAGES];
  uint32_t polled_count[REAL_LANES];
  bool over, room;
  uint32_t accepted; /* items */

  /* Of fixed lanes: the order in which they must start their ops. */
  uint32_t order[REAL_LANES][REAL_MICROBATCHES * REAL_STAGES]; /* microbatch * REAL_STAGES + stage */
  uint32_t order_count[REAL_LANES];

  int status; /* of the run */
  ovl_failure_t failure;
  ovl_stats_t stats;
  ovl_trace_record_t records[REAL_MICROBATCHES * REAL_STAGES];
  uint32_t record_count;
  bool goes_ahead; /* the core may be told late of starts, whose records are of when it was told then */
} real_run_t;

/* real_shape.c */
void real_shape_random(real_shape_t *shape, random_source_t *random);
void real_plan_random(real_plan_t *plan, const real_shape_t *shape, random_source_t *random);

/* The pipeline of run->shape; run->plan is for the next run of it. */
void real_open(real_run_t *run);
void real_close(real_run_t *run);
void real_play(real_run_t *run);

/* real_check.c: holds the log against the guarantees; what is wrong fails the test. After a streaming run the pipeline
 * is to be closed first: items that were submitted after its end are given back then. */
void real_check(const real_run_t *run);

/* What an op is to end with. */
int real_outcome(const real_run_t *run, uint64_t microbatch, uint32_t stage);

#endif
