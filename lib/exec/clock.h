/* SPDX-License-Identifier: MIT */
/* A clock that costs a few nanoseconds: the processor's invariant counter where there is one that keeps
 * pace with uv_hrtime, else uv_hrtime itself. Times are nanoseconds on uv_hrtime's scale. */
#ifndef OVL_EXEC_CLOCK_H
#define OVL_EXEC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* One run's view of the clock: time = base_ns + (counter - base) * scale / 2^32. */
typedef struct ovl_clock {
  bool counter;
  uint64_t base;
  uint64_t base_ns;
  uint64_t scale;
} ovl_clock_t;

/* Sets up a view for a run that starts now. The first call in a process takes 0.2 ms to measure the
 * counter's rate; later ones measure it over the time since. Any thread. */
void ovl_clock_init(ovl_clock_t *clock);

/* What durations by this view are to be multiplied by: the rate as it shows over the run so far. The rate at
 * the start of a process's first run is good to a few parts in ten thousand; this is to less than one in a million
 * once a run has taken a tenth of a second. Any thread. */
double ovl_clock_correction(const ovl_clock_t *clock);

/* Compares the view with uv_hrtime; one that has drifted apart (a counter that is not what it says) makes
 * all later views use uv_hrtime. Any thread. */
void ovl_clock_verify(const ovl_clock_t *clock);

static inline uint64_t ovl_clock_counter(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

/* The time at which the counter stood so. */
static inline uint64_t ovl_clock_at(const ovl_clock_t *clock, uint64_t counter) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide_t;
  return clock->base_ns + (uint64_t)(((wide_t)(counter - clock->base) * clock->scale) >> 32);
#else /* a machine of 32 bits: there is no counter */
  (void)counter;
  return clock->base_ns;
#endif
}

/* How long ago `then` was; 0 if it is yet to come: clocks are read on different processors, and may be read
 * a little before what stands before them. */
static inline uint64_t ovl_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

static inline uint64_t ovl_clock_now(const ovl_clock_t *clock) {
  return clock->counter ? ovl_clock_at(clock, ovl_clock_counter()) : uv_hrtime();
}

#endif
