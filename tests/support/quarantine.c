/* SPDX-License-Identifier: MIT */
#include "support/quarantine.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define REALLY_FREES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REALLY_FREES 1
#endif
#endif
#ifndef REALLY_FREES
#define REALLY_FREES 0
#endif

enum { PATTERN = 0xa5 };

struct quarantine_block {
  quarantine_block_t *next;
  size_t bytes;
  max_align_t memory[];
};

static quarantine_block_t *block_of(void *memory) {
  return (quarantine_block_t *)(void *)((char *)memory - offsetof(quarantine_block_t, memory));
}

static void *allocate(void *context, size_t bytes) {
  quarantine_t *quarantine = context;
  quarantine_block_t *block = malloc(sizeof *block + bytes);
  if (block == NULL)
    abort();
  block->bytes = bytes;
  uv_mutex_lock(&quarantine->mutex);
  quarantine->live++;
  quarantine->calls++;
  uv_mutex_unlock(&quarantine->mutex);
  return block->memory;
}

static void release(void *context, void *memory) {
  quarantine_t *quarantine = context;
  quarantine_block_t *block = block_of(memory);
  uv_mutex_lock(&quarantine->mutex);
  quarantine->live--;
  if (!REALLY_FREES) {
    memset(memory, PATTERN, block->bytes);
    block->next = quarantine->released;
    quarantine->released = block;
  }
  uv_mutex_unlock(&quarantine->mutex);
  if (REALLY_FREES)
    free(block);
}

void quarantine_init(quarantine_t *quarantine) {
  memset(quarantine, 0, sizeof *quarantine);
  ovl_allocator_init(&quarantine->allocator);
  quarantine->allocator.allocate = allocate;
  quarantine->allocator.release = release;
  quarantine->allocator.context = quarantine;
  if (uv_mutex_init(&quarantine->mutex) != 0)
    abort();
}

size_t quarantine_live(quarantine_t *quarantine) {
  uv_mutex_lock(&quarantine->mutex);
  size_t live = quarantine->live;
  uv_mutex_unlock(&quarantine->mutex);
  return live;
}

size_t quarantine_calls(quarantine_t *quarantine) {
  uv_mutex_lock(&quarantine->mutex);
  size_t calls = quarantine->calls;
  uv_mutex_unlock(&quarantine->mutex);
  return calls;
}

static size_t is_touched(const quarantine_block_t *block) {
  const unsigned char *bytes = (const unsigned char *)block->memory;
  for (size_t i = 0; i < block->bytes; i++)
    if (bytes[i] != PATTERN)
      return 1;
  return 0;
}

size_t quarantine_finish(quarantine_t *quarantine) {
  size_t wrong = quarantine->live;
  for (quarantine_block_t *block = quarantine->released, *next; block != NULL; block = next) {
    next = block->next;
    wrong += is_touched(block);
    free(block);
  }
  uv_mutex_destroy(&quarantine->mutex);
  return wrong;
}
