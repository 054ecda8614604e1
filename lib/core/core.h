/* SPDX-License-Identifier: MIT */
/* The scheduler core: events in, operations that may start out. No threads, no clock, no libuv in it;
 * time enters as numbers that the driver chooses. One driver at a time calls it (the executor under its
 * lock); every function below is such a call and leaves the whole state consistent, but for ovl_core_show_as().
 *
 *   driver says                                   core does
 *   begin(n)                                      admits what the window allows
 *   submit(item), finish()                        streaming: queues, admits
 *   take(lane) -> op                              the next op of that lane starts
 *   end(op, status)                               dependents become ready, microbatches end, retire; admits
 *   fail(op, status), cancel()                    skips what shall not run any more
 *   next_fault(), next_ended() -> slot, retire()  only where faults and ends are to be reported
 *
 *   op:    IDLE -> WAITING -> READY -> RUNNING -> DONE     (skipped: WAITING or READY -> DONE)
 *   slot:  FREE -> ACTIVE -> ENDED -> FREE                 (ENDED only where a report is owed)
 */
#ifndef OVL_CORE_CORE_H
#define OVL_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory.h"
#include "core/tally.h"
#include "core/trace.h"
#include "ovl/pipeline.h"
#include "plan/plan.h"

typedef enum ovl_op_state {
  OVL_OP_IDLE,    /* no microbatch yet */
  OVL_OP_WAITING, /* for what it depends on */
  OVL_OP_READY,   /* in its lane's list */
  OVL_OP_RUNNING, /* taken and not ended */
  OVL_OP_DONE     /* ended or skipped */
} ovl_op_state_t;

/* Laid out by lines: what callbacks read, what each step writes, what few ops need. Who starts an op writes the first, and
 * calls it; the core, which may be told of it on another processor, does without, but for a trace. */
typedef struct ovl_core_op {
  /* What callbacks get is this struct, so it is the first. The only part that is written without the lock of a driver that
   * has one: by who begins an op that the core is told of later (ovl_core_show_as). */
  _Alignas(OVL_LINE) ovl_op_t pub;

  _Alignas(OVL_LINE) struct ovl_core_op *next; /* its lane's ready list, or the list of ops to skip */
  struct ovl_core_op *prev;                    /* its lane's ready list */
  union {
    uint64_t instant; /* when it became ready, see ovl_core_t.instant */
    uint64_t delay;   /* once it has started: how long it was ready before */
  };
  uint64_t bound; /* v of the recurrence in ovl/stats.h: until it starts, the max over what it waits for */
  union {
    uint64_t ready_at; /* time */
    uint64_t started;  /* once it has */
  };
  uint32_t stage, lane; /* indexes */
  uint32_t slot;        /* the core's; pub.slot is the user's, see ovl_plan_t.slots */
  uint32_t waits;       /* dependencies that have not ended */
  uint32_t place;       /* which of the lane's `width` places it runs in */
  uint8_t state;        /* ovl_op_state_t */

  /* the driver's; the core does not look at them */
  uint8_t busy;
  uint8_t flags;
  int result, native;

  uint64_t deadline;
  uint64_t left; /* the last of those that are done with it was done then; see OVL_OP_LEFT */
  struct ovl_core_op *watched_prev, *watched_next;
  uint32_t thread; /* that called it; set if there is a trace */

  /* the core's again, for the trace */
  int failed; /* what it failed with before it ended */
} ovl_core_op_t;

typedef enum ovl_slot_state { OVL_SLOT_FREE, OVL_SLOT_ACTIVE, OVL_SLOT_ENDED } ovl_slot_state_t;

/* The error of a microbatch, or of a run. */
typedef struct ovl_fault {
  int status; /* 0: none */
  int native;
  uint32_t stage; /* index, or OVL_NO_STAGE */
  uint64_t microbatch;
} ovl_fault_t;

#define OVL_NO_STAGE UINT32_MAX

typedef struct ovl_core_slot {
  _Alignas(OVL_LINE) uint64_t microbatch;
  void *item;
  uint64_t bound; /* the largest v of its ops; kept after it retired, for the next one in the slot */
  ovl_fault_t fault;
  uint32_t left;      /* ops not DONE */
  uint32_t unstarted; /* ops WAITING or READY */
  uint8_t state;      /* ovl_slot_state_t */
  bool tell;          /* its fault is to be told before it retires */
  struct ovl_core_slot *next_ended, *next_tell;
} ovl_core_slot_t;

