/* SPDX-License-Identifier: MIT */
/* Shows that for each cause which may keep lanes from working there is a finding, from a pipeline that has it, with
 * the figures behind it, and none from one that has not; and what other settings would bring. Where something has
 * to take long, runs are repeated with ever longer sleeps until the rest does not matter beside them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/nap.h"

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static uint64_t nap_ns;

static void take_long(void) { nap_for(nap_ns, 0); }

static int sleeps(ovl_op_t *op) {
  (void)op;
  take_long();
  return 0;
}

static int sleeps_first(ovl_op_t *op) {
  if (op->microbatch == 0)
    take_long();
  return 0;
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static ovl_lane_t named_lane(ovl_pipeline_t *p, const char *name, ovl_lane_kind_t kind, ovl_role_t role) {
  ovl_lane_options_t options = lane_options(name, kind, 1);
  options.role = role;
  return add_lane_with(p, &options);
}

static ovl_stage_t named_stage(ovl_pipeline_t *p, const char *name, ovl_lane_t lane, ovl_op_cb run) {
  ovl_stage_options_t options = stage_options(lane, run, NULL);
  options.name = name;
  return add_stage_with(p, &options);
}

static ovl_pipeline_t *two_lanes(uint32_t window, ovl_op_cb compute, ovl_op_cb comm) {
  ovl_pipeline_options_t options = pipeline_options(window);
  options.compute = compute;
  options.comm = comm;
  return make_pipeline(&options);
}

/* ---- explanations ------------------------------------------------------------------------------------------------ */

static char text[4000];

static const char *explain(const ovl_pipeline_t *p) {
  int length = ovl_pipeline_explain(p, text, sizeof text);
  assert_in_range(length, 1, sizeof text - 1);
  assert_int_equal(strlen(text), length);
  assert_int_equal(text[length - 1], '\n');
  return text;
}

static const char *run_and_explain(ovl_pipeline_t *p, uint64_t microbatches) {
  if (microbatches == OVL_STREAMING)
    assert_int_equal(ovl_pipeline_submit(p, NULL), 0); /* the first item; others follow */
  assert_int_equal(ovl_pipeline_run(p, microbatches), 0);
  return explain(p);
}

/* The line that begins so; "" if there is none. */
static const char *line_of(const char *all, const char *beginning) {
  static char line[1000];
  line[0] = '\0';
  while (all[0] != '\0') {
    size_t length = strcspn(all, "\n") + 1;
    if (strncmp(all, beginning, strlen(beginning)) == 0)
      snprintf(line, sizeof line, "%.*s", (int)length, all);
    all += length;
  }
  return line;
}

#define assert_finds(all, beginning, part)                                  \
  do {                                                                      \
    if (strstr(line_of(all, beginning), part) == NULL)                      \
      fail_msg("no line \"%s\" with \"%s\" in:\n%s", beginning, part, all); \
  } while (0)

#define assert_finds_not(all, beginning)                          \
  do {                                                            \
    if (line_of(all, beginning)[0] != '\0')                       \
      fail_msg("there is a line \"%s\" in:\n%s", beginning, all); \
  } while (0)

enum { SHORTEST_MS = 2, LONGEST_MS = 1024 };

/* Runs with longer and longer sleeps until there is such a line; the explanation. */
static const char *run_until_found(ovl_pipeline_t *p, uint64_t microbatches, const char *beginning,
                                   const char *part) {
  const char *all = "";
  for (uint64_t ms = SHORTEST_MS; ms <= LONGEST_MS && strstr(line_of(all, beginning), part) == NULL;
       ms *= 2) {
    nap_ns = ms * 1000000;
    all = run_and_explain(p, microbatches);
  }
  assert_finds(all, beginning, part);
  return all;
}

/* ---- what bounds a run ------------------------------------------------------------------------------------------- */

static void a_lane_that_works_all_the_time_is_the_bound(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, sleeps, no_op);
  const char *all = run_until_found(p, 3, "compute-bound", "lane \"compute\" works ");
  assert_finds(all, "overlapped run", "3 microbatches, 6 operations");
  assert_finds(all, "lane \"comm\"", "busy ");
  assert_finds_not(all, "comm-bound");
  assert_finds_not(all, "dependency-bound");
  assert_finds_not(all, "contention");
  assert_finds(all, "what if: lane \"compute\" width 1 -> 2", "would bring ");
  ovl_pipeline_close(p, NULL);
  p = two_lanes(2, no_op, sleeps);
  run_until_found(p, 3, "comm-bound", "lane \"comm\" works ");
  ovl_pipeline_close(p, NULL);
  ovl_pipeline_options_t options = pipeline_options(2);
  p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), sleeps, NULL);
  run_until_found(p, 3, "lane-bound", "lane \"lane 1\" works ");
  ovl_pipeline_close(p, NULL);
}

