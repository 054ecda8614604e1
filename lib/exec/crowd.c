/* SPDX-License-Identifier: MIT */
/* Counts of the system tell whether a thread waited: Linux has them for each thread. */
#if defined __linux__ && !defined _GNU_SOURCE
#define _GNU_SOURCE /* RUSAGE_THREAD */
#endif
#include "exec/crowd.h"

#include <sys/resource.h>
#include <uv.h>

#define ENOUGH 8                      /* ops that have to compute one after another */
#define LIFTED_NS UINT64_C(100000000) /* for how long */
#define SPAN_NS UINT64_C(1000000)
#define SPANS 64         /* from one trial to the next */
#define TELLING 64       /* a span of fewer ops says nothing */
#define TINY_NS 1000     /* ops on average below this may be better off on one processor */
#define ALONE_NS 60      /* what the scheduler takes between two ops of one runner, about */
#define BETTER_BY 9 / 10 /* or it stays as it is */

void ovl_crowd_init(ovl_crowd_t *crowd) {
  *crowd = (ovl_crowd_t){.processors = uv_available_parallelism(), .spans = SPANS};
}

void ovl_crowd_begin(ovl_crowd_t *crowd) {
  crowd->stands_by = crowd->tries = false;
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

static void try_other_way(ovl_crowd_t *crowd, uint64_t gap) {
  crowd->alone = !crowd->alone;
  crowd->tries = true;
  crowd->before_ns = gap;
  crowd->spans = 0;
}

/* gap: from one op to the next; took: how long one takes, both on average. */
static void judge(ovl_crowd_t *crowd, uint64_t gap, uint64_t took) {
  bool was_tried = crowd->tries;
  crowd->tries = false;
  crowd->spans++;
  if (took >= TINY_NS)
    crowd->alone = false;
  else if (was_tried && gap >= crowd->before_ns * BETTER_BY)
    crowd->alone = !crowd->alone;
  else if (crowd->alone && crowd->spans >= SPANS)
    try_other_way(crowd, gap);
  else if (!crowd->alone && crowd->spans >= SPANS && took + ALONE_NS < gap * BETTER_BY)
    try_other_way(crowd, gap);
}

void ovl_crowd_judge(ovl_crowd_t *crowd, uint64_t now) {
  if (crowd->since != 0 && now - crowd->since < SPAN_NS)
    return;
  if (crowd->since != 0 && crowd->ops >= TELLING)
    judge(crowd, (now - crowd->since) / crowd->ops, crowd->took / crowd->ops);
  crowd->since = now;
  crowd->ops = crowd->took = 0;
}

/* ---- how many? ---------------------------------------------------------------------------------------------------- */

void ovl_crowd_lift(ovl_crowd_t *crowd, uint64_t now) {
  crowd->lifted_until = now + LIFTED_NS;
  crowd->alone = crowd->tries = false;
}

bool ovl_crowd_is_full(const ovl_crowd_t *crowd, uint32_t busy, uint64_t now) {
  uint32_t enough = crowd->alone ? 1 : crowd->processors;
  return busy >= enough && crowd->computed == ENOUGH && now >= crowd->lifted_until;
}
