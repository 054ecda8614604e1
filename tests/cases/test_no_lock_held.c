/* SPDX-License-Identifier: MIT */
/* No lock is held while a callback runs: from within each kind of callback another thread calls the library, and the
 * callback waits until that call has returned. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "api/pipeline.h"
#include "support/describe.h"
#include "support/paper_device.h"
#include "support/watchdog.h"

enum { COUNT = 12, LONG_COUNT = 20000, AHEAD_EVERY = 50, PATIENCE_MS = 60000 };

typedef enum kind {
  POOL_OP,
  LOOP_OP,
  DEVICE_OP,
  OP_AHEAD,
  POLL,
  CANCEL_HOOK,
  ABORT_HOOK,
  ON_MICROBATCH,
  ON_ROOM,
  ON_FAILURE,
  ON_STALL,
  DONE,
  CLOSED,
  DEVICE_RECORD,
  DEVICE_QUERY,
  COST,
  KINDS
} kind_t;

static const char *const names[KINDS] = {"an op on a pool lane",
                                         "an op on a loop lane",
                                         "an op on a device lane",
                                         "an op that goes ahead",
                                         "a poll hook",
                                         "a cancel hook",
                                         "an abort hook",
                                         "on_microbatch",
                                         "on_room",
                                         "on_failure",
                                         "on_stall",
                                         "done",
                                         "closed",
                                         "a device's record",
                                         "a device's query",
                                         "a cost callback"};

/* ---- the other thread ---- */

static uv_mutex_t turn; /* callbacks run at one time, too */
static uv_sem_t asked, answered;
static ovl_pipeline_t *of; /* NULL: no more */
static atomic_uint seen[KINDS];

static void answer(void *unused) {
  (void)unused;
  for (;;) {
    uv_sem_wait(&asked);
    if (of == NULL)
      return;
    stats_of(of);
    uv_sem_post(&answered);
  }
}

/* To be called from a callback of the kind. */
static void others_come_in(ovl_pipeline_t *p, kind_t kind) {
  uv_mutex_lock(&turn);
  of = p;
  uv_sem_post(&asked);
  unsigned waited = 0;
  while (uv_sem_trywait(&answered) != 0) {
    if (waited++ == PATIENCE_MS) {
      fprintf(stderr, "a lock is held during %s\n", names[kind]);
      abort();
    }
    uv_sleep(1);
  }
  atomic_fetch_add(&seen[kind], 1);
  uv_mutex_unlock(&turn);
}

static void assert_seen(const kind_t *kinds, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (atomic_load(&seen[kinds[i]]) == 0)
      fail_msg("%s was not called", names[kinds[i]]);
}

/* Of these kinds each has been called. */
#define ASSERT_SEEN(...) \
  assert_seen((const kind_t[]){__VA_ARGS__}, sizeof(const kind_t[]){__VA_ARGS__} / sizeof(kind_t))

static int begin(void **state) {
  static uv_thread_t thread;
  *state = &thread;
  return uv_mutex_init(&turn) != 0 || uv_sem_init(&asked, 0) != 0 || uv_sem_init(&answered, 0) != 0 ||
         uv_thread_create(&thread, answer, NULL) != 0;
}

static int end(void **state) {
  of = NULL;
  uv_sem_post(&asked);
  return uv_thread_join(*state) != 0;
}

/* ---- ops, and what is told of microbatches ---- */

static int pool_op(ovl_op_t *op) {
  others_come_in(op->pipeline, POOL_OP);
  return 0;
}

static int loop_op(ovl_op_t *op) {
  others_come_in(op->pipeline, LOOP_OP);
  return 0;
}

static uint64_t cost(const ovl_op_t *op) {
  others_come_in(op->pipeline, COST);
  return 1;
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)microbatch, (void)item, (void)status;
  others_come_in(p, ON_MICROBATCH);
}

static void submit_all(ovl_pipeline_t *p) {
  uint64_t *left = ovl_pipeline_data(p);
  for (; *left > 0; --*left) {
    int r = ovl_pipeline_submit(p, NULL);
    if (r == OVL_EAGAIN)
      return;
    assert_int_equal(r, 0);
  }
  assert_int_equal(ovl_pipeline_finish(p), 0);
}

static void on_room(ovl_pipeline_t *p) {
  others_come_in(p, ON_ROOM);
  submit_all(p);
}

static void done(ovl_pipeline_t *p, int status) {
  (void)status;
  others_come_in(p, DONE);
}

static void closed(ovl_pipeline_t *p) { others_come_in(p, CLOSED); }

