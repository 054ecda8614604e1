/* SPDX-License-Identifier: MIT */
/* Holds the log of a run against what always holds. It knows the guarantees and the description alone. */
#include <string.h>

#include "support/probe.h"

/* Where in the log an op started, ended and had its hook called: number + 1; 0: it did not. */
typedef struct trail {
  uint32_t starts, ends, hook;
} trail_t;

typedef struct check {
  const probe_t *probe;
  trail_t trails[PROBE_MICROBATCHES][PROBE_STAGES];
  uint32_t reported[PROBE_MICROBATCHES]; /* number + 1 of its PROBE_MICROBATCH */
  uint64_t reports;                      /* microbatches reported */
} check_t;

static bool is_on_loop(probe_way_t way) {
  return way == PROBE_LOOP || way == PROBE_LOOP_FOREIGN || way == PROBE_LOOP_POLLED || way == PROBE_LOOP_HELD;
}

static uint32_t lane_of(const probe_t *probe, uint32_t stage) {
  uint32_t shares = probe->options.stages[stage].shares;
  return shares != 0 ? shares - 1 : stage;
}

/* ---- event by event ------------------------------------------------------------------------------------------ */

static void once(uint32_t *at, const probe_event_t *event) {
  assert_int_equal(*at, 0);
  *at = event->number + 1;
}

static void note_op(check_t *check, const probe_event_t *event) {
  assert_true(event->microbatch < PROBE_MICROBATCHES);
  trail_t *trail = &check->trails[event->microbatch][event->stage];
  uint32_t lane = lane_of(check->probe, event->stage);
  if (event->type == PROBE_STARTS) {
    once(&trail->starts, event);
    assert_int_equal(event->on_loop, is_on_loop(check->probe->options.stages[lane].way));
  } else if (event->type == PROBE_ENDS) {
    assert_int_not_equal(trail->starts, 0);
    once(&trail->ends, event);
  } else {
    once(&trail->hook, event); /* perhaps before the callback has come as far as to write into the log */
    assert_true(event->on_loop);
  }
}

static void note_event(check_t *check, const probe_event_t *event) {
  switch (event->type) {
  case PROBE_STARTS:
  case PROBE_ENDS:
  case PROBE_HOOK:
    note_op(check, event);
    return;
  case PROBE_MICROBATCH:
    assert_true(event->microbatch < PROBE_MICROBATCHES);
    once(&check->reported[event->microbatch], event);
    check->reports++;
    break;
  case PROBE_FAILURE:
    assert_int_not_equal(event->status, 0);
    assert_int_equal(event->status, event->failure.status);
    break;
  case PROBE_ROOM:
    break;
  case PROBE_DONE:
    assert_int_equal(check->probe->counts[PROBE_DONE], 1);
    assert_int_equal(event->number + 1 + check->probe->counts[PROBE_CLOSED], check->probe->event_count);
    break;
  case PROBE_CLOSED:
    assert_int_equal(event->number + 1, check->probe->event_count);
    break;
  }
  assert_true(event->on_loop);
}

/* ---- ops among each other --------------------------------------------------------------------------------------- */

/* The nearest stage before this one, along the chain, whose op was not skipped. */
static const trail_t *ran_before(const check_t *check, const trail_t *trails, uint32_t stage) {
  for (; stage > 0 && !check->probe->options.stages[stage].unchained; stage--)
    if (trails[stage - 1].starts != 0)
      return &trails[stage - 1];
  return NULL;
}

/* Every op that started has ended; it started after what it is chained to had ended. */
static void check_op(const check_t *check, uint64_t microbatch, uint32_t stage) {
  const trail_t *trail = &check->trails[microbatch][stage];
  assert_int_equal(trail->starts != 0, trail->ends != 0);
  if (trail->starts == 0) {
    assert_int_equal(trail->hook, 0);
    return;
  }
  const trail_t *before = ran_before(check, check->trails[microbatch], stage);
  if (before != NULL) {
    assert_int_not_equal(before->ends, 0);
    assert_true(before->ends < trail->starts);
  }
}

/* Slot reuse: microbatch i starts after i - window was reported. Serial: after i - 1. */
static void check_window(const check_t *check, uint64_t microbatch, uint32_t stage) {
  const probe_options_t *o = &check->probe->options;
  uint64_t window = o->mode == OVL_SERIAL ? 1 : o->window;
  uint32_t starts = check->trails[microbatch][stage].starts;
  if (starts != 0 && !o->no_on_microbatch && window != 0 && microbatch >= window) {
    assert_int_not_equal(check->reported[microbatch - window], 0);
    assert_true(check->reported[microbatch - window] < starts);
  }
}

