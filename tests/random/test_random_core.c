/* SPDX-License-Identifier: MIT */
/* Shows that the guarantees hold for random pipelines that are driven at random, and that the model which says so
 * would see it if they did not. OVL_SEED=N plays the games N, N + 1, ..., see support/seed.h. */
#include <inttypes.h>
#include <string.h>

#include "random/game.h"
#include "support/cmocka_all.h"
#include "support/seed.h"

enum { GAMES = 1500, MUTANT_GAMES = 2000 };

static uint64_t games;

static game_result_t play(uint64_t seed, mutant_t mutant, bool compare) {
  seed_round(seed); /* said whatever happens */
  return game_play(seed, mutant, compare);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------- */

static void the_guarantees_hold(void **state) {
  (void)state;
  uint64_t ops = 0, steps = 0, cyclic = 0;
  for (uint64_t game = 0; game < games; game++) {
    game_result_t result = play(seed_first() + game, NO_MUTANT, true);
    if (result.wrong != NULL)
      fail_msg("%s; %s", result.wrong, seed_words());
    ops += result.ops;
    steps += result.steps;
    cyclic += result.cyclic;
  }
  print_message("%" PRIu64 " games from OVL_SEED=%" PRIu64 ": %" PRIu64 " ops in %" PRIu64 " steps, %" PRIu64
                " pipelines with a cycle\n",
                games, seed_first(), ops, steps, cyclic);
  if (games >= GAMES)
    assert_true(ops > games * 10); /* they were games worth playing */
}

static void the_same_seed_plays_the_same_game(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 20; seed++) {
    game_result_t one = play(seed, NO_MUTANT, true), other = play(seed, NO_MUTANT, true);
    assert_int_equal(one.ops, other.ops);
    assert_int_equal(one.steps, other.steps);
  }
}

/* Plays with the mutant, from a seed that is always the same, until something is seen to be wrong; with `expected`,
 * until this is. One fault can show in several ways. */
static bool is_seen(mutant_t mutant, bool compare, const char *expected) {
  for (uint64_t seed = 1; seed <= MUTANT_GAMES; seed++) {
    game_result_t result = play(seed, mutant, compare);
    if (result.wrong != NULL && (expected == NULL || strcmp(result.wrong, expected) == 0))
      return true;
  }
  return false;
}

static void assert_seen(mutant_t mutant, const char *expected) {
  if (!is_seen(mutant, false, expected))
    fail_msg("mutant %d is not seen: %s", (int)mutant, expected);
}

/* What the events alone say is wrong with a core. */
static void a_broken_guarantee_is_seen_and_named(void **state) {
  (void)state;
  assert_seen(MUTANT_FORGETS_DEPENDENCIES, "an op starts before all that it depends on has ended");
  assert_seen(MUTANT_FORGETS_CHAIN, "an op starts before all that it depends on has ended");
  assert_seen(MUTANT_HAS_WIDER_LANES, "a lane runs more ops than its width");
  assert_seen(MUTANT_HAS_WIDER_WINDOW, "an op starts whose microbatch may not be in flight yet");
  assert_seen(MUTANT_HAS_LONGER_QUEUE, "more items are held than window and queue allow");
  assert_seen(MUTANT_RUNS_ALWAYS, "an op of a failed microbatch starts");
  assert_seen(MUTANT_IS_NOT_SERIAL, "an op starts before all that it depends on has ended");
  assert_seen(MUTANT_KEEPS_NO_ORDER, "an op of a fixed lane starts out of turn");
  assert_seen(MUTANT_PLANS_OTHERWISE, "an op of a fixed lane starts out of turn");
  assert_seen(MUTANT_DOES_NOT_HOLD, "an op starts on a lane that is held");
  assert_seen(MUTANT_KNOWS_NO_TIME, "an op starts before another that was ready first");
}

/* And every fault is seen when states are compared. */
static void every_mutant_is_seen(void **state) {
  (void)state;
  for (mutant_t mutant = NO_MUTANT + 1; mutant < MUTANTS; mutant++)
    if (!is_seen(mutant, true, NULL))
      fail_msg("mutant %d is not seen", (int)mutant);
}

int main(void) {
  seed_init();
  games = seed_rounds(GAMES);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_guarantees_hold),
      cmocka_unit_test(the_same_seed_plays_the_same_game),
      cmocka_unit_test(a_broken_guarantee_is_seen_and_named),
      cmocka_unit_test(every_mutant_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
