/* SPDX-License-Identifier: MIT */
/* A pipeline under observation. Every callback writes an event into a log, in the order in which they happen,
 * and after each run the log is held against what always holds (probe_check.c): every op at most once and after
 * the one before it, lanes and windows kept, one report for each microbatch, hooks at most once, one `done`,
 * every callback on the thread where it belongs.
 *
 * How an op is carried out is its stage's `way`; what it ends with is options.outcome's to say; what else is
 * to happen, at which event and on which thread, is options.on_event's.
 *
 * A test that uses it lists probe.c, probe_check.c, probe_wait.c and quarantine.c among its sources. */
#ifndef OVL_TESTS_PROBE_H
#define OVL_TESTS_PROBE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <uv.h>

#include "ovl.h"
#include "support/quarantine.h"

enum { PROBE_STAGES = 6, PROBE_MICROBATCHES = 64, PROBE_EVENTS = 2048, PROBE_OPS = 256 };

/* How the ops of a stage are carried out. Those marked P return OVL_PENDING. */
typedef enum probe_way {
  PROBE_POOL,         /* on the pool, ends in its callback */
  PROBE_LOOP,         /* on the loop, ends in its callback */
  PROBE_POOL_FOREIGN, /* P on the pool; a thread of the probe's completes it */
  PROBE_LOOP_FOREIGN, /* P on the loop; likewise */
  PROBE_POOL_POLLED,  /* P on the pool; its lane's poll hook completes it */
  PROBE_LOOP_POLLED,  /* P on the loop; likewise */
  PROBE_POOL_HELD,    /* P on the pool; kept until the test takes it with probe_take() and completes it */
  PROBE_LOOP_HELD,    /* P on the loop; likewise */
  PROBE_POOL_GATED    /* on the pool, its callback blocks until probe_open_gate() */
} probe_way_t;

typedef enum probe_event_type {
  PROBE_STARTS, /* an op's callback was entered */
  PROBE_ENDS,   /* an op is about to end with `status` */
  PROBE_HOOK,   /* an op's cancel hook */
  PROBE_MICROBATCH,
  PROBE_FAILURE,
  PROBE_ROOM,
  PROBE_DONE,
  PROBE_CLOSED
} probe_event_type_t;

#define PROBE_NONE UINT32_MAX

typedef struct probe_event {
  probe_event_type_t type;
  uint32_t number; /* in the log */
  uint32_t stage;  /* counts from 0; PROBE_NONE where there is none */
  uint64_t microbatch;
  int status;   /* PROBE_STARTS: op->status */
  bool on_loop; /* on the loop's thread */
  void *item;
  ovl_failure_t failure; /* of PROBE_FAILURE */
} probe_event_t;

typedef struct probe_stage {
  probe_way_t way;
  uint32_t shares; /* the lane of this stage, counted from 1; 0: it has a lane of its own */
  uint32_t width;  /* of a lane of its own */
  bool unchained, always, no_hook;
  uint64_t timeout_ns;
} probe_stage_t;

/* An op that fails, unless options.outcome is set. */
typedef struct probe_fault {
  int status; /* 0: none does */
  uint32_t stage;
  uint64_t microbatch;
} probe_fault_t;

typedef struct probe probe_t;

typedef struct probe_options {
  probe_stage_t stages[PROBE_STAGES];
  uint32_t stage_count;
  uint32_t window, queue;
  ovl_mode_t mode;
  ovl_on_error_t on_error;
  bool no_on_microbatch, no_on_failure;
  uv_loop_t *loop; /* NULL: one of the probe's own */
  int (*outcome)(probe_t *probe, const ovl_op_t *op);
  void (*on_event)(probe_t *probe, const probe_event_t *event); /* on the event's thread; no lock is held */
  void *data;
} probe_options_t;

typedef struct probe_ops {
  ovl_op_t *ops[PROBE_OPS];
  uint32_t count;
} probe_ops_t;

/* What a stage's callbacks get as op->data. */
typedef struct probe_place {
  probe_t *probe;
  uint32_t stage;
  probe_ops_t polled; /* probe->mutex */
} probe_place_t;

