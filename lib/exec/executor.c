/* SPDX-License-Identifier: MIT */
/* A run's start and end, and the calls that reach a run from any thread.
 *
 *   IDLE -- start --> RUNNING -- all ended, all told --> CLOSING -- handles and runners collected --> IDLE, done
 *
 * `done` is called from the last of the close and after-work callbacks, when nothing of the pipeline is in the
 * loop any more; so it may start the next run, or close the pipeline, which frees it. */
#include "exec/executor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"

#define DEFAULT_SPIN_NS UINT64_C(50000)
#define MOST_POOL_THREADS 1024u /* libuv's own limit */

/* ---- the process --------------------------------------------------------------------------------------- */

static _Thread_local bool in_callback;
static atomic_bool process_exits;
static uv_once_t process_once = UV_ONCE_INIT;

bool ovl_in_callback(void) { return in_callback; }

bool ovl_callback_enter(void) {
  bool before = in_callback;
  in_callback = true;
  return before;
}

void ovl_callback_leave(bool before) { in_callback = before; }

bool ovl_process_exits(void) { return atomic_load_explicit(&process_exits, memory_order_relaxed); }

static void on_exit_begins(void) { atomic_store(&process_exits, true); }

/* exit() calls its handlers before the destructors of libraries, and libuv's destructor joins its threads. */
static void watch_exit(void) { atexit(on_exit_begins); }

/* ---- set-up ---------------------------------------------------------------------------------------------- */

/* Ops of pool lanes that can run at once. */
static uint32_t pool_width(const ovl_plan_t *plan) {
  uint64_t width = 0;
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (plan->lanes[l].kind == OVL_LANE_POOL)
      width += plan->lanes[l].width;
  return width < MOST_POOL_THREADS ? (uint32_t)width : MOST_POOL_THREADS;
}

static void bind_ops(ovl_pipeline_t *p, ovl_core_t *core) {
  for (size_t i = 0; i < (size_t)core->plan->window * core->plan->stage_count; i++) {
    ovl_core_op_t *op = &core->ops[i];
    op->pub.pipeline = p;
    op->pub.data = ovl_stage_entry(p, ovl_core_op_stage(op))->data;
  }
}

static void note_options(ovl_pipeline_t *p, ovl_executor_t *x, const ovl_plan_t *plan) {
  x->spin_ns = p->options.spin_ns;
  if (x->spin_ns == 0)
    x->spin_ns = uv_available_parallelism() > 1 ? DEFAULT_SPIN_NS : 1;
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (ovl_lane_entry(p, l)->poll != NULL)
      x->poll_lanes[x->poll_lane_count++] = l;
  for (uint32_t s = 0; s < plan->stage_count; s++) {
    uint64_t timeout = ovl_stage_entry(p, s)->timeout_ns;
    if (timeout != 0 && (x->shortest_timeout == 0 || timeout < x->shortest_timeout))
      x->shortest_timeout = timeout;
  }
}

int ovl_executor_init(ovl_pipeline_t *p, ovl_executor_t *x, const ovl_plan_t *plan) {
  const ovl_pipeline_options_t *options = &p->options;
  const ovl_core_options_t core_options = {.queue = options->queue != 0 ? options->queue : plan->window,
                                           .keep_going = options->on_error == OVL_ON_ERROR_CONTINUE,
                                           .report = options->on_microbatch != NULL,
                                           .tell = options->on_failure != NULL,
                                           .statistics = !options->no_stats};
  memset(x, 0, sizeof *x);
  int r = ovl_core_init(&x->core, plan, &core_options, &p->memory);
  if (r != 0)
    return r;
  x->lanes = ovl_memory_array(&p->memory, plan->lane_count, sizeof *x->lanes);
  x->poll_lanes = ovl_memory_array(&p->memory, plan->lane_count, sizeof *x->poll_lanes);
  r = x->lanes == NULL || x->poll_lanes == NULL ? OVL_ENOMEM : ovl_crew_init(p, &x->crew, pool_width(plan));
  if (r != 0) {
    ovl_executor_finish(x, &p->memory);
    return r;
  }
  bind_ops(p, &x->core);
  note_options(p, x, plan);
  return 0;
}

void ovl_executor_install(ovl_executor_t *x, const ovl_executor_t *fresh) {
  x->core = fresh->core;
  x->crew = fresh->crew;
  x->lanes = fresh->lanes;
  x->poll_lanes = fresh->poll_lanes;
  x->poll_lane_count = fresh->poll_lane_count;
  x->spin_ns = fresh->spin_ns;
  x->shortest_timeout = fresh->shortest_timeout;
}

void ovl_executor_finish(ovl_executor_t *x, const ovl_memory_t *memory) {
  ovl_crew_finish(&x->crew, memory);
  ovl_memory_free(memory, x->poll_lanes);
  ovl_memory_free(memory, x->lanes);
  ovl_core_finish(&x->core);
}

