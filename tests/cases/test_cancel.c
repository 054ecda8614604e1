/* SPDX-License-Identifier: MIT */
/* Case 13: cancel at every point of a run, by every thread, gives one `done` with OVL_ECANCELED or is refused;
 * a run that was cancelled is never mistaken for one that succeeded. */
#include <stdatomic.h>

#include "support/probe.h"

enum { MICROBATCHES = 4 };

static const probe_options_t shapes[] = {
    {.stage_count = 3, .stages = {{.way = PROBE_POOL}, {.way = PROBE_LOOP}, {.way = PROBE_POOL}}},
    {.stage_count = 2, .stages = {{.way = PROBE_LOOP}, {.way = PROBE_LOOP, .always = true}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL_FOREIGN}, {.way = PROBE_POOL_POLLED}, {.way = PROBE_LOOP_FOREIGN}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_LOOP_POLLED},
                {.way = PROBE_POOL, .width = 2},
                {.way = PROBE_POOL, .always = true}}},
    {.stage_count = 2, .stages = {{.way = PROBE_POOL_FOREIGN}, {.way = PROBE_POOL, .shares = 1}}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- who cancels, and when --------------------------------------------------------------------------------- */

typedef enum who { IN_PLACE, TWICE, FROM_ANOTHER_THREAD, WHO } who_t;

enum { NOT_CALLED = 1 };

/* In probe->options.data. The canceller's thread and the event's hand over through semaphores. */
typedef struct canceller {
  who_t who;
  uint32_t at; /* the event's number */
  atomic_int result, second;
  probe_t *probe;
  uv_thread_t thread;
  uv_sem_t go, gone;
  bool stops;
} canceller_t;

static void cancel_on_demand(void *argument) {
  canceller_t *c = argument;
  for (;;) {
    uv_sem_wait(&c->go);
    if (c->stops)
      return;
    atomic_store(&c->result, ovl_pipeline_cancel(c->probe->pipeline));
    uv_sem_post(&c->gone);
  }
}

static void cancel_at(probe_t *probe, const probe_event_t *event) {
  canceller_t *c = probe->options.data;
  if (event->number != c->at)
    return;
  if (c->who == FROM_ANOTHER_THREAD) {
    uv_sem_post(&c->go);
    if (event->type == PROBE_DONE) /* after `done` the pipeline is the test's to close */
      uv_sem_wait(&c->gone);
    return;
  }
  atomic_store(&c->result, ovl_pipeline_cancel(probe->pipeline));
  if (c->who == TWICE)
    atomic_store(&c->second, ovl_pipeline_cancel(probe->pipeline));
}

static void canceller_start(canceller_t *c) {
  assert_int_equal(uv_sem_init(&c->go, 0) | uv_sem_init(&c->gone, 0), 0);
  assert_int_equal(uv_thread_create(&c->thread, cancel_on_demand, c), 0);
}

static void canceller_stop(canceller_t *c) {
  c->stops = true;
  uv_sem_post(&c->go);
  assert_int_equal(uv_thread_join(&c->thread), 0);
  uv_sem_destroy(&c->go);
  uv_sem_destroy(&c->gone);
}

static void arm(canceller_t *c, who_t who, uint32_t at) {
  c->who = who;
  c->at = at;
  atomic_store(&c->result, NOT_CALLED);
  atomic_store(&c->second, NOT_CALLED);
}

/* ---- what has to come of it --------------------------------------------------------------------------------- */

static void assert_cancelled(probe_t *probe, int status) {
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  assert_int_equal(status, OVL_ECANCELED);
  assert_int_equal(ovl_pipeline_failure(probe->pipeline, &failure), 0);
  assert_int_equal(failure.status, OVL_ECANCELED);
  assert_int_equal(failure.stage.id, 0);
  assert_int_equal(failure.lane.id, 0);
  assert_int_equal(failure.microbatch, OVL_NO_MICROBATCH);
  assert_string_equal(failure.stage_name, "");
  assert_string_equal(failure.lane_name, "");
  assert_int_equal(probe->counts[PROBE_FAILURE], 1);
  assert_int_equal(probe_nth(probe, PROBE_FAILURE, 0)->failure.microbatch, OVL_NO_MICROBATCH);
}

static void assert_outcome(probe_t *probe, canceller_t *c, int status) {
  int result = atomic_load(&c->result), second = atomic_load(&c->second);
  const probe_event_t *event = c->at < probe->event_count ? &probe->events[c->at] : NULL;
  if (result == 0) {
    assert_cancelled(probe, status);
  } else {
    assert_true(result == (event != NULL ? OVL_ENOTRUNNING : NOT_CALLED));
    probe_assert_complete(probe, status, MICROBATCHES);
  }
  if (event != NULL && c->who != FROM_ANOTHER_THREAD)
    assert_int_equal(result, event->type == PROBE_DONE ? OVL_ENOTRUNNING : 0);
  if (event != NULL && c->who == TWICE)
    assert_int_equal(second, result);
}

static void cancel_once(probe_t *probe, canceller_t *c, who_t who, uint32_t at) {
  arm(c, who, at);
  int status = probe_run(probe, MICROBATCHES);
  if (who == FROM_ANOTHER_THREAD && at < probe->event_count && probe->events[at].type != PROBE_DONE)
    uv_sem_wait(&c->gone);
  assert_outcome(probe, c, status);
}

/* At the first event, the second, ... as long as there are any; now and then an undisturbed run in between. */
static void cancel_at_every_event(const probe_options_t *options, who_t who) {
  canceller_t c = {0};
  probe_t *probe = probe_open(options);
  probe->options.on_event = cancel_at;
  probe->options.data = &c;
  c.probe = probe;
  canceller_start(&c);
  uint32_t at = 0;
  for (bool reached = true; reached; at++) {
    cancel_once(probe, &c, who, at);
    reached = atomic_load(&c.result) != NOT_CALLED;
    if (at % 4 == 0)
      cancel_once(probe, &c, who, UINT32_MAX);
  }
  assert_true(at > MICROBATCHES * (2 * options->stage_count + 1));
  canceller_stop(&c);
  probe_close(probe);
}

static void for_each_shape(who_t who) {
  const uint32_t windows[] = {1, 2, 4};
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint32_t w = 0; w < 3; w++) {
      probe_options_t options = shapes[shape];
      options.window = windows[w];
      options.mode = (shape + w) % 2 == 0 ? OVL_OVERLAP : OVL_SERIAL;
      options.on_error = (shape + w) % 3 == 0 ? OVL_ON_ERROR_CONTINUE : OVL_ON_ERROR_STOP;
      cancel_at_every_event(&options, who);
    }
}

