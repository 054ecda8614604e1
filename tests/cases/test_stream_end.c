/* SPDX-License-Identifier: MIT */
/* Items of a stream that ends before its time: each that was accepted is reported exactly once, in the order of
 * submission; those that were never admitted as cancelled, numbered on from those that were. (Guarantee 1.) */
#include "support/probe.h"

enum { ITEMS = 12 };

static int items[ITEMS]; /* their addresses are what is submitted */

static const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};

/* Item i was microbatch i, and is reported so. From `admitted` on it never started and was cancelled. */
static void assert_reported(const probe_t *probe, uint32_t submitted, uint32_t admitted) {
  assert_int_equal(probe->counts[PROBE_MICROBATCH], submitted);
  for (uint32_t i = 0; i < submitted; i++) {
    const probe_event_t *report = probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i);
    assert_non_null(report);
    assert_ptr_equal(report->item, &items[i]);
    if (i < admitted)
      continue;
    assert_int_equal(report->status, OVL_ECANCELED);
    assert_null(probe_find(probe, PROBE_STARTS, 0, i));
    const probe_event_t *next = probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i + 1);
    assert_true(next == NULL || report->number < next->number);
  }
}

static ovl_stats_t stats_of(const probe_t *probe) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stats(probe->pipeline, &stats), 0);
  return stats;
}

static void submit(probe_t *probe, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    probe_submit(probe, &items[i]);
}

/* ---- a run that fails or is cancelled ------------------------------------------------------------------------ */

/* `through` microbatches pass; the next one fails, or the run is cancelled with it in flight. */
static void end_with_items_left(uint32_t window, uint32_t queue, uint32_t through, bool by_cancel) {
  const probe_options_t options = {.stage_count = 2,
                                   .stages = {{.way = ways[queue % 2]}, {.way = PROBE_LOOP}},
                                   .window = window,
                                   .queue = queue};
  const uint32_t submitted = through + window + queue;
  probe_t *probe = probe_open(&options);
  probe_start(probe, OVL_STREAMING);
  for (uint32_t i = 0; i < submitted; i++) {
    probe_submit(probe, &items[i]);
    if (i < through) {
      probe_turn_until_seen(probe, PROBE_STARTS, 0, i);
      assert_int_equal(probe_complete(probe, probe_take(probe, 0, i), 0), 0);
      probe_turn_until(probe, PROBE_MICROBATCH, i + 1);
    }
  }
  assert_int_equal(ovl_pipeline_submit(probe->pipeline, NULL), OVL_EAGAIN);
  probe_turn_until_seen(probe, PROBE_STARTS, 0, through);
  if (by_cancel)
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
  assert_int_equal(probe_complete(probe, probe_take(probe, 0, through), by_cancel ? 0 : -13), 0);
  assert_int_equal(probe_finish(probe), by_cancel ? OVL_ECANCELED : -13);
  assert_reported(probe, submitted, through + window);
  assert_int_equal(stats_of(probe).microbatches, through + window); /* those never admitted are not counted */
  assert_int_equal(probe->counts[PROBE_ROOM], 0);                   /* it will not succeed any more */
  probe_close(probe);
}

static void items_left_when_a_run_ends_are_numbered_on(void **state) {
  (void)state;
  for (uint32_t window = 1; window <= 3; window++)
    for (uint32_t queue = 1; queue <= 4; queue++)
      for (uint32_t through = 0; through < 3; through++)
        end_with_items_left(window, queue, through, (window + queue + through) % 2 == 0);
}

/* ---- items that no run ever took ------------------------------------------------------------------------------- */

/* Before its first run a pipeline is closed with items in the queue. */
static void items_of_a_pipeline_that_never_ran(void **state) {
  (void)state;
  for (uint32_t count = 0; count <= 5; count++) {
    const probe_options_t options = {
        .stage_count = 1, .stages = {{.way = PROBE_POOL}}, .window = 2, .queue = 3};
    probe_t *probe = probe_open(&options);
    submit(probe, count);
    probe_close_pipeline(probe);
    assert_reported(probe, count, 0);
    assert_int_equal(probe->counts[PROBE_CLOSED], 1);
    assert_true(probe->events[count].type == PROBE_CLOSED);
    probe_close(probe);
  }
}

/* Items for a next run that never comes are numbered as that run would have: from 0. */
static void items_for_the_next_run_are_numbered_from_0(void **state) {
  (void)state;
  for (int streaming = 0; streaming < 2; streaming++)
    for (uint32_t count = 1; count <= 5; count++) {
      const probe_options_t options = {
          .stage_count = 1, .stages = {{.way = PROBE_POOL}}, .window = 2, .queue = 3};
      probe_t *probe = probe_open(&options);
      if (streaming)
        submit(probe, 3);
      probe_start(probe, streaming ? OVL_STREAMING : 3);
      assert_int_equal(ovl_pipeline_finish(probe->pipeline), streaming ? 0 : OVL_EINVAL);
      probe_assert_complete(probe, probe_finish(probe), 3);
      probe->event_count = probe->counts[PROBE_MICROBATCH] = 0;
      probe->counts[PROBE_STARTS] = 0;
      submit(probe, count);
      probe_close_pipeline(probe);
      assert_reported(probe, count, 0);
      probe_close(probe);
    }
}

/* What is submitted when a run is over, in `done` at the earliest, is the next run's. */
static void submit_in_done(probe_t *probe, const probe_event_t *event) {
  if (event->type == PROBE_DONE)
    if (ovl_pipeline_submit(probe->pipeline, &items[0]) != 0 ||
        ovl_pipeline_submit(probe->pipeline, &items[1]) != 0)
      probe_die("a submit was refused");
}

static void items_submitted_in_done_wait_for_the_next_run(void **state) {
  (void)state;
  for (int first = 0; first < 3; first++) {
    const probe_options_t options = {
        .stage_count = 1, .stages = {{.way = PROBE_POOL}}, .window = 2, .on_event = submit_in_done};
    probe_t *probe = probe_open(&options);
    probe->fault.status = first == 1 ? -14 : 0;
    probe_start(probe, 2);
    if (first == 2)
      assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    int status = probe_finish(probe);
    assert_int_equal(status, first == 0 ? 0 : first == 1 ? -14 : OVL_ECANCELED);
    probe->options.on_event = NULL;
    probe->fault.status = 0;
    probe->accepted = 2;
    probe_start(probe, OVL_STREAMING);
    assert_int_equal(ovl_pipeline_finish(probe->pipeline), 0);
    probe_assert_complete(probe, probe_finish(probe), 2);
    assert_reported(probe, 2, 2);
    probe_close(probe);
  }
}

/* Without on_microbatch they just go. */
static void items_left_without_reports(void **state) {
  (void)state;
  for (uint32_t count = 1; count <= 4; count++) {
    const probe_options_t options = {.stage_count = 1,
                                     .stages = {{.way = PROBE_LOOP_HELD}},
                                     .window = 1,
                                     .queue = 3,
                                     .no_on_microbatch = true};
    probe_t *probe = probe_open(&options);
    submit(probe, count);
    probe_start(probe, OVL_STREAMING);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    assert_int_equal(probe_finish(probe), OVL_ECANCELED);
    submit(probe, count);
    probe_close(probe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_left_when_a_run_ends_are_numbered_on),
      cmocka_unit_test(items_of_a_pipeline_that_never_ran),
      cmocka_unit_test(items_for_the_next_run_are_numbered_from_0),
      cmocka_unit_test(items_submitted_in_done_wait_for_the_next_run),
      cmocka_unit_test(items_left_without_reports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