/* An op by its numbers. */
typedef struct ovl_op_ref {
  uint64_t microbatch;
  uint32_t stage;
} ovl_op_ref_t;

struct ovl_core;

/* Where the order of fixed lanes comes from. `next` gives the op that follows on the lane, false after the
 * last one; it is called once for each op, as a rule when the one before it has started. */
typedef struct ovl_order_source {
  bool (*next)(void *context, struct ovl_core *core, uint32_t lane, ovl_op_ref_t *ref);
  void *context;
  const bool *loose; /* by lane: not 0 for a fixed lane that this run orders by readiness; NULL: none */
} ovl_order_source_t;

/* What each step writes comes first. */
typedef struct ovl_core_lane {
  _Alignas(OVL_LINE) ovl_core_op_t *head; /* ready ops: first ready first, ties by microbatch, then stage */
  ovl_core_op_t *tail;
  uint32_t ready;
  uint32_t startable;  /* its part of ovl_core_t.startable */
  uint32_t free_count; /* places not taken */
  uint32_t unstarted;  /* ops of admitted microbatches WAITING or READY */
  uint64_t since;      /* its idle time is accounted for up to then */
  uint64_t busy;       /* statistics */
  uint64_t one_bound;  /* place_bound of a lane of width 1 */
  bool held;           /* the driver lets nothing start on it */
  bool fixed;          /* keeps no list: head is the op whose turn it is, once that is ready */
  bool exhausted;      /* no op has a turn any more */
  bool reached;        /* an op was ready */

  uint32_t peak;
  uint32_t one_free;     /* free of a lane of width 1 */
  uint32_t *free;        /* places not taken, as a stack */
  uint64_t *place_bound; /* by place: v of the op that ran there last */
  ovl_op_ref_t turn;     /* whose turn it is */
  uint64_t microbatch;   /* of the order microbatch by microbatch: where it stands */
  uint32_t place_in_microbatch;

  /* what only a lane that idles writes */
  _Alignas(OVL_LINE) uint64_t idle[OVL_IDLE_REASONS];
  uint64_t
      attributed; /* of its idle time for dependencies: what is in ovl_tally_t.awaited, or was for no stage */
} ovl_core_lane_t;

/* Items submitted and not yet admitted: a ring. */
typedef struct ovl_core_item {
  void *item;
  uint64_t arrived;
} ovl_core_item_t;

typedef struct ovl_core_options {
  uint32_t queue;  /* items held beyond the window */
  bool keep_going; /* OVL_ON_ERROR_CONTINUE */
  bool report;     /* ended microbatches wait for retire() */
  bool tell;       /* a failed microbatch waits for next_fault() */
  bool statistics;
  size_t trace; /* records of ops to keep */
} ovl_core_options_t;

typedef struct ovl_core {
  const ovl_plan_t *plan;
  const ovl_graph_t *graph; /* the mode's */
  ovl_memory_t memory;
  ovl_core_options_t options;
  ovl_order_source_t order;
  ovl_core_op_t *ops; /* [slot][stage] */
  ovl_core_slot_t *slots;
  ovl_core_lane_t *lanes;
  ovl_core_item_t *items;
  uint64_t *more_lane_bits[2]; /* lane_bits of the lanes from 64 on */
  uint32_t lane_words;
  uint32_t item_capacity, item_first, item_count;

  /* Orders the ready lists: ops that became ready in the same instant are ordered by number. The driver
   * raises it between events that are not at the same time. */
  _Alignas(OVL_LINE) uint64_t instant;
  uint64_t now;     /* the latest time seen: times given to the core may be slightly out of order */
  uint64_t started; /* time of begin() */

  uint64_t count;            /* of the run, or OVL_STREAMING */
  uint64_t next;             /* the microbatch to be admitted next */
  uint32_t next_slot;        /* its slot */
  uint32_t in_flight;        /* slots not FREE */
  uint32_t running;          /* ops */
  uint64_t moves;            /* starts and ends of ops */
  bool active;               /* between begin() and the end of the run */
  bool finished;             /* no more submits */
  bool stopped;              /* nothing more is admitted or started, `always` stages apart */
  ovl_idle_reason_t to_come; /* why a lane without ops is idle: window, input or tail */
  ovl_fault_t first;         /* the run's first error */
  uint32_t faults; /* how often something failed or was cancelled: lets the driver see that it did */

  uint32_t startable[2]; /* by ovl_lane_kind_t: ops that could start now */
  uint64_t lane_bits[2]; /* by kind: of the first 64 lanes, those that have one */
  ovl_core_op_t *skip_head, *skip_tail;
  ovl_core_slot_t *ended_head, *ended_tail; /* to be reported, in the order in which they ended */
  ovl_core_slot_t *tell_head, *tell_tail;   /* faults to be told */
  bool tell_cancel;                         /* a cancel is to be told, after */
  ovl_core_slot_t *cancel_after;            /*   this one of them; NULL: before all */

  ovl_tally_t tally;
  ovl_trace_ring_t trace;
} ovl_core_t;

