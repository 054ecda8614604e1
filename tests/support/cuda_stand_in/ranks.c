/* SPDX-License-Identifier: MIT */
/* A pipeline for each rank. Compute fills the slot's cell, and each collective empties it into a cell of the microbatch;
 * ranks have cells of their own. */
#include "support/cuda_stand_in/ranks.h"

#include <string.h>

#include "support/describe.h"

ranks_t ranks;

enum {
  CELLS = STAND_IN_CELLS / STAND_IN_RANKS
}; /* of a rank: a slot each, then results of both collectives */

_Static_assert(RANK_WINDOW + 2 * RANK_MICROBATCHES <= CELLS, "each rank has its own cells");

void ranks_reset(uint64_t seed, uint32_t count) {
  stand_in_reset(seed);
  memset(&ranks, 0, sizeof ranks);
  ranks.count = count;
  for (int c = 0; c < 2; c++)
    ranks.communicators[c] = stand_in_communicator(count);
  for (uint32_t r = 0; r < count; r++) {
    rank_t *rank = &ranks.ranks[r];
    rank->number = r;
    assert_int_equal(backend_cuda_init(&rank->cuda, (int)r), 0);
    for (int s = 0; s < 3; s++)
      assert_int_equal(backend_cuda_stream(&rank->cuda, s > 0 ? BACKEND_CUDA_URGENT : BACKEND_CUDA_NORMAL,
                                           &rank->streams[s]),
                       0);
  }
}

/* ---- stages ---- */

static uint64_t cell(const rank_t *rank, uint64_t number) {
  return UINT64_C(1) << (rank->number * CELLS + number);
}

static int put_compute(ovl_op_t *op) {
  const rank_t *rank = op->data;
  const stand_in_work_t work = {.label = 1000 + op->microbatch,
                                .duration = RANK_COMPUTE_NS,
                                .writes = cell(rank, op->slot),
                                .units = 1,
                                .module = ranks.modules ? 1 : 0};
  return (int)stand_in_launch(op->stream, &work);
}

static int put_collective(const ovl_op_t *op, uint32_t which) {
  const rank_t *rank = op->data;
  const stand_in_work_t work = {.label = (2 + which) * 1000 + op->microbatch,
                                .duration = RANK_COLLECTIVE_NS,
                                .reads = cell(rank, op->slot),
                                .writes =
                                    cell(rank, RANK_WINDOW + which * RANK_MICROBATCHES + op->microbatch),
                                .units = 1,
                                .module = ranks.modules ? 2 + which : 0,
                                .communicator = ranks.communicators[which],
                                .rank = rank->number};
  return (int)stand_in_launch(op->stream, &work);
}

static int put_first(ovl_op_t *op) { return put_collective(op, 0); }
static int put_second(ovl_op_t *op) { return put_collective(op, 1); }

/* The second lane is that of the first communicator. */
static void abort_lane(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  ranks.abort_part(ranks.communicators[lane.id - 2], ((const rank_t *)data)->number);
}

/* ---- pipelines ---- */

static ovl_lane_t add_stream(rank_t *rank, uint32_t stream) {
  ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
  lane.device = &rank->cuda.device;
  lane.stream = rank->streams[stream];
  lane.data = rank;
  if (stream > 0 && ranks.abort_part != NULL)
    lane.abort = abort_lane;
  return add_lane_with(rank->pipeline, &lane);
}

static ovl_stage_t add_stage_on(rank_t *rank, ovl_lane_t lane, ovl_op_cb put, uint64_t cost) {
  ovl_stage_options_t stage = stage_options(lane, put, rank);
  stage.cost_ns = cost;
  stage.unchained = 1;
  return add_stage_with(rank->pipeline, &stage);
}

static void add_dependency(rank_t *rank, ovl_stage_t before, ovl_stage_t after, uint32_t distance) {
  assert_int_equal(ovl_pipeline_add_dependency(rank->pipeline, before, after, distance), 0);
}

static void open_rank(rank_t *rank, const ovl_pipeline_options_t *options) {
  static const ovl_op_cb puts[] = {put_first, put_second};
  uint64_t hints[] = {RANK_COLLECTIVE_NS, RANK_COLLECTIVE_NS};
  ovl_stage_t collectives[2];
  if (ranks.own_hints && rank->number == ranks.count - 1)
    hints[0] = 2 * RANK_COMPUTE_NS;
  rank->pipeline = make_pipeline(options);
  ovl_stage_t compute = add_stage_on(rank, add_stream(rank, 0), put_compute, RANK_COMPUTE_NS);
  for (uint32_t c = 0; c < 2; c++) {
    collectives[c] = add_stage_on(rank, add_stream(rank, 1 + c), puts[c], hints[c]);
    add_dependency(rank, compute, collectives[c], 0);
  }
  if (ranks.chained) {
    add_dependency(rank, collectives[0], collectives[1], 0);
    add_dependency(rank, collectives[1], collectives[0], 1);
  }
}

void ranks_open(const ovl_pipeline_options_t *options) {
  const ovl_pipeline_options_t usual = pipeline_options(RANK_WINDOW);
  for (uint32_t r = 0; r < ranks.count; r++)
    open_rank(&ranks.ranks[r], options != NULL ? options : &usual);
}

void ranks_close(void) {
  for (uint32_t r = 0; r < ranks.count; r++) {
    ovl_pipeline_close(ranks.ranks[r].pipeline, NULL);
    for (int s = 0; s < 3; s++)
      (void)cudaStreamDestroy(ranks.ranks[r].streams[s]);
  }
  assert_int_equal(stand_in_held(), 0);
}

/* ---- calls ---- */

int ranks_enqueue_one(uint32_t rank) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = RANK_MICROBATCHES;
  call.origin = ranks.ranks[rank].streams[0];
  return ovl_pipeline_enqueue(ranks.ranks[rank].pipeline, &call);
}

void ranks_enqueue(bool one_host) {
  for (uint32_t r = 0; r < ranks.count; r++) {
    stand_in_set_host(one_host ? 0 : (int)r);
    assert_int_equal(ranks_enqueue_one(r), 0);
  }
  stand_in_set_host(0);
  stand_in_finish();
}

void ranks_assert_deadlock(const char *words) {
  const char *said = stand_in_deadlock();
  assert_non_null(said);
  if (strstr(said, words) == NULL)
    fail_msg("\"%s\" is not in\n%s", words, said);
}