/* Both lanes work half of the time, in turns. */
static void what_a_larger_window_would_bring_is_told(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(1, sleeps, sleeps);
  const char *all = run_until_found(p, 4, "what if: window 1 -> 2", "would bring 1.");
  assert_finds(all, "lane \"compute\"", "waits for a slot");
  assert_finds(all, "lane \"comm\"", "waits for other operations");
  assert_finds_not(all, "compute-bound");
  assert_finds_not(all, "comm-bound");
  ovl_pipeline_close(p, NULL);
}

/* The first lane works most, and for the rest of the time waits for a slot. */
static void the_window_bounds_the_lane_that_works_most(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t first = named_lane(p, "first", OVL_LANE_POOL, OVL_ROLE_OTHER),
             second = named_lane(p, "second", OVL_LANE_POOL, OVL_ROLE_OTHER);
  named_stage(p, "one", first, sleeps);
  named_stage(p, "two", first, sleeps);
  named_stage(p, "three", second, sleeps);
  const char *all = run_until_found(p, 4, "window-bound", "lane \"first\" waits ");
  assert_finds(all, "window-bound", "the window of 1");
  ovl_pipeline_close(p, NULL);
}

static void a_dependency_is_found_and_named(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t first = named_lane(p, "first", OVL_LANE_POOL, OVL_ROLE_OTHER),
             second = named_lane(p, "second", OVL_LANE_POOL, OVL_ROLE_OTHER);
  named_stage(p, "begin", first, sleeps);
  named_stage(p, "fetch", second, sleeps);
  named_stage(p, "use", first, sleeps);
  ovl_stage_t begin = {1}, use = {3};
  assert_int_equal(ovl_pipeline_add_dependency(p, use, begin, 1), 0);
  const char *all = run_until_found(p, 3, "dependency-bound", "lane \"first\" waits ");
  assert_finds(all, "dependency-bound", "until \"fetch\" has ended and \"use\" may start");
  assert_finds_not(all, "what if"); /* neither would help */
  ovl_pipeline_close(p, NULL);
}

static void an_op_that_waits_for_its_turn_is_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t fixed = lane_options("collectives", OVL_LANE_POOL, 1);
  fixed.order = OVL_ORDER_FIXED;
  ovl_lane_t wide = add_lane(p, OVL_LANE_POOL, 4);
  ovl_lane_t lane = add_lane_with(p, &fixed);
  named_stage(p, "prepare", wide, sleeps_first); /* the second is ready at once */
  named_stage(p, "reduce", lane, sleeps);
  run_until_found(p, 2, "order-bound", "lane \"collectives\" waits ");
  ovl_pipeline_close(p, NULL);
}

static void a_run_that_only_fills_and_drains_is_found(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, sleeps, sleeps);
  run_until_found(p, 1, "few microbatches", "more of them than 1");
  ovl_pipeline_close(p, NULL);
}

/* The loop is busy elsewhere while an op of it could start. */
static void keep_the_loop(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
  take_long();
}

static void operations_that_are_short_and_wait_long_are_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_microbatch = keep_the_loop;
  ovl_pipeline_t *p = make_pipeline(&options);
  named_stage(p, "short", named_lane(p, "loop", OVL_LANE_LOOP, OVL_ROLE_OTHER), no_op);
  const char *all = run_until_found(p, 6, "dispatch-bound", "lane \"loop\" take ");
  assert_finds_not(all, "pool-starved");
  ovl_pipeline_close(p, NULL);
}

static void a_loop_lane_that_blocks_is_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  named_stage(p, "long", named_lane(p, "loop", OVL_LANE_LOOP, OVL_ROLE_OTHER), sleeps);
  run_until_found(p, 2, "blocked loop", "takes up to ");
  ovl_pipeline_close(p, NULL);
}

/* Items come one at a time, late: each when the one before it has retired. */
static void submit_late(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)item;
  (void)status;
  take_long();
  if (microbatch < 3)
    assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  else
    assert_int_equal(ovl_pipeline_finish(p), 0);
}

static void items_that_come_late_are_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_microbatch = submit_late;
  ovl_pipeline_t *p = make_pipeline(&options);
  named_stage(p, "short", named_lane(p, "loop", OVL_LANE_LOOP, OVL_ROLE_OTHER), no_op);
  run_until_found(p, OVL_STREAMING, "input-bound", "lane \"loop\" waits ");
  ovl_pipeline_close(p, NULL);
}

