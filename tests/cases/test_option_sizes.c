/* SPDX-License-Identifier: MIT */
/* Case 31: structs of callers that were compiled with another version of the headers. A shorter one works and has
 * the defaults where it ends; a longer one works if the library is not asked for what it does not know; a size that
 * cannot be is refused. Every struct lies at the end of its memory, so that AddressSanitizer sees a byte too far. */
#include <stdlib.h>
#include <string.h>

#include "support/probe.h"

enum { TAIL = 24 }; /* bytes that a later version might have added */

/* A copy of `size` bytes, no byte more: of the struct, then zeros. Its size field says `size`. */
static void *copy_of(const void *from, size_t known, size_t size) {
  unsigned char *copy = malloc(size < sizeof size ? sizeof size : size);
  assert_non_null(copy);
  memset(copy, 0, size < sizeof size ? sizeof size : size);
  memcpy(copy, from, size < known ? size : known);
  memcpy(copy, &size, sizeof size);
  return copy;
}

static int nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int fails(ovl_op_t *op) {
  (void)op;
  return -8;
}

/* ---- each call with one of the structs --------------------------------------------------------------------- */

/* Calls the function with the struct and cleans up. */
typedef int (*call_t)(void *options);

static ovl_pipeline_t *bare(ovl_lane_t *lane) {
  ovl_pipeline_t *p;
  ovl_lane_options_t o;
  ovl_lane_options_init(&o);
  assert_int_equal(ovl_pipeline_create(&p, NULL), 0);
  assert_int_equal(ovl_pipeline_add_lane(p, &o, lane), 0);
  return p;
}

static int create(void *options) {
  ovl_pipeline_t *p = (ovl_pipeline_t *)options; /* anything but NULL */
  int r = ovl_pipeline_create(&p, options);
  assert_int_equal(p != NULL, r == 0);
  assert_int_equal(ovl_pipeline_error(NULL)[0] != '\0', r != 0);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int create_with_allocator(void *allocator) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.allocator = allocator;
  return create(&options);
}

static int add_lane(void *options) {
  ovl_lane_t lane, first;
  ovl_pipeline_t *p = bare(&first);
  int r = ovl_pipeline_add_lane(p, options, &lane);
  if (r == 0)
    assert_int_equal(lane.id, first.id + 1);
  assert_int_equal(ovl_pipeline_error(p)[0] != '\0', r != 0);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int add_stage(void *options) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = bare(&lane);
  int r = ovl_pipeline_add_stage(p, options, &stage);
  if (r == 0)
    assert_int_equal(ovl_pipeline_run(p, 2), 0);
  assert_int_equal(ovl_pipeline_error(p)[0] != '\0', r != 0);
  ovl_pipeline_close(p, NULL);
  return r;
}

/* A run of three microbatches of one stage, which fails when `run` does. */
static ovl_pipeline_t *ran(ovl_op_cb run, ovl_lane_t *lane, ovl_stage_t *stage) {
  ovl_pipeline_t *p = bare(lane);
  ovl_stage_options_t o;
  ovl_stage_options_init(&o);
  o.lane = *lane;
  o.run = run;
  assert_int_equal(ovl_pipeline_add_stage(p, &o, stage), 0);
  ovl_pipeline_run(p, 3);
  return p;
}

static int stats(void *result) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(nothing, &lane, &stage);
  int r = ovl_pipeline_stats(p, result);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int lane_stats(void *result) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(nothing, &lane, &stage);
  int r = ovl_pipeline_lane_stats(p, lane, result);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int stage_stats(void *result) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(nothing, &lane, &stage);
  int r = ovl_pipeline_stage_stats(p, stage, result);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int failure(void *result) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(fails, &lane, &stage);
  int r = ovl_pipeline_failure(p, result);
  ovl_pipeline_close(p, NULL);
  return r;
}

/* With no room for records: counts alone. */
static int trace(void *result) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(nothing, &lane, &stage);
  int r = ovl_pipeline_trace(p, result);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int write_nowhere(void *context, const char *bytes, size_t count) {
  (void)context;
  (void)bytes;
  (void)count;
  return 0;
}

