/* SPDX-License-Identifier: MIT */
/* The crew: pool threads that serve a run's pool lanes, each one uv_queue_work item.
 *
 * A runner takes any startable op of any pool lane, runs it, reports to the core itself and takes the next;
 * it does not go back to the loop between ops. With nothing to do it spins for spin_ns, sleeps for PARK_NS, and
 * then gives its thread back, so a run that waits holds no thread for long. Only the loop may queue work, so ready
 * ops that find no runner wake the loop. Where one is called back soon after it left, and gets a thread at once, it
 * left too early, and nobody was better off: sleeps may last twice as long from now on, up to MOST_PARK_NS. Where
 * turns have grown (below), they last until the turn is over.
 *
 * Only so many are queued at a time as have a thread already (at least two): if the pool has threads, the crew
 * doubles in no time, and if it has none, others need not wait behind a long row of runners.
 *
 * A busy runner must not keep its thread for ever either: others have work queued behind it. After a turn, of
 * TURN_NS at first, it asks the loop for a relief, which goes to the back of libuv's queue. If the relief gets
 * a thread while the one it relieves still has its own, then the pool had a thread to spare and nobody was kept
 * waiting: the relief leaves again, and turns may last twice as long from now on, up to MOST_TURN_NS. Otherwise
 * the runner leaves GRACE_NS later, at the end of an op, the relief comes when all that was queued before it
 * has had its turn, and turns are short again.
 *
 *   FREE -> QUEUED -> WORKING <-> SPINNING
 *                     WORKING -> PARKED -> WOKEN -> WORKING
 *                     WORKING -> LEFT -> FREE            (QUEUED -> FREE when taken back at the end)  */
#include <sched.h>
#include <string.h>

#include "exec/executor.h"
#include "exec/process.h"

#define TURN_NS UINT64_C(10000000)
#define MOST_TURN_NS UINT64_C(80000000)
#define GRACE_NS UINT64_C(200000)
#define PARK_NS UINT64_C(2000000)
#define MOST_PARK_NS UINT64_C(16000000)
#define AT_ONCE_NS UINT64_C(1000000) /* from being queued to having a thread, where one was free */
#define LOOK_NS \
  UINT64_C(1000000) /* how often a busy runner looks on which processor it is, and how ops go on */
#define SOON_NS UINT64_C(50000)        /* the same while it is learning that */
#define LONG_NS UINT64_C(20000000)     /* an op that takes longer is not taken for one that computes */
#define OVERDUE_NS UINT64_C(30000)     /* a runner that was called should be there by then */
#define SHORT_PAUSE_NS UINT64_C(20000) /* pauses between polls up to this are spun, not slept */

static void set_state(ovl_crew_t *crew, ovl_runner_t *r, ovl_runner_state_t state) {
  crew->by_state[r->state]--;
  crew->by_state[state]++;
  r->state = state;
  uint32_t working = crew->by_state[OVL_RUNNER_WORKING];
  if (atomic_load_explicit(&crew->working, memory_order_relaxed) != working)
    atomic_store_explicit(&crew->working, working, memory_order_relaxed);
}

/* ---- how many are wanted, how many are there ------------------------------------------------------------ */

/* Runners that could be busy right now: startable ops, and lanes that want polling. */
static uint32_t work_count(const ovl_executor_t *x) {
  return x->core.startable[OVL_LANE_POOL] + ovl_poll_unattended(x);
}

/* Runners that have a thread and will look for work without being called. */
static uint32_t looking(const ovl_crew_t *crew) {
  return crew->by_state[OVL_RUNNER_SPINNING] + crew->by_state[OVL_RUNNER_WOKEN];
}

/* Runners that want a processor. */
static uint32_t busy(const ovl_crew_t *crew) { return crew->by_state[OVL_RUNNER_WORKING] + looking(crew); }

static uint32_t live(const ovl_crew_t *crew) {
  return crew->count - crew->by_state[OVL_RUNNER_FREE] - crew->by_state[OVL_RUNNER_LEFT] - crew->leaving;
}

static bool may_queue(const ovl_crew_t *crew) {
  uint32_t most = crew->on_thread > 2 ? crew->on_thread : 2;
  return live(crew) < crew->size && crew->by_state[OVL_RUNNER_QUEUED] < most;
}