static void while_a_stream_goes_on(void **state) {
  (void)state;
  uint64_t left = COUNT;
  uv_loop_t loop;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.queue = 1;
  options.on_microbatch = on_microbatch;
  options.on_room = on_room;
  options.data = &left;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_stage_options_t stage = stage_options(add_lane(p, OVL_LANE_POOL, 1), pool_op, NULL);
  stage.cost = cost;
  add_stage_with(p, &stage);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 1), loop_op, NULL);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, OVL_STREAMING, done), 0);
  submit_all(p);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(ovl_pipeline_simulate(p, 2, NULL, NULL), 0);
  ovl_pipeline_close(p, closed);
  assert_int_equal(uv_loop_close(&loop), 0);
  ASSERT_SEEN(POOL_OP, LOOP_OP, COST, ON_MICROBATCH, ON_ROOM, DONE, CLOSED);
}

/* ---- ops that go ahead ---- */

static int op_ahead(ovl_op_t *op) {
  if (op->microbatch % AHEAD_EVERY == 0 && atomic_load(&op->pipeline->exec.ahead_open) > 0)
    others_come_in(op->pipeline, OP_AHEAD);
  return 0;
}

/* Where only one runner ever has a thread, none does. */
static void while_runners_go_ahead(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(8);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (unsigned l = 0; l < 2; l++)
    add_stage(p, add_lane(p, OVL_LANE_POOL, 1), op_ahead, NULL);
  assert_int_equal(ovl_pipeline_run(p, LONG_COUNT), 0);
  ovl_pipeline_close(p, NULL);
  print_message("%u times while somebody went ahead\n", atomic_load(&seen[OP_AHEAD]));
}

/* ---- hooks ---- */

static int leave_pending(ovl_op_t *op) {
  (void)op;
  return OVL_PENDING;
}

static int cancel_hook(ovl_op_t *op) {
  others_come_in(op->pipeline, CANCEL_HOOK);
  assert_int_equal(ovl_op_complete(op, OVL_ECANCELED), 0);
  return 0;
}

static void abort_hook(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)lane, (void)data;
  others_come_in(p, ABORT_HOOK);
}

static void poll_hook(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)lane, (void)data;
  others_come_in(p, POLL);
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)failure;
  others_come_in(p, ON_FAILURE);
}

static void on_stall(ovl_pipeline_t *p, const char *text) {
  (void)text;
  others_come_in(p, ON_STALL);
  (void)ovl_pipeline_cancel(p);
}

static void while_a_run_stands_still_and_is_cancelled(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  options.on_failure = on_failure;
  options.on_stall = on_stall;
  options.stall_ns = 20000000;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t lane = lane_options("asked", OVL_LANE_POOL, 1);
  lane.poll = poll_hook;
  lane.abort = abort_hook;
  ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), leave_pending, NULL);
  stage.cancel = cancel_hook;
  add_stage_with(p, &stage);
  assert_int_equal(ovl_pipeline_run(p, 1), OVL_ECANCELED);
  ovl_pipeline_close(p, NULL);
  ASSERT_SEEN(POLL, CANCEL_HOOK, ABORT_HOOK, ON_FAILURE, ON_STALL);
}

/* ---- devices ---- */

static ovl_pipeline_t *on_device;
static ovl_device_t plain;

static int device_op(ovl_op_t *op) {
  others_come_in(op->pipeline, DEVICE_OP);
  return 0;
}

static int record(void *context, void *event, void *stream) {
  others_come_in(on_device, DEVICE_RECORD);
  return plain.event_record(context, event, stream);
}

static int query(void *context, void *event) {
  others_come_in(on_device, DEVICE_QUERY);
  return plain.event_query(context, event);
}

static void while_a_device_is_asked(void **state) {
  (void)state;
  paper_t *paper = paper_make();
  plain = paper->devices[0];
  paper->devices[0].event_record = record;
  paper->devices[0].event_query = query;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = on_device = make_pipeline(&options);
  ovl_lane_options_t lane = lane_options("stream", OVL_LANE_DEVICE, 1);
  lane.device = &paper->devices[0];
  lane.stream = paper_stream(paper, 0);
  add_stage(p, add_lane_with(p, &lane), device_op, NULL);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), pool_op, NULL);
  assert_int_equal(ovl_pipeline_run(p, COUNT), 0);
  ovl_pipeline_close(p, NULL);
  paper_free(paper);
  ASSERT_SEEN(DEVICE_OP, DEVICE_RECORD, DEVICE_QUERY);
}

int main(void) {
  setenv("UV_THREADPOOL_SIZE", "4", 0);
  watchdog_expect("another thread's call during a callback");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(while_a_stream_goes_on),
      cmocka_unit_test(while_runners_go_ahead),
      cmocka_unit_test(while_a_run_stands_still_and_is_cancelled),
      cmocka_unit_test(while_a_device_is_asked),
  };
  return cmocka_run_group_tests(tests, begin, end) != 0;
}
