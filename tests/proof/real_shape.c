/* SPDX-License-Identifier: MIT */
/* Makes random pipelines for the real executor. */
#include <string.h>

#include "proof/real_run.h"

static void random_lanes(real_shape_t *shape, random_source_t *random) {
  shape->lane_count = 1 + random_below(random, REAL_LANES);
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    bool fixed = random_chance(random, 30);
    shape->lanes[l] = (real_lane_t){.kind = random_chance(random, 30) ? OVL_LANE_LOOP : OVL_LANE_POOL,
                                    .width = fixed ? 1 : 1 + random_below(random, 3),
                                    .fixed = fixed,
                                    .polled = random_chance(random, 25)};
  }
}

static real_manner_t random_manner(const real_lane_t *lane, random_source_t *random) {
  if (lane->polled && random_chance(random, 70))
    return REAL_POLLED;
  real_manner_t manner = (real_manner_t)random_below(random, REAL_MANNERS);
  return manner == REAL_POLLED ? REAL_INLINE : manner;
}

static void random_stages(real_shape_t *shape, random_source_t *random) {
  bool deadlines = random_chance(random, 5);
  shape->stage_count = random_chance(random, 2) ? 0 : 1 + random_below(random, REAL_STAGES);
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    uint32_t lane = random_below(random, shape->lane_count);
    shape->stages[s] = (real_stage_t){.lane = lane,
                                      .manner = random_manner(&shape->lanes[lane], random),
                                      .unchained = random_chance(random, 35),
                                      .always = random_chance(random, 20),
                                      .hook = random_chance(random, 40),
                                      .timeout_ns = deadlines && random_chance(random, 40) ? 1000000 : 0,
                                      .cost_ns = random_below(random, 50)};
  }
}

/* Those of distance 0 lead forward. */
static void random_dependencies(real_shape_t *shape, random_source_t *random) {
  uint32_t wanted = shape->stage_count == 0 ? 0 : random_below(random, REAL_DEPENDENCIES + 1);
  for (; wanted > 0; wanted--) {
    real_dependency_t d = {.before = random_below(random, shape->stage_count),
                           .after = random_below(random, shape->stage_count),
                           .distance = random_below(random, shape->window + 2)};
    if (d.distance > 0 || d.before < d.after)
      shape->dependencies[shape->dependency_count++] = d;
  }
}

void real_shape_random(real_shape_t *shape, random_source_t *random) {
  static const uint64_t spins[] = {0, 1, 5000};
  memset(shape, 0, sizeof *shape);
  shape->window = 1 + random_below(random, 5);
  shape->queue = random_below(random, 4);
  shape->mode = random_chance(random, 10) ? OVL_SERIAL : OVL_OVERLAP;
  shape->on_error = random_chance(random, 50) ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE;
  shape->reports = random_chance(random, 60);
  shape->tells = random_chance(random, 50);
  shape->rooms = random_chance(random, 50);
  shape->no_stats = random_chance(random, 15);
  shape->traced = random_chance(random, 50);
  shape->spin_ns = spins[random_below(random, 3)];
  random_lanes(shape, random);
  random_stages(shape, random);
  random_dependencies(shape, random);
}

void real_plan_random(real_plan_t *plan, const real_shape_t *shape, random_source_t *random) {
  memset(plan, 0, sizeof *plan);
  plan->count = random_below(random, REAL_MICROBATCHES + 1);
  plan->streaming = random_chance(random, 30);
  plan->blocking = random_chance(random, 30);
  plan->dawdles = random_chance(random, 10);
  plan->trouble =
      random_chance(random, 55) ? 0 : 1 + random_below(random, random_chance(random, 50) ? 40 : 400);
  plan->gives = !plan->streaming && random_chance(random, 30);
  plan->seed = random_next(random);
  if (random_chance(random, 80))
    return;
  plan->cancel = random_chance(random, 50) ? REAL_CANCEL_FROM_OP : REAL_CANCEL_FROM_THREAD;
  plan->cancel_at = plan->cancel == REAL_CANCEL_FROM_THREAD
                        ? random_below(random, 300)
                        : random_below(random, plan->count * (shape->stage_count + 1) + 1);
}
