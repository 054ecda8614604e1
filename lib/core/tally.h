/* SPDX-License-Identifier: MIT */
/* Statistics as they are gathered: what the core adds up at the start and the end of every op. All
 * numbers are the driver's times; nothing here decides anything. */
#ifndef OVL_CORE_TALLY_H
#define OVL_CORE_TALLY_H

#include <stdint.h>

#include "core/memory.h"
#include "ovl/pipeline.h"

typedef struct ovl_stage_tally {
  _Alignas(OVL_LINE) uint64_t ops;
  uint64_t failed, skipped;
  uint64_t total, min, max;
} ovl_stage_tally_t;

typedef struct ovl_tally {
  uint64_t retired, failed, skipped, ops;
  uint64_t work;
  uint64_t bound; /* the largest v so far */
  uint64_t hidden, exposed;
  uint64_t roles_since; /* hidden and exposed are counted up to here */
  uint32_t running[3];  /* ops, by ovl_role_t of their lane */
  ovl_stage_tally_t *stages;
} ovl_tally_t;

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

static inline void ovl_tally_stage(ovl_stage_tally_t *stage, uint64_t duration) {
  if (stage->ops == 0 || duration < stage->min)
    stage->min = duration;
  if (duration > stage->max)
    stage->max = duration;
  stage->total += duration;
  stage->ops++;
}

#endif
