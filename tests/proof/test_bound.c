/* SPDX-License-Identifier: MIT */
/* Shows that the bound of a run, which is kept up to date op by op while the run goes on, is what the simulator makes
 * of the same ops in the same order, to the nanosecond: of a core that is driven by hand at random times, and of real
 * runs. The durations of a real run are taken from its own tally: when an op starts on a lane of width 1, all before it
 * have ended, so the lane's busy time has grown by exactly the last one's. (The tally itself is read, since
 * ovl_pipeline_stats scales all times by the clock's rate, which rounds each of them.) */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/pipeline.h"
#include "proof/virtual.h"
#include "support/scale.h"
#include "support/seed.h"

enum { ROUNDS = 200, REAL_ROUNDS = 60, OPS = VIRTUAL_MICROBATCHES * VIRTUAL_STAGES };

static uint64_t rounds, real_rounds;

/* What a run has written down. */
typedef struct record {
  virtual_run_t *again; /* the simulation that is to repeat it; its starts are the recorded ones */
  uint64_t before[VIRTUAL_LANES][OPS]; /* a lane's busy time at the start of its k-th op */
  virtual_op_t ops[VIRTUAL_LANES][OPS];
  uint32_t counts[VIRTUAL_LANES];
  uint64_t bound;
} record_t;

/* Lanes of width 1; in the repetition they keep the order that they are given. */
static virtual_shape_t random_narrow_shape(random_source_t *random) {
  virtual_shape_t shape = virtual_random_shape(random, 6);
  for (uint32_t l = 0; l < shape.lane_count; l++)
    shape.width[l] = 1;
  if (random_chance(random, 10))
    shape.mode = OVL_SERIAL;
  return shape;
}

static virtual_run_t *new_repetition(const virtual_shape_t *shape) {
  virtual_shape_t keeping = *shape;
  for (uint32_t l = 0; l < shape->lane_count; l++)
    keeping.order[l] = OVL_ORDER_FIXED;
  return virtual_new(&keeping);
}

/* The repetition's bound is the run's. */
static void assert_repeated(record_t *record, uint32_t count, uint64_t elapsed) {
  virtual_run_t *again = record->again;
  virtual_give_orders(again, again);
  virtual_simulate(again, count);
  assert_int_equal(again->stats.bound_ns, record->bound);
  assert_true(again->stats.elapsed_ns <= elapsed); /* the same order with nothing in the way */
}

/* ---- by hand ------------------------------------------------------------------------------------------------------- */

typedef struct hand {
  random_source_t random;
  ovl_lane_desc_t lanes[VIRTUAL_LANES];
  ovl_stage_desc_t stages[VIRTUAL_STAGES];
  ovl_dependency_t dependencies[VIRTUAL_DEPENDENCIES];
  ovl_plan_t plan;
  ovl_core_t core;
  ovl_core_op_t *running[VIRTUAL_LANES];
  uint64_t since[VIRTUAL_LANES];
  uint64_t now;
} hand_t;

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *block) {
  (void)context;
  free(block);
}

static const ovl_memory_t memory = {.allocate = allocate, .release = release};

static void hand_init(hand_t *hand, const virtual_shape_t *shape) {
  const ovl_core_options_t options = {.statistics = true};
  const ovl_description_t d = {.lanes = hand->lanes,
                               .stages = hand->stages,
                               .dependencies = hand->dependencies,
                               .lane_count = shape->lane_count,
                               .stage_count = shape->stage_count,
                               .dependency_count = shape->dependency_count,
                               .window = shape->window};
  for (uint32_t l = 0; l < shape->lane_count; l++)
    hand->lanes[l] = (ovl_lane_desc_t){.width = 1};
  for (uint32_t s = 0; s < shape->stage_count; s++)
    hand->stages[s] = (ovl_stage_desc_t){.lane = shape->lane[s], .chained = !shape->unchained[s]};
  for (uint32_t k = 0; k < shape->dependency_count; k++)
    hand->dependencies[k] = (ovl_dependency_t){.before = shape->dependencies[k].before,
                                               .after = shape->dependencies[k].after,
                                               .distance = shape->dependencies[k].distance};
  assert_int_equal(ovl_plan_init(&hand->plan, &d, &memory), 0);
  assert_int_equal(ovl_core_init(&hand->core, &hand->plan, &options, &memory), 0);
}

static void start_by_hand(hand_t *hand, uint32_t lane, virtual_run_t *again) {
  ovl_core_op_t *op = ovl_core_take(&hand->core, lane, hand->now);
  hand->running[lane] = op;
  hand->since[lane] = hand->now;
  again->starts[again->start_count++] =
      (virtual_op_t){.microbatch = (uint32_t)op->pub.microbatch, .stage = op->stage};
}

static void end_by_hand(hand_t *hand, uint32_t lane, virtual_run_t *again) {
  ovl_core_op_t *op = hand->running[lane];
  again->duration[op->pub.microbatch][op->stage] = hand->now - hand->since[lane];
  hand->running[lane] = NULL;
  ovl_core_end(&hand->core, op, 0, 0, hand->now);
}

/* Something starts or ends at some time, or only time goes by. */
static void drive(hand_t *hand, uint32_t lanes, virtual_run_t *again) {
  while (!ovl_core_over(&hand->core)) {
    uint32_t lane = random_below(&hand->random, lanes);
    hand->core.instant++;
    hand->now += random_below(&hand->random, 9);
    if (hand->running[lane] != NULL)
      end_by_hand(hand, lane, again);
    else if (hand->core.lanes[lane].startable > 0)
      start_by_hand(hand, lane, again);
  }
}

