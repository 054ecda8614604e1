/* SPDX-License-Identifier: MIT */
/* Statistics as they are gathered: what the core adds up at the start and the end of every op. All
 * numbers are the driver's times; nothing here decides anything. */
#ifndef OVL_CORE_TALLY_H
#define OVL_CORE_TALLY_H

#include <stdint.h>

#include "core/memory.h"
#include "ovl/pipeline.h"

/* Why a place of a lane is free: the parts of ovl_lane_stats_t. */
typedef enum ovl_idle_reason {
  OVL_IDLE_FILL,
  OVL_IDLE_DEPENDENCY,
  OVL_IDLE_WINDOW,
  OVL_IDLE_INPUT,
  OVL_IDLE_FIXED_ORDER,
  OVL_IDLE_RUNNER,
  OVL_IDLE_TAIL
} ovl_idle_reason_t;

#define OVL_IDLE_REASONS (OVL_IDLE_TAIL + 1)

typedef struct ovl_stage_tally {
  _Alignas(OVL_LINE) uint64_t ops;
  uint64_t failed, skipped;
  uint64_t total, min, max;
  uint64_t delay, most_delay; /* from ready to started */
} ovl_stage_tally_t;

typedef struct ovl_tally {
  uint64_t retired, failed, skipped, ops;
  uint64_t work;
  uint64_t bound; /* the largest v so far */
  uint64_t hidden, exposed;
  uint64_t roles_since; /* hidden and exposed are counted up to here */
  uint32_t running[3];  /* ops, by ovl_role_t of their lane */
  ovl_stage_tally_t *stages;
  uint64_t
      *awaited; /* by edge into a stage of the run's graph: how long lanes were idle until its end came */
} ovl_tally_t;

/* `by` after a time, or the end of time; so also the sum of two durations. */
static inline uint64_t ovl_later(uint64_t time, uint64_t by) {
  return by > UINT64_MAX - time ? UINT64_MAX : time + by;
}

/* Accounts for the time up to `now`, before the number of running ops of a role changes. */
static inline void ovl_tally_roles(ovl_tally_t *tally, uint64_t now) {
  if (tally->running[OVL_ROLE_COMM] > 0) {
    uint64_t passed = now - tally->roles_since;
    if (tally->running[OVL_ROLE_COMPUTE] > 0)
      tally->hidden += passed;
    else
      tally->exposed += passed;
  }
  tally->roles_since = now;
}

static inline void ovl_tally_stage(ovl_stage_tally_t *stage, uint64_t duration, uint64_t delay) {
  if (stage->ops == 0 || duration < stage->min)
    stage->min = duration;
  if (duration > stage->max)
    stage->max = duration;
  stage->total += duration;
  if (delay > stage->most_delay)
    stage->most_delay = delay;
  stage->delay += delay;
  stage->ops++;
}

#endif
