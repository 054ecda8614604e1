/* SPDX-License-Identifier: MIT */
/* Puts threads aside in the library where it counts: before an atomic access. Included by the compiler before all else
 * (-include) in sources whose accesses are to be so; what goes on meanwhile comes to others as it would on a machine that
 * has something else to do. */
#ifndef TEST_SUPPORT_INTERRUPT_H
#define TEST_SUPPORT_INTERRUPT_H

#include <stdatomic.h>

/* Once in 256 times lets others run, once in 4096 sleeps for up to 80 us. */
void interrupt_now_and_then(void);

/* How often somebody has slept. */
unsigned interrupt_count(void);

#ifdef TEST_INTERRUPTED
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#ifdef __clang__
#define atomic_load_explicit(p, order) (interrupt_now_and_then(), __c11_atomic_load(p, order))
#define atomic_store_explicit(p, value, order) (interrupt_now_and_then(), __c11_atomic_store(p, value, order))
#define atomic_exchange_explicit(p, value, order) \
  (interrupt_now_and_then(), __c11_atomic_exchange(p, value, order))
#define atomic_compare_exchange_strong_explicit(p, expected, value, order, otherwise) \
  (interrupt_now_and_then(), __c11_atomic_compare_exchange_strong(p, expected, value, order, otherwise))
#define atomic_compare_exchange_weak_explicit(p, expected, value, order, otherwise) \
  (interrupt_now_and_then(), __c11_atomic_compare_exchange_weak(p, expected, value, order, otherwise))
#else
#define atomic_load_explicit(p, order) (interrupt_now_and_then(), __atomic_load_n(p, order))
#define atomic_store_explicit(p, value, order) (interrupt_now_and_then(), __atomic_store_n(p, value, order))
#define atomic_exchange_explicit(p, value, order) \
  (interrupt_now_and_then(), __atomic_exchange_n(p, value, order))
#define atomic_compare_exchange_strong_explicit(p, expected, value, order, otherwise) \
  (interrupt_now_and_then(), __atomic_compare_exchange_n(p, expected, value, 0, order, otherwise))
#define atomic_compare_exchange_weak_explicit(p, expected, value, order, otherwise) \
  (interrupt_now_and_then(), __atomic_compare_exchange_n(p, expected, value, 1, order, otherwise))
#endif
#endif

#endif
