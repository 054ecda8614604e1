/* SPDX-License-Identifier: MIT */
/* Case 10: a million ops that all complete inline, and a million that are skipped: the stack does not grow with
 * them. The depth is measured in every callback, and what the library does between callbacks runs on stacks that
 * a recursion of that depth would overflow. [zio 583] */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

/* ---- measuring ------------------------------------------------------------------------------------------------ */

enum { STACK_BYTES = 1 << 20, SPREAD_BYTES = 16 * 1024 };

static _Thread_local uintptr_t highest, lowest; /* of all frames of callbacks on this thread, in this run */
static _Thread_local unsigned measured_run;
static unsigned run_number;
static atomic_uintptr_t widest;

static void measure(void) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (measured_run != run_number) {
    measured_run = run_number;
    highest = lowest = here;
  }
  highest = here > highest ? here : highest;
  lowest = here < lowest ? here : lowest;
  uintptr_t spread = highest - lowest, before = atomic_load_explicit(&widest, memory_order_relaxed);
  while (spread > before && !atomic_compare_exchange_weak(&widest, &before, spread))
    ;
}

/* ---- ops -------------------------------------------------------------------------------------------------------- */

static int return_at_once(ovl_op_t *op) {
  (void)op;
  measure();
  return 0;
}

static int complete_first(ovl_op_t *op) {
  measure();
  expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
  return OVL_PENDING;
}

static int take_turns(ovl_op_t *op) {
  return op->microbatch % 2 == 0 ? return_at_once(op) : complete_first(op);
}

static int fail_at_once(ovl_op_t *op) {
  (void)op;
  measure();
  return -4711;
}

static int fail_pending(ovl_op_t *op) {
  measure();
  expect(ovl_op_complete(op, -4711) == 0, "a completion was refused");
  return OVL_PENDING;
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
  measure();
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)p;
  (void)failure;
  measure();
}

/* ---- runs ----------------------------------------------------------------------------------------------------------- */

typedef struct flow {
  const char *name;
  ovl_lane_kind_t kinds[2];
  ovl_op_cb first, rest; /* of the first stage, and of the others; NULL: nothing to do */
  uint32_t stages, window;
  bool told; /* with on_microbatch and on_failure */
  int status;
  uint64_t ops;
} flow_t;

static void run_flow(const flow_t *flow) {
  uint64_t microbatches = test_count(flow->ops) / flow->stages + 1;
  ovl_pipeline_options_t options = pipeline_options(flow->window);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.on_microbatch = flow->told ? on_microbatch : NULL;
  options.on_failure = flow->told ? on_failure : NULL;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lanes[2] = {add_lane(p, flow->kinds[0], 1), add_lane(p, flow->kinds[1], 1)};
  for (uint32_t s = 0; s < flow->stages; s++)
    add_stage(p, lanes[s % 2], s == 0 ? flow->first : flow->rest, NULL);
  run_number++;
  atomic_store(&widest, 0);
  watchdog_expect(flow->name);
  assert_int_equal(ovl_pipeline_run(p, microbatches), flow->status);
  assert_no_faults(flow->name);
  ovl_stats_t stats = stats_of(p);
  assert_int_equal(stats.microbatches, microbatches);
  assert_int_equal(stats.ops + stats.skipped, microbatches * flow->stages);
  print_message("%s: %llu ops, callbacks within %u bytes of stack\n", flow->name,
                (unsigned long long)stats.ops, (unsigned)atomic_load(&widest));
  assert_true(atomic_load(&widest) < SPREAD_BYTES);
  ovl_pipeline_close(p, NULL);
}

/* clang-format off */
static const flow_t inline_flows[] = {
    {"pool lanes, returned", {POOL, POOL}, return_at_once, return_at_once, 2, 8, false, 0, 1000000},
    {"pool lanes, completed first", {POOL, POOL}, complete_first, complete_first, 2, 8, false, 0, 1000000},
    {"pool lanes, either way, reported", {POOL, POOL}, take_turns, take_turns, 3, 8, true, 0, 200000},
    {"loop lanes, returned", {LOOP, LOOP}, return_at_once, return_at_once, 2, 8, false, 0, 1000000},
    {"loop lanes, completed first", {LOOP, LOOP}, complete_first, complete_first, 2, 8, false, 0, 1000000},
    {"loop lanes, either way, reported", {LOOP, LOOP}, take_turns, take_turns, 3, 8, true, 0, 1000000},
    {"one window", {LOOP, LOOP}, take_turns, take_turns, 4, 1, true, 0, 1000000},
    {"pool and loop", {POOL, LOOP}, take_turns, take_turns, 2, 8, true, 0, 200000},
    {"nothing to do on the pool", {POOL, POOL}, NULL, NULL, 4, 8, true, 0, 200000},
    {"nothing to do on the loop", {LOOP, LOOP}, NULL, NULL, 4, 8, true, 0, 1000000},
    {"nothing to do after the first stage", {LOOP, LOOP}, take_turns, NULL, 10, 8, true, 0, 1000000},
};

