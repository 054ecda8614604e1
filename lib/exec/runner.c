/* SPDX-License-Identifier: MIT */
/* A runner: how it comes and leaves, what it does with nothing to do, and how it goes from op to op. When it asks for a
 * relief, and how long it stays, is told in crew.c. */
#include <sched.h>

#include "exec/crew.h"
#include "exec/process.h"

#define AT_ONCE_NS UINT64_C(1000000) /* from being queued to having a thread, where one was free */
#define LOOK_NS \
  UINT64_C(1000000) /* how often a busy runner looks on which processor it is, and how ops go on */
#define SOON_NS UINT64_C(50000)        /* the same while it is learning that */
#define WAITS_EVERY 8                  /* later, counts of the system, which cost more, are read so seldom */
#define LONG_NS UINT64_C(20000000)     /* an op that takes longer is not taken for one that computes */
#define OVERDUE_NS UINT64_C(30000)     /* a runner that was called should be there by then */
#define ASK_APART_NS UINT64_C(2000000) /* a relief that finds a thread to spare does so by then, as a rule */
#define SHORT_PAUSE_NS UINT64_C(20000) /* pauses between polls up to this are spun, not slept */

/* The lock again, with what has happened meanwhile. */
static void rejoin(ovl_executor_t *x) {
  ovl_lock(&x->lock);
  ovl_exec_catch_up(x, true);
}

/* Who was called and does not come may have been put on this processor, where it waits for a long time. */
static uint64_t make_way(ovl_executor_t *x) {
  x->called = 0;
  ovl_unlock(&x->lock);
  sched_yield();
  rejoin(x);
  return ovl_clock_now(&x->clock);
}

/* ---- a runner's turn --------------------------------------------------------------------------------------- */

static void drop_relief(ovl_crew_t *crew, ovl_runner_t *r) {
  if (r->asked) {
    r->asked = false;
    crew->asking--;
  }
  if (r->leave_at == 0)
    return;
  r->leave_at = 0;
  crew->leaving--;
  for (uint32_t i = 0; i < crew->count; i++)
    if (crew->runners[i].relief_of == r)
      crew->runners[i].relief_of = NULL;
}

/* The one that this came to relieve still has its thread, and nobody has given one up for it: the pool has one to
 * spare, so both may stay. */
static void spare(ovl_crew_t *crew, ovl_runner_t *relieved, uint64_t now) {
  drop_relief(crew, relieved);
  for (uint32_t i = 0; i < crew->count; i++) /* which is true for them all */
    crew->runners[i].since = now;
  ovl_crew_set_turn(crew, true);
}

/* How soon it has a thread, after a call that came soon after another had given one back. */
static void learn_to_stay(ovl_crew_t *crew, ovl_runner_t *r, uint64_t now) {
  if (r->called_back == 0)
    return;
  bool at_once = now - r->called_back < AT_ONCE_NS;
  r->called_back = 0;
  if (at_once && crew->park_ns < OVL_MOST_PARK_NS)
    crew->park_ns *= 2;
  if (at_once)
    return;
  if (crew->park_ns > OVL_PARK_NS)
    crew->park_ns /= 2;
  if (crew->turn_ns > OVL_TURN_NS) /* it had stayed for that */
    ovl_crew_set_turn(crew, false);
}

/* False: it came as a relief, and is one too many. */
static bool arrive(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  ovl_crew_t *crew = &x->crew;
  ovl_runner_t *relieved = r->relief_of;
  ovl_crew_set_state(crew, r, OVL_RUNNER_WORKING);
  x->called = 0;
  learn_to_stay(crew, r, now);
  r->relief_of = NULL;
  r->since = now;
  r->lane = OVL_NO_LANE;
  r->thread = ovl_thread_number();
  crew->on_thread++;
  bool given_up = crew->owed > 0;
  crew->owed -= given_up;
  if (relieved != NULL) { /* still has its thread: one that leaves has no relief any more */
    ovl_runner_t *other = given_up ? ovl_crew_find_queued(crew) : NULL;
    if (other != NULL) { /* this has the thread of one that left for the other: they change places */
      other->relief_of = relieved;
    } else {
      spare(crew, relieved, now);
      if (ovl_crew_live(crew) > crew->size || ovl_crew_work(x) <= ovl_crew_looking(crew))
        return false;
    }
  }
  if (crew->on_thread > crew->peak)
    crew->peak = crew->on_thread;
  return true;
}

