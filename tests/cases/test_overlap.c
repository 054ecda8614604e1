/* SPDX-License-Identifier: MIT */
/* Cases 23 and 24: what runs at the same time, and how fast a run can be at best. Ops sleep, so neither the number
 * of processors nor their speed matters. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

/* ---- two stages that sleep ---------------------------------------------------------------------------------------- */

enum { MOST = 64 };

typedef enum way { BLOCKING, PENDING } way_t; /* sleeps in its callback, or leaves it to a thread */

typedef struct half {
  ovl_lane_kind_t kind;
  way_t way;
} half_t;

typedef struct pair {
  half_t halves[2];
  uint32_t window;
  ovl_mode_t mode;
  uint64_t count;
  unsigned ms[2][MOST]; /* what each op sleeps; 0: nothing at all */
  uint64_t ns[2][MOST]; /* what it took, seen from inside the callback: never more than the library sees */
  foreign_t foreign;
  atomic_uint ended[2]; /* ops */
  atomic_uint running;
} pair_t;

static void sleep_for(pair_t *pair, const ovl_op_t *op) {
  uint32_t half = op->stage.id - 1;
  uint64_t before = uv_hrtime(), mb = op->microbatch;
  unsigned running = atomic_fetch_add(&pair->running, 1);
  expect(mb < pair->count && atomic_load(&pair->ended[half]) == mb, "an op runs out of order, or twice");
  expect(half == 0 || atomic_load(&pair->ended[0]) > mb, "comm of %d started before its compute ended",
         (int)mb);
  expect(pair->mode == OVL_OVERLAP || running == 0, "two ops at a time in serial mode");
  if (pair->ms[half][mb] > 0)
    uv_sleep(pair->ms[half][mb]);
  atomic_fetch_sub(&pair->running, 1);
  atomic_fetch_add(&pair->ended[half], 1);
  pair->ns[half][mb] = uv_hrtime() - before;
}

static int run_half(ovl_op_t *op) {
  pair_t *pair = op->data;
  if (pair->halves[op->stage.id - 1].way == PENDING) {
    foreign_give(&pair->foreign, op);
    return OVL_PENDING;
  }
  sleep_for(pair, op);
  return 0;
}

static void end_foreign(ovl_op_t *op) {
  sleep_for(op->data, op);
  expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
}

static void add_half(ovl_pipeline_t *p, pair_t *pair, uint32_t half) {
  ovl_lane_options_t lane = lane_options(half == 0 ? "compute" : "comm", pair->halves[half].kind, 1);
  lane.role = half == 0 ? OVL_ROLE_COMPUTE : OVL_ROLE_COMM;
  add_stage(p, add_lane_with(p, &lane), run_half, pair);
}

static ovl_stats_t run_pair(pair_t *pair, const char *name) {
  ovl_pipeline_options_t options = pipeline_options(pair->window);
  options.mode = pair->mode;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_half(p, pair, 0);
  add_half(p, pair, 1);
  watchdog_expect(name);
  memset(pair->ended, 0, sizeof pair->ended);
  foreign_start(&pair->foreign, 2, 2, end_foreign); /* each lane's one op finds a thread */
  int r = ovl_pipeline_run(p, pair->count);
  foreign_stop(&pair->foreign);
  ovl_stats_t stats = stats_of(p);
  ovl_pipeline_close(p, NULL);
  assert_no_faults(name);
  assert_int_equal(r, 0);
  assert_int_equal(stats.microbatches, pair->count);
  assert_int_equal(stats.ops, 2 * pair->count);
  assert_int_equal(atomic_load(&pair->ended[0]), pair->count);
  assert_int_equal(atomic_load(&pair->ended[1]), pair->count);
  return stats;
}

static void set_times(pair_t *pair, uint64_t count, unsigned compute, unsigned comm) {
  pair->count = count;
  for (uint64_t i = 0; i < count; i++) {
    pair->ms[0][i] = compute;
    pair->ms[1][i] = comm;
  }
}

/* ---- case 23: a callback on a loop lane that blocks [SGLang 12815, Megatron 827] ---------------------------------- */

