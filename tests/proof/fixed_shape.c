/* SPDX-License-Identifier: MIT */
/* Makes random pipelines in which most lanes keep an order. */
#include "proof/fixed_shape.h"

#include <string.h>

static void random_lanes(pair_shape_t *shape, random_source_t *random) {
  shape->lane_count = 1 + random_below(random, SPEC_LANES);
  bool gives = random_chance(random, 20);
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    bool fixed = random_chance(random, 65);
    shape->lanes[l] = (ovl_lane_desc_t){.width = fixed ? 1 : 1 + random_below(random, 8),
                                        .kind = random_chance(random, 30) ? OVL_LANE_LOOP : OVL_LANE_POOL,
                                        .fixed = fixed};
    shape->given[l] = gives && random_chance(random, 50);
  }
}

static uint64_t random_hint(random_source_t *random) {
  static const uint32_t scales[] = {1, 3, 30, 300};
  return random_below(random, scales[random_below(random, 4)] + 1);
}

static void random_stages(pair_shape_t *shape, random_source_t *random) {
  shape->stage_count = 1 + random_below(random, SPEC_STAGES);
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    shape->stages[s] = (ovl_stage_desc_t){.lane = random_below(random, shape->lane_count),
                                          .chained = random_chance(random, 50),
                                          .always = random_chance(random, 15)};
    shape->hints[s] = random_hint(random);
  }
}

/* Those of distance 0 lead forward, so there is no cycle. */
static void random_dependencies(pair_shape_t *shape, random_source_t *random) {
  uint32_t wanted = random_below(random, 6);
  for (uint32_t k = 0; k < wanted; k++) {
    ovl_dependency_t d = {.before = random_below(random, shape->stage_count),
                          .after = random_below(random, shape->stage_count),
                          .distance = random_below(random, shape->window + 2)};
    if (d.distance > 0 || d.before < d.after)
      shape->dependencies[shape->dependency_count++] = d;
  }
}

void fixed_shape_random(pair_shape_t *shape, random_source_t *random) {
  memset(shape, 0, sizeof *shape);
  shape->window = 1 + random_below(random, random_chance(random, 30) ? 12 : 5);
  shape->count = random_below(random, SPEC_MICROBATCHES + 1);
  shape->mode = random_chance(random, 5) ? OVL_SERIAL : OVL_OVERLAP;
  shape->from_calls = random_chance(random, 15);
  shape->options = (ovl_core_options_t){.keep_going = random_chance(random, 70),
                                        .report = random_chance(random, 40),
                                        .tell = random_chance(random, 30),
                                        .statistics = random_chance(random, 80)};
  random_lanes(shape, random);
  random_stages(shape, random);
  random_dependencies(shape, random);
}
