/* SPDX-License-Identifier: MIT */
/* Drives both. */
#include "proof/pair.h"

#include <stdlib.h>
#include <string.h>

#include "ovl/errors.h"

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *block) {
  (void)context;
  free(block);
}

const ovl_memory_t pair_heap = {.allocate = allocate, .release = release};

static ovl_core_op_t *core_op(const pair_t *pair, spec_op_t op) {
  const ovl_plan_t *plan = &pair->frame->plan;
  return &pair->core.ops[(size_t)(op.microbatch % plan->window) * plan->stage_count + op.stage];
}

/* ---- hints ------------------------------------------------------------------------------------------------------ */

uint64_t pair_hint(const pair_shape_t *shape, uint64_t microbatch, uint32_t stage) {
  uint64_t ns = shape->hints[stage];
  if (shape->from_calls)
    ns += microbatch * (stage + 4) % 5;
  return ns != 0 ? ns : 1;
}

static uint64_t hint(void *context, const ovl_op_t *op) {
  return pair_hint(context, op->microbatch, op->stage.id - 1);
}

/* ---- the orders that must be kept: those of a simulation in which fixed lanes are not -------------------------------- */

static void note_start(pair_frame_t *frame, const ovl_core_op_t *op) {
  spec_order_t *order = &frame->expected[op->lane];
  order->ops[order->count++] =
      (spec_op_t){.microbatch = (uint8_t)op->pub.microbatch, .stage = (uint8_t)op->stage};
}

static int expect_orders(pair_frame_t *frame, const ovl_plan_t *plan) {
  static const bool loose[SPEC_LANES] = {true, true, true, true};
  const ovl_order_source_t source = {.loose = loose};
  ovl_sim_t sim;
  const ovl_core_op_t *op;
  uint64_t end;
  int r = ovl_sim_init(&sim, plan, hint, &frame->shape, &(ovl_core_options_t){0}, &pair_heap);
  if (r != 0)
    return r;
  ovl_core_set_order(&sim.core, &source);
  ovl_sim_begin(&sim, OVL_OVERLAP, frame->shape.count);
  while ((op = ovl_sim_next(&sim, &end)) != NULL)
    note_start(frame, op);
  ovl_sim_finish(&sim);
  return 0;
}

static void give_orders(pair_frame_t *frame) {
  for (uint32_t l = 0; l < frame->shape.lane_count; l++) {
    const spec_order_t *order = &frame->expected[l];
    if (!frame->shape.given[l] || !frame->shape.lanes[l].fixed)
      continue;
    frame->given[l] = (ovl_order_list_t){.refs = frame->given_refs[l], .count = order->count};
    for (uint32_t k = 0; k < order->count; k++)
      frame->given_refs[l][k] =
          (ovl_op_ref_t){.microbatch = order->ops[k].microbatch, .stage = order->ops[k].stage};
  }
}

/* ---- the frame -------------------------------------------------------------------------------------------------- */

static ovl_description_t describe(const pair_shape_t *shape) {
  return (ovl_description_t){.lanes = shape->lanes,
                             .stages = shape->stages,
                             .dependencies = shape->dependencies,
                             .lane_count = shape->lane_count,
                             .stage_count = shape->stage_count,
                             .dependency_count = shape->dependency_count,
                             .window = shape->window};
}

/* What the core is given instead. */
static void mutate(pair_shape_t *shape, pair_mutant_t mutant) {
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    shape->lanes[l].fixed &= mutant != PAIR_LOOSE_LANES && mutant != PAIR_WIDER_LANES;
    shape->lanes[l].width += mutant == PAIR_WIDER_LANES;
  }
  for (uint32_t s = 0; s < shape->stage_count; s++)
    shape->stages[s].always &= mutant != PAIR_NEVER_ALWAYS;
  shape->window += mutant == PAIR_WIDER_WINDOW;
  shape->options.keep_going ^= mutant == PAIR_OTHER_POLICY;
  if (mutant == PAIR_FEWER_DEPENDENCIES && shape->dependency_count > 0)
    shape->dependency_count--;
}

int pair_frame_init(pair_frame_t *frame, const pair_shape_t *shape, pair_mutant_t mutant) {
  pair_shape_t for_core = *shape;
  ovl_plan_t plan;
  memset(frame, 0, sizeof *frame);
  frame->shape = *shape;
  frame->mutant = mutant;
  ovl_description_t d = describe(&frame->shape);
  spec_run_init(&frame->run, &d, shape->mode, shape->count, &shape->options, frame->expected);
  int r = ovl_plan_init(&plan, &d, &pair_heap);
  if (r != 0)
    return r;
  r = expect_orders(frame, &plan);
  ovl_plan_finish(&plan, &pair_heap);
  if (r != 0)
    return r;
  give_orders(frame);
  mutate(&for_core, mutant);
  d = describe(&for_core);
  return ovl_plan_init(&frame->plan, &d, &pair_heap);
}

void pair_frame_finish(pair_frame_t *frame) { ovl_plan_finish(&frame->plan, &pair_heap); }

/* ---- the pair ----------------------------------------------------------------------------------------------------- */

static bool has_fixed_lane(const pair_frame_t *frame) {
  for (uint32_t l = 0; l < frame->shape.lane_count; l++)
    if (frame->plan.lanes[l].fixed)
      return true;
  return false;
}

