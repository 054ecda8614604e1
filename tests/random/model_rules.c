/* SPDX-License-Identifier: MIT */
/* The rules: what follows from what, found anew from the whole table. Slow and plain on purpose. */
#include <string.h>

#include "ovl/errors.h"
#include "random/model.h"

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void model_require(model_t *model, bool condition, const char *text) {
  if (!condition && model->wrong == NULL)
    model->wrong = text;
}

void model_init(model_t *model, const shape_t *shape) {
  memset(model, 0, sizeof *model);
  model->shape = shape;
}

void model_advance(model_t *model, uint64_t now) {
  model_idle(model, later(model->now, now) - model->now);
  model->now = later(model->now, now);
}

static uint32_t limit(const model_t *model) { return model->mode == OVL_SERIAL ? 1 : model->shape->window; }

uint32_t model_in_flight(const model_t *model) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < model->admitted; i++)
    count += !model->microbatches[i].retired;
  return count;
}

uint32_t model_count(const model_t *model, uint32_t lane, model_state_t state) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < model->admitted; i++)
    for (uint32_t s = 0; s < model->shape->stage_count; s++)
      count += model_lane_of(model, s) == lane && model->microbatches[i].ops[s].state == state;
  return count;
}

/* ---- dependencies ----------------------------------------------------------------------------------------------- */

static bool has_ended(const model_op_t *op) { return op->state == MODEL_RAN || op->state == MODEL_SKIPPED; }

/* The op that comes before `stage` in a serial run: NULL for the first. */
static const model_op_t *serial_predecessor(const model_t *model, uint32_t i, uint32_t stage) {
  for (uint32_t k = 1; k < model->shape->stage_count; k++)
    if (model->shape->order[k] == stage)
      return &model->microbatches[i].ops[model->shape->order[k - 1]];
  return NULL;
}

/* Has all ended that the op waits for? *bound becomes the largest v among it. What is a window or more back has
 * retired anyway, and is no part of the recurrence. */
