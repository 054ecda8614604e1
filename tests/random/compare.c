/* SPDX-License-Identifier: MIT */
/* Holds a core's state against a model's. The model knows what must be; this knows where the core keeps it. */
#include "core/idle.h"
#include "random/model.h"

static ovl_op_state_t core_state(model_state_t state) {
  switch (state) {
  case MODEL_ABSENT:
    return OVL_OP_IDLE;
  case MODEL_WAITING:
    return OVL_OP_WAITING;
  case MODEL_READY:
    return OVL_OP_READY;
  case MODEL_RUNNING:
    return OVL_OP_RUNNING;
  case MODEL_RAN:
  case MODEL_SKIPPED:
    return OVL_OP_DONE;
  }
  return OVL_OP_IDLE;
}

static void compare_microbatch(model_t *model, const ovl_core_t *core, uint32_t i) {
  const model_microbatch_t *m = &model->microbatches[i];
  uint32_t index = i % (model->shape->window + model->shape->spare_rows);
  const ovl_core_slot_t *slot = &core->slots[index];
  if (m->retired) {
    model_require(model, slot->microbatch != i || slot->state == OVL_SLOT_FREE,
                  "a retired microbatch has a slot");
    return;
  }
  model_require(model, slot->microbatch == i && slot->item == m->item,
                "a slot has not the microbatch that it should");
  model_require(model, slot->state == (m->ended ? OVL_SLOT_ENDED : OVL_SLOT_ACTIVE),
                "a microbatch has ended, or not, where it should not, or should");
  model_require(model, slot->fault.status == m->status, "a microbatch has another error than it should");
  for (uint32_t s = 0; s < model->shape->stage_count; s++) {
    const ovl_core_op_t *op = &core->ops[(size_t)index * model->shape->stage_count + s];
    model_require(model, op->state == core_state(m->ops[s].state),
                  "an op is not in the state that it should be in");
  }
}

static void compare_lanes(model_t *model, const ovl_core_t *core) {
  uint32_t startable[2] = {0, 0}, lowest[2] = {OVL_NO_LANE, OVL_NO_LANE};
  for (uint32_t l = model->shape->lane_count; l-- > 0;) {
    ovl_lane_kind_t kind = model->shape->lanes[l].kind;
    uint32_t can = model_startable(model, l);
    startable[kind] += can;
    if (can > 0)
      lowest[kind] = l;
    model_require(model, core->lanes[l].startable == can,
                  "a lane may start more or fewer ops than it should");
    model_require(model,
                  ovl_core_pick_lane(core, kind, l) ==
                      (can > 0 ? l : ovl_core_pick_lane(core, kind, OVL_NO_LANE)),
                  "a preferred lane is not picked, or one that is not to be");
  }
  for (int kind = 0; kind < 2; kind++) {
    model_require(model, core->startable[kind] == startable[kind],
                  "the number of ops that can start is wrong");
    model_require(model, ovl_core_pick_lane(core, (ovl_lane_kind_t)kind, OVL_NO_LANE) == lowest[kind],
                  "not the lowest numbered lane is picked");
  }
}

static void compare_counts(model_t *model, const ovl_core_t *core) {
  const ovl_tally_t *tally = &core->tally;
  model_require(model, tally->ops == model->ops, "the count of ops is wrong");
  model_require(model, tally->skipped == model->skipped, "the count of skipped ops is wrong");
  model_require(model, tally->retired == model->retired, "the count of retired microbatches is wrong");
  model_require(model, tally->failed == model->failed, "the count of failed microbatches is wrong");
  for (uint32_t s = 0; s < model->shape->stage_count; s++)
    model_require(model,
                  tally->stages[s].ops == model->stage_ops[s] &&
                      tally->stages[s].failed == model->stage_failed[s] &&
                      tally->stages[s].skipped == model->stage_skipped[s],
                  "a count of a stage is wrong");
}

static void compare_bound(model_t *model, const ovl_core_t *core) {
  if (!model->shape->options.statistics)
    return;
  model_require(model, core->tally.bound == model->bound, "the bound is not what the recurrence gives");
  model_require(model, core->tally.bound <= model->now, "the run is faster than its bound");
}

static void compare_idle(model_t *model, const ovl_core_t *core) {
  for (uint32_t l = 0; model->shape->options.statistics && l < model->shape->lane_count; l++) {
    uint64_t idle[OVL_IDLE_REASONS];
    ovl_idle_until(core, l, core->now, idle);
    for (int reason = 0; reason < OVL_IDLE_REASONS; reason++)
      model_require(model, idle[reason] == model->idle[l][reason],
                    "a lane is idle for another reason than it is, or for another time");
  }
}

static void compare_first_fault(model_t *model, const ovl_core_t *core) {
  const ovl_fault_t *a = &core->first, *b = &model->first;
  model_require(model, a->status == b->status && a->native == b->native, "the first error is not kept");
  model_require(model, a->status == 0 || (a->stage == b->stage && a->microbatch == b->microbatch),
                "the first error has a wrong stage or microbatch");
}

void model_compare(model_t *model, const ovl_core_t *core) {
  const shape_t *shape = model->shape;
  model_require(model, core->next == model->admitted, "other microbatches are admitted than should be");
  model_require(model, core->in_flight == model_in_flight(model),
                "the count of microbatches in flight is wrong");
  model_require(model, core->item_count == model->item_count, "the count of items is wrong");
  model_require(model,
                ovl_core_has_room(core) ==
                    (model->item_count + model_in_flight(model) < shape->window + shape->options.queue),
                "there is room where there is none, or none where there is");
  if (model->wrong != NULL)
    return;
  for (uint32_t i = 0; i < model->admitted; i++)
    compare_microbatch(model, core, i);
  compare_lanes(model, core);
  compare_counts(model, core);
  compare_bound(model, core);
  compare_idle(model, core);
  compare_first_fault(model, core);
  model_require(model, ovl_core_over(core) == model_is_over(model), "the run is over too soon, or too late");
}
