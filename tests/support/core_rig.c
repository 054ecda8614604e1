/* SPDX-License-Identifier: MIT */
/* Describes, builds and drives a core for tests. */
#include "support/core_rig.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

/* ---- describing ----------------------------------------------------------------------------------------------- */

rig_t *rig_new(uint32_t window) {
  rig_t *rig = aligned_alloc(_Alignof(rig_t), sizeof *rig);
  assert_non_null(rig);
  memset(rig, 0, sizeof *rig);
  rig->window = window;
  rig->options.statistics = true;
  return rig;
}

void rig_free(rig_t *rig) {
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  if (rig->built) {
    ovl_core_finish(&rig->core);
    ovl_plan_finish(&rig->plan, &memory);
  }
  unsigned long held = counting_held(&rig->allocator);
  free(rig);
  assert_int_equal(held, 0);
}

uint32_t rig_lane(rig_t *rig, uint32_t width) {
  assert_true(rig->lane_count < RIG_LANES);
  rig->lanes[rig->lane_count] = (ovl_lane_desc_t){.width = width};
  return rig->lane_count++;
}

uint32_t rig_fixed_lane(rig_t *rig) {
  uint32_t lane = rig_lane(rig, 1);
  rig->lanes[lane].fixed = true;
  return lane;
}

static uint32_t add_stage(rig_t *rig, ovl_stage_desc_t stage) {
  assert_true(rig->stage_count < RIG_STAGES);
  rig->stages[rig->stage_count] = stage;
  return rig->stage_count++;
}

uint32_t rig_stage(rig_t *rig, uint32_t lane) {
  return add_stage(rig, (ovl_stage_desc_t){.lane = lane, .chained = true});
}

uint32_t rig_unchained_stage(rig_t *rig, uint32_t lane) {
  return add_stage(rig, (ovl_stage_desc_t){.lane = lane});
}

uint32_t rig_always_stage(rig_t *rig, uint32_t lane) {
  return add_stage(rig, (ovl_stage_desc_t){.lane = lane, .chained = true, .always = true});
}

void rig_depend(rig_t *rig, uint32_t before, uint32_t after, uint32_t distance) {
  assert_true(rig->dependency_count < RIG_DEPENDENCIES);
  rig->dependencies[rig->dependency_count++] =
      (ovl_dependency_t){.before = before, .after = after, .distance = distance};
}

ovl_description_t rig_description(const rig_t *rig) {
  return (ovl_description_t){.lanes = rig->lanes,
                             .stages = rig->stages,
                             .dependencies = rig->dependencies,
                             .lane_count = rig->lane_count,
                             .stage_count = rig->stage_count,
                             .dependency_count = rig->dependency_count,
                             .window = rig->window};
}

rig_t *rig_new_two_lanes(uint32_t window) {
  rig_t *rig = rig_new(window);
  rig_stage(rig, rig_lane(rig, 1));
  rig_stage(rig, rig_lane(rig, 1));
  rig->lanes[0].role = OVL_ROLE_COMPUTE;
  rig->lanes[1].role = OVL_ROLE_COMM;
  return rig;
}

void rig_build(rig_t *rig) {
  if (rig->built)
    return;
  const ovl_memory_t memory = counting_memory(&rig->allocator);
  const ovl_description_t description = rig_description(rig);
  assert_int_equal(ovl_plan_init(&rig->plan, &description, &memory), 0);
  assert_int_equal(ovl_core_init(&rig->core, &rig->plan, &rig->options, &memory), 0);
  rig->built = true;
}

/* ---- driving --------------------------------------------------------------------------------------------------- */

static uint64_t next_instant(rig_t *rig) {
  rig->core.instant++;
  return ++rig->now;
}

void rig_begin(rig_t *rig, ovl_mode_t mode, uint64_t count) {
  rig_build(rig);
  ovl_core_begin(&rig->core, mode, count, next_instant(rig));
}

ovl_core_op_t *rig_take(rig_t *rig, uint32_t lane) {
  assert_true(rig_startable(rig, lane) > 0);
  return ovl_core_take(&rig->core, lane, next_instant(rig));
}

void rig_end(rig_t *rig, ovl_core_op_t *op, int status) {
  ovl_core_end(&rig->core, op, status, 0, next_instant(rig));
}

