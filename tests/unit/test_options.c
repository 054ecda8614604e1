/* SPDX-License-Identifier: MIT */
/* Shows how structs of other sizes are treated: those of older callers are taken, what is unknown is refused, and
 * nothing is read or written beyond the size that a struct says it has. Every struct lies at the end of its block,
 * so a sanitizer sees what goes beyond. */
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "ovl.h"
#include "support/cmocka_all.h"

/* ---- reading, by itself ------------------------------------------------------------------------------------------ */

typedef struct sample {
  size_t size;
  uint64_t first;
  uint64_t second;
} sample_t;

/* A struct of `size` bytes that says so, the rest of it `fill`. */
static void *sized(size_t size, unsigned char fill) {
  size_t bytes = size > sizeof size ? size : sizeof size;
  unsigned char *block = malloc(bytes);
  assert_non_null(block);
  memset(block, fill, bytes);
  memcpy(block, &size, sizeof size);
  return block;
}

static int read_sample(sample_t *into, size_t size, unsigned char fill) {
  void *from = sized(size, fill);
  memset(into, 0xee, sizeof *into);
  int r = ovl_options_read(into, sizeof *into, from, offsetof(sample_t, second));
  free(from);
  return r;
}

static void a_struct_of_the_right_size_is_read(void **state) {
  (void)state;
  sample_t sample;
  assert_int_equal(read_sample(&sample, sizeof sample, 1), 0);
  assert_int_equal(sample.size, sizeof sample);
  assert_int_equal(sample.first, UINT64_C(0x0101010101010101));
  assert_int_equal(sample.second, sample.first);
}

static void what_a_shorter_struct_lacks_is_zero(void **state) {
  (void)state;
  sample_t sample;
  assert_int_equal(read_sample(&sample, offsetof(sample_t, second), 1), 0);
  assert_int_equal(sample.size, sizeof sample);
  assert_int_equal(sample.first, UINT64_C(0x0101010101010101));
  assert_int_equal(sample.second, 0);
}

static void a_struct_that_lacks_what_is_required_is_refused(void **state) {
  (void)state;
  sample_t sample;
  for (size_t size = 0; size < offsetof(sample_t, second); size++)
    assert_int_equal(read_sample(&sample, size, 0), OVL_ESTRUCTSIZE);
}

static void a_tail_of_zeros_is_taken_and_any_other_refused(void **state) {
  (void)state;
  enum { TAIL = 24 };
  sample_t sample;
  assert_int_equal(read_sample(&sample, sizeof sample + TAIL, 0), 0);
  assert_int_equal(sample.size, sizeof sample);
  for (size_t at = 0; at < TAIL; at++) {
    unsigned char *from = sized(sizeof sample + TAIL, 0);
    from[sizeof sample + at] = 1;
    assert_int_equal(ovl_options_read(&sample, sizeof sample, from, sizeof(size_t)), OVL_ESTRUCTSIZE);
    free(from);
  }
}

/* ---- writing, by itself ------------------------------------------------------------------------------------------ */

static void only_what_there_is_room_for_is_written(void **state) {
  (void)state;
  enum { ROOM = 64 };
  const sample_t from = {.size = sizeof from, .first = 1, .second = 2};
  for (size_t size = 0; size <= sizeof from; size++) {
    unsigned char *into = sized(ROOM, 0xee), expected[ROOM];
    memset(expected, 0xee, sizeof expected);
    memcpy(into, &size, sizeof size);
    memcpy(expected, &size, sizeof size);
    int r = ovl_options_write(into, &from, sizeof from, sizeof size);
    assert_int_equal(r, size < sizeof size ? OVL_ESTRUCTSIZE : 0);
    if (r == 0)
      memcpy(expected + sizeof size, (const unsigned char *)&from + sizeof size, size - sizeof size);
    assert_memory_equal(into, expected, ROOM);
    free(into);
  }
}

/* A newer caller asks for what this library does not know: it must not think that it was filled in. */
static void a_longer_struct_is_filled_if_its_tail_is_zero(void **state) {
  (void)state;
  enum { TAIL = 24 };
  const sample_t from = {.size = sizeof from, .first = 1, .second = 2};
  static const unsigned char zeros[TAIL];
  for (size_t at = 0; at <= TAIL; at++) { /* the last has no byte that is not zero */
    unsigned char *into = sized(sizeof from + TAIL, 0);
    if (at < TAIL)
      into[sizeof from + at] = 1;
    assert_int_equal(ovl_options_write(into, &from, sizeof from, sizeof(size_t)),
                     at < TAIL ? OVL_ESTRUCTSIZE : 0);
    sample_t written;
    memcpy(&written, into, sizeof written);
    assert_int_equal(written.size, sizeof from + TAIL);
    assert_int_equal(written.second, at < TAIL ? 0 : 2);
    if (at == TAIL)
      assert_memory_equal(into + sizeof from, zeros, TAIL);
    free(into);
  }
}

