/* SPDX-License-Identifier: MIT */
/* A runner that goes ahead, without the lock. The one rule of the core's that stands here a second time is which op of a
 * chain comes next on a lane (choose). */
#include "exec/ahead.h"

#include "exec/executor.h"

#define TAKE_OVER_NS UINT64_C(2500) /* who has to wait so long becomes the keeper */

/* Whether the op that it is the stage's turn to begin may begin. Once it may, that stays so. */
static bool may_begin(const ovl_executor_t *x, ovl_trip_t *t, ovl_ahead_stage_t *s, uint64_t microbatch) {
  if (microbatch >= t->allowed)
    t->allowed = atomic_load_explicit(&x->ahead_allowed, memory_order_acquire);
  if (microbatch >= t->allowed) {
    t->stuck = true;
    return false;
  }
  /* Somebody else may have seen it, who did not get the lane: what was written before is to be seen, too. */
  if (microbatch < atomic_load_explicit(&s->seen, memory_order_acquire) + s->lead)
    return true;
  uint64_t ended = atomic_load_explicit(&s->source->ended, memory_order_acquire);
  if (microbatch >= ended + s->lead)
    return false;
  ovl_count_set(&s->seen, ended);
  return true;
}

/* Since when it may: what it waited for ended then. */
static uint64_t ready_since(const ovl_executor_t *x, const ovl_ahead_stage_t *s, uint64_t microbatch) {
  return microbatch < s->lead
             ? 0
             : ovl_count_get(&s->source->ended_at[(microbatch - s->lead) % x->core.plan->rows]);
}

static bool goes_before(const ovl_executor_t *x, const ovl_ahead_stage_t *a, const ovl_ahead_stage_t *b) {
  uint64_t i = ovl_count_get(&a->begun), k = ovl_count_get(&b->begun);
  uint64_t a_since = ready_since(x, a, i), b_since = ready_since(x, b, k);
  return a_since != b_since ? a_since < b_since : i != k ? i < k : a->number < b->number;
}

/* The stage of the lane whose next op is to begin; NULL: none may. */
static ovl_ahead_stage_t *choose(const ovl_executor_t *x, ovl_trip_t *t, const ovl_ahead_lane_t *a) {
  ovl_ahead_stage_t *chosen = NULL;
  for (uint32_t i = 0; i < a->stage_count; i++) {
    ovl_ahead_stage_t *s = &x->ahead_stages[a->stages[i]];
    if (may_begin(x, t, s, ovl_count_get(&s->begun)) && (chosen == NULL || goes_before(x, s, chosen)))
      chosen = s;
  }
  return chosen;
}

/* It is the keeper, and it is time to tell the core. */
static bool is_late(const ovl_executor_t *x, const ovl_trip_t *t) {
  return t->told >= OVL_AHEAD_OFTEN && ovl_ahead_is_keeper(x, t);
}

/* False: the lane has been closed, or somebody else has taken it. */
static bool change(ovl_trip_t *t, uint64_t to) {
  uint64_t expected = t->meeting;
  if (!atomic_compare_exchange_strong_explicit(&t->on->meeting, &expected, to, memory_order_acq_rel,
                                               memory_order_relaxed))
    return false;
  t->meeting = to;
  return true;
}

static bool take_step(ovl_trip_t *t) {
  return change(t, (t->meeting + OVL_MEETING_STEP) | OVL_MEETING_TAKEN);
}

/* After all has been noted. */
static void leave_lane(ovl_trip_t *t) {
  (void)change(t, t->meeting & ~OVL_MEETING_TAKEN); /* where it has been closed, nobody has it */
}

static void step_is_noted(const ovl_trip_t *t) {
  ovl_count_set(&t->on->noted, t->meeting / OVL_MEETING_STEP);
}

