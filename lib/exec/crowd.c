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
#define ONE_SETTLES 1                /* spans of a trial in which others are still going, */
#define OTHERS_SETTLE 2              /* or coming */
#define WAITS_NS 1000                /* so much of what ops take may be that they wait for each other */
#define BETTER_BY 9 / 10             /* or it stays as it is */

void ovl_crowd_init(ovl_crowd_t *crowd) {
  *crowd = (ovl_crowd_t){.processors = uv_available_parallelism(), .patience = SPANS};
}

static void end_trial(ovl_crowd_t *crowd, bool keep) {
  crowd->alone ^= crowd->trial && !keep;
  crowd->trial = false;
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
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void note_span(ovl_crowd_t *crowd, uint64_t gap) {
  for (unsigned i = OVL_CROWD_LATELY - 1; i > 0; i--)
    crowd->lately_ns[i] = crowd->lately_ns[i - 1];
  crowd->lately_ns[0] = gap;
}

/* The smallest (or largest) of the last spans. */
static uint64_t of_lately(const ovl_crowd_t *crowd, uint64_t (*choose)(uint64_t, uint64_t)) {
  uint64_t chosen = crowd->lately_ns[0];
  for (unsigned i = 1; i < OVL_CROWD_LATELY; i++)
    chosen = choose(chosen, crowd->lately_ns[i]);
  return chosen;
}

static void begin_trial(ovl_crowd_t *crowd) {
  crowd->usual_ns = of_lately(crowd, smaller); /* what disturbs them makes spans longer, never shorter */
  crowd->alone = !crowd->alone;
  crowd->trial = true;
  crowd->spans = 0;
}

/* One alone, who is slower as a rule, has to be better in all of three spans; the others, who may be late to come, in one
 * of four. */
static void judge_trial(ovl_crowd_t *crowd, uint64_t gap) {
  uint32_t settles = crowd->alone ? ONE_SETTLES : OTHERS_SETTLE;
  if (++crowd->spans <= settles)
    return;
  uint32_t counted = crowd->spans - settles;
  bool better = gap < crowd->usual_ns * BETTER_BY;
  if (crowd->alone ? better && counted < 3 : !better && counted < 4)
    return;
  end_trial(crowd, better);
  if (better)
    crowd->usual_ns = gap;
  crowd->patience = better ? SPANS : crowd->patience < MOST_SPANS ? 2 * crowd->patience : MOST_SPANS;
}

/* Ops are others than they were. */
static bool is_unusual(const ovl_crowd_t *crowd) {
  return of_lately(crowd, smaller) > 2 * crowd->usual_ns || of_lately(crowd, larger) < crowd->usual_ns / 2;
}

/* gap: from one op to the next; took: how long one takes, both on average. */
static void judge(ovl_crowd_t *crowd, uint64_t gap, uint64_t took) {
  note_span(crowd, gap);
  if (crowd->trial)
    judge_trial(crowd, gap);
  else if (!crowd->alone && took > gap + WAITS_NS) /* one could not do it in that time */
    crowd->spans = 0;
  else if (++crowd->spans >= crowd->patience || (crowd->spans >= SPANS && is_unusual(crowd)))
    begin_trial(crowd);
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
