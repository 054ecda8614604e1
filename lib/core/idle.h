/* SPDX-License-Identifier: MIT */
/* Why places of lanes are free, for how long: the idle time by reason of ovl_lane_stats_t, added up so that busy
 * and idle time of a lane are its width times the time that has passed, to the last nanosecond. */
#ifndef OVL_CORE_IDLE_H
#define OVL_CORE_IDLE_H

#include "core/core.h"

/* How many of the lane's free places are free for which reason, as things stand. */
void ovl_idle_split(const ovl_core_t *core, uint32_t lane, uint64_t places[OVL_IDLE_REASONS]);

/* Idle time of the lane from the run's start until `at`, which is not before the lane last changed. */
void ovl_idle_until(const ovl_core_t *core, uint32_t lane, uint64_t at, uint64_t idle[OVL_IDLE_REASONS]);

/* The rest is for the core alone. Accounts for the stretch that ends now: as the lane stands, so before it changes. */
void ovl_idle_account(ovl_core_t *core, ovl_core_lane_t *lane);

static inline void ovl_idle_pass(ovl_core_t *core, ovl_core_lane_t *lane) {
  if (lane->since == core->now)
    return;
  if (lane->free_count > 0 && core->options.statistics)
    ovl_idle_account(core, lane);
  lane->since = core->now;
}

/* An op has become ready on its lane, which was passed: the lane has waited for `ended`, the op that ended last of
 * those that it depends on. NULL: for none, it was admitted. */
void ovl_idle_attribute_wait(ovl_core_t *core, const ovl_core_op_t *op, const ovl_core_op_t *ended);

static inline void ovl_idle_attribute(ovl_core_t *core, const ovl_core_op_t *op, const ovl_core_op_t *ended) {
  const ovl_core_lane_t *lane = &core->lanes[op->lane];
  if (lane->free_count > 0 && lane->attributed != lane->idle[OVL_IDLE_DEPENDENCY])
    ovl_idle_attribute_wait(core, op, ended);
}

/* What lanes without ops are idle for from now on. */
void ovl_idle_change(ovl_core_t *core, ovl_idle_reason_t to_come);

static inline ovl_idle_reason_t ovl_idle_to_come(const ovl_core_t *core) {
  if (core->stopped)
    return OVL_IDLE_TAIL;
  if (core->count != OVL_STREAMING)
    return core->next < core->count ? OVL_IDLE_WINDOW : OVL_IDLE_TAIL;
  if (core->item_count > 0)
    return OVL_IDLE_WINDOW;
  return core->finished ? OVL_IDLE_TAIL : OVL_IDLE_INPUT;
}

/* After anything that may say whether more is to come. */
static inline void ovl_idle_refresh(ovl_core_t *core) {
  ovl_idle_reason_t to_come = ovl_idle_to_come(core);
  if (to_come != core->to_come && core->active)
    ovl_idle_change(core, to_come);
}

#endif
