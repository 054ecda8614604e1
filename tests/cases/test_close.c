/* SPDX-License-Identifier: MIT */
/* Case 15: a pipeline that is closed, wherever on the loop's thread and whenever, ends its run, then says `done`,
 * then `closed`, each once; after that nothing of it is in the loop, and nothing is touched any more. (The probe's
 * allocator sees to the last: what was freed must be as it was left. AddressSanitizer sees reads as well.) */
#include "support/probe.h"

enum { MICROBATCHES = 4 };

static const probe_options_t shapes[] = {
    {.stage_count = 3, .stages = {{.way = PROBE_POOL}, {.way = PROBE_LOOP}, {.way = PROBE_POOL}}},
    {.stage_count = 2, .stages = {{.way = PROBE_LOOP}, {.way = PROBE_LOOP, .always = true}}},
    {.stage_count = 3,
     .stages = {{.way = PROBE_POOL_FOREIGN}, {.way = PROBE_LOOP_POLLED}, {.way = PROBE_LOOP_FOREIGN}}},
    {.stage_count = 2, .stages = {{.way = PROBE_POOL_POLLED, .width = 2}, {.way = PROBE_LOOP, .width = 2}}},
    {.stage_count = 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- at every event --------------------------------------------------------------------------------------------- */

/* In probe->options.data. */
typedef struct closer {
  uint32_t at; /* the number of the event among those on the loop's thread */
  uint32_t seen;
  bool stubborn; /* it is closed then twice, and again at every later event */
  bool reached;
  probe_event_type_t type; /* of the event */
} closer_t;

static void close_at(probe_t *probe, const probe_event_t *event) {
  closer_t *closer = probe->options.data;
  if (!event->on_loop || event->type == PROBE_CLOSED || closer->seen++ < closer->at)
    return;
  if (!closer->reached)
    closer->type = event->type;
  for (int i = 0; probe->pipeline != NULL && (!closer->reached || closer->stubborn) && i < 2; i++) {
    closer->reached = true;
    probe_close_pipeline(probe);
  }
}

/* True as long as there was such an event. */
static bool close_at_event(const probe_options_t *options, uint32_t at, bool stubborn, probe_fault_t fault,
                           bool blocks) {
  closer_t closer = {.at = at, .stubborn = stubborn};
  probe_t *probe = probe_open(options);
  probe->fault = fault;
  probe->options.on_event = close_at;
  probe->options.data = &closer;
  int status = blocks ? probe_run_blocking(probe, MICROBATCHES) : probe_run(probe, MICROBATCHES);
  assert_int_equal(probe->pipeline == NULL, closer.reached);
  assert_int_equal(probe->counts[PROBE_CLOSED], closer.reached);
  if (fault.status == 0 || options->stage_count == 0)
    assert_int_equal(status, closer.reached && closer.type != PROBE_DONE ? OVL_ECANCELED : 0);
  else
    assert_true(status == fault.status || status == OVL_ECANCELED);
  probe_close(probe);
  return closer.reached;
}

static void close_at_every_event(const probe_options_t *options, probe_fault_t fault) {
  uint32_t at = 0;
  while (close_at_event(options, at, at % 2 != 0, fault, at % 3 == 2))
    at++;
  assert_true(at >= 1);
}

static void for_each_shape(probe_fault_t fault, ovl_on_error_t on_error) {
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (uint32_t window = 1; window <= 3; window++) {
      probe_options_t options = shapes[shape];
      options.window = window;
      options.on_error = on_error;
      options.mode = (shape + window) % 3 == 0 ? OVL_SERIAL : OVL_OVERLAP;
      close_at_every_event(&options, fault);
    }
}

static void case_15_from_every_callback(void **state) {
  (void)state;
  for_each_shape((probe_fault_t){0}, OVL_ON_ERROR_STOP);
}

/* on_failure and cancel hooks among them. */
static void case_15_from_every_callback_of_a_run_that_fails(void **state) {
  (void)state;
  for_each_shape((probe_fault_t){.status = -6, .stage = 1, .microbatch = 0}, OVL_ON_ERROR_STOP);
  for_each_shape((probe_fault_t){.status = -6, .stage = 0, .microbatch = 1}, OVL_ON_ERROR_CONTINUE);
}

/* ---- between any two turns of the loop -------------------------------------------------------------------------------- */

/* By the application, before, during and after the run, and while its handles are being closed. */
static void case_15_after_any_turn_of_the_loop(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++)
    for (int turns = 0; turns < 12; turns++) {
      probe_options_t options = shapes[shape];
      options.window = 2;
      probe_t *probe = probe_open(&options);
      probe_start(probe, 2);
      for (int i = 0; i < turns; i++)
        uv_run(probe->loop, UV_RUN_NOWAIT);
      bool over = probe_count(probe, PROBE_DONE) == 1;
      probe_close_pipeline(probe);
      assert_int_equal(probe_count(probe, PROBE_CLOSED), over);
      int status = probe_finish(probe);
      assert_true(status == 0 || (status == OVL_ECANCELED && !over));
      assert_int_equal(probe->counts[PROBE_CLOSED], 1);
      probe_close(probe);
    }
}

/* ---- with no run in flight --------------------------------------------------------------------------------------------- */

static void assert_closed_at_once(probe_t *probe) {
  probe_close_pipeline(probe);
  assert_null(probe->pipeline);
  assert_int_equal(probe->counts[PROBE_CLOSED], 1);
  assert_int_equal(quarantine_live(&probe->quarantine), 0);
  probe_close(probe);
}

static void case_15_before_start_and_after_a_run(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES; shape++) {
    assert_closed_at_once(probe_open(&shapes[shape]));
    probe_t *probe = probe_open(&shapes[shape]);
    probe_run(probe, 2);
    assert_closed_at_once(probe);
    probe = probe_open(&shapes[shape]);
    probe_run_blocking(probe, 2);
    assert_closed_at_once(probe);
  }
}

