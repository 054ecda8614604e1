/* SPDX-License-Identifier: MIT */
/* Drives a core and its model. Whatever a driver may do is done at any time, in any order. */
#include "random/game.h"

#include <stdlib.h>
#include <string.h>

#include "ovl/errors.h"
#include "random/game_orders.h"

enum { MOST_MICROBATCHES = 40, MOST_RUNS = 3, MOST_STEPS = 20000 };

typedef struct game {
  random_source_t random;
  mutant_t mutant;
  bool compare;
  shape_t shape;
  ovl_core_options_t options; /* the core's: the shape's, but for mutants */
  ovl_plan_t plan;
  ovl_core_t core;
  model_t model;
  ovl_core_op_t *running[MODEL_MICROBATCHES * SHAPE_STAGES];
  bool expired[MODEL_MICROBATCHES * SHAPE_STAGES]; /* its deadline has passed */
  uint32_t running_count;
  ovl_core_slot_t *reported[MODEL_MICROBATCHES]; /* and not retired */
  uint32_t reported_count;
  uint32_t submitted; /* items of this run */
  uint32_t trouble;   /* percent of ops that fail */
  uint64_t now;
  uint64_t steps, ops;
  game_orders_t orders; /* of fixed lanes, in this run */
} game_t;

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *block) {
  (void)context;
  free(block);
}

static const ovl_memory_t memory = {.allocate = allocate, .release = release};

/* ---- time ---------------------------------------------------------------------------------------------------------- */

/* The time of an event: mostly later than the last, now and then a little earlier, as clocks of several threads
 * are. Some events are in the same instant as the last. */
static uint64_t tick(game_t *g) {
  if (random_chance(&g->random, 75)) {
    g->model.instant++;
    if (g->mutant != MUTANT_KNOWS_NO_TIME)
      g->core.instant++;
  }
  g->now += random_below(&g->random, 20);
  uint32_t back = random_chance(&g->random, 10) ? random_below(&g->random, 8) : 0;
  return g->now - back;
}

/* ---- what a driver does: each returns false when there is nothing of its kind to do ---------------------------------- */

static ovl_op_ref_t ref_of(const ovl_core_op_t *op) {
  return (ovl_op_ref_t){.microbatch = op->pub.microbatch, .stage = op->pub.stage.id - 1};
}

static bool take(game_t *g) {
  uint32_t preferred = random_below(&g->random, SHAPE_LANES + 2);
  ovl_lane_kind_t kind = random_chance(&g->random, 50) ? OVL_LANE_POOL : OVL_LANE_LOOP;
  uint32_t lane = ovl_core_pick_lane(&g->core, kind, preferred);
  if (lane == OVL_NO_LANE)
    lane = ovl_core_pick_lane(&g->core, kind == OVL_LANE_POOL ? OVL_LANE_LOOP : OVL_LANE_POOL, preferred);
  if (lane == OVL_NO_LANE)
    return false;
  uint64_t now = tick(g);
  ovl_core_op_t *op = ovl_core_take(&g->core, lane, now);
  g->expired[g->running_count] = false;
  g->running[g->running_count++] = op;
  model_taken(&g->model, op, now);
  return true;
}

static bool end(game_t *g) {
  if (g->running_count == 0)
    return false;
  uint32_t k = random_below(&g->random, g->running_count);
  ovl_core_op_t *op = g->running[k];
  int status = random_chance(&g->random, g->trouble) ? -1 - (int)random_below(&g->random, 50) : 0;
  int native = status != 0 && random_chance(&g->random, 30) ? 1 + (int)random_below(&g->random, 9) : 0;
  uint64_t now = tick(g);
  if (g->expired[k])
    status = native = 0; /* it has failed already */
  g->running[k] = g->running[--g->running_count];
  g->expired[k] = g->expired[g->running_count];
  g->ops++;
  ovl_op_ref_t ref = ref_of(op); /* its slot may have the next microbatch right after */
  uint64_t ended = g->mutant == MUTANT_SHORTENS_DURATIONS && now > 0 ? now - 1 : now;
  ovl_core_end(&g->core, op, status, native, ended);
  if (g->mutant == MUTANT_LOSES_AN_ERROR)
    status = native = 0;
  if (g->mutant != MUTANT_LOSES_AN_END || !random_chance(&g->random, 5))
    model_ended(&g->model, ref, status, native, now);
  return true;
}

static bool expire(game_t *g) {
  if (g->running_count == 0 || !random_chance(&g->random, g->trouble))
    return false;
  uint32_t k = random_below(&g->random, g->running_count);
  if (g->expired[k])
    return false;
  g->expired[k] = true;
  uint64_t now = tick(g);
  ovl_core_fail(&g->core, g->running[k], OVL_ETIMEDOUT, 0, now);
  model_failed(&g->model, ref_of(g->running[k]), OVL_ETIMEDOUT, now);
  return true;
}

