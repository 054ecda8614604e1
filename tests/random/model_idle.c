/* SPDX-License-Identifier: MIT */
/* Why places are free: each is counted anew, from the whole table, for the time that passes until the next event. */
#include "random/model.h"

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t stages_on(const model_t *model, uint32_t lane) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < model->shape->stage_count; s++)
    count += model_lane_of(model, s) == lane;
  return count;
}

/* Places that the window and the lane's stages have a use for, and that are free. */
static uint32_t free_places(const model_t *model, uint32_t lane) {
  uint32_t usable = stages_on(model, lane) * model->shape->window;
  return smaller(model->shape->lanes[lane].width, usable > 0 ? usable : 1) -
         model_count(model, lane, MODEL_RUNNING);
}

static bool more_is_to_come(const model_t *model) {
  if (model->stopped)
    return false;
  return model->count == OVL_STREAMING ? !model->finished || model->item_count > 0
                                       : model->admitted < model->count;
}

/* The reason of a place for which there is no op. */
static ovl_idle_reason_t without_op(const model_t *model, uint32_t lane) {
  if (stages_on(model, lane) == 0 || !more_is_to_come(model))
    return OVL_IDLE_TAIL;
  if (model->count == OVL_STREAMING && model->item_count == 0)
    return OVL_IDLE_INPUT;
  return model->reached[lane] ? OVL_IDLE_WINDOW : OVL_IDLE_FILL;
}

static ovl_idle_reason_t reason_of(const model_t *model, uint32_t lane, uint32_t place) {
  ovl_op_ref_t next;
  uint32_t ready = model_count(model, lane, MODEL_READY), waiting = model_count(model, lane, MODEL_WAITING);
  if (model->fixed[lane] && ready > 0)
    return model_next(model, lane, &next) ? OVL_IDLE_RUNNER : OVL_IDLE_FIXED_ORDER;
  if (place < ready)
    return OVL_IDLE_RUNNER;
  if (place - ready < waiting)
    return model->reached[lane] ? OVL_IDLE_DEPENDENCY : OVL_IDLE_FILL;
  return without_op(model, lane);
}

void model_idle(model_t *model, uint64_t passed) {
  if (!model->active || passed == 0)
    return;
  for (uint32_t l = 0; l < model->shape->lane_count; l++)
    for (uint32_t place = free_places(model, l); place-- > 0;)
      model->idle[l][reason_of(model, l, place)] += passed;
}
