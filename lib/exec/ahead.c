/* SPDX-License-Identifier: MIT */
/* Both sides of going ahead. Only the core decides what is an error, and it is told everything; the one rule that stands
 * here a second time is what an op of a chain waits for (may_begin). */
#include "exec/ahead.h"

#include "exec/executor.h"

#define LATE 24u                    /* microbatches by which the core may be late */
#define OFTEN 16u                   /* after how many the keeper tells it */
#define TAKE_OVER_NS UINT64_C(5000) /* who has to wait for the keeper so long becomes it */

/* ovl_ahead_t.meeting */
#define OPEN UINT64_C(1)
#define TAKEN UINT64_C(2)
#define STEP UINT64_C(4)

/* ---- what it is for ------------------------------------------------------------------------------------------------ */

static bool is_plain(const ovl_stage_hooks_t *stage) {
  return stage->cancel == NULL && stage->timeout_ns == 0;
}

static bool is_lane_for_it(const ovl_lane_desc_t *lane, const ovl_lane_hooks_t *hooks) {
  return lane->kind == OVL_LANE_POOL && lane->width == 1 && !lane->fixed && !lane->silent &&
         hooks->poll == NULL;
}

static bool is_alone_on_its_lane(const ovl_description_t *d, uint32_t stage) {
  uint32_t on_lane = 0;
  for (uint32_t s = 0; s < d->stage_count; s++)
    on_lane += d->stages[s].lane == d->stages[stage].lane;
  return on_lane == 1;
}

uint32_t ovl_ahead_rows(const ovl_description_t *d, const ovl_stage_hooks_t *stages,
                        const ovl_lane_hooks_t *lanes) {
  if (d->stage_count > d->lane_count || d->dependency_count > 0 || d->window > UINT32_MAX - LATE)
    return d->window;
  for (uint32_t s = 0; s < d->stage_count; s++) {
    uint32_t lane = d->stages[s].lane;
    if (!is_lane_for_it(&d->lanes[lane], &lanes[lane]) || !is_plain(&stages[s]) ||
        (s > 0 && !d->stages[s].chained) || !is_alone_on_its_lane(d, s))
      return d->window;
  }
  return d->stage_count > 1 ? d->window + LATE : d->window;
}

int ovl_ahead_init(ovl_executor_t *x) {
  const ovl_plan_t *plan = x->core.plan;
  if (plan->rows == plan->window)
    return 0;
  uint32_t count = plan->stage_count;
  x->ahead = ovl_memory_array(&x->memory, count, sizeof *x->ahead);
  x->ahead_notes = ovl_memory_array(&x->memory, (size_t)count * plan->rows, sizeof *x->ahead_notes);
  if (x->ahead == NULL || x->ahead_notes == NULL)
    return OVL_ENOMEM;
  x->ahead_count = count;
  for (uint32_t s = 0; s < count; s++)
    x->ahead[s] = (ovl_ahead_t){.source = &x->ahead[s > 0 ? s - 1 : count - 1],
                                .lead = s > 0 ? 0 : plan->window,
                                .notes = &x->ahead_notes[(size_t)s * plan->rows],
                                .stage = s,
                                .lane = plan->stages[s].lane};
  return 0;
}

void ovl_ahead_finish(ovl_executor_t *x) {
  ovl_memory_free(&x->memory, x->ahead_notes);
  ovl_memory_free(&x->memory, x->ahead);
}

void ovl_ahead_begin(ovl_executor_t *x) {
  for (uint32_t i = 0; i < x->ahead_count; i++) {
    ovl_ahead_t *a = &x->ahead[i];
    a->known_begun = a->known_ended = a->seen_begun = a->seen_ended = 0;
    atomic_store_explicit(&a->meeting, 0, memory_order_relaxed);
    atomic_store_explicit(&a->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&a->begun, 0, memory_order_relaxed);
    atomic_store_explicit(&a->noted, 0, memory_order_relaxed);
  }
  x->keeper = NULL;
  x->foreseen = 0;
  x->ahead_known = 0;
  atomic_store_explicit(&x->ahead_allowed, 0, memory_order_relaxed);
}

/* ---- the runner ---------------------------------------------------------------------------------------------------- */

/* Is it the turn of the next op? Once it is, it stays so. */
static bool may_begin(const ovl_executor_t *x, ovl_trip_t *t) {
  if (t->next >= t->allowed)
    t->allowed = atomic_load_explicit(&x->ahead_allowed, memory_order_acquire);
  if (t->next >= t->allowed) {
    t->stuck = true;
    return false;
  }
  if (t->next >= t->source_ended + t->on->lead)
    t->source_ended = atomic_load_explicit(&t->on->source->ended, memory_order_acquire);
  return t->next < t->source_ended + t->on->lead;
}