/* Time in which work that could start found nobody with a thread. */
static void account_waiting(ovl_crew_t *crew, bool waiting, uint64_t now) {
  if (waiting && crew->waiting_since == 0)
    crew->waiting_since = now;
  if (!waiting && crew->waiting_since != 0) {
    crew->wait_ns += now - crew->waiting_since;
    crew->waiting_since = 0;
  }
}

/* ---- calling runners ------------------------------------------------------------------------------------- */

static void wake_parked(ovl_crew_t *crew) {
  ovl_runner_t *r = crew->parked;
  crew->parked = r->next_parked;
  set_state(crew, r, OVL_RUNNER_WOKEN);
  uv_mutex_lock(&r->mutex);
  r->called = true;
  uv_cond_signal(&r->cond);
  uv_mutex_unlock(&r->mutex);
}

/* Nobody is called while enough are busy and one stands by: it sees to it if they are not. */
static bool are_enough(const ovl_crew_t *crew, uint64_t now) {
  return crew->crowd.stands_by && ovl_crowd_is_full(&crew->crowd, busy(crew), now);
}

bool ovl_crew_may_call(const ovl_crew_t *crew, uint64_t now) {
  return (crew->parked != NULL || live(crew) < crew->size) && !are_enough(crew, now);
}

void ovl_crew_summon(ovl_executor_t *x, bool self) {
  ovl_crew_t *crew = &x->crew;
  uint32_t work = work_count(x), coming = looking(crew) + self;
  if (crew->by_state[OVL_RUNNER_SPINNING] > 0)
    atomic_store_explicit(&x->hint, work, memory_order_relaxed);
  if (work > coming && are_enough(crew, x->core.now))
    return;
  for (; work > coming && crew->parked != NULL; coming++) {
    wake_parked(crew);
    x->called = x->core.now;
  }
  account_waiting(crew, work > coming, x->core.now);
  if (work > coming + crew->by_state[OVL_RUNNER_QUEUED] && may_queue(crew)) {
    crew->short_handed = true;
    if (!x->draining)
      ovl_loop_wake(x);
  }
}

static void after_work(uv_work_t *work, int status);
static void runner_main(uv_work_t *work);

static ovl_runner_t *find_free(const ovl_crew_t *crew) {
  if (crew->by_state[OVL_RUNNER_FREE] == 0)
    return NULL;
  ovl_runner_t *r = crew->runners;
  while (r->state != OVL_RUNNER_FREE)
    r++;
  return r;
}

/* A runner that waits for a thread and relieves nobody yet. */
static ovl_runner_t *find_queued(const ovl_crew_t *crew) {
  for (uint32_t i = 0; i < crew->count; i++)
    if (crew->runners[i].state == OVL_RUNNER_QUEUED && crew->runners[i].relief_of == NULL)
      return &crew->runners[i];
  return NULL;
}

/* Marks a free runner as queued and puts it on the list of those to be given to libuv. */
static void enlist(ovl_crew_t *crew, ovl_runner_t *r, ovl_runner_t *relief_of, ovl_runner_t ***tail) {
  set_state(crew, r, OVL_RUNNER_QUEUED);
  r->relief_of = relief_of;
  r->next_parked = NULL;
  **tail = r;
  *tail = &r->next_parked;
}

/* A call that one which keeps its thread a little longer would have heard, after it had slept in vain. */
static bool left_too_early(const ovl_crew_t *crew, uint64_t now) {
  return crew->left_idle != 0 && crew->park_ns + (now - crew->left_idle) <= MOST_PARK_NS;
}

static void enlist_missing(ovl_executor_t *x, ovl_runner_t ***tail) {
  ovl_crew_t *crew = &x->crew;
  uint32_t work = work_count(x);
  ovl_runner_t *r;
  while (work > looking(crew) + crew->by_state[OVL_RUNNER_QUEUED] && may_queue(crew) &&
         (r = find_free(crew)) != NULL) {
    uint64_t now = ovl_clock_now(&x->clock);
    r->called_back = left_too_early(crew, now) ? now : 0;
    crew->left_idle = 0;
    enlist(crew, r, NULL, tail);
  }
}

