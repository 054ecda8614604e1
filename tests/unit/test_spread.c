/* SPDX-License-Identifier: MIT */
/* Shows that a busy thread parts from another one on its processor, if there is one that none of them uses, and may
 * afterwards run wherever it might before. One thread stands for two here: each has a spot of its own. */
#if defined __linux__ && !defined _GNU_SOURCE
#define _GNU_SOURCE /* sched_getcpu */
#endif
#include <sched.h>
#include <stdio.h>

#include "exec/spread.h"
#include "support/cmocka_all.h"

#ifdef __linux__

enum { TRIES = 100 }; /* the kernel may move a thread at any time */

static cpu_set_t allowed;

static uint32_t nth_allowed(int n) {
  uint32_t processor = 0;
  while (!CPU_ISSET(processor, &allowed) || n-- > 0)
    processor++;
  return processor;
}

static void allow_only(uint32_t processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void allow_all(void) { assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0); }

static uint32_t name_of(uint32_t processor) { return processor + 1; }

/* A busy thread on the processor, which stays there whatever becomes of this one. */
static ovl_spot_t spot_on(uint32_t processor) {
  ovl_spot_t spot = {0};
  allow_only(processor);
  ovl_spread_busy(&spot);
  assert_int_equal(spot.processor, name_of(processor));
  return spot;
}

static void assert_all_allowed(void) {
  cpu_set_t now;
  assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
  assert_true(CPU_EQUAL(&now, &allowed));
}

static void one_that_finds_another_goes_elsewhere(void **state) {
  (void)state;
  uint32_t first = nth_allowed(0);
  int parted = 0;
  for (int i = 0; i < TRIES; i++) {
    ovl_spot_t other = spot_on(first), mine = {0};
    allow_all(); /* and still on `first` */
    ovl_spread_busy(&mine);
    parted += sched_getcpu() != (int)first;
    assert_int_not_equal(mine.processor, other.processor);
    assert_all_allowed();
    ovl_spread_idle(&mine);
    ovl_spread_idle(&other);
    assert_int_equal(mine.processor, 0);
  }
  assert_true(parted > TRIES / 2);
}

static void one_that_finds_nobody_stays(void **state) {
  (void)state;
  uint32_t first = nth_allowed(0);
  int stayed = 0;
  for (int i = 0; i < TRIES; i++) {
    ovl_spot_t other = spot_on(first), mine = {0};
    ovl_spread_idle(&other); /* as if it had never been there */
    allow_all();
    ovl_spread_busy(&mine);
    stayed += mine.processor == name_of(first);
    ovl_spread_busy(&mine); /* nor does it take itself for another */
    stayed += mine.processor == name_of(first);
    ovl_spread_idle(&mine);
  }
  assert_true(stayed > TRIES);
}

static void one_that_may_not_go_stays(void **state) {
  (void)state;
  uint32_t first = nth_allowed(0);
  ovl_spot_t other = spot_on(first), mine = spot_on(first);
  for (int i = 0; i < TRIES; i++) {
    ovl_spread_busy(&mine);
    assert_int_equal(mine.processor, name_of(first));
    assert_int_equal(sched_getcpu(), (int)first);
  }
  ovl_spread_idle(&other);
  ovl_spread_idle(&mine);
  allow_all();
}

static void nobody_moves_where_all_are_used(void **state) {
  (void)state;
  ovl_spot_t others[CPU_SETSIZE], mine = {0};
  int count = CPU_COUNT(&allowed);
  for (int i = 0; i < count; i++)
    others[i] = spot_on(nth_allowed(i));
  uint32_t last = nth_allowed(count - 1);
  int stayed = 0;
  for (int i = 0; i < TRIES; i++) {
    allow_only(last);
    allow_all();
    ovl_spread_busy(&mine);
    stayed += mine.processor == name_of(last);
    ovl_spread_idle(&mine);
  }
  assert_true(stayed > TRIES / 2);
  for (int i = 0; i < count; i++)
    ovl_spread_idle(&others[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_finds_another_goes_elsewhere),
      cmocka_unit_test(one_that_finds_nobody_stays),
      cmocka_unit_test(one_that_may_not_go_stays),
      cmocka_unit_test(nobody_moves_where_all_are_used),
  };
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
    fprintf(stderr, "skipped: there is one processor only\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}

#else

int main(void) {
  fprintf(stderr, "skipped: this system does not say on which processor a thread is\n");
  return 77;
}

#endif
