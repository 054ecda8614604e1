/* SPDX-License-Identifier: MIT */
/* Case 6: pipelines on a thread pool that may be too small for them: they complete, and the statistics say what was
 * missing. [libuv 2618, 660] Built twice: with the pool that the environment says, and with a pool of one thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/graphs.h"
#include "support/pool.h"
#include "support/scale.h"
#include "support/watchdog.h"

static void case_06_every_graph_completes(void **state) {
  (void)state;
  run_all_graphs(TEST_SANITIZED ? 20 : 100);
}

static int sleep_op(ovl_op_t *op) {
  (void)op;
  uv_sleep(3);
  return 0;
}

static bool names_the_pool(const ovl_stats_t *stats) {
  return strstr(stats->finding, "pool is starved") != NULL;
}

/* What the statistics must say of a run of long ops of which `width` could have run at once. */
static void check_finding(const char *what, const ovl_stats_t *stats, unsigned width) {
  print_message("%s: %u of %u threads, waited %.1f of %.1f ms: \"%s\"\n", what, (unsigned)stats->pool_peak,
                (unsigned)stats->pool_width, (double)stats->pool_wait_ns / 1e6,
                (double)stats->elapsed_ns / 1e6, stats->finding);
  assert_int_equal(stats->pool_width, width);
  assert_true(stats->pool_peak >= 1 && stats->pool_peak <= width && stats->pool_peak <= pool_size());
  assert_true(stats->pool_wait_ns <= stats->elapsed_ns);
  if (pool_size() < width) {
    assert_true(names_the_pool(stats));
    assert_true(stats->pool_wait_ns > stats->elapsed_ns / 10);
  } else {
    assert_false(names_the_pool(stats));
  }
}

static void case_06_finding_for_two_lanes(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  options.compute = options.comm = sleep_op;
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("two lanes of long ops");
  assert_int_equal(ovl_pipeline_run(p, 20), 0);
  ovl_stats_t stats = stats_of(p);
  check_finding("two lanes", &stats, 2);
  if (pool_size() == 1) {
    assert_true(stats.hidden_ns == 0);
    assert_true(stats.exposed_ns > 0);
  }
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(ovl_pipeline_run(p, 5), 0);
  stats = stats_of(p);
  assert_string_equal(stats.finding, ""); /* no overlap was asked for */
  ovl_pipeline_close(p, NULL);
}

/* One lane of `width`, or that many lanes of width 1. */
static void find_for_width(const char *what, uint32_t width, uint32_t lanes, uint32_t window,
                           unsigned expected) {
  ovl_pipeline_options_t options = pipeline_options(window);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (uint32_t i = 0; i < lanes; i++) {
    ovl_stage_options_t stage = stage_options(add_lane(p, OVL_LANE_POOL, width), sleep_op, NULL);
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
  watchdog_expect(what);
  assert_int_equal(ovl_pipeline_run(p, 20), 0);
  ovl_stats_t stats = stats_of(p);
  check_finding(what, &stats, expected);
  ovl_pipeline_close(p, NULL);
}

static void case_06_finding_for_other_shapes(void **state) {
  (void)state;
  find_for_width("a lane that needs one thread", 1, 1, 4, 1);
  find_for_width("a wide lane", 12, 1, 24, 12);
  find_for_width("many lanes", 1, 12, 4, 12);
  find_for_width("a lane wider than the window", 16, 1, 1, 1);
}

static void case_06_no_finding_without_need(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), sleep_op, NULL);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 1), NULL, NULL);
  watchdog_expect("a pool lane and a loop lane");
  assert_int_equal(ovl_pipeline_run(p, 10), 0);
  ovl_stats_t stats = stats_of(p);
  check_finding("a pool lane and a loop lane", &stats, 1);
  ovl_pipeline_close(p, NULL);
}

/* One thread is all that it could use, since its window is 1. */
static void case_06_no_finding_when_nothing_waited(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  options.compute = options.comm = sleep_op;
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("window 1");
  for (int run = 0; run < 3; run++) {
    assert_int_equal(ovl_pipeline_run(p, 2), 0);
    ovl_stats_t stats = stats_of(p);
    print_message("window 1: waited %.1f of %.1f ms: \"%s\"\n", (double)stats.pool_wait_ns / 1e6,
                  (double)stats.elapsed_ns / 1e6, stats.finding);
    assert_true(stats.pool_wait_ns + stats.work_ns <=
                stats.elapsed_ns);                   /* there is one op: it waits or works */
    if (stats.pool_wait_ns <= stats.elapsed_ns / 10) /* more is the machine's fault */
      assert_non_null(strstr(stats.finding, "window is 1"));
  }
  ovl_pipeline_close(p, NULL);
}

/* ---- a pool that the application keeps busy --------------------------------------------------------------------- */

enum { HOGS_MOST = 1024, HOG_MS = 150 };

typedef struct hogs {
  uv_work_t works[HOGS_MOST];
  uv_timer_t timer;
  atomic_bool free; /* they let the threads go */
} hogs_t;

static void hog(uv_work_t *work) {
  const hogs_t *hogs = work->data;
  while (!atomic_load(&hogs->free))
    uv_sleep(1);
}

static void after_hog(uv_work_t *work, int status) {
  (void)work;
  (void)status;
}

static void free_hogs(uv_timer_t *timer) {
  hogs_t *hogs = timer->data;
  atomic_store(&hogs->free, true);
  uv_close((uv_handle_t *)timer, NULL);
}

static void start_hogs(hogs_t *hogs, uv_loop_t *loop) {
  for (unsigned i = 0; i < pool_size() && i < HOGS_MOST; i++) {
    hogs->works[i].data = hogs;
    assert_int_equal(uv_queue_work(loop, &hogs->works[i], hog, after_hog), 0);
  }
  uv_timer_init(loop, &hogs->timer);
  hogs->timer.data = hogs;
}

/* All threads are taken at first, and the run waits for most of its time; then it has all that it can use. */
static void case_06_finding_for_a_pool_that_others_keep_busy(void **state) {
  static hogs_t hogs;
  uv_loop_t loop;
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  options.compute = options.comm = sleep_op;
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("a pool that others keep busy");
  assert_int_equal(uv_loop_init(&loop), 0);
  start_hogs(&hogs, &loop);
  assert_int_equal(ovl_pipeline_start(p, &loop, 5, NULL), 0);
  uv_update_time(&loop);
  uv_timer_start(&hogs.timer, free_hogs, HOG_MS, 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  ovl_stats_t stats = stats_of(p);
  print_message("busy pool: %u of %u threads, waited %.1f of %.1f ms: \"%s\"\n", (unsigned)stats.pool_peak,
                (unsigned)stats.pool_width, (double)stats.pool_wait_ns / 1e6, (double)stats.elapsed_ns / 1e6,
                stats.finding);
  assert_true(stats.pool_wait_ns >= (HOG_MS - 2) * UINT64_C(1000000));
  assert_true(stats.pool_wait_ns <= stats.elapsed_ns);
  if (stats.pool_wait_ns > stats.elapsed_ns / 5 * 3) /* less if the machine itself is busy */
    assert_true(names_the_pool(&stats));
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_06_every_graph_completes),
      cmocka_unit_test(case_06_finding_for_two_lanes),
      cmocka_unit_test(case_06_finding_for_other_shapes),
      cmocka_unit_test(case_06_no_finding_without_need),
      cmocka_unit_test(case_06_no_finding_when_nothing_waited),
      cmocka_unit_test(case_06_finding_for_a_pool_that_others_keep_busy),
  };
  set_pool_size();
  printf("a pool of %u\n", pool_size());
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
