/* SPDX-License-Identifier: MIT */
/* The records of the ops that ended last: a ring, with times as the driver's clock has them. */
#ifndef OVL_CORE_TRACE_H
#define OVL_CORE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "ovl/trace.h"

/* Record number n lies at n mod capacity as long as written - n <= capacity. */
typedef struct ovl_trace_ring {
  ovl_trace_record_t *records;
  size_t capacity; /* 0: no records are kept */
  size_t at;       /* written mod capacity */
  uint64_t written;
  uint64_t first; /* of the run: the numbers go on from run to run */
} ovl_trace_ring_t;

/* Where the next record goes. The capacity is not 0. */
static inline ovl_trace_record_t *ovl_trace_ring_next(ovl_trace_ring_t *ring) {
  ovl_trace_record_t *next = &ring->records[ring->at];
  ring->at = ring->at + 1 == ring->capacity ? 0 : ring->at + 1;
  ring->written++;
  return next;
}

/* The number of the run's oldest record that is still there. */
static inline uint64_t ovl_trace_ring_oldest(const ovl_trace_ring_t *ring) {
  uint64_t of_run = ring->written - ring->first;
  return ring->written - (of_run < ring->capacity ? of_run : ring->capacity);
}

#endif
