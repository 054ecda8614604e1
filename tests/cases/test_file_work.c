/* SPDX-License-Identifier: MIT */
/* Case 9: the application's file work shares the thread pool with pipelines, and is answered while they wait long,
 * and while they keep every thread busy. [libuv 2618] Built twice: with the pool that the environment says, and with
 * a pool of one thread. */
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/pool.h"
#include "support/scale.h"
#include "support/watchdog.h"

enum { ANSWERS = 5, MOST_OPS = 64 };
#define GIVE_UP_MS 60000
/* An answer comes after a few turns of 10 ms of the crews' threads, however wide the lanes are; so one of several
 * comes within this even where a thread waits long for a processor. */
#define ANSWER_NS (UINT64_C(1000000000) * (TEST_SANITIZED ? 4 : 1))
#define ENDLESS (UINT64_C(1) << 60)

typedef struct app {
  uv_loop_t loop;
  uv_fs_t stat;
  uv_timer_t give_up;
  int answers;
  uint64_t asked, fastest; /* ns: when; and the shortest time to an answer */
  ovl_pipeline_t *pipelines[2];
  int pipeline_count, in_flight;
} app_t;

static void end_runs(app_t *app) {
  for (int i = 0; i < app->pipeline_count; i++)
    ovl_pipeline_cancel(app->pipelines[i]);
  uv_close((uv_handle_t *)&app->give_up, NULL);
}

static void on_give_up(uv_timer_t *timer) {
  app_t *app = timer->data;
  note_fault("only %d of %d uv_fs_stat were answered", app->answers, ANSWERS);
  uv_cancel((uv_req_t *)&app->stat);
  end_runs(app);
}

static void ask(app_t *app);

static void on_stat(uv_fs_t *stat) {
  app_t *app = stat->data;
  expect(stat->result == 0 || stat->result == UV_ECANCELED, "uv_fs_stat: %d", (int)stat->result);
  uv_fs_req_cleanup(stat);
  if (uv_is_closing((uv_handle_t *)&app->give_up))
    return;
  expect(app->in_flight == app->pipeline_count, "a run ended by itself");
  uint64_t waited = uv_hrtime() - app->asked;
  app->fastest = waited < app->fastest ? waited : app->fastest;
  if (++app->answers < ANSWERS)
    ask(app);
  else
    end_runs(app);
}

static void ask(app_t *app) {
  app->stat.data = app;
  app->asked = uv_hrtime();
  int r = uv_fs_stat(&app->loop, &app->stat, ".", on_stat);
  expect(r == 0, "uv_fs_stat: %s", uv_err_name(r));
}

static void on_run_ended(ovl_pipeline_t *p, int status) {
  app_t *app = ovl_pipeline_data(p);
  app->in_flight--;
  expect(status == OVL_ECANCELED, "the run ended with %s", ovl_err_name(status));
}

static void run_app(app_t *app, const char *what, uint64_t microbatches) {
  watchdog_expect(what);
  assert_int_equal(uv_timer_init(&app->loop, &app->give_up), 0);
  app->give_up.data = app;
  uv_timer_start(&app->give_up, on_give_up, GIVE_UP_MS, 0);
  for (int i = 0; i < app->pipeline_count; i++) {
    assert_int_equal(ovl_pipeline_start(app->pipelines[i], &app->loop, microbatches, on_run_ended), 0);
    app->in_flight++;
  }
  ask(app);
  uv_run(&app->loop, UV_RUN_DEFAULT);
  assert_int_equal(app->in_flight, 0);
  for (int i = 0; i < app->pipeline_count; i++)
    ovl_pipeline_close(app->pipelines[i], NULL);
  assert_int_equal(uv_loop_close(&app->loop), 0);
  print_message("%s: a uv_fs_stat was answered after %.1f ms\n", what, (double)app->fastest / 1e6);
  expect(app->fastest < ANSWER_NS, "all answers took more than %d ms", (int)(ANSWER_NS / 1000000));
  assert_no_faults(what);
}

static void app_init(app_t *app) {
  memset(app, 0, sizeof *app);
  app->fastest = UINT64_MAX;
  assert_int_equal(uv_loop_init(&app->loop), 0);
}

