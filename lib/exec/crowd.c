/* SPDX-License-Identifier: MIT */
/* Counts of the system tell whether a thread waited: Linux has them for each thread. */
#if defined __linux__ && !defined _GNU_SOURCE
#define _GNU_SOURCE /* RUSAGE_THREAD */
#endif
#include "exec/crowd.h"

#include <sys/resource.h>
#include <uv.h>

#define ENOUGH 8                     /* ops that have to compute one after another */
#define LIFTED_NS UINT64_C(10000000) /* for how long */
#define TELLING 64                   /* a span of fewer ops goes on */
#define SPANS 16                     /* until the other way is tried, at first, */
#define MOST_SPANS 1024              /* and after trials that brought nothing */
#define WAITS_NS 1000                /* so much of what ops take may be that they wait for each other */
#define BETTER_BY 9 / 10             /* or it stays as it is */

void ovl_crowd_init(ovl_crowd_t *crowd) {
  *crowd = (ovl_crowd_t){.processors = uv_available_parallelism(), .patience = SPANS};
}

static void end_trial(ovl_crowd_t *crowd, bool keep) {
  crowd->alone ^= crowd->trial != OVL_NO_TRIAL && !keep;
  crowd->trial = OVL_NO_TRIAL;
  crowd->spans = 0;
}

void ovl_crowd_begin(ovl_crowd_t *crowd) {
  end_trial(crowd, false);
  crowd->stands_by = false;
  crowd->since = crowd->lifted_until = 0;
}

/* ---- do ops compute? ---------------------------------------------------------------------------------------------- */

uint64_t ovl_crowd_waits(void) {
#ifdef RUSAGE_THREAD
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0)
    return 1 + (uint64_t)usage.ru_nvcsw;
#endif
  return 0;
}

void ovl_crowd_note(ovl_crowd_t *crowd, uint64_t took, uint64_t before, uint64_t after) {
  if (before != 0 && before == after && took < OVL_CROWD_BRIEF_NS)
    crowd->computed += crowd->computed < ENOUGH;
  else
    crowd->computed = 0;
}

/* ---- is one better off alone? ------------------------------------------------------------------------------------- */

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* One span says little: a thread may have been put aside in it. */
static void begin_trial(ovl_crowd_t *crowd, uint64_t gap) {
  crowd->alone = !crowd->alone;
  crowd->trial = OVL_TRIAL_BEGINS;
  crowd->usual_ns = smaller(gap, crowd->last_ns);
}

static void judge_trial(ovl_crowd_t *crowd, uint64_t gap) {
  bool better = gap < crowd->usual_ns * BETTER_BY;
  end_trial(crowd, better);
  if (better)
    crowd->usual_ns = gap;
  crowd->patience = better ? SPANS : crowd->patience < MOST_SPANS ? 2 * crowd->patience : MOST_SPANS;
}

/* Ops are others than they were, and not for one span only. */
static bool is_unusual(const ovl_crowd_t *crowd, uint64_t gap) {
  uint64_t least = smaller(gap, crowd->last_ns), most = gap > crowd->last_ns ? gap : crowd->last_ns;
  return least > 2 * crowd->usual_ns || most < crowd->usual_ns / 2;
}

/* gap: from one op to the next; took: how long one takes, both on average. */
static void judge(ovl_crowd_t *crowd, uint64_t gap, uint64_t took) {
  if (crowd->trial == OVL_TRIAL_BEGINS) { /* others were still coming, or going */
    crowd->trial = OVL_TRIAL_COUNTS;
  } else if (crowd->trial == OVL_TRIAL_COUNTS) {
    judge_trial(crowd, gap);
  } else if (!crowd->alone && took > gap + WAITS_NS) { /* one could not do it in that time */
    crowd->spans = 0;
  } else if (++crowd->spans >= crowd->patience || (crowd->spans >= SPANS && is_unusual(crowd, gap))) {
    begin_trial(crowd, gap);
  }
  crowd->last_ns = gap;
}

void ovl_crowd_judge(ovl_crowd_t *crowd, uint64_t now) {
  if (crowd->since != 0 && crowd->ops < TELLING)
    return;
  if (crowd->since != 0 && crowd->computed == ENOUGH)
    judge(crowd, (now - crowd->since) / crowd->ops, crowd->took / crowd->ops);
  crowd->since = now;
  crowd->ops = crowd->took = 0;
}

bool ovl_crowd_is_settled(const ovl_crowd_t *crowd) { return crowd->computed == ENOUGH; }

/* ---- how many? ---------------------------------------------------------------------------------------------------- */

void ovl_crowd_lift(ovl_crowd_t *crowd, uint64_t now) {
  crowd->lifted_until = now + LIFTED_NS;
  end_trial(crowd, false);
}

bool ovl_crowd_is_full(const ovl_crowd_t *crowd, uint32_t busy, uint64_t now) {
  uint32_t enough = crowd->alone ? 1 : crowd->processors;
  return busy >= enough && crowd->computed == ENOUGH && now >= crowd->lifted_until;
}
