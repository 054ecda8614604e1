/* SPDX-License-Identifier: MIT */
/* Waiting for the scheduler's lock: spin, then yield, then sleep. */
#include "exec/lock.h"

#include <sched.h>
#include <time.h>

enum { SPINS = 200, YIELDS = 200 };

void ovl_lock_wait(unsigned turn) {
  if (turn < SPINS) {
    ovl_pause();
  } else if (turn < SPINS + YIELDS) {
    sched_yield();
  } else {
    const struct timespec nap = {.tv_sec = 0, .tv_nsec = 50000};
    nanosleep(&nap, NULL);
  }
}

void ovl_lock_contended(ovl_lock_t *lock) {
  unsigned turn = 0;
  do {
    while (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0)
      ovl_lock_wait(turn++);
  } while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0);
}