static void case_13_at_every_event_from_its_callback(void **state) {
  (void)state;
  for_each_shape(IN_PLACE);
}

static void case_13_at_every_event_twice(void **state) {
  (void)state;
  for_each_shape(TWICE);
}

static void case_13_at_every_event_from_another_thread(void **state) {
  (void)state;
  for_each_shape(FROM_ANOTHER_THREAD);
}

/* ---- before and after -------------------------------------------------------------------------------------------- */

static void case_13_with_no_run_in_flight_it_is_refused(void **state) {
  (void)state;
  const probe_options_t options = {.stage_count = 1, .stages = {{.way = PROBE_POOL}}, .window = 2};
  probe_t *probe = probe_open(&options);
  assert_int_equal(ovl_pipeline_cancel(NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), OVL_ENOTRUNNING);
  probe_submit(probe, NULL); /* what waits for the next run is none of cancel's business */
  probe_submit(probe, NULL);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), OVL_ENOTRUNNING);
  probe_start(probe, OVL_STREAMING);
  assert_int_equal(ovl_pipeline_finish(probe->pipeline), 0);
  probe_assert_complete(probe, probe_finish(probe), 2);
  assert_int_equal(ovl_pipeline_cancel(probe->pipeline), OVL_ENOTRUNNING);
  probe_assert_complete(probe, probe_run(probe, 3), 3);
  probe_close(probe);
}

/* Started, and the loop has not turned: on a loop lane nothing has happened, on a pool lane whatever it likes. */
static void case_13_before_the_loop_turns(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++) {
    probe_t *probe = probe_open(&shapes[shape]);
    probe_start(probe, MICROBATCHES);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_cancelled(probe, probe_finish(probe));
    if (shapes[shape].stages[0].way == PROBE_LOOP)
      assert_null(probe_find(probe, PROBE_STARTS, 0, 0));
    probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
    probe_close(probe);
  }
}

