/* SPDX-License-Identifier: MIT */
/* What can go ahead, setting out, and the side of whoever has the lock. Only the core decides what is an error, and it is
 * told everything. */
#include "exec/ahead.h"

#include "exec/executor.h"

#define LATE 24u      /* ops of a lane by which the core may be late, about, */
#define LEAST_LATE 4u /* and microbatches at least */

/* ---- what it is for ------------------------------------------------------------------------------------------------ */

static bool is_plain(const ovl_stage_hooks_t *stage) {
  return stage->cancel == NULL && stage->timeout_ns == 0;
}

static bool is_lane_for_it(const ovl_lane_desc_t *lane, const ovl_lane_hooks_t *hooks) {
  return lane->kind == OVL_LANE_POOL && lane->width == 1 && !lane->fixed && !lane->silent &&
         hooks->poll == NULL;
}

static uint32_t stages_on(const ovl_description_t *d, uint32_t lane) {
  uint32_t on_lane = 0;
  for (uint32_t s = 0; s < d->stage_count; s++)
    on_lane += d->stages[s].lane == lane;
  return on_lane;
}

static bool can_go_ahead(const ovl_description_t *d, const ovl_stage_hooks_t *stages,
                         const ovl_lane_hooks_t *lanes) {
  uint32_t on_first = d->stage_count > 0 ? stages_on(d, d->stages[0].lane) : 0;
  if (d->stage_count == on_first || d->dependency_count > 0) /* one runner does it all */
    return false;
  for (uint32_t s = 0; s < d->stage_count; s++) {
    uint32_t lane = d->stages[s].lane;
    if (!is_lane_for_it(&d->lanes[lane], &lanes[lane]) || !is_plain(&stages[s]) ||
        (s > 0 && !d->stages[s].chained))
      return false;
  }
  return true;
}

uint32_t ovl_ahead_rows(const ovl_description_t *d, const ovl_stage_hooks_t *stages,
                        const ovl_lane_hooks_t *lanes) {
  if (!can_go_ahead(d, stages, lanes))
    return d->window;
  uint32_t most = 1;
  for (uint32_t l = 0; l < d->lane_count; l++) {
    uint32_t on_lane = stages_on(d, l);
    most = on_lane > most ? on_lane : most;
  }
  uint32_t late = LATE / most > LEAST_LATE ? LATE / most : LEAST_LATE;
  return d->window <= UINT32_MAX - late ? d->window + late : d->window;
}

static int init_stage(ovl_executor_t *x, uint32_t number, bool asked) {
  const ovl_plan_t *plan = x->core.plan;
  ovl_ahead_stage_t *s = &x->ahead_stages[number];
  s->source = &x->ahead_stages[number > 0 ? number - 1 : plan->stage_count - 1];
  s->lead = number > 0 ? 0 : plan->window;
  s->number = number;
  if (asked)
    s->ended_at = ovl_memory_array(&x->memory, plan->rows, sizeof *s->ended_at);
  return asked && s->ended_at == NULL ? OVL_ENOMEM : 0;
}

static uint32_t plan_stages_on(const ovl_plan_t *plan, uint32_t lane) {
  return plan->lane_first[lane + 1] - plan->lane_first[lane];
}

/* When ops of a stage ended is asked on the lane of the next one, where that chooses among several. */
static int init_stages(ovl_executor_t *x) {
  const ovl_plan_t *plan = x->core.plan;
  for (uint32_t s = 0; s < plan->stage_count; s++) {
    uint32_t next = s + 1 < plan->stage_count ? s + 1 : 0;
    int r = init_stage(x, s, plan_stages_on(plan, plan->stages[next].lane) > 1);
    if (r != 0)
      return r;
  }
  return 0;
}

static int init_lane(ovl_executor_t *x, uint32_t lane) {
  const ovl_plan_t *plan = x->core.plan;
  uint32_t stages = plan_stages_on(plan, lane);
  size_t notes = 1, ops;
  if (__builtin_mul_overflow(stages, plan->rows, &ops) || ops > SIZE_MAX / 2)
    return OVL_ETOOBIG;
  while (notes < ops)
    notes *= 2;
  x->ahead_used += stages > 0;
  x->ahead[lane] = (ovl_ahead_lane_t){.notes = ovl_memory_array(&x->memory, notes, sizeof *x->ahead->notes),
                                      .note_mask = notes - 1,
                                      .stages = &plan->lane_stages[plan->lane_first[lane]],
                                      .stage_count = stages};
  return x->ahead[lane].notes == NULL ? OVL_ENOMEM : 0;
}

