/* SPDX-License-Identifier: MIT */
/* Starting and ending operations.
 *
 * An op ends exactly once: when its callback has returned, somebody has said how it ended (the return value
 * or ovl_op_complete), and its cancel hook, if it was called, has returned. Each of the three is a bit in
 * `busy`; whoever clears the last one, under the lock, tells the core. So an op completed before its callback
 * returns, or in the midst of its cancel hook, keeps its slot until the last user of the pointer is done. */
#include "exec/executor.h"

static const ovl_stage_hooks_t *hooks_of(const ovl_executor_t *x, const ovl_core_op_t *op) {
  return &x->stage_hooks[op->stage];
}

/* ---- watched ops: in flight, with a cancel hook or a deadline ----------------------------------------- */

static void watch(ovl_executor_t *x, ovl_core_op_t *op) {
  op->watched_prev = NULL;
  op->watched_next = x->watched;
  if (x->watched != NULL)
    x->watched->watched_prev = op;
  x->watched = op;
}

static void unwatch(ovl_executor_t *x, ovl_core_op_t *op) {
  *(op->watched_prev != NULL ? &op->watched_prev->watched_next : &x->watched) = op->watched_next;
  if (op->watched_next != NULL)
    op->watched_next->watched_prev = op->watched_prev;
  if (op->flags & OVL_OP_HOOK_OWED)
    x->hooks_owed--;
}

/* Ops without a callback end as they start: there is nothing to cancel, and no time to outlive. */
static bool is_watched(const ovl_stage_hooks_t *stage) {
  return stage->run != NULL && (stage->cancel != NULL || stage->timeout_ns != 0);
}

static void owe_hook(ovl_executor_t *x, ovl_core_op_t *op) {
  if ((op->flags & (OVL_OP_HOOK_OWED | OVL_OP_HOOKED)) == 0 && hooks_of(x, op)->cancel != NULL) {
    op->flags |= OVL_OP_HOOK_OWED;
    x->hooks_owed++;
  }
}

/* Something has failed since last time: every op in flight that is affected is owed its cancel hook. Ops that
 * were started to clean up after a failure are not. */
static void mark_hooks(ovl_executor_t *x) {
  x->faults_seen = x->core.faults;
  if (x->core.stopped && !x->aborted) {
    x->aborted = true;
    x->abort_next = 0;
  }
  for (ovl_core_op_t *op = x->watched; op != NULL; op = op->watched_next)
    if (op->pub.status == 0 && (x->core.stopped || ovl_core_op_slot(&x->core, op)->fault.status != 0))
      owe_hook(x, op);
}

ovl_core_op_t *ovl_exec_next_hook(ovl_executor_t *x) {
  if (x->hooks_owed == 0)
    return NULL;
  for (ovl_core_op_t *op = x->watched; op != NULL; op = op->watched_next)
    if (op->flags & OVL_OP_HOOK_OWED) {
      op->flags = (uint8_t)((op->flags & ~OVL_OP_HOOK_OWED) | OVL_OP_HOOKED);
      x->hooks_owed--;
      return op;
    }
  return NULL;
}

/* ---- deadlines ------------------------------------------------------------------------------------------ */

void ovl_exec_expire(ovl_executor_t *x, uint64_t now) {
  for (ovl_core_op_t *op = x->watched; op != NULL; op = op->watched_next) {
    if (op->deadline > now || (op->flags & OVL_OP_EXPIRED))
      continue;
    op->flags |= OVL_OP_EXPIRED;
    ovl_ahead_call_back(x);
    x->core.instant++;
    ovl_core_fail(&x->core, op, OVL_ETIMEDOUT, 0, now);
    owe_hook(x, op);
  }
  ovl_exec_follow_up(x, false);
}

/* When to look again. An op that starts right now expires no sooner than the shortest timeout from now. */
uint64_t ovl_exec_next_deadline(const ovl_executor_t *x, uint64_t now) {
  uint64_t next = ovl_later(now, x->shortest_timeout);
  for (const ovl_core_op_t *op = x->watched; op != NULL; op = op->watched_next)
    if (!(op->flags & OVL_OP_EXPIRED) && op->deadline < next)
      next = op->deadline;
  return next;
}

void ovl_exec_count_deadline(const ovl_executor_t *x, ovl_core_op_t *op, uint64_t from) {
  if (!(op->flags & OVL_OP_EXPIRED))
    op->deadline = ovl_later(from, hooks_of(x, op)->timeout_ns);
}

/* ---- the life of an op ---------------------------------------------------------------------------------- */

ovl_core_op_t *ovl_exec_start_next(ovl_executor_t *x, uint32_t lane, uint32_t thread, uint64_t now) {
  ovl_core_op_t *op = x->core.lanes[lane].head;
  ovl_core_show(&x->core, op);
  ovl_exec_start_shown(x, op, thread, now);
  return op;
}

