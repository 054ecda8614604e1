/* SPDX-License-Identifier: MIT */
/* What the start and the end of an op leave in the statistics and in the trace. Nothing here decides anything. For the core
 * alone; inline, for it is done for each op. */
#ifndef OVL_CORE_RECORD_H
#define OVL_CORE_RECORD_H

#include "core/core.h"

static inline ovl_role_t ovl_record_role(const ovl_core_t *core, const ovl_core_op_t *op) {
  return core->plan->lanes[op->lane].role;
}

/* How long its callbacks take says nothing. */
static inline bool ovl_record_is_silent(const ovl_core_t *core, const ovl_core_op_t *op) {
  return core->plan->lanes[op->lane].silent;
}

/* It has just started. */
static inline void ovl_record_start(ovl_core_t *core, ovl_core_op_t *op) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  uint32_t running = ovl_core_running(core, op->lane);
  if (running > lane->peak)
    lane->peak = running;
  if (!core->options.statistics || ovl_record_is_silent(core, op))
    return;
  op->bound = ovl_core_max(op->bound, lane->place_bound[op->place]);
  ovl_role_t role = ovl_record_role(core, op);
  if (role != OVL_ROLE_OTHER) {
    ovl_tally_roles(&core->tally, core->now);
    core->tally.running[role]++;
  }
}

/* It took what it took. */
static inline void ovl_record_silent_end(ovl_core_t *core, ovl_core_op_t *op, uint64_t ended) {
  core->tally.stages[op->stage].ops++;
  op->bound = ovl_core_max(op->bound, ended);
  core->tally.bound = ovl_core_max(core->tally.bound, op->bound);
}

static inline void ovl_record_statistics(ovl_core_t *core, ovl_core_op_t *op, uint64_t ended) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  core->tally.ops += !core->plan->stages[op->stage].shadow;
  if (!core->options.statistics) {
    core->tally.stages[op->stage].ops++;
    return;
  }
  uint64_t duration = ended - op->started;
  lane->busy += duration;
  if (ended != core->now) /* others were told of first: its place was free, and nobody knew */
    lane->idle[OVL_IDLE_RUNNER] += core->now - ended;
  if (ovl_record_is_silent(core, op)) {
    ovl_record_silent_end(core, op, ended);
    return;
  }
  op->bound += duration;
  lane->place_bound[op->place] = op->bound;
  core->tally.bound = ovl_core_max(core->tally.bound, op->bound);
  core->tally.work = ovl_later(core->tally.work, duration);
  ovl_tally_stage(&core->tally.stages[op->stage], duration, op->delay);
  ovl_role_t role = ovl_record_role(core, op);
  if (role != OVL_ROLE_OTHER) {
    ovl_tally_roles(&core->tally, core->now);
    core->tally.running[role]--;
  }
}

static inline void ovl_record_trace(ovl_core_t *core, const ovl_core_op_t *op, int status, uint64_t ended) {
  *ovl_trace_ring_next(&core->trace) = (ovl_trace_record_t){.microbatch = ovl_core_op_microbatch(core, op),
                                                            .stage = op->pub.stage,
                                                            .lane = op->pub.lane,
                                                            .slot = op->pub.slot,
                                                            .place = op->place,
                                                            .thread = op->thread,
                                                            .status = op->failed != 0 ? op->failed : status,
                                                            .ready_ns = op->started - op->delay,
                                                            .start_ns = op->started,
                                                            .end_ns = ended};
}

/* The op ran until `ended`. */
static inline void ovl_record_end(ovl_core_t *core, ovl_core_op_t *op, int status, uint64_t ended) {
  ovl_record_statistics(core, op, ended);
  if (core->options.trace > 0 &&
      !ovl_record_is_silent(core, op)) /* when those were issued would be taken for when they ran */
    ovl_record_trace(core, op, status, ended);
}

#endif