int pair_init(pair_t *pair, pair_frame_t *frame, const ovl_memory_t *memory) {
  ovl_core_options_t options = frame->shape.options;
  memset(pair, 0, sizeof *pair);
  pair->frame = frame;
  options.keep_going ^= frame->mutant == PAIR_OTHER_POLICY;
  int r = ovl_core_init(&pair->core, &frame->plan, &options, memory);
  if (r != 0)
    return r;
  pair->ordered = frame->shape.mode == OVL_OVERLAP && has_fixed_lane(frame);
  if (pair->ordered)
    r = ovl_orders_init(&pair->orders, &frame->plan, frame->given, hint, &frame->shape,
                        frame->shape.from_calls, NULL, memory);
  if (r != 0)
    ovl_core_finish(&pair->core);
  return r;
}

void pair_finish(pair_t *pair) {
  if (pair->ordered)
    ovl_orders_finish(&pair->orders);
  ovl_core_finish(&pair->core);
}

static void note(pair_t *pair, const char *wrong) {
  if (pair->wrong == NULL)
    pair->wrong = wrong;
}

static bool any_startable(const pair_t *pair) {
  return pair->core.startable[OVL_LANE_POOL] + pair->core.startable[OVL_LANE_LOOP] > 0;
}

static bool has_way_on(const pair_t *pair) {
  return pair->core.running > 0 || any_startable(pair) || pair->core.ended_head != NULL ||
         pair->core.tell_head != NULL;
}

void pair_check(pair_t *pair) {
  note(pair, spec_compare(&pair->spec, &pair->frame->run, &pair->core));
  note(pair, ovl_core_check(&pair->core));
  if (pair_is_over(pair))
    note(pair, spec_left_undone(&pair->spec, &pair->frame->run));
  else if (!has_way_on(pair))
    note(pair, "the run has no way on");
}

void pair_begin(pair_t *pair) {
  const pair_shape_t *shape = &pair->frame->shape;
  const ovl_order_source_t source =
      pair->ordered ? ovl_orders_source(&pair->orders) : (ovl_order_source_t){0};
  if (pair->ordered && ovl_orders_begin(&pair->orders, shape->count) != 0)
    note(pair, "no memory for the orders");
  ovl_core_set_order(&pair->core, &source);
  pair->core.instant++;
  ovl_core_begin(&pair->core, shape->mode, shape->count, ++pair->now);
  spec_begin(&pair->spec, &pair->frame->run);
  pair_check(pair);
}

bool pair_is_over(const pair_t *pair) { return spec_is_over(&pair->spec, &pair->frame->run); }

/* ---- events -------------------------------------------------------------------------------------------------------- */

static uint64_t tick(pair_t *pair) {
  pair->core.instant++;
  return ++pair->now;
}

bool pair_take(pair_t *pair, uint32_t lane, spec_op_t *op) {
  spec_op_t next;
  if (!spec_next(&pair->spec, &pair->frame->run, lane, &next))
    return false;
  const ovl_core_op_t *taken = ovl_core_take(&pair->core, lane, tick(pair));
  if (taken->pub.microbatch != next.microbatch || taken->stage != next.stage)
    note(pair, "another op starts than should");
  bool failed = pair->spec.microbatches[next.microbatch].fate != SPEC_FINE;
  if ((taken->pub.status != 0) != failed)
    note(pair, "an op does not see how its microbatch fares");
  spec_taken(&pair->spec, &pair->frame->run, next);
  pair_check(pair);
  if (op != NULL)
    *op = next;
  return true;
}

bool pair_end(pair_t *pair, spec_op_t op, int status) {
  if (pair->spec.microbatches[op.microbatch].ops[op.stage] != SPEC_RUNNING)
    return false;
  int told = pair->frame->mutant == PAIR_LOSES_ERRORS ? 0 : status;
  ovl_core_end(&pair->core, core_op(pair, op), told, 0, tick(pair));
  spec_ended(&pair->spec, &pair->frame->run, op, status != 0);
  pair_check(pair);
  return true;
}

bool pair_expire(pair_t *pair, spec_op_t op) {
  if (pair->spec.microbatches[op.microbatch].ops[op.stage] != SPEC_RUNNING)
    return false;
  ovl_core_fail(&pair->core, core_op(pair, op), OVL_ETIMEDOUT, 0, tick(pair));
  spec_expired(&pair->spec, &pair->frame->run, op);
  pair_check(pair);
  return true;
}

bool pair_cancel(pair_t *pair) {
  if (pair_is_over(pair))
    return false;
  ovl_core_cancel(&pair->core, tick(pair));
  spec_cancelled(&pair->spec, &pair->frame->run);
  pair_check(pair);
  return true;
}

bool pair_tell(pair_t *pair) {
  ovl_fault_t fault;
  if (!ovl_core_next_fault(&pair->core, &fault, tick(pair)))
    return false;
  if (fault.microbatch != OVL_NO_MICROBATCH)
    spec_told(&pair->spec, &pair->frame->run, (uint32_t)fault.microbatch);
  pair_check(pair);
  return true;
}

bool pair_retire(pair_t *pair) {
  ovl_core_slot_t *slot = ovl_core_next_ended(&pair->core);
  if (slot == NULL)
    return false;
  uint32_t microbatch = (uint32_t)slot->microbatch;
  if (slot->tell)
    note(pair, "a microbatch is reported before its error");
  ovl_core_retire(&pair->core, slot, tick(pair));
  spec_retired(&pair->spec, &pair->frame->run, microbatch);
  pair_check(pair);
  return true;
}
