/* SPDX-License-Identifier: MIT */
/* One count for each processor: of busy runners that were last seen there, of all pipelines. */
#if defined __linux__ && !defined _GNU_SOURCE
#define _GNU_SOURCE /* sched_getcpu */
#endif
#include "exec/spread.h"

#ifdef __linux__

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

static atomic_uint busy_on[CPU_SETSIZE];

static void appear(ovl_spot_t *spot, uint32_t processor) {
  spot->processor = processor + 1;
  atomic_fetch_add_explicit(&busy_on[processor], 1, memory_order_relaxed);
}

static unsigned others_on(uint32_t processor) {
  return atomic_load_explicit(&busy_on[processor], memory_order_relaxed);
}

/* One that the thread may use and no runner does; CPU_SETSIZE: none. */
static uint32_t find_unused(const cpu_set_t *allowed) {
  uint32_t processor = 0;
  while (processor < CPU_SETSIZE && (!CPU_ISSET(processor, allowed) || others_on(processor) != 0))
    processor++;
  return processor;
}

/* True: the thread has been moved, and may use what it could before. */
static bool move(uint32_t *processor) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return false;
  uint32_t unused = find_unused(&allowed);
  if (unused == CPU_SETSIZE)
    return false;
  CPU_ZERO(&one);
  CPU_SET(unused, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0)
    return false;
  (void)sched_setaffinity(0, sizeof allowed,
                          &allowed); /* fails where all of them have been taken away meanwhile */
  *processor = unused;
  return true;
}

void ovl_spread_busy(ovl_spot_t *spot) {
  int number = sched_getcpu();
  if (number < 0 || number >= CPU_SETSIZE)
    return;
  uint32_t processor = (uint32_t)number;
  if (spot->processor == processor + 1 && others_on(processor) == 1)
    return;
  ovl_spread_idle(spot);
  if (others_on(processor) != 0)
    move(&processor);
  appear(spot, processor);
}

void ovl_spread_idle(ovl_spot_t *spot) {
  if (spot->processor != 0)
    atomic_fetch_sub_explicit(&busy_on[spot->processor - 1], 1, memory_order_relaxed);
  spot->processor = 0;
}

#else

void ovl_spread_busy(ovl_spot_t *spot) { (void)spot; }
void ovl_spread_idle(ovl_spot_t *spot) { (void)spot; }

#endif
