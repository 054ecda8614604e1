/* SPDX-License-Identifier: MIT */
/* Cases 20, 22 and 27: a lane of fixed order starts its ops in one order, in every run, in every process and for every
 * size of the pool, whatever the others take, with statistics or without; and communication begins while the next
 * microbatch still computes. [nccl 195, 522; rccl 2191; vLLM 38451; PyTorch 143890] */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/pool.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/watchdog.h"

enum {
  LAYERS = 3,
  STAGES = 2 * LAYERS,
  MICROBATCHES = 8,
  WINDOW = 4,
  COMM_OPS = LAYERS * MICROBATCHES,
  RUNS = 200
};

/* The order of the communication lane in letters: one for each op, by layer and microbatch. */
typedef char order_text_t[COMM_OPS + 1];

typedef struct layers {
  ovl_pipeline_t *pipeline;
  uint64_t jitter; /* another one in each run */
  order_text_t order;
  unsigned length;
} layers_t;

static const char *program; /* argv[0] */

/* ---- a model of three layers ------------------------------------------------------------------------------------------ */

static int compute(ovl_op_t *op) {
  const layers_t *layers = op->data;
  random_source_t random = {.state = layers->jitter + op->microbatch * STAGES + op->stage.id};
  for (uint64_t until = uv_hrtime() + random_below(&random, 60) * 1000; uv_hrtime() < until;)
    ;
  return 0;
}

static void note(layers_t *layers, const ovl_op_t *op) {
  uint32_t number = (op->stage.id / 2 - 1) * MICROBATCHES + (uint32_t)op->microbatch;
  if (layers->length < COMM_OPS)
    layers->order[layers->length++] = (char)('A' + number);
}

static int communicate(ovl_op_t *op) {
  note(op->data, op);
  return 0;
}

/* Layer by layer, computation and then communication, which keeps its order. */
static void open_layers(layers_t *layers, ovl_lane_kind_t comm_kind, int no_stats, size_t trace) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  ovl_lane_options_t comm = lane_options("comm", comm_kind, 1);
  options.no_stats = no_stats;
  options.trace = trace;
  comm.order = OVL_ORDER_FIXED;
  memset(layers, 0, sizeof *layers);
  layers->pipeline = make_pipeline(&options);
  ovl_lane_t compute_lane = add_lane(layers->pipeline, OVL_LANE_POOL, 2),
             comm_lane = add_lane_with(layers->pipeline, &comm);
  for (uint32_t s = 0; s < STAGES; s++) {
    bool computes = s % 2 == 0;
    ovl_stage_options_t stage = computes ? stage_options(compute_lane, compute, layers)
                                         : stage_options(comm_lane, communicate, layers);
    stage.cost_ns = computes ? 30 + s : 20;
    add_stage_with(layers->pipeline, &stage);
  }
}

static void run_layers(layers_t *layers) {
  watchdog_expect("a pipeline with a lane of fixed order");
  layers->length = 0;
  layers->jitter += UINT64_C(7919) * MICROBATCHES;
  memset(layers->order, 0, sizeof layers->order);
  assert_int_equal(ovl_pipeline_run(layers->pipeline, MICROBATCHES), 0);
  assert_int_equal(layers->length, COMM_OPS);
}

static void close_layers(layers_t *layers) { ovl_pipeline_close(layers->pipeline, NULL); }

static void note_simulated(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  (void)start;
  (void)end;
  if (op->stage.id % 2 == 0)
    note(data, op);
}

/* What everybody can know beforehand. */
static void predict(order_text_t order) {
  layers_t layers;
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  open_layers(&layers, OVL_LANE_POOL, 0, 0);
  simulation.on_op = note_simulated;
  simulation.data = &layers;
  assert_int_equal(ovl_pipeline_simulate(layers.pipeline, MICROBATCHES, &simulation, NULL), 0);
  memcpy(order, layers.order, sizeof layers.order);
  close_layers(&layers);
}

/* ---- case 20 ------------------------------------------------------------------------------------------------------------ */

static void run_often(ovl_lane_kind_t comm_kind) {
  layers_t layers;
  order_text_t expected;
  uint64_t runs = TEST_SANITIZED ? RUNS / 10 : RUNS;
  predict(expected);
  open_layers(&layers, comm_kind, 0, 0);
  layers.jitter = uv_hrtime();
  for (uint64_t k = 0; k < runs; k++) {
    run_layers(&layers);
    assert_string_equal(layers.order, expected);
  }
  close_layers(&layers);
}

static void case_20_one_order_in_every_run(void **state) {
  (void)state;
  run_often(OVL_LANE_POOL);
}

static void case_20_one_order_on_the_loop_too(void **state) {
  (void)state;
  run_often(OVL_LANE_LOOP);
}

/* The order is no accident: it differs from that of the microbatches, so it has to be planned. */
static void case_20_it_is_not_microbatch_by_microbatch(void **state) {
  (void)state;
  order_text_t expected;
  bool goes_on = false;
  predict(expected);
  for (int k = 0; k + 1 < COMM_OPS; k++)
    goes_on |= (expected[k] - 'A') % MICROBATCHES > (expected[k + 1] - 'A') % MICROBATCHES;
  assert_true(goes_on);
}

