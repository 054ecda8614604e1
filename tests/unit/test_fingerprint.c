/* SPDX-License-Identifier: MIT */
/* Shows that ranks which would issue their ops in different orders get different fingerprints, and that ranks which
 * differ in nothing that matters get the same. */
#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/paper_device.h"

/* One description, with a knob for each thing that may differ. */
typedef struct knobs {
  uint32_t window, width, distance, extra_stages;
  ovl_mode_t mode;
  uint64_t cost_ns, microbatches;
  ovl_cost_cb cost;
  int unchained, always, loose, swapped;
  const char *name;
  ovl_op_cb run;
  void *data;
  uint64_t timeout_ns, spin_ns;
} knobs_t;

static const knobs_t usual = {.window = 4, .width = 2, .distance = 1, .cost_ns = 100, .microbatches = 6};

static ovl_stage_t add_one(ovl_pipeline_t *p, const knobs_t *k, ovl_lane_t lane) {
  ovl_stage_options_t options = stage_options(lane, k->run, k->data);
  options.name = k->name;
  options.cost_ns = k->cost_ns;
  options.cost = k->cost;
  options.unchained = k->unchained;
  options.always = k->always;
  options.timeout_ns = k->timeout_ns;
  return add_stage_with(p, &options);
}

static ovl_pipeline_t *describe(const knobs_t *k) {
  ovl_pipeline_options_t options = pipeline_options(k->window);
  options.mode = k->mode;
  options.data = k->data;
  options.spin_ns = k->spin_ns;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t fixed = lane_options(k->name, OVL_LANE_POOL, 1);
  fixed.order = k->loose ? OVL_ORDER_READY : OVL_ORDER_FIXED;
  ovl_lane_t lanes[2] = {add_lane_with(p, &fixed), add_lane(p, OVL_LANE_POOL, k->width)};
  ovl_stage_t first = add_one(p, k, lanes[k->swapped]);
  ovl_stage_t last = add_one(p, k, lanes[!k->swapped]);
  for (uint32_t s = 0; s < 1 + k->extra_stages; s++)
    last = add_one(p, k, lanes[0]);
  assert_int_equal(ovl_pipeline_add_dependency(p, last, first, k->distance), 0);
  return p;
}

static uint64_t fingerprint_of(knobs_t k) {
  ovl_pipeline_t *p = describe(&k);
  uint64_t fingerprint = ovl_pipeline_fingerprint(p, k.microbatches);
  assert_int_not_equal(fingerprint, 0);
  assert_int_equal(ovl_pipeline_fingerprint(p, k.microbatches), fingerprint); /* asking changes nothing */
  ovl_pipeline_close(p, NULL);
  return fingerprint;
}

static uint64_t cost_one_way(const ovl_op_t *op) { return op->microbatch % 2 == 0 ? 5 : 50; }
static uint64_t cost_other_way(const ovl_op_t *op) { return op->microbatch % 2 == 0 ? 50 : 5; }

static void what_orders_depend_on_makes_a_difference(void **state) {
  (void)state;
  enum { VARIANTS = 15 };
  knobs_t variants[VARIANTS];
  for (int i = 0; i < VARIANTS; i++)
    variants[i] = usual;
  variants[1].window = 5;
  variants[2].width = 3;
  variants[3].distance = 2;
  variants[4].extra_stages = 1;
  variants[5].mode = OVL_SERIAL;
  variants[6].cost_ns = 101;
  variants[7].microbatches = 7;
  variants[8].microbatches = OVL_STREAMING;
  variants[9].distance = variants[10].distance = 3; /* so microbatches may overtake each other */
  variants[9].cost = cost_one_way;
  variants[10].cost = cost_other_way;
  variants[11].unchained = 1;
  variants[12].always = 1;
  variants[13].loose = 1;
  variants[14].swapped = 1;
  uint64_t fingerprints[VARIANTS];
  for (int i = 0; i < VARIANTS; i++) {
    fingerprints[i] = fingerprint_of(variants[i]);
    for (int k = 0; k < i; k++)
      if (fingerprints[i] == fingerprints[k])
        fail_msg("variants %d and %d have one fingerprint", i, k);
  }
}

/* Two device lanes of a stage each: one order for both, that of a sync domain, whose microbatches overtake each other by the
 * hints. */