/* Of ten stages nine are skipped, all from inside the end of the first one. */
static const flow_t skip_flows[] = {
    {"skipped on the loop", {LOOP, LOOP}, fail_at_once, return_at_once, 10, 8, false, -4711, 1000000},
    {"skipped on the loop, told", {LOOP, LOOP}, fail_at_once, return_at_once, 10, 8, true, -4711, 1000000},
    {"skipped on the pool", {POOL, POOL}, fail_at_once, return_at_once, 10, 8, false, -4711, 1000000},
    {"skipped on the pool, told", {POOL, POOL}, fail_at_once, return_at_once, 10, 8, true, -4711, 1000000},
    {"failed before the return", {LOOP, POOL}, fail_pending, return_at_once, 10, 8, true, -4711, 1000000},
    {"skipped in a wide window", {LOOP, LOOP}, fail_at_once, return_at_once, 100, 100, false, -4711, 1000000},
};
/* clang-format on */

static void case_10_inline_completions_are_a_loop(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof inline_flows / sizeof *inline_flows; i++)
    run_flow(&inline_flows[i]);
}

static void case_10_skipping_is_a_loop(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof skip_flows / sizeof *skip_flows; i++)
    run_flow(&skip_flows[i]);
}

/* One error, one cancel: everything in a large window is skipped at once. */
static int fail_last(ovl_op_t *op) {
  measure();
  return op->microbatch + 1 == ovl_pipeline_window(op->pipeline) ? -4711 : OVL_PENDING;
}

static int complete_when_cancelled(ovl_op_t *op) {
  measure();
  expect(ovl_op_complete(op, OVL_ECANCELED) == 0, "a completion was refused");
  return 0;
}

static void skip_a_window(ovl_lane_kind_t kind, uint32_t window, uint32_t stages) {
  ovl_pipeline_options_t options = pipeline_options(window);
  options.on_microbatch = on_microbatch;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_stage_options_t first = stage_options(add_lane(p, kind, window), fail_last, NULL);
  first.cancel = complete_when_cancelled;
  add_stage_with(p, &first);
  ovl_lane_t lane = add_lane(p, LOOP, 1);
  ovl_stage_t second = add_stage(p, lane, return_at_once, NULL), last = second;
  for (uint32_t s = 2; s < stages; s++)
    last = add_stage(p, lane, return_at_once, NULL);
  assert_int_equal(ovl_pipeline_add_dependency(p, last, second, 1),
                   0); /* one chain through all microbatches */
  run_number++;
  atomic_store(&widest, 0);
  watchdog_expect("a window that is skipped");
  assert_int_equal(ovl_pipeline_run(p, UINT64_C(1) << 40), -4711);
  ovl_stats_t stats = stats_of(p);
  assert_int_equal(stats.microbatches, window);
  assert_int_equal(stats.skipped, (uint64_t)window * (stages - 1));
  assert_true(atomic_load(&widest) < SPREAD_BYTES);
  assert_no_faults("a window that is skipped");
  ovl_pipeline_close(p, NULL);
}

static void case_10_a_whole_window_is_skipped(void **state) {
  (void)state;
  uint32_t window = (uint32_t)test_count(2000);
  skip_a_window(LOOP, window, 50);
}

/* The stack of this thread from now on, and of those that are made. */
static void limit_stacks(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0)
    return;
  limit.rlim_cur = STACK_BYTES;
  setrlimit(RLIMIT_STACK, &limit);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_10_inline_completions_are_a_loop),
      cmocka_unit_test(case_10_skipping_is_a_loop),
      cmocka_unit_test(case_10_a_whole_window_is_skipped),
  };
  limit_stacks();
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
