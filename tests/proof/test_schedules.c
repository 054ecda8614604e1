/* SPDX-License-Identifier: MIT */
/* Shows what theory says of orders: Johnson's rule is the best for two lanes without a window and not with one,
 * no work-conserving order is worse than Graham's bound, and a schedule never gets longer with less to do, if all
 * its lanes keep their order, and only then. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proof/virtual.h"
#include "support/seed.h"

enum { ROUNDS = 200, JOBS = 5 };

static uint64_t rounds;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static random_source_t begin_round(uint64_t round) {
  seed_round(seed_first() + round);
  return (random_source_t){.state = seed_first() + round};
}

/* ---- Johnson's rule ------------------------------------------------------------------------------------------------ */

typedef struct job {
  uint64_t compute, comm;
} job_t;

static uint64_t take_in_order(virtual_run_t *run, const job_t *jobs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    run->duration[i][0] = jobs[i].compute;
    run->duration[i][1] = jobs[i].comm;
  }
  return virtual_simulate(run, count);
}

/* Those with compute < comm first, by rising compute; then the rest by falling comm. */
static int by_johnson(const void *left, const void *right) {
  const job_t *a = left, *b = right;
  bool a_first = a->compute < a->comm, b_first = b->compute < b->comm;
  if (a_first != b_first)
    return a_first ? -1 : 1;
  uint64_t x = a_first ? a->compute : b->comm, y = a_first ? b->compute : a->comm;
  return (x > y) - (x < y);
}

static void swap(job_t *a, job_t *b) {
  job_t kept = *a;
  *a = *b;
  *b = kept;
}

/* The least of all orders; jobs[0 .. fixed - 1] stay where they are. */
static uint64_t least_of_all(virtual_run_t *run, job_t *jobs, uint32_t fixed, uint32_t count) {
  if (fixed == count)
    return take_in_order(run, jobs, count);
  uint64_t least = UINT64_MAX;
  for (uint32_t k = fixed; k < count; k++) {
    swap(&jobs[fixed], &jobs[k]);
    least = smaller(least, least_of_all(run, jobs, fixed + 1, count));
    swap(&jobs[fixed], &jobs[k]);
  }
  return least;
}

static uint64_t by_rule(virtual_run_t *run, const job_t *jobs, uint32_t count) {
  job_t sorted[JOBS];
  memcpy(sorted, jobs, count * sizeof *jobs);
  qsort(sorted, count, sizeof *sorted, by_johnson);
  return take_in_order(run, sorted, count);
}

static void johnsons_rule_is_the_best_without_a_window(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rounds; k++) {
    random_source_t random = begin_round(k);
    uint32_t count = 1 + random_below(&random, JOBS);
    const virtual_shape_t shape = virtual_chain(2, count + 1);
    virtual_run_t *run = virtual_new(&shape);
    job_t jobs[JOBS];
    for (uint32_t i = 0; i < count; i++)
      jobs[i] = (job_t){.compute = random_below(&random, 15), .comm = random_below(&random, 15)};
    assert_int_equal(by_rule(run, jobs, count), least_of_all(run, jobs, 0, count));
    virtual_free(run);
  }
}

/* (1,2) (1,1) (2,1) takes 6, for the third waits for the first to retire; (1,1) (1,2) (2,1) takes 5. */
static void johnsons_rule_is_not_the_best_for_a_window_of_two(void **state) {
  (void)state;
  const virtual_shape_t shape = virtual_chain(2, 2);
  virtual_run_t *run = virtual_new(&shape);
  job_t jobs[] = {{1, 2}, {1, 1}, {2, 1}};
  assert_int_equal(by_rule(run, jobs, 3), 6);
  assert_int_equal(least_of_all(run, jobs, 0, 3), 5);
  virtual_free(run);
}

/* ---- Graham's bound ------------------------------------------------------------------------------------------------ */

enum { SCALE = 12 }; /* a multiple of all widths */

static uint64_t scaled_on_path(const virtual_run_t *run, uint32_t i, uint32_t s) {
  uint64_t width = run->shape.width[run->shape.lane[s]];
  return run->duration[i][s] * (SCALE - SCALE / width);
}

/* Sum over lanes of work / width, plus the heaviest path of p (1 - 1 / width); times SCALE. The starts come in an
 * order in which every op follows all that it waits for. */
