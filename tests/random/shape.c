/* SPDX-License-Identifier: MIT */
/* Makes random pipelines. */
#include "random/shape.h"

#include <string.h>

static void random_lanes(shape_t *shape, random_source_t *random) {
  shape->lane_count = 1 + random_below(random, SHAPE_LANES);
  for (uint32_t l = 0; l < shape->lane_count; l++)
    shape->lanes[l] = (ovl_lane_desc_t){.width = random_chance(random, 60) ? 1 : 1 + random_below(random, 5),
                                        .kind = random_chance(random, 30) ? OVL_LANE_LOOP : OVL_LANE_POOL,
                                        .role = (ovl_role_t)random_below(random, 3)};
  for (uint32_t l = 0; l < shape->lane_count; l++)
    shape->lanes[l].fixed = shape->lanes[l].width == 1 && random_chance(random, 40);
}

static void random_stages(shape_t *shape, random_source_t *random) {
  shape->stage_count = random_chance(random, 3) ? 0 : 1 + random_below(random, SHAPE_STAGES);
  for (uint32_t s = 0; s < shape->stage_count; s++)
    shape->stages[s] = (ovl_stage_desc_t){.lane = random_below(random, shape->lane_count),
                                          .chained = random_chance(random, 60),
                                          .always = random_chance(random, 20)};
}

bool shape_waits(const shape_t *shape, uint32_t before, uint32_t stage) {
  if (shape->stages[stage].chained && stage == before + 1)
    return true;
  for (uint32_t d = 0; d < shape->dependency_count; d++)
    if (shape->dependencies[d].before == before && shape->dependencies[d].after == stage &&
        shape->dependencies[d].distance == 0)
      return true;
  return false;
}

static bool may_be_next(const shape_t *shape, uint32_t stage, const bool *placed) {
  if (placed[stage])
    return false;
  for (uint32_t before = 0; before < shape->stage_count; before++)
    if (!placed[before] && shape_waits(shape, before, stage))
      return false;
  return true;
}

static void order_stages(shape_t *shape) {
  bool placed[SHAPE_STAGES] = {false};
  shape->ordered = 0;
  for (uint32_t s = 0; s < shape->stage_count; s++)
    if (may_be_next(shape, s, placed)) {
      placed[s] = true;
      shape->order[shape->ordered++] = s;
      s = UINT32_MAX; /* from the lowest again */
    }
}

/* In any direction; those that close a cycle are taken back, but for a few. */
static void random_dependencies(shape_t *shape, random_source_t *random) {
  uint32_t wanted = shape->stage_count == 0 ? 0 : random_below(random, SHAPE_DEPENDENCIES + 1);
  for (uint32_t d = 0; d < wanted; d++) {
    shape->dependencies[shape->dependency_count++] =
        (ovl_dependency_t){.before = random_below(random, shape->stage_count),
                           .after = random_below(random, shape->stage_count),
                           .distance = random_chance(random, 40) ? 0 : random_below(random, 11)};
    order_stages(shape);
    if (shape->ordered < shape->stage_count && !random_chance(random, 2))
      shape->dependency_count--;
  }
  order_stages(shape);
}

void shape_random(shape_t *shape, random_source_t *random) {
  memset(shape, 0, sizeof *shape);
  shape->window = 1 + random_below(random, 9);
  shape->spare_rows = random_chance(random, 50) ? 0 : random_below(random, 9);
  shape->options = (ovl_core_options_t){.queue = random_below(random, 5),
                                        .keep_going = random_chance(random, 50),
                                        .report = random_chance(random, 50),
                                        .tell = random_chance(random, 50),
                                        .statistics = random_chance(random, 80)};
  random_lanes(shape, random);
  random_stages(shape, random);
  random_dependencies(shape, random);
}

ovl_description_t shape_description(const shape_t *shape) {
  return (ovl_description_t){.lanes = shape->lanes,
                             .stages = shape->stages,
                             .dependencies = shape->dependencies,
                             .lane_count = shape->lane_count,
                             .stage_count = shape->stage_count,
                             .dependency_count = shape->dependency_count,
                             .window = shape->window,
                             .slots = shape->window,
                             .rows = shape->window + shape->spare_rows};
}
