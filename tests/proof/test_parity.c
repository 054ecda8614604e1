/* SPDX-License-Identifier: MIT */
/* Shows that the executor decides as the core does, which is what was explored in virtual time: every op of a real
 * run is left pending and completed from a thread of its own, one after another in random order; after each the
 * executor must have started what a core that is driven by hand says, and nothing else, each lane in its order. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/pipeline.h"
#include "ovl/errors.h"
#include "proof/fixed_shape.h"
#include "proof/from_shape.h"
#include "support/describe.h"
#include "support/scale.h"
#include "support/seed.h"
#include "support/watchdog.h"

enum { ROUNDS = 400, MOST_COUNT = 16 };

static uint64_t rounds;

typedef struct match {
  pair_shape_t shape; /* first: it is the pipeline's data */
  random_source_t random;
  pair_frame_t frame;
  pair_t pair;
  ovl_pipeline_t *pipeline;
  uint32_t trouble;

  spec_op_t expected[SPEC_OPS]; /* starts by hand */
  uint32_t expected_count;
  ovl_op_t *running[SPEC_MICROBATCHES][SPEC_STAGES];

  uv_mutex_t mutex; /* protects all below */
  uv_cond_t changed;
  ovl_op_t *started[SPEC_OPS + 1]; /* by the executor */
  spec_op_t numbers[SPEC_OPS + 1];
  uint32_t started_count;
  bool done;
  int status;
} match_t;

/* Off cmocka's thread, and with a run that cannot go on when it is not as it should be: says why, and aborts. */
#define must(condition, ...)        \
  do {                              \
    if (!(condition)) {             \
      fprintf(stderr, __VA_ARGS__); \
      fputs("\n", stderr);          \
      abort();                      \
    }                               \
  } while (0)

/* ---- the executor's side ---------------------------------------------------------------------------------------------- */

static int run(ovl_op_t *op) {
  match_t *m = ovl_pipeline_data(op->pipeline);
  uv_mutex_lock(&m->mutex);
  if (m->started_count <= SPEC_OPS) {
    m->numbers[m->started_count] =
        (spec_op_t){.microbatch = (uint8_t)op->microbatch, .stage = (uint8_t)(op->stage.id - 1)};
    m->started[m->started_count++] = op;
  }
  uv_cond_broadcast(&m->changed);
  uv_mutex_unlock(&m->mutex);
  return OVL_PENDING;
}

static void on_done(ovl_pipeline_t *p, int status) {
  match_t *m = ovl_pipeline_data(p);
  m->status = status;
  m->done = true;
}

/* ---- the hand's side --------------------------------------------------------------------------------------------------- */

/* Everything that can start does; then what has ended is told and retired, and so on. */
static void follow_by_hand(match_t *m) {
  bool changed;
  do {
    changed = false;
    for (uint32_t l = 0; l < m->shape.lane_count; l++)
      while (pair_take(&m->pair, l, &m->expected[m->expected_count])) {
        m->expected_count++;
        changed = true;
      }
    changed |= pair_tell(&m->pair) || pair_retire(&m->pair);
  } while (changed);
  must(m->pair.wrong == NULL, "by hand: %s", m->pair.wrong);
}

static uint32_t lane_of(const match_t *m, spec_op_t op) { return m->shape.stages[op.stage].lane; }

/* The k-th op of the lane among those that were started from `from` on; false: there are fewer. */
static bool nth_on_lane(const match_t *m, const spec_op_t *ops, uint32_t from, uint32_t count, uint32_t lane,
                        uint32_t k, spec_op_t *op) {
  for (uint32_t at = from; at < count; at++)
    if (lane_of(m, ops[at]) == lane && k-- == 0) {
      *op = ops[at];
      return true;
    }
  return false;
}

static bool has_op(const spec_op_t *ops, uint32_t from, uint32_t count, spec_op_t op) {
  for (uint32_t k = from; k < count; k++)
    if (ops[k].microbatch == op.microbatch && ops[k].stage == op.stage)
      return true;
  return false;
}

/* The same ops; and on a lane of width 1 in the same order. (On a wider one the callbacks race.) */
static void compare_starts(const match_t *m, uint32_t from) {
  must(m->started_count == m->expected_count, "%u ops have started and not %u", (unsigned)m->started_count,
       (unsigned)m->expected_count);
  for (uint32_t k = from; k < m->expected_count; k++)
    must(has_op(m->numbers, from, m->started_count, m->expected[k]), "op %u.%u has not started",
         m->expected[k].microbatch, m->expected[k].stage);
  for (uint32_t l = 0; l < m->shape.lane_count; l++) {
    spec_op_t real = {0}, hand = {0};
    for (uint32_t k = 0;
         m->shape.lanes[l].width == 1 && nth_on_lane(m, m->expected, from, m->expected_count, l, k, &hand);
         k++)
      must(nth_on_lane(m, m->numbers, from, m->started_count, l, k, &real) &&
               real.microbatch == hand.microbatch && real.stage == hand.stage,
           "lane %u has another order", (unsigned)l);
  }
}

/* Waits until the executor has started as much, and compares. */
static void wait_and_compare(match_t *m, uint32_t from) {
  uv_mutex_lock(&m->mutex);
  while (m->started_count < m->expected_count)
    uv_cond_wait(&m->changed, &m->mutex);
  compare_starts(m, from);
  for (uint32_t k = from; k < m->started_count; k++)
    m->running[m->numbers[k].microbatch][m->numbers[k].stage] = m->started[k];
  uv_mutex_unlock(&m->mutex);
}

