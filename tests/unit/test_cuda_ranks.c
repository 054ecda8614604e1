/* SPDX-License-Identifier: MIT */
/* Shows that ranks whose collectives meet in the stand-in for CUDA end, whatever the order in which streams progress,
 * because libovl puts them down in one order on all ranks; when that is enough and when it is not; and that ranks which
 * differ deadlock and are told apart beforehand by their fingerprints. Nothing here has run on a GPU. */
#include <string.h>
#include <uv.h>

#include "support/cuda_stand_in/ranks.h"
#include "support/describe.h"
#include "support/seed.h"

enum { FIXED_SEEDS = 40 }; /* where something has to be seen at least once */

static uint32_t ranks_of(uint64_t seed) { return 2 + (uint32_t)(seed % (STAND_IN_RANKS - 1)); }

/* A hardware queue, and room for one work, on each device. */
static void narrow(void) {
  stand_in_set_connections(1);
  stand_in_set_room(1);
}

/* What is in memory after one op at a time: in it no two collectives are on their way. */
static uint64_t serial_memory(uint64_t seed, uint32_t count) {
  ranks_reset(seed, count);
  narrow();
  ranks_open(NULL);
  for (uint32_t r = 0; r < count; r++)
    assert_int_equal(ovl_pipeline_set_mode(ranks.ranks[r].pipeline, OVL_SERIAL), 0);
  ranks_enqueue(false);
  assert_null(stand_in_deadlock());
  ranks_close();
  return stand_in_memory();
}

static void assert_all_done(uint64_t memory) {
  const char *words = stand_in_deadlock();
  if (words != NULL)
    fail_msg("%s", words);
  assert_int_equal(stand_in_races(), 0);
  assert_int_equal(stand_in_mismatches(), 0);
  assert_true(stand_in_memory() == memory);
}

/* ---- the order ---- */

static void one_order_on_all_ranks_ends(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(60); round++) {
    uint64_t seed = seed_first() + round, serial = serial_memory(seed, ranks_of(seed));
    seed_round(seed);
    ranks_reset(seed, ranks_of(seed));
    narrow();
    ranks_open(NULL);
    ranks_enqueue(false);
    assert_all_done(serial);
    ranks_close();
  }
}

static uint64_t fingerprint(uint32_t rank) {
  return ovl_pipeline_fingerprint(ranks.ranks[rank].pipeline, RANK_MICROBATCHES);
}

/* One rank has other cost hints, and each has room for one work. */
static void ranks_in_two_orders_deadlock(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed++) {
    ranks_reset(seed, 2);
    narrow();
    ranks.own_hints = true;
    ranks_open(NULL);
    assert_true(fingerprint(0) != fingerprint(1)); /* so it can be known before */
    ranks_enqueue(false);
    ranks_assert_deadlock(
        "collective 2 of communicator 1: rank 0, which holds 1 units of device 0, waits for rank 1");
    ranks_assert_deadlock(
        "collective 2 of communicator 2: rank 1, which holds 1 units of device 1, waits for rank 0");
    ranks_close();
  }
}

/* With room for both they end, though in two orders; one communicator for both would exchange the wrong things. */
static void ranks_in_two_orders_exchange_the_wrong_things(void **state) {
  (void)state;
  for (int one = 0; one < 2; one++)
    for (int own_hints = 0; own_hints < 2; own_hints++) {
      ranks_reset(seed_first(), 3);
      ranks.own_hints = own_hints;
      if (one)
        ranks.communicators[1] = ranks.communicators[0];
      ranks_open(NULL);
      ranks_enqueue(false);
      assert_null(stand_in_deadlock());
      assert_int_equal(stand_in_mismatches() > 0, one && own_hints);
      ranks_close();
    }
}

/* So a lane each is of no use to two collectives that have one. */
static void a_communicator_does_one_after_the_other(void **state) {
  (void)state;
  for (uint32_t count = 1; count <= 2; count++) {
    ranks_reset(seed_first(), 2);
    stand_in_set_in_time();
    if (count == 1)
      ranks.communicators[1] = ranks.communicators[0];
    ranks_open(NULL);
    ranks_enqueue(false);
    assert_int_equal(stand_in_time(), RANK_MICROBATCHES * RANK_COMPUTE_NS + (3 - count) * RANK_COLLECTIVE_NS);
    ranks_close();
  }
}

/* ---- when the order is not enough ---- */