static void leave(ovl_executor_t *x, ovl_runner_t *r) {
  ovl_crew_t *crew = &x->crew;
  crew->owed += r->leave_at != 0;
  drop_relief(crew, r);
  ovl_crew_set_state(crew, r, OVL_RUNNER_LEFT);
  crew->on_thread--;
  ovl_exec_follow_up(x, false);
}

static bool turn_is_over(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  if (r->leave_at != 0) {
    bool over = now >= r->leave_at;
    if (over) { /* others do wait for threads */
      ovl_crew_set_turn(&x->crew, false);
      x->crew.park_ns = OVL_PARK_NS;
    }
    return over;
  }
  bool others_asked = x->crew.turn_ns > OVL_TURN_NS && now < x->crew.asked_at + ASK_APART_NS;
  if (now >= r->since + x->crew.turn_ns && !r->asked && !others_asked) {
    r->asked = true;
    x->crew.asked_at = now;
    x->crew.asking++;
    if (!x->draining)
      ovl_loop_wake(x);
  }
  return false;
}

/* ---- a runner with nothing to do --------------------------------------------------------------------------- */

/* Watches the hint, and who goes ahead, for at most `ns`; after some time it lets others run, who may have more to do. */
static void spin(ovl_executor_t *x, ovl_runner_t *r, uint64_t now, uint64_t ns, uint64_t yields_after) {
  uint64_t known = x->ahead_known;
  ovl_crew_set_state(&x->crew, r, OVL_RUNNER_SPINNING);
  atomic_store_explicit(&x->hint, x->crew.dismissed ? 1 : ovl_crew_work(x), memory_order_relaxed);
  ovl_unlock(&x->lock);
  uint64_t spun = 0;
  do {
    if (spun > yields_after)
      sched_yield();
    for (int i = 0; i < 16; i++) {
      if (atomic_load_explicit(&x->hint, memory_order_relaxed) != 0 || ovl_ahead_ended(x) != known)
        goto look;
      ovl_pause();
    }
    spun = ovl_clock_now(&x->clock) - now;
  } while (spun < ns && !ovl_process_exits());
look:
  ovl_lock(&x->lock);
  ovl_crew_set_state(&x->crew, r, OVL_RUNNER_WORKING); /* before it follows up: it takes one op itself */
  ovl_exec_catch_up(x, true);
}

static void sleep_until_called(ovl_runner_t *r, uint64_t ns) {
  int waited = 0;
  uv_mutex_lock(&r->mutex);
  while (!r->called && waited == 0)
    waited = uv_cond_timedwait(&r->cond, &r->mutex, ns);
  uv_mutex_unlock(&r->mutex);
}

static void remove_parked(ovl_crew_t *crew, ovl_runner_t *r) {
  ovl_runner_t **at = &crew->parked;
  while (*at != r)
    at = &(*at)->next_parked;
  *at = r->next_parked;
}

/* Sleeps for at most `ns`. */
static void park(ovl_executor_t *x, ovl_runner_t *r, uint64_t ns) {
  r->called = false; /* nobody calls one that is not parked */
  ovl_crew_set_state(&x->crew, r, OVL_RUNNER_PARKED);
  r->next_parked = x->crew.parked;
  x->crew.parked = r;
  ovl_unlock(&x->lock);
  ovl_spread_idle(&r->spot);
  sleep_until_called(r, ns);
  ovl_spread_busy(&r->spot);
  rejoin(x);
  if (r->state == OVL_RUNNER_PARKED)
    remove_parked(&x->crew, r);
  else
    x->called = 0;
  ovl_crew_set_state(&x->crew, r, OVL_RUNNER_WORKING);
}

/* Waits until the claimed lane is due, and polls it; unless an op turns up, or a pause is so long that the
 * runner should look between whether it is to leave. */
static void attend(ovl_executor_t *x, ovl_runner_t *r, uint32_t index, uint64_t now) {
  ovl_exec_lane_t *lane = &x->lanes[index];
  uint64_t pause = lane->next_poll > now ? lane->next_poll - now : 0;
  bool in_parts = pause > OVL_PARK_NS;
  if (pause > SHORT_PAUSE_NS)
    park(x, r, in_parts ? OVL_PARK_NS : pause);
  else if (pause > 0)
    spin(x, r, now, pause, pause);
  if (x->core.startable[OVL_LANE_POOL] == 0 && !x->crew.dismissed && !in_parts)
    ovl_poll_lane(x, index);
  lane->attended = false;
  ovl_crew_summon(x, true);
}