static uint64_t fingerprint_of_devices(paper_t *paper, ovl_cost_cb cost, int devices) {
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int s = 0; s < 3; s++) {
    ovl_lane_options_t lane = lane_options(NULL, devices > 0 ? OVL_LANE_DEVICE : OVL_LANE_POOL, 0);
    lane.order = OVL_ORDER_FIXED;
    lane.device = devices > 0 ? &paper->devices[s % devices] : NULL;
    ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), NULL, NULL);
    stage.cost = cost;
    add_stage_with(p, &stage);
  }
  uint64_t fingerprint = ovl_pipeline_fingerprint(p, 6);
  assert_int_not_equal(fingerprint, 0);
  ovl_pipeline_close(p, NULL);
  return fingerprint;
}

static void what_devices_are_issued_makes_a_difference(void **state) {
  (void)state;
  static paper_t paper;
  paper_init(&paper);
  uint64_t one = fingerprint_of_devices(&paper, cost_one_way, 1);
  assert_int_equal(fingerprint_of_devices(&paper, cost_one_way, 1), one);
  assert_int_equal(fingerprint_of_devices(&paper, cost_one_way, 2), one); /* of one domain */
  assert_int_not_equal(fingerprint_of_devices(&paper, cost_other_way, 1), one);
  assert_int_not_equal(fingerprint_of_devices(&paper, cost_one_way, 0), one);
  paper.devices[1].sync_domain = &paper.devices[1];
  assert_int_not_equal(fingerprint_of_devices(&paper, cost_one_way, 2), one);
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void what_they_do_not_depend_on_makes_none(void **state) {
  (void)state;
  knobs_t k = usual;
  k.name = "another name";
  k.run = no_op;
  k.data = &k;
  k.timeout_ns = 1000000000;
  k.spin_ns = 1;
  assert_int_equal(fingerprint_of(k), fingerprint_of(usual));
}

static void an_explicit_order_makes_a_difference(void **state) {
  (void)state;
  ovl_pipeline_t *p = describe(&usual);
  uint64_t planned = ovl_pipeline_fingerprint(p, 2);
  const ovl_op_id_t forwards[] = {{0, {1}}, {0, {3}}, {1, {1}}, {1, {3}}};
  const ovl_op_id_t early[] = {{0, {1}}, {0, {3}}, {1, {1}}, {1, {3}}, {2, {1}}, {2, {3}}};
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){1}, forwards, 4), 0);
  assert_int_not_equal(ovl_pipeline_fingerprint(p, 2), planned);
  assert_int_equal(ovl_pipeline_fingerprint(p, 3), 0); /* the order is not for three */
  assert_true(ovl_pipeline_error(p)[0] != '\0');
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){1}, early, 6), 0);
  assert_int_not_equal(ovl_pipeline_fingerprint(p, 3), 0);
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){1}, NULL, 0), 0);
  assert_int_equal(ovl_pipeline_fingerprint(p, 2), planned);
  ovl_pipeline_close(p, NULL);
}

/* The same stages one after the other, of other microbatches. */
static void an_order_is_compared_by_its_microbatches_too(void **state) {
  (void)state;
  knobs_t k = usual;
  k.distance = 3;
  ovl_pipeline_t *p = describe(&k);
  const ovl_op_id_t one[] = {{0, {1}}, {1, {1}}, {0, {3}}, {1, {3}}};
  const ovl_op_id_t other[] = {{0, {1}}, {1, {1}}, {1, {3}}, {0, {3}}};
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){1}, one, 4), 0);
  uint64_t fingerprint = ovl_pipeline_fingerprint(p, 2);
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){1}, other, 4), 0);
  assert_int_not_equal(ovl_pipeline_fingerprint(p, 2), fingerprint);
  ovl_pipeline_close(p, NULL);
}

static void asking_freezes_nothing_and_a_run_changes_nothing(void **state) {
  (void)state;
  ovl_pipeline_t *p = describe(&usual);
  uint64_t before = ovl_pipeline_fingerprint(p, 6);
  assert_int_equal(ovl_pipeline_run(p, 6), 0);
  assert_int_equal(ovl_pipeline_fingerprint(p, 6), before);
  ovl_pipeline_close(p, NULL);
  p = describe(&usual);
  assert_int_equal(ovl_pipeline_fingerprint(p, 6), before);
  add_stage(p, (ovl_lane_t){1}, NULL, NULL);
  assert_int_not_equal(ovl_pipeline_fingerprint(p, 6), before);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(ovl_pipeline_fingerprint(NULL, 6), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_orders_depend_on_makes_a_difference),
      cmocka_unit_test(what_devices_are_issued_makes_a_difference),
      cmocka_unit_test(what_they_do_not_depend_on_makes_none),
      cmocka_unit_test(an_explicit_order_makes_a_difference),
      cmocka_unit_test(an_order_is_compared_by_its_microbatches_too),
      cmocka_unit_test(asking_freezes_nothing_and_a_run_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
