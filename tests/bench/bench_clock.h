/* SPDX-License-Identifier: MIT */
/* The clock of the benchmarks, and the spinning that stands for an operation's work. */
#ifndef OVL_BENCH_CLOCK_H
#define OVL_BENCH_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measures the rate of the processor's counter; takes 50 ms. Once, before all else. */
void bench_clock_init(void);

/* "time stamp counter", or "monotonic clock" where that cannot be trusted. */
const char *bench_clock_name(void);

/* Nanoseconds of the monotonic clock. */
uint64_t bench_now_ns(void);

/* What bench_spin() takes; at least 1 for a time that is not 0. */
uint64_t bench_ticks(uint64_t ns);

/* Keeps the processor busy for so many ticks. 0: returns at once. */
void bench_spin(uint64_t ticks);

static inline void bench_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#ifdef __cplusplus
}
#endif

#endif
