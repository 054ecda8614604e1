/* SPDX-License-Identifier: MIT */
/* The executor's state: the core under its lock, the crew of pool threads that serve it, and the loop that
 * does what only a loop may do.
 *
 * Who does what:
 *   runner (pool thread)  takes startable ops of pool lanes, runs them, reports to the core itself
 *   loop thread           loop lanes, reports to the user, cancel hooks, deadlines, calling runners, the end
 *   any thread            ovl_op_complete, submit, finish, cancel: report to the core, wake whom it concerns
 *
 * Everything below is protected by `lock` unless said otherwise. uv_async_send is called with the lock held
 * and drain() takes the lock before it looks, so no wake-up is lost (libuv 1.44 may skip a send on a relaxed
 * load). No lock is held while a callback runs. */
#ifndef OVL_EXEC_EXECUTOR_H
#define OVL_EXEC_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/core.h"
#include "exec/clock.h"
#include "exec/lock.h"

/* ovl_core_op_t.busy: an op ends when none is left. */
enum {
  OVL_BUSY_CALL = 1,    /* its callback has not returned */
  OVL_BUSY_PENDING = 2, /* nobody has said how it ended */
  OVL_BUSY_HOOK = 4     /* its cancel hook has not returned */
};

/* ovl_core_op_t.flags */
enum {
  OVL_OP_HOOK_OWED = 1, /* the loop is to call its cancel hook */
  OVL_OP_HOOKED = 2,    /* has been called */
  OVL_OP_EXPIRED = 4    /* outlived its deadline; how it ends no longer matters */
};

typedef enum ovl_runner_state {
  OVL_RUNNER_FREE,     /* not in libuv's hands */
  OVL_RUNNER_QUEUED,   /* waits for a pool thread */
  OVL_RUNNER_WORKING,  /* has a thread and looks for ops, or runs one */
  OVL_RUNNER_SPINNING, /* has a thread and found nothing: watches ovl_executor_t.hint */
  OVL_RUNNER_PARKED,   /* has a thread and sleeps */
  OVL_RUNNER_WOKEN,    /* was called out of its sleep */
  OVL_RUNNER_LEFT      /* gave its thread back; the loop has not heard yet */
} ovl_runner_state_t;

typedef struct ovl_runner {
  uv_work_t work;
  ovl_pipeline_t *pipeline;
  ovl_runner_state_t state;
  struct ovl_runner *next_parked;
  uint32_t lane;     /* of its last op */
  uint64_t since;    /* its turn began */
  uint64_t leave_at; /* its relief is queued: it leaves at the first op boundary after this; 0: no relief */
  bool asked;        /* wants the loop to queue a relief */
  struct ovl_runner *relief_of; /* whom it is to relieve, until it has a thread */

  /* Sleeping; its own mutex, taken with or without the lock. */
  uv_mutex_t mutex;
  uv_cond_t cond;
  bool called;
} ovl_runner_t;

typedef struct ovl_crew {
  ovl_runner_t *runners;
  uint32_t count;  /* of runners: twice `size`, so that each can be relieved */
  uint32_t inited; /* whose mutex and cond are set up */
  uint32_t size;   /* ops of pool lanes that can run at once */
  uint32_t by_state[OVL_RUNNER_LEFT + 1];
  uint32_t leaving; /* runners with leave_at set: their reliefs count in their stead */
  uint32_t asking;  /* runners that asked for a relief since the loop last looked */
  uint32_t on_thread, peak;
  ovl_runner_t *parked;   /* the last to go to sleep first */
  bool dismissed;         /* the run is over: all leave */
  bool short_handed;      /* ready work found no runner: the loop is to call some */
  uint64_t waiting_since; /* ready pool work that no runner is free for, since then; 0: none */
  uint64_t wait_ns;
} ovl_crew_t;

/* A lane's side in the executor. */
typedef struct ovl_exec_lane {
  uint32_t calls;       /* callbacks on their way */
  uint32_t outstanding; /* ops that returned OVL_PENDING and have not ended */
  bool attended;        /* a runner, or the loop, polls it or pauses between two polls */
  uint64_t progress;    /* completions, to see whether a poll brought any */
  uint64_t pause;       /* to the next poll */
  uint64_t next_poll;   /* time */
  uint64_t quiet_since; /* time of the last progress */
} ovl_exec_lane_t;

typedef enum ovl_exec_phase {
  OVL_EXEC_IDLE,    /* no run */
  OVL_EXEC_RUNNING, /* from start on */
  OVL_EXEC_CLOSING  /* the run is over, handles and runners are being collected; then `done` */
} ovl_exec_phase_t;

enum { OVL_EXEC_HANDLES = 4 };

