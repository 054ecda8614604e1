/* SPDX-License-Identifier: MIT */
/* Lanes of fixed order: whose turn it is. An op that has ended without running (it was skipped) has had its
 * turn, and so has one of a microbatch that will never be admitted; nothing overtakes one that is yet to come. */
#include "core/idle.h"
#include "core/lists.h"

static bool next_in_microbatch(ovl_core_t *core, uint32_t index, ovl_op_ref_t *ref) {
  ovl_core_lane_t *lane = &core->lanes[index];
  const uint32_t *stages = &core->plan->lane_stages[core->plan->lane_first[index]];
  uint32_t count = core->plan->lane_first[index + 1] - core->plan->lane_first[index];
  if (lane->microbatch >= core->count || count == 0)
    return false;
  *ref = (ovl_op_ref_t){.microbatch = lane->microbatch, .stage = stages[lane->place_in_microbatch]};
  if (++lane->place_in_microbatch == count) {
    lane->place_in_microbatch = 0;
    lane->microbatch++;
  }
  return true;
}

static void pass_turn(ovl_core_t *core, uint32_t index) {
  ovl_core_lane_t *lane = &core->lanes[index];
  bool more = core->order.next != NULL ? core->order.next(core->order.context, core, index, &lane->turn)
                                       : next_in_microbatch(core, index, &lane->turn);
  lane->exhausted = !more;
}

bool ovl_core_next_in_microbatch(ovl_core_t *core, uint32_t lane, ovl_op_ref_t *ref) {
  return next_in_microbatch(core, lane, ref);
}

/* The op of the turn if it is still to start; NULL if it is not admitted, or its turn is over. */
static ovl_core_op_t *op_of_turn(const ovl_core_t *core, const ovl_op_ref_t *turn) {
  if (turn->microbatch >= core->next)
    return NULL;
  ovl_core_op_t *op = ovl_core_op_at(core, turn->microbatch, turn->stage);
  bool to_start = op->state == OVL_OP_WAITING || op->state == OVL_OP_READY;
  return ovl_core_op_microbatch(core, op) == turn->microbatch && to_start ? op : NULL;
}

/* The op whose turn it is, or NULL while its microbatch is still to be admitted, and when none is left. */
static ovl_core_op_t *find_turn(ovl_core_t *core, uint32_t index) {
  ovl_core_lane_t *lane = &core->lanes[index];
  while (!lane->exhausted) {
    ovl_core_op_t *op = op_of_turn(core, &lane->turn);
    bool to_be_admitted = lane->turn.microbatch >= core->next;
    if (op != NULL || (to_be_admitted && !core->stopped))
      return op;
    if (to_be_admitted && lane->unstarted == 0)
      lane->exhausted = true;
    else
      pass_turn(core, index);
  }
  return NULL;
}

void ovl_turn_refresh(ovl_core_t *core, uint32_t index) {
  ovl_core_lane_t *lane = &core->lanes[index];
  if (!lane->fixed)
    return;
  ovl_idle_pass(core, lane);
  ovl_core_op_t *op = find_turn(core, index);
  lane->head = op != NULL && op->state == OVL_OP_READY ? op : NULL;
  ovl_lane_update(core, index);
}

void ovl_turn_begin(ovl_core_t *core, uint32_t index, ovl_mode_t mode) {
  ovl_core_lane_t *lane = &core->lanes[index];
  bool loose = core->order.loose != NULL && core->order.loose[index];
  lane->fixed = core->plan->lanes[index].fixed && mode == OVL_OVERLAP && !loose;
  lane->exhausted = false;
  lane->microbatch = lane->place_in_microbatch = 0;
  if (lane->fixed)
    pass_turn(core, index);
}
