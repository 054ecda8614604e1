/* SPDX-License-Identifier: MIT */
/* Shows that explicit orders are accepted exactly when they can be kept: orders of random pipelines are shuffled a
 * little or a lot, and what the library says of each, together with those given before, is what a plain search for a
 * way through says. What was accepted runs to its end in every lane's order. */
#include <inttypes.h>
#include <string.h>

#include "proof/virtual.h"
#include "support/seed.h"

enum { ROUNDS = 600, MOST_COUNT = 6 };

static uint64_t rounds;

typedef struct lane_order {
  virtual_op_t ops[VIRTUAL_MICROBATCHES * VIRTUAL_STAGES];
  uint32_t count; /* 0: the lane has none */
} lane_order_t;

typedef struct orders {
  const virtual_run_t *run;
  uint32_t count; /* of microbatches */
  lane_order_t lanes[VIRTUAL_LANES];
} orders_t;

/* ---- is there a way through? ------------------------------------------------------------------------------------------ */

typedef struct way {
  bool ended[MOST_COUNT][VIRTUAL_STAGES];
  uint32_t turn[VIRTUAL_LANES];
} way_t;

static bool microbatch_ended(const orders_t *orders, const way_t *way, uint32_t i) {
  for (uint32_t s = 0; s < orders->run->shape.stage_count; s++)
    if (!way->ended[i][s])
      return false;
  return true;
}

static bool may_start(const orders_t *orders, const way_t *way, uint32_t i, uint32_t s) {
  const virtual_shape_t *shape = &orders->run->shape;
  const lane_order_t *order = &orders->lanes[shape->lane[s]];
  virtual_op_t turn = order->ops[way->turn[shape->lane[s]]];
  if (order->count > 0 && (turn.microbatch != i || turn.stage != s))
    return false;
  for (uint32_t j = 0; j + shape->window <= i; j++)
    if (!microbatch_ended(orders, way, j))
      return false;
  if (s > 0 && !shape->unchained[s] && !way->ended[i][s - 1])
    return false;
  for (uint32_t k = 0; k < shape->dependency_count; k++) {
    const virtual_dependency_t *d = &shape->dependencies[k];
    if (d->after == s && d->distance <= i && !way->ended[i - d->distance][d->before])
      return false;
  }
  return true;
}

/* Ends whatever can, until nothing can: an op that may go does not stand in the way of any other. */
static bool has_way_through(const orders_t *orders) {
  way_t way = {0};
  uint32_t left = orders->count * orders->run->shape.stage_count;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < orders->count; i++)
      for (uint32_t s = 0; s < orders->run->shape.stage_count; s++) {
        if (way.ended[i][s] || !may_start(orders, &way, i, s))
          continue;
        way.ended[i][s] = changed = true;
        way.turn[orders->run->shape.lane[s]]++;
        left--;
      }
  }
  return left == 0;
}

/* ---- giving -------------------------------------------------------------------------------------------------------------- */

static void shuffle(lane_order_t *order, random_source_t *random) {
  for (uint32_t swaps = random_below(random, 4); order->count > 1 && swaps > 0; swaps--) {
    uint32_t a = random_below(random, order->count), b = random_below(random, order->count);
    if (random_chance(random, 70)) /* neighbours */
      b = a + 1 < order->count ? a + 1 : a - 1;
    virtual_op_t kept = order->ops[a];
    order->ops[a] = order->ops[b];
    order->ops[b] = kept;
  }
}

static lane_order_t order_in_last(const virtual_run_t *run, uint32_t lane) {
  lane_order_t order = {.count = 0};
  for (uint32_t k = 0; k < run->start_count; k++)
    if (run->shape.lane[run->starts[k].stage] == lane)
      order.ops[order.count++] = run->starts[k];
  return order;
}

static int give(const virtual_run_t *run, uint32_t lane, const lane_order_t *order) {
  ovl_op_id_t ids[VIRTUAL_MICROBATCHES * VIRTUAL_STAGES];
  for (uint32_t k = 0; k < order->count; k++)
    ids[k] = (ovl_op_id_t){.microbatch = order->ops[k].microbatch, .stage = {order->ops[k].stage + 1}};
  return ovl_pipeline_set_order(run->pipeline, (ovl_lane_t){lane + 1}, ids, order->count);
}