void rig_fail(rig_t *rig, ovl_core_op_t *op, int status) {
  ovl_core_fail(&rig->core, op, status, 0, next_instant(rig));
}

void rig_cancel(rig_t *rig) { ovl_core_cancel(&rig->core, next_instant(rig)); }

int rig_submit(rig_t *rig, void *item) {
  rig_build(rig);
  return ovl_core_submit(&rig->core, item, next_instant(rig));
}

void rig_finish(rig_t *rig) { ovl_core_finish_items(&rig->core, next_instant(rig)); }

void rig_retire(rig_t *rig, ovl_core_slot_t *slot) { ovl_core_retire(&rig->core, slot, next_instant(rig)); }

uint32_t rig_startable(const rig_t *rig, uint32_t lane) { return rig->core.lanes[lane].startable; }

ovl_core_op_t *rig_take_expected(rig_t *rig, uint32_t lane, uint64_t microbatch, uint32_t stage,
                                 const char *file, int line) {
  _assert_int_equal(rig_startable(rig, lane) > 0, 1, file, line);
  ovl_core_op_t *op = rig_take(rig, lane);
  _assert_int_equal(op->pub.microbatch, microbatch, file, line);
  _assert_int_equal(op->stage, stage, file, line);
  return op;
}

static uint32_t pick(const rig_t *rig) {
  uint32_t lane = ovl_core_pick_lane(&rig->core, OVL_LANE_POOL, OVL_NO_LANE);
  return lane != OVL_NO_LANE ? lane : ovl_core_pick_lane(&rig->core, OVL_LANE_LOOP, OVL_NO_LANE);
}

uint64_t rig_run_dry(rig_t *rig) {
  uint64_t ops = 0;
  for (uint32_t lane; (lane = pick(rig)) != OVL_NO_LANE; ops++)
    rig_end(rig, rig_take(rig, lane), 0);
  return ops;
}

/* ---- virtual time ------------------------------------------------------------------------------------------------ */

typedef struct flight {
  ovl_core_op_t *op;
  uint64_t ends;
} flight_t;

typedef struct simulation {
  rig_t *rig;
  flight_t *flights; /* room for all ops of the window */
  uint32_t count;
  rig_duration_cb duration;
  void *data;
} simulation_t;

static void start_all(simulation_t *s) {
  for (uint32_t lane; (lane = pick(s->rig)) != OVL_NO_LANE;) {
    ovl_core_op_t *op = ovl_core_take(&s->rig->core, lane, s->rig->now);
    s->flights[s->count++] = (flight_t){.op = op, .ends = s->rig->now + s->duration(op, s->data)};
  }
}

static uint64_t next_end(const simulation_t *s) {
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < s->count; i++)
    if (s->flights[i].ends < next)
      next = s->flights[i].ends;
  return next;
}

static void end_those_due(simulation_t *s) {
  uint32_t kept = 0, count = s->count;
  flight_t *flights = s->flights;
  for (uint32_t i = 0; i < count; i++) {
    if (flights[i].ends == s->rig->now)
      ovl_core_end(&s->rig->core, flights[i].op, 0, 0, s->rig->now);
    else
      flights[kept++] = flights[i];
  }
  s->count = kept;
}

uint64_t rig_simulate(rig_t *rig, ovl_mode_t mode, uint64_t count, rig_duration_cb duration, void *data) {
  rig_begin(rig, mode, count);
  simulation_t s = {.rig = rig, .duration = duration, .data = data};
  uint64_t begun = rig->now;
  s.flights = calloc((size_t)rig->window * rig->stage_count + 1, sizeof *s.flights);
  assert_non_null(s.flights);
  for (start_all(&s); s.count > 0; start_all(&s)) {
    uint64_t next = next_end(&s);
    if (next > rig->now)
      rig->core.instant++;
    rig->now = next;
    end_those_due(&s);
  }
  free(s.flights);
  assert_true(ovl_core_over(&rig->core));
  ovl_core_leave(&rig->core);
  return rig->now - begun;
}

static uint64_t duration_of_stage(const ovl_core_op_t *op, void *durations) {
  return ((const uint64_t *)durations)[op->stage];
}

uint64_t rig_simulate_stages(rig_t *rig, ovl_mode_t mode, uint64_t count, const uint64_t *durations) {
  return rig_simulate(rig, mode, count, duration_of_stage, (void *)(uintptr_t)durations);
}
