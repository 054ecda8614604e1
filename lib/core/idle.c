/* SPDX-License-Identifier: MIT */
/* Idle time by reason. Nothing is looked at while a lane stands still: a lane that changes, or a run in which less is
 * to come than before, first accounts for the time since its last change by what it was until now. */
#include "core/idle.h"

#include <string.h>

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static bool has_stages(const ovl_core_t *core, uint32_t lane) {
  return core->plan->lane_first[lane] < core->plan->lane_first[lane + 1];
}

/* Why a place is free for which the lane has no op at all. */
static ovl_idle_reason_t without_op(const ovl_core_t *core, uint32_t index) {
  if (!has_stages(core, index))
    return OVL_IDLE_TAIL;
  return core->to_come == OVL_IDLE_WINDOW && !core->lanes[index].reached ? OVL_IDLE_FILL : core->to_come;
}

/* Each free place is matched with an op: one that could start, one that waits, or none. */
static void add(const ovl_core_t *core, uint32_t index, uint64_t passed, uint64_t idle[OVL_IDLE_REASONS]) {
  const ovl_core_lane_t *lane = &core->lanes[index];
  uint32_t left = lane->free_count, ready = lane->fixed ? lane->head != NULL : lane->ready;
  uint32_t matched = smaller(ready, left);
  idle[OVL_IDLE_RUNNER] += matched * passed;
  left -= matched;
  if (left == 0)
    return;
  if (lane->fixed && lane->ready > 0) {
    idle[OVL_IDLE_FIXED_ORDER] += passed;
    return;
  }
  matched = smaller(lane->unstarted - lane->ready, left);
  idle[lane->reached ? OVL_IDLE_DEPENDENCY : OVL_IDLE_FILL] += matched * passed;
  left -= matched;
  if (left > 0)
    idle[without_op(core, index)] += left * passed;
}

void ovl_idle_split(const ovl_core_t *core, uint32_t lane, uint64_t places[OVL_IDLE_REASONS]) {
  memset(places, 0, OVL_IDLE_REASONS * sizeof *places);
  add(core, lane, 1, places);
}

void ovl_idle_account(ovl_core_t *core, ovl_core_lane_t *lane) {
  add(core, (uint32_t)(lane - core->lanes), core->now - lane->since, lane->idle);
}

void ovl_idle_until(const ovl_core_t *core, uint32_t index, uint64_t at, uint64_t idle[OVL_IDLE_REASONS]) {
  const ovl_core_lane_t *lane = &core->lanes[index];
  memcpy(idle, lane->idle, sizeof lane->idle);
  if (core->options.statistics)
    add(core, index, at - lane->since, idle);
}

/* The edge along which op has waited for `ended`. */
static uint32_t edge_between(const ovl_core_t *core, const ovl_core_op_t *ended, const ovl_core_op_t *op) {
  const ovl_edges_t *in = &core->graph->in;
  uint32_t e = in->first[op->stage];
  while (in->edges[e].stage != ended->stage ||
         ovl_core_op_microbatch(core, ended) + in->edges[e].distance != ovl_core_op_microbatch(core, op))
    e++;
  return e;
}

void ovl_idle_attribute_wait(ovl_core_t *core, const ovl_core_op_t *op, const ovl_core_op_t *ended) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  if (ended != NULL)
    core->tally.awaited[edge_between(core, ended, op)] += lane->idle[OVL_IDLE_DEPENDENCY] - lane->attributed;
  lane->attributed = lane->idle[OVL_IDLE_DEPENDENCY];
}

void ovl_idle_change(ovl_core_t *core, ovl_idle_reason_t to_come) {
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    ovl_idle_pass(core, &core->lanes[l]);
  core->to_come = to_come;
}
