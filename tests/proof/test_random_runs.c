/* SPDX-License-Identifier: MIT */
/* Shows that the guarantees hold for random pipelines on the real executor: lanes of every kind, width and order,
 * ops that end in their callback, before it returns, by a poll hook or by a foreign thread, errors under both
 * policies, cancels from ops and from threads, deadlines, counted and streaming runs, on the caller's loop and on
 * one of their own. */
#include <inttypes.h>
#include <string.h>

#include "ovl.h"
#include "proof/real_run.h"
#include "support/cmocka_all.h"
#include "support/faults.h"
#include "support/scale.h"
#include "support/seed.h"
#include "support/watchdog.h"

enum { ROUNDS = 1500, MOST_RUNS = 3 };

static uint64_t rounds;

typedef struct sums {
  uint64_t runs, ops, failed, cancelled, streaming;
} sums_t;

static void add(sums_t *sums, const real_run_t *run) {
  sums->runs++;
  sums->ops += run->stats.ops;
  sums->failed += run->status != 0;
  sums->cancelled += run->status == OVL_ECANCELED;
  sums->streaming += run->plan.streaming;
}

/* The same pipeline up to three times; a streaming run is the last. */
static void play_round(real_run_t *run, uint64_t seed, sums_t *sums) {
  random_source_t random = {.state = seed};
  memset(run, 0, sizeof *run);
  seed_round(seed);
  real_shape_random(&run->shape, &random);
  real_open(run);
  for (uint32_t left = 1 + random_below(&random, MOST_RUNS); left > 0; left--) {
    real_plan_random(&run->plan, &run->shape, &random);
    real_play(run);
    add(sums, run);
    if (run->plan.streaming)
      break;
    assert_no_faults(seed_words());
    real_check(run);
  }
  real_close(run);
  assert_no_faults(seed_words());
  real_check(run);
}

static void the_guarantees_hold_on_the_real_executor(void **state) {
  (void)state;
  static real_run_t run;
  sums_t sums = {0};
  for (uint64_t k = 0; k < rounds; k++) {
    watchdog_expect("a random pipeline");
    play_round(&run, seed_first() + k, &sums);
  }
  print_message("%" PRIu64 " pipelines from OVL_SEED=%" PRIu64 ": %" PRIu64 " runs, %" PRIu64 " ops; %" PRIu64
                " runs failed, %" PRIu64 " of them cancelled; %" PRIu64 " were streams\n",
                rounds, seed_first(), sums.runs, sums.ops, sums.failed, sums.cancelled, sums.streaming);
}

int main(void) {
  seed_init();
  rounds = seed_rounds(TEST_SANITIZED ? ROUNDS / 10 : ROUNDS);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_guarantees_hold_on_the_real_executor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
