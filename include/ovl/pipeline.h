/* SPDX-License-Identifier: MIT */
/* Describe a pipeline, run it, end it.
 *
 *   call                                                     from
 *   create, add_*, set_*, close of an idle pipeline          any thread, one at a time
 *   start, close with a run in flight                        the loop's thread
 *   run                                                      any thread, not inside a callback of libovl
 *   submit, finish, cancel, failure, stats, ovl_op_complete  any thread, before close
 *
 * Every function that returns int returns 0 or a negative code of ovl/errors.h, and a call that
 * fails has no effect and never calls back. After a refused description, ovl_pipeline_error() says
 * why in words. NULL for a pipeline is OVL_EINVAL unless said otherwise.
 *
 * Struct arguments start with `size`, which the _init function sets. All other fields 0 means the
 * defaults. A shorter struct of an older header is accepted; size 0 or above 4096, and
 * non-zero bytes beyond what this library knows, are refused with OVL_ESTRUCTSIZE. */
#ifndef OVL_PIPELINE_H
#define OVL_PIPELINE_H

#include <string.h>

#include "ovl/errors.h"
#include "ovl/types.h"

struct uv_loop_s;
struct ovl_device;

OVL_BEGIN_DECLS

/* For ovl_pipeline_run and ovl_pipeline_start: the number of microbatches is not known beforehand;
 * each ovl_pipeline_submit brings one, and ovl_pipeline_finish says that there are no more. */
#define OVL_STREAMING UINT64_MAX

/* ovl_failure_t.microbatch when no microbatch is to blame: the run was cancelled. */
#define OVL_NO_MICROBATCH UINT64_MAX

/* OVL_OVERLAP starts whatever the dependencies allow. OVL_SERIAL runs the same ops one after
 * another, microbatch by microbatch: the baseline to compare with. */
typedef enum ovl_mode { OVL_OVERLAP = 0, OVL_SERIAL = 1 } ovl_mode_t;

/* After the first error STOP starts no further op (but those of stages marked `always`), awaits the
 * ops in flight and ends the run with that error. CONTINUE skips the rest of the failed microbatch
 * alone, goes on, and reports the first error when all is done. */
typedef enum ovl_on_error { OVL_ON_ERROR_STOP = 0, OVL_ON_ERROR_CONTINUE = 1 } ovl_on_error_t;

/* Where a lane's callbacks run. */
typedef enum ovl_lane_kind {
  OVL_LANE_POOL = 0,  /* on libuv's thread pool; they may block */
  OVL_LANE_LOOP = 1,  /* on the loop's thread; they must not block */
  OVL_LANE_DEVICE = 2 /* on the thread that issues; they put work on the lane's stream, see ovl/device.h */
} ovl_lane_kind_t;

/* In which order a lane starts its ops.
 * READY: first ready first, ties by microbatch, then stage.
 * FIXED: the same in every run and on every rank, whatever the durations are, for lanes whose ops other
 *   processes must issue in the same order (collectives). Needs width 1. In a counted run it is the order given
 *   by ovl_pipeline_set_order, or else the one in which the simulator starts the ops on the cost hints alone; in
 *   a streaming run it is microbatch by microbatch. An op that is skipped keeps its place, and `always` stages
 *   run in theirs. OVL_SERIAL has an order of its own: microbatch by microbatch. */
typedef enum ovl_order { OVL_ORDER_READY = 0, OVL_ORDER_FIXED = 1 } ovl_order_t;

/* What a lane does, for ovl_stats_t.hidden_ns and exposed_ns. */
typedef enum ovl_role { OVL_ROLE_OTHER = 0, OVL_ROLE_COMPUTE = 1, OVL_ROLE_COMM = 2 } ovl_role_t;

/* The first error of a run. */
typedef struct ovl_failure {
  size_t size;
  int status;             /* the error; 0 when there was none */
  int native;             /* OVL_EBADRESULT: the positive code that the callback returned; else 0 */
  ovl_stage_t stage;      /* id 0: the run was cancelled */
  ovl_lane_t lane;        /* id 0: the run was cancelled */
  uint64_t microbatch;    /* OVL_NO_MICROBATCH: the run was cancelled */
  const char *stage_name; /* "" when the run was cancelled; valid until close */
  const char *lane_name;
} ovl_failure_t;