/* 0, OVL_ENOMEM or OVL_ETOOBIG. The plan must outlive the core. */
int ovl_core_init(ovl_core_t *core, const ovl_plan_t *plan, const ovl_core_options_t *options,
                  const ovl_memory_t *memory);
void ovl_core_finish(ovl_core_t *core);

/* Gives every op what its callbacks see: the pipeline, and its stage's data. */
void ovl_core_bind(ovl_core_t *core, ovl_pipeline_t *pipeline, void *(*data_of)(const void *, uint32_t stage),
                   const void *context);

/* Where the next runs take the order of fixed lanes from; all 0: microbatch by microbatch. Serial runs have
 * an order of their own. */
void ovl_core_set_order(ovl_core_t *core, const ovl_order_source_t *order);

/* The order microbatch by microbatch, for sources that use it for some lanes. */
bool ovl_core_next_in_microbatch(ovl_core_t *core, uint32_t lane, ovl_op_ref_t *ref);

/* Starts a run of `count` microbatches, or OVL_STREAMING. */
void ovl_core_begin(ovl_core_t *core, ovl_mode_t mode, uint64_t count, uint64_t now);

/* Streaming, also before begin: 0, or OVL_EAGAIN when window + queue items are held. */
int ovl_core_submit(ovl_core_t *core, void *item, uint64_t now);
bool ovl_core_has_room(const ovl_core_t *core);
void ovl_core_finish_items(ovl_core_t *core, uint64_t now);

/* The next op of the lane, which must have one that may start; it runs from `now` on. */
ovl_core_op_t *ovl_core_take(ovl_core_t *core, uint32_t lane, uint64_t now);

/* The same with an op that is ready, wherever it stands in the list of a lane in ready order: the driver may have seen it
 * become ready before another. What its callback sees has been set up. */
void ovl_core_take_shown(ovl_core_t *core, ovl_core_op_t *op, uint64_t now);

/* A lane of that kind with an op that may start: `preferred` if it is one, else the lowest numbered;
 * OVL_NO_LANE if there is none. */
uint32_t ovl_core_pick_lane(const ovl_core_t *core, ovl_lane_kind_t kind, uint32_t preferred);
#define OVL_NO_LANE UINT32_MAX

/* Holds a lane back, or lets it go on. */
void ovl_core_hold_lane(ovl_core_t *core, uint32_t lane, bool held);

/* It is later, and nothing else has happened. */
void ovl_core_advance(ovl_core_t *core, uint64_t now);

/* A running op ended. */
void ovl_core_end(ovl_core_t *core, ovl_core_op_t *op, int status, int native, uint64_t now);

/* Keeps a record of an op that the core had no times of; they are as the driver's clock has them. For runs with a trace. */
static inline void ovl_core_keep_record(ovl_core_t *core, const ovl_trace_record_t *record) {
  *ovl_trace_ring_next(&core->trace) = *record;
}

/* A running op failed, but goes on running (it outlived its deadline). */
void ovl_core_fail(ovl_core_t *core, ovl_core_op_t *op, int status, int native, uint64_t now);

/* Ends the run as a first error does. */
void ovl_core_cancel(ovl_core_t *core, uint64_t now);

/* Reports: the microbatch that ended first of those not yet reported, or NULL; and its retirement. */
ovl_core_slot_t *ovl_core_next_ended(ovl_core_t *core);
void ovl_core_retire(ovl_core_t *core, ovl_core_slot_t *slot, uint64_t now);

/* The next fault to be told, before reports: true and *fault, or false. */
bool ovl_core_next_fault(ovl_core_t *core, ovl_fault_t *fault, uint64_t now);

