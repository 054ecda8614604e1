/* SPDX-License-Identifier: MIT */
/* Case 32: every allocation of every call may fail: the call says OVL_ENOMEM, nothing leaks, nothing is half
 * built, and the same call works when there is memory again. And a run, once under way, allocates nothing. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/counting_allocator.h"
#include "support/describe.h"

enum { LANES = 8, STAGES = 8, MICROBATCHES = 5 }; /* lists grow with the ninth entry */

static counting_allocator_t allocator;

static atomic_ulong ops_run;

static int count_op(ovl_op_t *op) {
  (void)op;
  atomic_fetch_add(&ops_run, 1);
  return 0;
}

static void poll_nothing(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
}

static uint64_t cost_by_microbatch(const ovl_op_t *op) { return 1 + op->microbatch % 3; }

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

typedef struct fixture {
  ovl_pipeline_t *p;
  ovl_lane_t fixed; /* of fixed order, with the last two stages */
  ovl_stage_t stages[STAGES];
  uint32_t stage_count; /* that ops are expected of */
  bool streams;         /* an item waits: the next run is a streaming one */
  bool hints_from_calls;
} fixture_t;

static ovl_pipeline_options_t counted_options(void) {
  static ovl_allocator_t hook;
  ovl_allocator_init(&hook);
  hook.allocate = counting_allocate;
  hook.release = counting_release;
  hook.context = &allocator;
  ovl_pipeline_options_t options = pipeline_options(3);
  options.allocator = &hook;
  options.trace = 4;
  return options;
}

static void describe(fixture_t *f, bool hints_from_calls) {
  ovl_pipeline_options_t options = counted_options();
  f->p = make_pipeline(&options);
  f->hints_from_calls = hints_from_calls;
  for (uint32_t l = 1; l < LANES; l++)
    add_lane(f->p, l % 2 == 0 ? OVL_LANE_LOOP : OVL_LANE_POOL, l % 3);
  ovl_lane_options_t lane = lane_options("ring", OVL_LANE_POOL, 1);
  lane.order = OVL_ORDER_FIXED;
  lane.poll = poll_nothing;
  f->fixed = add_lane_with(f->p, &lane);
  for (uint32_t s = 0; s < STAGES; s++) {
    ovl_stage_options_t stage =
        stage_options((ovl_lane_t){s < STAGES - 2 ? s % 3 + 1 : LANES}, count_op, NULL);
    stage.cost = hints_from_calls ? cost_by_microbatch : NULL;
    f->stages[s] = add_stage_with(f->p, &stage);
  }
  for (uint32_t distance = 0; distance < 8; distance++)
    assert_int_equal(ovl_pipeline_add_dependency(f->p, f->stages[0], f->stages[STAGES - 1], distance), 0);
  f->stage_count = STAGES;
}