/* All callbacks below run on the loop's thread (that of ovl_pipeline_run for a blocking run), without
 * any lock held. They may call every function of this header on any pipeline, close included, except
 * ovl_pipeline_run. */
typedef void (*ovl_pipeline_cb)(ovl_pipeline_t *p, int status);
typedef void (*ovl_close_cb)(ovl_pipeline_t *p);
typedef void (*ovl_microbatch_cb)(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status);
typedef void (*ovl_room_cb)(ovl_pipeline_t *p);
typedef void (*ovl_failure_cb)(ovl_pipeline_t *p, const ovl_failure_t *failure);
typedef void (*ovl_stall_cb)(ovl_pipeline_t *p, const char *text);

/* A lane's poll hook: makes the lane's outstanding requests progress and calls ovl_op_complete() for
 * those that are done. Called while ops of the lane that returned OVL_PENDING are outstanding: on a
 * pool thread for a pool lane, on the loop's thread for a loop lane, never at the same time as a
 * `run` or another poll of the same lane. */
typedef void (*ovl_poll_cb)(ovl_pipeline_t *p, ovl_lane_t lane, void *data);

/* A lane's abort hook: the run has been stopped, by an error (with OVL_ON_ERROR_STOP), a cancel or a deadline, and other
 * processes may wait for ops of this lane that will never be issued: ends that (ncclCommAbort, MPI_Abort). Called once in
 * such a run, on the loop's thread, perhaps while callbacks of the lane are on their way; it must not block. */
typedef void (*ovl_abort_cb)(ovl_pipeline_t *p, ovl_lane_t lane, void *data);

/* A stage's cost hint: nanoseconds that this op is expected to take. Of op only pipeline, microbatch, slot, stage,
 * lane and data are set. Must depend on these alone, or the orders that are planned from it differ. */
typedef uint64_t (*ovl_cost_cb)(const ovl_op_t *op);

/* Where the library's memory comes from. Both functions are required; they may be called from any thread that makes a
 * call of this library. While a run is under way only calls that write a trace (ovl/trace.h) make use of them.
 * `allocate` returns memory aligned as malloc's, or NULL. `release` is never given NULL. */
typedef struct ovl_allocator {
  size_t size;
  void *(*allocate)(void *context, size_t bytes);
  void (*release)(void *context, void *memory);
  void *context;
} ovl_allocator_t;

/* What is known of how long ops take on device lanes: see ovl_stats_t. */
typedef enum ovl_device_timing {
  OVL_DEVICE_TIMING_OFF = 0, /* nothing */
  OVL_DEVICE_TIMING_ALL = 1  /* of every op of a run; the devices need `elapsed` */
} ovl_device_timing_t;

typedef struct ovl_pipeline_options {
  size_t size;
  ovl_op_cb compute;       /* with comm: makes the pipeline of two stages, "compute" and "comm", on two */
  ovl_op_cb comm;          /*   pool lanes of the same names. Neither: add lanes and stages yourself.   */
                           /*   Only one of them is refused with OVL_ECALLBACK.                         */
  void *data;              /* ovl_pipeline_data(); also op->data of those two stages */
  uint32_t window;         /* microbatches in flight; 0: twice the number of lanes, at least 1 */
  ovl_mode_t mode;         /* 0: OVL_OVERLAP */
  ovl_on_error_t on_error; /* 0: OVL_ON_ERROR_STOP */
  uint32_t queue;          /* streaming: submits held beyond the window; 0: as many as the window */
  uint64_t spin_ns;        /* how long an idle pool thread looks for work before it sleeps;
                              0: 50 us, or not at all on a machine with one processor; 1: practically never.
                              With 0 a thread that has had no op yet spins until the first op of the run has
                              ended, if in the run before ops of the first stage took 2 ms on average or
                              less, and for 1.5 times as long at most */
  int no_stats;            /* not 0: keep only counts and elapsed time */
  const ovl_allocator_t *allocator; /* NULL: malloc and free; copied, but for the context */
  ovl_microbatch_cb on_microbatch;  /* a microbatch ended, or an accepted item was never admitted
                                       (OVL_ECANCELED); its slot is free once this has returned */
  ovl_room_cb on_room;       /* after a submit was refused with OVL_EAGAIN: once, when one would succeed */
  ovl_failure_cb on_failure; /* at once on the first error, cancel or deadline; with
                                OVL_ON_ERROR_CONTINUE once for each microbatch that fails. The run's
                                ops in flight may not have ended yet. */
  /* Device lanes: how many microbatches may be issued and not known to be done; 0: twice the window. At least the window,
   * and the window alone where on_microbatch is set, for it may look at the slot. */
  uint32_t issue_ahead;
  /* Device lanes: how long after the run has been stopped work that is not done is waited for; 0: until it is. After that its
   * ops end with OVL_ETIMEDOUT, so that the run ends, but what the device still does with the slots is not known: the
   * pipeline is poisoned, can only be closed, and does not destroy its events. */
  uint64_t abandon_ns;
  size_t trace; /* keep records of the last so many ops, see ovl/trace.h; 0: of none */
  /* A stall: no op has started or ended for so long while a microbatch was in flight; 0: none is reported. Seen by a timer
   * of the loop, so in whole milliseconds, rounded up. More than the longest op takes, or that is reported too. */
  uint64_t stall_ns;
  /* Once for each stall, with what ovl_pipeline_dump would write; `text` is valid until it returns. Required with stall_ns.
   * The run goes on; it may be cancelled here. */
  ovl_stall_cb on_stall;
  /* Device lanes: whether runs measure how long their ops take on the device, by two events around each, which the host asks for.
   * It costs something on the device, and some time of the host. Not for ovl_pipeline_enqueue. */
  ovl_device_timing_t device_timing;
} ovl_pipeline_options_t;

