/* SPDX-License-Identifier: MIT */
/* A run's start and end, and the requests that reach it from any thread.
 *
 *   IDLE -- launch --> RUNNING -- all ended, all told --> CLOSING -- handles and runners collected --> IDLE, done
 *
 * `done` is called from the last of the close and after-work callbacks, when nothing of the run is in the loop
 * any more; so it may start the next run, or close the pipeline, which frees the executor. */
#include "exec/executor.h"

#include <string.h>

#include "exec/process.h"
#include "ovl/errors.h"

#define DEFAULT_SPIN_NS UINT64_C(50000)
#define WITH_TWO_NS UINT64_C(150000) /* runs that take less are over before the second runner has come */
#define MOST_FIRST_OP_NS UINT64_C(2000000)
#define MOST_SPIN_NS UINT64_C(10000000) /* a spinning runner cannot be relieved */
#define MOST_POOL_THREADS 1024u         /* libuv's own limit */

/* ---- set-up ---------------------------------------------------------------------------------------------- */

/* Ops of pool lanes that can run at once. Where stages are a chain, each microbatch has one op on its way. */
static uint32_t pool_width(const ovl_plan_t *plan) {
  uint64_t width = 0;
  bool chain = true;
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (plan->lanes[l].kind == OVL_LANE_POOL && plan->lane_first[l] < plan->lane_first[l + 1])
      width += plan->lanes[l].silent ? 1 : plan->lanes[l].width; /* silent ones only begin something */
  for (uint32_t s = 1; s < plan->stage_count; s++)
    chain = chain && plan->stages[s].chained;
  if (chain && plan->window < width)
    width = plan->window;
  return width < MOST_POOL_THREADS ? (uint32_t)width : MOST_POOL_THREADS;
}

static uint64_t effective_spin(uint64_t spin_ns) {
  if (spin_ns == 0)
    return uv_available_parallelism() > 1 ? DEFAULT_SPIN_NS : 1;
  return spin_ns < MOST_SPIN_NS ? spin_ns : MOST_SPIN_NS;
}

static void *data_of(const void *context, uint32_t stage) {
  return ((const ovl_executor_t *)context)->stage_hooks[stage].data;
}

static void note_hooks(ovl_executor_t *x) {
  for (uint32_t l = 0; l < x->core.plan->lane_count; l++)
    if (x->lane_hooks[l].poll != NULL)
      x->poll_lanes[x->poll_lane_count++] = l;
  for (uint32_t s = 0; s < x->core.plan->stage_count; s++) {
    uint64_t timeout = x->stage_hooks[s].timeout_ns;
    if (timeout != 0 && (x->shortest_timeout == 0 || timeout < x->shortest_timeout))
      x->shortest_timeout = timeout;
  }
}

static int tables_init(ovl_executor_t *x, const ovl_plan_t *plan) {
  x->lanes = ovl_memory_array(&x->memory, plan->lane_count, sizeof *x->lanes);
  x->poll_lanes = ovl_memory_array(&x->memory, plan->lane_count, sizeof *x->poll_lanes);
  x->serial_means = ovl_memory_array(&x->memory, plan->stage_count, sizeof *x->serial_means);
  if (x->lanes == NULL || x->poll_lanes == NULL || x->serial_means == NULL)
    return OVL_ENOMEM;
  int r = ovl_ahead_init(x);
  return r == 0 ? ovl_crew_init(&x->crew, pool_width(plan), &x->memory) : r;
}

int ovl_executor_init(ovl_executor_t *x, const ovl_plan_t *plan, const ovl_executor_options_t *options) {
  memset(x, 0, sizeof *x);
  x->pipeline = options->pipeline;
  x->stage_hooks = options->stages;
  x->lane_hooks = options->lanes;
  x->hooks = options->hooks;
  x->memory = *options->memory;
  x->spin_ns = effective_spin(options->spin_ns);
  x->spins_by_default = options->spin_ns == 0;
  x->stall_ns = options->stall_ns;
  int r = ovl_core_init(&x->core, plan, &options->core, &x->memory);
  if (r != 0)
    return r;
  r = tables_init(x, plan);
  if (r != 0) {
    ovl_executor_finish(x);
    return r;
  }
  ovl_core_bind(&x->core, x->pipeline, data_of, x);
  note_hooks(x);
  return 0;
}