/* ---- start ------------------------------------------------------------------------------------------------- */

static int may_start(ovl_pipeline_t *p, uv_loop_t *loop, uint64_t microbatches) {
  ovl_executor_t *x = &p->exec;
  if (loop == NULL)
    return ovl_refuse(p, OVL_EINVAL, "start: the loop is NULL");
  ovl_lock(&x->lock);
  bool busy = x->phase != OVL_EXEC_IDLE || x->close_wanted;
  uint32_t items = x->core.item_count;
  ovl_unlock(&x->lock);
  if (busy)
    return ovl_refuse(p, OVL_EBUSY, "start: a run is in flight, or the pipeline is being closed");
  if (items > 0 && microbatches != OVL_STREAMING)
    return ovl_refuse(p, OVL_EITEMS, "start: %u items were submitted, so the run must be OVL_STREAMING",
                      (unsigned)items);
  return 0;
}

static void reset(ovl_executor_t *x) {
  memset(x->lanes, 0, x->core.plan->lane_count * sizeof *x->lanes);
  ovl_crew_reset(&x->crew);
  x->wake_sent = x->draining = x->collecting = false;
  x->faults_seen = 0;
  x->loop_longest = 0;
}

static int launch(ovl_pipeline_t *p, uv_loop_t *loop, uint64_t microbatches, ovl_pipeline_cb done) {
  ovl_executor_t *x = &p->exec;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  ovl_lock(&x->lock);
  x->clock = clock;
  ovl_unlock(&x->lock);
  int r = ovl_loop_open(p, loop);
  if (r != 0)
    return ovl_refuse(p, r, "start: uv_async_init: %s", uv_err_name(r));
  ovl_lock(&x->lock);
  reset(x);
  x->done = done;
  x->phase = OVL_EXEC_RUNNING;
  x->core.instant++;
  ovl_core_begin(&x->core, p->mode, microbatches, ovl_clock_now(&x->clock));
  x->draining = true; /* this is the loop's thread: no need to wake it */
  ovl_exec_follow_up(p, false);
  x->draining = false;
  ovl_crew_queue(p);
  if (ovl_loop_has_work(p))
    ovl_loop_wake(p);
  ovl_unlock(&x->lock);
  return ovl_accept(p);
}

int ovl_pipeline_start(ovl_pipeline_t *p, struct uv_loop_s *loop, uint64_t microbatches,
                       ovl_pipeline_cb done) {
  if (p == NULL)
    return OVL_EINVAL;
  uv_once(&process_once, watch_exit);
  int r = ovl_pipeline_freeze(p);
  if (r == 0)
    r = may_start(p, loop, microbatches);
  return r != 0 ? r : launch(p, loop, microbatches, done);
}

/* ---- end ----------------------------------------------------------------------------------------------------- */

void ovl_executor_begin_close(ovl_pipeline_t *p) {
  ovl_executor_t *x = &p->exec;
  x->phase = OVL_EXEC_CLOSING;
  x->elapsed = x->core.now - x->core.started;
  ovl_crew_dismiss(p);
}

static void free_closed(ovl_pipeline_t *p, ovl_close_cb closed) {
  if (closed != NULL)
    closed(p);
  ovl_pipeline_free(p);
}

static void finish_run(ovl_pipeline_t *p) {
  ovl_executor_t *x = &p->exec;
  ovl_clock_verify(&x->clock);
  ovl_lock(&x->lock);
  ovl_core_leave(&x->core);
  int status = x->core.first.status;
  bool close_wanted = x->close_wanted;
  ovl_close_cb closed = x->closed;
  ovl_pipeline_cb done = x->done;
  if (x->status_out != NULL)
    *x->status_out = status;
  x->status_out = NULL;
  x->loop = NULL;
  x->room_wanted = false;
  x->phase = OVL_EXEC_IDLE;
  ovl_unlock(&x->lock);
  bool before = ovl_callback_enter();
  if (done != NULL)
    done(p, status); /* may start the next run, or free p unless a close is under way */
  if (close_wanted)
    free_closed(p, closed);
  ovl_callback_leave(before);
}

void ovl_executor_collect(ovl_pipeline_t *p) {
  ovl_executor_t *x = &p->exec;
  if (!x->collecting) {
    x->collecting = true;
    ovl_crew_recall(p);
    ovl_loop_close(p);
    return;
  }
  ovl_lock(&x->lock);
  bool all = x->open_handles == 0 && ovl_crew_is_gone(&x->crew);
  ovl_unlock(&x->lock);
  if (all)
    finish_run(p);
}

/* ---- calls from any thread --------------------------------------------------------------------------------- */