int ovl_ahead_init(ovl_executor_t *x) {
  const ovl_plan_t *plan = x->core.plan;
  uint32_t ops;
  if (plan->rows == plan->window)
    return 0;
  if (__builtin_mul_overflow(plan->stage_count, plan->rows, &ops))
    return OVL_ETOOBIG;
  x->ahead = ovl_memory_array(&x->memory, plan->lane_count, sizeof *x->ahead);
  x->ahead_stages = ovl_memory_array(&x->memory, plan->stage_count, sizeof *x->ahead_stages);
  if (x->ahead == NULL || x->ahead_stages == NULL)
    return OVL_ENOMEM;
  x->ahead_count = plan->lane_count;
  int r = init_stages(x);
  for (uint32_t l = 0; r == 0 && l < plan->lane_count; l++)
    r = init_lane(x, l);
  return r;
}

void ovl_ahead_finish(ovl_executor_t *x) {
  for (uint32_t l = 0; l < x->ahead_count; l++)
    ovl_memory_free(&x->memory, x->ahead[l].notes);
  for (uint32_t s = 0; x->ahead_stages != NULL && s < x->core.plan->stage_count; s++)
    ovl_memory_free(&x->memory, x->ahead_stages[s].ended_at);
  ovl_memory_free(&x->memory, x->ahead_stages);
  ovl_memory_free(&x->memory, x->ahead);
}