static void case_15_after_an_error_and_after_cancel(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < SHAPES - 1; shape++) {
    probe_t *probe = probe_open(&shapes[shape]);
    probe->fault = (probe_fault_t){.status = -6, .stage = 1, .microbatch = 1};
    assert_int_equal(probe_run(probe, 3), -6);
    assert_closed_at_once(probe);
    probe = probe_open(&shapes[shape]);
    probe_start(probe, 3);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_int_equal(probe_finish(probe), OVL_ECANCELED);
    assert_closed_at_once(probe);
  }
}

/* A start that was refused leaves nothing behind. */
static void case_15_after_a_refused_start(void **state) {
  (void)state;
  probe_t *probe = probe_open(&shapes[0]);
  assert_int_equal(ovl_pipeline_start(probe->pipeline, NULL, 1, NULL), OVL_EINVAL);
  assert_closed_at_once(probe);
  probe = probe_open(&shapes[0]);
  probe_submit(probe, NULL);
  assert_int_equal(ovl_pipeline_start(probe->pipeline, probe->loop, 1, NULL), OVL_EITEMS);
  assert_closed_at_once(probe);
}

static void case_15_null(void **state) {
  (void)state;
  ovl_pipeline_t *p;
  ovl_pipeline_close(NULL, NULL);
  assert_int_equal(ovl_pipeline_create(&p, NULL), 0);
  ovl_pipeline_close(p, NULL);
}

/* Nobody wants to hear of it, neither `done` nor `closed`. */
static void case_15_in_flight_without_callbacks(void **state) {
  (void)state;
  uv_loop_t loop;
  ovl_pipeline_t *p;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_create(&p, NULL), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, 3, NULL), 0);
  ovl_pipeline_close(p, NULL);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- with ops in flight -------------------------------------------------------------------------------------------------- */

