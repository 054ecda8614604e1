/* SPDX-License-Identifier: MIT */
/* Checked, zeroing allocation through the user's allocator, which promises no more than malloc does: memory that
 * begins on a line of the processor's caches is cut out of a larger block. */
#include "core/memory.h"

#include <string.h>

void *ovl_memory_array(const ovl_memory_t *memory, size_t count, size_t size) {
  size_t bytes, all;
  if (__builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(bytes, sizeof(void *) + OVL_LINE, &all) || all > PTRDIFF_MAX)
    return NULL;
  unsigned char *block = memory->allocate(memory->context, all);
  if (block == NULL)
    return NULL;
  unsigned char *array = block + sizeof(void *);
  array += (OVL_LINE - (uintptr_t)array % OVL_LINE) % OVL_LINE;
  memcpy(array - sizeof(void *), &block, sizeof(void *)); /* for free */
  memset(array, 0, bytes);
  return array;
}

void ovl_memory_free(const ovl_memory_t *memory, void *block) {
  if (block == NULL)
    return;
  void *allocated;
  memcpy(&allocated, (unsigned char *)block - sizeof(void *), sizeof(void *));
  memory->release(memory->context, allocated);
}
