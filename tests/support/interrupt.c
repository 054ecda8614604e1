/* SPDX-License-Identifier: MIT */
#include "support/interrupt.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static atomic_uint threads, count;

/* So that each thread goes its own way. */
static uint64_t next_number(void) {
  static _Thread_local uint64_t state;
  if (state == 0)
    state = (atomic_fetch_add(&threads, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state >> 20;
}

void interrupt_now_and_then(void) {
  uint64_t number = next_number();
  if (number % 256 == 0) {
    sched_yield();
  } else if (number % 4096 == 1) {
    const struct timespec nap = {.tv_nsec = (long)(number >> 12) % 80000};
    nanosleep(&nap, NULL);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
  }
}

unsigned interrupt_count(void) { return atomic_load(&count); }
