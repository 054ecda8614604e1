/* SPDX-License-Identifier: MIT */
/* Cases 3 and 19: items that are submitted while slots are released, and while the queue is full. None is lost. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

enum { PRODUCERS = 4 };

/* A streaming run that several threads submit to. Items are numbers from 1. */
typedef struct stream {
  ovl_pipeline_t *pipeline;
  foreign_t foreign;
  uint64_t count; /* items that are there to be submitted */
  uint32_t window;
  atomic_uint_fast64_t next;              /* the next item */
  atomic_uint_fast64_t accepted, refused; /* how often submit said 0, and OVL_EAGAIN */
  atomic_uint in_flight;
  atomic_uchar *ran, *reported; /* by item */
  bool wait_for_room;
  uv_mutex_t mutex; /* protects all below */
  uv_cond_t room;
  uint64_t rooms; /* calls of on_room */
} stream_t;

static uint64_t number_of(const void *item) { return (uint64_t)(uintptr_t)item; }
static void *item_of(uint64_t number) { return (void *)(uintptr_t)number; }

/* ---- callbacks --------------------------------------------------------------------------------------------- */

static int first_op(ovl_op_t *op) {
  stream_t *s = op->data;
  unsigned before = atomic_fetch_add(&s->in_flight, 1);
  expect(before < s->window, "%u microbatches in flight in a window of %u", before + 1, (unsigned)s->window);
  return 0;
}

static void end_last(ovl_op_t *op) {
  stream_t *s = op->data;
  uint64_t number = number_of(op->item);
  expect(number > 0 && number <= s->count, "there is no item %d", (int)number);
  expect(atomic_fetch_add(&s->ran[number], 1) == 0, "item %d ran twice", (int)number);
  atomic_fetch_sub(&s->in_flight, 1);
}

static int last_op(ovl_op_t *op) {
  end_last(op);
  return 0;
}

static void end_foreign(ovl_op_t *op) {
  end_last(op);
  expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
}

static int last_op_foreign(ovl_op_t *op) {
  stream_t *s = op->data;
  foreign_give(&s->foreign, op);
  return OVL_PENDING;
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  stream_t *s = ovl_pipeline_data(p);
  uint64_t number = number_of(item);
  (void)microbatch;
  expect(status == 0, "item %d was reported with %s", (int)number, ovl_err_name(status));
  expect(atomic_fetch_add(&s->reported[number], 1) == 0, "item %d was reported twice", (int)number);
}

static void on_room(ovl_pipeline_t *p) {
  stream_t *s = ovl_pipeline_data(p);
  uv_mutex_lock(&s->mutex);
  s->rooms++;
  uv_cond_broadcast(&s->room);
  uv_mutex_unlock(&s->mutex);
}

/* ---- producers ----------------------------------------------------------------------------------------------- */

/* Submits one item until there is room for it. */
static int submit_item(stream_t *s, uint64_t number) {
  for (;;) {
    uv_mutex_lock(&s->mutex);
    uint64_t rooms = s->rooms;
    uv_mutex_unlock(&s->mutex);
    int r = ovl_pipeline_submit(s->pipeline, item_of(number));
    if (r != OVL_EAGAIN)
      return r;
    atomic_fetch_add(&s->refused, 1);
    if (!s->wait_for_room) {
      sched_yield();
      continue;
    }
    uv_mutex_lock(&s->mutex); /* on_room comes after the refusal, so it is seen even if it has come by now */
    while (s->rooms == rooms)
      uv_cond_wait(&s->room, &s->mutex);
    uv_mutex_unlock(&s->mutex);
  }
}

static void produce(void *argument) {
  stream_t *s = argument;
  uint64_t number;
  while ((number = atomic_fetch_add(&s->next, 1)) <= s->count) {
    int r = submit_item(s, number);
    expect(r == 0, "submit: %s", ovl_err_name(r));
    atomic_fetch_add(&s->accepted, r == 0);
  }
}

/* ---- a stream ------------------------------------------------------------------------------------------------ */

typedef struct shape {
  const char *name;
  ovl_lane_kind_t first, second;
  bool foreign, unreported;
  uint32_t window, queue;
  int producers;
  bool wait_for_room;
} shape_t;