/* Gives the lane a shuffled order; a refused one must leave things as they were. */
static bool try_lane(orders_t *orders, uint32_t lane, random_source_t *random) {
  lane_order_t before = orders->lanes[lane], shuffled = order_in_last(orders->run, lane);
  if (shuffled.count == 0)
    return true;
  shuffle(&shuffled, random);
  orders->lanes[lane] = shuffled;
  bool expected = has_way_through(orders);
  int r = give(orders->run, lane, &shuffled);
  assert_int_equal(r, expected ? 0 : OVL_EORDER);
  assert_int_equal(ovl_pipeline_error(orders->run->pipeline)[0] != '\0', !expected);
  if (!expected)
    orders->lanes[lane] = before;
  return expected;
}

static void assert_kept(virtual_run_t *run, const orders_t *orders) {
  virtual_simulate(run, orders->count);
  for (uint32_t l = 0; l < run->shape.lane_count; l++) {
    lane_order_t kept = order_in_last(run, l);
    if (orders->lanes[l].count == 0)
      continue;
    assert_int_equal(kept.count, orders->lanes[l].count);
    assert_memory_equal(kept.ops, orders->lanes[l].ops, kept.count * sizeof *kept.ops);
  }
}

static virtual_run_t *new_random(random_source_t *random) {
  virtual_shape_t shape = virtual_random_shape(random, 5);
  for (uint32_t l = 0; l < shape.lane_count; l++)
    if (random_chance(random, 75)) {
      shape.order[l] = OVL_ORDER_FIXED;
      shape.width[l] = 1;
    }
  virtual_run_t *run = virtual_new(&shape);
  virtual_random(run, random, 20);
  return run;
}

static void an_order_is_accepted_exactly_if_it_can_be_kept(void **state) {
  (void)state;
  uint64_t accepted = 0, refused = 0;
  for (uint64_t k = 0; k < rounds; k++) {
    seed_round(seed_first() + k);
    random_source_t random = {.state = seed_first() + k};
    virtual_run_t *run = new_random(&random);
    orders_t orders = {.run = run, .count = 1 + random_below(&random, MOST_COUNT)};
    for (uint32_t turn = 0; turn < 2 * run->shape.lane_count; turn++) {
      uint32_t lane = turn % run->shape.lane_count;
      if (run->shape.order[lane] != OVL_ORDER_FIXED)
        continue;
      virtual_simulate(run, orders.count); /* what is shuffled is what would run now */
      bool yes = try_lane(&orders, lane, &random);
      accepted += yes;
      refused += !yes;
    }
    assert_kept(run, &orders);
    virtual_free(run);
  }
  print_message("%" PRIu64 " orders accepted, %" PRIu64 " refused, OVL_SEED=%" PRIu64 "\n", accepted, refused,
                seed_first());
  if (rounds >= ROUNDS)
    assert_true(accepted > rounds / 2 && refused > rounds / 10);
}

/* ---- 1F1B --------------------------------------------------------------------------------------------------------------- */

/* Forward through all lanes, then backward. */
static virtual_shape_t there_and_back(uint32_t lanes, uint32_t window) {
  virtual_shape_t shape = {.lane_count = lanes, .stage_count = 2 * lanes, .window = window};
  for (uint32_t l = 0; l < lanes; l++) {
    shape.width[l] = 1;
    shape.order[l] = OVL_ORDER_FIXED;
    shape.lane[l] = shape.lane[2 * lanes - 1 - l] = l;
  }
  return shape;
}

/* Some forwards to warm up, the fewer the later the lane; then one forward, one backward in turn; then the rest. */
static lane_order_t one_forward_one_backward(uint32_t lanes, uint32_t lane, uint32_t count) {
  lane_order_t order = {.count = 0};
  uint32_t forward = 0, backward = 0, ahead = lanes - lane;
  while (backward < count) {
    bool goes_forward = forward < count && forward - backward < ahead;
    order.ops[order.count++] =
        goes_forward ? (virtual_op_t){forward++, lane} : (virtual_op_t){backward++, 2 * lanes - 1 - lane};
  }
  return order;
}