/* After a run: takes an item that was never admitted. Its number is *microbatch. */
bool ovl_core_drop_item(ovl_core_t *core, void **item, uint64_t *microbatch);

/* Ends the run; what is submitted from now on belongs to the next one. */
void ovl_core_leave(ovl_core_t *core);

/* Everything that was admitted has retired and nothing more will be: the run is over. Items that were
 * never admitted, and faults, may still have to be reported. */
bool ovl_core_over(const ovl_core_t *core);

/* How many ops of pool lanes may still run at one time, those that run now among them; UINT64_MAX: more may come. */
uint64_t ovl_core_places_left(const ovl_core_t *core);

/* Of two times, or bounds. */
static inline uint64_t ovl_core_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline uint32_t ovl_core_slot_of(const ovl_core_t *core, const ovl_core_slot_t *slot) {
  return (uint32_t)(slot - core->slots);
}

static inline ovl_core_slot_t *ovl_core_op_slot(const ovl_core_t *core, const ovl_core_op_t *op) {
  return &core->slots[op->slot];
}

/* The admitted one. */
static inline uint64_t ovl_core_op_microbatch(const ovl_core_t *core, const ovl_core_op_t *op) {
  return ovl_core_op_slot(core, op)->microbatch;
}

/* Sets up what the op's callback sees, as it starts and by who starts it: the line stays in the cache of whoever calls that
 * stage. The microbatch may not have been admitted yet, but what was in its row before has retired. */
static inline void ovl_core_show_as(const ovl_core_t *core, ovl_core_op_t *op, uint64_t microbatch,
                                    void *item, int status) {
  op->pub.microbatch = microbatch;
  if (core->plan->slots != core->plan->rows)
    op->pub.slot = (uint32_t)(microbatch % core->plan->slots);
  op->pub.item = item;
  op->pub.status = status;
}

/* The same, for an op that has been admitted. */
static inline void ovl_core_show(const ovl_core_t *core, ovl_core_op_t *op) {
  const ovl_core_slot_t *slot = ovl_core_op_slot(core, op);
  ovl_core_show_as(core, op, slot->microbatch, slot->item, slot->fault.status);
}

/* The op of that stage in the microbatch's row: the microbatch's own, or one that is there before or after it. */
static inline ovl_core_op_t *ovl_core_op_at(const ovl_core_t *core, uint64_t microbatch, uint32_t stage) {
  return &core->ops[(size_t)(microbatch % core->plan->rows) * core->plan->stage_count + stage];
}

/* The op that `op` waits for along the edge; NULL: it has ended, or there is none. */
static inline const ovl_core_op_t *ovl_core_open_source(const ovl_core_t *core, const ovl_core_op_t *op,
                                                        ovl_edge_t edge) {
  uint64_t of = ovl_core_op_microbatch(core, op);
  if (edge.distance > of)
    return NULL;
  const ovl_core_op_t *source = ovl_core_op_at(core, of - edge.distance, edge.stage);
  bool is_it = ovl_core_op_microbatch(core, source) == of - edge.distance;
  return is_it && source->state != OVL_OP_DONE ? source : NULL;
}

/* The word that says which lanes of the kind can start something: 64 at a time. */
static inline uint64_t *ovl_core_lane_word(const ovl_core_t *core, ovl_lane_kind_t kind, uint32_t word) {
  return word == 0 ? (uint64_t *)(uintptr_t)&core->lane_bits[kind] : &core->more_lane_bits[kind][word - 1];
}

static inline uint32_t ovl_core_running(const ovl_core_t *core, uint32_t lane) {
  return core->plan->lanes[lane].width - core->lanes[lane].free_count;
}

static inline uint64_t ovl_core_lane_ops(const ovl_core_t *core, uint32_t lane) {
  uint64_t ops = 0;
  for (uint32_t i = core->plan->lane_first[lane]; i < core->plan->lane_first[lane + 1]; i++)
    ops += core->tally.stages[core->plan->lane_stages[i]].ops;
  return ops;
}

/* From what a callback was given. */
static inline ovl_core_op_t *ovl_core_op_of(ovl_op_t *op) { return (ovl_core_op_t *)(void *)op; }

/* Walks the whole state: NULL, or what is wrong with it. Not for production: it takes its time. */
const char *ovl_core_check(const ovl_core_t *core);

#endif
