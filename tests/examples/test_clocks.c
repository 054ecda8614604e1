/* SPDX-License-Identifier: MIT */
/* Shows that what barriers tell of two clocks holds, whoever enters and leaves first, and how far apart they are. */
#include "mpi/clocks.h"

#include "support/cmocka_all.h"
#include "support/random.h"

enum { BARRIERS = 50 };

/* A barrier as a clock sees it that is `ahead` of the true time. */
static clocks_barrier_t seen(uint64_t entered, uint64_t left, int64_t ahead) {
  const clocks_barrier_t barrier = {entered + (uint64_t)ahead, left + (uint64_t)ahead};
  return barrier;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Nobody leaves before the last has entered; beyond that, entering and leaving take any time. */
static clocks_offset_t pass_barriers(random_source_t *random, int64_t ours, int64_t theirs) {
  clocks_offset_t offset = clocks_unknown();
  uint64_t now = UINT64_C(1) << 40;
  for (int i = 0; i < BARRIERS; i++) {
    uint64_t we_enter = now + random_below(random, 5000), they_enter = now + random_below(random, 5000);
    uint64_t last = later(we_enter, they_enter);
    clocks_barrier_t our = seen(we_enter, last + random_below(random, 5000), ours);
    clocks_barrier_t their = seen(they_enter, last + random_below(random, 5000), theirs);
    clocks_narrow(&offset, &their, &our);
    now += 20000;
  }
  return offset;
}

static void the_difference_is_within_bounds(void **state) {
  static const int64_t ahead[] = {0, 1, -1, 123456789, -987654321, INT64_C(1) << 39, -(INT64_C(1) << 39)};
  random_source_t random = {.state = 1};
  (void)state;
  for (size_t a = 0; a < sizeof ahead / sizeof ahead[0]; a++)
    for (size_t b = 0; b < sizeof ahead / sizeof ahead[0]; b++) {
      int64_t right = ahead[b] - ahead[a];
      clocks_offset_t offset = pass_barriers(&random, ahead[a], ahead[b]);
      assert_true(offset.least_ns <= right && right <= offset.most_ns);
      assert_true(offset.most_ns - offset.least_ns <= 10000);
      int64_t off = clocks_middle(&offset) - right, error = (int64_t)clocks_error(&offset);
      assert_true(-error <= off && off <= error && error <= 5000);
    }
}

/* The narrowest of all barriers counts on either side, not the last. */
static void no_barrier_widens_the_bounds(void **state) {
  clocks_offset_t offset = clocks_unknown();
  (void)state;
  clocks_narrow(&offset, &(clocks_barrier_t){100, 110}, &(clocks_barrier_t){40, 52});
  assert_int_equal(offset.least_ns, 48);
  assert_int_equal(offset.most_ns, 70);
  clocks_narrow(&offset, &(clocks_barrier_t){200, 300}, &(clocks_barrier_t){140, 149});
  assert_int_equal(offset.least_ns, 51);
  assert_int_equal(offset.most_ns, 70);
  clocks_narrow(&offset, &(clocks_barrier_t){400, 410}, &(clocks_barrier_t){345, 400});
  assert_int_equal(offset.least_ns, 51);
  assert_int_equal(offset.most_ns, 65);
  assert_int_equal(clocks_middle(&offset), 58);
  assert_int_equal(clocks_error(&offset), 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_difference_is_within_bounds),
      cmocka_unit_test(no_barrier_widens_the_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