static int may_submit(const ovl_executor_t *x) {
  if (x->close_wanted)
    return OVL_EBUSY;
  if (x->phase == OVL_EXEC_IDLE)
    return x->core.finished ? OVL_EPIPE : 0;
  if (x->core.count != OVL_STREAMING)
    return OVL_EINVAL;
  if (x->core.stopped)
    return OVL_ECANCELED;
  return x->core.finished ? OVL_EPIPE : 0;
}

int ovl_pipeline_submit(ovl_pipeline_t *p, void *item) {
  if (p == NULL)
    return OVL_EINVAL;
  ovl_executor_t *x = &p->exec;
  int r = ovl_pipeline_freeze(p);
  if (r != 0)
    return r;
  ovl_lock(&x->lock);
  r = may_submit(x);
  if (r == 0) {
    x->core.instant++;
    uint64_t now = x->phase == OVL_EXEC_RUNNING ? ovl_clock_now(&x->clock) : 0;
    r = ovl_core_submit(&x->core, item, now);
  }
  if (r == OVL_EAGAIN)
    x->room_wanted = p->options.on_room != NULL;
  if (x->phase == OVL_EXEC_RUNNING)
    ovl_exec_follow_up(p, false);
  ovl_unlock(&x->lock);
  return r;
}

int ovl_pipeline_finish(ovl_pipeline_t *p) {
  if (p == NULL)
    return OVL_EINVAL;
  ovl_executor_t *x = &p->exec;
  int r = ovl_pipeline_freeze(p);
  if (r != 0)
    return r;
  ovl_lock(&x->lock);
  if (x->phase != OVL_EXEC_IDLE && x->core.count != OVL_STREAMING)
    r = OVL_EINVAL;
  else
    ovl_core_finish_items(&x->core, x->phase == OVL_EXEC_RUNNING ? ovl_clock_now(&x->clock) : 0);
  if (x->phase == OVL_EXEC_RUNNING)
    ovl_exec_follow_up(p, false);
  ovl_unlock(&x->lock);
  return r;
}

static int cancel_locked(ovl_pipeline_t *p) {
  ovl_executor_t *x = &p->exec;
  if (x->phase != OVL_EXEC_RUNNING || ovl_core_over(&x->core))
    return OVL_ENOTRUNNING;
  x->core.instant++;
  ovl_core_cancel(&x->core, ovl_clock_now(&x->clock));
  ovl_exec_follow_up(p, false);
  return 0;
}

int ovl_pipeline_cancel(ovl_pipeline_t *p) {
  if (p == NULL)
    return OVL_EINVAL;
  ovl_lock(&p->exec.lock);
  int r = cancel_locked(p);
  ovl_unlock(&p->exec.lock);
  return r;
}

/* ---- blocking run -------------------------------------------------------------------------------------------- */

static int run_on(ovl_pipeline_t *p, uv_loop_t *loop, uint64_t microbatches) {
  int status = 0;
  int r = ovl_pipeline_start(p, loop, microbatches, NULL);
  if (r != 0)
    return r;
  p->exec.status_out = &status; /* read by this thread, in uv_run: p may be gone when that returns */
  uv_run(loop, UV_RUN_DEFAULT);
  return status;
}

int ovl_pipeline_run(ovl_pipeline_t *p, uint64_t microbatches) {
  if (p == NULL)
    return OVL_EINVAL;
  if (in_callback)
    return OVL_EDEADLK;
  uv_loop_t loop;
  int r = uv_loop_init(&loop);
  if (r != 0)
    return ovl_refuse(p, r, "run: uv_loop_init: %s", uv_err_name(r));
  r = run_on(p, &loop, microbatches);
  int closed = uv_loop_close(&loop);
  assert(closed == 0);
  (void)closed;
  return r;
}

/* ---- close ----------------------------------------------------------------------------------------------------- */

/* True: a run is in flight, and will close the pipeline when it has ended. */
static bool close_later(ovl_pipeline_t *p, ovl_close_cb closed) {
  ovl_executor_t *x = &p->exec;
  ovl_lock(&x->lock);
  bool later = x->phase != OVL_EXEC_IDLE || x->close_wanted;
  if (!x->close_wanted) {
    x->close_wanted = true;
    x->closed = closed;
  }
  cancel_locked(p);
  ovl_unlock(&x->lock);
  return later;
}

void ovl_pipeline_close(ovl_pipeline_t *p, ovl_close_cb closed) {
  if (p == NULL || close_later(p, closed))
    return;
  bool before = ovl_callback_enter();
  ovl_lock(&p->exec.lock);
  while (ovl_exec_drop_item(p))
    ;
  ovl_unlock(&p->exec.lock);
  free_closed(p, closed);
  ovl_callback_leave(before);
}
