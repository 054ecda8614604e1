/* SPDX-License-Identifier: MIT */
/* What the loop does for a run: drain() tells the user, calls cancel hooks, runs ops of loop lanes, polls
 * theirs, queues runners, and notices the end. It works on a budget of BUDGET_NS a turn; what is left waits
 * for the next turn of the loop, so the application's own handles get theirs in between. */
#include "exec/executor.h"
#include "exec/process.h"

#define BUDGET_NS UINT64_C(400000)

void ovl_loop_wake(ovl_executor_t *x) {
  if (x->phase != OVL_EXEC_RUNNING || x->wake_sent)
    return;
  x->wake_sent = true;
  x->called = x->core.now;
  uv_async_send(&x->async);
}

static bool room_owed(const ovl_executor_t *x) {
  return x->room_wanted && !x->core.stopped && !x->core.finished && ovl_core_has_room(&x->core);
}

static bool core_owes(const ovl_core_t *core) {
  return core->tell_cancel || core->tell_head != NULL || core->ended_head != NULL ||
         core->startable[OVL_LANE_LOOP] > 0 || ovl_core_over(core);
}

static bool abort_owed(const ovl_executor_t *x) { return x->abort_next < x->core.plan->lane_count; }

bool ovl_loop_has_work(const ovl_executor_t *x) {
  return x->hooks_owed > 0 || abort_owed(x) || x->crew.short_handed || x->crew.asking > 0 ||
         core_owes(&x->core) || room_owed(x);
}

/* ---- things owed to the user: each returns false if there was nothing of its kind ------------------------ */

static bool tell_fault(ovl_executor_t *x) {
  ovl_fault_t fault;
  if (!ovl_core_next_fault(&x->core, &fault, ovl_clock_now(&x->clock)))
    return false;
  ovl_exec_unlock(x);
  x->hooks.on_fault(x->pipeline, &fault);
  ovl_exec_lock(x);
  return true;
}

static bool call_hook(ovl_executor_t *x) {
  ovl_core_op_t *op = ovl_exec_next_hook(x);
  if (op == NULL)
    return false;
  op->busy |= OVL_BUSY_HOOK;
  ovl_exec_unlock(x);
  x->stage_hooks[op->stage].cancel(&op->pub);
  ovl_exec_lock(x);
  ovl_exec_done_with(x, op, OVL_BUSY_HOOK, ovl_clock_now(&x->clock));
  return true;
}

static bool call_abort(ovl_executor_t *x) {
  while (abort_owed(x)) {
    uint32_t lane = x->abort_next++;
    const ovl_lane_hooks_t *hooks = &x->lane_hooks[lane];
    if (hooks->abort == NULL)
      continue;
    ovl_exec_unlock(x);
    hooks->abort(x->pipeline, (ovl_lane_t){lane + 1}, hooks->data);
    ovl_exec_lock(x);
    return true;
  }
  return false;
}

static bool report_microbatch(ovl_executor_t *x) {
  ovl_core_slot_t *slot = ovl_core_next_ended(&x->core);
  if (slot == NULL)
    return false;
  ovl_exec_unlock(x);
  x->hooks.on_microbatch(x->pipeline, slot->microbatch, slot->item, slot->fault.status);
  ovl_exec_lock(x);
  x->core.instant++;
  ovl_core_retire(&x->core, slot, ovl_clock_now(&x->clock));
  return true;
}

static bool tell_room(ovl_executor_t *x) {
  if (!room_owed(x))
    return false;
  x->room_wanted = false;
  if (x->hooks.on_room == NULL)
    return true;
  ovl_exec_unlock(x);
  x->hooks.on_room(x->pipeline);
  ovl_exec_lock(x);
  return true;
}

/* The run is over: items that were never admitted are given back, one at a time. */
bool ovl_loop_drop_item(ovl_executor_t *x) {
  void *item;
  uint64_t microbatch;
  if (!ovl_core_drop_item(&x->core, &item, &microbatch))
    return false;
  if (x->hooks.on_microbatch == NULL)
    return true;
  ovl_exec_unlock(x);
  x->hooks.on_microbatch(x->pipeline, microbatch, item, OVL_ECANCELED);
  ovl_exec_lock(x);
  return true;
}

/* ---- loop lanes -------------------------------------------------------------------------------------------- */