static void stream_open(stream_t *s, const shape_t *shape, uint64_t count) {
  memset(s, 0, sizeof *s);
  s->count = count;
  s->window = shape->window;
  s->wait_for_room = shape->wait_for_room;
  atomic_store(&s->next, 1);
  s->ran = calloc((size_t)count + 1, sizeof *s->ran);
  s->reported = calloc((size_t)count + 1, sizeof *s->reported);
  assert_true(s->ran != NULL && s->reported != NULL);
  uv_mutex_init(&s->mutex);
  uv_cond_init(&s->room);
  foreign_start(&s->foreign, shape->foreign ? 2 : 0, shape->window, end_foreign);
  ovl_pipeline_options_t options = pipeline_options(shape->window);
  options.queue = shape->queue;
  options.data = s;
  options.on_microbatch = shape->unreported ? NULL : on_microbatch;
  options.on_room = shape->wait_for_room ? on_room : NULL;
  s->pipeline = make_pipeline(&options);
  add_stage(s->pipeline, add_lane(s->pipeline, shape->first, shape->window), first_op, s);
  add_stage(s->pipeline, add_lane(s->pipeline, shape->second, shape->window),
            shape->foreign ? last_op_foreign : last_op, s);
}

static void stream_close(stream_t *s) {
  ovl_pipeline_close(s->pipeline, NULL);
  foreign_stop(&s->foreign);
  uv_cond_destroy(&s->room);
  uv_mutex_destroy(&s->mutex);
  free(s->ran);
  free(s->reported);
}

/* ---- cases 3 and 19: nothing is lost while slots are released [oneTBB 634, 647; 419] ---------------------------- */

typedef struct feed {
  stream_t *stream;
  int producers;
} feed_t;

static void feed_all(void *argument) {
  const feed_t *feed = argument;
  uv_thread_t threads[PRODUCERS];
  for (int i = 0; i < feed->producers; i++)
    if (uv_thread_create(&threads[i], produce, feed->stream) != 0)
      abort();
  for (int i = 0; i < feed->producers; i++)
    uv_thread_join(&threads[i]);
  expect(ovl_pipeline_finish(feed->stream->pipeline) == 0, "finish was refused");
}

static void run_stream(const shape_t *shape, uint64_t count) {
  stream_t s;
  uv_thread_t feeder;
  stream_open(&s, shape, count);
  feed_t feed = {.stream = &s, .producers = shape->producers};
  watchdog_expect(shape->name);
  assert_int_equal(uv_thread_create(&feeder, feed_all, &feed), 0);
  int r = ovl_pipeline_run(s.pipeline, OVL_STREAMING);
  uv_thread_join(&feeder);
  expect(r == 0, "the run ended with %s", ovl_err_name(r));
  expect(atomic_load(&s.accepted) == count, "%d of %d were accepted", (int)atomic_load(&s.accepted),
         (int)count);
  for (uint64_t i = 1; i <= count; i++) {
    expect(atomic_load(&s.ran[i]) == 1, "item %d was lost", (int)i);
    expect(shape->unreported || atomic_load(&s.reported[i]) == 1, "item %d was not reported", (int)i);
  }
  expect(s.rooms <= atomic_load(&s.refused), "on_room %d times for %d refusals", (int)s.rooms,
         (int)atomic_load(&s.refused));
  expect(stats_of(s.pipeline).microbatches == count, "the count of microbatches");
  stream_close(&s);
  assert_no_faults(shape->name);
}

static const shape_t narrow_shapes[] = {
    {"pool lanes, one producer", POOL, POOL, false, true, 1, 1, 1, false},
    {"pool lanes, reported", POOL, POOL, false, false, 1, 1, 1, false},
    {"pool lanes, four producers", POOL, POOL, false, false, 1, 1, 4, false},
    {"loop lanes, one producer", LOOP, LOOP, false, true, 1, 1, 1, false},
    {"loop lanes, four producers", LOOP, LOOP, false, false, 1, 3, 4, false},
    {"foreign completions", POOL, LOOP, true, false, 1, 1, 2, false},
    {"window 2", POOL, POOL, false, false, 2, 1, 4, false},
};

static void case_03_submits_race_with_the_release_of_the_only_slot(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof narrow_shapes / sizeof *narrow_shapes; i++)
    run_stream(&narrow_shapes[i], test_count(i == 0 || i == 3 ? 50000 : 10000));
}