typedef struct ovl_lane_options {
  size_t size;
  const char *name;     /* copied; NULL: "lane N" by its id */
  ovl_role_t role;      /* 0: OVL_ROLE_OTHER */
  uint32_t width;       /* ops at a time; 0: 1 */
  ovl_lane_kind_t kind; /* 0: OVL_LANE_POOL */
  ovl_order_t order;    /* 0: OVL_ORDER_READY */
  void *data;           /* for poll and abort */
  ovl_poll_cb poll;     /* NULL: ops of this lane complete without help */
  uint64_t poll_max_ns; /* the longest pause between two polls; 0: 50 us. The pause starts short after
                           progress and grows; above 50 us it is no more than an eighth of what has been waited. libuv's timers count milliseconds, so on a loop lane
                           pauses above spin_ns are at least 1 ms. */
  const struct ovl_device *device; /* required for kind DEVICE, and for no other; must live until close */
  void *
      stream; /* of that device. NULL: each ovl_pipeline_enqueue brings one. A device lane is always of fixed order,
                   so of width 1; it has no poll */
  ovl_abort_cb abort; /* NULL: nobody waits for this lane */
} ovl_lane_options_t;

typedef struct ovl_stage_options {
  size_t size;
  const char *name;    /* copied; NULL: "stage N" by its id */
  ovl_lane_t lane;     /* required */
  ovl_op_cb run;       /* NULL: nothing to do, its ops complete as they start */
  ovl_op_cb cancel;    /* called once for an op in flight when its microbatch or the run fails, is
                          cancelled or outlives a deadline, on the loop's thread, perhaps while `run` is
                          still on its way; result ignored. The op is awaited all the same. */
  void *data;          /* op->data */
  uint64_t timeout_ns; /* an op in flight for longer fails with OVL_ETIMEDOUT; 0: never. On a device lane
                          it counts from when the op was issued, or from when the host last saw an op of that
                          lane end, whichever was later; behind another op there that has a timeout and has not ended
                          it does not count yet. Seen by a timer of the loop, so in whole milliseconds, rounded up. The op's slot is not
                          reused before the op has really ended. */
  uint64_t cost_ns;    /* a hint of how long an op takes, for simulations and planned orders; 0: 1 ns */
  ovl_cost_cb cost; /* the same from a callback; NULL: cost_ns. Called by start, simulate and fingerprint */
  int unchained;    /* not 0: does not wait for the previous stage of its microbatch */
  int always;       /* not 0: runs for failed and cancelled microbatches too, and sees op->status */
} ovl_stage_options_t;

