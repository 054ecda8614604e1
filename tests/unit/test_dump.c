/* SPDX-License-Identifier: MIT */
/* Shows that a dump tells who waits for whom: from a callback, between turns of the loop, and from another thread
 * while a run goes on. All ops are on the loop, and end when the test says so. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"

static char text[16000];

static const char *dump(const ovl_pipeline_t *p) {
  int length = ovl_pipeline_dump(p, text, sizeof text);
  assert_int_equal(strlen(text), length);
  return text;
}

#define assert_says(all, part)                           \
  do {                                                   \
    if (strstr(all, part) == NULL)                       \
      fail_msg("there is no \"%s\" in:\n%s", part, all); \
  } while (0)

/* ---- a run that is driven by hand ---------------------------------------------------------------------------------- */

enum { MOST_OPS = 64 };

static ovl_op_t *pending[MOST_OPS]; /* in the order of their starts */
static uint32_t pending_count;
static uv_loop_t loop;
static int done_status;

static int pends(ovl_op_t *op) {
  pending[pending_count++] = op;
  return OVL_PENDING;
}

static void done(ovl_pipeline_t *p, int status) {
  (void)p;
  done_status = status;
}

static ovl_stage_t stage_named(ovl_pipeline_t *p, const char *name, ovl_lane_t lane, ovl_op_cb run) {
  ovl_stage_options_t options = stage_options(lane, run, NULL);
  options.name = name;
  return add_stage_with(p, &options);
}

static ovl_lane_t lane_named(ovl_pipeline_t *p, const char *name, uint32_t width) {
  ovl_lane_options_t options = lane_options(name, OVL_LANE_LOOP, width);
  return add_lane_with(p, &options);
}

static void start(ovl_pipeline_t *p, uint64_t microbatches) {
  pending_count = 0;
  done_status = 1;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, microbatches, done), 0);
}

/* Turns the loop until so many ops have started in all. */
static void turn_until(uint32_t ops) {
  while (pending_count < ops)
    uv_run(&loop, UV_RUN_ONCE);
}

/* Completes all ops as they come, until the run is over. */
static void finish(ovl_pipeline_t *p, uint32_t completed) {
  bool alive = true;
  while (alive) {
    for (; completed < pending_count; completed++)
      assert_int_equal(ovl_op_complete(pending[completed], 0), 0);
    alive = uv_run(&loop, UV_RUN_ONCE) != 0;
  }
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(done_status, 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- what it says -------------------------------------------------------------------------------------------------- */

static void ops_that_run_are_ready_or_wait_are_told(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "load", lane_named(p, "disk", 1), pends);
  ovl_stage_t send = stage_named(p, "send", lane_named(p, "net", 1), pends);
  assert_int_equal(ovl_pipeline_add_dependency(p, send, send, 1), 0);
  assert_string_equal(dump(p), "no run in flight\n");
  start(p, 5);
  turn_until(1);
  const char *all = dump(p);
  assert_says(all, "run: overlapped since ");
  assert_says(all, " 2 microbatches admitted of 5, 0 retired, 2 of 2 slots taken\n");
  assert_says(all, "lane \"disk\": 1 of 1 busy\n  runs: \"load\" of microbatch 0 for ");
  assert_says(all, ", waits for ovl_op_complete\n  ready: \"load\" of microbatch 1 for ");
  assert_says(all, "lane \"net\": 0 of 1 busy, 1 idle: not reached yet\n");
  assert_says(all, "  waits: \"send\" of microbatch 0 for \"load\" of microbatch 0\n");
  assert_says(all, "  waits: \"send\" of microbatch 1 for ");
  assert_says(strstr(all, "\"send\" of microbatch 1 for "), "\"load\" of microbatch 1");
  assert_says(strstr(all, "\"send\" of microbatch 1 for "), "\"send\" of microbatch 0");
  assert_says(all, "slot 0: microbatch 0, 2 operations left\nslot 1: microbatch 1, 2 operations left\n");
  assert_int_equal(ovl_op_complete(pending[0], 0), 0);
  turn_until(3); /* the second load, and the first send */
  if (pending[1]->stage.id == send.id) {
    ovl_op_t *first_send = pending[1];
    pending[1] = pending[2];
    pending[2] = first_send;
  }
  assert_int_equal(ovl_op_complete(pending[1], 0), 0);
  assert_says(dump(p), "  waits: \"send\" of microbatch 1 for \"send\" of microbatch 0\n");
  finish(p, 2);
}

/* The older microbatch comes first, whatever its slot. */
static void the_oldest_microbatch_comes_first(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.no_stats = 1; /* which it does not rest on */
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "step", lane_named(p, "wide", 2), pends);
  start(p, 4);
  turn_until(2);
  assert_int_equal(ovl_op_complete(pending[0], 0), 0);
  turn_until(3); /* microbatch 2, in slot 0 */
  const char *all = dump(p), *older = strstr(all, "runs: \"step\" of microbatch 1"),
             *younger = strstr(all, "runs: \"step\" of microbatch 2");
  assert_true(older != NULL && younger != NULL && older < younger);
  finish(p, 1);
}

static void no_more_than_eight_of_a_kind_are_listed(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(20);
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "step", lane_named(p, "one", 1), pends);
  start(p, 20);
  turn_until(1);
  const char *all = dump(p);
  assert_says(all, "\"step\" of microbatch 8 for ");
  assert_null(strstr(all, "\"step\" of microbatch 9 for "));
  assert_says(all, "  and 11 more\n"); /* 19 are ready */
  assert_says(all, "slot 7: ");
  assert_null(strstr(all, "slot 8: "));
  assert_says(all, "and 12 slots more\n");
  finish(p, 0);
}

