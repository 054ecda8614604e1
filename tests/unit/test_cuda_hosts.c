/* SPDX-License-Identifier: MIT */
/* Shows what makes a host wait for the device in the stand-in for CUDA, and for ever: launch queues that are full, and
 * modules that are loaded by their first launch. Nothing here has run on a GPU. */
#include <uv.h>

#include "support/cuda_stand_in/ranks.h"
#include "support/cuda_stand_in/rig.h"
#include "support/describe.h"
#include "support/seed.h"

/* ---- full queues ---- */

/* One thread that has put all of one rank's work down before it begins with the other's. */
static void one_thread_for_two_ranks_needs_long_queues(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(20); round++) {
    seed_round(seed_first() + round);
    for (int long_ones = 0; long_ones < 2; long_ones++) {
      ranks_reset(seed_first() + round, 2);
      stand_in_set_queue(long_ones ? RANK_MICROBATCHES * RANK_NODES : RANK_NODES);
      ranks_open(NULL);
      ranks_enqueue(true);
      if (long_ones)
        assert_null(stand_in_deadlock());
      else
        ranks_assert_deadlock("host 0 waits for room in the queue of device 0");
      ranks_close();
    }
  }
}

static void a_thread_for_each_rank_may_have_short_queues(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(20); round++) {
    seed_round(seed_first() + round);
    ranks_reset(seed_first() + round, 3);
    stand_in_set_queue(2);
    ranks_open(NULL);
    ranks_enqueue(false);
    assert_null(stand_in_deadlock());
    assert_true(stand_in_waits_of_host() > 0);
    ranks_close();
  }
}

/* The first compute comes behind a collective whose other rank comes when all is issued that will be. */
typedef struct gate {
  uv_idle_t idle;
  uint32_t communicator;
  uint32_t works; /* that will be issued before it opens, the gate's included */
  int status;
} gate_t;

static gate_t gate;

static int part_of_gate(uint32_t rank) {
  const stand_in_work_t work = {.communicator = gate.communicator, .rank = rank};
  return (int)stand_in_launch(rig.streams[2 * rank], &work);
}

static void put_gate(void) {
  rig.between = NULL;
  assert_int_equal(part_of_gate(0), 0);
}

static void open_gate(uv_idle_t *idle) {
  if (stand_in_works() < gate.works)
    return;
  stand_in_set_host(1); /* or it comes behind what it has to open */
  assert_int_equal(cudaSetDevice(1), 0);
  assert_int_equal(part_of_gate(1), 0);
  stand_in_set_host(0);
  (void)uv_idle_stop(idle);
}

static void run_ended(ovl_pipeline_t *p, int status) {
  (void)p;
  gate.status = status;
  uv_close((uv_handle_t *)&gate.idle, NULL);
}

/* How often a host waits while a run issues so many microbatches ahead of the device: all but the last comm op, which
 * comes after the compute op of the next. */
static uint32_t waits_of_run(uint32_t issue_ahead) {
  uv_loop_t loop;
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.issue_ahead = issue_ahead;
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, &rig.cuda[0].device, rig.streams[0], COMPUTE_NS);
  rig_add(p, &rig.cuda[0].device, rig.streams[1], COMM_NS);
  gate = (gate_t){.communicator = stand_in_communicator(2), .works = 2 * issue_ahead, .status = 1};
  rig.between = put_gate;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_idle_init(&loop, &gate.idle), 0);
  assert_int_equal(uv_idle_start(&gate.idle, open_gate), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, MICROBATCHES, run_ended), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(gate.status, 0);
  assert_null(stand_in_deadlock());
  rig_close_pipeline(p);
  return stand_in_waits_of_host();
}

/* A microbatch is two works and up to two waits. */
static void a_run_issues_no_further_ahead_than_the_queue_takes(void **state) {
  (void)state;
  stand_in_set_queue(1 + 4 * (WINDOW + 1));
  assert_int_equal(waits_of_run(WINDOW + 1), 0);
  rig_start_again(seed_first());
  stand_in_set_queue(1 + 4 * (WINDOW + 1));
  assert_true(waits_of_run(MICROBATCHES) > 0);
}

