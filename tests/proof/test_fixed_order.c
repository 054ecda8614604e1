/* SPDX-License-Identifier: MIT */
/* Shows that lanes of fixed order keep the order that was planned or given, to the last op, whatever happens to the
 * others: random pipelines with several such lanes are driven at random, with errors, cancels and the slowest of
 * drivers, and the core is held against the spec after every event. A plan is made while the run goes on, a little
 * ahead of it, in rings of limited size: what the rings hold is watched too. */
#include <inttypes.h>
#include <string.h>

#include "proof/fixed_shape.h"
#include "support/cmocka_all.h"
#include "support/seed.h"

enum { ROUNDS = 3000, MOST_STEPS = 5000 };

static uint64_t rounds;

typedef struct game {
  random_source_t random;
  pair_frame_t frame;
  pair_t pair;
  uint32_t patience;     /* percent: how seldom anything ends while something can start */
  uint32_t trouble;      /* percent of ops that fail */
  spec_op_t stubborn;    /* this one ends last of all */
  uint64_t ops, fullest; /* percent of a ring that was in use */
} game_t;

/* ---- a step --------------------------------------------------------------------------------------------------------- */

static bool is_stubborn(const game_t *g, spec_op_t op) {
  return op.microbatch == g->stubborn.microbatch && op.stage == g->stubborn.stage;
}

/* A running op, the stubborn one only if there is no other. */
static bool pick_running(game_t *g, spec_op_t *op) {
  const spec_t *spec = &g->pair.spec;
  uint32_t seen = 0;
  for (int stubborn = 0; stubborn < 2 && seen == 0; stubborn++)
    for (uint32_t i = spec->oldest; i < spec->admitted; i++)
      for (uint32_t s = 0; s < g->frame.run.stage_count; s++) {
        spec_op_t candidate = {.microbatch = (uint8_t)i, .stage = (uint8_t)s};
        if (spec->microbatches[i].ops[s] != SPEC_RUNNING || is_stubborn(g, candidate) != stubborn)
          continue;
        if (random_below(&g->random, ++seen) == 0)
          *op = candidate;
      }
  return seen > 0;
}

static bool take_any(game_t *g) {
  uint32_t lanes = g->frame.run.lane_count, first = random_below(&g->random, lanes);
  for (uint32_t k = 0; k < lanes; k++)
    if (pair_take(&g->pair, (first + k) % lanes, NULL))
      return true;
  return false;
}

static bool end_any(game_t *g) {
  spec_op_t op;
  if (!pick_running(g, &op))
    return false;
  g->ops++;
  return pair_end(&g->pair, op, random_chance(&g->random, g->trouble) ? -5 : 0);
}

static bool report_any(game_t *g) { return pair_tell(&g->pair) || pair_retire(&g->pair); }

static bool trouble_any(game_t *g) {
  spec_op_t op;
  if (!random_chance(&g->random, g->trouble) || !random_chance(&g->random, 10))
    return false;
  if (random_chance(&g->random, 30))
    return pair_cancel(&g->pair);
  return pick_running(g, &op) && pair_expire(&g->pair, op);
}

static bool step(game_t *g) {
  if (trouble_any(g))
    return true;
  if (random_chance(&g->random, g->patience))
    return take_any(g) || report_any(g) || end_any(g);
  return report_any(g) || end_any(g) || take_any(g);
}

static void watch_rings(game_t *g) {
  for (uint32_t l = 0; g->pair.ordered && l < g->frame.run.lane_count; l++) {
    const ovl_order_ring_t *ring = &g->pair.orders.lanes[l].ring;
    if (ring->count > ring->capacity)
      g->pair.wrong = "a ring holds more than it has room for";
    if (ring->capacity > 0 && ring->count * 100u / ring->capacity > g->fullest)
      g->fullest = ring->count * 100u / ring->capacity;
  }
}

/* ---- a game --------------------------------------------------------------------------------------------------------- */

static void play_run(game_t *g) {
  g->patience = random_below(&g->random, 101);
  g->trouble = random_chance(&g->random, 30) ? 0 : random_below(&g->random, 60);
  g->stubborn = (spec_op_t){.microbatch = (uint8_t)random_below(&g->random, SPEC_MICROBATCHES),
                            .stage = (uint8_t)random_below(&g->random, g->frame.run.stage_count)};
  pair_begin(&g->pair);
  for (uint32_t steps = 0; g->pair.wrong == NULL && !pair_is_over(&g->pair); steps++) {
    if (!step(g) || steps == MOST_STEPS)
      g->pair.wrong = "the run does not end";
    watch_rings(g);
  }
  while (pair_tell(&g->pair))
    ;
  ovl_core_leave(&g->pair.core);
}