/* P lanes, n microbatches: (n + P - 1)(f + b), with a window of P. A smaller one does not allow it. */
static void one_forward_one_backward_takes_what_it_should(void **state) {
  (void)state;
  for (uint32_t lanes = 2; lanes <= VIRTUAL_LANES; lanes++)
    for (uint32_t count = lanes; count <= lanes + 5; count++) {
      const virtual_shape_t shape = there_and_back(lanes, lanes), tight = there_and_back(lanes, lanes - 1);
      virtual_run_t *run = virtual_new(&shape), *stuck = virtual_new(&tight);
      uint64_t forward = 3, backward = 5, durations[VIRTUAL_STAGES];
      for (uint32_t s = 0; s < 2 * lanes; s++)
        durations[s] = s < lanes ? forward : backward;
      virtual_equal(run, durations);
      for (uint32_t l = 0; l < lanes; l++) {
        lane_order_t order = one_forward_one_backward(lanes, l, count);
        assert_int_equal(give(run, l, &order), 0);
        assert_int_equal(give(stuck, l, &order), l == 0 ? OVL_EORDER : 0);
      }
      assert_int_equal(virtual_simulate(run, count), (count + lanes - 1) * (forward + backward));
      virtual_free(run);
      virtual_free(stuck);
    }
}

/* ---- numbers of microbatches ---------------------------------------------------------------------------------------------- */

/* Two lanes' orders for two numbers of microbatches are found out when a run starts. */
static void orders_for_different_numbers_do_not_run(void **state) {
  (void)state;
  virtual_shape_t shape = virtual_chain(2, 2);
  shape.order[0] = shape.order[1] = OVL_ORDER_FIXED;
  virtual_run_t *run = virtual_new(&shape);
  const lane_order_t three = {.ops = {{0, 0}, {1, 0}, {2, 0}}, .count = 3},
                     two = {.ops = {{0, 1}, {1, 1}}, .count = 2};
  assert_int_equal(give(run, 0, &three), 0);
  assert_int_equal(give(run, 1, &two), 0);
  for (uint32_t count = 2; count <= 3; count++) {
    assert_int_equal(ovl_pipeline_simulate(run->pipeline, count, NULL, NULL), OVL_EORDER);
    assert_int_equal(ovl_pipeline_run(run->pipeline, count), OVL_EORDER);
    assert_non_null(strstr(ovl_pipeline_error(run->pipeline), "run: "));
    assert_int_equal(ovl_pipeline_fingerprint(run->pipeline, count), 0);
  }
  virtual_free(run);
}

/* 2 x (2^63 + 3) is 6 in 64 bits, and 6 ops are an order for 3 microbatches. */
static void an_order_is_not_for_a_number_that_only_looks_like_its_own(void **state) {
  (void)state;
  virtual_shape_t shape = {
      .lane_count = 1, .stage_count = 2, .window = 2, .width = {1}, .order = {OVL_ORDER_FIXED}};
  virtual_run_t *run = virtual_new(&shape);
  virtual_simulate(run, 3);
  lane_order_t order = order_in_last(run, 0);
  assert_int_equal(order.count, 6);
  assert_int_equal(give(run, 0, &order), 0);
  assert_int_equal(ovl_pipeline_simulate(run->pipeline, (UINT64_C(1) << 63) + 3, NULL, NULL), OVL_EORDER);
  virtual_free(run);
}

int main(void) {
  seed_init();
  rounds = seed_rounds(ROUNDS);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_order_is_accepted_exactly_if_it_can_be_kept),
      cmocka_unit_test(one_forward_one_backward_takes_what_it_should),
      cmocka_unit_test(orders_for_different_numbers_do_not_run),
      cmocka_unit_test(an_order_is_not_for_a_number_that_only_looks_like_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