/* It is as whole as it was: it runs, every op once, and gives all of its memory back. */
static void run_and_close(fixture_t *f) {
  uint64_t microbatches = f->streams ? 1 : MICROBATCHES;
  atomic_store(&ops_run, 0);
  if (f->streams)
    assert_int_equal(ovl_pipeline_finish(f->p), 0);
  assert_int_equal(ovl_pipeline_run(f->p, f->streams ? OVL_STREAMING : MICROBATCHES), 0);
  assert_int_equal(atomic_load(&ops_run), microbatches * f->stage_count);
  assert_int_equal(stats_of(f->p).microbatches, microbatches);
  ovl_pipeline_close(f->p, NULL);
  assert_int_equal(counting_held(&allocator), 0);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static int add_a_lane(fixture_t *f) {
  ovl_lane_options_t options = lane_options("the ninth", OVL_LANE_POOL, 1);
  ovl_lane_t lane = {0};
  int r = ovl_pipeline_add_lane(f->p, &options, &lane);
  assert_int_equal(lane.id, r == 0 ? LANES + 1 : 0);
  return r;
}

static int add_a_stage(fixture_t *f) {
  ovl_stage_options_t options = stage_options((ovl_lane_t){1}, count_op, NULL);
  ovl_stage_t stage = {0};
  int r = ovl_pipeline_add_stage(f->p, &options, &stage);
  assert_int_equal(stage.id, r == 0 ? STAGES + 1 : 0);
  f->stage_count = STAGES + (r == 0);
  return r;
}

static int add_a_dependency(fixture_t *f) {
  return ovl_pipeline_add_dependency(f->p, f->stages[3], f->stages[1], 2);
}

/* One for which a cycle has to be looked for. */
static int add_a_dependency_backwards(fixture_t *f) {
  ovl_stage_options_t options = stage_options((ovl_lane_t){1}, count_op, NULL);
  options.unchained = 1;
  ovl_stage_t stage;
  long fail_at = atomic_exchange(&allocator.fail_at, 0);
  if (f->stage_count == STAGES) {
    stage = add_stage_with(f->p, &options);
    f->stage_count++;
  } else {
    stage.id = STAGES + 1;
  }
  atomic_store(&allocator.fail_at, fail_at);
  return ovl_pipeline_add_dependency(f->p, stage, f->stages[0], 0);
}

static int run(fixture_t *f) { return ovl_pipeline_run(f->p, MICROBATCHES); }

static int start(fixture_t *f) {
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  int r = ovl_pipeline_start(f->p, &loop, MICROBATCHES, NULL);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  return r;
}

static int submit(fixture_t *f) {
  int r = ovl_pipeline_submit(f->p, f);
  f->streams = r == 0;
  return r;
}

static int finish(fixture_t *f) {
  int r = ovl_pipeline_finish(f->p);
  if (r == 0)
    assert_int_equal(ovl_pipeline_run(f->p, OVL_STREAMING), 0);
  return r;
}

static int simulate(fixture_t *f) {
  ovl_trace_record_t records[4];
  ovl_trace_t trace;
  ovl_simulation_t simulation;
  ovl_trace_init(&trace, records, 4);
  ovl_simulation_init(&simulation);
  simulation.trace = &trace;
  return ovl_pipeline_simulate(f->p, MICROBATCHES, &simulation, NULL);
}

static int fingerprint(fixture_t *f) {
  return ovl_pipeline_fingerprint(f->p, MICROBATCHES) != 0 ? 0 : OVL_ENOMEM;
}

static int set_an_order(fixture_t *f) {
  ovl_op_id_t order[2 * MICROBATCHES];
  for (uint64_t i = 0; i < 2 * MICROBATCHES; i++)
    order[i] = (ovl_op_id_t){.microbatch = i / 2, .stage = f->stages[STAGES - 2 + i % 2]};
  return ovl_pipeline_set_order(f->p, f->fixed, order, 2 * MICROBATCHES);
}

/* ---- every allocation fails in turn ------------------------------------------------------------------------------ */

/* Makes the n-th allocation of the call fail, on a fresh pipeline. False: it has no n-th. */
static bool fail_nth(int (*call)(fixture_t *), bool hints_from_calls, long n) {
  fixture_t f = {0};
  describe(&f, hints_from_calls);
  unsigned long failures = atomic_load(&allocator.failures);
  atomic_store(&allocator.fail_at, n);
  int r = call(&f);
  atomic_store(&allocator.fail_at, 0);
  bool failed = atomic_load(&allocator.failures) > failures;
  assert_int_equal(r, failed ? OVL_ENOMEM : 0);
  assert_true((strlen(ovl_pipeline_error(f.p)) > 0) == failed);
  if (failed)
    assert_int_equal(call(&f), 0);
  run_and_close(&f);
  return failed;
}

static void fail_each(int (*call)(fixture_t *), long at_least) {
  for (int hints_from_calls = 0; hints_from_calls < 2; hints_from_calls++) {
    long n = 1;
    while (fail_nth(call, hints_from_calls != 0, n))
      n++;
    assert_true(n > at_least); /* it did allocate */
  }
}

static void each_allocation_of_create_may_fail(void **state) {
  (void)state;
  ovl_pipeline_options_t options = counted_options();
  options.compute = options.comm = count_op;
  for (long n = 1;; n++) {
    fixture_t f = {.stage_count = 2};
    unsigned long failures = atomic_load(&allocator.failures);
    atomic_store(&allocator.fail_at, n);
    int r = ovl_pipeline_create(&f.p, &options);
    atomic_store(&allocator.fail_at, 0);
    if (atomic_load(&allocator.failures) == failures) {
      assert_int_equal(r, 0);
      assert_true(n > 5);
      run_and_close(&f);
      break;
    }
    assert_int_equal(r, OVL_ENOMEM);
    assert_null(f.p);
    assert_non_null(strstr(ovl_pipeline_error(NULL), "memory"));
    assert_int_equal(counting_held(&allocator), 0);
  }
}

static void each_allocation_of_a_description_may_fail(void **state) {
  (void)state;
  fail_each(add_a_lane, 2);
  fail_each(add_a_stage, 2);
  fail_each(add_a_dependency, 1);
  fail_each(add_a_dependency_backwards, 4);
  fail_each(set_an_order, 10);
}

static void each_allocation_of_a_run_may_fail(void **state) {
  (void)state;
  fail_each(run, 20);
  fail_each(start, 20);
}

static void each_allocation_of_a_first_submit_or_finish_may_fail(void **state) {
  (void)state;
  fail_each(submit, 20);
  fail_each(finish, 20);
}

static void each_allocation_of_a_prediction_may_fail(void **state) {
  (void)state;
  fail_each(simulate, 20);
  fail_each(fingerprint, 10);
}

static int write_nowhere(void *context, const char *bytes, size_t count) {
  (void)context;
  (void)bytes;
  (void)count;
  return 0;
}

/* Once for a pipeline that is not frozen, once after a run. */
static void each_allocation_of_a_file_may_fail(void **state) {
  (void)state;
  fixture_t f = {0};
  describe(&f, false);
  for (int ran = 0; ran < 2; ran++) {
    for (int svg = 0; svg < 2; svg++) {
      int r = OVL_ENOMEM;
      for (long n = 1; r != 0; n++) {
        unsigned long failures = atomic_load(&allocator.failures), held = counting_held(&allocator);
        atomic_store(&allocator.fail_at, n);
        r = (svg ? ovl_pipeline_trace_svg : ovl_pipeline_trace_write)(f.p, NULL, 0, write_nowhere, NULL);
        atomic_store(&allocator.fail_at, 0);
        assert_int_equal(r, atomic_load(&allocator.failures) > failures ? OVL_ENOMEM : 0);
        assert_int_equal(counting_held(&allocator), held);
        assert_true(r != 0 || n > 4);
      }
    }
    assert_int_equal(ovl_pipeline_run(f.p, MICROBATCHES), 0);
  }
  run_and_close(&f);
}

/* ---- a run allocates nothing --------------------------------------------------------------------------------------- */

typedef struct watched {
  atomic_ulong allocations, releases; /* at the start of the first op */
  atomic_int seen;
  unsigned long allocations_at_end, releases_at_end;
} watched_t;

static int note_the_first(ovl_op_t *op) {
  watched_t *w = ovl_pipeline_data(op->pipeline);
  if (atomic_exchange(&w->seen, 1) == 0) {
    atomic_store(&w->allocations, atomic_load(&allocator.allocations));
    atomic_store(&w->releases, atomic_load(&allocator.releases));
  }
  return op->microbatch % 7 == 3 ? -5 : 0;
}

static void note_the_end(ovl_pipeline_t *p, int status) {
  watched_t *w = ovl_pipeline_data(p);
  (void)status;
  w->allocations_at_end = atomic_load(&allocator.allocations);
  w->releases_at_end = atomic_load(&allocator.releases);
}

static void ignore_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
}

