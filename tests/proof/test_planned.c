/* SPDX-License-Identifier: MIT */
/* Shows that the order that is planned for a fixed lane follows from the hints alone: it is that of a simulation on the
 * hints in which the lane keeps none, however long ops really take, and the same for hints from a callback as for
 * constant ones; and that planning a long run takes no more memory than planning a short one. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/seed.h"

enum { ROUNDS = 300, LANES = 4, STAGES = 6, DEPENDENCIES = 4, MOST_COUNT = 30, OPS = STAGES * MOST_COUNT };

static uint64_t rounds;

typedef struct shape {
  uint32_t lane_count, stage_count, dependency_count, window;
  bool fixed[LANES];
  uint32_t width[LANES];
  uint32_t lane[STAGES];
  bool unchained[STAGES];
  uint64_t hints[STAGES];
  uint32_t dependencies[DEPENDENCIES][3];
} shape_t;

typedef enum hints { CONSTANT, FROM_CALLS } hints_t;

typedef struct orders {
  uint32_t ops[LANES][OPS], counts[LANES]; /* microbatch * STAGES + stage */
  random_source_t random;                  /* of durations */
} orders_t;

/* ---- pipelines ------------------------------------------------------------------------------------------------------ */

static shape_t random_shape(random_source_t *random) {
  shape_t shape = {.lane_count = 1 + random_below(random, LANES),
                   .stage_count = 1 + random_below(random, STAGES),
                   .window = 1 + random_below(random, 6)};
  for (uint32_t l = 0; l < shape.lane_count; l++) {
    shape.fixed[l] = random_chance(random, 60);
    shape.width[l] = shape.fixed[l] ? 1 : 1 + random_below(random, 3);
  }
  for (uint32_t s = 0; s < shape.stage_count; s++) {
    shape.lane[s] = random_below(random, shape.lane_count);
    shape.unchained[s] = random_chance(random, 35);
    shape.hints[s] = random_below(random, 40);
  }
  for (uint32_t wanted = random_below(random, DEPENDENCIES + 1); wanted > 0; wanted--) {
    uint32_t *d = shape.dependencies[shape.dependency_count];
    d[0] = random_below(random, shape.stage_count);
    d[1] = random_below(random, shape.stage_count);
    d[2] = random_below(random, 4);
    shape.dependency_count += d[2] > 0 || d[0] < d[1];
  }
  return shape;
}

static uint64_t cost_of(const ovl_op_t *op) {
  const shape_t *shape = ovl_pipeline_data(op->pipeline);
  uint64_t hint = shape->hints[op->stage.id - 1];
  return hint != 0 ? hint : 1;
}

static ovl_pipeline_t *make(shape_t *shape, hints_t hints, bool keeps_orders) {
  ovl_pipeline_options_t options = pipeline_options(shape->window);
  options.data = shape;
  ovl_pipeline_t *p = make_pipeline(&options);
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_POOL, shape->width[l]);
    lane.order = shape->fixed[l] && keeps_orders ? OVL_ORDER_FIXED : OVL_ORDER_READY;
    add_lane_with(p, &lane);
  }
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    ovl_stage_options_t stage = stage_options((ovl_lane_t){shape->lane[s] + 1}, NULL, NULL);
    stage.unchained = shape->unchained[s];
    stage.cost_ns = shape->hints[s];
    stage.cost = hints == FROM_CALLS ? cost_of : NULL;
    add_stage_with(p, &stage);
  }
  for (uint32_t k = 0; k < shape->dependency_count; k++) {
    const uint32_t *d = shape->dependencies[k];
    int r = ovl_pipeline_add_dependency(p, (ovl_stage_t){d[0] + 1}, (ovl_stage_t){d[1] + 1}, d[2]);
    assert_int_equal(r, 0);
  }
  return p;
}

/* ---- orders ----------------------------------------------------------------------------------------------------------- */

static void note(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  orders_t *orders = data;
  uint32_t lane = op->lane.id - 1;
  (void)start;
  (void)end;
  orders->ops[lane][orders->counts[lane]++] = (uint32_t)op->microbatch * STAGES + op->stage.id - 1;
}

static uint64_t any_duration(const ovl_op_t *op, void *data) {
  (void)op;
  return random_below(&((orders_t *)data)->random, 200);
}

