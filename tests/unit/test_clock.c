/* SPDX-License-Identifier: MIT */
/* Shows that the clock keeps pace with uv_hrtime on every thread and does not run backwards. A reading is compared
 * with uv_hrtime before and after it, so a thread that is put aside in between does no harm. */
#include <stdatomic.h>
#include <uv.h>

#include "exec/clock.h"
#include "support/cmocka_all.h"

enum { THREADS = 3, READINGS = 20000 };

/* Processors' counters may be this far apart. */
#define BACKWARDS_NS UINT64_C(100000)

/* What is allowed beside uv_hrtime: 2 ms, and 1 % of the time since the view was made. */
static uint64_t allowance(const ovl_clock_t *clock, uint64_t now) {
  return 2000000 + (now > clock->base_ns ? (now - clock->base_ns) / 100 : 0);
}

static bool keeps_pace(const ovl_clock_t *clock) {
  uint64_t before = uv_hrtime(), now = ovl_clock_now(clock), after = uv_hrtime();
  return now + allowance(clock, after) >= before && now <= after + allowance(clock, after);
}

static void it_keeps_pace_with_hrtime(void **state) {
  (void)state;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  assert_true(keeps_pace(&clock));
  for (int i = 0; i < 10; i++) {
    uv_sleep(5);
    assert_true(keeps_pace(&clock));
  }
}

static void every_view_starts_at_the_time_that_it_is(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    ovl_clock_t clock;
    uint64_t before = uv_hrtime();
    ovl_clock_init(&clock);
    uint64_t now = ovl_clock_now(&clock), after = uv_hrtime();
    assert_true(now + allowance(&clock, after) >= before && now <= after + allowance(&clock, after));
  }
}

static void it_does_not_run_backwards_on_a_thread(void **state) {
  (void)state;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  uint64_t last = ovl_clock_now(&clock), first = last;
  for (int i = 0; i < READINGS; i++) {
    uint64_t now = ovl_clock_now(&clock);
    assert_true(now + BACKWARDS_NS >= last);
    last = now > last ? now : last;
  }
  assert_true(last > first);
}

typedef struct shared {
  ovl_clock_t clock;
  _Atomic uint64_t latest; /* reading of any thread */
  atomic_int wrong;
} shared_t;

static void read_along(void *argument) {
  shared_t *shared = argument;
  for (int i = 0; i < READINGS; i++) {
    uint64_t latest = atomic_load(&shared->latest), now = ovl_clock_now(&shared->clock);
    if (now + BACKWARDS_NS < latest || (i % 64 == 0 && !keeps_pace(&shared->clock)))
      atomic_fetch_add(&shared->wrong, 1);
    while (latest < now && !atomic_compare_exchange_weak(&shared->latest, &latest, now))
      ;
  }
}

static void threads_share_it(void **state) {
  (void)state;
  shared_t shared = {.latest = 0};
  uv_thread_t threads[THREADS];
  ovl_clock_init(&shared.clock);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(uv_thread_create(&threads[i], read_along, &shared), 0);
  for (int i = 0; i < THREADS; i++)
    uv_thread_join(&threads[i]);
  assert_int_equal(atomic_load(&shared.wrong), 0);
}

/* Over a run, durations are corrected by what the counter's rate turns out to be: it cannot be far off. */
static void its_rate_needs_little_correction(void **state) {
  (void)state;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  for (int i = 0; i < 5; i++) {
    double correction = ovl_clock_correction(&clock);
    assert_true(correction > 0.98 && correction < 1.02);
    uv_sleep(4);
  }
}

static void a_wrong_rate_is_corrected(void **state) {
  (void)state;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  if (!clock.counter)
    return; /* uv_hrtime needs no correction */
  clock.scale /= 2;
  uv_sleep(5);
  uint64_t before = uv_hrtime(), counted = ovl_clock_now(&clock) - clock.base_ns, after = uv_hrtime();
  double real = (double)counted * ovl_clock_correction(&clock);
  assert_true(real >= 0.98 * (double)(before - clock.base_ns) &&
              real <= 1.02 * (double)(after - clock.base_ns));
}

static void without_a_counter_it_is_hrtime(void **state) {
  (void)state;
  const ovl_clock_t clock = {.counter = false, .base = 5, .base_ns = 7, .scale = 9};
  uint64_t before = uv_hrtime(), now = ovl_clock_now(&clock);
  assert_true(before <= now && now <= uv_hrtime());
}

/* Two threads' times may be a little out of order, and no difference is to become 584 years. */
static void what_is_yet_to_come_was_no_time_ago(void **state) {
  (void)state;
  assert_int_equal(ovl_since(7, 5), 2);
  assert_int_equal(ovl_since(5, 5), 0);
  assert_int_equal(ovl_since(5, 7), 0);
  assert_int_equal(ovl_since(0, UINT64_MAX), 0);
  assert_true(ovl_since(UINT64_MAX, 0) == UINT64_MAX);
}

/* Last, for no view trusts the counter afterwards: one that has drifted apart is found out. */
static void a_counter_that_drifts_is_not_used_again(void **state) {
  (void)state;
  ovl_clock_t clock;
  ovl_clock_init(&clock);
  ovl_clock_verify(&clock);
  ovl_clock_t next;
  ovl_clock_init(&next);
  assert_int_equal(next.counter, clock.counter); /* nothing was wrong with it */
  if (!clock.counter)
    return; /* there is none on this machine */
  clock.scale *= 2;
  uv_sleep(20);
  ovl_clock_verify(&clock);
  ovl_clock_init(&next);
  assert_false(next.counter);
  assert_true(keeps_pace(&next));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_keeps_pace_with_hrtime),
      cmocka_unit_test(every_view_starts_at_the_time_that_it_is),
      cmocka_unit_test(it_does_not_run_backwards_on_a_thread),
      cmocka_unit_test(threads_share_it),
      cmocka_unit_test(its_rate_needs_little_correction),
      cmocka_unit_test(a_wrong_rate_is_corrected),
      cmocka_unit_test(without_a_counter_it_is_hrtime),
      cmocka_unit_test(what_is_yet_to_come_was_no_time_ago),
      cmocka_unit_test(a_counter_that_drifts_is_not_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
