/* SPDX-License-Identifier: MIT */
/* What one writes by hand around a thread pool: for each lane a queue of the operations that may run and
 * whether it is busy, and how many microbatches were admitted. Used under the lock, or on the one thread,
 * of its owner. */
#ifndef OVL_BENCH_HAND_H
#define OVL_BENCH_HAND_H

#include "bench_work.h"

typedef struct hand_op {
  uint64_t microbatch;
  uint32_t stage;
} hand_op_t;

typedef struct hand_lane {
  hand_op_t ready[BENCH_MOST_WINDOW]; /* a ring: a microbatch has one operation at a time */
  uint32_t first, count;
  bool busy;
} hand_lane_t;

typedef struct hand {
  const bench_work_t *work;
  hand_lane_t lanes[BENCH_MOST_LANES];
  uint64_t admitted, retired;
} hand_t;

/* Admits what the window allows. */
void hand_begin(hand_t *hand, const bench_work_t *work);

/* Is there an operation that may start now? */
bool hand_has_next(const hand_t *hand);

/* Starts one, oldest first; false: there is none. */
bool hand_take(hand_t *hand, hand_op_t *op);

/* It ended: the next stage, or the next microbatch, may run. */
void hand_end(hand_t *hand, hand_op_t op);

static inline bool hand_is_over(const hand_t *hand) { return hand->retired == hand->work->microbatches; }

#endif
