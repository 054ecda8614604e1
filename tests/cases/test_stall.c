/* SPDX-License-Identifier: MIT */
/* A run that stands still says so, and who waits for whom: once for each stall, on the loop's thread, and only if
 * somebody asked. Whatever else a slow machine may take for a stall, the ones here last until they are told. */
#include <string.h>
#include <uv.h>

#include "support/cmocka_all.h"
#include "support/describe.h"

#define STALL_NS UINT64_C(2000000)

enum { MICROBATCHES = 3, LONG_MS = 20 };

typedef struct story {
  ovl_pipeline_t *p;
  uv_loop_t loop;
  uv_thread_t thread; /* the loop's */
  uv_timer_t timer;
  ovl_op_t *pending;
  uint32_t stalls;
  uint32_t stalls_of_op; /* while the op was pending, not before its start or after its end */
  char text[9000];       /* of the last stall */
  void (*at_stall)(struct story *story);
  int done;
  int status;
} story_t;

static int pends(ovl_op_t *op) {
  story_t *story = ovl_pipeline_data(op->pipeline);
  story->pending = op;
  return OVL_PENDING;
}

static void complete_pending(story_t *story) {
  if (story->pending != NULL)
    assert_int_equal(ovl_op_complete(story->pending, 0), 0);
  story->pending = NULL;
}

static void on_stall(ovl_pipeline_t *p, const char *text) {
  story_t *story = ovl_pipeline_data(p);
  uv_thread_t self = uv_thread_self();
  assert_true(uv_thread_equal(&self, &story->thread));
  assert_int_equal(ovl_pipeline_run(p, 1), OVL_EDEADLK); /* it is a callback like others */
  assert_true(strlen(text) < sizeof story->text);
  strcpy(story->text, text);
  story->stalls++;
  if (story->at_stall != NULL)
    story->at_stall(story);
}

static void done(ovl_pipeline_t *p, int status) {
  story_t *story = ovl_pipeline_data(p);
  story->done++;
  story->status = status;
}

static void story_begin(story_t *story, ovl_op_cb run, uint64_t stall_ns, uint64_t microbatches) {
  memset(story, 0, sizeof *story);
  ovl_pipeline_options_t options = pipeline_options(1);
  options.data = story;
  options.stall_ns = stall_ns;
  options.on_stall = on_stall;
  story->p = make_pipeline(&options);
  ovl_lane_options_t lane = lane_options("line", OVL_LANE_LOOP, 1);
  ovl_stage_options_t stage = stage_options(add_lane_with(story->p, &lane), run, NULL);
  stage.name = "call";
  add_stage_with(story->p, &stage);
  story->thread = uv_thread_self();
  assert_int_equal(uv_loop_init(&story->loop), 0);
  assert_int_equal(uv_timer_init(&story->loop, &story->timer), 0);
  story->timer.data = story;
  assert_int_equal(ovl_pipeline_start(story->p, &story->loop, microbatches, done), 0);
}

/* Nothing is left in the loop when the run is over. */
static void story_end(story_t *story, int status) {
  uv_run(&story->loop, UV_RUN_DEFAULT);
  assert_int_equal(story->done, 1);
  assert_int_equal(story->status, status);
  if (!uv_is_closing((uv_handle_t *)&story->timer))
    uv_close((uv_handle_t *)&story->timer, NULL);
  uv_run(&story->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&story->loop), 0);
}

/* ---- stalls --------------------------------------------------------------------------------------------------------- */

/* Each op waits until its stall has been told. */
static void every_stall_is_told_with_who_waits_for_whom(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, MICROBATCHES);
  story.at_stall = complete_pending;
  story_end(&story, 0);
  assert_true(story.stalls >= MICROBATCHES);
  ovl_pipeline_close(story.p, NULL);
}

