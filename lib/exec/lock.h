/* SPDX-License-Identifier: MIT */
/* The scheduler's lock. It is held for tens of nanoseconds at a time and never across a callback, so a
 * waiter first spins; on a machine with too few processors the holder may be descheduled, so it then
 * yields, and at last sleeps, which lets a holder of lower priority through. */
#ifndef OVL_EXEC_LOCK_H
#define OVL_EXEC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct ovl_lock {
  atomic_int held;
} ovl_lock_t;

/* Tells the processor that this is a spin loop. */
static inline void ovl_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* Waits for something that another thread is about to do; turn: how often it has before. */
void ovl_lock_wait(unsigned turn);

void ovl_lock_contended(ovl_lock_t *lock);

static inline void ovl_lock(ovl_lock_t *lock) {
  if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
    ovl_lock_contended(lock);
}

static inline bool ovl_try_lock(ovl_lock_t *lock) {
  return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
         atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

static inline void ovl_unlock(ovl_lock_t *lock) {
  atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
