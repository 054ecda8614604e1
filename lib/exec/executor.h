/* SPDX-License-Identifier: MIT */
/* The executor's state: the core under its lock, the crew of pool threads that serve it, and the loop that
 * does what only a loop may do.
 *
 * Who does what:
 *   runner (pool thread)  takes startable ops of pool lanes, runs them, reports to the core itself
 *   loop thread           loop lanes, reports to the user, cancel hooks, deadlines, calling runners, the end
 *   any thread            ovl_op_complete, submit, finish, cancel: report to the core, wake whom it concerns
 *
 * Everything below is protected by `lock` unless said otherwise; of the core all but what ops that were begun ahead show
 * their callbacks. uv_async_send is called with the lock held and drain() takes the lock before it looks, so no wake-up is
 * lost (libuv 1.44 may skip a send on a relaxed load). No lock is held while a callback runs. */
#ifndef OVL_EXEC_EXECUTOR_H
#define OVL_EXEC_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/core.h"
#include "exec/ahead.h"
#include "exec/clock.h"
#include "exec/crowd.h"
#include "exec/lock.h"
#include "exec/spread.h"

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
  OVL_OP_EXPIRED = 4,   /* outlived its deadline; how it ends no longer matters */
  OVL_OP_LEFT = 8       /* of those in `busy` somebody is done with it, the last of them at `left` */
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
  _Alignas(OVL_LINE) uv_work_t work; /* first: libuv gives this back */
  struct ovl_executor *executor;

  /* Its thread alone uses these. */
  ovl_spot_t spot;
  uint64_t spotted; /* it looked then on which processor it is */
  uint64_t look_ns; /* how long it computes until it looks around; 0: at once */
  uint64_t stop_at; /* it goes ahead until then at most */
  bool looked_at;   /* the op is, see crowd.h */
  uint32_t looks;   /* around, so far */
  ovl_trip_t trip;

  _Alignas(OVL_LINE) ovl_runner_state_t state;
  struct ovl_runner *next_parked;
  uint32_t lane;     /* of its last op */
  uint32_t thread;   /* ovl_thread_number of its thread */
  uint64_t since;    /* its turn began */
  uint64_t leave_at; /* its relief is queued: it leaves at the first op boundary after this; 0: no relief */
  bool asked;        /* wants the loop to queue a relief */
  struct ovl_runner *relief_of; /* whom it is to relieve, until it has a thread */
  uint64_t called_back;         /* queued then, soon after another had left with nothing to do; 0: not so */
  uint64_t calling;             /* its op started then; 0: it has none */

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
  atomic_uint working; /* of them; may be read without the lock */
  uint32_t leaving;    /* runners with leave_at set: their reliefs count in their stead */
  uint32_t owed;       /* threads that runners gave up for their reliefs, and no runner has got since */
  uint32_t asking;     /* runners that asked for a relief since the loop last looked */
  uint32_t on_thread, peak;
  uint64_t turn_ns;       /* how long a runner's turn may last */
  bool turns_grew;        /* in this run: the pool has threads to spare */
  uint64_t asked_at;      /* the last time that one asked for a relief */
  uint64_t park_ns;       /* how long one with nothing to do keeps its thread */
  uint64_t left_idle;     /* one with nothing to do gave its thread back then; 0: none since the last call */
  ovl_runner_t *parked;   /* the last to go to sleep first */
  bool dismissed;         /* the run is over: all leave */
  bool short_handed;      /* ready work found no runner: the loop is to call some */
  bool two_worked;        /* two runners had ops at one time */
  bool pairs;             /* one more is called at the start */
  uint64_t first_spin_ns; /* how long it looks for its first op, while none has ended; 0: as long as ever */
  uint64_t waiting_since; /* ready pool work that no runner is free for, since then; 0: none */
  uint64_t wait_ns;
  ovl_crowd_t crowd;
} ovl_crew_t;

/* A lane's side in the executor. */
typedef struct ovl_exec_lane {
  uint32_t calls;       /* callbacks on their way */
  uint32_t outstanding; /* ops that returned OVL_PENDING and have not ended */
  bool launches; /* its last callback returned OVL_PENDING: they only begin something; kept between runs */
  bool polled;   /* has a poll hook: calls and progress are counted */
  bool attended; /* a runner, or the loop, polls it or pauses between two polls */
  uint64_t progress;    /* completions, to see whether a poll brought any */
  uint64_t pause;       /* to the next poll */
  uint64_t next_poll;   /* time */
  uint64_t quiet_since; /* time of the last progress */
} ovl_exec_lane_t;