/* It is the keeper, and it is time to tell the core. */
static bool is_late(const ovl_trip_t *t) { return t->keeps && t->told >= OFTEN; }

/* False: the lane has been closed, or somebody else has taken it. */
static bool change(ovl_trip_t *t, uint64_t to) {
  uint64_t expected = t->meeting;
  if (!atomic_compare_exchange_strong_explicit(&t->on->meeting, &expected, to, memory_order_acq_rel,
                                               memory_order_relaxed))
    return false;
  t->meeting = to;
  return true;
}

static bool take_step(ovl_trip_t *t) { return change(t, (t->meeting + STEP) | TAKEN); }

/* After all has been noted. */
static void leave_lane(ovl_trip_t *t) {
  (void)change(t, t->meeting & ~TAKEN); /* where it has been closed, nobody has it */
}

static void step_is_noted(const ovl_trip_t *t) {
  atomic_store_explicit(&t->on->noted, t->meeting / STEP, memory_order_release);
}

static ovl_core_op_t *begin_next(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now) {
  ovl_core_op_t *op = ovl_core_op_at(&x->core, t->next, t->on->stage);
  ovl_ahead_note_t *note = &t->on->notes[t->next % x->core.plan->rows];
  note->began = now;
  note->thread = t->thread;
  atomic_store_explicit(&t->on->begun, ++t->next, memory_order_release);
  t->told++;
  __builtin_prefetch(ovl_core_op_at(&x->core, t->next, t->on->stage)); /* somebody else has set it up */
  return op;
}

bool ovl_ahead_pass(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now, ovl_core_op_t **next) {
  bool begins = !is_late(t) && may_begin(x, t);
  if (!take_step(t))
    return false;
  t->on->notes[(t->next - 1) % x->core.plan->rows].ended = now;
  atomic_store_explicit(&t->on->ended, t->next, memory_order_release);
  *next = begins ? begin_next(x, t, now) : NULL;
  step_is_noted(t);
  if (!begins)
    leave_lane(t);
  return true;
}

/* Takes the lane if it is vacant and has an op that may begin. */
static ovl_core_op_t *try_lane(const ovl_executor_t *x, ovl_trip_t *t, ovl_ahead_t *a, uint64_t now) {
  uint64_t word = atomic_load_explicit(&a->meeting, memory_order_acquire);
  if ((word & (OPEN | TAKEN)) != OPEN)
    return NULL;
  t->on = a;
  t->meeting = word;
  t->next = atomic_load_explicit(&a->begun, memory_order_acquire);
  t->source_ended = 0;
  if (!may_begin(x, t) || !take_step(t))
    return NULL;
  ovl_core_op_t *op = begin_next(x, t, now);
  step_is_noted(t);
  return op;
}

ovl_core_op_t *ovl_ahead_find(const ovl_executor_t *x, ovl_trip_t *t, uint64_t now) {
  ovl_core_op_t *op = NULL;
  uint32_t first = t->on->stage;
  t->stuck = false;
  for (uint32_t i = 0; op == NULL && i < x->ahead_count; i++)
    op = try_lane(x, t, &x->ahead[(first + i) % x->ahead_count], now);
  if (op == NULL)
    t->on = &x->ahead[first];
  return op;
}

/* There are as many runners as lanes, or else they are all open: whatever becomes ready is seen by somebody. */
bool ovl_ahead_may_wait(const ovl_executor_t *x, const ovl_trip_t *t) {
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  uint64_t begun = atomic_load_explicit(&x->ahead[x->ahead_count - 1].begun, memory_order_relaxed);
  return open > 0 && begun < t->count &&
         (open == x->ahead_count ||
          atomic_load_explicit(&x->crew.working, memory_order_relaxed) >= x->ahead_count);
}

bool ovl_ahead_has_to_keep(const ovl_trip_t *t, uint64_t waited) {
  return is_late(t) || (!t->keeps && t->stuck && waited >= TAKE_OVER_NS);
}

/* ---- setting out --------------------------------------------------------------------------------------------------- */

/* Somebody may have to be called or told when an op ends. */
static bool ends_concern_others(const ovl_executor_t *x) {
  return x->crew.crowd.alone || x->room_wanted || ovl_crew_may_call(&x->crew, x->core.now);
}

/* The runner has something else to do between ops. */
static bool is_wanted(const ovl_executor_t *x, const ovl_runner_t *r) {
  return r->leave_at != 0 || r->looked_at || x->called != 0;
}

