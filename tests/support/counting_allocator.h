/* SPDX-License-Identifier: MIT */
/* An allocator that counts, and that fails when it is told to. For the pure parts it is an ovl_memory_t, for
 * the public API the context of an ovl_allocator_t. */
#ifndef OVL_TESTS_COUNTING_ALLOCATOR_H
#define OVL_TESTS_COUNTING_ALLOCATOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory.h"

/* All 0: nothing fails. Any thread. */
typedef struct counting_allocator {
  atomic_ulong allocations; /* that succeeded */
  atomic_ulong releases;
  atomic_ulong failures;
  atomic_long fail_at; /* n: the n-th allocation from now fails, and only that one; 0: none does */
} counting_allocator_t;

void *counting_allocate(void *allocator, size_t bytes);
void counting_release(void *allocator, void *memory);

static inline ovl_memory_t counting_memory(counting_allocator_t *allocator) {
  return (ovl_memory_t){.allocate = counting_allocate, .release = counting_release, .context = allocator};
}

/* Blocks that are not released yet. */
static inline unsigned long counting_held(counting_allocator_t *allocator) {
  return atomic_load(&allocator->allocations) - atomic_load(&allocator->releases);
}

#endif
