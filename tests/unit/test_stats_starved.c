/* SPDX-License-Identifier: MIT */
/* Shows that with a thread pool of one thread a run completes, overlaps nothing, and says why. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/nap.h"

static uint64_t run_began;
static int ops_begun; /* there is one thread */

/* The second op takes longer than all that was before it, while a third, of the other lane, could run if it had a
 * thread. The rest takes no time, so it is most of the run. */
static int take_most_of_the_time(ovl_op_t *op) {
  (void)op;
  if (ops_begun++ == 1)
    nap_for(2 * (uv_hrtime() - run_began), 50000000);
  return 0;
}

static void a_starved_pool_is_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.compute = options.comm = take_most_of_the_time;
  ovl_pipeline_t *p = make_pipeline(&options);
  run_began = uv_hrtime();
  assert_int_equal(ovl_pipeline_run(p, 2), 0);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.ops, 4);
  assert_int_equal(s.pool_width, 2);
  assert_int_equal(s.pool_peak, 1);
  assert_int_equal(s.hidden_ns, 0);
  assert_true(s.concurrency <= 1.0);
  assert_true(s.pool_wait_ns > 0 && s.pool_wait_ns <= s.elapsed_ns);
  assert_non_null(strstr(s.finding, "UV_THREADPOOL_SIZE"));
  char text[2000];
  assert_true(ovl_pipeline_explain(p, text, sizeof text) > 0);
  assert_non_null(strstr(text, "of 2 that could work 1 did; raise"));
  ovl_pipeline_close(p, NULL);
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void any_window_and_width_completes_on_one_thread(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 5; window++)
    for (uint32_t width = 1; width <= 4; width++) {
      ovl_pipeline_options_t options = pipeline_options(window);
      ovl_pipeline_t *p = make_pipeline(&options);
      for (int s = 0; s < 3; s++)
        add_stage(p, add_lane(p, OVL_LANE_POOL, width), no_op, NULL);
      assert_int_equal(ovl_pipeline_run(p, 40), 0);
      assert_int_equal(stats_of(p).ops, 120);
      assert_int_equal(stats_of(p).pool_peak, 1);
      ovl_pipeline_close(p, NULL);
    }
}

int main(void) {
  setenv("UV_THREADPOOL_SIZE", "1", 1); /* before libuv makes its threads */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_starved_pool_is_found),
      cmocka_unit_test(any_window_and_width_completes_on_one_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