/* How many of some seeds deadlock, though all ranks have one order. */
static int deadlocks(uint32_t room, bool chained) {
  int count = 0;
  for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed++) {
    ranks_reset(seed, 2);
    stand_in_set_room(room);
    ranks.chained = chained;
    ranks_open(NULL);
    ranks_enqueue(false);
    count += stand_in_deadlock() != NULL;
    ranks_close();
  }
  return count;
}

/* Which of two that are ready begins first is the device's choice, and each rank's may choose otherwise. */
static void without_an_order_on_the_device_all_need_room(void **state) {
  (void)state;
  assert_true(deadlocks(1, false) > 0);
  assert_int_equal(deadlocks(2, false), 0); /* a collective each of both communicators */
  assert_int_equal(deadlocks(1, true), 0);  /* or dependencies put them in order */
}

/* ---- graphs ---- */

static cudaGraphExec_t capture(uint32_t rank) {
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec;
  assert_int_equal(cudaSetDevice((int)rank), 0);
  assert_int_equal(cudaStreamBeginCapture(ranks.ranks[rank].streams[0], cudaStreamCaptureModeThreadLocal), 0);
  assert_int_equal(ranks_enqueue_one(rank), 0);
  assert_int_equal(cudaStreamEndCapture(ranks.ranks[rank].streams[0], &graph), 0);
  assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUseNodePriority), 0);
  assert_int_equal(cudaGraphDestroy(graph), 0);
  return exec;
}

static void replays_on_all_ranks_end(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(20); round++) {
    uint64_t seed = seed_first() + round, serial = serial_memory(seed, ranks_of(seed));
    cudaGraphExec_t execs[STAND_IN_RANKS];
    seed_round(seed);
    ranks_reset(seed, ranks_of(seed));
    narrow();
    ranks_open(NULL);
    for (uint32_t r = 0; r < ranks.count; r++)
      execs[r] = capture(r);
    for (uint32_t n = 0; n < 2 * ranks.count; n++)
      assert_int_equal(cudaGraphLaunch(execs[n % ranks.count], ranks.ranks[n % ranks.count].streams[0]), 0);
    stand_in_finish();
    assert_all_done(serial);
    for (uint32_t r = 0; r < ranks.count; r++)
      assert_int_equal(cudaGraphExecDestroy(execs[r]), 0);
    ranks_close();
  }
}

/* ---- runs ---- */

static uint32_t runs_ended;

static void run_ended(ovl_pipeline_t *p, int status) {
  (void)p;
  assert_int_equal(status, 0);
  runs_ended++;
}

/* On one loop, and to the stand-in they are one thread's calls, as with a pool of one. No call may wait for the device
 * then: queues that take what is issued ahead are long enough. */
static void run_all(void) {
  uv_loop_t loop;
  runs_ended = 0;
  assert_int_equal(uv_loop_init(&loop), 0);
  for (uint32_t r = 0; r < ranks.count; r++)
    assert_int_equal(ovl_pipeline_start(ranks.ranks[r].pipeline, &loop, RANK_MICROBATCHES, run_ended), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(runs_ended, ranks.count);
}

static void runs_on_one_loop_end(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(20); round++) {
    uint64_t seed = seed_first() + round, serial = serial_memory(seed, ranks_of(seed));
    ovl_pipeline_options_t options = pipeline_options(RANK_WINDOW);
    options.issue_ahead = RANK_WINDOW;
    seed_round(seed);
    ranks_reset(seed, ranks_of(seed));
    narrow();
    stand_in_set_queue(RANK_WINDOW * RANK_NODES);
    ranks_open(&options);
    run_all();
    assert_all_done(serial);
    assert_int_equal(stand_in_waits_of_host(), 0);
    ranks_close();
  }
}

/* ---- a rank that is lost ---- */

typedef struct watcher {
  uv_idle_t idle;
  int cancelled, aborted;
  int status; /* of the run */
} watcher_t;

static watcher_t watcher;

/* Once nothing happens any more, NCCL is asked. */
static void look(uv_idle_t *idle) {
  const char *words = stand_in_deadlock();
  if (watcher.cancelled || words == NULL || strstr(words, "waits for rank 1, which is lost") == NULL)
    return;
  assert_int_equal(stand_in_async_error(ranks.communicators[0]), STAND_IN_REMOTE_ERROR);
  watcher.cancelled = 1;
  assert_int_equal(ovl_pipeline_cancel(ranks.ranks[0].pipeline), 0);
  (void)uv_idle_stop(idle);
}

