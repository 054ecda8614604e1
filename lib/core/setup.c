/* SPDX-License-Identifier: MIT */
/* The core's memory: sized by window x stages when the plan is frozen, reused by every run. */
#include <string.h>

#include "core/lists.h"
#include "ovl/errors.h"

static void ops_init(ovl_core_t *core) {
  const ovl_plan_t *plan = core->plan;
  for (uint32_t slot = 0; slot < plan->rows; slot++)
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
      ovl_core_op_t *op = &core->ops[(size_t)slot * plan->stage_count + stage];
      op->stage = stage;
      op->lane = plan->stages[stage].lane;
      op->slot = op->pub.slot = slot;
      op->pub.stage.id = op->stage + 1;
      op->pub.lane.id = op->lane + 1;
    }
}

void ovl_core_bind(ovl_core_t *core, ovl_pipeline_t *pipeline, void *(*data_of)(const void *, uint32_t stage),
                   const void *context) {
  for (size_t i = 0; i < (size_t)core->plan->rows * core->plan->stage_count; i++) {
    ovl_core_op_t *op = &core->ops[i];
    op->pub.pipeline = pipeline;
    op->pub.data = data_of(context, op->stage);
  }
}

static int lane_init(ovl_core_lane_t *lane, uint32_t width, const ovl_memory_t *memory) {
  if (width == 1) {
    lane->free = &lane->one_free;
    lane->place_bound = &lane->one_bound;
    return 0;
  }
  lane->free = ovl_memory_array(memory, width, sizeof *lane->free);
  lane->place_bound = ovl_memory_array(memory, width, sizeof *lane->place_bound);
  return lane->free != NULL && lane->place_bound != NULL ? 0 : OVL_ENOMEM;
}

static int lanes_init(ovl_core_t *core) {
  core->lanes = ovl_memory_array(&core->memory, core->plan->lane_count, sizeof *core->lanes);
  if (core->lanes == NULL)
    return OVL_ENOMEM;
  int r = 0;
  for (uint32_t l = 0; r == 0 && l < core->plan->lane_count; l++)
    r = lane_init(&core->lanes[l], core->plan->lanes[l].width, &core->memory);
  return r;
}

/* Edges of the mode that has more of them. */
static size_t most_edges(const ovl_plan_t *plan) {
  uint32_t overlap = plan->graphs[OVL_OVERLAP].in.first[plan->stage_count],
           serial = plan->graphs[OVL_SERIAL].in.first[plan->stage_count];
  return overlap > serial ? overlap : serial;
}

static int tables_init(ovl_core_t *core) {
  const ovl_plan_t *plan = core->plan;
  const ovl_memory_t *memory = &core->memory;
  size_t op_count;
  if (__builtin_mul_overflow((size_t)plan->rows, (size_t)plan->stage_count, &op_count) ||
      __builtin_add_overflow(plan->window, core->options.queue, &core->item_capacity))
    return OVL_ETOOBIG;
  core->lane_words = plan->lane_count / 64 + 1;
  core->ops = ovl_memory_array(memory, op_count, sizeof *core->ops);
  core->slots = ovl_memory_array(memory, plan->rows, sizeof *core->slots);
  core->items = ovl_memory_array(memory, core->item_capacity, sizeof *core->items);
  for (ovl_lane_kind_t kind = 0; kind < 2; kind++)
    core->more_lane_bits[kind] =
        ovl_memory_array(memory, core->lane_words - 1, sizeof *core->more_lane_bits[kind]);
  core->tally.stages = ovl_memory_array(memory, plan->stage_count, sizeof *core->tally.stages);
  core->tally.awaited = ovl_memory_array(memory, most_edges(plan), sizeof *core->tally.awaited);
  core->trace.capacity = core->options.trace;
  core->trace.records = ovl_memory_array(memory, core->trace.capacity, sizeof *core->trace.records);
  bool whole = core->ops != NULL && core->slots != NULL && core->items != NULL &&
               core->more_lane_bits[0] != NULL && core->more_lane_bits[1] != NULL &&
               core->tally.stages != NULL && core->tally.awaited != NULL && core->trace.records != NULL;
  return whole ? 0 : OVL_ENOMEM;
}

