/* SPDX-License-Identifier: MIT */
#include "support/interrupt.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "support/random.h"

static atomic_uint threads, count;

/* So that each thread goes its own way. */
static uint64_t next_number(void) {
  static _Thread_local random_source_t random;
  if (random.state == 0)
    random.state = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32;
  return random_next(&random);
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