/* What the user gave for a stage, and for a lane; owned by the pipeline, constant during a run. */
typedef struct ovl_stage_hooks {
  ovl_op_cb run;
  ovl_op_cb cancel;
  void *data;
  uint64_t timeout_ns;
} ovl_stage_hooks_t;

#define OVL_DEFAULT_POLL_NS UINT64_C(50000)
#define OVL_DEVICE_POLL_NS UINT64_C(250000) /* events of devices, which are asked for and not told */

typedef struct ovl_lane_hooks {
  ovl_poll_cb poll;
  ovl_abort_cb abort;
  void *data;
  uint64_t poll_max_ns;
} ovl_lane_hooks_t;

/* What the user gave for the pipeline, and what the pipeline wants to hear. */
typedef struct ovl_run_hooks {
  ovl_microbatch_cb on_microbatch;
  ovl_room_cb on_room;
  void (*on_fault)(ovl_pipeline_t *pipeline, const ovl_fault_t *fault);
  void (*on_over)(ovl_pipeline_t *pipeline); /* after `done`, where a close was asked for */
  void (*on_stall)(ovl_pipeline_t *pipeline);
} ovl_run_hooks_t;

typedef enum ovl_exec_phase {
  OVL_EXEC_IDLE,    /* no run */
  OVL_EXEC_RUNNING, /* from start on */
  OVL_EXEC_CLOSING  /* the run is over, handles and runners are being collected; then `done` */
} ovl_exec_phase_t;

enum { OVL_EXEC_HANDLES = 4 }; /* and one more, where stalls are to be reported */

typedef struct ovl_executor {
  /* Given before a run or at its start, and from then on only read, also without the lock. */
  _Alignas(OVL_LINE) const ovl_stage_hooks_t *stage_hooks;
  const ovl_lane_hooks_t *lane_hooks;
  ovl_pipeline_t *pipeline; /* what callbacks are given; not looked into */
  ovl_clock_t clock;
  uint64_t spin_ns;
  bool spins_by_default;
  uint64_t shortest_timeout; /* of all stages; 0: none has one */
  uint64_t stall_ns;         /* nothing has moved for so long: a stall; 0: nobody wants to know */
  ovl_exec_lane_t *lanes;
  uint32_t *poll_lanes; /* lanes with a poll hook */
  uint32_t poll_lane_count;
  ovl_ahead_lane_t *ahead;         /* the lanes of a chain that can go ahead */
  ovl_ahead_stage_t *ahead_stages; /* by stage */
  uint32_t ahead_count;            /* of lanes; 0: it cannot */
  uint32_t ahead_used;             /* of them, have stages */
  ovl_run_hooks_t hooks;
  ovl_memory_t memory;
  uv_loop_t *loop;
  ovl_pipeline_cb done;
  int *status_out; /* loop thread: where a blocking run wants its status */

  /* What is looked at whenever something changes. */
  _Alignas(OVL_LINE) ovl_lock_t lock;
  ovl_exec_phase_t phase;
  bool close_wanted;    /* the pipeline is to be closed after the run */
  bool room_wanted;     /* a submit was refused: on_room is owed */
  bool wake_sent;       /* the loop will drain */
  bool draining;        /* the loop is draining: it looks again before it leaves */
  uint32_t faults_seen; /* of core.faults */
  uint32_t hooks_owed;
  bool aborted;           /* abort hooks have been called for, which happens once in a run */
  uint32_t abort_next;    /* the first lane that is still owed its abort hook; past the last: none is */
  uint64_t called;        /* the last call of a runner or the loop that none of them has followed; 0: none */
  uint32_t launch_lanes;  /* how many lanes launch */
  ovl_core_op_t *watched; /* ops in flight with a cancel hook or a deadline */
  ovl_core_t core;
  ovl_crew_t crew;
  uint64_t elapsed;  /* of the last run */
  double correction; /* for all of its times, see ovl_clock_correction */
  uint64_t
      *serial_means; /* by stage: how long its ops took on average in the last serial run; 0: no such run */
  uint64_t loop_longest; /* callback on a loop lane */

  uv_async_t async; /* loop thread, but for uv_async_send; as all that follows */
  uv_timer_t deadline_timer;
  uv_timer_t poll_timer;
  uv_idle_t poll_idle;
  uv_timer_t stall_timer;
  uint64_t moves;    /* starts and ends of ops that the stall timer has seen */
  uint64_t moved_at; /* and when the last of them was */
  bool stall_told;   /* since then */
  uint32_t open_handles;
  bool collecting; /* handles are being closed */

  uint64_t ahead_known; /* of ovl_ahead_ended, what the core knows */

  /* Written under the lock, read without it: up to which microbatch ops may begin; on how many lanes somebody goes ahead. */
  _Alignas(OVL_LINE) atomic_uint_least64_t ahead_allowed;
  atomic_uint ahead_open;

  /* Too, but seldom: of those who go ahead the one that tells the core what has been noted; NULL: none does. */
  _Alignas(OVL_LINE) _Atomic(const ovl_trip_t *) keeper;

  /* Not 0 when a spinning runner should look: read without the lock. */
  _Alignas(OVL_LINE) atomic_uint hint;
} ovl_executor_t;

