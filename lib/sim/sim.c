/* SPDX-License-Identifier: MIT */
/* The virtual-time driver: a heap of running ops, and the core. */
#include "sim/sim.h"

#include <string.h>

#include "ovl/errors.h"

/* ---- the heap ------------------------------------------------------------------------------------------------ */

static bool ends_before(const ovl_sim_event_t *a, const ovl_sim_event_t *b) {
  if (a->end != b->end)
    return a->end < b->end;
  if (a->op->pub.microbatch != b->op->pub.microbatch)
    return a->op->pub.microbatch < b->op->pub.microbatch;
  return a->op->pub.stage.id < b->op->pub.stage.id;
}

static void push(ovl_sim_t *sim, ovl_sim_event_t event) {
  uint32_t at = sim->event_count++;
  for (; at > 0 && ends_before(&event, &sim->events[(at - 1) / 2]); at = (at - 1) / 2)
    sim->events[at] = sim->events[(at - 1) / 2];
  sim->events[at] = event;
}

static ovl_sim_event_t pop(ovl_sim_t *sim) {
  ovl_sim_event_t top = sim->events[0], moved = sim->events[--sim->event_count];
  uint32_t at = 0;
  for (uint32_t child; (child = 2 * at + 1) < sim->event_count; at = child) {
    child += child + 1 < sim->event_count && ends_before(&sim->events[child + 1], &sim->events[child]);
    if (!ends_before(&sim->events[child], &moved))
      break;
    sim->events[at] = sim->events[child];
  }
  sim->events[at] = moved;
  return top;
}

/* ---- time ---------------------------------------------------------------------------------------------------- */

static uint32_t pick_lane(const ovl_core_t *core) {
  uint32_t pool = ovl_core_pick_lane(core, OVL_LANE_POOL, OVL_NO_LANE);
  uint32_t loop = ovl_core_pick_lane(core, OVL_LANE_LOOP, OVL_NO_LANE);
  return pool < loop ? pool : loop;
}

/* Ends all ops that end next. They end in one instant, so what they make ready is ordered by number. */
static void pass_time(ovl_sim_t *sim) {
  sim->now = sim->events[0].end;
  sim->core.instant++;
  while (sim->event_count > 0 && sim->events[0].end == sim->now)
    ovl_core_end(&sim->core, pop(sim).op, 0, 0, sim->now);
}

ovl_core_op_t *ovl_sim_next(ovl_sim_t *sim, uint64_t *end) {
  uint32_t lane;
  while ((lane = pick_lane(&sim->core)) == OVL_NO_LANE) {
    if (sim->event_count == 0)
      return NULL;
    pass_time(sim);
  }
  ovl_core_op_t *op = ovl_core_take(&sim->core, lane, sim->now);
  *end = ovl_later(sim->now, sim->duration(sim->context, &op->pub));
  push(sim, (ovl_sim_event_t){.end = *end, .op = op});
  return op;
}

void ovl_sim_begin(ovl_sim_t *sim, ovl_mode_t mode, uint64_t count) {
  sim->now = 0;
  sim->event_count = 0;
  sim->core.instant++;
  ovl_core_begin(&sim->core, mode, count, 0);
}

/* ---- set-up -------------------------------------------------------------------------------------------------- */

/* Ops that can run at once. */
static size_t total_width(const ovl_plan_t *plan) {
  size_t width = 0;
  for (uint32_t l = 0; l < plan->lane_count; l++)
    width += plan->lanes[l].width;
  return width;
}

int ovl_sim_init(ovl_sim_t *sim, const ovl_plan_t *plan, ovl_duration_fn duration, void *context,
                 const ovl_core_options_t *options, const ovl_memory_t *memory) {
  memset(sim, 0, sizeof *sim);
  sim->duration = duration;
  sim->context = context;
  int r = ovl_core_init(&sim->core, plan, options, memory);
  if (r != 0)
    return r;
  sim->events = ovl_memory_array(memory, total_width(plan), sizeof *sim->events);
  if (sim->events == NULL) {
    ovl_core_finish(&sim->core);
    return OVL_ENOMEM;
  }
  return 0;
}

void ovl_sim_finish(ovl_sim_t *sim) {
  if (sim->events == NULL)
    return;
  const ovl_memory_t memory = sim->core.memory;
  ovl_memory_free(&memory, sim->events);
  ovl_core_finish(&sim->core);
  sim->events = NULL;
}
