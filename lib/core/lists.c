/* SPDX-License-Identifier: MIT */
/* The core's lists. All are intrusive or sized at the start: nothing is allocated while a run goes on. */
#include "core/lists.h"

#include "core/idle.h"

/* ---- ready ops by lane ----------------------------------------------------------------------------- */

/* First ready first, ties by microbatch, then stage: equal candidates are ordered by number, so a replay
 * takes the same decisions. */
static bool goes_before(const ovl_core_t *core, const ovl_core_op_t *a, const ovl_core_op_t *b) {
  if (a->instant != b->instant)
    return a->instant < b->instant;
  uint64_t of_a = ovl_core_op_microbatch(core, a), of_b = ovl_core_op_microbatch(core, b);
  return of_a != of_b ? of_a < of_b : a->stage < b->stage;
}

void ovl_lane_push(ovl_core_t *core, ovl_core_op_t *op) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  ovl_idle_pass(core, lane);
  lane->reached = true;
  lane->ready++;
  if (lane->fixed) {
    ovl_turn_refresh(core, op->lane);
    return;
  }
  ovl_core_op_t *after = lane->tail; /* instants only rise, so the place is at or near the end */
  while (after != NULL && goes_before(core, op, after))
    after = after->prev;
  op->prev = after;
  op->next = after != NULL ? after->next : lane->head;
  *(after != NULL ? &after->next : &lane->head) = op;
  *(op->next != NULL ? &op->next->prev : &lane->tail) = op;
  ovl_lane_update(core, op->lane);
}

void ovl_lane_remove(ovl_core_t *core, ovl_core_op_t *op) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  lane->ready--;
  if (lane->fixed) {
    ovl_turn_refresh(core, op->lane);
    return;
  }
  *(op->prev != NULL ? &op->prev->next : &lane->head) = op->next;
  *(op->next != NULL ? &op->next->prev : &lane->tail) = op->prev;
  op->prev = op->next = NULL;
  ovl_lane_update(core, op->lane);
}

void ovl_lane_update(ovl_core_t *core, uint32_t index) {
  ovl_core_lane_t *lane = &core->lanes[index];
  ovl_lane_kind_t kind = core->plan->lanes[index].kind;
  uint32_t startable = lane->held ? 0 : lane->free_count;
  uint32_t ready = lane->fixed ? lane->head != NULL : lane->ready;
  if (ready < startable)
    startable = ready;
  if (startable == lane->startable)
    return;
  core->startable[kind] += startable - lane->startable;
  lane->startable = startable;
  uint64_t bit = UINT64_C(1) << (index % 64), *word = ovl_core_lane_word(core, kind, index / 64);
  *word = startable > 0 ? *word | bit : *word & ~bit;
}

uint32_t ovl_core_pick_lane(const ovl_core_t *core, ovl_lane_kind_t kind, uint32_t preferred) {
  if (core->startable[kind] == 0)
    return OVL_NO_LANE;
  if (preferred < core->plan->lane_count && core->plan->lanes[preferred].kind == kind &&
      core->lanes[preferred].startable > 0)
    return preferred;
  uint32_t word = 0;
  while (*ovl_core_lane_word(core, kind, word) == 0)
    word++;
  return word * 64 + (uint32_t)__builtin_ctzll(*ovl_core_lane_word(core, kind, word));
}

void ovl_core_hold_lane(ovl_core_t *core, uint32_t lane, bool held) {
  core->lanes[lane].held = held;
  ovl_lane_update(core, lane);
}

/* ---- items that wait ------------------------------------------------------------------------------- */

void ovl_items_push(ovl_core_t *core, ovl_core_item_t item) {
  uint32_t room = core->item_capacity - core->item_first; /* no sum that could overflow */
  uint32_t at = core->item_count < room ? core->item_first + core->item_count : core->item_count - room;
  core->items[at] = item;
  core->item_count++;
}

ovl_core_item_t ovl_items_pop(ovl_core_t *core) {
  ovl_core_item_t item = core->items[core->item_first];
  core->item_first = core->item_first + 1 == core->item_capacity ? 0 : core->item_first + 1;
  core->item_count--;
  return item;
}

bool ovl_core_drop_item(ovl_core_t *core, void **item, uint64_t *microbatch) {
  if (core->item_count == 0)
    return false;
  *item = ovl_items_pop(core).item;
  *microbatch = core->next++;
  return true;
}

/* ---- slots with something to report ---------------------------------------------------------------- */

void ovl_ended_push(ovl_core_t *core, ovl_core_slot_t *slot) {
  slot->next_ended = NULL;
  *(core->ended_tail != NULL ? &core->ended_tail->next_ended : &core->ended_head) = slot;
  core->ended_tail = slot;
}

ovl_core_slot_t *ovl_core_next_ended(ovl_core_t *core) {
  ovl_core_slot_t *slot = core->ended_head;
  if (slot != NULL && (core->ended_head = slot->next_ended) == NULL)
    core->ended_tail = NULL;
  return slot;
}

void ovl_tell_push(ovl_core_t *core, ovl_core_slot_t *slot) {
  slot->next_tell = NULL;
  *(core->tell_tail != NULL ? &core->tell_tail->next_tell : &core->tell_head) = slot;
  core->tell_tail = slot;
}

ovl_core_slot_t *ovl_tell_pop(ovl_core_t *core) {
  ovl_core_slot_t *slot = core->tell_head;
  if (slot != NULL && (core->tell_head = slot->next_tell) == NULL)
    core->tell_tail = NULL;
  return slot;
}