/* ---- executor.c: a run's start and end; requests ------------------------------------------------------- */

typedef struct ovl_executor_options {
  ovl_pipeline_t *pipeline;
  const ovl_stage_hooks_t *stages;
  const ovl_lane_hooks_t *lanes;
  ovl_run_hooks_t hooks;
  ovl_core_options_t core;
  uint64_t spin_ns;
  uint64_t stall_ns;
  const ovl_memory_t *memory;
} ovl_executor_options_t;

/* Sets up *x, which may then be given to install(). 0, OVL_ENOMEM, OVL_ETOOBIG. The plan must outlive it. */
int ovl_executor_init(ovl_executor_t *x, const ovl_plan_t *plan, const ovl_executor_options_t *options);
void ovl_executor_finish(ovl_executor_t *x);

/* Moves all but lock and phase from `fresh`, which is then nobody's. Lock held. */
void ovl_executor_install(ovl_executor_t *x, const ovl_executor_t *fresh);

/* Loop thread. 0, OVL_EBUSY, OVL_EITEMS, or what uv_async_init returns. status_out may be NULL. */
int ovl_exec_launch(ovl_executor_t *x, uv_loop_t *loop, ovl_mode_t mode, uint64_t microbatches,
                    const ovl_order_source_t *order, ovl_pipeline_cb done, int *status_out);

/* What launch would refuse it with: 0, OVL_EBUSY or OVL_EITEMS. */
int ovl_exec_may_launch(ovl_executor_t *x, uint64_t microbatches);

bool ovl_exec_in_flight(ovl_executor_t *x); /* any thread, as all below */
int ovl_exec_submit(ovl_executor_t *x, void *item);
int ovl_exec_finish_items(ovl_executor_t *x);
int ovl_exec_cancel(ovl_executor_t *x);

/* Marks the executor as to be closed and cancels its run. True: one is in flight; on_over will follow it. */
bool ovl_exec_close(ovl_executor_t *x);

/* Gives back all items that were never admitted; no run in flight. */
void ovl_exec_drop_items(ovl_executor_t *x);

void ovl_exec_begin_close(ovl_executor_t *x); /* loop thread, lock held: the run is complete */
void ovl_exec_collect(ovl_executor_t *x); /* loop thread: collects handles and runners; with the last, done */

/* ---- ops.c: starting and ending ops; with the lock held unless said otherwise -------------------------- */
ovl_core_op_t *ovl_exec_start_next(ovl_executor_t *x, uint32_t lane, uint32_t thread, uint64_t now);
/* It is ready, and what its callback sees has been set up. */
void ovl_exec_start_shown(ovl_executor_t *x, ovl_core_op_t *op, uint32_t thread, uint64_t now);

int ovl_exec_call_op(const ovl_executor_t *x, ovl_core_op_t *op); /* without the lock */
void ovl_exec_call_returned(ovl_executor_t *x, ovl_core_op_t *op, int result, uint64_t now);
/* Somebody of `busy` is done with it, at a time that may be some while ago. True: it was the last, and the op has ended. */
bool ovl_exec_done_with(ovl_executor_t *x, ovl_core_op_t *op, uint8_t by, uint64_t at);
int ovl_exec_complete_op(ovl_executor_t *x, ovl_core_op_t *op, int status); /* any thread, without the lock */
void ovl_exec_expire(ovl_executor_t *x, uint64_t now);
uint64_t ovl_exec_next_deadline(const ovl_executor_t *x, uint64_t now);
void ovl_exec_count_deadline(const ovl_executor_t *x, ovl_core_op_t *op,
                             uint64_t from); /* UINT64_MAX: not yet */
ovl_core_op_t *ovl_exec_next_hook(ovl_executor_t *x);

/* Takes the lock, and catches up with who has gone ahead. They are all that a reader changes of a const executor. */
void ovl_exec_lock(const ovl_executor_t *x);
void ovl_exec_unlock(const ovl_executor_t *x);

/* After anything has changed: calls runners, wakes the loop. `self`: a runner that will take one op itself. */
void ovl_exec_follow_up(ovl_executor_t *x, bool self);

/* Tells the core what was noted by who goes ahead, and follows up. */
void ovl_exec_catch_up(ovl_executor_t *x, bool self);

