/* SPDX-License-Identifier: MIT */
/* What the model is told: each event is checked against what the guarantees allow, and noted. */
#include <string.h>

#include "ovl/errors.h"
#include "random/model.h"

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

static bool same_fault(const ovl_fault_t *a, const ovl_fault_t *b) {
  return a->status == b->status && a->native == b->native && a->stage == b->stage &&
         a->microbatch == b->microbatch;
}

void model_begin(model_t *model, ovl_mode_t mode, uint64_t count, uint64_t now) {
  model_t fresh;
  model_init(&fresh, model->shape);
  memcpy(fresh.items, model->items, sizeof fresh.items);
  memcpy(fresh.arrivals, model->arrivals, sizeof fresh.arrivals);
  fresh.item_count = model->item_count;
  fresh.finished = model->finished;
  fresh.instant = model->instant;
  fresh.wrong = model->wrong;
  fresh.mode = mode;
  fresh.count = count;
  fresh.active = true;
  fresh.started = fresh.now = fresh.bound = now;
  for (uint32_t l = 0; l < SHAPE_LANES; l++) {
    fresh.fixed[l] = model->shape->lanes[l].fixed && mode == OVL_OVERLAP;
    fresh.turns[l] = model->turns[l];
  }
  *model = fresh;
  model_settle(model);
}

void model_submitted(model_t *model, int result, void *item, uint64_t now) {
  uint32_t held = model->item_count + model_in_flight(model);
  bool room = held < model->shape->window + model->shape->options.queue;
  model_require(model, !room || result == 0, "a submit was refused though there is room");
  model_require(model, room || result == OVL_EAGAIN, "more items are held than window and queue allow");
  if (result != 0 || model->wrong != NULL)
    return;
  model_advance(model, now);
  model->items[model->item_count] = item;
  model->arrivals[model->item_count++] = now;
  model_settle(model);
}

void model_finished(model_t *model, uint64_t now) {
  model_advance(model, now);
  model->finished = true;
}

static const char *const not_ready[] = {
    [MODEL_ABSENT] = "an op starts whose microbatch may not be in flight yet",
    [MODEL_WAITING] = "an op starts before all that it depends on has ended",
    [MODEL_RUNNING] = "an op starts that is running",
    [MODEL_RAN] = "an op starts that has run",
    [MODEL_SKIPPED] = "an op of a failed microbatch starts",
};

static void check_order(model_t *model, uint32_t lane, ovl_op_ref_t taken) {
  ovl_op_ref_t next;
  bool right =
      model_next(model, lane, &next) && next.microbatch == taken.microbatch && next.stage == taken.stage;
  model_require(model, right,
                model->fixed[lane] ? "an op of a fixed lane starts out of turn"
                                   : "an op starts before another that was ready first");
}

static void check_places(model_t *model, uint32_t lane, uint32_t place) {
  model_require(model, model_count(model, lane, MODEL_RUNNING) < model->shape->lanes[lane].width,
                "a lane runs more ops than its width");
  model_require(model, place < model->shape->lanes[lane].width, "an op has a place beyond its lane's width");
  for (uint32_t i = 0; i < model->admitted; i++)
    for (uint32_t s = 0; s < model->shape->stage_count; s++)
      if (model_lane_of(model, s) == lane && model->microbatches[i].ops[s].state == MODEL_RUNNING)
        model_require(model, model->microbatches[i].ops[s].place != place, "two ops have one place");
}

static void check_serial(model_t *model) {
  for (uint32_t l = 0; model->mode == OVL_SERIAL && l < model->shape->lane_count; l++)
    model_require(model, model_count(model, l, MODEL_RUNNING) == 0, "a serial run has two ops at a time");
}

void model_taken(model_t *model, const ovl_core_op_t *taken, uint64_t now) {
  uint64_t i = taken->pub.microbatch;
  uint32_t stage = taken->pub.stage.id - 1, lane = taken->pub.lane.id - 1;
  model_require(model, i < MODEL_MICROBATCHES && stage < model->shape->stage_count,
                "an op has no such number");
  if (model->wrong != NULL)
    return;
  model_microbatch_t *m = &model->microbatches[i];
  model_op_t *op = &m->ops[stage];
  model_require(model, i < model->admitted, not_ready[MODEL_ABSENT]);
  model_require(model, op->state == MODEL_READY,
                not_ready[op->state != MODEL_READY ? op->state : MODEL_ABSENT]);
  model_require(model, lane == model_lane_of(model, stage), "an op starts on a lane that is not its stage's");
  model_require(model, taken->pub.slot == i % model->shape->window, "an op has a slot that is not its own");
  model_require(model, taken->pub.status == m->status, "an op does not see how its microbatch fares");
  model_require(model, taken->pub.item == m->item, "an op has another microbatch's item");
  if (model->wrong != NULL)
    return;
  model_require(model, !model->held[lane], "an op starts on a lane that is held");
  check_places(model, lane, taken->place);
  check_serial(model);
  check_order(model, lane, (ovl_op_ref_t){.microbatch = i, .stage = stage});
  model_start(model, (ovl_op_ref_t){.microbatch = i, .stage = stage}, taken->place, now);
}