struct probe {
  probe_options_t options; /* on_event and data may be changed between runs */
  probe_fault_t fault;     /* may be changed between runs */
  ovl_pipeline_t *pipeline;
  ovl_lane_t lanes[PROBE_STAGES]; /* by stage */
  ovl_stage_t stages[PROBE_STAGES];
  uv_loop_t *loop, own_loop;
  uv_thread_t loop_thread;
  quarantine_t quarantine;
  probe_place_t places[PROBE_STAGES];
  uint64_t count;    /* of the last run */
  uint64_t accepted; /* items, for the last run or the next */
  bool blocking;     /* the last run had no `done` */
  uint32_t handles;  /* in the loop, when the run was started */
  bool left_over;    /* `done` found more than that, or (own loop) found it alive */

  uv_thread_t carrier;
  bool has_carrier;

  uv_mutex_t mutex; /* protects all below */
  uv_cond_t changed;
  probe_event_t events[PROBE_EVENTS];
  uint32_t event_count;
  uint32_t counts[PROBE_CLOSED + 1]; /* of events, by type */
  probe_ops_t carried, held;
  bool gate_open, carrier_stops;
};

/* A pipeline as described, on a heap of its own. Never fails: it aborts. */
probe_t *probe_open(const probe_options_t *options);

/* ovl_pipeline_close, with a callback that writes PROBE_CLOSED. probe->pipeline is NULL from that event on. */
void probe_close_pipeline(probe_t *probe);

/* Closes the pipeline unless it has been closed, and asserts that it was closed once, that all memory came
 * back untouched, and that uv_loop_close() gives 0. */
void probe_close(probe_t *probe);

/* Starts a run of `count` microbatches, or OVL_STREAMING, with a new log; asserts that nothing called back. */
void probe_start(probe_t *probe, uint64_t count);

/* Turns the loop until nothing is left, asserts one `done` and what always holds; the run's status. */
int probe_finish(probe_t *probe);

int probe_run(probe_t *probe, uint64_t count); /* both */

/* The same with ovl_pipeline_run. */
int probe_run_blocking(probe_t *probe, uint64_t count);

/* A submit that is to be accepted. */
void probe_submit(probe_t *probe, void *item);

/* Asserts that a run of so many microbatches was complete: status 0, every op and report once. */
void probe_assert_complete(probe_t *probe, int status, uint64_t count);

/* Turns the loop until the log has so many events of the type; or this one. */
void probe_turn_until(probe_t *probe, probe_event_type_t type, uint32_t count);
void probe_turn_until_seen(probe_t *probe, probe_event_type_t type, uint32_t stage, uint64_t microbatch);

/* Turns it a few times more, to show that nothing happens; the run stays in flight. */
void probe_turn_in_vain(probe_t *probe);

/* Waits for them without turning the loop. */
void probe_wait_for(probe_t *probe, probe_event_type_t type, uint32_t count);

/* Wait, likewise, until the run has met that error, its first; until so many ops have ended. (An op that is completed
 * may be seen to end a little later, when its callback has returned.) */
void probe_await_error(probe_t *probe, int status);
void probe_await_ops(probe_t *probe, uint64_t ops);

/* The held op of that stage and microbatch, which must be there, or is waited for; the loop does not turn. */
ovl_op_t *probe_take(probe_t *probe, uint32_t stage, uint64_t microbatch);
uint32_t probe_held(probe_t *probe);

/* Ops that were to be held, and are from now on completed at once or find the gate open. */
void probe_open_gate(probe_t *probe);

/* Writes the event PROBE_ENDS and completes the op. */
int probe_complete(probe_t *probe, ovl_op_t *op, int status);

/* Events of the log: the first two at any time, on any thread; the others after a run. */
uint32_t probe_count(probe_t *probe, probe_event_type_t type);
bool probe_has(probe_t *probe, probe_event_type_t type, uint32_t stage, uint64_t microbatch);
const probe_event_t *probe_find(const probe_t *probe, probe_event_type_t type, uint32_t stage,
                                uint64_t microbatch);
const probe_event_t *probe_nth(const probe_t *probe, probe_event_type_t type, uint32_t nth);

/* probe_check.c: what always holds, of the last run. */
void probe_check(const probe_t *probe, int status);

/* For the threads of which cmocka knows nothing: says why, and aborts. */
_Noreturn void probe_die(const char *text);

#endif