void ovl_executor_install(ovl_executor_t *x, const ovl_executor_t *fresh) {
  x->pipeline = fresh->pipeline;
  x->stage_hooks = fresh->stage_hooks;
  x->lane_hooks = fresh->lane_hooks;
  x->hooks = fresh->hooks;
  x->memory = fresh->memory;
  x->core = fresh->core;
  x->crew = fresh->crew;
  x->lanes = fresh->lanes;
  x->poll_lanes = fresh->poll_lanes;
  x->serial_means = fresh->serial_means;
  x->poll_lane_count = fresh->poll_lane_count;
  x->ahead = fresh->ahead;
  x->ahead_stages = fresh->ahead_stages;
  x->ahead_count = fresh->ahead_count;
  x->ahead_used = fresh->ahead_used;
  x->spin_ns = fresh->spin_ns;
  x->spins_by_default = fresh->spins_by_default;
  x->stall_ns = fresh->stall_ns;
  x->shortest_timeout = fresh->shortest_timeout;
  for (uint32_t i = 0; i < x->crew.count; i++)
    x->crew.runners[i].executor = x;
}

void ovl_executor_finish(ovl_executor_t *x) {
  ovl_crew_finish(&x->crew, &x->memory);
  ovl_ahead_finish(x);
  ovl_memory_free(&x->memory, x->serial_means);
  ovl_memory_free(&x->memory, x->poll_lanes);
  ovl_memory_free(&x->memory, x->lanes);
  ovl_core_finish(&x->core);
}

/* ---- start ------------------------------------------------------------------------------------------------- */

/* The second runner comes before the first op has ended, as a rule, and to sleep and to be called costs more than to wait
 * where that is known to be brief. */
static uint64_t first_spin(const ovl_executor_t *x) {
  const ovl_stage_tally_t *first = x->core.tally.stages;
  if (!x->crew.pairs || !x->spins_by_default || first->ops == 0 ||
      first->total / first->ops > MOST_FIRST_OP_NS)
    return 0;
  return first->total / first->ops * 3 / 2;
}

/* Room that was asked for before the run is still owed. */
static void reset(ovl_executor_t *x, bool overlaps) {
  for (uint32_t l = 0; l < x->core.plan->lane_count; l++)
    x->lanes[l] =
        (ovl_exec_lane_t){.launches = x->lanes[l].launches, .polled = x->lane_hooks[l].poll != NULL};
  ovl_crew_reset(&x->crew, overlaps && x->elapsed >= WITH_TWO_NS);
  x->crew.first_spin_ns = first_spin(x);
  ovl_ahead_begin(x);
  x->wake_sent = x->draining = x->collecting = false;
  x->faults_seen = 0;
  x->abort_next = x->core.plan->lane_count;
  x->aborted = false;
  x->loop_longest = 0;
}

static int may_launch(const ovl_executor_t *x, uint64_t microbatches) {
  if (x->phase != OVL_EXEC_IDLE || x->close_wanted)
    return OVL_EBUSY;
  return x->core.item_count > 0 && microbatches != OVL_STREAMING ? OVL_EITEMS : 0;
}

/* With the lock held, on the loop's thread: there is no need to wake it. */
static void begin(ovl_executor_t *x, ovl_mode_t mode, uint64_t microbatches) {
  x->core.instant++;
  x->draining = true;
  ovl_core_begin(&x->core, mode, microbatches, ovl_clock_now(&x->clock));
  ovl_exec_follow_up(x, false);
  x->draining = false;
  ovl_crew_queue(x);
  if (ovl_loop_has_work(x))
    ovl_loop_wake(x);
}

int ovl_exec_may_launch(ovl_executor_t *x, uint64_t microbatches) {
  ovl_exec_lock(x);
  int r = may_launch(x, microbatches);
  ovl_exec_unlock(x);
  return r;
}

int ovl_exec_launch(ovl_executor_t *x, uv_loop_t *loop, ovl_mode_t mode, uint64_t microbatches,
                    const ovl_order_source_t *order, ovl_pipeline_cb done, int *status_out) {
  ovl_clock_t clock;
  ovl_process_watch_exit();
  ovl_clock_init(&clock);
  ovl_exec_lock(x);
  int r = may_launch(x, microbatches);
  if (r == 0)
    x->clock = clock;
  ovl_exec_unlock(x);
  if (r == 0)
    r = ovl_loop_open(x, loop);
  if (r != 0)
    return r;
  ovl_exec_lock(x);
  reset(x, mode == OVL_OVERLAP && microbatches > 1 && microbatches != OVL_STREAMING);
  x->done = done;
  x->status_out = status_out;
  ovl_core_set_order(&x->core, order);
  x->phase = OVL_EXEC_RUNNING;
  begin(x, mode, microbatches);
  ovl_exec_unlock(x);
  return 0;
}

bool ovl_exec_in_flight(ovl_executor_t *x) {
  ovl_exec_lock(x);
  bool in_flight = x->phase != OVL_EXEC_IDLE;
  ovl_exec_unlock(x);
  return in_flight;
}

/* ---- end ----------------------------------------------------------------------------------------------------- */