static void case_15_ops_in_flight_are_awaited(void **state) {
  (void)state;
  const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD, PROBE_POOL_GATED};
  for (int way = 0; way < 3; way++)
    for (uint32_t width = 1; width <= 2; width++) {
      const probe_options_t options = {
          .stage_count = 2,
          .stages = {{.way = ways[way], .width = way == 2 ? 1 : width}, {.way = PROBE_POOL}},
          .window = 2};
      probe_t *probe = probe_open(&options);
      probe_start(probe, 4);
      probe_turn_until(probe, PROBE_STARTS, options.stages[0].width);
      probe_close_pipeline(probe);
      probe_turn_until(probe, PROBE_HOOK, options.stages[0].width);
      probe_turn_in_vain(probe);
      assert_int_equal(probe_count(probe, PROBE_DONE) + probe_count(probe, PROBE_CLOSED), 0);
      probe_open_gate(probe);
      assert_int_equal(probe_finish(probe), OVL_ECANCELED);
      assert_null(probe->pipeline);
      assert_int_equal(quarantine_live(&probe->quarantine), 0);
      probe_close(probe);
    }
}

/* While it is being closed it takes nothing on. */
static void refuse_all(probe_t *probe, const probe_event_t *event) {
  if (event->type == PROBE_CLOSED || (event->type == PROBE_DONE && probe->pipeline == NULL))
    return;
  if (ovl_pipeline_submit(probe->pipeline, NULL) != OVL_EBUSY)
    probe_die("a submit was accepted by a pipeline that is being closed");
  if (event->on_loop && ovl_pipeline_start(probe->pipeline, probe->loop, 1, NULL) != OVL_EBUSY)
    probe_die("a pipeline that is being closed was started");
  if (event->on_loop)
    probe_close_pipeline(probe); /* again, which is of no consequence */
}

static void case_15_nothing_new_while_it_is_closed(void **state) {
  (void)state;
  for (int in_flight = 0; in_flight < 2; in_flight++) {
    const probe_options_t options = {
        .stage_count = 1, .stages = {{.way = PROBE_LOOP_HELD}}, .window = 2, .queue = 2};
    probe_t *probe = probe_open(&options);
    for (int i = 0; i < 4; i++)
      probe_submit(probe, NULL);
    if (in_flight) {
      probe_start(probe, OVL_STREAMING);
      probe_turn_until(probe, PROBE_STARTS, 1);
    }
    probe->options.on_event = refuse_all;
    probe_close_pipeline(probe);
    if (in_flight) {
      probe_open_gate(probe);
      assert_int_equal(probe_finish(probe), OVL_ECANCELED);
    }
    assert_int_equal(probe->counts[PROBE_MICROBATCH], 4);
    assert_null(probe->pipeline);
    probe_close(probe);
  }
}

/* From the last callback of one pipeline the other is closed, and the other way round. */
static void close_other(probe_t *probe, const probe_event_t *event) {
  probe_t *other = probe->options.data;
  if (event->type == PROBE_DONE && other->pipeline != NULL)
    probe_close_pipeline(other);
}

static void case_15_by_another_pipelines_callback(void **state) {
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  for (uint64_t count = 0; count < 8; count++) {
    probe_options_t options = shapes[count % (SHAPES - 1)];
    options.loop = &loop;
    options.on_event = close_other;
    options.window = 2;
    probe_t *one = probe_open(&options), *other = probe_open(&options);
    one->options.data = other;
    other->options.data = one;
    probe_start(one, count % 4);
    probe_start(other, 8);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(one->pipeline == NULL || other->pipeline == NULL);
    probe_close(one);
    probe_close(other);
  }
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_15_from_every_callback),
      cmocka_unit_test(case_15_from_every_callback_of_a_run_that_fails),
      cmocka_unit_test(case_15_after_any_turn_of_the_loop),
      cmocka_unit_test(case_15_before_start_and_after_a_run),
      cmocka_unit_test(case_15_after_an_error_and_after_cancel),
      cmocka_unit_test(case_15_after_a_refused_start),
      cmocka_unit_test(case_15_null),
      cmocka_unit_test(case_15_in_flight_without_callbacks),
      cmocka_unit_test(case_15_ops_in_flight_are_awaited),
      cmocka_unit_test(case_15_nothing_new_while_it_is_closed),
      cmocka_unit_test(case_15_by_another_pipelines_callback),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
