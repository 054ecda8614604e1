/* SPDX-License-Identifier: MIT */
/* Pipelines as guests on an application's loop: they keep it alive exactly while a run is in flight, call back on
 * its thread, may be several, and may be started from each other's callbacks. (Guarantees 7 and 9. That `done`
 * comes once, as the last thing, not from within start, and leaves nothing in the loop, is checked for every run.) */
#include "support/probe.h"

enum { MICROBATCHES = 4, GUESTS = 5 };

static const probe_options_t shapes[GUESTS] = {
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL}, {.way = PROBE_LOOP}, {.way = PROBE_POOL}},
     .window = 2},
    {.stage_count = 2, .stages = {{.way = PROBE_LOOP}, {.way = PROBE_LOOP}}, .window = 1},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL_FOREIGN}, {.way = PROBE_LOOP_POLLED}, {.way = PROBE_LOOP_FOREIGN}},
     .window = 3},
    {.stage_count = 2,
     .stages = {{.way = PROBE_POOL_POLLED, .width = 2}, {.way = PROBE_LOOP, .width = 2}},
     .window = 4},
    {.stage_count = 0, .window = 1},
};

static void open_loop(uv_loop_t *loop) { assert_int_equal(uv_loop_init(loop), 0); }

static void close_loop(uv_loop_t *loop) {
  assert_int_equal(uv_loop_alive(loop), 0);
  assert_int_equal(uv_loop_close(loop), 0);
}

static probe_t *open_guest(uint32_t shape, uv_loop_t *loop, void *data) {
  probe_options_t options = shapes[shape];
  options.loop = loop;
  options.data = data;
  return probe_open(&options);
}

/* ---- alive while a run is in flight ------------------------------------------------------------------------------ */

static void the_loop_is_alive_while_a_run_is_in_flight(void **state) {
  (void)state;
  const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};
  for (int way = 0; way < 2; way++) {
    const probe_options_t options = {.stage_count = 1, .stages = {{.way = ways[way]}}, .window = 1};
    probe_t *probe = probe_open(&options);
    assert_int_equal(uv_loop_alive(probe->loop), 0);
    for (int run = 0; run < 2; run++) {
      probe_start(probe, 1);
      assert_int_not_equal(uv_loop_alive(probe->loop), 0);
      assert_int_equal(uv_loop_close(probe->loop), UV_EBUSY);
      probe_turn_until(probe, PROBE_STARTS, 1);
      probe_turn_in_vain(probe);
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, 0), 0), 0);
      probe_assert_complete(probe, probe_finish(probe), 1);
      assert_int_equal(uv_loop_alive(probe->loop), 0);
    }
    probe_close(probe);
  }
}

/* A stream that waits for its next item is in flight as well. */
static void a_stream_that_waits_keeps_the_loop_alive(void **state) {
  (void)state;
  probe_t *probe = open_guest(0, NULL, NULL);
  probe_start(probe, OVL_STREAMING);
  probe_turn_in_vain(probe);
  probe_submit(probe, NULL);
  probe_turn_until(probe, PROBE_MICROBATCH, 1);
  probe_turn_in_vain(probe);
  assert_int_equal(ovl_pipeline_finish(probe->pipeline), 0);
  probe_assert_complete(probe, probe_finish(probe), 1);
  probe_close(probe);
}

/* However the application turns its loop, and though it stops it now and then. */
static void stop_loop(probe_t *probe, const probe_event_t *event) {
  if (event->type == PROBE_MICROBATCH)
    uv_stop(probe->loop);
}

static void any_way_of_turning_the_loop_will_do(void **state) {
  (void)state;
  const uv_run_mode modes[] = {UV_RUN_DEFAULT, UV_RUN_ONCE, UV_RUN_NOWAIT};
  for (uint32_t shape = 0; shape < GUESTS; shape++)
    for (int mode = 0; mode < 3; mode++) {
      probe_t *probe = open_guest(shape, NULL, NULL);
      probe->options.on_event = stop_loop;
      probe_start(probe, MICROBATCHES);
      while (uv_run(probe->loop, modes[mode]) != 0)
        continue;
      probe_assert_complete(probe, probe_finish(probe), MICROBATCHES);
      probe_close(probe);
    }
}

/* ---- the application's own handles ----------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer) { ++*(uint32_t *)timer->data; }

/* A timer of the application goes on through a run, and is all that is left in the loop after it. */
static void the_applications_handles_are_left_alone(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < GUESTS; shape++) {
    uint32_t ticks = 0;
    uv_timer_t timer = {.data = &ticks};
    probe_t *probe = open_guest(shape, NULL, NULL);
    uv_timer_init(probe->loop, &timer);
    uv_timer_start(&timer, on_tick, 1, 1);
    probe_start(probe, MICROBATCHES);
    while (probe_count(probe, PROBE_DONE) == 0 || ticks < 3)
      assert_int_not_equal(uv_run(probe->loop, UV_RUN_ONCE), 0);
    assert_true(uv_is_active((uv_handle_t *)&timer));
    uv_close((uv_handle_t *)&timer, NULL);
    probe_assert_complete(probe, probe_finish(probe), MICROBATCHES);
    probe_close(probe);
  }
}