static bool cancel(game_t *g) {
  if (!random_chance(&g->random, g->trouble / 2))
    return false;
  uint64_t now = tick(g);
  ovl_core_cancel(&g->core, now);
  if (g->mutant != MUTANT_LOSES_A_CANCEL)
    model_cancelled(&g->model, now);
  return true;
}

static bool hold(game_t *g) {
  uint32_t lane = random_below(&g->random, g->shape.lane_count);
  bool held = !g->model.held[lane] && random_chance(&g->random, 30);
  g->model.held[lane] = held;
  if (g->mutant != MUTANT_DOES_NOT_HOLD)
    ovl_core_hold_lane(&g->core, lane, held);
  return true;
}

static bool tell(game_t *g) {
  uint64_t now = tick(g);
  ovl_fault_t fault;
  if (!ovl_core_next_fault(&g->core, &fault, now))
    return false;
  model_told(&g->model, &fault, now);
  return true;
}

static bool report(game_t *g) {
  while (g->model.wrong == NULL && tell(g))
    ; /* faults come before reports */
  ovl_core_slot_t *slot = ovl_core_next_ended(&g->core);
  if (slot == NULL)
    return false;
  g->reported[g->reported_count++] = slot;
  model_reported(&g->model, slot);
  return true;
}

static bool retire(game_t *g) {
  if (g->reported_count == 0)
    return false;
  uint32_t k = random_below(&g->random, g->reported_count);
  ovl_core_slot_t *slot = g->reported[k];
  uint64_t now = tick(g), microbatch = slot->microbatch;
  g->reported[k] = g->reported[--g->reported_count];
  ovl_core_retire(&g->core, slot, now);
  if (g->mutant != MUTANT_RETIRES_IN_SECRET)
    model_retired(&g->model, microbatch, now);
  return true;
}

static void *next_item(const game_t *g) { return (void *)(uintptr_t)(1000 + g->submitted); }

static void submit_one(game_t *g, bool running) {
  uint64_t now = running ? tick(g) : 0;
  void *item = next_item(g);
  int r = ovl_core_submit(&g->core, item, now);
  g->submitted += r == 0;
  model_submitted(&g->model, r, item, now);
}

static bool submit(game_t *g) {
  if (g->core.count != OVL_STREAMING || g->core.stopped || g->core.finished)
    return false;
  if (g->submitted < MOST_MICROBATCHES && !random_chance(&g->random, 3)) {
    submit_one(g, true);
  } else {
    uint64_t now = tick(g);
    ovl_core_finish_items(&g->core, now);
    model_finished(&g->model, now);
  }
  return true;
}

typedef bool (*action_t)(game_t *);

/* As often as they stand here. */
static const action_t actions[] = {take,   take,   take,   take,   take,   end,    end,   end,
                                   end,    end,    end,    expire, cancel, hold,   tell,  tell,
                                   report, report, retire, retire, submit, submit, submit};
enum { ACTIONS = sizeof actions / sizeof *actions };

static void step(game_t *g) {
  uint32_t first = random_below(&g->random, ACTIONS);
  for (uint32_t k = 0; k < ACTIONS && !actions[(first + k) % ACTIONS](g); k++)
    ;
  g->steps++;
}

/* ---- a run --------------------------------------------------------------------------------------------------------------- */

static void check(game_t *g) {
  if (!g->compare || g->model.wrong != NULL)
    return;
  model_compare(&g->model, &g->core);
  model_require(&g->model, model_is_over(&g->model) || model_has_way_on(&g->model), "the run has no way on");
}

static void begin(game_t *g) {
  bool streaming = g->model.item_count > 0 || random_chance(&g->random, 35);
  ovl_mode_t mode = random_chance(&g->random, 20) ? OVL_SERIAL : OVL_OVERLAP;
  uint64_t count = streaming ? OVL_STREAMING : random_below(&g->random, MOST_MICROBATCHES + 1);
  uint64_t now = g->now += 10; /* no time of the last run is later */
  g->core.instant++;
  g->model.instant++;
  g->trouble = random_chance(&g->random, 50) ? 0 : random_below(&g->random, 20);
  bool orders = g->mutant == NO_MUTANT || g->mutant == MUTANT_PLANS_OTHERWISE;
  bool plain = !orders || streaming || mode == OVL_SERIAL || random_chance(&g->random, 25);
  if (game_orders_begin(&g->orders, plain, &g->shape, &g->plan, count, &g->random))
    model_require(&g->model, game_orders_agree(&g->orders, g->mutant == MUTANT_PLANS_OTHERWISE),
                  "an order cannot be kept, or lacks an op");
  game_orders_install(&g->orders, &g->core, &g->model);
  ovl_core_begin(&g->core, g->mutant == MUTANT_IS_NOT_SERIAL ? OVL_OVERLAP : mode, count, now);
  model_begin(&g->model, mode, count, now);
  check(g);
}