void model_start(model_t *model, ovl_op_ref_t ref, uint32_t place, uint64_t now) {
  model_op_t *op = &model->microbatches[ref.microbatch].ops[ref.stage];
  model_advance(model, now);
  op->state = MODEL_RUNNING;
  op->started = model->now;
  op->place = place;
  op->bound = later(op->bound, model->place_bound[model_lane_of(model, ref.stage)][place]);
}

void model_ended(model_t *model, ovl_op_ref_t ended, int status, int native, uint64_t now) {
  uint32_t stage = ended.stage;
  model_op_t *op = &model->microbatches[ended.microbatch].ops[stage];
  model_require(model, op->state == MODEL_RUNNING, "an op ends that is not running");
  if (model->wrong != NULL)
    return;
  model_advance(model, now);
  uint64_t ended_at = later(now, op->started);
  op->bound += ended_at - op->started;
  model->idle[model_lane_of(model, stage)][OVL_IDLE_RUNNER] += model->now - ended_at;
  model->place_bound[model_lane_of(model, stage)][op->place] = op->bound;
  model->bound = later(model->bound, op->bound);
  if (status != 0)
    model_op_failed(model, ended, status, native);
  op->state = MODEL_RAN;
  model->ops++;
  model->stage_ops[stage]++;
  model_settle(model);
}

void model_failed(model_t *model, ovl_op_ref_t op, int status, uint64_t now) {
  model_advance(model, now);
  model_op_failed(model, op, status, 0);
  model_settle(model);
}

void model_cancelled(model_t *model, uint64_t now) {
  const ovl_fault_t fault = {.status = OVL_ECANCELED, .stage = OVL_NO_STAGE, .microbatch = OVL_NO_MICROBATCH};
  model_advance(model, now);
  if (model->first.status == 0)
    model->first = fault;
  if (!model->stopped) {
    if (model->shape->options.tell)
      model->owed[model->owed_count++] = fault;
    model_stop(model);
  }
  model_settle(model);
}

void model_told(model_t *model, const ovl_fault_t *fault, uint64_t now) {
  model_require(model, model->owed_count > 0 && same_fault(fault, &model->owed[0]),
                "a fault is told that is none, or not the oldest that is owed");
  if (model->wrong != NULL)
    return;
  memmove(model->owed, model->owed + 1, --model->owed_count * sizeof *model->owed);
  if (fault->microbatch == OVL_NO_MICROBATCH)
    return;
  model_microbatch_t *m = &model->microbatches[fault->microbatch];
  m->owes_fault = false;
  if (m->ended && !model->shape->options.report) {
    model_advance(model, now);
    model_retire(model, m);
    model_settle(model);
  }
}

void model_reported(model_t *model, const ovl_core_slot_t *slot) {
  uint64_t i = slot->microbatch;
  model_require(model, i < model->admitted && model->microbatches[i].ended,
                "a microbatch is reported before its end");
  model_require(model, model->shape->options.report, "a microbatch is reported though nobody asked");
  if (model->wrong != NULL)
    return;
  model_require(model, slot->fault.status == model->microbatches[i].status,
                "a microbatch reports another status");
  model_require(model, slot->item == model->microbatches[i].item, "a microbatch reports another's item");
}

void model_retired(model_t *model, uint64_t i, uint64_t now) {
  model_require(model, !model->microbatches[i].retired, "a microbatch retires twice");
  if (model->wrong != NULL)
    return;
  model_advance(model, now);
  model_retire(model, &model->microbatches[i]);
  model_settle(model);
}

void model_dropped(model_t *model, uint64_t microbatch, void *item) {
  uint64_t arrived;
  model_require(model, model->item_count > 0, "an item is given back that was not there");
  if (model->wrong != NULL)
    return;
  model_require(model, item == model_pop_item(model, &arrived), "items are given back out of order");
  model_require(model, microbatch == model->admitted + model->dropped++,
                "an item is given back with a wrong number");
}

void model_left(model_t *model) { model->active = model->finished = false; }
