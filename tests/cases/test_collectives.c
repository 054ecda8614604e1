/* SPDX-License-Identifier: MIT */
/* Case 21: collectives of two phases, a launch that returns at once and a wait on the same communicator, with other
 * launches in between; every rank must launch in the same order, or all of them hang. Several ranks live in this
 * process, each with a pipeline and a thread of its own, and each takes other times. [vLLM 18415] */
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/faults.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/watchdog.h"

enum { RANKS = 3, LAYERS = 2, MICROBATCHES = 12, COLLECTIVES = LAYERS * MICROBATCHES, WINDOWS = 8 };

/* ---- the network: the n-th launch of every rank is the n-th collective ------------------------------------------------- */

typedef struct collective {
  uint32_t id;       /* what the first rank that came said it is */
  uint32_t launched; /* ranks */
  bool waits[RANKS];
  ovl_op_t *ops[RANKS]; /* that wait */
} collective_t;

typedef struct network {
  uv_mutex_t mutex;                      /* protects all below */
  collective_t collectives[COLLECTIVES]; /* by number of the launch */
  uint32_t launches[RANKS];
  uint32_t number_of[RANKS][COLLECTIVES]; /* of the launch of this id */
} network_t;

static network_t network;

typedef struct rank {
  uint32_t number;
  ovl_pipeline_t *pipeline;
  uv_thread_t thread;
  uint64_t jitter;
  int status;
} rank_t;

static void launch(uint32_t rank, uint32_t id, collective_t *over) {
  uv_mutex_lock(&network.mutex);
  uint32_t number = network.launches[rank]++;
  collective_t *c = &network.collectives[number];
  if (c->launched++ == 0)
    c->id = id;
  expect(c->id == id, "rank %u launches %u where another launched %u", (unsigned)rank, (unsigned)id,
         (unsigned)c->id);
  network.number_of[rank][id] = number;
  *over = *c;
  uv_mutex_unlock(&network.mutex);
}

/* True: it is complete, there is nothing to wait for. */
static bool is_complete_or_wait(uint32_t rank, uint32_t id, ovl_op_t *op) {
  uv_mutex_lock(&network.mutex);
  collective_t *c = &network.collectives[network.number_of[rank][id]];
  bool complete = c->launched == RANKS;
  c->waits[rank] = !complete;
  c->ops[rank] = op;
  uv_mutex_unlock(&network.mutex);
  return complete;
}

/* ---- a rank --------------------------------------------------------------------------------------------------------------- */

/* Stages of a layer: compute, launch, compute, wait. */
static uint32_t id_of(const ovl_op_t *op) {
  return (uint32_t)op->microbatch * LAYERS + (op->stage.id - 1) / 4;
}

static int compute(ovl_op_t *op) {
  const rank_t *rank = op->data;
  random_source_t random = {.state = rank->jitter + op->microbatch * 100 + op->stage.id};
  for (uint64_t until = uv_hrtime() + random_below(&random, 80) * 1000; uv_hrtime() < until;)
    ;
  return 0;
}

/* Completes those that wait for what this launch completes, on all ranks. */
static int launch_collective(ovl_op_t *op) {
  const rank_t *rank = op->data;
  collective_t over;
  launch(rank->number, id_of(op), &over);
  for (uint32_t r = 0; over.launched == RANKS && r < RANKS; r++)
    if (over.waits[r])
      expect(ovl_op_complete(over.ops[r], 0) == 0, "a collective is completed twice");
  return 0;
}

static int wait_for_collective(ovl_op_t *op) {
  const rank_t *rank = op->data;
  return is_complete_or_wait(rank->number, id_of(op), op) ? 0 : OVL_PENDING;
}

static void add(rank_t *rank, ovl_lane_t lane, ovl_op_cb run, uint64_t cost) {
  ovl_stage_options_t stage = stage_options(lane, run, rank);
  stage.cost_ns = cost;
  add_stage_with(rank->pipeline, &stage);
}