static void a_stream_tells_its_items(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  options.queue = 4;
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "first", lane_named(p, "one", 1), pends);
  stage_named(p, "second", lane_named(p, "two", 1), pends);
  start(p, OVL_STREAMING);
  assert_says(dump(p), "0 microbatches admitted, 0 items wait, 0 retired, 0 of 1 slots taken\n");
  assert_says(dump(p), "lane \"one\": 0 of 1 busy, 1 idle: waits for items\n");
  for (int i = 0; i < 3; i++)
    assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  assert_int_equal(ovl_pipeline_finish(p), 0);
  turn_until(1);
  assert_int_equal(ovl_op_complete(pending[0], 0), 0);
  turn_until(2);
  assert_says(dump(p), "1 microbatches admitted, 2 items wait, finished, 0 retired");
  assert_says(dump(p), "lane \"one\": 0 of 1 busy, 1 idle: waits for a slot\n");
  finish(p, 1);
}

/* ---- errors and callbacks -------------------------------------------------------------------------------------------- */

static int dumps(ovl_op_t *op) {
  dump(op->pipeline);
  return 0;
}

static char at_report[sizeof text];

static void dumps_at_report(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)microbatch;
  (void)item;
  (void)status;
  assert_in_range(ovl_pipeline_dump(p, at_report, sizeof at_report), 1, sizeof at_report);
}

static void callbacks_may_ask_for_it(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  options.on_microbatch = dumps_at_report;
  options.mode = OVL_SERIAL;
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "look", lane_named(p, "one", 1), dumps);
  assert_int_equal(ovl_pipeline_run(p, 1), 0);
  assert_says(text, "run: serial since ");
  assert_says(text, ", in its callback\n");
  assert_says(at_report, "slot 0: microbatch 0, ended, waits for its report\n");
  assert_says(at_report, "lane \"one\": 0 of 1 busy, 1 idle: nothing more to come\n");
  ovl_pipeline_close(p, NULL);
}

static void an_error_is_told(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  stage_named(p, "step", lane_named(p, "two", 2), pends);
  stage_named(p, "next", lane_named(p, "one", 1), pends);
  start(p, 5);
  turn_until(2);
  assert_int_equal(ovl_op_complete(pending[0], OVL_ETIMEDOUT), 0);
  const char *all = dump(p);
  assert_says(all, "1 of 2 slots taken, stopped\n");
  assert_says(all, "slot 1: microbatch 1, 2 operations left, failed: OVL_ECANCELED\n");
  assert_int_equal(ovl_op_complete(pending[1], 0), 0);
  while (uv_run(&loop, UV_RUN_ONCE) != 0)
    ;
  assert_int_equal(done_status, OVL_ETIMEDOUT);
  assert_int_equal(uv_loop_close(&loop), 0);
  ovl_pipeline_close(p, NULL);
}

static void what_does_not_fit_is_cut_off(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  char small[10];
  assert_int_equal(ovl_pipeline_dump(NULL, small, sizeof small), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_dump(p, NULL, 1), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_dump(p, NULL, 0), strlen("no run in flight\n"));
  assert_int_equal(ovl_pipeline_dump(p, small, sizeof small), strlen("no run in flight\n"));
  assert_string_equal(small, "no ru...\n");
  ovl_pipeline_close(p, NULL);
}

/* ---- another thread --------------------------------------------------------------------------------------------------- */

typedef struct watcher {
  ovl_pipeline_t *p;
  atomic_int looks, stop;
} watcher_t;

static void watch(void *argument) {
  watcher_t *w = argument;
  static char seen[sizeof text];
  while (!atomic_load(&w->stop)) {
    if (ovl_pipeline_dump(w->p, seen, sizeof seen) <= 0)
      atomic_fetch_add(&w->looks, -1000000);
    atomic_fetch_add(&w->looks, 1);
    uv_sleep(0);
  }
}

static watcher_t watcher;

static int waits_for_watcher(ovl_op_t *op) {
  while (op->microbatch == 0 && atomic_load(&watcher.looks) < 5 && atomic_load(&watcher.looks) >= 0)
    uv_sleep(1);
  return 0;
}

static void another_thread_may_ask_at_any_time(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  options.compute = options.comm = waits_for_watcher;
  watcher.p = make_pipeline(&options);
  uv_thread_t thread;
  assert_int_equal(uv_thread_create(&thread, watch, &watcher), 0);
  int status = ovl_pipeline_run(watcher.p, 500);
  atomic_store(&watcher.stop, 1);
  uv_thread_join(&thread);
  assert_int_equal(status, 0);
  assert_true(atomic_load(&watcher.looks) >= 5);
  ovl_pipeline_close(watcher.p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_that_run_are_ready_or_wait_are_told),
      cmocka_unit_test(the_oldest_microbatch_comes_first),
      cmocka_unit_test(no_more_than_eight_of_a_kind_are_listed),
      cmocka_unit_test(a_stream_tells_its_items),
      cmocka_unit_test(callbacks_may_ask_for_it),
      cmocka_unit_test(an_error_is_told),
      cmocka_unit_test(what_does_not_fit_is_cut_off),
      cmocka_unit_test(another_thread_may_ask_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