void ovl_ahead_begin(ovl_executor_t *x) {
  for (uint32_t l = 0; l < x->ahead_count; l++) {
    ovl_ahead_lane_t *a = &x->ahead[l];
    a->known_begun = a->known_ended = a->seen_begun = a->seen_ended = 0;
    ovl_count_set(&a->meeting, 0);
    ovl_count_set(&a->begun, 0);
    ovl_count_set(&a->noted, 0);
  }
  for (uint32_t s = 0; x->ahead_count > 0 && s < x->core.plan->stage_count; s++) {
    ovl_count_set(&x->ahead_stages[s].begun, 0);
    ovl_count_set(&x->ahead_stages[s].ended, 0);
    ovl_count_set(&x->ahead_stages[s].seen, 0);
  }
  atomic_store_explicit(&x->keeper, NULL, memory_order_relaxed);
  x->ahead_known = 0;
  ovl_count_set(&x->ahead_allowed, 0);
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

/* Lets ops of microbatches to come begin, as far as rows are free: nobody looks any more at what the ops that were there
 * showed their callbacks, and who reads this count (may_begin) may write there. */
static void allow(ovl_executor_t *x) {
  uint64_t until = x->core.tally.retired + x->core.plan->rows;
  if (until > x->core.count)
    until = x->core.count;
  if (atomic_load_explicit(&x->ahead_allowed, memory_order_relaxed) < until)
    atomic_store_explicit(&x->ahead_allowed, until, memory_order_release);
}

static bool may_go(const ovl_executor_t *x, const ovl_runner_t *r) {
  return x->ahead_count > 0 && x->crew.by_state[OVL_RUNNER_WORKING] > 1 && x->core.count != OVL_STREAMING &&
         x->core.graph == &x->core.plan->graphs[OVL_OVERLAP] && x->core.faults == 0 && !is_wanted(x, r) &&
         !ends_concern_others(x);
}

/* From now on runners may take it without the lock. */
static void open_lane(ovl_executor_t *x, ovl_ahead_lane_t *a, bool taken) {
  uint64_t steps = atomic_load_explicit(&a->noted, memory_order_relaxed) + 1;
  a->open = true;
  atomic_store_explicit(&a->noted, steps, memory_order_relaxed);
  atomic_store_explicit(&a->meeting,
                        steps * OVL_MEETING_STEP + OVL_MEETING_OPEN + (taken ? OVL_MEETING_TAKEN : 0),
                        memory_order_release);
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  atomic_store_explicit(&x->ahead_open, open + 1, memory_order_relaxed);
  ovl_core_hold_lane(&x->core, (uint32_t)(a - x->ahead), true);
}

void ovl_ahead_go(ovl_executor_t *x, ovl_runner_t *r, const ovl_core_op_t *op) {
  r->trip.on = NULL;
  if (!may_go(x, r))
    return;
  if (ovl_ahead_is_keeper(x, NULL)) /* there is none */
    atomic_store_explicit(&x->keeper, &r->trip, memory_order_relaxed);
  r->calling = 0; /* the lane tells */
  allow(x);
  ovl_ahead_lane_t *own = &x->ahead[op->lane];
  open_lane(x, own, true);
  r->trip = (ovl_trip_t){.on = own,
                         .thread = r->thread,
                         .kept = x->ahead_known,
                         .meeting = atomic_load_explicit(&own->meeting, memory_order_relaxed),
                         .count = x->core.count,
                         .number = ovl_count_get(&own->begun) - 1,
                         .stage = &x->ahead_stages[op->stage],
                         .microbatch = ovl_core_op_microbatch(&x->core, op)};
  for (uint32_t i = 0; i < x->ahead_count; i++)
    if (x->ahead[i].stage_count > 0 && !x->ahead[i].open && ovl_core_running(&x->core, i) == 0)
      open_lane(x, &x->ahead[i], false);
}

/* ---- catching up --------------------------------------------------------------------------------------------------- */

void ovl_ahead_note_begin(ovl_executor_t *x, const ovl_core_op_t *op) {
  if (x->ahead_count == 0)
    return;
  ovl_ahead_lane_t *a = &x->ahead[op->lane];
  if (++a->known_begun <= a->seen_begun)
    return;
  ovl_ahead_note_at(a, a->known_begun - 1)->op = (uint32_t)(op - x->core.ops);
  a->seen_begun = a->known_begun;
  ovl_count_set(&x->ahead_stages[op->stage].begun, ovl_core_op_microbatch(&x->core, op) + 1);
  ovl_count_set(&a->begun, a->known_begun);
}

void ovl_ahead_note_end(ovl_executor_t *x, const ovl_core_op_t *op, uint64_t now) {
  if (x->ahead_count == 0)
    return;
  ovl_ahead_lane_t *a = &x->ahead[op->lane];
  ovl_ahead_stage_t *s = &x->ahead_stages[op->stage];
  if (++a->known_ended <= a->seen_ended) {
    x->ahead_known++;
    return;
  }
  a->seen_ended = a->known_ended;
  uint64_t microbatch = ovl_core_op_microbatch(&x->core, op);
  x->ahead_known += microbatch + 1 - ovl_count_get(&s->ended); /* those that were skipped, too */
  ovl_ahead_stage_ended(s, microbatch, x->core.plan->rows, now);
}

/* Of the lane's ops. The last of them may be in here before one that was missed, but is to be seen then, too. */
static uint64_t ended_on(const ovl_executor_t *x, const ovl_ahead_lane_t *a) {
  uint64_t ended = 0;
  for (uint32_t i = 0; i < a->stage_count; i++)
    ended += atomic_load_explicit(&x->ahead_stages[a->stages[i]].ended, memory_order_acquire);
  return ended;
}

/* Each count at its own moment: something may be seen before what it waited for, which is seen next time then. What will
 * be read of the notes is asked for first: their lines come one after another else. */
static void look(ovl_executor_t *x) {
  for (uint32_t i = 0; i < x->ahead_count; i++)
    for (uint32_t k = 0; k < OVL_AHEAD_OFTEN; k += 4)
      __builtin_prefetch(ovl_ahead_note_at(&x->ahead[i], x->ahead[i].known_ended + k));
  for (uint32_t i = 0; i < x->ahead_count; i++) {
    ovl_ahead_lane_t *a = &x->ahead[i];
    a->seen_ended = ended_on(x, a);
    a->seen_begun = atomic_load_explicit(&a->begun, memory_order_acquire);
  }
}

/* When the next thing happened there that the core does not know of and may be told; UINT64_MAX: there is none. */
static uint64_t next_event(const ovl_executor_t *x, const ovl_ahead_lane_t *a) {
  const ovl_ahead_note_t *note = ovl_ahead_note_at(a, a->known_ended);
  if (a->known_ended < a->known_begun)
    return a->known_ended < a->seen_ended ? note->ended : UINT64_MAX;
  bool begun = a->known_begun < a->seen_begun && x->core.ops[note->op].state == OVL_OP_READY;
  return begun ? note->began : UINT64_MAX;
}

static void tell_core(ovl_executor_t *x, const ovl_ahead_lane_t *a, uint64_t at) {
  const ovl_ahead_note_t *note = ovl_ahead_note_at(a, a->known_ended);
  ovl_core_op_t *op = &x->core.ops[note->op];
  if (a->known_ended == a->known_begun) {
    ovl_exec_start_shown(x, op, note->thread, at);
    return;
  }
  ovl_crowd_count(&x->crew.crowd, ovl_since(at, op->started), at);
  ovl_exec_call_returned(x, op, 0, at);
}

static bool tell_next(ovl_executor_t *x) {
  ovl_ahead_lane_t *first = NULL;
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
  atomic_store_explicit(&x->keeper, &r->trip, memory_order_relaxed);
  ovl_exec_catch_up(x, true);
  r->trip.told = 0;
  r->trip.kept = x->ahead_known;
}

uint64_t ovl_ahead_ended(const ovl_executor_t *x) {
  uint64_t ended = 0;
  for (uint32_t s = 0; x->ahead_count > 0 && s < x->core.plan->stage_count; s++)
    ended += ovl_count_get(&x->ahead_stages[s].ended);
  return ended;
}

/* ---- coming back --------------------------------------------------------------------------------------------------- */

/* The core knows all that was noted. */
static bool is_known(const ovl_executor_t *x, const ovl_ahead_lane_t *a) {
  return a->known_begun == atomic_load_explicit(&a->begun, memory_order_acquire) &&
         a->known_ended == ended_on(x, a);
}

/* No further step is taken there, unless somebody has taken it and only vacant ones are to be closed. */
static void close_lane(ovl_executor_t *x, ovl_ahead_lane_t *a, bool vacant_only) {
  uint64_t word = atomic_load_explicit(&a->meeting, memory_order_relaxed);
  do {
    if (vacant_only && (word & OVL_MEETING_TAKEN))
      return;
  } while (!atomic_compare_exchange_weak_explicit(&a->meeting, &word,
                                                  word & ~(OVL_MEETING_OPEN | OVL_MEETING_TAKEN),
                                                  memory_order_acq_rel, memory_order_relaxed));
  for (unsigned turn = 0; atomic_load_explicit(&a->noted, memory_order_acquire) != word / OVL_MEETING_STEP;
       turn++)
    ovl_lock_wait(turn); /* somebody has taken the last of them and is about to note it */
  while (!is_known(x, a))
    ovl_ahead_catch_up(x);
  a->open = false;
  unsigned open = atomic_load_explicit(&x->ahead_open, memory_order_relaxed);
  atomic_store_explicit(&x->ahead_open, open - 1, memory_order_relaxed);
  ovl_core_hold_lane(&x->core, (uint32_t)(a - x->ahead), false);
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
  bool has_it = (t->meeting & OVL_MEETING_TAKEN) &&
                atomic_load_explicit(&t->on->meeting, memory_order_relaxed) == t->meeting;
  if (has_it)
    close_lane(x, t->on, false);
  t->on = NULL;
  if (ovl_ahead_is_keeper(x, t))
    atomic_store_explicit(&x->keeper, NULL, memory_order_relaxed);
}

void ovl_ahead_leave_vacant(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0)
    close_lanes(x, true);
}

void ovl_ahead_call_back(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0)
    close_lanes(x, false);
}

/* Its callback, that is. The lane may have been closed meanwhile. */
static bool lasts_long(const ovl_executor_t *x, const ovl_ahead_lane_t *a, uint64_t now, uint64_t brief) {
  if (a->known_begun == a->known_ended)
    return false;
  const ovl_core_op_t *op = &x->core.ops[ovl_ahead_note_at(a, a->known_ended)->op];
  return (op->busy & OVL_BUSY_CALL) && ovl_since(now, op->started) > brief;
}

bool ovl_ahead_takes_long(const ovl_executor_t *x, uint64_t now, uint64_t brief) {
  for (uint32_t i = 0; i < x->ahead_count; i++)
    if (lasts_long(x, &x->ahead[i], now, brief))
      return true;
  return false;
}

void ovl_ahead_heed(ovl_executor_t *x) {
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0 && ends_concern_others(x))
    ovl_ahead_call_back(x);
}
