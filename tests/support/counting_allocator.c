/* SPDX-License-Identifier: MIT */
/* Counts what is allocated and released. What it gives out is filled with rubbish, so that nobody relies on
 * fresh memory being zero. */
#include "support/counting_allocator.h"

#include <stdlib.h>
#include <string.h>

void *counting_allocate(void *context, size_t bytes) {
  counting_allocator_t *allocator = context;
  if (atomic_load(&allocator->fail_at) > 0 && atomic_fetch_sub(&allocator->fail_at, 1) == 1) {
    atomic_fetch_add(&allocator->failures, 1);
    return NULL;
  }
  void *memory = malloc(bytes);
  if (memory == NULL)
    return NULL;
  memset(memory, 0xa5, bytes);
  atomic_fetch_add(&allocator->allocations, 1);
  return memory;
}

void counting_release(void *context, void *memory) {
  counting_allocator_t *allocator = context;
  atomic_fetch_add(&allocator->releases, 1);
  free(memory);
}