/* An op that is completed before its callback returns ends when it does, which may be after the next one. */
static void wait_for_return(match_t *m, ovl_op_t *op) {
  const ovl_core_op_t *core_op = (const ovl_core_op_t *)(const void *)op;
  for (bool called = true; called;) {
    ovl_exec_lock(&m->pipeline->exec);
    called = core_op->busy & OVL_BUSY_CALL;
    ovl_exec_unlock(&m->pipeline->exec);
    if (called)
      sched_yield();
  }
}

static void complete_any(match_t *m) {
  spec_op_t op = {0};
  uint32_t seen = 0;
  for (uint32_t i = m->pair.spec.oldest; i < m->pair.spec.admitted; i++)
    for (uint32_t s = 0; s < m->shape.stage_count; s++)
      if (m->pair.spec.microbatches[i].ops[s] == SPEC_RUNNING && random_below(&m->random, ++seen) == 0)
        op = (spec_op_t){.microbatch = (uint8_t)i, .stage = (uint8_t)s};
  int status = random_chance(&m->random, m->trouble) ? -7 - op.stage : 0;
  ovl_op_t *real = m->running[op.microbatch][op.stage];
  wait_for_return(m, real);
  pair_end(&m->pair, op, status);
  must(ovl_op_complete(real, status) == 0, "a completion is refused");
}

static void cancel(match_t *m) {
  pair_cancel(&m->pair);
  must(ovl_pipeline_cancel(m->pipeline) == 0, "a cancel is refused");
}

/* A thread of its own: completes ops until the run is over. */
static void direct(void *argument) {
  match_t *m = argument;
  pair_begin(&m->pair);
  for (;;) {
    uint32_t from = m->expected_count;
    follow_by_hand(m);
    wait_and_compare(m, from);
    if (pair_is_over(&m->pair))
      return;
    if (random_chance(&m->random, m->trouble) && random_chance(&m->random, 10))
      cancel(m);
    else
      complete_any(m);
  }
}

/* ---- a match ------------------------------------------------------------------------------------------------------------ */

static void compare_ends(const match_t *m) {
  const ovl_core_t *core = &m->pair.core;
  ovl_stats_t stats = stats_of(m->pipeline);
  ovl_failure_t failure = failure_of(m->pipeline);
  assert_true(m->done);
  assert_int_equal(m->started_count, m->expected_count);
  assert_int_equal(m->status, core->first.status);
  assert_int_equal(stats.ops, core->tally.ops);
  assert_int_equal(stats.skipped, core->tally.skipped);
  assert_int_equal(stats.microbatches, core->tally.retired);
  assert_int_equal(stats.failed, core->tally.failed);
  assert_int_equal(failure.status, core->first.status);
  if (failure.status != 0) {
    assert_int_equal(failure.microbatch, core->first.microbatch);
    assert_int_equal(failure.stage.id, core->first.stage == OVL_NO_STAGE ? 0 : core->first.stage + 1);
  }
}

static void run_match(match_t *m) {
  uv_loop_t loop;
  uv_thread_t director;
  uv_mutex_init(&m->mutex);
  uv_cond_init(&m->changed);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(m->pipeline, &loop, m->shape.count, on_done), 0);
  assert_int_equal(uv_thread_create(&director, direct, m), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_thread_join(&director);
  assert_int_equal(uv_loop_close(&loop), 0);
  compare_ends(m);
  uv_cond_destroy(&m->changed);
  uv_mutex_destroy(&m->mutex);
}

/* Reports take a turn of the loop, and what is admitted then would be admitted at another time than by hand. */
static void random_match(match_t *m, uint64_t seed) {
  memset(m, 0, sizeof *m);
  m->random.state = seed;
  m->trouble = random_chance(&m->random, 40) ? 0 : random_below(&m->random, 30);
  fixed_shape_random(&m->shape, &m->random);
  m->shape.count %= MOST_COUNT + 1;
  m->shape.options.report = m->shape.options.tell = false;
}

static void the_executor_starts_what_the_core_says(void **state) {
  (void)state;
  static match_t match;
  uint64_t ops = 0;
  for (uint64_t k = 0; k < rounds; k++) {
    const ovl_pipeline_options_t options = pipeline_options(0);
    watchdog_expect("a pipeline whose ops are completed one by one");
    seed_round(seed_first() + k);
    random_match(&match, seed_first() + k);
    assert_int_equal(pair_frame_init(&match.frame, &match.shape, PAIR_INTACT), 0);
    assert_int_equal(pair_init(&match.pair, &match.frame, &pair_heap), 0);
    match.pipeline = pipeline_from_shape(&match.shape, &options, run, NULL);
    give_shape_orders(match.pipeline, &match.frame);
    run_match(&match);
    ops += match.started_count;
    ovl_pipeline_close(match.pipeline, NULL);
    pair_finish(&match.pair);
    pair_frame_finish(&match.frame);
  }
  print_message("%" PRIu64 " matches from OVL_SEED=%" PRIu64 ": %" PRIu64 " ops\n", rounds, seed_first(),
                ops);
}

int main(void) {
  seed_init();
  rounds = seed_rounds(TEST_SANITIZED ? ROUNDS / 5 : ROUNDS);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_executor_starts_what_the_core_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