static void play(game_t *g, uint64_t seed) {
  pair_shape_t shape;
  seed_round(seed);
  g->random.state = seed;
  fixed_shape_random(&shape, &g->random);
  assert_int_equal(pair_frame_init(&g->frame, &shape, PAIR_INTACT), 0);
  assert_int_equal(pair_init(&g->pair, &g->frame, &pair_heap), 0);
  for (int run = 0; run < 2 && g->pair.wrong == NULL; run++)
    play_run(g);
  const char *wrong = g->pair.wrong;
  pair_finish(&g->pair);
  pair_frame_finish(&g->frame);
  if (wrong != NULL)
    fail_msg("%s; %s", wrong, seed_words());
}

static void fixed_lanes_keep_their_order_whatever_happens(void **state) {
  (void)state;
  static game_t game;
  memset(&game, 0, sizeof game);
  for (uint64_t k = 0; k < rounds; k++)
    play(&game, seed_first() + k);
  print_message("%" PRIu64 " games from OVL_SEED=%" PRIu64 ": %" PRIu64 " ops, rings up to %" PRIu64
                " %% full\n",
                rounds, seed_first(), game.ops, game.fullest);
}

/* ---- a plan far ahead -------------------------------------------------------------------------------------------------- */

/* Stages x on a wide lane, s and t after it on lane B; a and b on lane A, where a waits for b of the microbatch
 * before, and both are slow by their hints. So the plan of B begins with s of a whole window, and only then t, while
 * A goes one microbatch at a time and lags behind. Then x fails for all of the first window but the last, which is
 * what B waits for, and A goes on alone, as far as the window lets it. */
static void make_lagging_shape(pair_shape_t *shape, uint32_t window) {
  *shape =
      (pair_shape_t){.lane_count = 3, .stage_count = 5, .dependency_count = 1, .window = window, .count = 40};
  enum { A, B, WIDE };
  shape->lanes[A] = shape->lanes[B] = (ovl_lane_desc_t){.width = 1, .fixed = true};
  shape->lanes[WIDE] = (ovl_lane_desc_t){.width = 2 * window};
  shape->stages[0] = (ovl_stage_desc_t){.lane = WIDE};
  shape->stages[1] = shape->stages[2] = (ovl_stage_desc_t){.lane = B, .chained = true};
  shape->stages[3] = (ovl_stage_desc_t){.lane = A};
  shape->stages[4] = (ovl_stage_desc_t){.lane = A, .chained = true};
  shape->hints[3] = shape->hints[4] = 100;
  shape->dependencies[0] = (ovl_dependency_t){.before = 4, .after = 3, .distance = 1};
  shape->options.keep_going = true;
}

static void end_all_on_the_wide_lane_but(game_t *g, uint32_t kept, int status) {
  spec_op_t op;
  while (pair_take(&g->pair, 2, &op))
    ;
  for (uint8_t i = 0; i < g->pair.spec.admitted; i++)
    if (i != kept)
      pair_end(&g->pair, (spec_op_t){.microbatch = i, .stage = 0}, status);
}

static void play_lagging(game_t *g, uint32_t window) {
  spec_op_t op;
  pair_begin(&g->pair);
  end_all_on_the_wide_lane_but(g, window - 1, -5);
  while (g->pair.wrong == NULL && pair_take(&g->pair, 0, &op)) {
    pair_end(&g->pair, op, 0);
    end_all_on_the_wide_lane_but(g, window - 1, 0);
    watch_rings(g);
  }
  pair_end(&g->pair, (spec_op_t){.microbatch = (uint8_t)(window - 1), .stage = 0}, 0);
  while (g->pair.wrong == NULL && !pair_is_over(&g->pair) && step(g))
    watch_rings(g);
}

static void a_lane_that_lags_does_not_lose_its_plan(void **state) {
  (void)state;
  static game_t game;
  for (uint32_t window = 1; window <= 12; window++) {
    pair_shape_t shape;
    memset(&game, 0, sizeof game);
    make_lagging_shape(&shape, window);
    assert_int_equal(pair_frame_init(&game.frame, &shape, PAIR_INTACT), 0);
    assert_int_equal(pair_init(&game.pair, &game.frame, &pair_heap), 0);
    play_lagging(&game, window);
    const char *wrong = game.pair.wrong;
    bool over = pair_is_over(&game.pair);
    pair_finish(&game.pair);
    pair_frame_finish(&game.frame);
    if (wrong != NULL)
      fail_msg("window %u: %s", (unsigned)window, wrong);
    assert_true(over);
  }
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lane_that_lags_does_not_lose_its_plan),
      cmocka_unit_test(fixed_lanes_keep_their_order_whatever_happens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
