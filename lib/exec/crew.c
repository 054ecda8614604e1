/* SPDX-License-Identifier: MIT */
/* The crew: pool threads that serve a run's pool lanes, each one uv_queue_work item.
 *
 * A runner takes any startable op of any pool lane, runs it, reports to the core itself and takes the next;
 * it does not go back to the loop between ops. With nothing to do it spins for spin_ns, sleeps for OVL_PARK_NS, and
 * then gives its thread back, so a run that waits holds no thread for long. Only the loop may queue work, so ready
 * ops that find no runner wake the loop. Where one is called back soon after it left, and gets a thread at once, it
 * left too early, and nobody was better off: sleeps may last twice as long from now on, up to OVL_MOST_PARK_NS. Where
 * turns have grown (below), they last until the turn is over.
 *
 * At the end of a run who is not needed any more leaves at once, and who ends the last op sends all of them away.
 *
 * Where two had ops at one time in the run before, which took long enough, and there is a processor for each, one more is
 * called at the start: there will be an op for it when the first one has ended, and it takes longer to come than brief ops
 * do. It spins for longer than others until then, if first ops were brief.
 *
 * Only so many are queued at a time as have a thread already (at least two): if the pool has threads, the crew
 * doubles in no time, and if it has none, others need not wait behind a long row of runners.
 *
 * A busy runner must not keep its thread for ever either: others have work queued behind it. After a turn, of
 * OVL_TURN_NS at first, it asks the loop for a relief, which goes to the back of libuv's queue. If the relief gets
 * a thread while the one it relieves still has its own, then the pool had a thread to spare and nobody was kept
 * waiting: the relief leaves again, and turns of all may last twice as long from now on, up to MOST_TURN_NS. One runner
 * asks for all of them then, if it is answered soon: each relief wakes two threads that the busy ones have to make way
 * for. Otherwise
 * the runner leaves GRACE_NS later, at the end of an op, the relief comes when all that was queued before it
 * has had its turn, and turns are short again.
 *
 *   FREE -> QUEUED -> WORKING <-> SPINNING
 *                     WORKING -> PARKED -> WOKEN -> WORKING
 *                     WORKING -> LEFT -> FREE            (QUEUED -> FREE when taken back at the end)  */
#include <string.h>

#include "exec/crew.h"
#include "exec/process.h"

#define GRACE_NS UINT64_C(200000)
#define MOST_TURN_NS UINT64_C(80000000)

/* What was learned last of the pool, which all pipelines share. */
static atomic_uint_least64_t usual_turn_ns = OVL_TURN_NS;

/* ---- how many are wanted, how many are there ------------------------------------------------------------ */

uint32_t ovl_crew_work(const ovl_executor_t *x) {
  return x->core.startable[OVL_LANE_POOL] + ovl_poll_unattended(x);
}

void ovl_crew_account_waiting(ovl_crew_t *crew, bool waiting, uint64_t now) {
  if (waiting && crew->waiting_since == 0)
    crew->waiting_since = now;
  if (!waiting && crew->waiting_since != 0) {
    crew->wait_ns += now - crew->waiting_since;
    crew->waiting_since = 0;
  }
}

static bool may_queue(const ovl_crew_t *crew) {
  uint32_t most = crew->on_thread > 2 ? crew->on_thread : 2;
  return ovl_crew_live(crew) < crew->size && crew->by_state[OVL_RUNNER_QUEUED] < most;
}

void ovl_crew_set_turn(ovl_crew_t *crew, bool longer) {
  if (longer && crew->turn_ns < MOST_TURN_NS)
    crew->turn_ns *= 2;
  if (!longer)
    crew->turn_ns = OVL_TURN_NS;
  crew->turns_grew = longer;
  atomic_store_explicit(&usual_turn_ns, crew->turn_ns, memory_order_relaxed);
}

/* ---- calling runners ------------------------------------------------------------------------------------- */

static void wake_parked(ovl_crew_t *crew) {
  ovl_runner_t *r = crew->parked;
  crew->parked = r->next_parked;
  ovl_crew_set_state(crew, r, OVL_RUNNER_WOKEN);
  uv_mutex_lock(&r->mutex);
  r->called = true;
  uv_cond_signal(&r->cond);
  uv_mutex_unlock(&r->mutex);
}

static bool is_full(const ovl_crew_t *crew, uint64_t now) {
  return ovl_crowd_is_full(&crew->crowd, ovl_crew_busy(crew), now);
}

/* Nobody is called while enough are busy and one stands by: it sees to it if they are not. */
static bool are_enough(const ovl_crew_t *crew, uint64_t now) {
  return crew->crowd.stands_by && is_full(crew, now);
}

static bool one_is_queued(const ovl_crew_t *crew) {
  return crew->by_state[OVL_RUNNER_QUEUED] > 0 && ovl_crew_find_queued(crew) != NULL;
}

/* Nobody stands by, nor is about to: where enough are busy, one should. */
static bool wants_stand_by(const ovl_crew_t *crew) {
  return !crew->crowd.stands_by && crew->by_state[OVL_RUNNER_WOKEN] == 0;
}

bool ovl_crew_may_call(const ovl_crew_t *crew, uint64_t now) {
  if (crew->parked == NULL && ovl_crew_live(crew) >= crew->size)
    return false;
  if (!is_full(crew, now))
    return true;
  return wants_stand_by(crew) && (crew->parked != NULL || !(crew->short_handed || one_is_queued(crew)));
}

