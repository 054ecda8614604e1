/* SPDX-License-Identifier: MIT */
/* Shows for all small pipelines that the guarantees hold in every state that any order of events can lead to, and
 * that no state is without a way on. What the search would see if one did not hold is shown by mutants.
 *
 *   OVL_EXHAUSTIVE=full  all members of all families; else of the large ones every n-th, from OVL_SEED on */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/family.h"
#include "support/cmocka_all.h"
#include "support/scale.h"
#include "support/seed.h"

typedef struct search {
  family_t family;
  uint32_t
      share; /* one of so many members, unless all are wanted; a prime, so that it takes from everywhere */
} search_t;

static const search_t searches[] = {
    {{.name = "one stage, with two errors, an expiry and a cancel",
      .stages = 1,
      .windows = 3,
      .microbatches = 4,
      .back_edges = 1,
      .limits = {.failures = 2, .cancels = 1, .expiries = 1}},
     1},
    {{.name = "two stages, without errors", .stages = 2, .windows = 3, .microbatches = 4, .back_edges = 4},
     1},
    {{.name = "two stages, with an error and a cancel",
      .stages = 2,
      .windows = 3,
      .microbatches = 3,
      .back_edges = 1,
      .limits = {.failures = 1, .cancels = 1}},
     1},
    {{.name = "two stages, with two errors, an expiry and a cancel",
      .stages = 2,
      .windows = 3,
      .microbatches = 3,
      .back_edges = 1,
      .limits = {.failures = 2, .cancels = 1, .expiries = 1}},
     11},
    {{.name = "three stages, without errors", .stages = 3, .windows = 3, .microbatches = 3, .back_edges = 1},
     5},
    {{.name = "three stages, four microbatches, without errors",
      .stages = 3,
      .windows = 3,
      .microbatches = 4,
      .back_edges = 2},
     61},
    {{.name = "three stages, with an error and a cancel",
      .stages = 3,
      .windows = 3,
      .microbatches = 3,
      .back_edges = 1,
      .limits = {.failures = 1, .cancels = 1}},
     151},
};
enum { SEARCHES = sizeof searches / sizeof *searches };

static bool everything;

/* ---- all members -------------------------------------------------------------------------------------------------- */

typedef struct sum {
  uint64_t members, explored, states, events, largest;
} sum_t;

static void describe_failure(const family_t *family, uint64_t k, const explore_result_t *result) {
  fail_msg("%s, number %" PRIu64 ": %s; the way there: %s", family->name, k, result->wrong, result->path);
}

static void add(sum_t *sum, const explore_result_t *result) {
  sum->explored++;
  sum->states += result->states;
  sum->events += result->events;
  if (result->states > sum->largest)
    sum->largest = result->states;
}

static void explore_family(explorer_t *explorer, const search_t *search, sum_t *sum) {
  uint64_t share = everything ? 1 : (uint64_t)search->share * (TEST_SANITIZED ? 20 : 1);
  uint64_t size = family_size(&search->family), first = seed_first() % share;
  pair_shape_t shape;
  explore_result_t result;
  for (uint64_t k = 0; k < size; k++) {
    if (!family_member(&search->family, k, &shape) || sum->members++ % share != first)
      continue;
    explore(explorer, &shape, &search->family.limits, PAIR_INTACT, &result);
    if (result.wrong != NULL)
      describe_failure(&search->family, k, &result);
    add(sum, &result);
  }
}

static void the_guarantees_hold_in_every_state(void **state) {
  explorer_t *explorer = *state;
  sum_t total = {0};
  for (int k = 0; k < SEARCHES; k++) {
    sum_t sum = {0};
    explore_family(explorer, &searches[k], &sum);
    print_message("%-52s %7" PRIu64 " of %7" PRIu64 " graphs, %9" PRIu64 " states, %9" PRIu64
                  " events, at most %" PRIu64 " states each\n",
                  searches[k].family.name, sum.explored, sum.members, sum.states, sum.events, sum.largest);
    total.explored += sum.explored;
    total.states += sum.states;
    total.events += sum.events;
  }
  print_message("%" PRIu64 " graphs, %" PRIu64 " states, %" PRIu64 " events; OVL_SEED=%" PRIu64 "\n",
                total.explored, total.states, total.events, seed_first());
}

/* ---- would it be seen? ---------------------------------------------------------------------------------------------- */

/* The first thing that is seen to be wrong when the core is not what the spec is. */
static const char *find_out(explorer_t *explorer, pair_mutant_t mutant) {
  static const explore_limits_t limits = {.failures = 1};
  const family_t family = {.stages = 2, .windows = 2, .microbatches = 3, .back_edges = 1, .limits = limits};
  pair_shape_t shape;
  explore_result_t result;
  for (uint64_t k = 0, size = family_size(&family); k < size; k++) {
    if (!family_member(&family, k, &shape))
      continue;
    explore(explorer, &shape, &limits, mutant, &result);
    if (result.wrong != NULL)
      return result.wrong;
  }
  return NULL;
}

static void a_mutant_is_seen(void **state) {
  for (pair_mutant_t mutant = PAIR_INTACT + 1; mutant < PAIR_MUTANTS; mutant++)
    if (find_out(*state, mutant) == NULL)
      fail_msg("mutant %d is not seen", (int)mutant);
}

/* ---- the group ------------------------------------------------------------------------------------------------------ */

static int set_up(void **state) {
  *state = explorer_new();
  return *state != NULL ? 0 : -1;
}

static int tear_down(void **state) {
  explorer_free(*state);
  return 0;
}

int main(void) {
  const char *wanted = getenv("OVL_EXHAUSTIVE");
  seed_init();
  everything = wanted != NULL && strcmp(wanted, "full") == 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_guarantees_hold_in_every_state),
      cmocka_unit_test(a_mutant_is_seen),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down) != 0;
}