static int write_trace(void *view) {
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(nothing, &lane, &stage);
  int r = ovl_pipeline_trace_write(p, view, 1, write_nowhere, NULL);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int simulate(void *simulation) {
  ovl_lane_t lane;
  ovl_pipeline_t *p = bare(&lane);
  int r = ovl_pipeline_simulate(p, 2, simulation, NULL);
  ovl_pipeline_close(p, NULL);
  return r;
}

/* ---- the structs ------------------------------------------------------------------------------------------------ */

/* Some fields of each, in their order: a size that ends with one of them is one that a caller may have. */
typedef struct kind {
  const char *name;
  call_t call;
  size_t known;
  size_t ends[12];
} kind_t;

#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

static const kind_t options[] = {
    {"ovl_pipeline_options_t",
     create,
     sizeof(ovl_pipeline_options_t),
     {END_OF(ovl_pipeline_options_t, comm), END_OF(ovl_pipeline_options_t, data),
      END_OF(ovl_pipeline_options_t, on_error), END_OF(ovl_pipeline_options_t, spin_ns),
      END_OF(ovl_pipeline_options_t, allocator), END_OF(ovl_pipeline_options_t, on_microbatch),
      END_OF(ovl_pipeline_options_t, on_failure), END_OF(ovl_pipeline_options_t, issue_ahead),
      END_OF(ovl_pipeline_options_t, trace), END_OF(ovl_pipeline_options_t, stall_ns)}},
    {"ovl_lane_options_t",
     add_lane,
     sizeof(ovl_lane_options_t),
     {END_OF(ovl_lane_options_t, name), END_OF(ovl_lane_options_t, width), END_OF(ovl_lane_options_t, data),
      END_OF(ovl_lane_options_t, poll), END_OF(ovl_lane_options_t, poll_max_ns)}},
    {"ovl_stage_options_t",
     add_stage,
     sizeof(ovl_stage_options_t),
     {END_OF(ovl_stage_options_t, run), END_OF(ovl_stage_options_t, cancel),
      END_OF(ovl_stage_options_t, data), END_OF(ovl_stage_options_t, timeout_ns),
      END_OF(ovl_stage_options_t, always)}},
    {"ovl_simulation_t",
     simulate,
     sizeof(ovl_simulation_t),
     {END_OF(ovl_simulation_t, duration), END_OF(ovl_simulation_t, data), END_OF(ovl_simulation_t, trace)}},
    {"ovl_trace_view_t",
     write_trace,
     sizeof(ovl_trace_view_t),
     {END_OF(ovl_trace_view_t, trace), END_OF(ovl_trace_view_t, clock_offset_ns),
      END_OF(ovl_trace_view_t, bound_ns)}},
    {"ovl_allocator_t", create_with_allocator, sizeof(ovl_allocator_t), {END_OF(ovl_allocator_t, context)}},
};

static const kind_t results[] = {
    {"ovl_stats_t",
     stats,
     sizeof(ovl_stats_t),
     {END_OF(ovl_stats_t, microbatches), END_OF(ovl_stats_t, elapsed_ns), END_OF(ovl_stats_t, efficiency),
      END_OF(ovl_stats_t, pool_peak), END_OF(ovl_stats_t, finding)}},
    {"ovl_lane_stats_t",
     lane_stats,
     sizeof(ovl_lane_stats_t),
     {END_OF(ovl_lane_stats_t, ops), END_OF(ovl_lane_stats_t, elapsed_ns), END_OF(ovl_lane_stats_t, peak),
      END_OF(ovl_lane_stats_t, idle_tail_ns)}},
    {"ovl_stage_stats_t",
     stage_stats,
     sizeof(ovl_stage_stats_t),
     {END_OF(ovl_stage_stats_t, ops), END_OF(ovl_stage_stats_t, min_ns), END_OF(ovl_stage_stats_t, mean_ns),
      END_OF(ovl_stage_stats_t, delay_max_ns)}},
    {"ovl_failure_t",
     failure,
     sizeof(ovl_failure_t),
     {END_OF(ovl_failure_t, native), END_OF(ovl_failure_t, microbatch), END_OF(ovl_failure_t, lane_name)}},
    {"ovl_trace_t",
     trace,
     sizeof(ovl_trace_t),
     {END_OF(ovl_trace_t, start_ns), END_OF(ovl_trace_t, elapsed_ns)}},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *memory) {
  (void)context;
  free(memory);
}

/* A struct of that kind whose fields are right; all else is 0. */
static void *filled(const kind_t *kind, size_t size) {
  union {
    ovl_pipeline_options_t pipeline;
    ovl_stage_options_t stage;
    ovl_allocator_t allocator;
    ovl_trace_t trace;
    unsigned char bytes[512];
  } all;
  memset(&all, 0, sizeof all);
  if (kind->call == create)
    all.pipeline.compute = all.pipeline.comm = nothing;
  if (kind->call == add_stage)
    all.stage.lane.id = 1;
  if (kind->call == create_with_allocator) {
    all.allocator.allocate = allocate;
    all.allocator.release = release;
  }
  if (kind->call == trace)
    all.trace.record_size = sizeof(ovl_trace_record_t);
  return copy_of(&all, kind->known, size);
}

static int call_with_size(const kind_t *kind, size_t size) {
  void *memory = filled(kind, size);
  int r = kind->call(memory);
  assert_memory_equal(memory, &size, sizeof size); /* the size is the caller's, and stays */
  free(memory);
  return r;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static void for_all(void (*check)(const kind_t *kind)) {
  for (size_t i = 0; i < COUNT(options); i++)
    check(&options[i]);
  for (size_t i = 0; i < COUNT(results); i++)
    check(&results[i]);
}

static void accepts_shorter(const kind_t *kind) {
  for (int i = 0; i < 12 && kind->ends[i] != 0; i++)
    if (call_with_size(kind, kind->ends[i]) != 0)
      fail_msg("%s of %zu bytes was refused", kind->name, kind->ends[i]);
  assert_int_equal(call_with_size(kind, kind->known), 0);
}

static void case_31_shorter_structs_are_accepted(void **state) {
  (void)state;
  for_all(accepts_shorter);
}

static void refuses_impossible(const kind_t *kind) {
  for (size_t size = 0; size < sizeof(size_t); size++)
    if (call_with_size(kind, size) != OVL_ESTRUCTSIZE)
      fail_msg("%s of %zu bytes was not refused", kind->name, size);
  static const size_t garbage[] = {4097, SIZE_MAX / 2, SIZE_MAX}; /* the memory ends long before */
  for (size_t i = 0; i < COUNT(garbage); i++) {
    void *memory = filled(kind, kind->known);
    memcpy(memory, &garbage[i], sizeof garbage[i]);
    if (kind->call(memory) != OVL_ESTRUCTSIZE)
      fail_msg("%s of %zu bytes was not refused", kind->name, garbage[i]);
    free(memory);
  }
}

static void case_31_sizes_that_cannot_be_are_refused(void **state) {
  (void)state;
  for_all(refuses_impossible);
}

static void accepts_longer(const kind_t *kind) {
  for (size_t more = 1; more <= TAIL; more++)
    if (call_with_size(kind, kind->known + more) != 0)
      fail_msg("%s with %zu zero bytes more was refused", kind->name, more);
}

static void case_31_longer_structs_are_accepted_if_the_tail_is_zero(void **state) {
  (void)state;
  for_all(accepts_longer);
}

static void refuses_unknown(const kind_t *kind) {
  for (size_t more = 1; more <= TAIL; more++) {
    unsigned char *memory = filled(kind, kind->known + TAIL);
    memory[kind->known + more - 1] = more % 2 != 0 ? 1 : 0x80;
    if (kind->call(memory) != OVL_ESTRUCTSIZE)
      fail_msg("%s with something in byte %zu was not refused", kind->name, kind->known + more - 1);
    free(memory);
  }
}

static void case_31_an_unknown_tail_that_is_not_zero_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(options); i++)
    refuses_unknown(&options[i]);
}

