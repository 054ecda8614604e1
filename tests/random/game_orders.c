/* SPDX-License-Identifier: MIT */
/* Orders of fixed lanes in a game. */
#include "random/game_orders.h"

#include <stdlib.h>
#include <string.h>

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *block) {
  (void)context;
  free(block);
}

static const ovl_memory_t memory = {.allocate = allocate, .release = release};

/* ---- hints ------------------------------------------------------------------------------------------------------- */

static uint64_t cost_of(void *context, uint64_t microbatch, uint32_t stage) {
  const game_costs_t *costs = context;
  random_source_t random = {costs->seed + stage * UINT64_C(1000003) +
                            (costs->by_microbatch ? microbatch : 0)};
  random_next(&random);
  return (costs->by_microbatch ? 0 : 1) + random_below(&random, 9);
}

static uint64_t hint(void *context, const ovl_op_t *op) {
  return cost_of(context, op->microbatch, op->stage.id - 1);
}

/* ---- explicit orders --------------------------------------------------------------------------------------------- */

/* From a schedule with durations of its own, so that they can be kept together. */
static void give_some(game_orders_t *g, random_source_t *random) {
  game_costs_t durations = {.seed = random_next(random), .by_microbatch = true};
  planner_run(g->shape, g->count, cost_of, &durations, NULL, g->drawn);
  for (uint32_t l = 0; l < g->shape->lane_count; l++)
    if (g->shape->lanes[l].fixed && g->drawn[l].count > 0 && random_chance(random, 60)) {
      g->given[l] = (ovl_order_list_t){.refs = g->drawn[l].refs, .count = g->drawn[l].count};
      g->turns[l] = (model_turns_t){.refs = g->drawn[l].refs, .count = g->drawn[l].count};
    }
}

/* ---- a run's orders ---------------------------------------------------------------------------------------------- */

static bool any_fixed(const shape_t *shape) {
  for (uint32_t l = 0; l < shape->lane_count; l++)
    if (shape->lanes[l].fixed)
      return true;
  return false;
}

bool game_orders_begin(game_orders_t *g, bool plain, const shape_t *shape, const ovl_plan_t *plan,
                       uint64_t count, random_source_t *random) {
  memset(g->given, 0, sizeof g->given);
  memset(g->turns, 0, sizeof g->turns);
  g->shape = shape;
  g->count = count;
  g->used = !plain && any_fixed(shape);
  if (!g->used)
    return false;
  bool from_calls = random_chance(random, 40);
  g->costs = (game_costs_t){.seed = random_next(random), .by_microbatch = from_calls};
  if (random_chance(random, 40))
    give_some(g, random);
  planner_run(shape, count, cost_of, &g->costs, g->turns, g->planned);
  g->used = ovl_orders_init(&g->orders, plan, g->given, hint, &g->costs, from_calls, NULL, &memory) == 0;
  return g->used;
}

static uint64_t ops_on(const game_orders_t *g, uint32_t lane) {
  uint64_t ops = 0;
  for (uint32_t s = 0; s < g->shape->stage_count; s++)
    ops += g->shape->stages[s].lane == lane ? g->count : 0;
  return ops;
}

bool game_orders_agree(game_orders_t *g, bool otherwise) {
  g->costs.seed += otherwise;
  uint32_t lane;
  ovl_op_ref_t turn;
  for (uint32_t l = 0; l < g->shape->lane_count; l++)
    if (g->planned[l].count != ops_on(g, l))
      return false;
  return ovl_orders_feasible(&g->orders, g->count, &lane, &turn) &&
         ovl_orders_begin(&g->orders, g->count) == 0;
}

void game_orders_install(game_orders_t *g, ovl_core_t *core, model_t *model) {
  ovl_order_source_t source = {.next = NULL};
  if (g->used)
    source = ovl_orders_source(&g->orders);
  ovl_core_set_order(core, &source);
  for (uint32_t l = 0; l < g->shape->lane_count; l++) {
    model->turns[l] = g->turns[l];
    if (g->used && g->turns[l].refs == NULL)
      model->turns[l] = (model_turns_t){.refs = g->planned[l].refs, .count = g->planned[l].count};
  }
}

void game_orders_finish(game_orders_t *g) {
  if (g->used)
    ovl_orders_finish(&g->orders);
  g->used = false;
}
