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

void ovl_crowd_reset(ovl_crowd_t *crowd) { *crowd = (ovl_crowd_t){.processors = uv_available_parallelism()}; }

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

void ovl_crowd_lift(ovl_crowd_t *crowd, uint64_t now) { crowd->lifted_until = now + LIFTED_NS; }

bool ovl_crowd_is_full(const ovl_crowd_t *crowd, uint32_t busy, uint64_t now) {
  return crowd->computed == ENOUGH && busy >= crowd->processors && now >= crowd->lifted_until;
}
