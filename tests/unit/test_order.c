/* SPDX-License-Identifier: MIT */
/* Shows that explicit orders are checked when they are given and kept when they run, and that fingerprints differ
 * exactly where orders could. */
#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/watchdog.h"

/* ---- a pipeline with a ring of fixed order ------------------------------------------------------------------------ */

enum { MOST_STARTS = 64 };

static ovl_pipeline_t *p;
static ovl_lane_t ring, wide, second_ring;
static ovl_stage_t sends, works, receives, others;

static ovl_op_id_t starts[MOST_STARTS];
static atomic_uint start_count;

static int note_start(ovl_op_t *op) {
  unsigned at = atomic_fetch_add(&start_count, 1);
  if (at < MOST_STARTS)
    starts[at] = (ovl_op_id_t){.microbatch = op->microbatch, .stage = op->stage};
  return 0;
}

static ovl_lane_t add_ring(const char *name) {
  ovl_lane_options_t options = lane_options(name, OVL_LANE_POOL, 1);
  options.order = OVL_ORDER_FIXED;
  return add_lane_with(p, &options);
}

static ovl_stage_t add_named(const char *name, ovl_lane_t lane, ovl_op_cb run) {
  ovl_stage_options_t options = stage_options(lane, run, NULL);
  options.name = name;
  return add_stage_with(p, &options);
}

/* "send" and "receive" on "ring", with "work" between them; then "other" on "second ring". */
static int set_up(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  p = make_pipeline(&options);
  ring = add_ring("ring");
  wide = add_lane(p, OVL_LANE_POOL, 2);
  second_ring = add_ring("second ring");
  sends = add_named("send", ring, note_start);
  works = add_named("work", wide, NULL);
  receives = add_named("receive", ring, note_start);
  others = add_named("other", second_ring, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ovl_pipeline_close(p, NULL);
  return 0;
}

/* Runs so many microbatches; the ring must start its ops in this order. */
static void check_run(uint64_t microbatches, const ovl_op_id_t *order) {
  atomic_store(&start_count, 0);
  assert_int_equal(ovl_pipeline_run(p, microbatches), 0);
  assert_int_equal(atomic_load(&start_count), 2 * microbatches);
  for (uint64_t i = 0; i < 2 * microbatches; i++) {
    assert_int_equal(starts[i].microbatch, order[i].microbatch);
    assert_int_equal(starts[i].stage.id, order[i].stage.id);
  }
}

#define assert_refused(call, code, ...)                                            \
  do {                                                                             \
    const char *const words_[] = {__VA_ARGS__};                                    \
    assert_int_equal(call, code);                                                  \
    for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++)                 \
      if (strstr(ovl_pipeline_error(p), words_[i_]) == NULL)                       \
        fail_msg("\"%s\" does not say \"%s\"", ovl_pipeline_error(p), words_[i_]); \
  } while (0)

/* ---- giving ------------------------------------------------------------------------------------------------------ */

static void an_order_is_kept(void **state) {
  (void)state;
  const ovl_op_id_t one_first[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  const ovl_op_id_t in_turn[] = {{0, sends}, {0, receives}, {1, sends}, {1, receives}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, one_first, 4), 0);
  for (int run = 0; run < 20; run++)
    check_run(2, one_first);
  assert_int_equal(ovl_pipeline_set_order(p, ring, in_turn, 4), 0); /* also between runs */
  check_run(2, in_turn);
}

static void an_order_is_copied(void **state) {
  (void)state;
  const ovl_op_id_t order[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  ovl_op_id_t given[4];
  memcpy(given, order, sizeof given);
  assert_int_equal(ovl_pipeline_set_order(p, ring, given, 4), 0);
  memset(given, 0, sizeof given);
  check_run(2, order);
}

static void an_order_can_be_taken_back(void **state) {
  (void)state;
  const ovl_op_id_t one_first[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  const ovl_op_id_t planned[] = {{0, sends}, {1, sends}, {0, receives}, {1, receives}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, one_first, 4), 0);
  assert_int_equal(ovl_pipeline_set_order(p, ring, NULL, 0), 0);
  check_run(2, planned);
}

static void one_forward_one_backward_is_an_order(void **state) {
  (void)state;
  const ovl_op_id_t order[] = {{0, sends},    {1, sends}, {0, receives}, {2, sends},
                               {1, receives}, {3, sends}, {2, receives}, {3, receives}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, order, 8), 0);
  check_run(4, order);
}

/* ---- refusing ---------------------------------------------------------------------------------------------------- */

