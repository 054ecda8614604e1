/* SPDX-License-Identifier: MIT */
/* Shows that every fault in a description is refused with a code of its own and in words that name the culprit,
 * that a refused call changes nothing, and that the first run freezes the description. */
#include <string.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"

static ovl_pipeline_t *p;
static ovl_lane_t lane;
static ovl_stage_t first, second;

/* One lane, "wire", with two stages, "pack" and "send". */
static int set_up(void **state) {
  (void)state;
  ovl_lane_options_t lane_settings = lane_options("wire", OVL_LANE_POOL, 1);
  ovl_pipeline_options_t options = pipeline_options(4);
  p = make_pipeline(&options);
  lane = add_lane_with(p, &lane_settings);
  ovl_stage_options_t stage = stage_options(lane, NULL, NULL);
  stage.name = "pack";
  first = add_stage_with(p, &stage);
  stage.name = "send";
  second = add_stage_with(p, &stage);
  return 0;
}

/* What was refused has changed nothing: the pipeline runs, with the two stages that it has. */
static int tear_down(void **state) {
  (void)state;
  assert_int_equal(ovl_pipeline_run(p, 3), 0);
  assert_int_equal(stats_of(p).ops, 6);
  ovl_pipeline_close(p, NULL);
  return 0;
}

/* The call was refused with this code, and the words hold all of these. */
#define assert_refused(pipeline, call, code, ...)                                         \
  do {                                                                                    \
    const char *const words_[] = {__VA_ARGS__};                                           \
    assert_int_equal(call, code);                                                         \
    for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++)                        \
      if (strstr(ovl_pipeline_error(pipeline), words_[i_]) == NULL)                       \
        fail_msg("\"%s\" does not say \"%s\"", ovl_pipeline_error(pipeline), words_[i_]); \
  } while (0)