/* Means of the run that has ended, if it was serial, to hold overlapped ones against. */
static void note_serial_means(ovl_executor_t *x) {
  const ovl_core_t *core = &x->core;
  if (core->graph != &core->plan->graphs[OVL_SERIAL])
    return;
  for (uint32_t s = 0; s < core->plan->stage_count; s++) {
    const ovl_stage_tally_t *stage = &core->tally.stages[s];
    if (stage->ops > 0)
      x->serial_means[s] = (uint64_t)((double)stage->total / (double)stage->ops * x->correction);
  }
}

void ovl_exec_begin_close(ovl_executor_t *x) {
  x->phase = OVL_EXEC_CLOSING;
  x->elapsed = x->core.now - x->core.started;
  x->correction = ovl_clock_correction(&x->clock);
  note_serial_means(x);
  ovl_crew_dismiss(x);
}

static void finish_run(ovl_executor_t *x) {
  ovl_clock_verify(&x->clock);
  ovl_exec_lock(x);
  ovl_core_leave(&x->core);
  int status = x->core.first.status;
  bool close_wanted = x->close_wanted;
  ovl_pipeline_t *pipeline = x->pipeline;
  ovl_pipeline_cb done = x->done;
  void (*on_over)(ovl_pipeline_t *) = x->hooks.on_over;
  if (x->status_out != NULL)
    *x->status_out = status;
  x->loop = NULL;
  x->room_wanted = false;
  x->phase = OVL_EXEC_IDLE;
  ovl_exec_unlock(x);
  bool before = ovl_callback_enter();
  if (done != NULL)
    done(pipeline, status); /* may start the next run, or free x unless a close is under way */
  if (close_wanted)
    on_over(pipeline);
  ovl_callback_leave(before);
}

void ovl_exec_collect(ovl_executor_t *x) {
  if (!x->collecting) {
    x->collecting = true;
    ovl_crew_recall(x);
    ovl_loop_close(x);
    return;
  }
  ovl_exec_lock(x);
  bool all = x->open_handles == 0 && ovl_crew_is_gone(&x->crew);
  ovl_exec_unlock(x);
  if (all)
    finish_run(x);
}

/* ---- requests from any thread -------------------------------------------------------------------------------- */

/* Outside a run time does not matter: what was submitted before it, has arrived when it starts. */
static uint64_t time_of_request(const ovl_executor_t *x) {
  return x->phase == OVL_EXEC_RUNNING ? ovl_clock_now(&x->clock) : 0;
}

static int may_submit(const ovl_executor_t *x) {
  if (x->close_wanted)
    return OVL_EBUSY;
  if (x->phase != OVL_EXEC_IDLE && x->core.count != OVL_STREAMING)
    return OVL_EINVAL;
  if (x->phase != OVL_EXEC_IDLE && x->core.stopped)
    return OVL_ECANCELED;
  return x->core.finished ? OVL_EPIPE : 0;
}

int ovl_exec_submit(ovl_executor_t *x, void *item) {
  ovl_exec_lock(x);
  int r = may_submit(x);
  if (r == 0) {
    x->core.instant++;
    r = ovl_core_submit(&x->core, item, time_of_request(x));
    x->room_wanted |= r == OVL_EAGAIN && x->hooks.on_room != NULL;
    ovl_exec_follow_up(x, false);
  }
  ovl_exec_unlock(x);
  return r;
}

int ovl_exec_finish_items(ovl_executor_t *x) {
  ovl_exec_lock(x);
  int r = x->phase != OVL_EXEC_IDLE && x->core.count != OVL_STREAMING ? OVL_EINVAL : 0;
  if (r == 0) {
    ovl_core_finish_items(&x->core, time_of_request(x));
    ovl_exec_follow_up(x, false);
  }
  ovl_exec_unlock(x);
  return r;
}

static int cancel_locked(ovl_executor_t *x) {
  if (x->phase != OVL_EXEC_RUNNING || ovl_core_over(&x->core))
    return OVL_ENOTRUNNING;
  ovl_ahead_call_back(x);
  x->core.instant++;
  ovl_core_cancel(&x->core, ovl_clock_now(&x->clock));
  ovl_exec_follow_up(x, false);
  return 0;
}

int ovl_exec_cancel(ovl_executor_t *x) {
  ovl_exec_lock(x);
  int r = cancel_locked(x);
  ovl_exec_unlock(x);
  return r;
}

bool ovl_exec_close(ovl_executor_t *x) {
  ovl_exec_lock(x);
  bool in_flight = x->phase != OVL_EXEC_IDLE || x->close_wanted;
  x->close_wanted = true;
  cancel_locked(x);
  ovl_exec_unlock(x);
  return in_flight;
}

void ovl_exec_drop_items(ovl_executor_t *x) {
  ovl_exec_lock(x);
  while (ovl_loop_drop_item(x))
    ;
  ovl_exec_unlock(x);
}