static void an_order_needs_a_lane_that_keeps_one(void **state) {
  (void)state;
  const ovl_op_id_t order[] = {{0, works}};
  assert_int_equal(ovl_pipeline_set_order(NULL, ring, order, 1), OVL_EINVAL);
  assert_refused(ovl_pipeline_set_order(p, wide, order, 1), OVL_EINVAL, "set_order", "\"lane 2\"",
                 "not OVL_ORDER_FIXED");
  assert_refused(ovl_pipeline_set_order(p, (ovl_lane_t){0}, order, 1), OVL_ENOLANE, "set_order", "no lane 0");
  assert_refused(ovl_pipeline_set_order(p, (ovl_lane_t){4}, order, 1), OVL_ENOLANE, "no lane 4, only 3");
  assert_refused(ovl_pipeline_set_order(p, ring, NULL, 2), OVL_EINVAL, "order is NULL");
}

static void an_order_holds_every_op_of_its_lane_once(void **state) {
  (void)state;
  const ovl_op_id_t half[] = {{0, sends}, {0, receives}, {1, sends}};
  assert_refused(ovl_pipeline_set_order(p, ring, half, 3), OVL_EORDER, "\"ring\"", "3 ops",
                 "microbatches of 2");
  const ovl_op_id_t twice[] = {{0, sends}, {0, receives}, {1, sends}, {0, sends}};
  assert_refused(ovl_pipeline_set_order(p, ring, twice, 4), OVL_EORDER, "\"ring\"",
                 "\"send\" of microbatch 0", "twice");
  const ovl_op_id_t stranger[] = {{0, sends}, {0, works}};
  assert_refused(ovl_pipeline_set_order(p, ring, stranger, 2), OVL_EORDER,
                 "\"work\" is not on lane \"ring\"");
  const ovl_op_id_t beyond[] = {{0, sends}, {1, receives}};
  assert_refused(ovl_pipeline_set_order(p, ring, beyond, 2), OVL_EORDER, "\"ring\"",
                 "microbatch 1, in an order of 1");
  const ovl_op_id_t nothing[] = {{0, sends}, {0, {0}}};
  assert_refused(ovl_pipeline_set_order(p, ring, nothing, 2), OVL_ENOSTAGE, "\"ring\"", "no stage 0");
  const ovl_op_id_t unknown[] = {{0, sends}, {0, {5}}};
  assert_refused(ovl_pipeline_set_order(p, ring, unknown, 2), OVL_ENOSTAGE, "\"ring\"", "no stage 5");
}

static void an_order_against_the_dependencies_is_refused(void **state) {
  (void)state;
  const ovl_op_id_t backwards[] = {{0, receives}, {0, sends}};
  assert_refused(ovl_pipeline_set_order(p, ring, backwards, 2), OVL_EORDER, "\"ring\"",
                 "\"receive\" of microbatch 0");
  const ovl_op_id_t too_wide[] = {{0, sends},    {1, sends},    {2, sends},
                                  {0, receives}, {1, receives}, {2, receives}};
  assert_refused(ovl_pipeline_set_order(p, ring, too_wide, 6), OVL_EORDER, "\"ring\"",
                 "\"send\" of microbatch 2");
}

/* Each could be kept alone: the window lets microbatch 1 go first on one, and not on both in opposite ways. */
static void orders_that_contradict_each_other_are_refused(void **state) {
  (void)state;
  const ovl_op_id_t zero_first[] = {{0, sends}, {0, receives}, {1, sends}, {1, receives}};
  const ovl_op_id_t one_first[] = {{1, others}, {0, others}};
  const ovl_op_id_t late[] = {{0, others}, {1, others}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, zero_first, 4), 0);
  assert_int_equal(ovl_pipeline_set_order(p, second_ring, one_first, 2), 0); /* 0 waits with its last op */
  assert_int_equal(ovl_pipeline_add_dependency(p, others, sends, 1), 0);     /* now it must not */
  assert_refused(ovl_pipeline_set_order(p, second_ring, one_first, 2), OVL_EORDER, "cannot be kept");
  assert_refused(ovl_pipeline_run(p, 2), OVL_EORDER, "run", "cannot be kept");
  assert_int_equal(ovl_pipeline_set_order(p, second_ring, late, 2), 0);
  check_run(2, zero_first);
}

/* What was asked in between must not hide that the description has changed since. */
static void an_order_that_a_later_dependency_forbids_is_refused(void **state) {
  (void)state;
  const ovl_op_id_t one_first[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, one_first, 4), 0);
  assert_int_not_equal(ovl_pipeline_fingerprint(p, 2), 0);
  assert_int_equal(ovl_pipeline_simulate(p, 2, NULL, NULL), 0);
  assert_int_equal(ovl_pipeline_add_dependency(p, sends, sends, 1), 0);
  assert_int_equal(ovl_pipeline_fingerprint(p, 2), 0);
  assert_refused(ovl_pipeline_simulate(p, 2, NULL, NULL), OVL_EORDER, "cannot be kept");
  watchdog_expect("a run whose order cannot be kept to be refused");
  assert_refused(ovl_pipeline_run(p, 2), OVL_EORDER, "run", "cannot be kept");
}