static const char *const blocks = "blocks the loop";

static void case_23_both_block_the_loop(void **state) {
  pair_t pair = {.halves = {{LOOP, BLOCKING}, {LOOP, BLOCKING}}, .window = 4};
  (void)state;
  set_times(&pair, 8, 2, 3);
  ovl_stats_t stats = run_pair(&pair, "compute and comm block the loop");
  assert_true(stats.hidden_ns == 0);
  assert_true(stats.exposed_ns >= 8 * 3000000);
  assert_true(stats.concurrency <= 1.0);
  assert_true(stats.elapsed_ns >= ovl_bound_serial(8, 2000000, 3000000));
  assert_true(stats.loop_longest_ns >= 3000000);
  assert_non_null(strstr(stats.finding, blocks));
}

/* Compute is launched by the loop, which comm blocks: hidden and exposed add up, and the culprit is seen. */
static void case_23_comm_blocks_the_loop_that_launches_compute(void **state) {
  pair_t pair = {.halves = {{LOOP, PENDING}, {LOOP, BLOCKING}}, .window = 4};
  (void)state;
  set_times(&pair, 8, 2, 6);
  ovl_stats_t stats = run_pair(&pair, "comm blocks the loop that launches compute");
  assert_true(stats.loop_longest_ns >= 6000000);
  assert_true(stats.hidden_ns + stats.exposed_ns >= 8 * 6000000);
  assert_true(stats.hidden_ns + stats.exposed_ns <= stats.elapsed_ns);
}

/* What the finding advises works: the same lengths, and comm is hidden. */
static void case_23_comm_that_does_not_block(void **state) {
  static const half_t computes[] = {{POOL, BLOCKING}, {LOOP, PENDING}},
                      comms[] = {{LOOP, PENDING}, {POOL, BLOCKING}};
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      pair_t pair = {.halves = {computes[i], comms[j]}, .window = 4};
      set_times(&pair, 20, 5, 5);
      ovl_stats_t stats = run_pair(&pair, "comm that does not block");
      bool starved =
          strstr(stats.finding, "pool is starved") != NULL; /* when there is one thread for two lanes */
      assert_true(stats.hidden_ns > 0 || starved);
      assert_null(strstr(stats.finding, blocks));
    }
}

/* The pool needs no loop, so compute there overlaps even with comm that blocks it. */
static void case_23_pool_computes_while_the_loop_is_blocked(void **state) {
  pair_t pair = {.halves = {{POOL, BLOCKING}, {LOOP, BLOCKING}}, .window = 4};
  (void)state;
  set_times(&pair, 20, 5, 5);
  ovl_stats_t stats = run_pair(&pair, "the pool computes while comm blocks the loop");
  assert_true(stats.hidden_ns > 0);
  assert_true(stats.loop_longest_ns >= 5000000);
}

/* ---- case 24: odd counts and odd lengths [SGLang two-batch] --------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* When the last op ends if there is no overhead: two lanes of width 1, in order, `window` microbatches. */
static uint64_t best_end(const pair_t *pair) {
  uint64_t ends[2][MOST] = {{0}};
  for (uint64_t j = 0; j < pair->count; j++) {
    uint64_t lane = j > 0 ? ends[0][j - 1] : 0, slot = j >= pair->window ? ends[1][j - pair->window] : 0;
    if (pair->mode == OVL_SERIAL)
      slot = j > 0 ? ends[1][j - 1] : 0;
    ends[0][j] = larger(lane, slot) + pair->ns[0][j];
    ends[1][j] = larger(ends[0][j], j > 0 ? ends[1][j - 1] : 0) + pair->ns[1][j];
  }
  return pair->count > 0 ? ends[1][pair->count - 1] : 0;
}

