/* SPDX-License-Identifier: MIT */
/* Checked, zeroing allocation through the user's allocator. */
#include "core/memory.h"

#include <string.h>

void *ovl_memory_array(const ovl_memory_t *memory, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX)
    return NULL;
  if (bytes == 0)
    bytes = 1;
  void *block = memory->allocate(memory->context, bytes);
  if (block != NULL)
    memset(block, 0, bytes);
  return block;
}

void ovl_memory_free(const ovl_memory_t *memory, void *block) {
  if (block != NULL)
    memory->release(memory->context, block);
}