static bool run_loop_op(ovl_executor_t *x) {
  uint32_t lane = ovl_core_pick_lane(&x->core, OVL_LANE_LOOP, OVL_NO_LANE);
  if (lane == OVL_NO_LANE)
    return false;
  uint64_t started = ovl_clock_now(&x->clock);
  ovl_core_op_t *op = ovl_exec_start_next(x, lane, 0, started);
  ovl_exec_unlock(x);
  int result = ovl_exec_call_op(x, op);
  uint64_t now = ovl_clock_now(&x->clock), took = ovl_since(now, started);
  ovl_exec_lock(x);
  if (took > x->loop_longest)
    x->loop_longest = took;
  ovl_exec_call_returned(x, op, result, now);
  return true;
}

static bool poll_loop_lane(ovl_executor_t *x) {
  uint32_t lane = x->poll_lane_count == 0 ? OVL_NO_LANE
                                          : ovl_poll_claim(x, OVL_LANE_LOOP, ovl_clock_now(&x->clock), true);
  if (lane == OVL_NO_LANE)
    return false;
  ovl_poll_lane(x, lane);
  x->lanes[lane].attended = false;
  return true;
}

/* ---- a turn -------------------------------------------------------------------------------------------------- */

/* One thing that is owed; false: nothing is. What the user should hear first, comes first; news of room before
 * more ops, so that the queue is filled again while they run. */
static bool do_one(ovl_executor_t *x) {
  return tell_fault(x) || call_abort(x) || call_hook(x) || report_microbatch(x) || tell_room(x) ||
         run_loop_op(x) || poll_loop_lane(x) || (ovl_core_over(&x->core) && ovl_loop_drop_item(x));
}

/* Works off what is owed until the budget is spent; true: nothing is left. */
static bool work_off(ovl_executor_t *x, uint64_t started) {
  while (do_one(x)) {
    ovl_exec_follow_up(x, false);
    if (x->crew.short_handed)
      ovl_crew_queue(x);
    if (ovl_clock_now(&x->clock) - started > BUDGET_NS)
      return false;
  }
  return true;
}

/* After a turn the run has nothing left to do, and nobody is owed anything. */
static bool is_complete(const ovl_executor_t *x) {
  return ovl_core_over(&x->core) && x->hooks_owed == 0 && !abort_owed(x) && !x->core.tell_cancel &&
         x->core.item_count == 0;
}

static void call_runners(ovl_executor_t *x) {
  if (x->crew.short_handed || x->crew.asking > 0)
    ovl_crew_queue(x);
}

static void schedule_poll(ovl_executor_t *x);

static void drain(ovl_executor_t *x) {
  bool before = ovl_callback_enter();
  ovl_exec_lock(x);
  if (x->phase == OVL_EXEC_RUNNING) {
    x->wake_sent = false;
    x->called = 0;
    x->draining = true;
    call_runners(x);
    bool all = work_off(x, ovl_clock_now(&x->clock));
    call_runners(x);
    schedule_poll(x);
    x->draining = false;
    if (all && is_complete(x)) {
      ovl_exec_begin_close(x);
    } else if (!all || ovl_loop_has_work(x)) {
      ovl_loop_wake(x);
    }
  }
  ovl_exec_unlock(x);
  if (x->phase == OVL_EXEC_CLOSING) /* only this thread changes it */
    ovl_exec_collect(x);
  ovl_callback_leave(before);
}

/* ---- handles --------------------------------------------------------------------------------------------------- */

static void on_async(uv_async_t *handle) { drain(handle->data); }
static void on_idle(uv_idle_t *handle) { drain(handle->data); }
static void on_poll_timer(uv_timer_t *handle) { drain(handle->data); }
static void on_deadline(uv_timer_t *handle);

static uint64_t whole_ms(uint64_t ns) { return ns / 1000000 + (ns % 1000000 != 0); }

/* When to poll loop lanes again: soon after progress by turning the loop without pause, later by a timer. */
static void schedule_poll(ovl_executor_t *x) {
  if (x->poll_lane_count == 0)
    return;
  uint64_t now = ovl_clock_now(&x->clock);
  uint32_t lane = ovl_poll_claim(x, OVL_LANE_LOOP, now, false);
  uv_idle_stop(&x->poll_idle);
  uv_timer_stop(&x->poll_timer);
  if (lane == OVL_NO_LANE)
    return;
  x->lanes[lane].attended = false;
  if (now - x->lanes[lane].quiet_since < x->spin_ns)
    uv_idle_start(&x->poll_idle, on_idle);
  else
    uv_timer_start(&x->poll_timer, on_poll_timer, whole_ms(x->lanes[lane].pause), 0);
}