void ovl_crew_summon(ovl_executor_t *x, bool self) {
  ovl_crew_t *crew = &x->crew;
  if (crew->dismissed)
    return;
  uint32_t work = ovl_crew_work(x), coming = ovl_crew_looking(crew) + self;
  if (crew->by_state[OVL_RUNNER_SPINNING] > 0)
    atomic_store_explicit(&x->hint, work, memory_order_relaxed);
  if (work > coming && are_enough(crew, x->core.now))
    return;
  for (; work > coming && crew->parked != NULL; coming++) {
    wake_parked(crew);
    x->called = x->core.now;
  }
  ovl_crew_account_waiting(crew, work > coming, x->core.now);
  if (work > coming + crew->by_state[OVL_RUNNER_QUEUED] && may_queue(crew)) {
    crew->short_handed = true;
    if (!x->draining)
      ovl_loop_wake(x);
  }
}

static void after_work(uv_work_t *work, int status);

static ovl_runner_t *find_free(const ovl_crew_t *crew) {
  if (crew->by_state[OVL_RUNNER_FREE] == 0)
    return NULL;
  ovl_runner_t *r = crew->runners;
  while (r->state != OVL_RUNNER_FREE)
    r++;
  return r;
}

ovl_runner_t *ovl_crew_find_queued(const ovl_crew_t *crew) {
  for (uint32_t i = 0; i < crew->count; i++)
    if (crew->runners[i].state == OVL_RUNNER_QUEUED && crew->runners[i].relief_of == NULL)
      return &crew->runners[i];
  return NULL;
}

/* Marks a free runner as queued and puts it on the list of those to be given to libuv. */
static void enlist(ovl_crew_t *crew, ovl_runner_t *r, ovl_runner_t *relief_of, ovl_runner_t ***tail) {
  ovl_crew_set_state(crew, r, OVL_RUNNER_QUEUED);
  r->relief_of = relief_of;
  r->next_parked = NULL;
  **tail = r;
  *tail = &r->next_parked;
}

/* A call that one which keeps its thread a little longer would have heard, after it had slept in vain. */
static bool left_too_early(const ovl_crew_t *crew, uint64_t now) {
  return crew->left_idle != 0 && crew->park_ns + (now - crew->left_idle) <= OVL_MOST_PARK_NS;
}

uint32_t ovl_crew_wanted(const ovl_executor_t *x) {
  uint32_t work = ovl_crew_work(x);
  if (work > 0)
    return work + (x->crew.pairs && x->core.moves == 0);
  const ovl_crew_t *crew = &x->crew; /* who goes ahead has the lanes, perhaps */
  return !crew->dismissed && crew->parked == NULL && wants_stand_by(crew) && !one_is_queued(crew) &&
         is_full(crew, x->core.now);
}

static void enlist_missing(ovl_executor_t *x, ovl_runner_t ***tail) {
  ovl_crew_t *crew = &x->crew;
  uint32_t wanted = ovl_crew_wanted(x);
  ovl_runner_t *r;
  while (wanted > ovl_crew_looking(crew) + crew->by_state[OVL_RUNNER_QUEUED] && may_queue(crew) &&
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
    ovl_runner_t *relief =
        crew->owed == 0 ? ovl_crew_find_queued(crew) : NULL; /* not one that has a thread coming */
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
      uv_queue_work(x->loop, &r->work, ovl_runner_main, after_work);
      ovl_process_leave_pool();
    }
  }
  ovl_exec_lock(x);
}

/* Loop thread: the runner's thread is back in the pool, or it was taken back before it had one. */
static void after_work(uv_work_t *work, int status) {
  ovl_runner_t *r = (ovl_runner_t *)(void *)work;
  ovl_executor_t *x = r->executor;
  (void)status;
  ovl_exec_lock(x);
  ovl_crew_set_state(&x->crew, r, OVL_RUNNER_FREE);
  if (x->phase == OVL_EXEC_RUNNING)
    ovl_crew_queue(x);
  bool closing = x->phase == OVL_EXEC_CLOSING;
  ovl_exec_unlock(x);
  if (closing)
    ovl_exec_collect(x);
}

/* ---- the crew as a whole ------------------------------------------------------------------------------------- */

void ovl_crew_dismiss(ovl_executor_t *x) {
  if (x->crew.dismissed)
    return;
  x->crew.dismissed = true;
  atomic_store_explicit(&x->hint, 1, memory_order_relaxed);
  while (x->crew.parked != NULL)
    wake_parked(&x->crew);
  ovl_crew_account_waiting(&x->crew, false, x->core.now);
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
  crew->park_ns = OVL_PARK_NS;
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

void ovl_crew_reset(ovl_crew_t *crew, bool may_pair) {
  crew->dismissed = crew->short_handed = false;
  crew->leaving = crew->owed = crew->asking = crew->peak = 0;
  crew->turns_grew = false;
  crew->asked_at = 0;
  crew->waiting_since = crew->wait_ns = 0;
  crew->turn_ns = atomic_load_explicit(&usual_turn_ns, memory_order_relaxed);
  ovl_crowd_begin(&crew->crowd);
  crew->pairs = may_pair && crew->two_worked && crew->size <= crew->crowd.processors && !crew->crowd.alone;
  crew->two_worked = false;
  crew->left_idle = 0; /* what it learned of park_ns stays */
}