static ovl_pipeline_t *app_pipeline(app_t *app, uint32_t window) {
  ovl_pipeline_options_t options = pipeline_options(window);
  options.data = app;
  ovl_pipeline_t *p = make_pipeline(&options);
  app->pipelines[app->pipeline_count++] = p;
  return p;
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

/* An op that waits for somebody else, until its run is cancelled. */
static int wait_op(ovl_op_t *op) {
  (void)op;
  return OVL_PENDING;
}

static void answer_waiting_op(ovl_op_t *op) {
  int r = ovl_op_complete(op, OVL_ECANCELED);
  expect(r == 0, "completing a cancelled op: %s", ovl_err_name(r));
}

static int cancel_waiting_op(ovl_op_t *op) {
  answer_waiting_op(op);
  return 0;
}

static void poll_nothing(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
}

/* `lanes` lanes of that kind on which every op waits for a foreign completion. */
static void wait_on(const char *what, ovl_lane_kind_t kind, uint32_t lanes, uint32_t width,
                    ovl_poll_cb poll) {
  app_t app;
  app_init(&app);
  ovl_pipeline_t *p = app_pipeline(&app, 8);
  for (uint32_t i = 0; i < lanes; i++) {
    ovl_lane_options_t lane = lane_options(NULL, kind, width);
    lane.poll = poll;
    ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), wait_op, NULL);
    stage.cancel = cancel_waiting_op;
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
  run_app(&app, what, 100);
}

static void case_09_files_answer_while_a_run_waits(void **state) {
  (void)state;
  wait_on("ops pending on a pool lane", OVL_LANE_POOL, 1, 1, NULL);
  wait_on("ops pending on wide pool lanes", OVL_LANE_POOL, 4, 4, NULL);
  wait_on("ops pending on a loop lane", OVL_LANE_LOOP, 1, 1, NULL);
  wait_on("ops pending on a polled lane", OVL_LANE_POOL, 1, 1, poll_nothing);
  wait_on("ops pending on more polled lanes than threads", OVL_LANE_POOL, 12, 1, poll_nothing);
  wait_on("ops pending on a polled loop lane", OVL_LANE_LOOP, 2, 2, poll_nothing);
  app_t app;
  app_init(&app);
  ovl_pipeline_t *p = app_pipeline(&app, 8);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), no_op, NULL);
  run_app(&app, "a streaming run without items", OVL_STREAMING);
}

static int short_op(ovl_op_t *op) {
  uint64_t until = uv_hrtime() + *(const uint64_t *)op->data;
  while (uv_hrtime() < until)
    ;
  return 0;
}

/* A pipeline whose lanes always have something to run. */
static void add_saturated(app_t *app, ovl_lane_kind_t kind, uint32_t lanes, uint32_t width, uint64_t *op_ns) {
  ovl_pipeline_t *p = app_pipeline(app, 2 * width);
  for (uint32_t i = 0; i < lanes; i++)
    add_stage(p, add_lane(p, kind, width), *op_ns == 0 ? no_op : short_op, op_ns);
}

static void saturate(const char *what, ovl_lane_kind_t kind, uint32_t lanes, uint32_t width, uint64_t op_ns) {
  app_t app;
  app_init(&app);
  add_saturated(&app, kind, lanes, width, &op_ns);
  run_app(&app, what, ENDLESS);
}

static void case_09_files_answer_while_the_pool_is_saturated(void **state) {
  (void)state;
  saturate("a wide lane of empty ops", OVL_LANE_POOL, 1, MOST_OPS, 0);
  saturate("a wide lane of short ops", OVL_LANE_POOL, 1, MOST_OPS, 20000);
  saturate("a wide lane of long ops", OVL_LANE_POOL, 1, MOST_OPS, 2000000);
  saturate("two lanes of empty ops", OVL_LANE_POOL, 2, 1, 0);
  saturate("two lanes of short ops", OVL_LANE_POOL, 2, 1, 20000);
  saturate("twelve lanes of short ops", OVL_LANE_POOL, 12, 1, 20000);
  saturate("a loop lane of empty ops", OVL_LANE_LOOP, 2, 1, 0);
  saturate("a loop lane of short ops", OVL_LANE_LOOP, 2, 1, 20000);
}

static void case_09_two_pipelines_share_the_pool_with_files(void **state) {
  (void)state;
  uint64_t op_ns = 20000;
  app_t app;
  app_init(&app);
  add_saturated(&app, OVL_LANE_POOL, 2, MOST_OPS / 4, &op_ns);
  add_saturated(&app, OVL_LANE_POOL, 2, MOST_OPS / 4, &op_ns);
  run_app(&app, "two pipelines on one loop", ENDLESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_09_files_answer_while_a_run_waits),
      cmocka_unit_test(case_09_files_answer_while_the_pool_is_saturated),
      cmocka_unit_test(case_09_two_pipelines_share_the_pool_with_files),
  };
  set_pool_size();
  printf("a pool of %u\n", pool_size());
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