static void done(ovl_pipeline_t *p, int status) {
  (void)p;
  watcher.status = status;
  uv_close((uv_handle_t *)&watcher.idle, NULL);
}

static void abort_it(uint32_t communicator, uint32_t rank) {
  watcher.aborted++;
  stand_in_abort(communicator, rank);
}

static void abort_nothing(uint32_t communicator, uint32_t rank) {
  (void)communicator;
  (void)rank;
  watcher.aborted++;
}

/* A run of rank 0 while rank 1 is lost: what a start after it says. */
static int run_after_losing(void (*abort_part)(uint32_t, uint32_t), uint64_t abandon_ns) {
  uv_loop_t loop;
  ovl_pipeline_options_t options = pipeline_options(RANK_WINDOW);
  options.abandon_ns = abandon_ns;
  memset(&watcher, 0, sizeof watcher);
  ranks_reset(seed_first(), 2);
  ranks.abort_part = abort_part;
  ranks_open(&options);
  for (int c = 0; c < 2; c++)
    stand_in_lose(ranks.communicators[c], 1);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_idle_init(&loop, &watcher.idle), 0);
  assert_int_equal(uv_idle_start(&watcher.idle, look), 0);
  assert_int_equal(ranks_enqueue_one(1), 0);
  assert_int_equal(ovl_pipeline_start(ranks.ranks[0].pipeline, &loop, RANK_MICROBATCHES, done), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(watcher.status, OVL_ECANCELED);
  assert_int_equal(watcher.aborted, 2); /* each communicator */
  return ovl_pipeline_run(ranks.ranks[0].pipeline, 0);
}

/* Its collectives' events are not done before they are aborted. Without that the work can only be given up. */
static void collectives_with_a_lost_rank_end_when_aborted(void **state) {
  (void)state;
  assert_int_equal(run_after_losing(abort_it, 0), 0);
  ranks_close();
}

/* What it was to give and to get is missing: the others wait for it. */
static void an_abort_ends_one_rank_alone(void **state) {
  const stand_in_work_t parts[] = {{.communicator = 1, .rank = 0, .writes = 1},
                                   {.communicator = 1, .rank = 1, .writes = 2}};
  const stand_in_work_t before = {.writes = 1};
  (void)state;
  ranks_reset(seed_first(), 2);
  ranks_open(NULL);
  assert_int_equal(cudaSetDevice(0), 0);
  assert_int_equal(stand_in_launch(ranks.ranks[0].streams[1], &before), 0);
  stand_in_finish();
  uint64_t value = stand_in_cell(0);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(cudaSetDevice(r), 0);
    assert_int_equal(stand_in_launch(ranks.ranks[r].streams[1], &parts[r]), 0);
    if (r == 0)
      stand_in_abort(1, 0);
    stand_in_finish();
  }
  ranks_assert_deadlock("rank 1, which holds 0 units of device 1, waits for rank 0, which was aborted");
  assert_int_equal(cudaSetDevice(0), 0);
  assert_int_equal(stand_in_launch(ranks.ranks[0].streams[1], &parts[0]), cudaErrorInvalidResourceHandle);
  stand_in_abort(1, 1);
  stand_in_finish();
  assert_null(stand_in_deadlock());
  assert_true(stand_in_cell(0) == value && value != 0);
  ranks_close();
}

static void who_does_not_abort_can_only_give_up(void **state) {
  (void)state;
  assert_int_equal(run_after_losing(abort_nothing, 1), OVL_EPOISONED);
  ranks_assert_deadlock("waits for rank 1, which is lost");
}

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_order_on_all_ranks_ends),
      cmocka_unit_test(ranks_in_two_orders_deadlock),
      cmocka_unit_test(ranks_in_two_orders_exchange_the_wrong_things),
      cmocka_unit_test(a_communicator_does_one_after_the_other),
      cmocka_unit_test(without_an_order_on_the_device_all_need_room),
      cmocka_unit_test(replays_on_all_ranks_end),
      cmocka_unit_test(runs_on_one_loop_end),
      cmocka_unit_test(collectives_with_a_lost_rank_end_when_aborted),
      cmocka_unit_test(an_abort_ends_one_rank_alone),
      cmocka_unit_test(who_does_not_abort_can_only_give_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
