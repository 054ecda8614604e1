/* SPDX-License-Identifier: MIT */
/* What crew.c (who is called) and runner.c (what a runner does) share. With the lock held. */
#ifndef OVL_EXEC_CREW_H
#define OVL_EXEC_CREW_H

#include "exec/executor.h"

#define OVL_TURN_NS UINT64_C(10000000)
#define OVL_PARK_NS UINT64_C(2000000)
#define OVL_MOST_PARK_NS UINT64_C(16000000)

/* Runners that could be busy right now: startable ops, and lanes that want polling. */
uint32_t ovl_crew_work(const ovl_executor_t *x);

/* Runners that the loop should see to: those, one more at the start of a run that will have two, one to stand by. */
uint32_t ovl_crew_wanted(const ovl_executor_t *x);

static inline void ovl_crew_set_state(ovl_crew_t *crew, ovl_runner_t *r, ovl_runner_state_t state) {
  crew->by_state[r->state]--;
  crew->by_state[state]++;
  r->state = state;
  uint32_t working = crew->by_state[OVL_RUNNER_WORKING];
  if (atomic_load_explicit(&crew->working, memory_order_relaxed) != working)
    atomic_store_explicit(&crew->working, working, memory_order_relaxed);
}

/* Runners that have a thread and will look for work without being called. */
static inline uint32_t ovl_crew_looking(const ovl_crew_t *crew) {
  return crew->by_state[OVL_RUNNER_SPINNING] + crew->by_state[OVL_RUNNER_WOKEN];
}

/* Runners that want a processor. */
static inline uint32_t ovl_crew_busy(const ovl_crew_t *crew) {
  return crew->by_state[OVL_RUNNER_WORKING] + ovl_crew_looking(crew);
}

static inline uint32_t ovl_crew_live(const ovl_crew_t *crew) {
  return crew->count - crew->by_state[OVL_RUNNER_FREE] - crew->by_state[OVL_RUNNER_LEFT] - crew->leaving;
}

/* How long turns last, of all pipelines that begin a run from now on, too: longer, or as short as at first. */
void ovl_crew_set_turn(ovl_crew_t *crew, bool longer);

/* Time in which work that could start found nobody with a thread. */
void ovl_crew_account_waiting(ovl_crew_t *crew, bool waiting, uint64_t now);

/* A runner that waits for a thread and relieves nobody yet. */
ovl_runner_t *ovl_crew_find_queued(const ovl_crew_t *crew);

/* What is queued; the thread is the pool's. Without the lock. */
void ovl_runner_main(uv_work_t *work);

#endif
