/* SPDX-License-Identifier: MIT */
/* An allocator that keeps account: what is released is filled with a pattern and held back, and at the end
 * shows whether anybody wrote to it. (With AddressSanitizer it is really freed, which shows more.) Any thread. */
#ifndef OVL_TESTS_QUARANTINE_H
#define OVL_TESTS_QUARANTINE_H

#include <uv.h>

#include "ovl.h"

typedef struct quarantine_block quarantine_block_t;

typedef struct quarantine {
  ovl_allocator_t allocator; /* for ovl_pipeline_options_t.allocator */
  uv_mutex_t mutex;
  quarantine_block_t *released; /* the mutex protects all below */
  size_t live;                  /* blocks not released */
  size_t calls;                 /* of allocate, so far */
} quarantine_t;

void quarantine_init(quarantine_t *quarantine);

size_t quarantine_live(quarantine_t *quarantine);
size_t quarantine_calls(quarantine_t *quarantine);

/* Gives the memory back. The number of blocks that were never released, or were touched after it. */
size_t quarantine_finish(quarantine_t *quarantine);

#endif
