/* SPDX-License-Identifier: MIT */
/* Queues for each lane, in the order in which operations become ready. No threads in it. */
#include "hand.h"

enum { NONE = BENCH_MOST_LANES };

static void push(hand_t *hand, hand_op_t op) {
  hand_lane_t *lane = &hand->lanes[bench_lane_of(hand->work, op.stage)];
  lane->ready[(lane->first + lane->count++) % BENCH_MOST_WINDOW] = op;
}

static void admit(hand_t *hand) {
  while (hand->admitted < hand->work->microbatches && hand->admitted - hand->retired < hand->work->window)
    push(hand, (hand_op_t){.microbatch = hand->admitted++});
}

void hand_begin(hand_t *hand, const bench_work_t *work) {
  *hand = (hand_t){.work = work};
  admit(hand);
}

static uint32_t find(const hand_t *hand) {
  for (uint32_t l = 0; l < hand->work->lanes; l++)
    if (!hand->lanes[l].busy && hand->lanes[l].count > 0)
      return l;
  return NONE;
}

bool hand_has_next(const hand_t *hand) { return find(hand) != NONE; }

bool hand_take(hand_t *hand, hand_op_t *op) {
  uint32_t found = find(hand);
  if (found == NONE)
    return false;
  hand_lane_t *lane = &hand->lanes[found];
  *op = lane->ready[lane->first];
  lane->first = (lane->first + 1) % BENCH_MOST_WINDOW;
  lane->count--;
  lane->busy = true;
  return true;
}

void hand_end(hand_t *hand, hand_op_t op) {
  hand->lanes[bench_lane_of(hand->work, op.stage)].busy = false;
  if (op.stage + 1 < hand->work->stages) {
    push(hand, (hand_op_t){.microbatch = op.microbatch, .stage = op.stage + 1});
  } else {
    hand->retired++;
    admit(hand);
  }
}