static inline void ovl_pipeline_options_init(ovl_pipeline_options_t *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

static inline void ovl_lane_options_init(ovl_lane_options_t *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

static inline void ovl_stage_options_init(ovl_stage_options_t *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

static inline void ovl_allocator_init(ovl_allocator_t *allocator) {
  memset(allocator, 0, sizeof *allocator);
  allocator->size = sizeof *allocator;
}

static inline void ovl_failure_init(ovl_failure_t *failure) {
  memset(failure, 0, sizeof *failure);
  failure->size = sizeof *failure;
}

/* ---- describing -------------------------------------------------------------------------------- */

/* Makes a pipeline; *p is the caller's to end with ovl_pipeline_close. On error *p is NULL, and
 * ovl_pipeline_error(NULL) says why in words.
 * `options` NULL: all defaults.
 * Errors: OVL_EINVAL p is NULL; OVL_ESTRUCTSIZE; OVL_EOPTION mode, on_error or device_timing has no such value;
 *         OVL_ECALLBACK only one of compute and comm, stall_ns without on_stall, or an allocator without both
 *         functions;
 *         OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_create(ovl_pipeline_t **p, const ovl_pipeline_options_t *options);

/* Adds a lane and stores its id in *lane.
 * Errors: OVL_EINVAL an argument is NULL; OVL_ESTRUCTSIZE also of the device; OVL_EOPTION role, kind or order has no such
 *         value; OVL_EDEVICE a device lane without a device or with a poll hook, or another one with a device or stream; with
 *         OVL_DEVICE_TIMING_ALL a device without `elapsed`;
 *         OVL_ECALLBACK a required entry of the device is NULL; OVL_EWIDTH a fixed order, or a device lane, with a width
 *         above 1; OVL_EFROZEN; OVL_EBUSY; OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_add_lane(ovl_pipeline_t *p, const ovl_lane_options_t *options, ovl_lane_t *lane);

/* Adds a stage after those that are there; unless unchained, it waits for the one before it in the
 * same microbatch. `stage` may be NULL.
 * Errors: OVL_EINVAL p or options is NULL; OVL_ESTRUCTSIZE; OVL_ENOLANE; OVL_EFROZEN; OVL_EBUSY;
 *         OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_add_stage(ovl_pipeline_t *p, const ovl_stage_options_t *options,
                                      ovl_stage_t *stage);

/* `after` of microbatch i waits for `before` of microbatch i - distance; the first `distance`
 * microbatches do not wait. A distance of window or more says nothing that the window does not say.
 * Distances 0..window-1 together are a join over all earlier microbatches. A cycle whose distances
 * sum to 0 cannot finish; it is refused, and ovl_pipeline_error names the stages on it.
 * Errors: OVL_ENOSTAGE; OVL_ECYCLE; OVL_EFROZEN; OVL_EBUSY; OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_add_dependency(ovl_pipeline_t *p, ovl_stage_t before, ovl_stage_t after,
                                           uint32_t distance);

/* An explicit order for a lane of fixed order, for counted runs of count / (stages of the lane) microbatches: 1F1B,
 * DualPipe. It must hold every op of the lane exactly once. `order` is copied. count 0 takes it back. May be set
 * between runs as well; checked against the dependencies, the window and the other lanes' explicit orders here if
 * they are all for one number of microbatches, and else when a run starts.
 * Errors: OVL_EINVAL order is NULL, or the lane's order is not fixed; OVL_ENOLANE; OVL_ENOSTAGE; OVL_EORDER it is
 *         incomplete, or some op would wait for one that comes later; OVL_EBUSY; OVL_ENOMEM; OVL_ETOOBIG. */
OVL_EXTERN int ovl_pipeline_set_order(ovl_pipeline_t *p, ovl_lane_t lane, const ovl_op_id_t *order,
                                      size_t count);

/* A number that is equal on all ranks whose descriptions order their fixed lanes alike: window, mode, lanes and their sync domains,
 * stages, dependencies, cost hints and explicit orders go into it; names, callbacks and data do not. Ranks compare
 * it before they start a run of that many microbatches (or OVL_STREAMING).
 * 0: it could not be computed, and ovl_pipeline_error says why; it is never 0 otherwise. */
OVL_EXTERN uint64_t ovl_pipeline_fingerprint(ovl_pipeline_t *p, uint64_t microbatches);

/* The next run's mode. Errors: OVL_EOPTION; OVL_EBUSY a run is in flight. */
OVL_EXTERN int ovl_pipeline_set_mode(ovl_pipeline_t *p, ovl_mode_t mode);

/* options.data; NULL for NULL. Any thread. */
OVL_EXTERN void *ovl_pipeline_data(const ovl_pipeline_t *p);

/* How many microbatches may be in flight, with the default worked out from the lanes there are so
 * far; 0 for NULL. Any thread once frozen. */
OVL_EXTERN uint32_t ovl_pipeline_window(const ovl_pipeline_t *p);

/* Why the last call on `p` that describes or starts was refused, in words, naming the lane or stage;
 * "" after one that succeeded; OVL_EDEADLK, which any thread may get at any time, leaves it as it is.
 * NULL: why this thread's last ovl_pipeline_create failed. Never NULL. Valid until the next such call. */
OVL_EXTERN const char *ovl_pipeline_error(const ovl_pipeline_t *p);

/* ---- running ----------------------------------------------------------------------------------- */

/* Runs `microbatches` microbatches (0 is fine; or OVL_STREAMING) on a loop of its own and returns when
 * all is done: 0, or the run's first error. Microbatch callbacks run on the calling thread.
 * Errors before anything ran: those of ovl_pipeline_start; OVL_EDEADLK inside a callback of libovl;
 *         what uv_loop_init returns. */
OVL_EXTERN int ovl_pipeline_run(ovl_pipeline_t *p, uint64_t microbatches);

/* Starts a run on the caller's loop and returns; `done` (may be NULL) is called exactly once, never
 * from within this call, with 0 or the run's first error. When it is called nothing of the pipeline is
 * in any loop, and it may start the next run or close the pipeline. The loop is kept alive until then.
 * The first start, run, submit or finish freezes the description: lanes, stages and dependencies stay as
 * they are from then on, even if that call is refused after all.
 * Errors: OVL_EINVAL p or loop is NULL; OVL_EBUSY a run is in flight, or p is being closed;
 *         OVL_ETOOBIG window x stages, or window + queue, is too large; OVL_EITEMS items were submitted and
 *         the run is not OVL_STREAMING;
 *         OVL_EORDER an explicit order is for another number of microbatches, or cannot be kept; OVL_ENOMEM;
 *         with device lanes also OVL_ECAPTURE a stream is capturing, OVL_EPOISONED, and what an entry of the device
 *         returned; what uv_async_init returns. */
OVL_EXTERN int ovl_pipeline_start(ovl_pipeline_t *p, struct uv_loop_s *loop, uint64_t microbatches,
                                  ovl_pipeline_cb done);

/* Gives a streaming run its next microbatch. May be called before the run is started: items wait.
 * `item` may be NULL; it is passed through, never touched. Every accepted item gets exactly one
 * on_microbatch. At most window + queue items are held at a time (with
 * device lanes issue_ahead + queue).
 * Errors: OVL_EAGAIN the queue is full; OVL_EPIPE after finish; OVL_ECANCELED the run has failed or
 *         been cancelled and not yet ended; OVL_EINVAL a counted run is in flight; OVL_EBUSY p is being
 *         closed; before the first run also OVL_ETOOBIG and OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_submit(ovl_pipeline_t *p, void *item);

/* No more items: the streaming run in flight, or else the next one, drains and ends. A second call is
 * harmless; a counted run in between changes nothing.
 * Errors: OVL_EINVAL a counted run is in flight; before the first run OVL_ETOOBIG, OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_finish(ovl_pipeline_t *p);

/* Ends the run in flight as OVL_ON_ERROR_STOP does for an error. 0: that run will not report success.
 * Errors: OVL_ENOTRUNNING none is in flight, or its last microbatch has retired: no effect. */
OVL_EXTERN int ovl_pipeline_cancel(ovl_pipeline_t *p);

/* The first error of the last run, or of the one in flight; status 0 when there was none.
 * Errors: OVL_EINVAL; OVL_ESTRUCTSIZE. */
OVL_EXTERN int ovl_pipeline_failure(const ovl_pipeline_t *p, ovl_failure_t *failure);

/* Ends a pipeline. p and closed may be NULL. With no run in flight it reports items that were never
 * admitted (on_microbatch with OVL_ECANCELED), calls `closed` and frees p before it returns. With one in
 * flight (the loop's thread) it cancels it and returns; then follow `done`, `closed`, and p is freed.
 * p must not be used after `closed`, and between this call and `closed` only by ovl_op_complete. */
OVL_EXTERN void ovl_pipeline_close(ovl_pipeline_t *p, ovl_close_cb closed);

OVL_END_DECLS

#endif