/* ---- several on one loop ------------------------------------------------------------------------------------------------- */

static void several_pipelines_share_a_loop(void **state) {
  (void)state;
  uv_loop_t loop;
  probe_t *guests[GUESTS];
  open_loop(&loop);
  for (uint32_t i = 0; i < GUESTS; i++)
    guests[i] = open_guest(i, &loop, NULL);
  for (int round = 0; round < 5; round++) {
    for (uint32_t i = 0; i < GUESTS; i++) {
      guests[i]->fault = (probe_fault_t){.status = i == (uint32_t)round ? -90 : 0, .microbatch = 1};
      probe_start(guests[i], MICROBATCHES + i);
      guests[i]->handles = UINT32_MAX; /* what is there when it is done is the others' */
    }
    for (uint32_t i = 0; i < GUESTS; i++) {
      int status = probe_finish(guests[i]);
      if (i == (uint32_t)round && shapes[i].stage_count > 0)
        assert_int_equal(status, -90); /* one guest's trouble is not the others' */
      else
        probe_assert_complete(guests[i], status, MICROBATCHES + i);
    }
  }
  for (uint32_t i = 0; i < GUESTS; i++)
    probe_close(guests[i]);
  close_loop(&loop);
}

/* ---- started from callbacks ------------------------------------------------------------------------------------------------ */

/* In the first one's options.data: the other is started at the event of that number among those on the loop. */
typedef struct starter {
  probe_t *other;
  uint32_t at, seen;
  bool reached;
} starter_t;

static void start_other(probe_t *probe, const probe_event_t *event) {
  starter_t *starter = probe->options.data;
  if (!event->on_loop || event->type == PROBE_CLOSED || starter->seen++ != starter->at)
    return;
  starter->reached = true;
  probe_start(starter->other, MICROBATCHES); /* may assert: the loop's thread is the test's */
}

/* True as long as there was such an event. */
static bool start_at(uint32_t shape, uint32_t other_shape, uint32_t at, int fault) {
  uv_loop_t loop;
  open_loop(&loop);
  starter_t starter = {.at = at};
  probe_t *probe = open_guest(shape, &loop, &starter), *other = open_guest(other_shape, &loop, NULL);
  starter.other = other;
  probe->options.on_event = start_other;
  probe->fault = (probe_fault_t){.status = fault, .stage = shapes[shape].stage_count - 1, .microbatch = 1};
  probe_start(probe, MICROBATCHES);
  probe->handles = UINT32_MAX;
  other->handles = UINT32_MAX;
  int status = probe_finish(probe);
  if (fault == 0 || shapes[shape].stage_count == 0)
    probe_assert_complete(probe, status, MICROBATCHES);
  else
    assert_int_equal(status, fault);
  if (starter.reached)
    probe_assert_complete(other, probe_finish(other), MICROBATCHES);
  probe_close(probe);
  probe_close(other);
  close_loop(&loop);
  return starter.reached;
}

/* From ops, poll hooks, on_microbatch, on_failure, done: every callback that there is on the loop's thread. */
static void a_run_is_started_from_any_callback_of_another(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < GUESTS; shape++)
    for (int fault = 0; fault < 2; fault++) {
      uint32_t at = 0;
      while (start_at(shape, (shape + at) % GUESTS, at, fault == 0 ? 0 : -91))
        at++;
      assert_true(at >= 1);
    }
}

/* A pipeline starts itself anew in `done`: after a success, an error, a cancel. Anywhere else it is in flight, so
 * that is refused and changes nothing. */
typedef struct again {
  int left;
  int statuses[4];
} again_t;

static void on_done_again(ovl_pipeline_t *p, int status);

static int fail_third(ovl_op_t *op) {
  const again_t *again = op->data;
  return again->left == 2 && op->microbatch == 1 ? -92 : 0;
}

static void on_microbatch_again(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  again_t *again = ovl_pipeline_data(p);
  (void)microbatch;
  (void)item;
  (void)status;
  if (again->left == 1)
    ovl_pipeline_cancel(p);
}

static uv_loop_t again_loop;

static void on_done_again(ovl_pipeline_t *p, int status) {
  again_t *again = ovl_pipeline_data(p);
  again->statuses[again->left] = status;
  if (again->left-- > 0)
    assert_int_equal(ovl_pipeline_start(p, &again_loop, MICROBATCHES, on_done_again), 0);
}

