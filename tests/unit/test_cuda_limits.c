/* SPDX-License-Identifier: MIT */
/* Shows what limits of a device in the stand-in for CUDA do to what libovl puts on its streams: room for few works, with
 * priorities, and a single hardware queue. Times are virtual, and exact; they are of the stand-in, not of any GPU. */
#include "support/cuda_stand_in/rig.h"
#include "support/describe.h"
#include "support/seed.h"

enum { FIXED_SEEDS = 20, LAYERS = 4, CHAINS = 3 };

/* ---- room ---- */

static uint64_t time_of_two(uint32_t units, uint32_t room) {
  const stand_in_work_t work = {.duration = 10, .units = units};
  rig_start_again(seed_first());
  stand_in_set_room(room);
  for (int s = 0; s < 2; s++)
    assert_int_equal(stand_in_launch(rig.streams[s], &work), 0);
  stand_in_finish();
  return stand_in_time();
}

static void works_share_the_room(void **state) {
  (void)state;
  assert_int_equal(time_of_two(1, 2), 10);
  assert_int_equal(time_of_two(2, 4), 10);
  assert_int_equal(time_of_two(2, 3), 20);
  assert_int_equal(time_of_two(0, 1), 10); /* a copy, say */
}

/* A part that waits for others keeps what it has. */
static void a_collective_holds_its_room_until_all_have_come(void **state) {
  (void)state;
  stand_in_work_t part = {.duration = 10, .units = 1, .communicator = stand_in_communicator(2)};
  const stand_in_work_t other = {.duration = 10, .units = 1, .writes = 1};
  stand_in_set_room(1);
  assert_int_equal(stand_in_launch(rig.streams[0], &part), 0);
  stand_in_finish();
  assert_int_equal(stand_in_launch(rig.streams[1], &other), 0);
  stand_in_finish();
  assert_non_null(stand_in_deadlock());
  assert_true(stand_in_time() == 0);
  part.rank = 1;
  assert_int_equal(cudaSetDevice(1), 0);
  rig_launch(rig.streams[2], 7);
  assert_int_equal(stand_in_launch(rig.streams[2], &part), 0);
  stand_in_finish();
  assert_null(stand_in_deadlock());
  assert_int_equal(stand_in_time(), 7 + 10 + 10);
}

static void put_part(uint32_t rank, stand_in_work_t part) {
  part.rank = rank;
  part.reads = UINT64_C(1) << rank;
  part.writes = UINT64_C(1) << (2 + rank);
  assert_int_equal(cudaSetDevice((int)rank), 0);
  assert_int_equal(stand_in_launch(rig.streams[2 * rank], &part), 0);
}

static void a_collective_gives_all_what_follows_from_all(void **state) {
  uint64_t results[2];
  (void)state;
  for (uint64_t label = 0; label < 2; label++) {
    rig_start_again(seed_first());
    const stand_in_work_t input = {.label = label, .writes = 2};
    const stand_in_work_t part = {.communicator = stand_in_communicator(2)};
    assert_int_equal(cudaSetDevice(1), 0);
    assert_int_equal(stand_in_launch(rig.streams[2], &input), 0);
    for (uint32_t rank = 0; rank < 2; rank++)
      put_part(rank, part);
    stand_in_finish();
    assert_true(stand_in_cell(2) == stand_in_cell(3));
    results[label] = stand_in_cell(2);
  }
  assert_true(results[0] != results[1]);
}

/* ---- priorities ---- */

/* Compute and comm share one device that has room for one work; what is received is used on another. */
static ovl_pipeline_t *three_lanes(void) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, &rig.cuda[0].device, rig.streams[0], COMPUTE_NS);
  rig_add(p, &rig.cuda[0].device, rig.streams[1], COMM_NS);
  rig_add(p, &rig.cuda[1].device, rig.streams[2], USE_NS);
  stand_in_set_room(1);
  stand_in_set_in_time();
  return p;
}

static void make_equal(void) {
  assert_int_equal(cudaSetDevice(0), 0);
  assert_int_equal(cudaStreamDestroy(rig.streams[1]), 0);
  assert_int_equal(cudaStreamCreateWithPriority(&rig.streams[1], cudaStreamNonBlocking, 0), 0);
}

static uint64_t time_of_eager(uint64_t seed, int equal) {
  rig_start_again(seed);
  if (equal)
    make_equal();
  ovl_pipeline_t *p = three_lanes();
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  stand_in_finish();
  rig_close_pipeline(p);
  return stand_in_time();
}

static uint64_t time_of_replay(uint64_t seed, unsigned long long flags) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  rig_start_again(seed);
  ovl_pipeline_t *p = three_lanes();
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeGlobal), 0);
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  assert_int_equal(cudaStreamEndCapture(rig.streams[0], &graph), 0);
  assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, flags), 0);
  assert_int_equal(cudaGraphLaunch(exec, rig.streams[0]), 0);
  stand_in_finish();
  assert_int_equal(cudaGraphExecDestroy(exec), 0);
  assert_int_equal(cudaGraphDestroy(graph), 0);
  rig_close_pipeline(p);
  return stand_in_time();
}