static ovl_core_op_t *begin_op(const ovl_executor_t *x, ovl_trip_t *t, ovl_ahead_stage_t *s, uint64_t now) {
  ovl_ahead_lane_t *a = t->on;
  t->stage = s;
  t->microbatch = ovl_count_get(&s->begun);
  ovl_core_op_t *op = ovl_core_op_at(&x->core, t->microbatch, s->number);
  ovl_core_show_as(&x->core, op, t->microbatch, NULL, 0);
  *ovl_ahead_note_at(a, t->number) =
      (ovl_ahead_note_t){.began = now, .op = (uint32_t)(op - x->core.ops), .thread = t->thread};
  ovl_count_set(&s->begun, t->microbatch + 1);
  ovl_count_set(&a->begun, t->number + 1);
  t->told++;
  __builtin_prefetch(ovl_core_op_at(&x->core, t->microbatch + 1, s->number), 1); /* the next one, perhaps */
  return op;
}

static void end_op(const ovl_executor_t *x, const ovl_trip_t *t, uint64_t now) {
  ovl_ahead_note_at(t->on, t->number)->ended = now;
  ovl_ahead_stage_ended(t->stage, t->microbatch, x->core.plan->rows, now);
}

bool ovl_ahead_pass(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now, ovl_core_op_t **next) {
  if (!take_step(t))
    return false;
  end_op(x, t, now);
  ovl_ahead_stage_t *s = is_late(x, t) ? NULL : choose(x, t, t->on);
  t->number++;
  *next = s != NULL ? begin_op(x, t, s, now) : NULL;
  step_is_noted(t);
  if (s == NULL)
    leave_lane(t);
  return true;
}

/* Takes the lane if it is vacant and has an op that may begin. */
static ovl_core_op_t *try_lane(const ovl_executor_t *x, ovl_trip_t *t, ovl_ahead_lane_t *a, uint64_t now) {
  uint64_t word = atomic_load_explicit(&a->meeting, memory_order_acquire);
  if ((word & (OVL_MEETING_OPEN | OVL_MEETING_TAKEN)) != OVL_MEETING_OPEN)
    return NULL;
  t->on = a;
  t->meeting = word;
  ovl_ahead_stage_t *s = choose(x, t, a);
  if (s == NULL || !take_step(t))
    return NULL;
  t->number = ovl_count_get(&a->begun);
  ovl_core_op_t *op = begin_op(x, t, s, now);
  step_is_noted(t);
  return op;
}

ovl_core_op_t *ovl_ahead_find(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now) {
  ovl_core_op_t *op = NULL;
  uint32_t first = (uint32_t)(t->on - x->ahead);
  t->stuck = false;
  for (uint32_t i = 0; op == NULL && i < x->ahead_count; i++)
    op = try_lane(x, t, &x->ahead[(first + i) % x->ahead_count], now);
  if (op == NULL)
    t->on = &x->ahead[first];
  return op;
}

/* Who waits asks often, and is not to read the line of `begun` then. */
static bool all_have_begun(const ovl_executor_t *x, uint64_t count) {
  const ovl_ahead_stage_t *last = &x->ahead_stages[x->core.plan->stage_count - 1];
  return ovl_count_get(&last->ended) + 1 >= count && ovl_count_get(&last->begun) == count;
}

/* There are as many runners as lanes, or else they are all open: whatever becomes ready is seen by somebody. */
bool ovl_ahead_may_wait(const ovl_executor_t *x, const ovl_trip_t *t) {
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  return open > 0 && !all_have_begun(x, t->count) &&
         (open == x->ahead_used ||
          atomic_load_explicit(&x->crew.working, memory_order_relaxed) >= x->ahead_used);
}

/* Who waits has the time to keep, and nobody waits for it meanwhile. Where ops could begin if the core knew more, it is the
 * others' ops that it is to know of. */
bool ovl_ahead_has_to_keep(const ovl_executor_t *x, const ovl_trip_t *t, uint64_t waited) {
  bool keeper = ovl_ahead_is_keeper(x, t);
  if (waited < TAKE_OVER_NS)
    return keeper && t->told >= OVL_AHEAD_OFTEN;
  if (keeper)
    return t->told >= OVL_AHEAD_OFTEN || (t->stuck && ovl_ahead_ended(x) >= t->kept + OVL_AHEAD_OFTEN / 2);
  return t->stuck || t->told >= OVL_AHEAD_OFTEN / 2;
}