/* ---- the public structs that are read ---------------------------------------------------------------------------- */

static ovl_pipeline_t *pipeline;
static ovl_lane_t lane;
static ovl_stage_t stage;

static int set_up(void **state) {
  (void)state;
  ovl_lane_options_t lane_options;
  ovl_stage_options_t stage_options;
  ovl_lane_options_init(&lane_options);
  ovl_stage_options_init(&stage_options);
  if (ovl_pipeline_create(&pipeline, NULL) != 0 || ovl_pipeline_add_lane(pipeline, &lane_options, &lane) != 0)
    return -1;
  stage_options.lane = lane;
  return ovl_pipeline_add_stage(pipeline, &stage_options, &stage);
}

static int tear_down(void **state) {
  (void)state;
  ovl_pipeline_close(pipeline, NULL);
  return 0;
}

static int create_with(const void *options) {
  ovl_pipeline_t *p = pipeline;
  int r = ovl_pipeline_create(&p, options);
  assert_int_equal(p == NULL, r != 0);
  ovl_pipeline_close(p, NULL);
  return r;
}

static int create_with_allocator(const void *allocator) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.allocator = allocator;
  return create_with(&options);
}

static int add_lane_with(const void *options) {
  ovl_lane_t added;
  return ovl_pipeline_add_lane(pipeline, options, &added);
}

static int add_stage_with(const void *options) { return ovl_pipeline_add_stage(pipeline, options, NULL); }

static int simulate_with(const void *simulation) {
  return ovl_pipeline_simulate(pipeline, 1, simulation, NULL);
}

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void release(void *context, void *memory) {
  (void)context;
  free(memory);
}

/* `full` is a struct that is taken; `least` the size that it has to have. */
static void check_input(int (*call)(const void *), const void *full, size_t known, size_t least) {
  for (size_t size = 0; size <= known; size++) {
    unsigned char *options = sized(size, 0);
    if (size > sizeof size)
      memcpy(options + sizeof size, (const unsigned char *)full + sizeof size, size - sizeof size);
    if (size < least)
      assert_int_equal(call(options), OVL_ESTRUCTSIZE);
    else if (size % sizeof(void *) == 0) /* no older struct ended within a pointer */
      assert_int_equal(call(options), 0);
    free(options);
  }
  unsigned char *longer = sized(known + 16, 0);
  memcpy(longer + sizeof known, (const unsigned char *)full + sizeof known, known - sizeof known);
  assert_int_equal(call(longer), 0);
  longer[known + 15] = 1;
  assert_int_equal(call(longer), OVL_ESTRUCTSIZE);
  assert_true(
      strlen(ovl_pipeline_error(call == create_with || call == create_with_allocator ? NULL : pipeline)) > 0);
  free(longer);
}

static void pipeline_options_of_any_version_are_taken(void **state) {
  (void)state;
  ovl_pipeline_options_t full;
  ovl_pipeline_options_init(&full);
  check_input(create_with, &full, sizeof full, offsetof(ovl_pipeline_options_t, compute));
}

static void an_allocator_needs_all_of_its_fields(void **state) {
  (void)state;
  ovl_allocator_t full;
  ovl_allocator_init(&full);
  full.allocate = allocate;
  full.release = release;
  check_input(create_with_allocator, &full, sizeof full, sizeof full);
}

static void lane_options_of_any_version_are_taken(void **state) {
  (void)state;
  ovl_lane_options_t full;
  ovl_lane_options_init(&full);
  full.name = "a";
  check_input(add_lane_with, &full, sizeof full, offsetof(ovl_lane_options_t, role));
}

static void stage_options_of_any_version_are_taken(void **state) {
  (void)state;
  ovl_stage_options_t full;
  ovl_stage_options_init(&full);
  full.name = "a";
  full.lane = lane;
  check_input(add_stage_with, &full, sizeof full, offsetof(ovl_stage_options_t, run));
}

static void simulations_of_any_version_are_taken(void **state) {
  (void)state;
  ovl_simulation_t full;
  ovl_simulation_init(&full);
  check_input(simulate_with, &full, sizeof full, offsetof(ovl_simulation_t, duration));
}

/* ---- the public structs that are written ------------------------------------------------------------------------- */

