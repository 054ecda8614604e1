/* SPDX-License-Identifier: MIT */
/* Shows that the closed forms are what a search over all orders and starts finds, and that they never wrap round. */
#include "ovl/theory.h"
#include "support/cmocka_all.h"

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Each op starts as soon as its lane is free and its computation done: no schedule is shorter. */
static uint64_t shortest_schedule(uint64_t n, uint64_t compute, uint64_t comm) {
  uint64_t computed = 0, communicated = 0;
  for (uint64_t i = 0; i < n; i++) {
    computed += compute;
    communicated = larger(computed, communicated) + comm;
  }
  return larger(computed, communicated);
}

static void overlap_is_the_shortest_schedule(void **state) {
  (void)state;
  for (uint64_t n = 0; n <= 8; n++)
    for (uint64_t compute = 0; compute <= 7; compute++)
      for (uint64_t comm = 0; comm <= 7; comm++)
        assert_int_equal(ovl_bound_overlap(n, compute, comm), shortest_schedule(n, compute, comm));
}

static void the_figures_that_everybody_quotes(void **state) {
  (void)state;
  assert_int_equal(ovl_bound_serial(8, 50000000, 30000000), 640000000);
  assert_int_equal(ovl_bound_overlap(8, 50000000, 30000000), 430000000);
  assert_int_equal(ovl_bound_overlap(8, 30000000, 50000000), 430000000);
}

static void nothing_takes_no_time(void **state) {
  (void)state;
  assert_int_equal(ovl_bound_serial(0, 5, 3), 0);
  assert_int_equal(ovl_bound_overlap(0, 5, 3), 0);
  assert_int_equal(ovl_bound_overlap(0, UINT64_MAX, UINT64_MAX), 0);
  assert_int_equal(ovl_bound_serial(UINT64_MAX, 0, 0), 0);
  assert_int_equal(ovl_bound_overlap(UINT64_MAX, 0, 0), 0);
}

static void overlap_is_never_longer_than_serial_and_never_less_than_half(void **state) {
  (void)state;
  for (uint64_t n = 1; n <= 10; n++)
    for (uint64_t compute = 0; compute <= 9; compute++)
      for (uint64_t comm = 0; comm <= 9; comm++) {
        uint64_t serial = ovl_bound_serial(n, compute, comm), overlap = ovl_bound_overlap(n, compute, comm);
        assert_true(overlap <= serial && 2 * overlap >= serial);
      }
}

static void what_just_fits_is_exact(void **state) {
  (void)state;
  assert_int_equal(ovl_bound_serial(1, UINT64_MAX - 1, 1), UINT64_MAX);
  assert_int_equal(ovl_bound_serial(1, UINT64_MAX - 2, 1), UINT64_MAX - 1);
  assert_int_equal(ovl_bound_serial(2, UINT64_MAX / 2 - 1, 1), UINT64_MAX - 1);
  assert_int_equal(ovl_bound_overlap(1, UINT64_MAX - 5, 4), UINT64_MAX - 1);
  assert_int_equal(ovl_bound_overlap(3, UINT64_MAX / 3, 0), UINT64_MAX); /* 2^64 - 1 divides by 3 */
  assert_int_equal(ovl_bound_overlap(5, UINT64_MAX / 5 - 1, 4), UINT64_MAX - 1);
}

static void what_does_not_fit_is_the_most_that_does(void **state) {
  (void)state;
  assert_int_equal(ovl_bound_serial(2, UINT64_MAX / 2, 1), UINT64_MAX);
  assert_int_equal(ovl_bound_serial(1, UINT64_MAX, UINT64_MAX), UINT64_MAX);
  assert_int_equal(ovl_bound_serial(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_MAX);
  assert_int_equal(ovl_bound_serial(UINT64_C(1) << 32, UINT64_C(1) << 32, 0), UINT64_MAX);
  assert_int_equal(ovl_bound_overlap(1, UINT64_MAX, 1), UINT64_MAX);
  assert_int_equal(ovl_bound_overlap(1, 1, UINT64_MAX), UINT64_MAX);
  assert_int_equal(ovl_bound_overlap(UINT64_MAX, 2, 2), UINT64_MAX);
  assert_int_equal(ovl_bound_overlap(UINT64_C(1) << 32, UINT64_C(1) << 32, 7), UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overlap_is_the_shortest_schedule),
      cmocka_unit_test(the_figures_that_everybody_quotes),
      cmocka_unit_test(nothing_takes_no_time),
      cmocka_unit_test(overlap_is_never_longer_than_serial_and_never_less_than_half),
      cmocka_unit_test(what_just_fits_is_exact),
      cmocka_unit_test(what_does_not_fit_is_the_most_that_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