/* What starts when, on the hints or on other durations. */
static void simulate(ovl_pipeline_t *p, uint32_t count, const random_source_t *durations, orders_t *orders) {
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  memset(orders, 0, sizeof *orders);
  simulation.on_op = note;
  simulation.data = orders;
  if (durations != NULL) {
    orders->random = *durations;
    simulation.duration = any_duration;
  }
  assert_int_equal(ovl_pipeline_simulate(p, count, &simulation, NULL), 0);
}

static void assert_same_on_fixed_lanes(const shape_t *shape, const orders_t *a, const orders_t *b) {
  for (uint32_t l = 0; l < shape->lane_count; l++)
    if (shape->fixed[l]) {
      assert_int_equal(a->counts[l], b->counts[l]);
      assert_memory_equal(a->ops[l], b->ops[l], a->counts[l] * sizeof *a->ops[l]);
    }
}

static void a_planned_order_follows_from_the_hints_alone(void **state) {
  (void)state;
  static orders_t expected, planned;
  for (uint64_t k = 0; k < rounds; k++) {
    seed_round(seed_first() + k);
    random_source_t random = {.state = seed_first() + k};
    shape_t shape = random_shape(&random);
    uint32_t count = random_below(&random, MOST_COUNT + 1);
    ovl_pipeline_t *loose = make(&shape, CONSTANT, false);
    simulate(loose, count, NULL, &expected);
    ovl_pipeline_close(loose, NULL);
    for (int hints = CONSTANT; hints <= FROM_CALLS; hints++) {
      ovl_pipeline_t *p = make(&shape, (hints_t)hints, true);
      for (int again = 0; again < 4; again++) {
        random_source_t durations = {.state = random_next(&random)};
        simulate(p, count, again == 0 ? NULL : &durations, &planned);
        assert_same_on_fixed_lanes(&shape, &expected, &planned);
      }
      ovl_pipeline_close(p, NULL);
    }
  }
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

static atomic_size_t held, peak;

static void *allocate(void *context, size_t bytes) {
  (void)context;
  size_t *block = malloc(bytes + 2 * sizeof(size_t));
  if (block == NULL)
    return NULL;
  block[0] = bytes;
  size_t now = atomic_fetch_add(&held, bytes) + bytes;
  if (now > atomic_load(&peak)) /* one thread at a time calls */
    atomic_store(&peak, now);
  return block + 2;
}

static void release(void *context, void *memory) {
  size_t *block = (size_t *)memory - 2;
  (void)context;
  atomic_fetch_sub(&held, block[0]);
  free(block);
}

/* Two lanes that keep their order, two stages each, so that both are planned along the way. */
static ovl_pipeline_t *make_counted(void) {
  ovl_allocator_t allocator;
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_allocator_init(&allocator);
  allocator.allocate = allocate;
  allocator.release = release;
  options.allocator = &allocator;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lanes[2];
  for (int l = 0; l < 2; l++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_POOL, 1);
    lane.order = OVL_ORDER_FIXED;
    lanes[l] = add_lane_with(p, &lane);
  }
  for (unsigned s = 0; s < 4; s++) {
    ovl_stage_options_t stage = stage_options(lanes[s % 2], NULL, NULL);
    stage.cost_ns = 3 + s;
    add_stage_with(p, &stage);
  }
  return p;
}

static size_t peak_of_simulation(uint64_t count) {
  atomic_store(&peak, 0);
  ovl_pipeline_t *p = make_counted();
  assert_int_equal(ovl_pipeline_simulate(p, count, NULL, NULL), 0);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(atomic_load(&held), 0);
  return atomic_load(&peak);
}

static size_t peak_of_run(uint64_t count) {
  atomic_store(&peak, 0);
  ovl_pipeline_t *p = make_counted();
  assert_int_equal(ovl_pipeline_run(p, count), 0);
  assert_int_equal(stats_of(p).ops, 4 * count);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(atomic_load(&held), 0);
  return atomic_load(&peak);
}

static void planning_a_long_run_takes_no_more_memory_than_a_short_one(void **state) {
  (void)state;
  uint64_t many = test_count(1000000);
  assert_int_equal(peak_of_simulation(many), peak_of_simulation(10));
  assert_int_equal(peak_of_run(many / 2), peak_of_run(10));
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  print_message("%" PRIu64 " rounds from OVL_SEED=%" PRIu64 "\n", rounds, seed_first());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_planned_order_follows_from_the_hints_alone),
      cmocka_unit_test(planning_a_long_run_takes_no_more_memory_than_a_short_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