/* All ops have ended on the pool; the loop has told nobody. As long as a report is owed the run can be cancelled;
 * when none is, it is over and cancel comes too late. */
static void case_13_finished_but_unreported(void **state) {
  (void)state;
  for (int reports = 0; reports < 2; reports++) {
    const probe_options_t options = {.stage_count = 2,
                                     .stages = {{.way = PROBE_POOL}, {.way = PROBE_POOL}},
                                     .window = 4,
                                     .no_on_microbatch = reports == 0};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 4);
    probe_await_ops(probe, 8);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), reports ? 0 : OVL_ENOTRUNNING);
    int status = probe_finish(probe);
    if (reports)
      assert_cancelled(probe, status);
    else
      probe_assert_complete(probe, status, 4);
    probe_close(probe);
  }
}

/* ---- ops that run, ops that wait ------------------------------------------------------------------------------ */

/* One op has the lane, others wait for it or for a slot: it is awaited, the others never start. */
static void case_13_ops_running_and_ops_queued(void **state) {
  (void)state;
  const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD, PROBE_POOL_GATED};
  for (int way = 0; way < 3; way++)
    for (uint32_t window = 1; window <= 4; window++) {
      const probe_options_t options = {
          .stage_count = 2, .stages = {{.way = ways[way]}, {.way = PROBE_POOL}}, .window = window};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 8);
      probe_turn_until(probe, PROBE_STARTS, 1);
      assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
      assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0); /* still in flight, so this is still true */
      probe_turn_until(probe, PROBE_HOOK, 1);
      assert_int_equal(probe_count(probe, PROBE_DONE), 0);
      probe_open_gate(probe);
      assert_cancelled(probe, probe_finish(probe));
      assert_int_equal(probe->counts[PROBE_STARTS], 1);
      assert_int_equal(probe->counts[PROBE_HOOK], 1);
      assert_int_equal(probe->counts[PROBE_MICROBATCH], window);
      probe_assert_complete(probe, probe_run(probe, 8), 8);
      probe_close(probe);
    }
}

/* ---- from the callbacks that tell of a failure, or of the end ---------------------------------------------------- */

typedef struct type_canceller {
  probe_event_type_t type;
  uint64_t microbatch; /* of PROBE_MICROBATCH */
  int result;
} type_canceller_t;

static void cancel_at_type(probe_t *probe, const probe_event_t *event) {
  type_canceller_t *c = probe->options.data;
  bool wanted = event->type != PROBE_MICROBATCH || event->microbatch == c->microbatch;
  if (event->type == c->type && wanted)
    c->result = ovl_pipeline_cancel(probe->pipeline);
}

/* The second microbatch fails while the first is in flight, so there is a hook to be called. */
static int fail_and_cancel(probe_t *probe, type_canceller_t *c) {
  probe->options.on_event = cancel_at_type;
  probe->options.data = c;
  probe_start(probe, 4);
  ovl_op_t *kept = probe_take(probe, 0, 0);
  assert_int_equal(probe_complete(probe, probe_take(probe, 0, 1), -9), 0);
  if (probe->options.on_error == OVL_ON_ERROR_STOP || c->type == PROBE_FAILURE)
    probe_turn_until(probe, PROBE_HOOK, 1);
  else
    probe_turn_until(probe, PROBE_FAILURE, 1);
  assert_int_equal(probe_complete(probe, kept, 0), 0);
  probe_open_gate(probe);
  return probe_finish(probe);
}

/* The error was first, so it is what the run reports; with STOP it is the only thing told. */
static void case_13_from_on_failure_and_from_a_cancel_hook(void **state) {
  (void)state;
  const probe_event_type_t types[] = {PROBE_FAILURE, PROBE_HOOK};
  for (int t = 0; t < 2; t++)
    for (int on_error = 0; on_error < 2; on_error++) {
      const probe_options_t options = {.stage_count = 1,
                                       .stages = {{.way = PROBE_POOL_HELD, .width = 2}},
                                       .window = 2,
                                       .on_error = on_error == 0 ? OVL_ON_ERROR_STOP : OVL_ON_ERROR_CONTINUE};
      if (types[t] == PROBE_HOOK && on_error == 1)
        continue; /* with CONTINUE no other op's hook is called */
      type_canceller_t c = {.type = types[t], .result = NOT_CALLED};
      probe_t *probe = probe_open(&options);
      assert_int_equal(fail_and_cancel(probe, &c), -9);
      assert_int_equal(c.result, 0);
      assert_int_equal(probe->counts[PROBE_FAILURE], 1 + on_error);
      assert_int_equal(probe->counts[PROBE_STARTS], 2);
      probe_close(probe);
    }
}