/* After a run: what is still owed is told, items come back. */
static void leave(game_t *g) {
  while (g->model.wrong == NULL && tell(g))
    ;
  void *item;
  uint64_t microbatch;
  while (g->model.wrong == NULL && ovl_core_drop_item(&g->core, &item, &microbatch))
    model_dropped(&g->model, microbatch, item);
  ovl_core_leave(&g->core);
  model_left(&g->model);
  model_t *model = &g->model;
  model_require(model, model->owed_count == 0, "a fault is never told");
  model_require(model, model->item_count == 0, "an item is never given back");
  model_require(model, model->retired == model->admitted, "a microbatch never retires");
  model_require(model, model->first.status != 0 || model->skipped == 0, "an op is skipped without an error");
  model_require(model, model->ops + model->skipped == (uint64_t)model->admitted * g->shape.stage_count,
                "an op never ran");
}

static void play_run(game_t *g) {
  g->submitted = g->model.item_count;
  begin(g);
  for (uint64_t most = g->steps + MOST_STEPS; !ovl_core_over(&g->core) && g->model.wrong == NULL;) {
    step(g);
    check(g);
    model_require(&g->model, g->steps < most, "the run does not end");
  }
  if (g->model.wrong == NULL)
    leave(g);
  game_orders_finish(&g->orders);
}

static void play_runs(game_t *g) {
  uint32_t runs = 1 + random_below(&g->random, MOST_RUNS);
  for (uint32_t run = 0; run < runs && g->model.wrong == NULL; run++) {
    g->submitted = 0;
    for (uint32_t early = random_chance(&g->random, 20) ? random_below(&g->random, 9) : 0; early > 0; early--)
      submit_one(g, false);
    play_run(g);
  }
}

/* ---- mutants that get another pipeline --------------------------------------------------------------------------------------- */

static void mutate(game_t *g, shape_t *shape) {
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    shape->lanes[l].width += g->mutant == MUTANT_HAS_WIDER_LANES;
    shape->lanes[l].fixed &= g->mutant != MUTANT_KEEPS_NO_ORDER && g->mutant != MUTANT_HAS_WIDER_LANES;
  }
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    shape->stages[s].chained &= g->mutant != MUTANT_FORGETS_CHAIN;
    shape->stages[s].always |= g->mutant == MUTANT_RUNS_ALWAYS;
    shape->stages[s].always &= g->mutant != MUTANT_NEVER_RUNS_ALWAYS;
  }
  if (g->mutant == MUTANT_FORGETS_DEPENDENCIES)
    shape->dependency_count = 0;
  shape->window += g->mutant == MUTANT_HAS_WIDER_WINDOW;
  shape->options.queue += g->mutant == MUTANT_HAS_LONGER_QUEUE;
  shape->options.keep_going |= g->mutant == MUTANT_GOES_ON_AFTER_ERRORS;
}

static int build(game_t *g) {
  shape_t shape = g->shape;
  mutate(g, &shape);
  const ovl_description_t description = shape_description(&shape);
  int r = ovl_plan_init(&g->plan, &description, &memory);
  if (r != 0)
    return r;
  r = ovl_core_init(&g->core, &g->plan, &shape.options, &memory);
  if (r != 0)
    ovl_plan_finish(&g->plan, &memory);
  return r;
}

static void play(game_t *g) {
  model_init(&g->model, &g->shape);
  int r = build(g);
  bool cyclic = g->shape.ordered < g->shape.stage_count;
  model_require(&g->model, r == (cyclic ? OVL_ECYCLE : 0), "a cycle is not refused, or what is none is");
  if (r == 0) {
    if (!cyclic)
      play_runs(g);
    ovl_core_finish(&g->core);
    ovl_plan_finish(&g->plan, &memory);
  }
}

game_result_t game_play(uint64_t seed, mutant_t mutant, bool compare) {
  static game_t game;
  memset(&game, 0, sizeof game);
  game.random.state = seed;
  game.mutant = mutant;
  game.compare = compare;
  game.now = 100;
  shape_random(&game.shape, &game.random);
  play(&game);
  return (game_result_t){.wrong = game.model.wrong,
                         .ops = game.ops,
                         .steps = game.steps,
                         .cyclic = game.shape.ordered < game.shape.stage_count};
}
