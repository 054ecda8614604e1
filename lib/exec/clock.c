/* SPDX-License-Identifier: MIT */
/* Measures the processor's counter against uv_hrtime, and watches that the two keep pace. */
#include "exec/clock.h"

#include <stdatomic.h>

#include "exec/lock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { FIRST_NS = 200000, DRIFT_NS = 1000000, LEAST_CORRECTED_NS = 1000000 };

/* Where the measuring of the rate began. Written once, under uv_once. */
static uint64_t anchor, anchor_ns;
static uv_once_t anchored = UV_ONCE_INIT;
static atomic_bool trusted; /* the counter is fit for use */

/* Constant rate in all power states: cpuid 0x80000007, EDX bit 8 (AMD64 Architecture Programmer's Manual
 * vol. 3, Intel SDM vol. 3 "Invariant TSC"). The ARM counter is so by definition. */
static bool counter_is_invariant(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

/* Reads both clocks at one moment: the best of a few tries, in case this thread is descheduled between. */
static void read_both(uint64_t *ns, uint64_t *counter) {
  uint64_t best = UINT64_MAX;
  for (int tries = 0; tries < 5; tries++) {
    uint64_t before = uv_hrtime(), ticks = ovl_clock_counter(), gap = uv_hrtime() - before;
    if (gap < best) {
      best = gap;
      *ns = before + gap / 2;
      *counter = ticks;
    }
  }
}

static void drop_anchor(void) {
  if (!counter_is_invariant())
    return;
  read_both(&anchor_ns, &anchor);
  while (uv_hrtime() - anchor_ns < FIRST_NS)
    ovl_pause();
  atomic_store(&trusted, ovl_clock_counter() > anchor);
}

void ovl_clock_init(ovl_clock_t *clock) {
  uv_once(&anchored, drop_anchor);
  read_both(&clock->base_ns, &clock->base);
  clock->counter = atomic_load(&trusted) && clock->base > anchor;
  if (!clock->counter)
    return;
  double rate = (double)(clock->base_ns - anchor_ns) / (double)(clock->base - anchor);
  clock->scale = (uint64_t)(rate * 4294967296.0);
}

double ovl_clock_correction(const ovl_clock_t *clock) {
  uint64_t ns = 0, counter = 0;
  if (!clock->counter)
    return 1.0;
  read_both(&ns, &counter);
  uint64_t counted = ovl_clock_at(clock, counter) - clock->base_ns, real = ns - clock->base_ns;
  if (counter <= clock->base || real < LEAST_CORRECTED_NS || counted == 0)
    return 1.0;
  return (double)real / (double)counted;
}

void ovl_clock_verify(const ovl_clock_t *clock) {
  if (!clock->counter)
    return;
  uint64_t counted = ovl_clock_now(clock), real = uv_hrtime();
  uint64_t apart = counted > real ? counted - real : real - counted;
  if (apart > DRIFT_NS + (real - clock->base_ns) / 100)
    atomic_store(&trusted, false);
}
