/* SPDX-License-Identifier: MIT */
/* Case 18: a completion that arrives after the run was cancelled, or has failed, and before it has ended, is
 * accepted quietly and harms nothing: whatever it says, whoever says it, at whatever moment. */
#include "support/probe.h"

enum { IN_FLIGHT = 3 };

/* Why the run is ending. */
typedef enum reason { CANCELLED, FAILED, CLOSED, REASONS } reason_t;

/* When the completions arrive. */
typedef enum moment { AT_ONCE, AFTER_THE_HOOKS, IN_THE_HOOK, BESIDE_THE_HOOK, MOMENTS } moment_t;

static const probe_way_t ways[] = {PROBE_POOL_HELD, PROBE_LOOP_HELD};
static const int statuses[] = {0, -4, 35, OVL_ECANCELED};

/* ---- completing late ------------------------------------------------------------------------------------------- */

typedef struct late {
  moment_t moment;
  uint32_t turn; /* which of the orders below */
  bool by_thread;
} late_t;

static const uint64_t orders[][IN_FLIGHT] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};

typedef struct call {
  probe_t *probe;
  uint64_t microbatch;
  int status;
} call_t;

static void complete_late(void *argument) {
  const call_t *call = argument;
  ovl_op_t *op = probe_take(call->probe, 0, call->microbatch);
  if (probe_complete(call->probe, op, call->status) != 0)
    probe_die("a late completion was refused");
}

static void complete(probe_t *probe, uint64_t microbatch, bool by_thread) {
  const late_t *late = probe->options.data;
  call_t call = {.probe = probe, .microbatch = microbatch, .status = statuses[(late->turn + microbatch) % 4]};
  uv_thread_t thread;
  if (!by_thread) {
    complete_late(&call);
  } else if (uv_thread_create(&thread, complete_late, &call) != 0 || uv_thread_join(&thread) != 0) {
    probe_die("no thread");
  }
}

/* In the hook itself, or by another thread while the hook runs: what the hook sees of its op stays as it is. */
static void complete_in_hook(probe_t *probe, const probe_event_t *event) {
  const late_t *late = probe->options.data;
  if (event->type == PROBE_HOOK && (late->moment == IN_THE_HOOK || late->moment == BESIDE_THE_HOOK))
    complete(probe, event->microbatch, late->moment == BESIDE_THE_HOOK);
}

static void complete_all(probe_t *probe) {
  const late_t *late = probe->options.data;
  for (int i = 0; i < IN_FLIGHT; i++)
    complete(probe, orders[late->turn % 4][i], late->by_thread);
}

/* ---- ending a run with ops in flight ---------------------------------------------------------------------------- */

static int end_run(probe_t *probe, reason_t reason) {
  if (reason == CANCELLED)
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
  if (reason == FAILED) {
    assert_int_equal(probe_complete(probe, probe_take(probe, 0, IN_FLIGHT), -70), 0);
    probe_await_error(probe, -70);
  }
  if (reason == CLOSED)
    probe_close_pipeline(probe);
  return reason == FAILED ? -70 : OVL_ECANCELED;
}

static void complete_after(probe_t *probe, uint32_t hooks) {
  const late_t *late = probe->options.data;
  if (late->moment == AFTER_THE_HOOKS)
    probe_turn_until(probe, PROBE_HOOK, hooks);
  if (late->moment == AFTER_THE_HOOKS || late->moment == AT_ONCE) {
    assert_int_equal(probe_count(probe, PROBE_DONE), 0);
    complete_all(probe);
  }
}

/* One op more is in flight where one of them is to fail. */
static void end_with_completions_under_way(reason_t reason, late_t late, probe_way_t way) {
  const uint32_t in_flight = IN_FLIGHT + (reason == FAILED);
  const probe_options_t options = {.stage_count = 2,
                                   .stages = {{.way = way, .width = 4}, {.way = PROBE_POOL}},
                                   .window = in_flight,
                                   .on_event = complete_in_hook,
                                   .data = &late};
  probe_t *probe = probe_open(&options);
  probe_start(probe, 8);
  probe_turn_until(probe, PROBE_STARTS, in_flight);
  int status = end_run(probe, reason);
  complete_after(probe, IN_FLIGHT);
  assert_int_equal(probe_finish(probe), status);
  assert_int_equal(probe->counts[PROBE_STARTS], in_flight);
  assert_int_equal(probe->counts[PROBE_FAILURE], 1);
  assert_int_equal(probe->counts[PROBE_MICROBATCH], in_flight);
  for (uint64_t i = 0; i < IN_FLIGHT; i++)
    assert_int_equal(probe_find(probe, PROBE_MICROBATCH, PROBE_NONE, i)->status, OVL_ECANCELED);
  assert_int_equal(probe->pipeline == NULL, reason == CLOSED);
  if (reason != CLOSED) {
    probe_open_gate(probe);
    probe_assert_complete(probe, probe_run(probe, 8), 8);
  }
  probe_close(probe);
}

static void for_each_way(reason_t reason) {
  for (int moment = 0; moment < MOMENTS; moment++)
    for (uint32_t turn = 0; turn < 8; turn++)
      end_with_completions_under_way(
          reason, (late_t){.moment = (moment_t)moment, .turn = turn, .by_thread = turn % 4 < 2},
          ways[turn / 4]);
}

static void case_18_after_cancel(void **state) {
  (void)state;
  for_each_way(CANCELLED);
}

static void case_18_after_an_error(void **state) {
  (void)state;
  for_each_way(FAILED);
}

static void case_18_after_close(void **state) {
  (void)state;
  for_each_way(CLOSED);
}

/* Whoever comes second is refused, before the end of the run and after it (as long as the next has not begun). */
static void case_18_and_only_once(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    const probe_options_t options = {.stage_count = 1, .stages = {{.way = ways[way]}}, .window = 1};
    probe_t *probe = probe_open(&options);
    probe_start(probe, 2);
    probe_turn_until(probe, PROBE_STARTS, 1);
    assert_int_equal(ovl_pipeline_cancel(probe->pipeline), 0);
    ovl_op_t *op = probe_take(probe, 0, 0);
    assert_int_equal(probe_complete(probe, op, 0), 0);
    assert_int_equal(ovl_op_complete(op, 0), OVL_EALREADY);
    assert_int_equal(ovl_op_complete(op, -4), OVL_EALREADY);
    assert_int_equal(probe_finish(probe), OVL_ECANCELED);
    probe_close(probe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_18_after_cancel),
      cmocka_unit_test(case_18_after_an_error),
      cmocka_unit_test(case_18_after_close),
      cmocka_unit_test(case_18_and_only_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