static void a_pipeline_starts_itself_from_done(void **state) {
  (void)state;
  again_t again = {.left = 3};
  ovl_pipeline_options_t options;
  ovl_pipeline_t *p;
  ovl_pipeline_options_init(&options);
  options.compute = options.comm = fail_third;
  options.data = &again;
  options.on_microbatch = on_microbatch_again;
  assert_int_equal(ovl_pipeline_create(&p, &options), 0);
  open_loop(&again_loop);
  assert_int_equal(ovl_pipeline_start(p, &again_loop, MICROBATCHES, on_done_again), 0);
  assert_int_equal(uv_run(&again_loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(again.left, -1);
  assert_int_equal(again.statuses[3], 0);
  assert_int_equal(again.statuses[2], -92);
  assert_int_equal(again.statuses[1], OVL_ECANCELED);
  assert_int_equal(again.statuses[0], 0);
  ovl_pipeline_close(p, NULL);
  close_loop(&again_loop);
}

static void start_myself(probe_t *probe, const probe_event_t *event) {
  if (!event->on_loop || event->type == PROBE_DONE || event->type == PROBE_CLOSED)
    return;
  if (ovl_pipeline_start(probe->pipeline, probe->loop, 1, NULL) != OVL_EBUSY)
    probe_die("a pipeline with a run in flight was started");
  if (ovl_pipeline_set_mode(probe->pipeline, OVL_SERIAL) != OVL_EBUSY)
    probe_die("the mode of a run in flight was set");
}

static void a_pipeline_in_flight_is_not_started_again(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < GUESTS; shape++) {
    probe_t *probe = open_guest(shape, NULL, NULL);
    probe->options.on_event = start_myself;
    probe_start(probe, MICROBATCHES);
    assert_int_equal(ovl_pipeline_start(probe->pipeline, probe->loop, 1, NULL), OVL_EBUSY);
    assert_int_equal(ovl_pipeline_run(probe->pipeline, 1), OVL_EBUSY);
    probe_assert_complete(probe, probe_finish(probe), MICROBATCHES);
    probe_close(probe);
  }
}

/* ---- several loops -------------------------------------------------------------------------------------------------------------- */

/* One run after the other, each on another loop. */
static void each_run_may_have_another_loop(void **state) {
  (void)state;
  uv_loop_t loops[3];
  for (int i = 0; i < 3; i++)
    open_loop(&loops[i]);
  for (uint32_t shape = 0; shape < GUESTS; shape++) {
    probe_t *probe = open_guest(shape, &loops[0], NULL);
    for (int i = 0; i < 6; i++) {
      probe->loop = &loops[i % 3];
      probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
      assert_int_equal(uv_loop_alive(probe->loop), 0);
    }
    probe_close(probe);
  }
  for (int i = 0; i < 3; i++)
    close_loop(&loops[i]);
}

/* Three threads, each with a loop and a pipeline of its own: callbacks keep to their threads. (An assertion that
 * fails here cannot jump back to cmocka, so it ends the program; it says why before.) */
static void run_on_own_loop(void *argument) {
  probe_t *probe = argument;
  for (int i = 0; i < 10; i++)
    probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
}

static void loops_in_several_threads(void **state) {
  (void)state;
  uv_thread_t threads[3];
  probe_t *probes[3];
  for (uint32_t i = 0; i < 3; i++) {
    probes[i] = open_guest(i, NULL, NULL);
    assert_int_equal(uv_thread_create(&threads[i], run_on_own_loop, probes[i]), 0);
  }
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(uv_thread_join(&threads[i]), 0);
    probe_close(probes[i]);
  }
}

/* ---- refused starts -------------------------------------------------------------------------------------------------------------- */

/* A call that fails has no effect: the description is as open as it was. */
static void a_refused_start_freezes_nothing(void **state) {
  (void)state;
  probe_t *probe = open_guest(0, NULL, NULL);
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  assert_int_equal(ovl_pipeline_start(NULL, probe->loop, 1, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_start(probe->pipeline, NULL, 1, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_add_lane(probe->pipeline, &lane, &stage.lane), 0);
  assert_int_equal(ovl_pipeline_add_stage(probe->pipeline, &stage, NULL), 0);
  probe_assert_complete(probe, probe_run(probe, MICROBATCHES), MICROBATCHES);
  assert_int_equal(ovl_pipeline_add_lane(probe->pipeline, &lane, &stage.lane), OVL_EFROZEN);
  probe_close(probe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loop_is_alive_while_a_run_is_in_flight),
      cmocka_unit_test(a_stream_that_waits_keeps_the_loop_alive),
      cmocka_unit_test(any_way_of_turning_the_loop_will_do),
      cmocka_unit_test(the_applications_handles_are_left_alone),
      cmocka_unit_test(several_pipelines_share_a_loop),
      cmocka_unit_test(a_run_is_started_from_any_callback_of_another),
      cmocka_unit_test(a_pipeline_starts_itself_from_done),
      cmocka_unit_test(a_pipeline_in_flight_is_not_started_again),
      cmocka_unit_test(each_run_may_have_another_loop),
      cmocka_unit_test(loops_in_several_threads),
      cmocka_unit_test(a_refused_start_freezes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