/* Comm goes first whenever there is room: the other device begins after one compute and one comm, and never waits. */
static void urgent_comm_keeps_the_other_device_busy(void **state) {
  (void)state;
  uint64_t late = 0, late_in_graph = 0;
  for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed++) {
    const uint64_t best = (MICROBATCHES + 1) * USE_NS;
    assert_int_equal(time_of_eager(seed, 0), best);
    assert_int_equal(time_of_replay(seed, cudaGraphInstantiateFlagUseNodePriority), best);
    late += time_of_eager(seed, 1) > best;
    late_in_graph += time_of_replay(seed, 0) > best;
  }
  assert_true(late > 0);          /* streams that are alike */
  assert_true(late_in_graph > 0); /* a graph that gives all of it the priority of its stream */
}

/* ---- a single hardware queue ---- */

/* Stages that alternate between two lanes, all of one microbatch after the other. */
typedef struct chain {
  uint64_t durations[2]; /* by lane */
  int stages, microbatches;
} chain_t;

static const chain_t layers = {.durations = {1, 1}, .stages = 2 * LAYERS, .microbatches = 2};
static const chain_t long_comm = {.durations = {30, 50}, .stages = 2, .microbatches = 3};

static int put_for(ovl_op_t *op) {
  const stand_in_work_t work = {.duration = *(const uint64_t *)op->data};
  return (int)stand_in_launch(op->stream, &work);
}

static void put_by_libovl(const chain_t *chain) {
  uint64_t durations[] = {chain->durations[0], chain->durations[1]};
  ovl_pipeline_options_t options = pipeline_options((uint32_t)chain->microbatches);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lanes[2];
  for (int l = 0; l < 2; l++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
    lane.device = &rig.cuda[0].device;
    lane.stream = rig.streams[l];
    lanes[l] = add_lane_with(p, &lane);
  }
  for (int s = 0; s < chain->stages; s++) {
    ovl_stage_options_t stage = stage_options(lanes[s % 2], put_for, &durations[s % 2]);
    stage.cost_ns = chain->durations[s % 2];
    add_stage_with(p, &stage);
  }
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = (uint64_t)chain->microbatches;
  call.origin = rig.streams[0];
  assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
  rig_close_pipeline(p);
}

/* One op as libovl puts it down: behind the one before it, by that one's event. */
static void put_by_hand(const chain_t *chain, int microbatch, int stage) {
  static void *events[CHAINS]; /* by microbatch */
  const ovl_device_t *device = &rig.cuda[0].device;
  const stand_in_work_t work = {.duration = chain->durations[stage % 2]};
  cudaStream_t stream = rig.streams[stage % 2];
  if (stage == 0)
    assert_int_equal(device->event_create(device->context, 0, &events[microbatch]), 0);
  else
    assert_int_equal(device->stream_wait(device->context, stream, events[microbatch]), 0);
  assert_int_equal(stand_in_launch(stream, &work), 0);
  if (stage < chain->stages - 1)
    assert_int_equal(device->event_record(device->context, events[microbatch], stream), 0);
  else
    device->event_destroy(device->context, events[microbatch]);
}

static void put_oldest_first(const chain_t *chain) {
  for (int m = 0; m < chain->microbatches; m++)
    for (int s = 0; s < chain->stages; s++)
      put_by_hand(chain, m, s);
}

static void put_stage_by_stage(const chain_t *chain) {
  for (int s = 0; s < chain->stages; s++)
    for (int m = 0; m < chain->microbatches; m++)
      put_by_hand(chain, m, s);
}

static uint64_t time_of_chain(const chain_t *chain, void (*put)(const chain_t *), uint32_t connections) {
  rig_start_again(seed_first());
  stand_in_set_connections(connections);
  stand_in_set_in_time();
  put(chain);
  stand_in_finish();
  return stand_in_time();
}

/* In it nothing begins before what was put down earlier has begun. libovl puts ops down in the order in which they would
 * start, so nobody waits there who need not; other orders do as well only where each stream has a queue of its own. */
static void the_order_of_starts_suits_a_single_hardware_queue(void **state) {
  (void)state;
  for (uint32_t connections = 0; connections < 2; connections++) {
    assert_int_equal(time_of_chain(&layers, put_by_libovl, connections), 9);
    assert_int_equal(time_of_chain(&layers, put_oldest_first, connections), 15);
    assert_int_equal(time_of_chain(&long_comm, put_by_libovl, connections), ovl_bound_overlap(3, 30, 50));
  }
  assert_int_equal(time_of_chain(&long_comm, put_stage_by_stage, 0), ovl_bound_overlap(3, 30, 50));
  assert_int_equal(time_of_chain(&long_comm, put_stage_by_stage, 1),
                   2 * 30 + 3 * 50); /* two computes first */
}

static void a_single_hardware_queue_changes_no_result(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(50); round++) {
    seed_round(seed_first() + round);
    rig_start_again(seed_first() + round);
    uint64_t serial = rig_serial_memory(), from = stand_in_time();
    stand_in_clear_memory();
    stand_in_set_connections(1);
    assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
    assert_int_equal(stand_in_time() - from, ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
    assert_true(stand_in_memory() == serial);
  }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      CASE(works_share_the_room),
      CASE(a_collective_holds_its_room_until_all_have_come),
      CASE(a_collective_gives_all_what_follows_from_all),
      CASE(urgent_comm_keeps_the_other_device_busy),
      CASE(the_order_of_starts_suits_a_single_hardware_queue),
      CASE(a_single_hardware_queue_changes_no_result),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