/* How long one with nothing to do keeps its thread: until its turn is over, where the pool has threads to spare. */
static uint64_t idle_time(const ovl_executor_t *x, const ovl_runner_t *r) {
  uint64_t now = ovl_clock_now(&x->clock), end = r->since + x->crew.turn_ns;
  bool spare = x->crew.turns_grew && !r->asked && r->leave_at == 0;
  return spare && end > now + x->crew.park_ns ? end - now : x->crew.park_ns;
}

/* At the end of a run: the others will do what is left. */
static bool is_done(const ovl_executor_t *x) {
  return x->poll_lane_count == 0 && ovl_core_places_left(&x->core) < x->crew.by_state[OVL_RUNNER_WORKING];
}

static uint64_t spin_time(const ovl_executor_t *x, const ovl_runner_t *r) {
  bool first = r->lane == OVL_NO_LANE && x->core.tally.ops == 0;
  return first && x->crew.first_spin_ns > x->spin_ns ? x->crew.first_spin_ns : x->spin_ns;
}

/* Waits for work in ever cheaper ways. False: it has waited enough and should give its thread back. */
static bool rest(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  uint32_t lane = ovl_poll_claim(x, OVL_LANE_POOL, now, false);
  if (lane != OVL_NO_LANE) {
    attend(x, r, lane, now);
    return true;
  }
  if (r->leave_at != 0 || is_done(x))
    return false;
  if (x->spin_ns > 1)
    spin(x, r, now, spin_time(x, r), x->spin_ns);
  if (ovl_crew_work(x) == 0) {
    ovl_ahead_call_back(x); /* from now on somebody has to be called */
    ovl_exec_follow_up(x, true);
  }
  if (ovl_crew_work(x) == 0 && !x->crew.dismissed) {
    park(x, r, idle_time(x, r));
    if (r->called) /* if not for an op, then to stand by */
      return true;
  }
  if (ovl_crew_work(x) > 0)
    return true;
  x->crew.left_idle = ovl_clock_now(&x->clock);
  return false;
}

/* ---- a runner too many ------------------------------------------------------------------------------------------ */

/* Some op takes longer than those that were looked at. */
static bool takes_long(const ovl_executor_t *x, uint64_t now) {
  for (uint32_t i = 0; i < x->crew.count; i++)
    if (x->crew.runners[i].calling != 0 && ovl_since(now, x->crew.runners[i].calling) > OVL_CROWD_BRIEF_NS)
      return true;
  return ovl_ahead_takes_long(x, now, OVL_CROWD_BRIEF_NS);
}

/* It is one too many, itself counted. */
static bool is_surplus(const ovl_crew_t *crew, uint64_t now) {
  return ovl_crowd_is_full(&crew->crowd, ovl_crew_busy(crew) - 1, now);
}

/* Sleeps, and then looks whether the others get on. If it goes to work itself, nobody stands by, and those who were not
 * called meanwhile may be needed. */
static void stand_by(ovl_executor_t *x, ovl_runner_t *r) {
  ovl_crew_t *crew = &x->crew;
  crew->crowd.stands_by = true;
  park(x, r, OVL_CROWD_STAND_BY_NS);
  crew->crowd.stands_by = false;
  uint64_t now = ovl_clock_now(&x->clock);
  if (takes_long(x, now))
    ovl_crowd_lift(&crew->crowd, now);
  ovl_ahead_heed(x);
  if (!is_surplus(crew, now))
    ovl_crew_summon(x, true);
}

/* Somebody stands by already. True: that is not so any more, or it was called. */
static bool sleep_as_surplus(ovl_executor_t *x, ovl_runner_t *r) {
  if (r->leave_at != 0)
    return false;
  park(x, r, x->crew.park_ns);
  return r->called || !x->crew.crowd.stands_by || !is_surplus(&x->crew, ovl_clock_now(&x->clock));
}

static void poll_if_due(ovl_executor_t *x, uint64_t now) {
  if (x->poll_lane_count == 0)
    return;
  uint32_t lane = ovl_poll_claim(x, OVL_LANE_POOL, now, true);
  if (lane != OVL_NO_LANE) {
    ovl_poll_lane(x, lane);
    x->lanes[lane].attended = false;
    ovl_crew_summon(x, true); /* ops of the lane may have become ready while it was held */
  }
}