static void after_long(uv_timer_t *timer) {
  story_t *story = timer->data;
  assert_int_equal(story->stalls_of_op, 1);
  assert_non_null(strstr(story->text, "runs: \"call\" of microbatch 0 for "));
  assert_non_null(strstr(story->text, "waits for ovl_op_complete\n"));
  complete_pending(story);
}

static void expect_one(story_t *story) {
  if (story->pending != NULL && ++story->stalls_of_op == 1)
    uv_timer_start(&story->timer, after_long, LONG_MS, 0);
}

/* However long it lasts. */
static void a_stall_is_told_once(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, 1);
  story.at_stall = expect_one;
  story_end(&story, 0);
  assert_int_equal(story.stalls_of_op, 1);
  ovl_pipeline_close(story.p, NULL);
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void a_run_that_moves_has_no_stall(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, no_op, UINT64_MAX, 100);
  story_end(&story, 0);
  assert_int_equal(story.stalls, 0);
  ovl_pipeline_close(story.p, NULL);
}

/* ---- streams -------------------------------------------------------------------------------------------------------- */

static void end_stream(uv_timer_t *timer) {
  story_t *story = timer->data;
  assert_int_equal(story->stalls, 0);
  assert_int_equal(ovl_pipeline_finish(story->p), 0);
}

/* Nothing is to move in it. */
static void a_stream_without_items_has_not_stalled(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, OVL_STREAMING);
  uv_timer_start(&story.timer, end_stream, LONG_MS, 0);
  story_end(&story, 0);
  assert_int_equal(story.stalls, 0);
  ovl_pipeline_close(story.p, NULL);
}

static void submit_one(uv_timer_t *timer) {
  story_t *story = timer->data;
  assert_int_equal(story->stalls, 0);
  assert_int_equal(ovl_pipeline_submit(story->p, NULL), 0);
  assert_int_equal(ovl_pipeline_finish(story->p), 0);
}

static void an_item_that_comes_late_may_stall(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, OVL_STREAMING);
  story.at_stall = complete_pending;
  uv_timer_start(&story.timer, submit_one, LONG_MS, 0);
  story_end(&story, 0);
  assert_true(story.stalls >= 1);
  assert_non_null(strstr(story.text, "of microbatch 0"));
  ovl_pipeline_close(story.p, NULL);
}

/* ---- what may be done about it --------------------------------------------------------------------------------------- */

static void cancel(story_t *story) {
  if (story->stalls > 1)
    return;
  assert_int_equal(ovl_pipeline_cancel(story->p), 0);
  complete_pending(story);
}

static void it_may_be_cancelled(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, MICROBATCHES);
  story.at_stall = cancel;
  story_end(&story, OVL_ECANCELED);
  ovl_pipeline_close(story.p, NULL);
}

static void close_pipeline(story_t *story) {
  if (story->stalls > 1)
    return;
  ovl_pipeline_close(story->p, NULL);
  complete_pending(story);
}

static void it_may_be_closed(void **state) {
  (void)state;
  story_t story;
  story_begin(&story, pends, STALL_NS, MICROBATCHES);
  story.at_stall = close_pipeline;
  story_end(&story, OVL_ECANCELED);
}

static void who_wants_to_know_says_whom_to_tell(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  ovl_pipeline_t *p;
  options.stall_ns = STALL_NS;
  assert_int_equal(ovl_pipeline_create(&p, &options), OVL_ECALLBACK);
  assert_non_null(strstr(ovl_pipeline_error(NULL), "on_stall"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_stall_is_told_with_who_waits_for_whom),
      cmocka_unit_test(a_stall_is_told_once),
      cmocka_unit_test(a_run_that_moves_has_no_stall),
      cmocka_unit_test(a_stream_without_items_has_not_stalled),
      cmocka_unit_test(an_item_that_comes_late_may_stall),
      cmocka_unit_test(it_may_be_cancelled),
      cmocka_unit_test(it_may_be_closed),
      cmocka_unit_test(who_wants_to_know_says_whom_to_tell),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