static uint64_t graham_bound(const virtual_run_t *run) {
  static uint64_t heaviest[VIRTUAL_MICROBATCHES][VIRTUAL_STAGES]; /* path that ends with the op */
  uint64_t work = 0, path = 0;
  for (uint32_t k = 0; k < run->start_count; k++) {
    uint32_t i = run->starts[k].microbatch, s = run->starts[k].stage;
    uint64_t before = s > 0 && !run->shape.unchained[s] ? heaviest[i][s - 1] : 0;
    for (uint32_t e = 0; e < run->shape.dependency_count; e++) {
      const virtual_dependency_t *d = &run->shape.dependencies[e];
      if (d->after == s && d->distance <= i)
        before = larger(before, heaviest[i - d->distance][d->before]);
    }
    heaviest[i][s] = before + scaled_on_path(run, i, s);
    path = larger(path, heaviest[i][s]);
    work += run->duration[i][s] * (SCALE / run->shape.width[run->shape.lane[s]]);
  }
  return work + path;
}

static void no_ready_order_is_worse_than_grahams_bound(void **state) {
  (void)state;
  double closest = 0;
  for (uint64_t k = 0; k < rounds * 5; k++) {
    random_source_t random = begin_round(k);
    virtual_shape_t shape = virtual_random_shape(&random, 6);
    uint32_t count = 1 + random_below(&random, 12);
    shape.window = count + random_below(&random, 2);
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 20);
    uint64_t elapsed = SCALE * virtual_simulate(run, count), bound = graham_bound(run);
    assert_true(elapsed <= bound);
    if (bound > 0 && (double)elapsed / (double)bound > closest)
      closest = (double)elapsed / (double)bound;
    virtual_free(run);
  }
  print_message("up to %.3f of Graham's bound\n", closest);
}

/* ---- less to do ------------------------------------------------------------------------------------------------------ */

static void do_less(virtual_run_t *run, random_source_t *random) {
  for (uint32_t i = 0; i < run->count; i++)
    for (uint32_t s = 0; s < run->shape.stage_count; s++)
      if (random_chance(random, 40))
        run->duration[i][s] = random_below(random, (uint32_t)run->duration[i][s] + 1);
}

/* Fewer dependencies, a larger window. */
static virtual_shape_t loosened(const virtual_shape_t *shape, random_source_t *random) {
  virtual_shape_t loose = *shape;
  if (loose.dependency_count > 0 && random_chance(random, 50))
    loose.dependency_count--;
  loose.window += random_below(random, 3);
  return loose;
}

static void keep_orders(virtual_shape_t *shape) {
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    shape->width[l] = 1;
    shape->order[l] = OVL_ORDER_FIXED;
  }
}

/* What the same orders take with less to do. */
static uint64_t with_less(const virtual_run_t *run, random_source_t *random) {
  const virtual_shape_t shape = loosened(&run->shape, random);
  virtual_run_t *less = virtual_new(&shape);
  less->count = run->count;
  memcpy(less->duration, run->duration, sizeof less->duration);
  do_less(less, random);
  virtual_give_orders(less, run);
  uint64_t elapsed = virtual_simulate(less, run->count);
  virtual_free(less);
  return elapsed;
}

static void with_fixed_orders_less_to_do_never_takes_longer(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rounds; k++) {
    random_source_t random = begin_round(k);
    virtual_shape_t shape = virtual_random_shape(&random, 6);
    keep_orders(&shape);
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 20);
    uint64_t elapsed = virtual_simulate(run, 1 + random_below(&random, 15));
    for (int again = 0; again < 3; again++)
      assert_true(with_less(run, &random) <= elapsed);
    virtual_free(run);
  }
}

/* Graham's anomaly: rare, but there. */
static void with_ready_orders_it_may(void **state) {
  (void)state;
  uint32_t longer = 0, tries = 2000;
  for (uint64_t k = 1; k <= tries; k++) {
    random_source_t random = {.state = k}; /* always the same ones */
    const virtual_shape_t shape = virtual_random_shape(&random, 6);
    virtual_run_t *run = virtual_new(&shape);
    virtual_random(run, &random, 20);
    uint64_t elapsed = virtual_simulate(run, 1 + random_below(&random, 15));
    do_less(run, &random);
    longer += virtual_simulate(run, run->count) > elapsed;
    virtual_free(run);
  }
  print_message("%" PRIu32 " of %" PRIu32 " ready-order schedules got longer with shorter ops\n", longer,
                tries);
  assert_true(longer > 0);
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  print_message("%" PRIu64 " rounds from OVL_SEED=%" PRIu64 "\n", rounds, seed_first());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(johnsons_rule_is_the_best_without_a_window),
      cmocka_unit_test(johnsons_rule_is_not_the_best_for_a_window_of_two),
      cmocka_unit_test(no_ready_order_is_worse_than_grahams_bound),
      cmocka_unit_test(with_fixed_orders_less_to_do_never_takes_longer),
      cmocka_unit_test(with_ready_orders_it_may),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