/* A lane whose callbacks only begin something comes first: what they begin goes on while this runner does something
 * else, and to wake another one for them takes longer than they do. Then the lane of the last op. */
static uint32_t preferred_lane(const ovl_executor_t *x, const ovl_runner_t *r) {
  for (uint32_t l = 0; x->launch_lanes > 0 && l < x->core.plan->lane_count; l++)
    if (x->lanes[l].launches && x->core.lanes[l].startable > 0 &&
        x->core.plan->lanes[l].kind == OVL_LANE_POOL)
      return l;
  return r->lane;
}

/* If it can, until its turn is over; where it has asked already, it asks no more in another. */
static void go_ahead(ovl_executor_t *x, ovl_runner_t *r, const ovl_core_op_t *op) {
  r->stop_at = (r->asked ? r->spotted : r->since) + x->crew.turn_ns;
  ovl_ahead_go(x, r, op);
}

static bool others_have_ops(const ovl_executor_t *x, const ovl_runner_t *r) {
  const ovl_crew_t *crew = &x->crew;
  if (crew->by_state[OVL_RUNNER_WORKING] < 2)
    return false;
  if (atomic_load_explicit(&x->ahead_open, memory_order_relaxed) > 0)
    return true;
  for (uint32_t i = 0; i < crew->count; i++)
    if (&crew->runners[i] != r && crew->runners[i].calling != 0)
      return true;
  return false;
}

/* The runner's next op, started; NULL: it should leave. */
static ovl_core_op_t *next_op(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  while (!x->crew.dismissed && !ovl_process_exits() && !turn_is_over(x, r, now)) {
    if (is_surplus(&x->crew, now)) {
      if (!x->crew.crowd.stands_by)
        stand_by(x, r);
      else if (!sleep_as_surplus(x, r))
        return NULL;
      now = ovl_clock_now(&x->clock);
      continue;
    }
    poll_if_due(x, now);
    ovl_ahead_leave_vacant(x);
    uint32_t lane = ovl_core_pick_lane(&x->core, OVL_LANE_POOL, preferred_lane(x, r));
    if (lane != OVL_NO_LANE) {
      ovl_core_op_t *op = ovl_exec_start_next(x, lane, r->thread, now);
      r->lane = lane;
      r->calling = op->started;
      x->crew.two_worked = x->crew.two_worked || others_have_ops(x, r);
      go_ahead(x, r, op);
      if (x->crew.waiting_since != 0)
        ovl_crew_account_waiting(&x->crew, ovl_crew_work(x) > ovl_crew_looking(&x->crew), x->core.now);
      return op;
    }
    if (!rest(x, r, now))
      return NULL;
    now = ovl_clock_now(&x->clock);
  }
  return NULL;
}

/* The kernel may have moved it, or another one, so that two of them share a processor. Ops that take very long leave
 * the kernel time to see that, and most of them do not compute but wait. */
static void look_around(ovl_runner_t *r, uint64_t started, uint64_t now) {
  if (r->looked_at || now - r->spotted < r->look_ns)
    return;
  r->spotted = now;
  uint64_t took = ovl_since(now, started);
  bool learns = r->look_ns < LOOK_NS && took < OVL_CROWD_BRIEF_NS; /* longer ones have said enough */
  r->looked_at = learns || ++r->looks % WAITS_EVERY == 0;          /* the next op */
  if (took < LONG_NS)
    ovl_spread_busy(&r->spot);
  else
    ovl_spread_idle(&r->spot);
}

/* ---- from op to op ------------------------------------------------------------------------------------------------ */

/* An op that was called, and is to be reported. */
typedef struct ovl_call {
  ovl_core_op_t *op; /* NULL: there is none, all have been noted */
  int result;
  uint64_t started, ended;
  bool looked_at;
  uint64_t waits_before, waits_after; /* where it was looked at, see ovl_crowd_note */
} ovl_call_t;

static bool may_go_on(const ovl_runner_t *r, uint64_t now) {
  return !r->looked_at && now < r->stop_at && !ovl_process_exits();
}