static void check_bounds(pair_t *pair, const char *name) {
  ovl_stats_t stats = run_pair(pair, name);
  uint64_t best = best_end(pair);
  if (best > stats.bound_ns || stats.bound_ns > stats.elapsed_ns)
    fail_msg("%s, %llu microbatches, window %u: best %llu, bound %llu, elapsed %llu", name,
             (unsigned long long)pair->count, (unsigned)pair->window, (unsigned long long)best,
             (unsigned long long)stats.bound_ns, (unsigned long long)stats.elapsed_ns);
  assert_true(stats.work_ns <= 2 * stats.elapsed_ns);
  assert_true(stats.efficiency >= 0.0 && stats.efficiency <= 1.0);
  assert_true(stats.hidden_ns + stats.exposed_ns <= stats.elapsed_ns);
  if (pair->mode == OVL_SERIAL || pair->window == 1)
    assert_true(stats.hidden_ns == 0 && stats.concurrency <= 1.0);
  if (pair->count == 0)
    assert_true(stats.work_ns == 0 && stats.bound_ns == 0 && stats.efficiency == 0.0);
}

static const half_t halves[][2] = {
    {{POOL, BLOCKING}, {POOL, BLOCKING}},
    {{POOL, BLOCKING}, {LOOP, PENDING}},
    {{LOOP, PENDING}, {LOOP, PENDING}},
    {{LOOP, BLOCKING}, {POOL, PENDING}},
};

static void check_all_ways(pair_t *pair, const char *name) {
  static const uint32_t windows[] = {1, 2, 3, 8};
  for (size_t h = 0; h < sizeof halves / sizeof *halves; h++)
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
      for (int mode = OVL_OVERLAP; mode <= OVL_SERIAL; mode++) {
        memcpy(pair->halves, halves[h], sizeof pair->halves);
        pair->window = windows[w];
        pair->mode = (ovl_mode_t)mode;
        check_bounds(pair, name);
      }
}

static void case_24_counts(void **state) {
  static const uint64_t counts[] = {0, 1, 2, 3, 7};
  pair_t pair = {.count = 0};
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    set_times(&pair, counts[i], 1, 1);
    check_all_ways(&pair, "a count");
  }
}

static void case_24_lengths(void **state) {
  pair_t pair = {.count = 0};
  (void)state;
  set_times(&pair, 5, 1, 3);
  check_all_ways(&pair, "comm is longer");
  set_times(&pair, 5, 3, 1);
  check_all_ways(&pair, "compute is longer");
  set_times(&pair, 9, 0, 0);
  check_all_ways(&pair, "no length");
  set_times(&pair, 5, 0, 1);
  check_all_ways(&pair, "compute has no length");
  set_times(&pair, 5, 1, 0);
  check_all_ways(&pair, "comm has no length");
}

static void case_24_a_giant_among_the_tiny(void **state) {
  pair_t pair = {.count = 0};
  (void)state;
  for (int half = 0; half < 2; half++)
    for (int at = 0; at < 9; at += 4) {
      set_times(&pair, 9, 0, 0);
      pair.ms[half][at] = 15;
      check_all_ways(&pair, "a giant among the tiny");
    }
}

/* At full length the gain is there: not more than the bound allows, and much less than one after another. */
static void case_24_overlap_is_had(void **state) {
  pair_t pair = {.halves = {{POOL, BLOCKING}, {LOOP, PENDING}}, .window = 4};
  (void)state;
  set_times(&pair, 15, 8, 8);
  ovl_stats_t stats = run_pair(&pair, "fifteen microbatches of 8 + 8 ms");
  assert_true(stats.elapsed_ns >= ovl_bound_overlap(15, 8000000, 8000000));
  assert_true(stats.hidden_ns > stats.exposed_ns / 2); /* 14 of 15, were sleep exact */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_23_both_block_the_loop),
      cmocka_unit_test(case_23_comm_blocks_the_loop_that_launches_compute),
      cmocka_unit_test(case_23_comm_that_does_not_block),
      cmocka_unit_test(case_23_pool_computes_while_the_loop_is_blocked),
      cmocka_unit_test(case_24_counts),
      cmocka_unit_test(case_24_lengths),
      cmocka_unit_test(case_24_a_giant_among_the_tiny),
      cmocka_unit_test(case_24_overlap_is_had),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