static void enlist_reliefs(ovl_executor_t *x, ovl_runner_t ***tail) {
  ovl_crew_t *crew = &x->crew;
  uint64_t now = ovl_clock_now(&x->clock);
  for (uint32_t i = 0; i < crew->count && crew->asking > 0; i++) {
    ovl_runner_t *r = &crew->runners[i];
    if (!r->asked)
      continue;
    r->asked = false;
    crew->asking--;
    ovl_runner_t *relief = crew->owed == 0 ? find_queued(crew) : NULL; /* not one that has a thread coming */
    if (relief != NULL)
      relief->relief_of = r;
    else if ((relief = find_free(crew)) != NULL)
      enlist(crew, relief, r, tail);
    if (relief != NULL) {
      r->leave_at = now + GRACE_NS;
      crew->leaving++;
      ovl_ahead_call_back(x); /* it is to see that */
    } else {
      r->since = now; /* none to be had: it asks again after another turn */
    }
  }
}

void ovl_crew_queue(ovl_executor_t *x) {
  ovl_runner_t *list = NULL, **tail = &list;
  x->crew.short_handed = false;
  enlist_missing(x, &tail);
  if (x->crew.asking > 0)
    enlist_reliefs(x, &tail);
  if (list == NULL)
    return;
  x->called = ovl_clock_now(&x->clock);
  ovl_unlock(&x->lock); /* queueing wakes threads, the first time ever it makes them */
  while (list != NULL) {
    ovl_runner_t *r = list;
    list = r->next_parked; /* before it runs and may park */
    if (ovl_process_enter_pool()) {
      uv_queue_work(x->loop, &r->work, runner_main, after_work);
      ovl_process_leave_pool();
    }
  }
  ovl_exec_lock(x);
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
  relieved->since = now;
  if (crew->turn_ns < MOST_TURN_NS)
    crew->turn_ns *= 2;
}

/* How soon it has a thread, after a call that came soon after another had given one back. */
static void learn_to_stay(ovl_crew_t *crew, ovl_runner_t *r, uint64_t now) {
  if (r->called_back == 0)
    return;
  bool at_once = now - r->called_back < AT_ONCE_NS;
  r->called_back = 0;
  if (at_once && crew->park_ns < MOST_PARK_NS)
    crew->park_ns *= 2;
  else if (!at_once && crew->park_ns > PARK_NS)
    crew->park_ns /= 2;
}

