/* SPDX-License-Identifier: MIT */
/* A number is taken apart into choices, as a number into digits. */
#include "proof/family.h"

#include <string.h>

enum { STAGES = 3, PAIRS = STAGES * STAGES };

/* ---- choices ------------------------------------------------------------------------------------------------------- */

/* Lanes of the stages; the second lane appears after the first. */
static const uint8_t assignments[4][STAGES] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}};

static uint32_t assignment_count(const family_t *family) {
  return family->stages == 1 ? 1 : family->stages == 2 ? 2 : 4;
}

static uint8_t lane_of(const family_t *family, uint32_t assignment, uint32_t stage) {
  return family->stages == 2 ? (uint8_t)(assignment * stage) : assignments[assignment][stage];
}

/* Dependencies as a set of bits: before * STAGES + after. */
static bool has_pair(uint32_t set, uint32_t before, uint32_t after) {
  return set >> (before * STAGES + after) & 1;
}

static uint32_t closure(uint32_t set) {
  for (uint32_t k = 0; k < STAGES; k++)
    for (uint32_t a = 0; a < STAGES; a++)
      for (uint32_t b = 0; b < STAGES; b++)
        if (has_pair(set, a, k) && has_pair(set, k, b))
          set |= 1u << (a * STAGES + b);
  return set;
}

static bool is_within(uint32_t set, uint32_t stages) {
  for (uint32_t a = 0; a < STAGES; a++)
    for (uint32_t b = 0; b < STAGES; b++)
      if (has_pair(set, a, b) && (a >= stages || b >= stages))
        return false;
  return true;
}

/* No pair says what others say already; a cycle says too much, but one is let through to be refused. */
static bool is_worth_it(uint32_t set, uint32_t stages) {
  if (!is_within(set, stages))
    return false;
  if (set == (1u << 1 | 1u << STAGES))
    return true; /* 0 -> 1 -> 0 */
  for (uint32_t a = 0; a < STAGES; a++)
    if (has_pair(closure(set), a, a))
      return false;
  for (uint32_t pair = 0; pair < PAIRS; pair++)
    if ((set >> pair & 1) && closure(set & ~(1u << pair)) == closure(set))
      return false;
  return true;
}

typedef struct sets {
  uint32_t items[1 << PAIRS];
  uint32_t count;
} sets_t;

static uint32_t bits_of(uint32_t set) { return (uint32_t)__builtin_popcount(set); }

/* Dependencies within a microbatch; and those of distance 1. */
static const sets_t *within_sets(uint32_t stages) {
  static sets_t all[STAGES + 1];
  sets_t *sets = &all[stages];
  for (uint32_t set = 0, made = sets->count; made == 0 && set < 1u << PAIRS; set++)
    if (is_worth_it(set, stages))
      sets->items[sets->count++] = set;
  return sets;
}

static const sets_t *back_sets(uint32_t stages, uint32_t most) {
  static sets_t sets;
  static uint32_t made_stages, made_most;
  if (stages == made_stages && most == made_most)
    return &sets;
  made_stages = stages;
  made_most = most;
  sets.count = 0;
  for (uint32_t set = 0; set < 1u << PAIRS; set++)
    if (is_within(set, stages) && bits_of(set) <= most)
      sets.items[sets.count++] = set;
  return &sets;
}

static uint32_t digit(uint64_t *number, uint32_t base) {
  uint32_t value = (uint32_t)(*number % base);
  *number /= base;
  return value;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

typedef struct choice {
  uint32_t assignment, lane_types[2], within, back, always, way, window, count;
} choice_t;

enum { LANE_TYPES = 3, WAYS = 8 }; /* a way: 1 report and tell, 2 keep going, 4 serial */

static uint32_t always_count(const family_t *family) { return 1u << family->stages; }

static choice_t take_apart(const family_t *family, uint64_t number) {
  choice_t c;
  c.count = 1 + digit(&number, family->microbatches);
  c.window = 1 + digit(&number, family->windows);
  c.way = digit(&number, WAYS);
  c.always = digit(&number, always_count(family));
  c.assignment = digit(&number, assignment_count(family));
  c.lane_types[0] = digit(&number, LANE_TYPES);
  c.lane_types[1] = digit(&number, LANE_TYPES);
  const sets_t *within = within_sets(family->stages), *back = back_sets(family->stages, family->back_edges);
  c.within = within->items[digit(&number, within->count)];
  c.back = back->items[digit(&number, back->count)];
  return c;
}

uint64_t family_size(const family_t *family) {
  return (uint64_t)family->microbatches * family->windows * WAYS * always_count(family) *
         assignment_count(family) * LANE_TYPES * LANE_TYPES * within_sets(family->stages)->count *
         back_sets(family->stages, family->back_edges)->count;
}

static bool can_fail(const family_t *family) {
  return family->limits.failures + family->limits.cancels + family->limits.expiries > 0;
}

static bool is_redundant(const family_t *family, const choice_t *c) {
  bool two_lanes = family->stages > 1 && c->assignment > 0;
  if (!two_lanes && c->lane_types[1] > 0)
    return true;
  if (c->window == 1 && c->back != 0)
    return true;
  if (!can_fail(family) && (c->always != 0 || (c->way & 2)))
    return true;
  if ((c->way & 4) && (c->window > 1 || c->lane_types[0] > 0 || c->lane_types[1] > 0))
    return true; /* a serial run knows none of these */
  return c->window > c->count && c->window > 1;
}

static void add_pairs(pair_shape_t *shape, uint32_t set, uint32_t distance) {
  for (uint32_t a = 0; a < STAGES; a++)
    for (uint32_t b = 0; b < STAGES; b++) {
      if (!has_pair(set, a, b))
        continue;
      if (distance == 0 && b == a + 1)
        shape->stages[b].chained = true;
      else
        shape->dependencies[shape->dependency_count++] =
            (ovl_dependency_t){.before = a, .after = b, .distance = distance};
    }
}

bool family_member(const family_t *family, uint64_t k, pair_shape_t *shape) {
  const choice_t c = take_apart(family, k);
  if (is_redundant(family, &c))
    return false;
  memset(shape, 0, sizeof *shape);
  shape->lane_count = family->stages > 1 && c.assignment > 0 ? 2 : 1;
  shape->stage_count = family->stages;
  shape->window = c.window;
  shape->count = c.count;
  shape->mode = c.way & 4 ? OVL_SERIAL : OVL_OVERLAP;
  shape->options = (ovl_core_options_t){
      .keep_going = c.way & 2, .report = c.way & 1, .tell = c.way & 1, .statistics = true};
  for (uint32_t l = 0; l < shape->lane_count; l++)
    shape->lanes[l] = (ovl_lane_desc_t){.width = c.lane_types[l] == 2 ? 2 : 1, .fixed = c.lane_types[l] == 1};
  for (uint32_t s = 0; s < family->stages; s++) {
    shape->stages[s] =
        (ovl_stage_desc_t){.lane = lane_of(family, c.assignment, s), .always = c.always >> s & 1};
    shape->hints[s] = 1 + (s * 2) % 3; /* 1, 3, 2 */
  }
  add_pairs(shape, c.within, 0);
  add_pairs(shape, c.back, 1);
  return true;
}