static void ignore_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)p;
  (void)failure;
}

static ovl_pipeline_t *make_watched(watched_t *w) {
  ovl_pipeline_options_t options = counted_options();
  options.data = w;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.on_microbatch = ignore_microbatch;
  options.on_failure = ignore_failure;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t ring = lane_options("ring", OVL_LANE_POOL, 1);
  ring.order = OVL_ORDER_FIXED;
  ovl_lane_t lanes[3] = {add_lane(p, OVL_LANE_POOL, 2), add_lane(p, OVL_LANE_LOOP, 1),
                         add_lane_with(p, &ring)};
  for (int s = 0; s < 6; s++)
    add_stage(p, lanes[s % 3], note_the_first, NULL);
  return p;
}

/* Failing microbatches, reports, a planned order, or a stream of items: nothing of it needs memory. */
static void check_run(uint64_t microbatches) {
  watched_t w = {0};
  ovl_pipeline_t *p = make_watched(&w);
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, microbatches, note_the_end), 0);
  for (int i = 0; i < 200 && microbatches == OVL_STREAMING;) {
    i += ovl_pipeline_submit(p, &w) == 0;
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  if (microbatches == OVL_STREAMING)
    assert_int_equal(ovl_pipeline_finish(p), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(stats_of(p).microbatches, 200);
  assert_int_equal(atomic_load(&w.seen), 1);
  assert_int_equal(w.allocations_at_end, atomic_load(&w.allocations));
  assert_int_equal(w.releases_at_end, atomic_load(&w.releases));
  ovl_pipeline_close(p, NULL);
  assert_int_equal(counting_held(&allocator), 0);
}

static void a_run_under_way_allocates_nothing(void **state) {
  (void)state;
  check_run(200);
  check_run(OVL_STREAMING);
}

static int skip_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void a_second_run_needs_no_memory_either(void **state) {
  (void)state;
  fixture_t f = {0};
  describe(&f, false);
  assert_int_equal(ovl_pipeline_run(f.p, 3), 0);
  unsigned long allocations = atomic_load(&allocator.allocations);
  assert_int_equal(ovl_pipeline_run(f.p, 20), 0);
  assert_int_equal(atomic_load(&allocator.allocations), allocations);
  run_and_close(&f);
}

/* The hook is told apart from malloc: a pipeline without one uses none of it. */
static void without_a_hook_it_is_not_called(void **state) {
  (void)state;
  unsigned long allocations = atomic_load(&allocator.allocations);
  ovl_pipeline_options_t options = pipeline_options(2);
  options.compute = options.comm = skip_op;
  ovl_pipeline_t *p = make_pipeline(&options);
  assert_int_equal(ovl_pipeline_run(p, 5), 0);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(atomic_load(&allocator.allocations), allocations);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_allocation_of_create_may_fail),
      cmocka_unit_test(each_allocation_of_a_description_may_fail),
      cmocka_unit_test(each_allocation_of_a_run_may_fail),
      cmocka_unit_test(each_allocation_of_a_first_submit_or_finish_may_fail),
      cmocka_unit_test(each_allocation_of_a_prediction_may_fail),
      cmocka_unit_test(each_allocation_of_a_file_may_fail),
      cmocka_unit_test(a_run_under_way_allocates_nothing),
      cmocka_unit_test(a_second_run_needs_no_memory_either),
      cmocka_unit_test(without_a_hook_it_is_not_called),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