void ovl_exec_start_shown(ovl_executor_t *x, ovl_core_op_t *op, uint32_t thread, uint64_t now) {
  ovl_exec_lane_t *lane = &x->lanes[op->lane];
  ovl_core_take_shown(&x->core, op, now);
  const ovl_stage_hooks_t *stage = hooks_of(x, op);
  op->busy = OVL_BUSY_CALL | OVL_BUSY_PENDING;
  op->flags = 0;
  op->result = op->native = 0;
  if (x->core.options.trace > 0)
    op->thread = thread;
  if (is_watched(stage)) {
    op->deadline = stage->timeout_ns != 0 ? ovl_later(now, stage->timeout_ns) : UINT64_MAX;
    watch(x, op);
  }
  if (lane->polled)
    lane->calls++;
  ovl_ahead_note_begin(x, op);
}

/* Without the lock: who has it may be writing to the rest of the op. */
int ovl_exec_call_op(const ovl_executor_t *x, ovl_core_op_t *op) {
  ovl_op_cb run = x->stage_hooks[op->pub.stage.id - 1].run;
  return run != NULL ? run(&op->pub) : 0;
}

/* Keeps the first error that is said of an op. */
static void note_result(ovl_core_op_t *op, int result) {
  if (op->result != 0)
    return;
  op->result = result > 0 ? OVL_EBADRESULT : result;
  op->native = result > 0 ? result : 0;
}

static void end_op(ovl_executor_t *x, ovl_core_op_t *op, uint64_t now) {
  if (is_watched(hooks_of(x, op)))
    unwatch(x, op);
  if (x->lanes[op->lane].polled)
    x->lanes[op->lane].progress++;
  x->core.instant++;
  int status = op->flags & OVL_OP_EXPIRED ? 0 : op->result;
  if (status != 0)
    ovl_ahead_call_back(x);
  ovl_ahead_note_end(x, op, now);
  ovl_core_end(&x->core, op, status, op->native, now);
}

/* Who comes last to the lock need not have been done last: between a return and its report an op may be completed. So it
 * ends at the latest of these moments. */
bool ovl_exec_done_with(ovl_executor_t *x, ovl_core_op_t *op, uint8_t by, uint64_t at) {
  if ((op->flags & OVL_OP_LEFT) && op->left > at)
    at = op->left;
  op->busy &= (uint8_t)~by;
  if (op->busy == 0) {
    end_op(x, op, at);
    return true;
  }
  op->flags |= OVL_OP_LEFT;
  op->left = at;
  return false;
}

void ovl_exec_call_returned(ovl_executor_t *x, ovl_core_op_t *op, int result, uint64_t now) {
  ovl_exec_lane_t *lane = &x->lanes[op->lane];
  if (lane->polled)
    lane->calls--;
  if (lane->launches != (result == OVL_PENDING)) {
    lane->launches = !lane->launches;
    if (lane->launches)
      x->launch_lanes++;
    else
      x->launch_lanes--;
  }
  uint8_t by = OVL_BUSY_CALL;
  if (result != OVL_PENDING) {
    by |= OVL_BUSY_PENDING;
    note_result(op, result);
  } else if ((op->busy & OVL_BUSY_PENDING) && lane->outstanding++ == 0) {
    lane->pause = 0;
    lane->quiet_since = lane->next_poll = now;
  }
  ovl_exec_done_with(x, op, by, now);
}

int ovl_exec_complete_op(ovl_executor_t *x, ovl_core_op_t *op, int status) {
  ovl_exec_lock(x);
  if (status != 0) { /* its runner, which may be in its callback, is to report it */
    ovl_ahead_call_back(x);
    ovl_exec_follow_up(x, false);
  }
  int r = op->state == OVL_OP_DONE ? OVL_EALREADY : OVL_EINVAL;
  if (op->state == OVL_OP_RUNNING)
    r = op->busy & OVL_BUSY_PENDING ? 0 : OVL_EALREADY;
  if (r == 0) {
    note_result(op, status);
    if (!(op->busy & OVL_BUSY_CALL))
      x->lanes[op->lane].outstanding--;
    if (ovl_exec_done_with(x, op, OVL_BUSY_PENDING, ovl_clock_now(&x->clock)))
      ovl_exec_follow_up(x, false);
  }
  ovl_exec_unlock(x);
  return r;
}

/* ---- what follows from a change -------------------------------------------------------------------------- */

void ovl_exec_follow_up(ovl_executor_t *x, bool self) {
  if (x->core.faults != x->faults_seen)
    mark_hooks(x);
  if (x->phase != OVL_EXEC_RUNNING)
    return;
  ovl_ahead_heed(x);
  if (ovl_core_over(&x->core))
    ovl_crew_dismiss(x);
  else
    ovl_crew_summon(x, self);
  if (!x->draining && ovl_loop_has_work(x))
    ovl_loop_wake(x);
}

/* ---- the lock -------------------------------------------------------------------------------------------- */

void ovl_exec_catch_up(ovl_executor_t *x, bool self) {
  if (ovl_ahead_catch_up(x))
    ovl_exec_follow_up(x, self);
}

void ovl_exec_lock(const ovl_executor_t *executor) {
  ovl_executor_t *x = (ovl_executor_t *)(uintptr_t)executor;
  ovl_lock(&x->lock);
  ovl_exec_catch_up(x, false);
}

void ovl_exec_unlock(const ovl_executor_t *x) { ovl_unlock(&((ovl_executor_t *)(uintptr_t)x)->lock); }
