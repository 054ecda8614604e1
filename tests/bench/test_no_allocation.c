/* SPDX-License-Identifier: MIT */
/* No memory is allocated per operation or per microbatch once a run is under way: a run of 100000
 * operations allocates no more often than one of 1000. Counted where everything passes, at malloc and its
 * relatives, which this program defines itself, and at the pipeline's allocator. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "bench_device.h"
#include "ovl.h"
#include "support/cmocka_all.h"

enum { FEW = 1000, MANY = 100000, LANES = 2 };

/* ---- malloc and its relatives ---- */

static atomic_ulong calls;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);

/* What dlsym() itself allocates while the real functions are looked up. */
static _Alignas(max_align_t) char early[8192];
static size_t early_used;

static void *early_alloc(size_t bytes) {
  size_t rounded = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (rounded > sizeof early - early_used)
    abort();
  void *memory = early + early_used;
  early_used += rounded;
  return memory;
}

static bool is_early(const void *memory) { return (uintptr_t)memory - (uintptr_t)early < sizeof early; }

static void look_up(const char *name, void *function) {
  void *symbol = dlsym(RTLD_NEXT, name);
  if (symbol == NULL)
    abort();
  memcpy(function, &symbol, sizeof symbol);
}

/* False: the look-up is under way, further up the stack. The first call comes before there are threads. */
static bool looked_up(void) {
  static bool begun;
  if (!begun) {
    begun = true;
    look_up("malloc", &real_malloc);
    look_up("calloc", &real_calloc);
    look_up("realloc", &real_realloc);
    look_up("aligned_alloc", &real_aligned_alloc);
    look_up("posix_memalign", &real_posix_memalign);
    look_up("free", &real_free);
  }
  return real_free != NULL;
}

void *malloc(size_t bytes) {
  atomic_fetch_add(&calls, 1);
  return looked_up() ? real_malloc(bytes) : early_alloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  atomic_fetch_add(&calls, 1);
  return looked_up() ? real_calloc(count, bytes) : early_alloc(count * bytes);
}

void *realloc(void *memory, size_t bytes) {
  atomic_fetch_add(&calls, 1);
  if (!looked_up() || is_early(memory))
    abort();
  return real_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  atomic_fetch_add(&calls, 1);
  if (!looked_up())
    abort();
  return real_aligned_alloc(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  atomic_fetch_add(&calls, 1);
  return looked_up() ? real_posix_memalign(memory, alignment, bytes) : ENOMEM;
}

void free(void *memory) {
  if (looked_up() && !is_early(memory))
    real_free(memory);
}

/* ---- the pipeline's allocator ---- */

static atomic_ulong hook_calls;

static void *hook_allocate(void *context, size_t bytes) {
  (void)context;
  atomic_fetch_add(&hook_calls, 1);
  return malloc(bytes);
}

static void hook_release(void *context, void *memory) {
  (void)context;
  atomic_fetch_add(&hook_calls, 1);
  free(memory);
}

/* ---- runs ---- */

typedef struct counts {
  unsigned long all, hook;
} counts_t;

static uv_loop_t loop;
static atomic_ulong operations;

static int count_op(ovl_op_t *op) {
  (void)op;
  atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed);
  return 0;
}

/* Completes itself before its callback returns. */
static int complete_op(ovl_op_t *op) {
  count_op(op);
  assert_int_equal(ovl_op_complete(op, 0), 0);
  return OVL_PENDING;
}

static void on_microbatch(ovl_pipeline_t *pipeline, uint64_t microbatch, void *item, int status) {
  (void)pipeline;
  (void)microbatch;
  (void)item;
  (void)status;
}

typedef struct description {
  ovl_lane_kind_t kind; /* of the second lane */
  ovl_op_cb run;
  ovl_order_t order;
  uint32_t width;
  unsigned per_lane; /* stages; 0: 1 */
  bool depends;      /* each stage on itself, one microbatch before */
  uint64_t timeout_ns;
  ovl_poll_cb poll;
  bool report;
  size_t trace;
  ovl_device_timing_t timing;
} description_t;

static unsigned stages_of(const description_t *description) {
  return LANES * (description->per_lane > 0 ? description->per_lane : 1);
}

static bench_device_t device;

static ovl_lane_t describe_lane(ovl_pipeline_t *pipeline, const description_t *description,
                                ovl_lane_kind_t kind) {
  ovl_lane_options_t options;
  ovl_lane_t lane;
  if (kind == OVL_LANE_DEVICE)
    return bench_device_lane(&device, pipeline);
  ovl_lane_options_init(&options);
  options.kind = kind;
  options.order = description->order;
  options.width = description->width;
  options.poll = description->poll;
  assert_int_equal(ovl_pipeline_add_lane(pipeline, &options, &lane), 0);
  return lane;
}

static ovl_pipeline_t *describe(const description_t *description) {
  ovl_pipeline_t *pipeline;
  ovl_pipeline_options_t options;
  ovl_allocator_t allocator;
  ovl_pipeline_options_init(&options);
  ovl_allocator_init(&allocator);
  allocator.allocate = hook_allocate;
  allocator.release = hook_release;
  options.allocator = &allocator;
  options.on_microbatch = description->report ? on_microbatch : NULL;
  options.queue = 64;
  options.trace = description->trace;
  options.device_timing = description->timing;
  assert_int_equal(ovl_pipeline_create(&pipeline, &options), 0);
  ovl_lane_t lanes[LANES] = {describe_lane(pipeline, description, OVL_LANE_POOL),
                             describe_lane(pipeline, description, description->kind)};
  for (unsigned s = 0; s < stages_of(description); s++) {
    ovl_stage_options_t stage;
    ovl_stage_t added;
    ovl_stage_options_init(&stage);
    stage.lane = lanes[s % LANES];
    stage.run = description->run;
    stage.timeout_ns = description->timeout_ns;
    assert_int_equal(ovl_pipeline_add_stage(pipeline, &stage, &added), 0);
    if (description->depends)
      assert_int_equal(ovl_pipeline_add_dependency(pipeline, added, added, 1), 0);
  }
  return pipeline;
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  (void)pipeline;
  assert_int_equal(status, 0);
}