/* From the report of each microbatch; that of the last is the last moment. */
static void case_13_from_on_microbatch(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint64_t i = 0; i < MICROBATCHES; i++) {
      type_canceller_t c = {.type = PROBE_MICROBATCH, .microbatch = i, .result = NOT_CALLED};
      probe_options_t options = shapes[shape];
      options.on_event = cancel_at_type;
      options.data = &c;
      options.window = 2;
      probe_t *probe = probe_open(&options);
      assert_cancelled(probe, probe_run(probe, MICROBATCHES));
      assert_int_equal(c.result, 0);
      assert_cancelled(probe, probe_run_blocking(probe, MICROBATCHES));
      probe_close(probe);
    }
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Cancelled with `held` items in the window and the rest in the queue: each is reported once, in order, and as
 * cancelled; what is submitted before the end is refused. */
static void case_13_a_stream_with_items_in_the_queue(void **state) {
  (void)state;
  int items[6];
  for (uint32_t window = 1; window <= 3; window++) {
    const probe_options_t options = {.stage_count = 2,
                                     .stages = {{.way = PROBE_LOOP_HELD}, {.way = PROBE_POOL}},
                                     .window = window,
                                     .queue = 3};
    probe_t *probe = probe_open(&options);
    for (uint32_t i = 0; i < window + 3; i++)
      probe_submit(probe, &items[i]);
    probe_start(probe, OVL_STREAMING);
    probe_turn_until(probe, PROBE_STARTS, 1);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_int_equal(ovl_pipeline_submit(probe->pipeline, &items[0]), OVL_ECANCELED);
    probe_turn_until(probe, PROBE_HOOK, 1);
    assert_int_equal(ovl_pipeline_submit(probe->pipeline, &items[0]), OVL_ECANCELED);
    probe_open_gate(probe);
    assert_cancelled(probe, probe_finish(probe));
    assert_int_equal(probe->counts[PROBE_MICROBATCH], window + 3);
    for (uint32_t i = 0; i < window + 3; i++) {
      const probe_event_t *report = probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i);
      assert_ptr_equal(report->item, &items[i]);
      assert_int_equal(report->status, OVL_ECANCELED);
    }
    probe_close(probe);
  }
}

/* A stream that waits for items has nothing in flight, and is in flight. */
static void case_13_a_stream_that_waits(void **state) {
  (void)state;
  for (uint32_t items = 0; items < 3; items++) {
    const probe_options_t options = {.stage_count = 1, .stages = {{.way = PROBE_POOL}}, .window = 2};
    probe_t *probe = probe_open(&options);
    probe_start(probe, OVL_STREAMING);
    for (uint32_t i = 0; i < items; i++)
      probe_submit(probe, NULL);
    probe_turn_until(probe, PROBE_MICROBATCH, items);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_cancelled(probe, probe_finish(probe));
    assert_int_equal(probe->counts[PROBE_STARTS], items);
    probe_close(probe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_13_at_every_event_from_its_callback),
      cmocka_unit_test(case_13_at_every_event_twice),
      cmocka_unit_test(case_13_at_every_event_from_another_thread),
      cmocka_unit_test(case_13_with_no_run_in_flight_it_is_refused),
      cmocka_unit_test(case_13_before_the_loop_turns),
      cmocka_unit_test(case_13_finished_but_unreported),
      cmocka_unit_test(case_13_ops_running_and_ops_queued),
      cmocka_unit_test(case_13_from_on_failure_and_from_a_cancel_hook),
      cmocka_unit_test(case_13_from_on_microbatch),
      cmocka_unit_test(case_13_a_stream_with_items_in_the_queue),
      cmocka_unit_test(case_13_a_stream_that_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