/* Its lane has no op that may begin: waits for one, until `*now`. NULL: it should see what else there is to do. */
static ovl_core_op_t *wait_ahead(ovl_executor_t *x, ovl_runner_t *r, uint64_t *now) {
  ovl_trip_t *t = &r->trip;
  ovl_core_op_t *op = NULL;
  uint64_t since = *now;
  while (op == NULL && ovl_ahead_may_wait(x, t) && may_go_on(r, *now) && *now - since < x->spin_ns) {
    if (ovl_ahead_has_to_keep(x, t, *now - since) && ovl_try_lock(&x->lock)) {
      ovl_ahead_keep(x, r);
      ovl_unlock(&x->lock);
    }
    ovl_pause();
    *now = ovl_clock_now(&x->clock);
    op = ovl_ahead_find(x, t, *now);
  }
  return op;
}

/* Calls op, and those after it that the runner may begin without the lock. */
static ovl_call_t call_ops(ovl_executor_t *x, ovl_runner_t *r, ovl_core_op_t *op, uint64_t started) {
  ovl_call_t call = {.op = op, .started = started, .looked_at = r->looked_at};
  if (call.looked_at)
    call.waits_before = ovl_crowd_waits();
  r->looked_at = false;
  do {
    call.result = ovl_exec_call_op(x, call.op);
    call.ended = ovl_clock_now(&x->clock); /* and the start of the next */
    look_around(r, call.started, call.ended);
    if (call.result != 0 || r->trip.on == NULL || !may_go_on(r, call.ended) ||
        !ovl_ahead_pass(x, &r->trip, call.ended, &call.op))
      break;
    call.started = call.ended;
    if (call.op == NULL)
      call.op = wait_ahead(x, r, &call.started);
    call.ended = call.started;
  } while (call.op != NULL);
  if (call.looked_at)
    call.waits_after = ovl_crowd_waits();
  return call;
}

static void report(ovl_executor_t *x, ovl_runner_t *r, const ovl_call_t *call) {
  uint64_t took = ovl_since(call->ended, call->started);
  r->calling = 0;
  ovl_crowd_count(&x->crew.crowd, took, call->ended);
  if (call->looked_at) {
    ovl_crowd_note(&x->crew.crowd, took, call->waits_before, call->waits_after);
    r->look_ns = ovl_crowd_is_settled(&x->crew.crowd) ? LOOK_NS : SOON_NS;
  }
  ovl_exec_call_returned(x, call->op, call->result, call->ended);
}

/* Somebody was called and is overdue; or, where an op waits for that, will be before this looks again. */
static bool is_awaited(const ovl_executor_t *x, const ovl_call_t *last) {
  bool by_op = x->crew.waiting_since != 0 || x->crew.by_state[OVL_RUNNER_WOKEN] > 0;
  uint64_t looks_again = by_op ? last->ended + (last->ended - last->started) : last->ended;
  return x->called != 0 && looks_again >= x->called + OVERDUE_NS;
}

/* From an op that has been started to the next one, or NULL. Drops the lock meanwhile. */
static ovl_core_op_t *work(ovl_executor_t *x, ovl_runner_t *r, ovl_core_op_t *op) {
  uint64_t started = op->started;
  ovl_unlock(&x->lock);
  ovl_call_t call = call_ops(x, r, op, started);
  ovl_lock(&x->lock);
  ovl_ahead_catch_up(x);
  ovl_ahead_stop(x, r);
  if (call.op != NULL)
    report(x, r, &call);
  ovl_exec_follow_up(x, true);
  return next_op(x, r, is_awaited(x, &call) ? make_way(x) : call.ended);
}

void ovl_runner_main(uv_work_t *request) {
  ovl_runner_t *r = (ovl_runner_t *)(void *)request;
  ovl_executor_t *x = r->executor;
  bool before = ovl_callback_enter();
  ovl_spread_busy(&r->spot);
  rejoin(x);
  if (x->crew.by_state[OVL_RUNNER_QUEUED] > 1)
    make_way(x);
  uint64_t now = ovl_clock_now(&x->clock);
  ovl_core_op_t *op = NULL;
  if (x->phase == OVL_EXEC_RUNNING)  /* time stands still after the run */
    ovl_core_advance(&x->core, now); /* for whoever waited for this thread */
  if (arrive(x, r, now)) {
    ovl_exec_follow_up(x, true); /* one was queued fewer: perhaps there is work for another */
    op = next_op(x, r, now);
  }
  while (op != NULL)
    op = work(x, r, op);
  ovl_spread_idle(&r->spot);
  leave(x, r);
  ovl_unlock(&x->lock);
  ovl_callback_leave(before);
}
