/* SPDX-License-Identifier: MIT */
/* Whose turn it is on a lane: on a fixed one that of its order, on any other the op that was ready first. */
#include "random/model.h"

/* ---- lanes of fixed order ---------------------------------------------------------------------------------------- */

/* A lane's order as a list, or as what each microbatch does on it. */
typedef struct order {
  const model_turns_t *list;
  uint32_t stages[SHAPE_STAGES], stage_count;
  uint64_t count;
} order_t;

static order_t order_of(const model_t *model, uint32_t lane) {
  order_t order = {.list = &model->turns[lane], .count = model->turns[lane].count};
  if (order.list->refs != NULL)
    return order;
  for (uint32_t k = 0; k < model->shape->ordered; k++)
    if (model_lane_of(model, model->shape->order[k]) == lane)
      order.stages[order.stage_count++] = model->shape->order[k];
  order.count = (model->count < MODEL_MICROBATCHES ? model->count : MODEL_MICROBATCHES) * order.stage_count;
  return order;
}

static ovl_op_ref_t turn_at(const order_t *order, uint64_t n) {
  if (order->list->refs != NULL)
    return order->list->refs[n];
  return (ovl_op_ref_t){.microbatch = n / order->stage_count, .stage = order->stages[n % order->stage_count]};
}

/* Those that ran or were skipped have had their turn; after a stop so have those that are never admitted. */
static bool next_in_turn(const model_t *model, uint32_t lane, ovl_op_ref_t *next) {
  const order_t order = order_of(model, lane);
  for (uint64_t n = 0; n < order.count; n++) {
    *next = turn_at(&order, n);
    if (next->microbatch >= model->admitted) {
      if (model->stopped)
        continue;
      return false;
    }
    model_state_t state = model->microbatches[next->microbatch].ops[next->stage].state;
    if (state == MODEL_READY || state == MODEL_WAITING)
      return state == MODEL_READY;
  }
  return false;
}

/* ---- other lanes ------------------------------------------------------------------------------------------------- */

static bool goes_before(const model_t *model, ovl_op_ref_t a, ovl_op_ref_t b) {
  uint64_t a_ready = model->microbatches[a.microbatch].ops[a.stage].ready_at;
  uint64_t b_ready = model->microbatches[b.microbatch].ops[b.stage].ready_at;
  if (a_ready != b_ready)
    return a_ready < b_ready;
  return a.microbatch != b.microbatch ? a.microbatch < b.microbatch : a.stage < b.stage;
}

static bool first_ready(const model_t *model, uint32_t lane, ovl_op_ref_t *next) {
  bool found = false;
  for (uint32_t i = 0; i < model->admitted; i++)
    for (uint32_t s = 0; s < model->shape->stage_count; s++) {
      ovl_op_ref_t ref = {.microbatch = i, .stage = s};
      if (model_lane_of(model, s) == lane && model->microbatches[i].ops[s].state == MODEL_READY &&
          (!found || goes_before(model, ref, *next))) {
        *next = ref;
        found = true;
      }
    }
  return found;
}

/* ---- both ---------------------------------------------------------------------------------------------------------- */

bool model_next(const model_t *model, uint32_t lane, ovl_op_ref_t *next) {
  return model->fixed[lane] ? next_in_turn(model, lane, next) : first_ready(model, lane, next);
}

uint32_t model_startable(const model_t *model, uint32_t lane) {
  ovl_op_ref_t next;
  if (model->held[lane])
    return 0;
  uint32_t places = model->shape->lanes[lane].width - model_count(model, lane, MODEL_RUNNING);
  uint32_t ready =
      model->fixed[lane] ? model_next(model, lane, &next) : model_count(model, lane, MODEL_READY);
  return ready < places ? ready : places;
}