static void the_bound_of_a_core_is_repeated_by_the_simulator(void **state) {
  (void)state;
  static hand_t hand;
  static record_t record;
  for (uint64_t k = 0; k < rounds; k++) {
    seed_round(seed_first() + k);
    memset(&hand, 0, sizeof hand);
    hand.random.state = seed_first() + k;
    hand.now = random_below(&hand.random, 1000);
    const virtual_shape_t shape = random_narrow_shape(&hand.random);
    uint32_t count = random_below(&hand.random, 25);
    record.again = new_repetition(&shape);
    hand_init(&hand, &shape);
    ovl_core_begin(&hand.core, shape.mode, count, hand.now);
    drive(&hand, shape.lane_count, record.again);
    record.bound = hand.core.tally.bound - hand.core.started;
    assert_repeated(&record, count, hand.now - hand.core.started);
    virtual_free(record.again);
    ovl_core_finish(&hand.core);
    ovl_plan_finish(&hand.plan, &memory);
  }
}

/* ---- for real ------------------------------------------------------------------------------------------------------ */

static uint64_t busy_of(ovl_pipeline_t *p, uint32_t lane) {
  ovl_exec_lock(&p->exec);
  uint64_t busy = p->exec.core.lanes[lane].busy;
  ovl_exec_unlock(&p->exec);
  return busy;
}

/* Works for some microseconds, which depend on the op alone. */
static int work(ovl_op_t *op) {
  record_t *record = ovl_pipeline_data(op->pipeline);
  uint32_t lane = op->lane.id - 1, k = record->counts[lane]++; /* one callback of a lane at a time */
  random_source_t random = {.state = op->microbatch * VIRTUAL_STAGES + op->stage.id};
  uint64_t until = uv_hrtime() + random_below(&random, 60) * 1000;
  record->before[lane][k] = busy_of(op->pipeline, lane);
  record->ops[lane][k] = (virtual_op_t){.microbatch = (uint32_t)op->microbatch, .stage = op->stage.id - 1};
  while (uv_hrtime() < until)
    ;
  return 0;
}

static ovl_pipeline_t *make_real(const virtual_shape_t *shape, record_t *record, random_source_t *random) {
  ovl_pipeline_options_t options = pipeline_options(shape->window);
  options.mode = shape->mode;
  options.data = record;
  ovl_pipeline_t *p = make_pipeline(&options);
  for (uint32_t l = 0; l < shape->lane_count; l++)
    add_lane(p, random_chance(random, 25) ? OVL_LANE_LOOP : OVL_LANE_POOL, 1);
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    ovl_stage_options_t stage = stage_options((ovl_lane_t){shape->lane[s] + 1}, work, NULL);
    stage.unchained = shape->unchained[s];
    add_stage_with(p, &stage);
  }
  for (uint32_t k = 0; k < shape->dependency_count; k++) {
    const virtual_dependency_t *d = &shape->dependencies[k];
    assert_int_equal(ovl_pipeline_add_dependency(p, (ovl_stage_t){d->before + 1}, (ovl_stage_t){d->after + 1},
                                                 d->distance),
                     0);
  }
  return p;
}

/* From what was written down: the order of each lane, and how long each op took. */
static void read_record(record_t *record, ovl_pipeline_t *p, const virtual_shape_t *shape) {
  virtual_run_t *again = record->again;
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    uint32_t count = record->counts[l];
    for (uint32_t k = 0; k < count; k++) {
      virtual_op_t op = record->ops[l][k];
      uint64_t after = k + 1 < count ? record->before[l][k + 1] : busy_of(p, l);
      again->duration[op.microbatch][op.stage] = after - record->before[l][k];
      again->starts[again->start_count++] = op;
    }
  }
}

static void the_bound_of_a_real_run_is_repeated_by_the_simulator(void **state) {
  (void)state;
  static record_t record;
  uint64_t ops = 0;
  for (uint64_t k = 0; k < real_rounds; k++) {
    seed_round(seed_first() + k);
    random_source_t random = {.state = seed_first() + k};
    memset(&record, 0, sizeof record);
    const virtual_shape_t shape = random_narrow_shape(&random);
    uint32_t count = random_below(&random, 12);
    ovl_pipeline_t *p = make_real(&shape, &record, &random);
    record.again = new_repetition(&shape);
    assert_int_equal(ovl_pipeline_run(p, count), 0);
    read_record(&record, p, &shape);
    const ovl_core_t *core = &p->exec.core;
    record.bound = core->tally.bound - core->started;
    assert_repeated(&record, count, core->now - core->started);
    ops += core->tally.ops;
    virtual_free(record.again);
    ovl_pipeline_close(p, NULL);
  }
  print_message("%" PRIu64 " ops in %" PRIu64 " real runs\n", ops, real_rounds);
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  real_rounds = seed_rounds(TEST_SANITIZED ? REAL_ROUNDS / 3 : REAL_ROUNDS);
  print_message("%" PRIu64 " rounds from OVL_SEED=%" PRIu64 "\n", rounds, seed_first());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bound_of_a_core_is_repeated_by_the_simulator),
      cmocka_unit_test(the_bound_of_a_real_run_is_repeated_by_the_simulator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