static counts_t counted_run(ovl_pipeline_t *pipeline, unsigned stages, unsigned long ops) {
  atomic_store(&operations, 0);
  unsigned long all = atomic_load(&calls), hook = atomic_load(&hook_calls);
  assert_int_equal(ovl_pipeline_start(pipeline, &loop, ops / stages, on_done), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(atomic_load(&operations), ops);
  return (counts_t){.all = atomic_load(&calls) - all, .hook = atomic_load(&hook_calls) - hook};
}

/* The first run makes threads and tables. */
static void assert_none_per_op(const description_t *description) {
  ovl_pipeline_t *pipeline = describe(description);
  unsigned stages = stages_of(description);
  counted_run(pipeline, stages, FEW);
  counts_t few = counted_run(pipeline, stages, FEW), many = counted_run(pipeline, stages, MANY);
  assert_true(many.all <= few.all);
  assert_true(many.hook <= few.hook);
  ovl_pipeline_close(pipeline, NULL);
}

/* ---- tests ---- */

/* Or all of the following would be shown by counting nothing. */
static void test_allocations_are_counted(void **state) {
  (void)state;
  unsigned long before = atomic_load(&calls);
  void *volatile memory = malloc(1);
  free(memory);
  if (atomic_load(&calls) == before)
    skip(); /* somebody else has taken malloc's place: valgrind does */
  ovl_pipeline_close(describe(&(description_t){.run = count_op}), NULL);
  assert_true(atomic_load(&hook_calls) > 0);
}

static void test_pool_lanes(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op});
}

static void test_loop_lane_and_reports(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .kind = OVL_LANE_LOOP, .report = true});
}

static void test_pending_operations(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = complete_op});
}

static void test_fixed_order(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .order = OVL_ORDER_FIXED});
}

static void test_trace(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .trace = 700});
}

static void test_a_lane_of_width_3(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .width = 3});
}

static void test_stages_that_share_lanes(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .per_lane = 4});
}

static void test_dependencies(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .depends = true});
}

static void test_deadlines(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .timeout_ns = UINT64_C(3600000000000)});
}

static void poll(ovl_pipeline_t *pipeline, ovl_lane_t lane, void *data) {
  (void)pipeline;
  (void)lane;
  (void)data;
}

static void test_polled_lanes(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = complete_op, .poll = poll});
}

static void test_a_device(void **state) {
  (void)state;
  assert_none_per_op(&(description_t){.run = count_op, .kind = OVL_LANE_DEVICE});
  assert_none_per_op(
      &(description_t){.run = count_op, .kind = OVL_LANE_DEVICE, .timing = OVL_DEVICE_TIMING_ALL});
}

static unsigned long to_submit;

static void submit_all(void *argument) {
  ovl_pipeline_t *pipeline = argument;
  for (unsigned long i = 0; i < to_submit; i++)
    while (ovl_pipeline_submit(pipeline, NULL) == OVL_EAGAIN)
      uv_sleep(0);
  ovl_pipeline_finish(pipeline);
}

static counts_t streaming_run(ovl_pipeline_t *pipeline, unsigned long ops) {
  uv_thread_t thread;
  to_submit = ops / LANES;
  atomic_store(&operations, 0);
  assert_int_equal(uv_thread_create(&thread, submit_all, pipeline), 0);
  unsigned long all = atomic_load(&calls), hook = atomic_load(&hook_calls);
  assert_int_equal(ovl_pipeline_start(pipeline, &loop, OVL_STREAMING, on_done), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  counts_t counts = {.all = atomic_load(&calls) - all, .hook = atomic_load(&hook_calls) - hook};
  assert_int_equal(uv_thread_join(&thread), 0);
  assert_int_equal(atomic_load(&operations), ops);
  return counts;
}

static void test_streaming(void **state) {
  (void)state;
  ovl_pipeline_t *pipeline = describe(&(description_t){.run = count_op, .report = true});
  streaming_run(pipeline, FEW);
  counts_t few = streaming_run(pipeline, FEW), many = streaming_run(pipeline, MANY);
  assert_true(many.all <= few.all);
  assert_true(many.hook <= few.hook);
  ovl_pipeline_close(pipeline, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_allocations_are_counted),
      cmocka_unit_test(test_pool_lanes),
      cmocka_unit_test(test_loop_lane_and_reports),
      cmocka_unit_test(test_pending_operations),
      cmocka_unit_test(test_fixed_order),
      cmocka_unit_test(test_trace),
      cmocka_unit_test(test_a_lane_of_width_3),
      cmocka_unit_test(test_stages_that_share_lanes),
      cmocka_unit_test(test_dependencies),
      cmocka_unit_test(test_deadlines),
      cmocka_unit_test(test_polled_lanes),
      cmocka_unit_test(test_a_device),
      cmocka_unit_test(test_streaming),
  };
  bench_device_init(&device);
  if (uv_loop_init(&loop) != 0)
    return EXIT_FAILURE;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_loop_close(&loop);
  return failed != 0;
}