/* ---- modules that are loaded by their first launch ---- */

static void one_order_on_all_ranks_loads_modules(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(40); round++) {
    seed_round(seed_first() + round);
    ranks_reset(seed_first() + round, 2 + (uint32_t)(round % 3));
    stand_in_set_connections(1);
    stand_in_set_room(1);
    ranks.modules = true;
    ranks_open(NULL);
    ranks_enqueue(false);
    assert_null(stand_in_deadlock());
    assert_true(stand_in_waits_of_host() > 0);
    assert_int_equal(stand_in_mismatches(), 0);
    ranks_close();
  }
}

static void load_all(void) {
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    for (uint32_t module = 1; module <= 3; module++)
      stand_in_load(d, module);
}

/* The thread has put down the one rank's collective, and waits for it before it comes to the other's. */
static void one_thread_for_two_ranks_has_to_load_before(void **state) {
  (void)state;
  for (int loaded = 0; loaded < 2; loaded++) {
    ranks_reset(seed_first(), 2);
    ranks.modules = true;
    if (loaded)
      load_all();
    ranks_open(NULL);
    ranks_enqueue(true);
    if (loaded)
      assert_null(stand_in_deadlock());
    else
      ranks_assert_deadlock("host 0 waits for a module to be loaded on device 0");
    ranks_close();
  }
}

static cudaError_t launch_part(uint32_t rank, uint32_t which) {
  const stand_in_work_t work = {
      .module = 1 + which, .communicator = ranks.communicators[which], .rank = rank};
  assert_int_equal(cudaSetDevice((int)rank), 0);
  return stand_in_launch(ranks.ranks[rank].streams[1 + which], &work);
}

/* There is room for all, and still each rank waits for the other. */
static void ranks_in_two_orders_load_modules_for_ever(void **state) {
  (void)state;
  for (int loaded = 0; loaded < 2; loaded++) {
    ranks_reset(seed_first(), 2);
    ranks_open(NULL);
    if (loaded)
      load_all();
    for (uint32_t r = 0; r < 2; r++)
      for (uint32_t c = 0; c < 2; c++) {
        stand_in_set_host((int)r);
        assert_int_equal(launch_part(r, r ^ c), 0);
      }
    stand_in_set_host(0);
    stand_in_finish();
    if (!loaded) {
      ranks_assert_deadlock("host 0 waits for a module to be loaded on device 0");
      ranks_assert_deadlock("host 1 waits for a module to be loaded on device 1");
    } else {
      assert_null(stand_in_deadlock());
    }
    ranks_close();
  }
}

/* A call's, with two slots: who loads late keeps one of them from its next user. */
static uint64_t time_of_call(void) {
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, &rig.cuda[0].device, rig.streams[0], COMPUTE_NS);
  rig_add(p, &rig.cuda[0].device, rig.streams[1], COMM_NS);
  uint64_t before = stand_in_time();
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  stand_in_finish();
  rig_close_pipeline(p);
  return stand_in_time() - before;
}

/* So it is not the first call that is to be measured. */
static void loading_costs_the_first_call_its_overlap(void **state) {
  (void)state;
  stand_in_set_in_time();
  rig.modules = 1;
  assert_int_equal(time_of_call(), ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS) + COMM_NS);
  assert_int_equal(time_of_call(), ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_for_two_ranks_needs_long_queues),
      cmocka_unit_test(a_thread_for_each_rank_may_have_short_queues),
      CASE(a_run_issues_no_further_ahead_than_the_queue_takes),
      cmocka_unit_test(one_order_on_all_ranks_loads_modules),
      cmocka_unit_test(one_thread_for_two_ranks_has_to_load_before),
      cmocka_unit_test(ranks_in_two_orders_load_modules_for_ever),
      CASE(loading_costs_the_first_call_its_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