/* What another process prints, which is this program again. */
static void ask_another_process(const char *pool_threads, order_text_t order) {
  char command[4096];
  snprintf(command, sizeof command, "UV_THREADPOOL_SIZE=%s '%s' --order", pool_threads, program);
  FILE *other = popen(command, "r");
  assert_non_null(other);
  assert_non_null(fgets(order, sizeof(order_text_t), other));
  assert_int_equal(pclose(other), 0);
}

static void case_20_one_order_in_every_process_and_pool(void **state) {
  (void)state;
  static const char *const sizes[] = {"1", "2", "3", "8"};
  order_text_t expected, other;
  predict(expected);
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    ask_another_process(sizes[k], other);
    assert_string_equal(other, expected);
  }
}

/* Called for another process. */
static int print_order(void) {
  layers_t layers;
  open_layers(&layers, OVL_LANE_POOL, 0, 0);
  layers.jitter = uv_hrtime();
  run_layers(&layers);
  puts(layers.order);
  close_layers(&layers);
  return 0;
}

/* ---- case 27 ------------------------------------------------------------------------------------------------------------ */

static void case_27_one_order_with_statistics_and_traces_or_without(void **state) {
  (void)state;
  order_text_t expected;
  predict(expected);
  for (int way = 0; way < 4; way++) {
    layers_t layers;
    int no_stats = way & 1;
    size_t records = way & 2 ? STAGES * MICROBATCHES : 0;
    ovl_trace_t trace;
    open_layers(&layers, OVL_LANE_POOL, no_stats, records);
    for (int k = 0; k < 10; k++) {
      run_layers(&layers);
      assert_string_equal(layers.order, expected);
    }
    ovl_stats_t stats = stats_of(layers.pipeline);
    assert_int_equal(stats.ops, STAGES * MICROBATCHES);
    assert_int_equal(stats.bound_ns > 0, no_stats == 0);
    ovl_trace_init(&trace, NULL, 0);
    assert_int_equal(ovl_pipeline_trace(layers.pipeline, &trace), 0);
    assert_int_equal(trace.kept, records);
    close_layers(&layers);
  }
}

/* ---- case 22 ------------------------------------------------------------------------------------------------------------ */

static void note_times(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  uint64_t(*times)[2][2] = data; /* of a microbatch: of a stage: start and end */
  times[op->microbatch][op->stage.id - 1][0] = start;
  times[op->microbatch][op->stage.id - 1][1] = end;
}

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void case_22_communication_begins_under_the_next_computation_in_virtual_time(void **state) {
  (void)state;
  for (uint32_t window = 2; window <= 4; window++) {
    uint64_t times[MICROBATCHES][2][2];
    ovl_pipeline_options_t options = pipeline_options(window);
    ovl_simulation_t simulation;
    options.compute = options.comm = do_nothing;
    ovl_simulation_init(&simulation);
    simulation.on_op = note_times;
    simulation.data = times;
    ovl_pipeline_t *p = make_pipeline(&options);
    assert_int_equal(ovl_pipeline_simulate(p, MICROBATCHES, &simulation, NULL), 0);
    for (int i = 0; i + 1 < MICROBATCHES; i++)
      assert_true(times[i][1][0] < times[i + 1][0][1]);
    ovl_pipeline_close(p, NULL);
  }
}

static atomic_uint begun; /* communications */

static int begin_comm(ovl_op_t *op) {
  atomic_store(&begun, (unsigned)op->microbatch + 1);
  return 0;
}

/* Computes until the communication of the microbatch before has begun: if it did not under this computation, it never
 * would. */
static int compute_until_comm_begins(ovl_op_t *op) {
  for (uint64_t give_up = uv_hrtime() + UINT64_C(20000000000); atomic_load(&begun) < op->microbatch;)
    if (uv_hrtime() > give_up)
      return OVL_ETIMEDOUT;
  return 0;
}

static void overlap_for_real(ovl_lane_kind_t comm_kind, uint32_t window) {
  const ovl_pipeline_options_t options = pipeline_options(window);
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("communication under the next computation");
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), compute_until_comm_begins, NULL);
  add_stage(p, add_lane(p, comm_kind, 1), begin_comm, NULL);
  atomic_store(&begun, 0);
  assert_int_equal(ovl_pipeline_run(p, 50), 0);
  ovl_pipeline_close(p, NULL);
}

static void case_22_communication_begins_under_the_next_computation_for_real(void **state) {
  (void)state;
  for (uint32_t window = 2; window <= 4; window++) {
    overlap_for_real(OVL_LANE_LOOP, window);
    if (pool_size() > 1)
      overlap_for_real(OVL_LANE_POOL, window);
  }
}

int main(int argc, char **argv) {
  program = argv[0];
  if (argc > 1 && strcmp(argv[1], "--order") == 0)
    return print_order();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_20_one_order_in_every_run),
      cmocka_unit_test(case_20_one_order_on_the_loop_too),
      cmocka_unit_test(case_20_it_is_not_microbatch_by_microbatch),
      cmocka_unit_test(case_20_one_order_in_every_process_and_pool),
      cmocka_unit_test(case_22_communication_begins_under_the_next_computation_in_virtual_time),
      cmocka_unit_test(case_22_communication_begins_under_the_next_computation_for_real),
      cmocka_unit_test(case_27_one_order_with_statistics_and_traces_or_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