/* "Struct arguments": those that the library writes to as well. */
static void case_31_also_in_results(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(results); i++)
    refuses_unknown(&results[i]);
}

/* ---- contents ------------------------------------------------------------------------------------------------------ */

/* What lies beyond the size is not the library's: neither read, */
static void case_31_fields_beyond_the_size_have_their_defaults(void **state) {
  (void)state;
  ovl_pipeline_options_t o;
  ovl_pipeline_t *p;
  memset(&o, 0x5a, sizeof o);
  o.size = offsetof(ovl_pipeline_options_t, window);
  o.compute = o.comm = nothing;
  o.data = &o;
  assert_int_equal(ovl_pipeline_create(&p, &o), 0);
  assert_ptr_equal(ovl_pipeline_data(p), &o);
  assert_int_equal(ovl_pipeline_window(p), 4);
  assert_int_equal(ovl_pipeline_run(p, 3), 0);
  ovl_pipeline_close(p, NULL);
}

/* nor written. */
static void case_31_results_end_where_the_caller_says(void **state) {
  (void)state;
  ovl_lane_t lane;
  ovl_stage_t stage;
  ovl_pipeline_t *p = ran(fails, &lane, &stage);
  ovl_stats_t s;
  ovl_failure_t f;
  memset(&s, 0x5a, sizeof s);
  memset(&f, 0x5a, sizeof f);
  s.size = offsetof(ovl_stats_t, ops);
  f.size = offsetof(ovl_failure_t, stage);
  assert_int_equal(ovl_pipeline_stats(p, &s), 0);
  assert_int_equal(s.failed > 0, 1);
  assert_true(s.ops == UINT64_C(0x5a5a5a5a5a5a5a5a));
  assert_int_equal(ovl_pipeline_failure(p, &f), 0);
  assert_int_equal(f.status, -8);
  assert_int_equal(f.stage.id, 0x5a5a5a5a);
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_31_shorter_structs_are_accepted),
      cmocka_unit_test(case_31_sizes_that_cannot_be_are_refused),
      cmocka_unit_test(case_31_longer_structs_are_accepted_if_the_tail_is_zero),
      cmocka_unit_test(case_31_an_unknown_tail_that_is_not_zero_is_refused),
      cmocka_unit_test(case_31_also_in_results),
      cmocka_unit_test(case_31_fields_beyond_the_size_have_their_defaults),
      cmocka_unit_test(case_31_results_end_where_the_caller_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