/* Sets up ops of microbatches to come, as far as their rows are free. */
static void allow(ovl_executor_t *x) {
  uint64_t until = x->core.tally.retired + x->core.plan->rows;
  if (until > x->core.count)
    until = x->core.count;
  if (x->foreseen < x->core.next)
    x->foreseen = x->core.next;
  while (x->foreseen < until)
    ovl_core_foresee(&x->core, x->foreseen++);
  if (atomic_load_explicit(&x->ahead_allowed, memory_order_relaxed) < until)
    atomic_store_explicit(&x->ahead_allowed, until, memory_order_release);
}

static bool may_go(const ovl_executor_t *x, const ovl_runner_t *r) {
  return x->ahead_count > 0 && x->crew.by_state[OVL_RUNNER_WORKING] > 1 && x->core.count != OVL_STREAMING &&
         x->core.graph == &x->core.plan->graphs[OVL_OVERLAP] && x->core.faults == 0 && !is_wanted(x, r) &&
         !ends_concern_others(x);
}

/* From now on runners may take it without the lock. */
static void open_lane(ovl_executor_t *x, ovl_ahead_t *a, bool taken) {
  uint64_t steps = atomic_load_explicit(&a->noted, memory_order_relaxed) + 1;
  a->open = true;
  atomic_store_explicit(&a->noted, steps, memory_order_relaxed);
  atomic_store_explicit(&a->meeting, steps * STEP + OPEN + (taken ? TAKEN : 0), memory_order_release);
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  atomic_store_explicit(&x->ahead_open, open + 1, memory_order_relaxed);
  ovl_core_hold_lane(&x->core, a->lane, true);
}

void ovl_ahead_go(ovl_executor_t *x, ovl_runner_t *r, const ovl_core_op_t *op) {
  r->trip.on = NULL;
  if (!may_go(x, r))
    return;
  if (x->keeper == NULL)
    x->keeper = r;
  r->calling = 0; /* the lane tells */
  allow(x);
  ovl_ahead_t *own = &x->ahead[ovl_core_op_stage(op)];
  open_lane(x, own, true);
  r->trip = (ovl_trip_t){.on = own,
                         .keeps = x->keeper == r,
                         .thread = r->thread,
                         .meeting = atomic_load_explicit(&own->meeting, memory_order_relaxed),
                         .count = x->core.count,
                         .next = op->pub.microbatch + 1};
  for (uint32_t i = 0; i < x->ahead_count; i++)
    if (!x->ahead[i].open && ovl_core_running(&x->core, x->ahead[i].lane) == 0)
      open_lane(x, &x->ahead[i], false);
}

/* ---- catching up --------------------------------------------------------------------------------------------------- */

void ovl_ahead_note_begin(ovl_executor_t *x, uint32_t stage) {
  if (x->ahead_count == 0)
    return;
  ovl_ahead_t *a = &x->ahead[stage];
  if (++a->known_begun > a->seen_begun) {
    a->seen_begun = a->known_begun;
    atomic_store_explicit(&a->begun, a->known_begun, memory_order_release);
  }
}

void ovl_ahead_note_end(ovl_executor_t *x, uint32_t stage) {
  if (x->ahead_count == 0)
    return;
  ovl_ahead_t *a = &x->ahead[stage];
  x->ahead_known++;
  if (++a->known_ended > a->seen_ended) {
    a->seen_ended = a->known_ended;
    atomic_store_explicit(&a->ended, a->known_ended, memory_order_release);
  }
}

/* Each count at its own moment: something may be seen before what it waited for, which is seen next time then. What will
 * be read of the notes is asked for first: their lines come one after another else. */
static void look(ovl_executor_t *x) {
  for (uint32_t i = 0; i < x->ahead_count; i++)
    for (uint32_t k = 0; k < OFTEN; k += 4)
      __builtin_prefetch(&x->ahead[i].notes[(x->ahead[i].known_ended + k) % x->core.plan->rows]);
  for (uint32_t i = 0; i < x->ahead_count; i++) {
    ovl_ahead_t *a = &x->ahead[i];
    a->seen_ended = atomic_load_explicit(&a->ended, memory_order_acquire);
    a->seen_begun = atomic_load_explicit(&a->begun, memory_order_acquire);
  }
}

/* When the next thing happened there that the core does not know of and may be told; UINT64_MAX: there is none. */
static uint64_t next_event(const ovl_executor_t *x, const ovl_ahead_t *a) {
  const ovl_ahead_note_t *note = &a->notes[a->known_ended % x->core.plan->rows];
  if (a->known_ended < a->known_begun)
    return a->known_ended < a->seen_ended ? note->ended : UINT64_MAX;
  bool begun = a->known_begun < a->seen_begun && x->core.lanes[a->lane].head != NULL;
  return begun ? note->began : UINT64_MAX;
}