static void open_rank(rank_t *rank, uint32_t number, uint32_t window, ovl_lane_kind_t comm_kind) {
  const ovl_pipeline_options_t options = pipeline_options(window);
  ovl_lane_options_t communicator = lane_options("communicator", comm_kind, 1);
  communicator.order = OVL_ORDER_FIXED;
  *rank = (rank_t){.number = number, .jitter = uv_hrtime() * 31 + number * 977};
  rank->pipeline = make_pipeline(&options);
  ovl_lane_t gpu = add_lane(rank->pipeline, OVL_LANE_POOL, 2),
             comm = add_lane_with(rank->pipeline, &communicator);
  for (int layer = 0; layer < LAYERS; layer++) {
    add(rank, gpu, compute, 50);
    add(rank, comm, launch_collective, 1);
    add(rank, gpu, compute, 30);
    add(rank, comm, wait_for_collective, 10);
  }
}

static void run_rank(void *argument) {
  rank_t *rank = argument;
  rank->status = ovl_pipeline_run(rank->pipeline, MICROBATCHES);
}

/* ---- all ranks ------------------------------------------------------------------------------------------------------------ */

static void run_ranks(uint32_t window, ovl_lane_kind_t comm_kind) {
  rank_t ranks[RANKS];
  watchdog_expect("collectives of two phases");
  memset(&network, 0, sizeof network);
  uv_mutex_init(&network.mutex);
  for (uint32_t r = 0; r < RANKS; r++)
    open_rank(&ranks[r], r, window, comm_kind);
  for (uint32_t r = 1; r < RANKS; r++)
    assert_true(ovl_pipeline_fingerprint(ranks[r].pipeline, MICROBATCHES) ==
                ovl_pipeline_fingerprint(ranks[0].pipeline, MICROBATCHES));
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(uv_thread_create(&ranks[r].thread, run_rank, &ranks[r]), 0);
  for (uint32_t r = 0; r < RANKS; r++)
    uv_thread_join(&ranks[r].thread);
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(ranks[r].status, 0);
    assert_int_equal(network.launches[r], COLLECTIVES);
    ovl_pipeline_close(ranks[r].pipeline, NULL);
  }
  uv_mutex_destroy(&network.mutex);
  assert_no_faults("collectives of two phases");
}

static void case_21_no_window_makes_two_phase_collectives_hang(void **state) {
  (void)state;
  for (int again = TEST_SANITIZED ? 1 : 5; again > 0; again--)
    for (uint32_t window = 1; window <= WINDOWS; window++)
      run_ranks(window, again % 2 == 1 ? OVL_LANE_POOL : OVL_LANE_LOOP);
}

/* ---- launches do come in between --------------------------------------------------------------------------------------- */

typedef struct starts {
  uint32_t launched, waited, between;
} starts_t;

static void count_start(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  starts_t *starts = data;
  (void)start;
  (void)end;
  starts->launched += op->stage.id % 4 == 2;
  starts->waited += op->stage.id % 4 == 0;
  starts->between += op->stage.id % 4 == 0 && starts->launched > starts->waited;
}

static void case_21_launches_of_others_come_in_between(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= WINDOWS; window++) {
    rank_t rank;
    starts_t starts = {0};
    ovl_simulation_t simulation;
    ovl_simulation_init(&simulation);
    simulation.on_op = count_start;
    simulation.data = &starts;
    open_rank(&rank, 0, window, OVL_LANE_POOL);
    assert_int_equal(ovl_pipeline_simulate(rank.pipeline, MICROBATCHES, &simulation, NULL), 0);
    assert_int_equal(starts.between > 0, window > 1);
    ovl_pipeline_close(rank.pipeline, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_21_no_window_makes_two_phase_collectives_hang),
      cmocka_unit_test(case_21_launches_of_others_come_in_between),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
