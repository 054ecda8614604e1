/* SPDX-License-Identifier: MIT */
/* A core's tally as the statistics that a user sees, for real and for simulated runs alike. */
#ifndef OVL_OBSERVE_STATS_H
#define OVL_OBSERVE_STATS_H

#include "core/core.h"
#include "ovl/stats.h"

/* What the core knows; `elapsed` in nanoseconds. The rest of *stats is 0, finding "". */
void ovl_stats_of_core(const ovl_core_t *core, uint64_t elapsed, ovl_stats_t *stats);
void ovl_stats_of_lane(const ovl_core_t *core, uint32_t lane, uint64_t elapsed, ovl_lane_stats_t *stats);
void ovl_stats_of_stage(const ovl_core_t *core, uint32_t stage, ovl_stage_stats_t *stats);

/* Multiplies all times by `by`, which keeps every order between them. */
void ovl_stats_scale(ovl_stats_t *stats, double by);
void ovl_stats_scale_lane(ovl_lane_stats_t *stats, double by);
void ovl_stats_scale_stage(ovl_stage_stats_t *stats, double by);

/* A lane's idle time for one reason, and the reason in words. */
uint64_t ovl_stats_idle(const ovl_lane_stats_t *stats, ovl_idle_reason_t reason);
const char *ovl_stats_idle_name(ovl_idle_reason_t reason);

/* Why overlap was asked for and not had, by the figures in *stats; "" if it was had. */
const char *ovl_stats_finding(const ovl_core_t *core, const ovl_stats_t *stats);

#endif