/* A microbatch is reported after all its ops have ended. */
static void check_report(const check_t *check, uint64_t microbatch, uint32_t stage) {
  const trail_t *trail = &check->trails[microbatch][stage];
  if (check->probe->options.no_on_microbatch || trail->starts == 0)
    return;
  assert_int_not_equal(check->reported[microbatch], 0);
  assert_true(trail->ends < check->reported[microbatch]);
  assert_true(trail->hook < check->reported[microbatch]);
}

static void check_ops(const check_t *check) {
  for (uint64_t i = 0; i < PROBE_MICROBATCHES; i++)
    for (uint32_t s = 0; s < check->probe->options.stage_count; s++) {
      check_op(check, i, s);
      check_window(check, i, s);
      check_report(check, i, s);
    }
}

/* Lanes never run more than their width; a serial run never more than one op. */
static void check_widths(const check_t *check) {
  const probe_t *probe = check->probe;
  uint32_t running[PROBE_STAGES] = {0}, all = 0;
  for (uint32_t i = 0; i < probe->event_count; i++) {
    const probe_event_t *event = &probe->events[i];
    if (event->type != PROBE_STARTS && event->type != PROBE_ENDS)
      continue;
    uint32_t lane = lane_of(probe, event->stage), width = probe->options.stages[lane].width;
    running[lane] += event->type == PROBE_STARTS ? 1 : UINT32_MAX;
    all += event->type == PROBE_STARTS ? 1 : UINT32_MAX;
    assert_true(running[lane] <= (width != 0 ? width : 1));
    assert_true(probe->options.mode != OVL_SERIAL || all <= 1);
  }
  assert_int_equal(all, 0);
}

/* ---- the run as a whole ------------------------------------------------------------------------------------------ */

/* Reports are of 0 .. m - 1; of all when all went well, and of all accepted items in any case. */
static void check_reports(const check_t *check, int status) {
  const probe_t *probe = check->probe;
  if (probe->options.no_on_microbatch)
    return;
  for (uint64_t i = 0; i < PROBE_MICROBATCHES; i++)
    assert_int_equal(check->reported[i] != 0, i < check->reports);
  if (probe->count == OVL_STREAMING)
    assert_int_equal(check->reports, probe->accepted);
  else if (status == 0)
    assert_int_equal(check->reports, probe->count);
}

/* on_failure is told of nothing in a run that went well; else the first is what the run ends with. With STOP
 * there is no second. */
static void check_failures(const check_t *check, int status) {
  const probe_t *probe = check->probe;
  uint32_t told = probe->counts[PROBE_FAILURE];
  if (probe->options.no_on_failure)
    return;
  assert_int_equal(told > 0, status != 0);
  if (probe->options.on_error == OVL_ON_ERROR_STOP)
    assert_true(told <= 1);
  if (told > 0)
    assert_int_equal(probe_nth(probe, PROBE_FAILURE, 0)->status, status);
}

static void check_failure_kept(const probe_t *probe, int status) {
  ovl_failure_t kept;
  if (probe->pipeline == NULL)
    return;
  ovl_failure_init(&kept);
  assert_int_equal(ovl_pipeline_failure(probe->pipeline, &kept), 0);
  assert_int_equal(kept.status, status);
}

/* Each lane was busy, or idle for one reason, all the time. */
static void check_times(const probe_t *probe) {
  for (uint32_t s = 0; probe->pipeline != NULL && s < probe->options.stage_count; s++) {
    ovl_lane_stats_t lane;
    ovl_lane_stats_init(&lane);
    assert_int_equal(ovl_pipeline_lane_stats(probe->pipeline, probe->lanes[s], &lane), 0);
    assert_int_equal(lane.busy_ns + lane.idle_fill_ns + lane.idle_dependency_ns + lane.idle_window_ns +
                         lane.idle_input_ns + lane.idle_fixed_order_ns + lane.idle_runner_ns +
                         lane.idle_tail_ns,
                     lane.width * lane.elapsed_ns);
  }
}

void probe_check(const probe_t *probe, int status) {
  check_t check;
  memset(&check, 0, sizeof check);
  check.probe = probe;
  for (uint32_t i = 0; i < probe->event_count; i++)
    note_event(&check, &probe->events[i]);
  check_ops(&check);
  check_widths(&check);
  check_reports(&check, status);
  check_failures(&check, status);
  check_failure_kept(probe, status);
  check_times(probe);
}

void probe_assert_complete(probe_t *probe, int status, uint64_t count) {
  const probe_options_t *o = &probe->options;
  assert_int_equal(status, 0);
  assert_int_equal(probe->counts[PROBE_STARTS], count * o->stage_count);
  assert_int_equal(probe->counts[PROBE_ENDS], count * o->stage_count);
  assert_int_equal(probe->counts[PROBE_HOOK], 0);
  if (!o->no_on_microbatch)
    assert_int_equal(probe->counts[PROBE_MICROBATCH], count);
  for (uint32_t i = 0; i < probe->event_count; i++)
    assert_int_equal(probe->events[i].status, 0);
}