typedef struct ovl_executor {
  ovl_lock_t lock;
  ovl_exec_phase_t phase;
  bool close_wanted; /* ovl_pipeline_close was called */
  ovl_close_cb closed;
  ovl_pipeline_cb done;
  int *status_out; /* loop thread: where a blocking run wants its status */
  uv_loop_t *loop;
  ovl_clock_t clock;

  uv_async_t async; /* loop thread, but for uv_async_send */
  uv_timer_t deadline_timer;
  uv_timer_t poll_timer;
  uv_idle_t poll_idle;
  uint32_t open_handles; /* loop thread */
  bool collecting;       /* loop thread: handles are being closed */
  bool wake_sent;        /* the loop will drain */
  bool draining;         /* the loop is draining: it looks again before it leaves */

  ovl_core_t core;
  uint32_t faults_seen;  /* of core.faults */
  bool room_wanted;      /* a submit was refused: on_room is owed */
  uint64_t elapsed;      /* of the last run */
  uint64_t loop_longest; /* callback on a loop lane */

  ovl_core_op_t *watched; /* ops in flight with a cancel hook or a deadline */
  uint32_t hooks_owed;
  uint64_t shortest_timeout; /* of all stages; 0: none has one */

  ovl_exec_lane_t *lanes;
  uint32_t *poll_lanes; /* lanes with a poll hook */
  uint32_t poll_lane_count;
  uint64_t spin_ns;
  ovl_crew_t crew;

  /* Not 0 when a spinning runner should look: read without the lock, so kept off the lines above. (Padding,
   * since a user's allocator gives no more than malloc's alignment.) */
  char apart[64];
  atomic_uint hint;
} ovl_executor_t;

/* exit() has begun: runners leave after the op in hand, for libuv is about to join its threads. */
bool ovl_process_exits(void);

/* True inside a callback of libovl on this thread. */
bool ovl_in_callback(void);

/* Brackets code that calls back: returns what leave() wants. */
bool ovl_callback_enter(void);
void ovl_callback_leave(bool before);

/* ---- executor.c: a run's start and end -------------------------------------------------------------- */
int ovl_executor_init(ovl_pipeline_t *p, ovl_executor_t *fresh, const ovl_plan_t *plan);
void ovl_executor_install(ovl_executor_t *x,
                          const ovl_executor_t *fresh); /* lock held: takes over what init made */
void ovl_executor_finish(ovl_executor_t *x, const ovl_memory_t *memory);
void ovl_executor_begin_close(ovl_pipeline_t *p); /* loop thread, lock held: the run is complete */
void ovl_executor_collect(
    ovl_pipeline_t *p); /* loop thread: collects handles and runners; with the last, done */

/* ---- ops.c: starting and ending ops; all with the lock held ------------------------------------------ */
ovl_core_op_t *ovl_exec_start_op(ovl_pipeline_t *p, uint32_t lane, uint64_t now);
int ovl_exec_call_op(const ovl_pipeline_t *p, ovl_core_op_t *op); /* without the lock */
void ovl_exec_call_returned(ovl_pipeline_t *p, ovl_core_op_t *op, int result, uint64_t now);
void ovl_exec_end_op(ovl_pipeline_t *p, ovl_core_op_t *op, uint64_t now);
void ovl_exec_expire(ovl_pipeline_t *p, uint64_t now);
uint64_t ovl_exec_next_deadline(const ovl_pipeline_t *p, uint64_t now);
ovl_core_op_t *ovl_exec_next_hook(ovl_pipeline_t *p);

/* After anything has changed: calls runners, wakes the loop. `self` a runner that will take one op itself. */
void ovl_exec_follow_up(ovl_pipeline_t *p, bool self);

/* ---- crew.c: runners ---------------------------------------------------------------------------------- */
int ovl_crew_init(ovl_pipeline_t *p, ovl_crew_t *crew, uint32_t size);
void ovl_crew_finish(ovl_crew_t *crew, const ovl_memory_t *memory);
void ovl_crew_reset(ovl_crew_t *crew);
void ovl_crew_summon(ovl_pipeline_t *p, bool self);
void ovl_crew_queue(ovl_pipeline_t *p);   /* loop thread: queues the runners that are missing, and reliefs */
void ovl_crew_dismiss(ovl_pipeline_t *p); /* all are to leave */
void ovl_crew_recall(ovl_pipeline_t *p);  /* loop thread, without the lock: takes queued ones back */
bool ovl_crew_is_gone(const ovl_crew_t *crew);

/* ---- poll.c: lanes with a poll hook -------------------------------------------------------------------- */
uint32_t ovl_poll_unattended(const ovl_pipeline_t *p); /* pool lanes that want a runner */
uint32_t ovl_poll_claim(ovl_pipeline_t *p, ovl_lane_kind_t kind, uint64_t now, bool due_only);
void ovl_poll_lane(ovl_pipeline_t *p, uint32_t lane); /* polls a claimed lane; drops the lock meanwhile */

/* ---- loop.c: what the loop does ------------------------------------------------------------------------ */
int ovl_loop_open(ovl_pipeline_t *p, uv_loop_t *loop); /* makes the handles */
void ovl_loop_close(ovl_pipeline_t *p);
void ovl_loop_wake(ovl_pipeline_t *p); /* lock held */
bool ovl_loop_has_work(const ovl_pipeline_t *p);
bool ovl_exec_drop_item(ovl_pipeline_t *p); /* gives an item back that was never admitted; false: none left */
void ovl_exec_first_failure(const ovl_pipeline_t *p, ovl_failure_t *failure);

#endif