static const shape_t waiting_shapes[] = {
    {"a producer waits for room, pool lanes", POOL, POOL, false, false, 1, 1, 1, true},
    {"a producer waits for room, no reports", POOL, POOL, false, true, 2, 1, 1, true},
    {"a producer waits for room, loop lanes", LOOP, LOOP, false, false, 1, 1, 1, true},
    {"a producer waits for room, foreign completions", POOL, POOL, true, true, 4, 2, 1, true},
    {"four producers wait for room", POOL, POOL, false, false, 1, 1, 4, true},
    {"four producers wait for room, wide", POOL, LOOP, true, false, 8, 8, 4, true},
};

static void case_19_producers_that_wait_for_room_lose_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof waiting_shapes / sizeof *waiting_shapes; i++)
    run_stream(&waiting_shapes[i], test_count(10000));
}

/* One producer, on the loop's thread: each refusal is followed by one call, and then a submit succeeds. */
typedef struct lone {
  uint64_t submitted, rooms, owed, count;
  bool ended;
} lone_t;

static void submit_until_refused(ovl_pipeline_t *p, lone_t *lone) {
  while (lone->submitted < lone->count) {
    int r = ovl_pipeline_submit(p, NULL);
    if (r == OVL_EAGAIN) {
      lone->owed = 1;
      expect(ovl_pipeline_submit(p, NULL) == OVL_EAGAIN,
             "a second submit found room"); /* owed once all the same */
      return;
    }
    expect(r == 0, "submit: %s", ovl_err_name(r));
    lone->submitted++;
  }
  ovl_pipeline_finish(p);
}

static void on_lone_room(ovl_pipeline_t *p) {
  lone_t *lone = ovl_pipeline_data(p);
  expect(lone->owed == 1, "on_room without a refusal, or twice for one");
  lone->owed = 0;
  lone->rooms++;
  expect(ovl_pipeline_submit(p, NULL) == 0, "on_room was called, and there was no room");
  lone->submitted++;
  submit_until_refused(p, lone);
}

static void on_lone_end(ovl_pipeline_t *p, int status) {
  lone_t *lone = ovl_pipeline_data(p);
  expect(status == 0 && lone->owed == 0, "the run ended with %s, on_room owed %d", ovl_err_name(status),
         (int)lone->owed);
  lone->ended = true;
}

static int nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void run_lone(uint32_t window, uint32_t queue, bool before_start) {
  lone_t lone = {.count = 500};
  uv_loop_t loop;
  ovl_pipeline_options_t options = pipeline_options(window);
  options.queue = queue;
  options.data = &lone;
  options.on_room = on_lone_room;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, LOOP, 1), nothing, NULL);
  watchdog_expect("a submitter on the loop");
  assert_int_equal(uv_loop_init(&loop), 0);
  if (!before_start)
    assert_int_equal(ovl_pipeline_start(p, &loop, OVL_STREAMING, on_lone_end), 0);
  submit_until_refused(p, &lone);
  assert_int_equal(lone.submitted, window + (queue != 0 ? queue : window)); /* that much is held, no more */
  if (before_start)
    assert_int_equal(ovl_pipeline_start(p, &loop, OVL_STREAMING, on_lone_end), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_no_faults("a submitter on the loop");
  assert_true(lone.ended);
  assert_int_equal(lone.rooms,
                   lone.count - window - (queue != 0 ? queue : window)); /* at once, before more ops */
  assert_int_equal(stats_of(p).microbatches, lone.count);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void case_19_room_is_told_once_for_a_refusal(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 4; window++)
    for (uint32_t queue = 0; queue <= 3; queue++) {
      run_lone(window, queue, false);
      run_lone(window, queue, true);
    }
}

static void no_room(ovl_pipeline_t *p) {
  (void)p;
  note_fault("on_room was called, and no submit had been refused");
}

static void case_19_no_refusal_no_call(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_room = no_room;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, POOL, 1), nothing, NULL);
  for (int i = 0; i < 4; i++)
    assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  assert_int_equal(ovl_pipeline_finish(p), 0);
  assert_int_equal(ovl_pipeline_run(p, OVL_STREAMING), 0);
  assert_no_faults("no refusal");
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_03_submits_race_with_the_release_of_the_only_slot),
      cmocka_unit_test(case_19_producers_that_wait_for_room_lose_nothing),
      cmocka_unit_test(case_19_room_is_told_once_for_a_refusal),
      cmocka_unit_test(case_19_no_refusal_no_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