/* ---- crew.c, runner.c: runners -------------------------------------------------------------------------------------- */
int ovl_crew_init(ovl_crew_t *crew, uint32_t size, const ovl_memory_t *memory);
void ovl_crew_finish(ovl_crew_t *crew, const ovl_memory_t *memory);
void ovl_crew_reset(ovl_crew_t *crew, bool may_pair); /* the run has use for two, if the last one had */
void ovl_crew_summon(ovl_executor_t *x, bool self);
void ovl_crew_queue(ovl_executor_t *x);   /* loop thread: queues the runners that are missing, and reliefs */
void ovl_crew_dismiss(ovl_executor_t *x); /* all are to leave */
void ovl_crew_recall(ovl_executor_t *x);  /* loop thread, without the lock: takes queued ones back */
bool ovl_crew_is_gone(const ovl_crew_t *crew);
bool ovl_crew_may_call(const ovl_crew_t *crew,
                       uint64_t now); /* somebody who does not look for work by himself */

/* ---- ahead.c: going ahead; with the lock held unless said otherwise ---------------------------------------- */

/* How many rows of ops the plan needs for it; the window: the pipeline is none that can go ahead. */
uint32_t ovl_ahead_rows(const ovl_description_t *d, const ovl_stage_hooks_t *stages,
                        const ovl_lane_hooks_t *lanes);
int ovl_ahead_init(ovl_executor_t *x);
void ovl_ahead_finish(ovl_executor_t *x);
void ovl_ahead_begin(ovl_executor_t *x); /* a run begins */

/* The runner has begun the op under the lock: if it may, it goes ahead from there. */
void ovl_ahead_go(ovl_executor_t *x, ovl_runner_t *r, const ovl_core_op_t *op);

/* Who goes ahead, without the lock. pass: its op ended `now`; true: that is noted, and *next has begun, or is NULL
 * where it has to wait; false: it has been called back, and is to report the op. find: begins the next op of
 * a vacant lane, its last one first; NULL: there is none yet. */
bool ovl_ahead_pass(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now, ovl_core_op_t **next);
ovl_core_op_t *ovl_ahead_find(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now);
bool ovl_ahead_may_wait(const ovl_executor_t *x, const ovl_trip_t *t); /* there is nothing better to do */
bool ovl_ahead_has_to_keep(const ovl_executor_t *x, const ovl_trip_t *t,
                           uint64_t waited); /* the core has to be told first */

static inline bool ovl_ahead_is_keeper(const ovl_executor_t *x, const ovl_trip_t *t) {
  return atomic_load_explicit(&x->keeper, memory_order_relaxed) == t;
}

bool ovl_ahead_catch_up(ovl_executor_t *x);        /* true: something had happened */
uint64_t ovl_ahead_ended(const ovl_executor_t *x); /* without the lock: not ahead_known if something has */
void ovl_ahead_keep(ovl_executor_t *x, ovl_runner_t *r); /* as the keeper: catches up, and follows up */
void ovl_ahead_call_back(ovl_executor_t *x);             /* all; catches up */
void ovl_ahead_heed(ovl_executor_t *x);                  /* calls back if ends concern others by now */
void ovl_ahead_stop(ovl_executor_t *x, ovl_runner_t *r); /* it is back */
void ovl_ahead_leave_vacant(ovl_executor_t *x); /* lanes that nobody has taken are not open any more */
bool ovl_ahead_takes_long(const ovl_executor_t *x, uint64_t now, uint64_t brief); /* an op on an open lane */

/* The core has been told. */
void ovl_ahead_note_begin(ovl_executor_t *x, const ovl_core_op_t *op);
void ovl_ahead_note_end(ovl_executor_t *x, const ovl_core_op_t *op, uint64_t now);

/* ---- poll.c: lanes with a poll hook ------------------------------------------------------------------------- */
uint32_t ovl_poll_unattended(const ovl_executor_t *x); /* pool lanes that want a runner */
uint32_t ovl_poll_claim(ovl_executor_t *x, ovl_lane_kind_t kind, uint64_t now, bool due_only);
void ovl_poll_lane(ovl_executor_t *x, uint32_t lane); /* polls a claimed lane; drops the lock meanwhile */

/* ---- loop.c: what the loop does ------------------------------------------------------------------------------ */
int ovl_loop_open(ovl_executor_t *x, uv_loop_t *loop); /* makes the handles */
void ovl_loop_close(ovl_executor_t *x);
void ovl_loop_wake(ovl_executor_t *x); /* lock held */
bool ovl_loop_has_work(const ovl_executor_t *x);
bool ovl_loop_drop_item(ovl_executor_t *x); /* gives back an item that was never admitted; false: none left */

#endif
