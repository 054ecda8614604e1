/* SPDX-License-Identifier: MIT */
/* What cuda_stream holds the GPU's results against: that it takes right ones, and which wrong ones it does not. */
#include "cuda_stream/reference.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"

enum { N = 12, RANKS = 3 };

static const reference_t all = {.microbatch = 5, .last = RANKS - 1, .columns = N};

/* The inputs of some members, added, times the weights. */
static void multiply(float *product, unsigned first, unsigned last, uint64_t microbatch) {
  static float weights[N * N], input[N * N];
  reference_fill(weights, N, REFERENCE_WEIGHTS);
  memset(product, 0, N * N * sizeof *product);
  for (unsigned r = first; r <= last; r++) {
    reference_fill(input, N, REFERENCE_INPUT(r, microbatch));
    for (int c = 0; c < N; c++)
      for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
          product[c * N + i] += input[k * N + i] * weights[c * N + k];
  }
}

static void right_products_are_taken(void **state) {
  (void)state;
  float product[N * N];
  for (unsigned first = 0; first < RANKS; first++)
    for (unsigned last = first; last < RANKS; last++) {
      reference_t what = {.microbatch = 7, .first = first, .last = last, .columns = N};
      multiply(product, first, last, 7);
      assert_int_equal(reference_wrong_columns(product, N, &what), 0);
      what.column = N / 3;
      what.columns = N / 3;
      assert_int_equal(reference_wrong_columns(product + N * N / 3, N, &what), 0);
    }
}

static void wrong_numbers_are_found(void **state) {
  (void)state;
  float product[N * N];
  multiply(product, 0, RANKS - 1, 5);
  product[3 * N + 4] += 1;
  assert_int_equal(reference_wrong_columns(product, N, &all), 1);
  product[7 * N] = NAN; /* never written */
  assert_int_equal(reference_wrong_columns(product, N, &all), 2);
}

static void other_products_are_found(void **state) {
  (void)state;
  float product[N * N];
  multiply(product, 0, RANKS - 1, 6); /* another microbatch's */
  assert_true(reference_wrong_columns(product, N, &all) > N / 2);
  multiply(product, 0, RANKS - 2, 5); /* without the last member's */
  assert_true(reference_wrong_columns(product, N, &all) > N / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_products_are_taken),
      cmocka_unit_test(wrong_numbers_are_found),
      cmocka_unit_test(other_products_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