static void an_order_is_for_one_number_of_microbatches(void **state) {
  (void)state;
  const ovl_op_id_t order[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, order, 4), 0);
  assert_refused(ovl_pipeline_run(p, 3), OVL_EORDER, "run", "\"ring\"", "4 ops", "3 microbatches");
  assert_refused(ovl_pipeline_run(p, 1), OVL_EORDER, "run", "\"ring\"", "4 ops", "1 microbatches");
  check_run(2, order);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(ovl_pipeline_run(p, 3), 0); /* has an order of its own */
}

static void a_refused_order_leaves_the_one_before_it(void **state) {
  (void)state;
  const ovl_op_id_t order[] = {{1, sends}, {0, sends}, {1, receives}, {0, receives}};
  const ovl_op_id_t backwards[] = {{0, receives}, {0, sends}, {1, receives}, {1, sends}};
  assert_int_equal(ovl_pipeline_set_order(p, ring, order, 4), 0);
  assert_int_equal(ovl_pipeline_set_order(p, ring, backwards, 4), OVL_EORDER);
  check_run(2, order);
}

static int refused_in_flight;

static void set_order_meanwhile(ovl_pipeline_t *q, uint64_t microbatch, void *item, int status) {
  (void)microbatch;
  (void)item;
  (void)status;
  refused_in_flight = ovl_pipeline_set_order(q, (ovl_lane_t){1}, NULL, 0);
}

static void while_a_run_is_in_flight_no_order_is_taken(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_microbatch = set_order_meanwhile;
  ovl_pipeline_t *own = make_pipeline(&options);
  ovl_lane_options_t lane = lane_options("ring", OVL_LANE_POOL, 1);
  lane.order = OVL_ORDER_FIXED;
  add_stage(own, add_lane_with(own, &lane), NULL, NULL);
  assert_int_equal(ovl_pipeline_run(own, 1), 0);
  assert_int_equal(refused_in_flight, OVL_EBUSY);
  ovl_pipeline_close(own, NULL);
}

/* ---- planned from hints ------------------------------------------------------------------------------------------ */

static uint64_t longer_for_odd(const ovl_op_t *op) { return op->microbatch % 2 == 0 ? 1000 : 1; }

/* "work" takes long for even microbatches, so the odd ones receive first. */
static void hints_from_a_callback_make_an_order_too(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_close(p, NULL);
  p = make_pipeline(&options);
  ring = add_ring("ring");
  wide = add_lane(p, OVL_LANE_POOL, 2);
  sends = add_named("send", ring, note_start);
  ovl_stage_options_t stage = stage_options(wide, NULL, NULL);
  stage.cost = longer_for_odd;
  works = add_stage_with(p, &stage);
  receives = add_named("receive", ring, note_start);
  const ovl_op_id_t expected[] = {{0, sends}, {1, sends}, {1, receives}, {0, receives}};
  for (int run = 0; run < 20; run++)
    check_run(2, expected);
}

static void streams_go_microbatch_by_microbatch(void **state) {
  (void)state;
  const ovl_op_id_t expected[] = {{0, sends},    {0, receives}, {1, sends},
                                  {1, receives}, {2, sends},    {2, receives}};
  for (int i = 0; i < 3; i++)
    assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  assert_int_equal(ovl_pipeline_finish(p), 0);
  atomic_store(&start_count, 0);
  assert_int_equal(ovl_pipeline_run(p, OVL_STREAMING), 0);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(starts[i].microbatch, expected[i].microbatch);
    assert_int_equal(starts[i].stage.id, expected[i].stage.id);
  }
}

int main(void) {
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      test(an_order_is_kept),
      test(an_order_is_copied),
      test(an_order_can_be_taken_back),
      test(one_forward_one_backward_is_an_order),
      test(an_order_needs_a_lane_that_keeps_one),
      test(an_order_holds_every_op_of_its_lane_once),
      test(an_order_against_the_dependencies_is_refused),
      test(orders_that_contradict_each_other_are_refused),
      test(an_order_that_a_later_dependency_forbids_is_refused),
      test(an_order_is_for_one_number_of_microbatches),
      test(a_refused_order_leaves_the_one_before_it),
      test(while_a_run_is_in_flight_no_order_is_taken),
      test(hints_from_a_callback_make_an_order_too),
      test(streams_go_microbatch_by_microbatch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