int ovl_core_init(ovl_core_t *core, const ovl_plan_t *plan, const ovl_core_options_t *options,
                  const ovl_memory_t *memory) {
  memset(core, 0, sizeof *core);
  core->plan = plan;
  core->graph = &plan->graphs[OVL_OVERLAP];
  core->options = *options;
  core->memory = *memory;
  int r = tables_init(core);
  if (r == 0)
    r = lanes_init(core);
  if (r != 0) {
    ovl_core_finish(core);
    return r;
  }
  ops_init(core);
  ovl_core_reset(core);
  return 0;
}

static void lane_finish(ovl_core_lane_t *lane, const ovl_memory_t *memory) {
  if (lane->free == &lane->one_free)
    return;
  ovl_memory_free(memory, lane->free);
  ovl_memory_free(memory, lane->place_bound);
}

void ovl_core_finish(ovl_core_t *core) {
  const ovl_memory_t memory = core->memory;
  for (uint32_t l = 0; core->lanes != NULL && l < core->plan->lane_count; l++)
    lane_finish(&core->lanes[l], &memory);
  ovl_memory_free(&memory, core->lanes);
  ovl_memory_free(&memory, core->trace.records);
  ovl_memory_free(&memory, core->tally.awaited);
  ovl_memory_free(&memory, core->tally.stages);
  ovl_memory_free(&memory, core->more_lane_bits[1]);
  ovl_memory_free(&memory, core->more_lane_bits[0]);
  ovl_memory_free(&memory, core->items);
  ovl_memory_free(&memory, core->slots);
  ovl_memory_free(&memory, core->ops);
  memset(core, 0, sizeof *core);
}

static void lane_reset(ovl_core_lane_t *lane, uint32_t width) {
  lane->head = lane->tail = NULL;
  lane->ready = lane->startable = lane->unstarted = lane->peak = 0;
  lane->busy = lane->attributed = 0;
  memset(lane->idle, 0, sizeof lane->idle);
  lane->held = lane->reached = false;
  lane->free_count = width;
  for (uint32_t place = 0; place < width; place++) {
    lane->free[place] = width - 1 - place; /* place 0 on top of the stack */
    lane->place_bound[place] = 0;
  }
}

static void tally_reset(ovl_core_t *core) {
  ovl_tally_t *tally = &core->tally;
  memset(tally->stages, 0, core->plan->stage_count * sizeof *tally->stages);
  memset(tally->awaited, 0, most_edges(core->plan) * sizeof *tally->awaited);
  *tally = (ovl_tally_t){.stages = tally->stages, .awaited = tally->awaited};
}

void ovl_core_reset(ovl_core_t *core) {
  for (uint32_t i = 0; i < core->plan->rows; i++)
    core->slots[i] = (ovl_core_slot_t){.state = OVL_SLOT_FREE};
  for (size_t i = 0; i < (size_t)core->plan->rows * core->plan->stage_count; i++)
    core->ops[i].state = OVL_OP_IDLE;
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    lane_reset(&core->lanes[l], core->plan->lanes[l].width);
  for (ovl_lane_kind_t kind = 0; kind < 2; kind++)
    for (uint32_t word = 0; word < core->lane_words; word++)
      *ovl_core_lane_word(core, kind, word) = 0;
  core->startable[0] = core->startable[1] = 0;
  core->next = 0;
  core->moves = 0;
  core->next_slot = core->in_flight = core->running = core->faults = 0;
  core->stopped = core->tell_cancel = false;
  core->cancel_after = NULL;
  core->first = (ovl_fault_t){0};
  core->skip_head = core->skip_tail = NULL;
  core->ended_head = core->ended_tail = core->tell_head = core->tell_tail = NULL;
  tally_reset(core);
  core->trace.first = core->trace.written;
}