static void tell_core(ovl_executor_t *x, ovl_ahead_t *a, uint64_t at) {
  if (a->known_ended == a->known_begun) {
    ovl_exec_start_op(x, a->lane, a->notes[a->known_ended % x->core.plan->rows].thread, at);
    return;
  }
  ovl_core_op_t *op = ovl_core_op_at(&x->core, a->known_ended, a->stage);
  ovl_crowd_count(&x->crew.crowd, at > op->started ? at - op->started : 0, at);
  ovl_exec_call_returned(x, op, 0, at);
}

static bool tell_next(ovl_executor_t *x) {
  ovl_ahead_t *first = NULL;
  uint64_t at = UINT64_MAX;
  for (uint32_t i = 0; i < x->ahead_count; i++) {
    uint64_t event = next_event(x, &x->ahead[i]);
    if (event < at) {
      first = &x->ahead[i];
      at = event;
    }
  }
  if (first != NULL)
    tell_core(x, first, at);
  return first != NULL;
}

bool ovl_ahead_catch_up(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) == 0)
    return false;
  look(x);
  bool any = false;
  while (tell_next(x))
    any = true;
  if (any)
    allow(x);
  return any;
}

void ovl_ahead_keep(ovl_executor_t *x, ovl_runner_t *r) {
  x->keeper = r;
  r->trip.keeps = true;
  ovl_exec_catch_up(x, true);
  r->trip.told = 0;
}

uint64_t ovl_ahead_ended(const ovl_executor_t *x) {
  uint64_t ended = 0;
  for (uint32_t i = 0; i < x->ahead_count; i++)
    ended += atomic_load_explicit(&x->ahead[i].ended, memory_order_relaxed);
  return ended;
}

/* ---- coming back --------------------------------------------------------------------------------------------------- */

/* The core knows all that was noted. */
static bool is_known(const ovl_ahead_t *a) {
  return a->known_begun == atomic_load_explicit(&a->begun, memory_order_acquire) &&
         a->known_ended == atomic_load_explicit(&a->ended, memory_order_acquire);
}

/* No further step is taken there, unless somebody has taken it and only vacant ones are to be closed. */
static void close_lane(ovl_executor_t *x, ovl_ahead_t *a, bool vacant_only) {
  uint64_t word = atomic_load_explicit(&a->meeting, memory_order_relaxed);
  do {
    if (vacant_only && (word & TAKEN))
      return;
  } while (!atomic_compare_exchange_weak_explicit(&a->meeting, &word, word & ~(OPEN | TAKEN),
                                                  memory_order_acq_rel, memory_order_relaxed));
  for (unsigned turn = 0; atomic_load_explicit(&a->noted, memory_order_acquire) != word / STEP; turn++)
    ovl_lock_wait(turn); /* somebody has taken the last of them and is about to note it */
  while (!is_known(a))
    ovl_ahead_catch_up(x);
  a->open = false;
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  atomic_store_explicit(&x->ahead_open, open - 1, memory_order_relaxed);
  ovl_core_hold_lane(&x->core, a->lane, false);
}

static void close_lanes(ovl_executor_t *x, bool vacant_only) {
  for (uint32_t i = 0; i < x->ahead_count; i++)
    if (x->ahead[i].open)
      close_lane(x, &x->ahead[i], vacant_only);
}

void ovl_ahead_stop(ovl_executor_t *x, ovl_runner_t *r) {
  ovl_trip_t *t = &r->trip;
  if (t->on == NULL)
    return;
  bool has_it =
      (t->meeting & TAKEN) && atomic_load_explicit(&t->on->meeting, memory_order_relaxed) == t->meeting;
  if (has_it)
    close_lane(x, t->on, false);
  t->on = NULL;
  if (x->keeper == r)
    x->keeper = NULL;
}

void ovl_ahead_leave_vacant(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0)
    close_lanes(x, true);
}

void ovl_ahead_call_back(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0)
    close_lanes(x, false);
}

bool ovl_ahead_takes_long(const ovl_executor_t *x, uint64_t now, uint64_t brief) {
  for (uint32_t i = 0; i < x->ahead_count; i++) {
    const ovl_ahead_t *a = &x->ahead[i];
    const ovl_core_op_t *op = ovl_core_op_at(&x->core, a->known_ended, a->stage);
    if (a->open && a->known_begun > a->known_ended && now > op->started && now - op->started > brief)
      return true;
  }
  return false;
}

void ovl_ahead_heed(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0 && ends_concern_others(x))
    ovl_ahead_call_back(x);
}