/* ---- beside a serial run ----------------------------------------------------------------------------------------- */

static void a_serial_run_is_told_what_overlap_would_bring(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, sleeps, sleeps);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  const char *all = run_until_found(p, 4, "what if: OVL_OVERLAP", "would bring 1.");
  assert_finds(all, "serial run", "4 microbatches, 8 operations");
  assert_finds(all, "serial: ", "OVL_OVERLAP");
  assert_finds_not(all, "window-bound");
  assert_finds_not(all, "dependency-bound");
  ovl_pipeline_close(p, NULL);
}

static uint64_t longest_serial;

/* Takes long in a serial run, and three times as long later. */
static int slower_when_overlapped(ovl_op_t *op) {
  uint64_t began = uv_hrtime();
  nap_for(*(bool *)op->data ? 3 * longest_serial : 2000000, 0);
  if (uv_hrtime() - began > longest_serial && !*(bool *)op->data)
    longest_serial = uv_hrtime() - began;
  return 0;
}

static void a_stage_that_is_slower_when_overlapped_is_found(void **state) {
  (void)state;
  bool overlapped = false;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lane = add_lane(p, OVL_LANE_POOL, 1);
  ovl_stage_options_t stage = stage_options(lane, slower_when_overlapped, &overlapped);
  stage.name = "copy";
  add_stage_with(p, &stage);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_finds_not(run_and_explain(p, 3), "contention");
  overlapped = true;
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_OVERLAP), 0);
  assert_finds(run_and_explain(p, 3), "contention", "\"copy\" takes ");
  ovl_pipeline_close(p, NULL);
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static void a_text_that_does_not_fit_is_cut_off(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, sleeps, no_op);
  run_and_explain(p, 2);
  static char part[sizeof text];
  int whole = (int)strlen(text);
  for (size_t bytes = 0; bytes <= (size_t)whole + 1; bytes++) {
    memset(part, 'x', sizeof part);
    assert_int_equal(ovl_pipeline_explain(p, bytes > 0 ? part : NULL, bytes), whole);
    assert_int_equal(part[bytes], 'x');
    if (bytes == 0)
      continue;
    assert_int_equal(strlen(part), bytes - 1);
    if (bytes == (size_t)whole + 1)
      assert_string_equal(part, text);
    else if (bytes > 4)
      assert_string_equal(part + bytes - 5, "...\n");
  }
  assert_int_equal(ovl_pipeline_explain(NULL, part, sizeof part), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_explain(p, NULL, 1), OVL_EINVAL);
  ovl_pipeline_close(p, NULL);
}

static void without_a_run_or_statistics_there_is_one_line(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.no_stats = 1;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), no_op, NULL);
  assert_string_equal(explain(p), "nothing has run yet\n");
  const char *all = run_and_explain(p, 2);
  assert_ptr_equal(strchr(all, '\n') + 1, all + strlen(all));
  assert_finds(all, "overlapped run", "2 microbatches");
  ovl_pipeline_close(p, NULL);
}

static char in_flight[sizeof text];

static int explains(ovl_op_t *op) {
  if (op->microbatch == 2)
    ovl_pipeline_explain(op->pipeline, in_flight, sizeof in_flight);
  return sleeps(op);
}

static void a_run_in_flight_is_explained_without_simulation(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(1, sleeps, explains);
  run_until_found(p, 4, "what if: window 1 -> 2", "would bring");
  assert_finds(in_flight, "overlapped run so far", "5 operations");
  assert_finds_not(in_flight, "what if");
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  setenv("UV_THREADPOOL_SIZE", "4", 1); /* before libuv makes its threads */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lane_that_works_all_the_time_is_the_bound),
      cmocka_unit_test(what_a_larger_window_would_bring_is_told),
      cmocka_unit_test(the_window_bounds_the_lane_that_works_most),
      cmocka_unit_test(a_dependency_is_found_and_named),
      cmocka_unit_test(an_op_that_waits_for_its_turn_is_found),
      cmocka_unit_test(a_run_that_only_fills_and_drains_is_found),
      cmocka_unit_test(operations_that_are_short_and_wait_long_are_found),
      cmocka_unit_test(a_loop_lane_that_blocks_is_found),
      cmocka_unit_test(items_that_come_late_are_found),
      cmocka_unit_test(a_serial_run_is_told_what_overlap_would_bring),
      cmocka_unit_test(a_stage_that_is_slower_when_overlapped_is_found),
      cmocka_unit_test(a_text_that_does_not_fit_is_cut_off),
      cmocka_unit_test(without_a_run_or_statistics_there_is_one_line),
      cmocka_unit_test(a_run_in_flight_is_explained_without_simulation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
