/* SPDX-License-Identifier: MIT */
/* A simulator made of the model: every op starts as soon as it may, lanes in their order; time passes when nothing
 * can start. */
#include "random/planner.h"

#include <string.h>

typedef struct planner {
  shape_t shape; /* without what only a driver cares for */
  model_t model;
  ovl_op_ref_t running[MODEL_MICROBATCHES * SHAPE_STAGES];
  uint64_t ends[MODEL_MICROBATCHES * SHAPE_STAGES];
  uint32_t running_count;
  uint64_t now;
  planner_duration_fn duration;
  void *context;
  planner_list_t *lists;
} planner_t;

static uint32_t free_place(const planner_t *p, uint32_t lane) {
  bool taken[MODEL_MICROBATCHES] = {false};
  for (uint32_t k = 0; k < p->running_count; k++)
    if (model_lane_of(&p->model, p->running[k].stage) == lane)
      taken[p->model.microbatches[p->running[k].microbatch].ops[p->running[k].stage].place] = true;
  uint32_t place = 0;
  while (taken[place])
    place++;
  return place;
}

static void start(planner_t *p, uint32_t lane, ovl_op_ref_t ref) {
  model_start(&p->model, ref, free_place(p, lane), p->now);
  p->lists[lane].refs[p->lists[lane].count++] = ref;
  p->running[p->running_count] = ref;
  p->ends[p->running_count++] = p->now + p->duration(p->context, ref.microbatch, ref.stage);
}

static void start_all(planner_t *p) {
  for (uint32_t l = 0; l < p->shape.lane_count; l++) {
    ovl_op_ref_t ref;
    while (model_startable(&p->model, l) > 0 && model_next(&p->model, l, &ref))
      start(p, l, ref);
  }
}

/* Of those that end next, the one with the lowest number. */
static uint32_t first_to_end(const planner_t *p) {
  uint32_t best = 0;
  for (uint32_t k = 1; k < p->running_count; k++) {
    const ovl_op_ref_t *a = &p->running[k], *b = &p->running[best];
    if (p->ends[k] != p->ends[best]
            ? p->ends[k] < p->ends[best]
            : (a->microbatch != b->microbatch ? a->microbatch < b->microbatch : a->stage < b->stage))
      best = k;
  }
  return best;
}

static void end_those_due(planner_t *p) {
  p->now = p->ends[first_to_end(p)];
  p->model.instant++;
  for (uint32_t k; p->running_count > 0 && p->ends[k = first_to_end(p)] == p->now;) {
    ovl_op_ref_t ref = p->running[k];
    p->running[k] = p->running[--p->running_count];
    p->ends[k] = p->ends[p->running_count];
    model_ended(&p->model, ref, 0, 0, p->now);
  }
}

void planner_run(const shape_t *shape, uint64_t count, planner_duration_fn duration, void *context,
                 const model_turns_t *given, planner_list_t *lists) {
  static planner_t p;
  memset(&p, 0, sizeof p);
  p.shape = *shape;
  p.shape.options = (ovl_core_options_t){0};
  p.duration = duration;
  p.context = context;
  p.lists = lists;
  model_init(&p.model, &p.shape);
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    lists[l].count = 0;
    p.shape.lanes[l].fixed = shape->lanes[l].fixed && given != NULL && given[l].refs != NULL;
    if (p.shape.lanes[l].fixed)
      p.model.turns[l] = given[l];
  }
  model_begin(&p.model, OVL_OVERLAP, count, 0);
  for (start_all(&p); p.running_count > 0; start_all(&p))
    end_those_due(&p);
}