static bool dependencies_ended(const model_t *model, uint32_t i, uint32_t stage, uint64_t *bound) {
  const shape_t *shape = model->shape;
  const model_op_t *sources[SHAPE_DEPENDENCIES + 2];
  uint32_t count = 0;
  if (shape->stages[stage].chained && stage > 0)
    sources[count++] = &model->microbatches[i].ops[stage - 1];
  if (model->mode == OVL_SERIAL && serial_predecessor(model, i, stage) != NULL)
    sources[count++] = serial_predecessor(model, i, stage);
  *bound = model->microbatches[i].bound;
  for (uint32_t d = 0; d < shape->dependency_count; d++) {
    const ovl_dependency_t *dependency = &shape->dependencies[d];
    if (dependency->after != stage || dependency->distance > i)
      continue;
    const model_op_t *source = &model->microbatches[i - dependency->distance].ops[dependency->before];
    if (dependency->distance < shape->window)
      sources[count++] = source;
    else if (!has_ended(source))
      return false;
  }
  for (uint32_t k = 0; k < count; k++) {
    if (!has_ended(sources[k]))
      return false;
    *bound = later(*bound, sources[k]->bound);
  }
  return true;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

static void skip(model_t *model, uint32_t stage, model_op_t *op) {
  op->state = MODEL_SKIPPED;
  model->skipped++;
  model->stage_skipped[stage]++;
}

static bool update_op(model_t *model, uint32_t i, uint32_t stage) {
  model_op_t *op = &model->microbatches[i].ops[stage];
  bool runs = model->microbatches[i].status == 0 || model->shape->stages[stage].always;
  if (op->state == MODEL_READY && !runs) {
    skip(model, stage, op);
    return true;
  }
  uint64_t bound;
  if (op->state != MODEL_WAITING || !dependencies_ended(model, i, stage, &bound))
    return false;
  op->bound = bound;
  op->ready_at = model->instant;
  model->reached[model_lane_of(model, stage)] |= runs;
  if (runs)
    op->state = MODEL_READY;
  else
    skip(model, stage, op);
  return true;
}

void model_retire(model_t *model, model_microbatch_t *m) {
  m->retired = true;
  model->retired++;
  model->failed += m->status != 0;
}

static uint64_t bound_of_all(const model_t *model, uint32_t i) {
  uint64_t bound = 0;
  for (uint32_t s = 0; s < model->shape->stage_count; s++)
    bound = later(bound, model->microbatches[i].ops[s].bound);
  return later(bound, model->microbatches[i].bound);
}

static bool update_microbatch(model_t *model, uint32_t i) {
  model_microbatch_t *m = &model->microbatches[i];
  bool changed = false, ended = true;
  for (uint32_t s = 0; s < model->shape->stage_count; s++) {
    changed |= update_op(model, i, s);
    ended &= has_ended(&m->ops[s]);
  }
  if (ended && !m->ended) {
    m->ended = changed = true;
    if (!model->shape->options.report && !m->owes_fault)
      model_retire(model, m);
  }
  return changed;
}

static bool may_admit(const model_t *model) {
  uint32_t window = model->shape->window;
  if (!model->active || model->stopped || model_in_flight(model) >= limit(model))
    return false;
  if (model->admitted >= window && !model->microbatches[model->admitted - window].retired)
    return false;
  return model->count == OVL_STREAMING ? model->item_count > 0 : model->admitted < model->count;
}

void *model_pop_item(model_t *model, uint64_t *arrived) {
  void *item = model->items[0];
  *arrived = model->arrivals[0];
  model->item_count--;
  memmove(model->items, model->items + 1, model->item_count * sizeof *model->items);
  memmove(model->arrivals, model->arrivals + 1, model->item_count * sizeof *model->arrivals);
  return item;
}

static void admit(model_t *model) {
  uint32_t i = model->admitted, back = limit(model);
  model_microbatch_t *m = &model->microbatches[i];
  memset(m, 0, sizeof *m);
  m->admitted = true;
  m->arrived = model->started;
  if (model->count == OVL_STREAMING)
    m->item = model_pop_item(model, &m->arrived);
  m->bound = later(m->arrived, i >= back ? bound_of_all(model, i - back) : model->started);
  for (uint32_t s = 0; s < model->shape->stage_count; s++)
    m->ops[s].state = MODEL_WAITING;
  model->admitted++;
}

void model_settle(model_t *model) {
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < model->admitted; i++)
      if (!model->microbatches[i].ended)
        changed |= update_microbatch(model, i);
    if (may_admit(model)) {
      admit(model);
      changed = true;
    }
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static bool has_something_to_start(const model_t *model, const model_microbatch_t *m) {
  for (uint32_t s = 0; s < model->shape->stage_count; s++)
    if (m->ops[s].state == MODEL_WAITING || m->ops[s].state == MODEL_READY)
      return true;
  return false;
}

void model_stop(model_t *model) {
  model->stopped = true;
  for (uint32_t i = 0; i < model->admitted; i++) {
    model_microbatch_t *m = &model->microbatches[i];
    if (m->status == 0 && has_something_to_start(model, m))
      m->status = OVL_ECANCELED;
  }
}

void model_op_failed(model_t *model, ovl_op_ref_t op, int status, int native) {
  model_microbatch_t *m = &model->microbatches[op.microbatch];
  uint32_t stage = op.stage;
  model->stage_failed[stage]++;
  if (m->status != 0)
    return;
  const ovl_fault_t fault = {.status = status, .native = native, .stage = stage, .microbatch = op.microbatch};
  bool first = model->first.status == 0;
  m->status = status;
  if (first)
    model->first = fault;
  if (model->shape->options.tell && (first || model->shape->options.keep_going)) {
    m->owes_fault = true;
    model->owed[model->owed_count++] = fault;
  }
  if (!model->shape->options.keep_going && !model->stopped)
    model_stop(model);
}

/* ---- questions ----------------------------------------------------------------------------------------------------- */

bool model_is_over(const model_t *model) {
  if (!model->active || model_in_flight(model) > 0)
    return false;
  if (model->stopped)
    return true;
  return model->count == OVL_STREAMING ? model->finished && model->item_count == 0
                                       : model->admitted == model->count;
}

bool model_has_way_on(const model_t *model) {
  for (uint32_t l = 0; l < model->shape->lane_count; l++)
    if (model_count(model, l, MODEL_RUNNING) > 0 || model_count(model, l, MODEL_READY) > 0)
      return true;
  for (uint32_t i = 0; i < model->admitted; i++)
    if (model->microbatches[i].ended && !model->microbatches[i].retired)
      return true; /* somebody is to be told */
  return model->count == OVL_STREAMING && !model->finished && model_in_flight(model) == 0;
}
