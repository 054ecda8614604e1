/* SPDX-License-Identifier: MIT */
/* Where memory comes from inside the library: the user's allocator, with the arithmetic of sizes
 * checked in one place. */
#ifndef OVL_CORE_MEMORY_H
#define OVL_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* A line of the processor's caches: what one thread writes and what another one reads belong on different ones. */
#define OVL_LINE 64

typedef struct ovl_memory {
  void *(*allocate)(void *context, size_t bytes);
  void (*release)(void *context, void *memory);
  void *context;
} ovl_memory_t;

/* Zeroed memory for `count` things of `size` bytes, from the start of a line on; NULL when there is none or the
 * size overflows. A count of 0 gives memory that may be released and not used. */
void *ovl_memory_array(const ovl_memory_t *memory, size_t count, size_t size);

/* Releases; NULL is fine. */
void ovl_memory_free(const ovl_memory_t *memory, void *block);

#endif