static void arm_deadline(ovl_executor_t *x, uint64_t now) {
  uint64_t next = ovl_exec_next_deadline(x, now), wait = next > now ? whole_ms(next - now) : 0;
  uv_timer_start(&x->deadline_timer, on_deadline, wait > 0 ? wait : 1, 0);
}

static void on_deadline(uv_timer_t *handle) {
  ovl_executor_t *x = handle->data;
  ovl_exec_lock(x);
  if (x->phase == OVL_EXEC_RUNNING) {
    uint64_t now = ovl_clock_now(&x->clock);
    ovl_exec_expire(x, now);
    arm_deadline(x, now);
  }
  ovl_exec_unlock(x);
  drain(x);
}

/* ---- stalls -------------------------------------------------------------------------------------------------------- */

static void on_stall_timer(uv_timer_t *handle);

static void arm_stall(ovl_executor_t *x, uint64_t wait) {
  uv_timer_start(&x->stall_timer, on_stall_timer, whole_ms(wait), 0);
}

/* Has nothing moved for stall_ns, and has nobody been told? Without a microbatch in flight nothing is to move. */
static bool has_stalled(ovl_executor_t *x, uint64_t now) {
  uint64_t moves = x->core.moves;
  if (moves != x->moves || x->core.in_flight == 0) {
    x->moves = moves;
    x->moved_at = x->core.in_flight == 0 ? now : x->core.now;
    x->stall_told = false;
  }
  if (x->stall_told || now < ovl_later(x->moved_at, x->stall_ns))
    return false;
  x->stall_told = true;
  return true;
}

static void on_stall_timer(uv_timer_t *handle) {
  ovl_executor_t *x = handle->data;
  bool before = ovl_callback_enter();
  ovl_exec_lock(x);
  bool stalled = false;
  if (x->phase == OVL_EXEC_RUNNING) {
    uint64_t now = ovl_clock_now(&x->clock);
    stalled = has_stalled(x, now);
    uint64_t next = ovl_later(x->moved_at, x->stall_ns);
    arm_stall(x, next > now ? next - now : x->stall_ns);
  }
  ovl_exec_unlock(x);
  if (stalled)
    x->hooks.on_stall(x->pipeline);
  ovl_callback_leave(before);
}

static void watch_for_stalls(ovl_executor_t *x, uv_loop_t *loop) {
  if (x->stall_ns == 0)
    return;
  x->open_handles++;
  uv_timer_init(loop, &x->stall_timer);
  x->stall_timer.data = x;
  x->moves = 0;
  x->moved_at = ovl_clock_now(&x->clock);
  x->stall_told = false;
  arm_stall(x, x->stall_ns);
}

/* ---- all of them ---------------------------------------------------------------------------------------------------- */

int ovl_loop_open(ovl_executor_t *x, uv_loop_t *loop) {
  int r = uv_async_init(loop, &x->async, on_async);
  if (r != 0)
    return r;
  x->loop = loop;
  x->open_handles = OVL_EXEC_HANDLES;
  uv_timer_init(loop, &x->deadline_timer);
  uv_timer_init(loop, &x->poll_timer);
  uv_idle_init(loop, &x->poll_idle);
  x->async.data = x->deadline_timer.data = x->poll_timer.data = x->poll_idle.data = x;
  if (x->shortest_timeout != 0)
    arm_deadline(x, ovl_clock_now(&x->clock));
  watch_for_stalls(x, loop);
  return 0;
}

static void on_closed(uv_handle_t *handle) {
  ovl_executor_t *x = handle->data;
  x->open_handles--;
  ovl_exec_collect(x);
}

void ovl_loop_close(ovl_executor_t *x) {
  uv_close((uv_handle_t *)&x->async, on_closed);
  uv_close((uv_handle_t *)&x->deadline_timer, on_closed);
  uv_close((uv_handle_t *)&x->poll_timer, on_closed);
  uv_close((uv_handle_t *)&x->poll_idle, on_closed);
  if (x->stall_ns != 0)
    uv_close((uv_handle_t *)&x->stall_timer, on_closed);
}