/* False: it came as a relief, and is one too many. */
static bool arrive(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  ovl_crew_t *crew = &x->crew;
  ovl_runner_t *relieved = r->relief_of;
  set_state(crew, r, OVL_RUNNER_WORKING);
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
    ovl_runner_t *other = given_up ? find_queued(crew) : NULL;
    if (other != NULL) { /* this has the thread of one that left for the other: they change places */
      other->relief_of = relieved;
    } else {
      spare(crew, relieved, now);
      if (live(crew) > crew->size || work_count(x) <= looking(crew))
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
  set_state(crew, r, OVL_RUNNER_LEFT);
  crew->on_thread--;
  ovl_exec_follow_up(x, false);
}

static bool turn_is_over(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  if (r->leave_at != 0) {
    bool over = now >= r->leave_at;
    if (over) { /* others do wait for threads */
      x->crew.turn_ns = TURN_NS;
      x->crew.park_ns = PARK_NS;
    }
    return over;
  }
  if (now >= r->since + x->crew.turn_ns && !r->asked) {
    r->asked = true;
    x->crew.asking++;
    if (!x->draining)
      ovl_loop_wake(x);
  }
  return false;
}

/* ---- a runner with nothing to do --------------------------------------------------------------------------- */

/* The lock again, with what has happened meanwhile. */
static void rejoin(ovl_executor_t *x) {
  ovl_lock(&x->lock);
  if (ovl_ahead_catch_up(x))
    ovl_exec_follow_up(x, true);
}

/* Watches the hint, and who goes ahead, for at most `ns`. */
static void spin(ovl_executor_t *x, ovl_runner_t *r, uint64_t now, uint64_t ns) {
  uint64_t known = x->ahead_known;
  set_state(&x->crew, r, OVL_RUNNER_SPINNING);
  atomic_store_explicit(&x->hint, x->crew.dismissed ? 1 : work_count(x), memory_order_relaxed);
  ovl_unlock(&x->lock);
  do {
    for (int i = 0; i < 16; i++) {
      if (atomic_load_explicit(&x->hint, memory_order_relaxed) != 0 || ovl_ahead_ended(x) != known)
        goto look;
      ovl_pause();
    }
  } while (ovl_clock_now(&x->clock) - now < ns && !ovl_process_exits());
look:
  ovl_lock(&x->lock);
  set_state(&x->crew, r, OVL_RUNNER_WORKING);
  if (ovl_ahead_catch_up(x))
    ovl_exec_follow_up(x, true);
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
  set_state(&x->crew, r, OVL_RUNNER_PARKED);
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
  set_state(&x->crew, r, OVL_RUNNER_WORKING);
}

/* Waits until the claimed lane is due, and polls it; unless an op turns up, or a pause is so long that the
 * runner should look between whether it is to leave. */
static void attend(ovl_executor_t *x, ovl_runner_t *r, uint32_t index, uint64_t now) {
  ovl_exec_lane_t *lane = &x->lanes[index];
  uint64_t pause = lane->next_poll > now ? lane->next_poll - now : 0;
  bool in_parts = pause > PARK_NS;
  if (pause > SHORT_PAUSE_NS)
    park(x, r, in_parts ? PARK_NS : pause);
  else if (pause > 0)
    spin(x, r, now, pause);
  if (x->core.startable[OVL_LANE_POOL] == 0 && !x->crew.dismissed && !in_parts)
    ovl_poll_lane(x, index);
  lane->attended = false;
  ovl_crew_summon(x, true);
}

/* How long one with nothing to do keeps its thread: until its turn is over, where the pool has threads to spare. */
static uint64_t idle_time(const ovl_executor_t *x, const ovl_runner_t *r) {
  uint64_t now = ovl_clock_now(&x->clock), end = r->since + x->crew.turn_ns;
  bool spare = x->crew.turn_ns > TURN_NS && !r->asked && r->leave_at == 0;
  return spare && end > now + x->crew.park_ns ? end - now : x->crew.park_ns;
}

/* Waits for work in ever cheaper ways. False: it has waited enough and should give its thread back. */
static bool rest(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  uint32_t lane = ovl_poll_claim(x, OVL_LANE_POOL, now, false);
  if (lane != OVL_NO_LANE) {
    attend(x, r, lane, now);
    return true;
  }
  if (r->leave_at != 0)
    return false;
  if (x->spin_ns > 1)
    spin(x, r, now, x->spin_ns);
  if (work_count(x) == 0) {
    ovl_ahead_call_back(x); /* from now on somebody has to be called */
    ovl_exec_follow_up(x, true);
  }
  if (work_count(x) == 0 && !x->crew.dismissed)
    park(x, r, idle_time(x, r));
  if (work_count(x) > 0)
    return true;
  x->crew.left_idle = ovl_clock_now(&x->clock);
  return false;
}

/* ---- a runner too many ------------------------------------------------------------------------------------------ */

/* Some op takes longer than those that were looked at. */
static bool takes_long(const ovl_crew_t *crew, uint64_t now) {
  for (uint32_t i = 0; i < crew->count; i++)
    if (crew->runners[i].calling != 0 && now - crew->runners[i].calling > OVL_CROWD_BRIEF_NS)
      return true;
  return false;
}

/* It is one too many, itself counted. */
static bool is_surplus(const ovl_crew_t *crew, uint64_t now) {
  return ovl_crowd_is_full(&crew->crowd, busy(crew) - 1, now);
}

/* Sleeps, and then looks whether the others get on. If it goes to work itself, nobody stands by, and those who were not
 * called meanwhile may be needed. */
static void stand_by(ovl_executor_t *x, ovl_runner_t *r) {
  ovl_crew_t *crew = &x->crew;
  crew->crowd.stands_by = true;
  park(x, r, OVL_CROWD_STAND_BY_NS);
  crew->crowd.stands_by = false;
  uint64_t now = ovl_clock_now(&x->clock);
  if (takes_long(crew, now))
    ovl_crowd_lift(&crew->crowd, now);
  if (!is_surplus(crew, now))
    ovl_crew_summon(x, true);
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

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void go_ahead(ovl_executor_t *x, ovl_runner_t *r, const ovl_core_op_t *op) {
  r->stop_at = r->spotted + r->look_ns;
  if (!r->asked)
    r->stop_at = smaller(r->stop_at, r->since + x->crew.turn_ns);
  ovl_ahead_go(x, r, op);
}

/* The runner's next op, started; NULL: it should leave. */
static ovl_core_op_t *next_op(ovl_executor_t *x, ovl_runner_t *r, uint64_t now) {
  while (!x->crew.dismissed && !ovl_process_exits() && !turn_is_over(x, r, now)) {
    if (is_surplus(&x->crew, now)) {
      if (x->crew.crowd.stands_by)
        return NULL;
      stand_by(x, r);
      now = ovl_clock_now(&x->clock);
      continue;
    }
    poll_if_due(x, now);
    uint32_t lane = ovl_core_pick_lane(&x->core, OVL_LANE_POOL, preferred_lane(x, r));
    if (lane != OVL_NO_LANE) {
      ovl_core_op_t *op = ovl_exec_start_op(x, lane, r->thread, now);
      r->lane = lane;
      r->calling = op->started;
      go_ahead(x, r, op);
      if (x->crew.waiting_since != 0)
        account_waiting(&x->crew, work_count(x) > looking(&x->crew), x->core.now);
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
  if (now - r->spotted < r->look_ns)
    return;
  r->spotted = now;
  r->looked_at = true; /* the next op */
  if (now - started < LONG_NS)
    ovl_spread_busy(&r->spot);
  else
    ovl_spread_idle(&r->spot);
}

/* One that was called and does not come may have been put on this processor, where it waits for a long time. */
static uint64_t make_way(ovl_executor_t *x, uint64_t now) {
  if (x->called == 0 || now < x->called + OVERDUE_NS)
    return now;
  x->called = 0;
  ovl_unlock(&x->lock);
  sched_yield();
  rejoin(x);
  return ovl_clock_now(&x->clock);
}

/* An op has been called. */
typedef struct ovl_call {
  ovl_core_op_t *op;
  int result;
  uint64_t started, ended;
} ovl_call_t;

/* Its lane has no op that may begin. */
static ovl_core_op_t *wait_ahead(ovl_executor_t *x, ovl_runner_t *r, uint64_t *now) {
  ovl_trip_t *t = &r->trip;
  ovl_core_op_t *op = NULL;
  uint64_t since = *now;
  while (op == NULL && ovl_ahead_may_wait(x, t) && *now < r->stop_at && *now - since < x->spin_ns) {
    if (ovl_ahead_has_to_keep(t, *now - since) && ovl_try_lock(&x->lock)) {
      ovl_ahead_keep(x, r);
      ovl_unlock(&x->lock);
    }
    ovl_pause();
    *now = ovl_clock_now(&x->clock);
    op = ovl_ahead_resume(x, t, *now);
  }
  return op;
}

/* Calls op and those that follow it without the lock. The last one is still to be reported, if there is one. */
static ovl_call_t call_ops(ovl_executor_t *x, ovl_runner_t *r, ovl_core_op_t *op, uint64_t started) {
  ovl_call_t call = {.op = op, .started = started};
  do {
    call.result = ovl_exec_call_op(x, call.op);
    call.ended = ovl_clock_now(&x->clock); /* and the start of the next */
    if (call.result != 0 || r->trip.on == NULL || call.ended >= r->stop_at ||
        !ovl_ahead_pass(x, &r->trip, call.ended, &call.op))
      return call;
    call.started = call.ended;
    if (call.op == NULL)
      call.op = wait_ahead(x, r, &call.started);
  } while (call.op != NULL);
  return call;
}

static void report(ovl_executor_t *x, ovl_runner_t *r, const ovl_call_t *call, bool looked_at, uint64_t waits,
                   uint64_t waits_after) {
  uint64_t took = call->ended - call->started;
  r->calling = 0;
  ovl_crowd_count(&x->crew.crowd, took, call->ended);
  if (looked_at) {
    ovl_crowd_note(&x->crew.crowd, took, waits, waits_after);
    r->look_ns = ovl_crowd_is_settled(&x->crew.crowd) ? LOOK_NS : SOON_NS;
  }
  ovl_exec_call_returned(x, call->op, call->result, call->ended);
}

static void runner_main(uv_work_t *work) {
  ovl_runner_t *r = (ovl_runner_t *)(void *)work;
  ovl_executor_t *x = r->executor;
  bool before = ovl_callback_enter();
  ovl_spread_busy(&r->spot);
  rejoin(x);
  uint64_t now = ovl_clock_now(&x->clock);
  ovl_core_op_t *op = NULL;
  if (x->phase == OVL_EXEC_RUNNING)  /* time stands still after the run */
    ovl_core_advance(&x->core, now); /* for whoever waited for this thread */
  if (arrive(x, r, now)) {
    ovl_exec_follow_up(x, true); /* one was queued fewer: perhaps there is work for another */
    op = next_op(x, r, now);
  }
  while (op != NULL) {
    bool looked_at = r->looked_at;
    uint64_t started = op->started;
    ovl_unlock(&x->lock);
    uint64_t waits = looked_at ? ovl_crowd_waits() : 0;
    ovl_call_t call = call_ops(x, r, op, started);
    uint64_t waits_after = looked_at ? ovl_crowd_waits() : 0;
    r->looked_at = false;
    look_around(r, call.started, call.op != NULL ? call.ended : call.started);
    ovl_lock(&x->lock);
    ovl_ahead_catch_up(x);
    ovl_ahead_stop(x, r);
    now = call.op != NULL ? call.ended : call.started;
    if (call.op != NULL)
      report(x, r, &call, looked_at, waits, waits_after);
    ovl_exec_follow_up(x, true);
    now = make_way(x, now);
    op = next_op(x, r, now);
  }
  ovl_spread_idle(&r->spot);
  leave(x, r);
  ovl_unlock(&x->lock);
  ovl_callback_leave(before);
}

/* Loop thread: the runner's thread is back in the pool, or it was taken back before it had one. */
static void after_work(uv_work_t *work, int status) {
  ovl_runner_t *r = (ovl_runner_t *)(void *)work;
  ovl_executor_t *x = r->executor;
  (void)status;
  ovl_exec_lock(x);
  set_state(&x->crew, r, OVL_RUNNER_FREE);
  if (x->phase == OVL_EXEC_RUNNING)
    ovl_crew_queue(x);
  bool closing = x->phase == OVL_EXEC_CLOSING;
  ovl_exec_unlock(x);
  if (closing)
    ovl_exec_collect(x);
}

/* ---- the crew as a whole ------------------------------------------------------------------------------------- */

void ovl_crew_dismiss(ovl_executor_t *x) {
  x->crew.dismissed = true;
  atomic_store_explicit(&x->hint, 1, memory_order_relaxed);
  while (x->crew.parked != NULL)
    wake_parked(&x->crew);
  account_waiting(&x->crew, false, x->core.now);
}

void ovl_crew_recall(ovl_executor_t *x) {
  ovl_crew_t *crew = &x->crew;
  for (uint32_t i = 0; i < crew->count; i++) {
    ovl_exec_lock(x);
    bool queued = crew->runners[i].state == OVL_RUNNER_QUEUED;
    ovl_exec_unlock(x);
    if (queued && ovl_process_enter_pool()) {
      uv_cancel((uv_req_t *)&crew->runners[i].work); /* too late is fine: it leaves by itself */
      ovl_process_leave_pool();
    }
  }
}

bool ovl_crew_is_gone(const ovl_crew_t *crew) { return crew->by_state[OVL_RUNNER_FREE] == crew->count; }

static int runner_init(ovl_runner_t *r) {
  int error = uv_mutex_init(&r->mutex);
  if (error != 0)
    return error;
  error = uv_cond_init(&r->cond);
  if (error != 0)
    uv_mutex_destroy(&r->mutex);
  return error;
}

int ovl_crew_init(ovl_crew_t *crew, uint32_t size, const ovl_memory_t *memory) {
  crew->size = size;
  crew->count = 2 * size;
  crew->park_ns = PARK_NS;
  ovl_crowd_init(&crew->crowd);
  crew->by_state[OVL_RUNNER_FREE] = crew->count;
  crew->runners = ovl_memory_array(memory, crew->count, sizeof *crew->runners);
  if (crew->runners == NULL)
    return OVL_ENOMEM;
  for (; crew->inited < crew->count; crew->inited++) {
    int error = runner_init(&crew->runners[crew->inited]);
    if (error != 0)
      return error;
  }
  return 0;
}

void ovl_crew_finish(ovl_crew_t *crew, const ovl_memory_t *memory) {
  for (uint32_t i = 0; i < crew->inited; i++) {
    uv_cond_destroy(&crew->runners[i].cond);
    uv_mutex_destroy(&crew->runners[i].mutex);
  }
  ovl_memory_free(memory, crew->runners);
  memset(crew, 0, sizeof *crew);
}

void ovl_crew_reset(ovl_crew_t *crew) {
  crew->dismissed = crew->short_handed = false;
  crew->leaving = crew->owed = crew->asking = crew->peak = 0;
  crew->waiting_since = crew->wait_ns = 0;
  crew->turn_ns = TURN_NS;
  ovl_crowd_begin(&crew->crowd);
  crew->left_idle = 0; /* what it learned of park_ns stays */
}