static int create(const ovl_pipeline_options_t *options) {
  ovl_pipeline_t *made = p;
  int r = ovl_pipeline_create(&made, options);
  if (r != 0)
    assert_null(made);
  else
    ovl_pipeline_close(made, NULL);
  return r;
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

static void there_must_be_a_place_for_the_pipeline(void **state) {
  (void)state;
  assert_refused(NULL, ovl_pipeline_create(NULL, NULL), OVL_EINVAL, "create", "p is NULL");
}

static void a_mode_or_policy_that_is_none_is_refused(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.mode = (ovl_mode_t)7;
  assert_refused(NULL, create(&options), OVL_EOPTION, "create", "mode 7");
  options = pipeline_options(0);
  options.on_error = (ovl_on_error_t)9;
  assert_refused(NULL, create(&options), OVL_EOPTION, "create", "on_error 9");
}

static void one_callback_of_two_is_refused(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.compute = no_op;
  assert_refused(NULL, create(&options), OVL_ECALLBACK, "compute is given without comm");
  options = pipeline_options(0);
  options.comm = no_op;
  assert_refused(NULL, create(&options), OVL_ECALLBACK, "comm is given without compute");
  options.compute = no_op;
  assert_int_equal(create(&options), 0);
  assert_string_equal(ovl_pipeline_error(NULL), "");
}

static void *allocate_nothing(void *context, size_t bytes) {
  (void)context;
  (void)bytes;
  return NULL;
}

static void release_nothing(void *context, void *memory) {
  (void)context;
  (void)memory;
}

static void half_an_allocator_is_refused(void **state) {
  (void)state;
  ovl_allocator_t allocator;
  ovl_allocator_init(&allocator);
  ovl_pipeline_options_t options = pipeline_options(0);
  options.allocator = &allocator;
  allocator.release = release_nothing;
  assert_refused(NULL, create(&options), OVL_ECALLBACK, "create", "no allocate");
  allocator.release = NULL;
  allocator.allocate = allocate_nothing;
  assert_refused(NULL, create(&options), OVL_ECALLBACK, "create", "no release");
  allocator.release = release_nothing;
  assert_refused(NULL, create(&options), OVL_ENOMEM, "create", "no memory");
}

static void *data_seen[2]; /* by stage */

static int see_data(ovl_op_t *op) {
  data_seen[op->stage.id - 1] = op->data;
  return 0;
}

static void the_pair_has_names_roles_and_data(void **state) {
  (void)state;
  int data;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.compute = options.comm = see_data;
  options.data = &data;
  ovl_pipeline_t *pair = make_pipeline(&options);
  assert_ptr_equal(ovl_pipeline_data(pair), &data);
  assert_int_equal(ovl_pipeline_window(pair), 4);
  assert_refused(pair, ovl_pipeline_add_dependency(pair, (ovl_stage_t){2}, (ovl_stage_t){1}, 0), OVL_ECYCLE,
                 "\"compute\" -> \"comm\" -> \"compute\"");
  assert_int_equal(ovl_pipeline_run(pair, 1), 0);
  assert_ptr_equal(data_seen[0], &data);
  assert_ptr_equal(data_seen[1], &data);
  ovl_pipeline_close(pair, NULL);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static int add_lane_as(ovl_lane_options_t options) {
  ovl_lane_t added = {77};
  int r = ovl_pipeline_add_lane(p, &options, &added);
  if (r != 0)
    assert_int_equal(added.id, 77);
  return r;
}

static void a_lane_needs_its_arguments(void **state) {
  (void)state;
  ovl_lane_options_t options = lane_options("x", OVL_LANE_POOL, 1);
  ovl_lane_t added;
  assert_int_equal(ovl_pipeline_add_lane(NULL, &options, &added), OVL_EINVAL);
  assert_refused(p, ovl_pipeline_add_lane(p, NULL, &added), OVL_EINVAL, "add_lane", "options is NULL");
  assert_refused(p, ovl_pipeline_add_lane(p, &options, NULL), OVL_EINVAL, "add_lane", "lane is NULL");
}

static void a_lane_of_no_known_role_kind_or_order_is_refused(void **state) {
  (void)state;
  ovl_lane_options_t options = lane_options("odd", OVL_LANE_POOL, 1);
  options.role = (ovl_role_t)3;
  assert_refused(p, add_lane_as(options), OVL_EOPTION, "add_lane", "\"odd\"", "role 3");
  options = lane_options("odd", (ovl_lane_kind_t)5, 1);
  assert_refused(p, add_lane_as(options), OVL_EOPTION, "add_lane", "\"odd\"", "kind 5");
  options = lane_options(NULL, OVL_LANE_POOL, 1);
  options.order = (ovl_order_t)2;
  assert_refused(p, add_lane_as(options), OVL_EOPTION, "add_lane", "order 2");
}

static void a_fixed_order_needs_width_one(void **state) {
  (void)state;
  ovl_lane_options_t options = lane_options("ring", OVL_LANE_POOL, 2);
  options.order = OVL_ORDER_FIXED;
  assert_refused(p, add_lane_as(options), OVL_EWIDTH, "add_lane", "\"ring\"", "width 1, not 2");
  options.width = 0;
  assert_int_equal(add_lane_as(options), 0);
}

static void ids_count_from_one_and_none_is_lost_by_a_refusal(void **state) {
  (void)state;
  assert_int_equal(lane.id, 1);
  assert_int_equal(first.id, 1);
  assert_int_equal(second.id, 2);
  assert_refused(p, add_lane_as(lane_options("odd", (ovl_lane_kind_t)5, 1)), OVL_EOPTION, "odd");
  assert_int_equal(add_lane(p, OVL_LANE_LOOP, 0).id, 2);
  assert_string_equal(ovl_pipeline_error(p), "");
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static int add_stage_named(const char *name, ovl_lane_t on) {
  ovl_stage_options_t options = stage_options(on, NULL, NULL);
  ovl_stage_t added = {77};
  options.name = name;
  int r = ovl_pipeline_add_stage(p, &options, &added);
  if (r != 0)
    assert_int_equal(added.id, 77);
  return r;
}

static void a_stage_needs_its_arguments(void **state) {
  (void)state;
  ovl_stage_options_t options = stage_options(lane, NULL, NULL);
  assert_int_equal(ovl_pipeline_add_stage(NULL, &options, NULL), OVL_EINVAL);
  assert_refused(p, ovl_pipeline_add_stage(p, NULL, NULL), OVL_EINVAL, "add_stage", "options is NULL");
}

static void a_stage_needs_a_lane_that_there_is(void **state) {
  (void)state;
  assert_refused(p, add_stage_named("lost", (ovl_lane_t){0}), OVL_ENOLANE, "add_stage", "\"lost\"",
                 "names no lane");
  assert_refused(p, add_stage_named("lost", (ovl_lane_t){2}), OVL_ENOLANE, "\"lost\"", "no lane 2, only 1");
  assert_refused(p, add_stage_named(NULL, (ovl_lane_t){UINT32_MAX}), OVL_ENOLANE, "no lane 4294967295");
}

/* ---- dependencies ------------------------------------------------------------------------------------------------ */

static void a_dependency_needs_stages_that_there_are(void **state) {
  (void)state;
  const ovl_stage_t none = {0}, third = {3};
  assert_int_equal(ovl_pipeline_add_dependency(NULL, first, second, 0), OVL_EINVAL);
  assert_refused(p, ovl_pipeline_add_dependency(p, none, second, 1), OVL_ENOSTAGE, "add_dependency",
                 "`before`", "no stage 0");
  assert_refused(p, ovl_pipeline_add_dependency(p, first, third, 1), OVL_ENOSTAGE, "add_dependency",
                 "`after`", "no stage 3, only 2");
}

static void a_cycle_is_refused_and_its_stages_named(void **state) {
  (void)state;
  assert_refused(p, ovl_pipeline_add_dependency(p, second, first, 0), OVL_ECYCLE, "add_dependency",
                 "\"pack\" -> \"send\" -> \"pack\"");
  assert_refused(p, ovl_pipeline_add_dependency(p, second, second, 0), OVL_ECYCLE, "\"send\" -> \"send\"");
  assert_int_equal(ovl_pipeline_add_dependency(p, second, first, 1), 0);
  assert_int_equal(ovl_pipeline_add_dependency(p, second, second, 3), 0);
  assert_int_equal(ovl_pipeline_add_dependency(p, second, first, UINT32_MAX), 0);
}

/* Four more stages, unchained: the cycle leads through declared dependencies alone, and round the others. */
static void a_cycle_of_declared_dependencies_names_those_on_it_alone(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *own = make_pipeline(&options);
  ovl_stage_options_t stage = stage_options(add_lane(own, OVL_LANE_POOL, 1), NULL, NULL);
  const char *names[] = {"a", "b", "c", "d"};
  ovl_stage_t ids[4];
  stage.unchained = 1;
  for (int i = 0; i < 4; i++) {
    stage.name = names[i];
    ids[i] = add_stage_with(own, &stage);
  }
  assert_int_equal(ovl_pipeline_add_dependency(own, ids[3], ids[1], 0), 0);
  assert_int_equal(ovl_pipeline_add_dependency(own, ids[1], ids[0], 0), 0);
  assert_int_equal(ovl_pipeline_add_dependency(own, ids[1], ids[2], 0), 0);
  assert_refused(own, ovl_pipeline_add_dependency(own, ids[0], ids[3], 0), OVL_ECYCLE,
                 "\"d\" -> \"b\" -> \"a\" -> \"d\"");
  assert_int_equal(ovl_pipeline_run(own, 2), 0);
  ovl_pipeline_close(own, NULL);
}

static void a_cycle_of_many_stages_is_named_as_far_as_there_is_room(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *own = make_pipeline(&options);
  ovl_stage_options_t stage = stage_options(add_lane(own, OVL_LANE_POOL, 1), NULL, NULL);
  stage.name = "a stage whose name is longer than what is quoted of it";
  ovl_stage_t head = add_stage_with(own, &stage), tail = head;
  for (int i = 0; i < 1000; i++)
    tail = add_stage_with(own, &stage);
  assert_refused(own, ovl_pipeline_add_dependency(own, tail, head, 0), OVL_ECYCLE, "cycle",
                 "\"a stage whose name is longer t\" -> \"a stage", " ...");
  assert_true(strlen(ovl_pipeline_error(own)) < 512);
  ovl_pipeline_close(own, NULL);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static char long_name[10240];

static int fail_always(ovl_op_t *op) {
  (void)op;
  return -5;
}

static void names_of_ten_thousand_bytes_are_kept_and_quoted_in_part(void **state) {
  (void)state;
  memset(long_name, 'n', sizeof long_name - 1);
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *own = make_pipeline(&options);
  ovl_lane_options_t lane_settings = lane_options(long_name, OVL_LANE_POOL, 1);
  ovl_stage_options_t stage = stage_options(add_lane_with(own, &lane_settings), fail_always, NULL);
  stage.name = long_name;
  add_stage_with(own, &stage);
  lane_settings.kind = (ovl_lane_kind_t)9;
  ovl_lane_t none;
  assert_refused(own, ovl_pipeline_add_lane(own, &lane_settings, &none), OVL_EOPTION, "\"nnnn", "kind 9");
  stage.lane.id = 9;
  assert_refused(own, ovl_pipeline_add_stage(own, &stage, NULL), OVL_ENOLANE, "\"nnnn", "no lane 9");
  assert_int_equal(ovl_pipeline_run(own, 1), -5);
  assert_string_equal(failure_of(own).stage_name, long_name);
  assert_string_equal(failure_of(own).lane_name, long_name);
  ovl_pipeline_close(own, NULL);
}

static void names_are_copied_and_made_up_where_there_are_none(void **state) {
  (void)state;
  char name[] = "mine";
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *own = make_pipeline(&options);
  ovl_lane_options_t lane_settings = lane_options(NULL, OVL_LANE_POOL, 1);
  ovl_stage_options_t stage = stage_options(add_lane_with(own, &lane_settings), NULL, NULL);
  stage.name = name;
  add_stage_with(own, &stage);
  memset(name, 'x', sizeof name - 1);
  stage.name = NULL;
  ovl_stage_t unnamed = add_stage_with(own, &stage);
  assert_refused(own, ovl_pipeline_add_dependency(own, unnamed, (ovl_stage_t){1}, 0), OVL_ECYCLE,
                 "\"mine\" -> \"stage 2\" -> \"mine\"");
  ovl_pipeline_close(own, NULL);
}

/* ---- frozen ------------------------------------------------------------------------------------------------------ */

static void after_the_first_run_the_description_is_frozen(void **state) {
  (void)state;
  assert_int_equal(ovl_pipeline_run(p, 0), 0);
  assert_refused(p, add_lane_as(lane_options("x", OVL_LANE_POOL, 1)), OVL_EFROZEN, "add_lane", "frozen");
  assert_refused(p, add_stage_named("x", lane), OVL_EFROZEN, "add_stage", "frozen");
  assert_refused(p, ovl_pipeline_add_dependency(p, first, second, 1), OVL_EFROZEN, "add_dependency",
                 "frozen");
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_string_equal(ovl_pipeline_error(p), "");
}

static void the_first_submit_freezes_it_too(void **state) {
  (void)state;
  assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  assert_refused(p, add_stage_named("x", lane), OVL_EFROZEN, "add_stage", "frozen");
  assert_refused(p, ovl_pipeline_run(p, 1), OVL_EITEMS, "items");
  assert_int_equal(ovl_pipeline_finish(p), 0);
  assert_int_equal(ovl_pipeline_run(p, OVL_STREAMING), 0);
}

typedef struct attempts {
  ovl_pipeline_t *pipeline;
  int lane, stage, dependency, mode;
} attempts_t;

/* On the loop's thread, in the midst of a run. */
static void describe_meanwhile(ovl_pipeline_t *q, uint64_t microbatch, void *item, int status) {
  (void)microbatch;
  (void)item;
  (void)status;
  attempts_t *attempts = ovl_pipeline_data(q);
  ovl_lane_options_t lane_settings = lane_options("x", OVL_LANE_POOL, 1);
  ovl_stage_options_t stage = stage_options((ovl_lane_t){1}, NULL, NULL);
  ovl_lane_t added;
  attempts->lane = ovl_pipeline_add_lane(q, &lane_settings, &added);
  attempts->stage = ovl_pipeline_add_stage(q, &stage, NULL);
  attempts->dependency = ovl_pipeline_add_dependency(q, (ovl_stage_t){1}, (ovl_stage_t){1}, 1);
  attempts->mode = ovl_pipeline_set_mode(q, OVL_SERIAL);
}

static void while_a_run_is_in_flight_nothing_is_described(void **state) {
  (void)state;
  attempts_t attempts = {0};
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_microbatch = describe_meanwhile;
  options.data = &attempts;
  ovl_pipeline_t *own = make_pipeline(&options);
  add_stage(own, add_lane(own, OVL_LANE_POOL, 1), NULL, NULL);
  assert_int_equal(ovl_pipeline_run(own, 1), 0);
  assert_int_equal(attempts.lane, OVL_EBUSY);
  assert_int_equal(attempts.stage, OVL_EBUSY);
  assert_int_equal(attempts.dependency, OVL_EBUSY);
  assert_int_equal(attempts.mode, OVL_EBUSY);
  ovl_pipeline_close(own, NULL);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void a_mode_must_be_one(void **state) {
  (void)state;
  assert_int_equal(ovl_pipeline_set_mode(NULL, OVL_SERIAL), OVL_EINVAL);
  assert_refused(p, ovl_pipeline_set_mode(p, (ovl_mode_t)2), OVL_EOPTION, "set_mode", "mode 2");
}

static void the_window_is_twice_the_lanes_unless_it_is_given(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *own = make_pipeline(&options);
  assert_int_equal(ovl_pipeline_window(own), 1);
  for (uint32_t lanes = 1; lanes <= 3; lanes++) {
    add_lane(own, OVL_LANE_POOL, 1);
    assert_int_equal(ovl_pipeline_window(own), 2 * lanes);
  }
  ovl_pipeline_close(own, NULL);
  assert_int_equal(ovl_pipeline_window(p), 4);
  assert_int_equal(ovl_pipeline_window(NULL), 0);
}

static void more_than_can_be_held_is_too_big(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.queue = UINT32_MAX;
  ovl_pipeline_t *own = make_pipeline(&options);
  add_stage(own, add_lane(own, OVL_LANE_POOL, 1), NULL, NULL);
  assert_refused(own, ovl_pipeline_run(own, 1), OVL_ETOOBIG, "window 2");
  assert_refused(own, ovl_pipeline_submit(own, NULL), OVL_ETOOBIG, "window 2");
  assert_int_equal(
      ovl_pipeline_add_lane(own, &(ovl_lane_options_t){.size = sizeof(ovl_lane_options_t)}, &lane), 0);
  ovl_pipeline_close(own, NULL);
}

static void null_is_no_pipeline_and_closing_it_is_fine(void **state) {
  (void)state;
  assert_null(ovl_pipeline_data(NULL));
  assert_int_equal(ovl_pipeline_run(NULL, 1), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_start(NULL, NULL, 1, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_submit(NULL, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_finish(NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_cancel(NULL), OVL_EINVAL);
  assert_int_equal(ovl_op_complete(NULL, 0), OVL_EINVAL);
  assert_refused(p, ovl_pipeline_start(p, NULL, 1, NULL), OVL_EINVAL, "start", "loop is NULL");
  ovl_pipeline_close(NULL, NULL);
}

int main(void) {
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      test(there_must_be_a_place_for_the_pipeline),
      test(a_mode_or_policy_that_is_none_is_refused),
      test(one_callback_of_two_is_refused),
      test(half_an_allocator_is_refused),
      test(the_pair_has_names_roles_and_data),
      test(a_lane_needs_its_arguments),
      test(a_lane_of_no_known_role_kind_or_order_is_refused),
      test(a_fixed_order_needs_width_one),
      test(ids_count_from_one_and_none_is_lost_by_a_refusal),
      test(a_stage_needs_its_arguments),
      test(a_stage_needs_a_lane_that_there_is),
      test(a_dependency_needs_stages_that_there_are),
      test(a_cycle_is_refused_and_its_stages_named),
      test(a_cycle_of_declared_dependencies_names_those_on_it_alone),
      test(a_cycle_of_many_stages_is_named_as_far_as_there_is_room),
      test(names_of_ten_thousand_bytes_are_kept_and_quoted_in_part),
      test(names_are_copied_and_made_up_where_there_are_none),
      test(after_the_first_run_the_description_is_frozen),
      test(the_first_submit_freezes_it_too),
      test(while_a_run_is_in_flight_nothing_is_described),
      test(a_mode_must_be_one),
      test(the_window_is_twice_the_lanes_unless_it_is_given),
      test(more_than_can_be_held_is_too_big),
      test(null_is_no_pipeline_and_closing_it_is_fine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
