/* SPDX-License-Identifier: MIT */
/* The orders of fixed lanes in one run of a game: what the library plans, and what the planner says it must plan. */
#ifndef OVL_TESTS_GAME_ORDERS_H
#define OVL_TESTS_GAME_ORDERS_H

#include "random/planner.h"
#include "sim/orders.h"

typedef struct game_costs {
  uint64_t seed;
  bool by_microbatch; /* else by stage alone */
} game_costs_t;

typedef struct game_orders {
  bool used;
  const shape_t *shape;
  uint64_t count;
  game_costs_t costs;
  planner_list_t drawn[SHAPE_LANES]; /* an order that can be kept */
  planner_list_t planned[SHAPE_LANES];
  ovl_order_list_t given[SHAPE_LANES]; /* to the library */
  model_turns_t turns[SHAPE_LANES];    /* the same, for the model */
  ovl_orders_t orders;
} game_orders_t;

/* Draws hints and explicit orders, and has the library and the planner make orders from them. `plain`: none, so the
 * order is microbatch by microbatch. False: it is. */
bool game_orders_begin(game_orders_t *g, bool plain, const shape_t *shape, const ovl_plan_t *plan,
                       uint64_t count, random_source_t *random);

/* The library finds the explicit orders feasible, and every op is in some order. `otherwise`: it gets other hints
 * from now on. */
bool game_orders_agree(game_orders_t *g, bool otherwise);

/* Tells core and model what orders the next run has. */
void game_orders_install(game_orders_t *g, ovl_core_t *core, model_t *model);

void game_orders_finish(game_orders_t *g);

#endif
