/* SPDX-License-Identifier: MIT */
/* Reads the time stamp counter where it runs at one rate in all power states, and the monotonic clock
 * elsewhere. The same for every system, so that what differs between them is their own. */
#include "bench_clock.h"

#include <stdbool.h>
#include <uv.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CALIBRATION_MS = 50, TRIES = 100 };

static bool counted; /* by the counter, not by the clock */
static double ticks_per_ns = 1.0;

uint64_t bench_now_ns(void) { return uv_hrtime(); }

/* cpuid 0x80000007, EDX bit 8: the counter is invariant. */
static bool counter_is_invariant(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#else
  return false;
#endif
}

static inline uint64_t read_counter(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

typedef struct instant {
  uint64_t ns, ticks;
} instant_t;

/* Both clocks at one moment: the closest of some pairs, since the thread may be interrupted between two
 * reads. */
static instant_t read_both(void) {
  instant_t closest = {0};
  uint64_t least_ns = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    uint64_t before_ns = bench_now_ns(), ticks = read_counter(), gap_ns = bench_now_ns() - before_ns;
    if (gap_ns < least_ns) {
      least_ns = gap_ns;
      closest = (instant_t){.ns = before_ns + gap_ns / 2, .ticks = ticks};
    }
  }
  return closest;
}

void bench_clock_init(void) {
  if (!counter_is_invariant())
    return;
  instant_t begin = read_both();
  uv_sleep(CALIBRATION_MS);
  instant_t end = read_both();
  ticks_per_ns = (double)(end.ticks - begin.ticks) / (double)(end.ns - begin.ns);
  counted = true;
}

const char *bench_clock_name(void) { return counted ? "time stamp counter" : "monotonic clock"; }

uint64_t bench_ticks(uint64_t ns) {
  uint64_t ticks = (uint64_t)((double)ns * ticks_per_ns + 0.5);
  return ns > 0 && ticks == 0 ? 1 : ticks;
}

void bench_spin(uint64_t ticks) {
  if (ticks == 0)
    return;
  if (counted) {
    uint64_t begun = read_counter();
    while (read_counter() - begun < ticks)
      continue;
  } else {
    uint64_t begun = bench_now_ns();
    while (bench_now_ns() - begun < ticks)
      continue;
  }
}