static int get_failure(void *into) { return ovl_pipeline_failure(pipeline, into); }
static int get_stats(void *into) { return ovl_pipeline_stats(pipeline, into); }
static int get_lane_stats(void *into) { return ovl_pipeline_lane_stats(pipeline, lane, into); }
static int get_stage_stats(void *into) { return ovl_pipeline_stage_stats(pipeline, stage, into); }
static int get_simulated(void *into) { return ovl_pipeline_simulate(pipeline, 2, NULL, into); }

/* The struct may be of any size from `least` on; whatever it is, only that many bytes of it change. */
static void check_size(int (*call)(void *), size_t size, size_t known, size_t least) {
  enum { GUARD = 32 };
  size_t written = size < known ? size : known;
  unsigned char *into = sized(size, 0xee), *guarded = sized(size + GUARD, 0xee);
  memcpy(guarded, &size, sizeof size);
  if (size > known) {
    memset(into + known, 0, size - known);
    memset(guarded + known, 0, size - known);
  }
  assert_int_equal(call(into), size < least ? OVL_ESTRUCTSIZE : 0);
  assert_int_equal(call(guarded), size < least ? OVL_ESTRUCTSIZE : 0);
  size_t kept;
  memcpy(&kept, guarded, sizeof kept);
  assert_int_equal(kept, size);
  for (size_t i = written > sizeof size ? written : sizeof size; i < size + GUARD; i++)
    assert_int_equal(guarded[i], i >= known && i < size ? 0 : 0xee);
  free(into);
  free(guarded);
}

static void check_output(int (*call)(void *), size_t known, size_t least) {
  for (size_t size = 0; size <= known + 16; size++)
    check_size(call, size, known, least);
  unsigned char *longer = sized(known + 16, 0);
  longer[known + 15] = 1;
  assert_int_equal(call(longer), OVL_ESTRUCTSIZE);
  free(longer);
}

static void a_failure_of_any_size_is_filled(void **state) {
  (void)state;
  check_output(get_failure, sizeof(ovl_failure_t), offsetof(ovl_failure_t, native));
}

static void statistics_of_any_size_are_filled(void **state) {
  (void)state;
  check_output(get_stats, sizeof(ovl_stats_t), offsetof(ovl_stats_t, microbatches));
  check_output(get_lane_stats, sizeof(ovl_lane_stats_t), offsetof(ovl_lane_stats_t, ops));
  check_output(get_stage_stats, sizeof(ovl_stage_stats_t), offsetof(ovl_stage_stats_t, ops));
  check_output(get_simulated, sizeof(ovl_stats_t), offsetof(ovl_stats_t, microbatches));
  assert_int_equal(ovl_pipeline_run(pipeline, 3), 0);
  check_output(get_stats, sizeof(ovl_stats_t), offsetof(ovl_stats_t, microbatches));
  check_output(get_lane_stats, sizeof(ovl_lane_stats_t), offsetof(ovl_lane_stats_t, ops));
  check_output(get_stage_stats, sizeof(ovl_stage_stats_t), offsetof(ovl_stage_stats_t, ops));
}

static void a_short_struct_has_the_figures_that_it_has_room_for(void **state) {
  (void)state;
  ovl_stats_t stats;
  assert_int_equal(ovl_pipeline_run(pipeline, 3), 0);
  memset(&stats, 0xee, sizeof stats);
  stats.size = offsetof(ovl_stats_t, elapsed_ns);
  assert_int_equal(ovl_pipeline_stats(pipeline, &stats), 0);
  assert_int_equal(stats.microbatches, 3);
  assert_int_equal(stats.ops, 3);
  assert_int_equal(stats.elapsed_ns, UINT64_C(0xeeeeeeeeeeeeeeee));
}

int main(void) {
#define with_pipeline(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_struct_of_the_right_size_is_read),
      cmocka_unit_test(what_a_shorter_struct_lacks_is_zero),
      cmocka_unit_test(a_struct_that_lacks_what_is_required_is_refused),
      cmocka_unit_test(a_tail_of_zeros_is_taken_and_any_other_refused),
      cmocka_unit_test(only_what_there_is_room_for_is_written),
      cmocka_unit_test(a_longer_struct_is_filled_if_its_tail_is_zero),
      with_pipeline(pipeline_options_of_any_version_are_taken),
      with_pipeline(an_allocator_needs_all_of_its_fields),
      with_pipeline(lane_options_of_any_version_are_taken),
      with_pipeline(stage_options_of_any_version_are_taken),
      with_pipeline(simulations_of_any_version_are_taken),
      with_pipeline(a_failure_of_any_size_is_filled),
      with_pipeline(statistics_of_any_size_are_filled),
      with_pipeline(a_short_struct_has_the_figures_that_it_has_room_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
