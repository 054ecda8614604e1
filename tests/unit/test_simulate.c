/* SPDX-License-Identifier: MIT */
/* Shows that a simulation takes the time that theory says, tells of every op when it starts, calls nothing that
 * would do work, and changes nothing. */
#include <stdatomic.h>
#include <string.h>

#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"

#define MS UINT64_C(1000000)

static atomic_int calls;

static int count_call(ovl_op_t *op) {
  (void)op;
  atomic_fetch_add(&calls, 1);
  return 0;
}

static void count_report(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
  atomic_fetch_add(&calls, 1);
}

/* Two lanes with these hints. */
static ovl_pipeline_t *two_lanes(uint64_t compute_ns, uint64_t comm_ns) {
  ovl_pipeline_options_t options = pipeline_options(4);
  options.on_microbatch = count_report;
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int s = 0; s < 2; s++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_POOL, 1);
    lane.role = s == 0 ? OVL_ROLE_COMPUTE : OVL_ROLE_COMM;
    ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), count_call, NULL);
    stage.cost_ns = s == 0 ? compute_ns : comm_ns;
    add_stage_with(p, &stage);
  }
  atomic_store(&calls, 0);
  return p;
}

static ovl_stats_t simulate(ovl_pipeline_t *p, uint64_t microbatches, const ovl_simulation_t *simulation) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_simulate(p, microbatches, simulation, &stats), 0);
  return stats;
}

/* ---- how long ---------------------------------------------------------------------------------------------------- */

static void hints_of_50_and_30_ms_give_430_and_640(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(50 * MS, 30 * MS);
  ovl_stats_t s = simulate(p, 8, NULL);
  assert_int_equal(s.elapsed_ns, 430 * MS);
  assert_int_equal(s.bound_ns, 430 * MS);
  assert_true(s.efficiency == 1.0);
  assert_int_equal(s.work_ns, 640 * MS);
  assert_int_equal(s.hidden_ns, 210 * MS);
  assert_int_equal(s.exposed_ns, 30 * MS);
  assert_int_equal(s.microbatches, 8);
  assert_int_equal(s.ops, 16);
  assert_int_equal(s.window, 4);
  assert_string_equal(s.finding, "");
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(simulate(p, 8, NULL).elapsed_ns, 640 * MS);
  assert_int_equal(atomic_load(&calls), 0);
  ovl_pipeline_close(p, NULL);
}

static void any_hints_give_what_the_closed_forms_say(void **state) {
  (void)state;
  for (uint64_t compute = 1; compute <= 5; compute++)
    for (uint64_t comm = 1; comm <= 5; comm++) {
      ovl_pipeline_t *p = two_lanes(compute, comm);
      for (uint64_t n = 0; n <= 12; n++)
        assert_int_equal(simulate(p, n, NULL).elapsed_ns, ovl_bound_overlap(n, compute, comm));
      ovl_pipeline_close(p, NULL);
    }
}

static void without_a_hint_an_op_takes_one_nanosecond(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(0, 0);
  assert_int_equal(simulate(p, 10, NULL).elapsed_ns, 11);
  ovl_pipeline_close(p, NULL);
}

static uint64_t longest(const ovl_op_t *op, void *data) {
  (void)op;
  (void)data;
  return UINT64_MAX;
}

static void time_that_does_not_fit_is_the_most_that_does(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(1, 1);
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.duration = longest;
  assert_int_equal(simulate(p, 3, &simulation).elapsed_ns, UINT64_MAX);
  ovl_pipeline_close(p, NULL);
}

static uint64_t half_of_the_longest(const ovl_op_t *op, void *data) { return longest(op, data) / 2; }

/* Several at a time take longer in sum than there is time. */
static void work_that_does_not_fit_is_the_most_that_does(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 4), count_call, NULL);
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.duration = half_of_the_longest;
  assert_int_equal(simulate(p, 2, &simulation).work_ns, UINT64_MAX - 1);
  for (uint64_t n = 3; n <= 9; n++) {
    ovl_stats_t s = simulate(p, n, &simulation);
    assert_int_equal(s.work_ns, UINT64_MAX);
    assert_true(s.elapsed_ns >= UINT64_MAX / 2);
    assert_true(s.bound_ns == s.elapsed_ns);
  }
  ovl_pipeline_close(p, NULL);
}

/* ---- told of every op -------------------------------------------------------------------------------------------- */

typedef struct told {
  ovl_op_id_t op;
  uint32_t lane;
  uint64_t start, end;
} told_t;

typedef struct log {
  const uint64_t *durations; /* by stage */
  told_t told[64];
  uint32_t count;
} log_t;

static uint64_t duration_of(const ovl_op_t *op, void *data) {
  return ((const log_t *)data)->durations[op->stage.id - 1];
}

static void note(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data) {
  log_t *log = data;
  log->told[log->count++] = (told_t){.op = {.microbatch = op->microbatch, .stage = op->stage},
                                     .lane = op->lane.id,
                                     .start = start_ns,
                                     .end = end_ns};
}

static ovl_simulation_t logged(log_t *log) {
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.duration = duration_of;
  simulation.on_op = note;
  simulation.data = log;
  return simulation;
}

static void every_op_is_told_with_its_times(void **state) {
  (void)state;
  const uint64_t durations[] = {5, 3};
  log_t log = {.durations = durations};
  ovl_simulation_t simulation = logged(&log);
  ovl_pipeline_t *p = two_lanes(77, 77); /* the callback's durations count */
  assert_int_equal(simulate(p, 4, &simulation).elapsed_ns, 23);
  assert_int_equal(log.count, 8);
  for (uint32_t k = 0; k < 8; k++) {
    const told_t *t = &log.told[k];
    uint64_t i = t->op.microbatch, start = t->op.stage.id == 1 ? 5 * i : 5 * (i + 1);
    assert_int_equal(t->start, start);
    assert_int_equal(t->end, start + durations[t->op.stage.id - 1]);
    assert_true(k == 0 || log.told[k - 1].start <= t->start);
  }
  ovl_pipeline_close(p, NULL);
}

/* Whatever their kinds are. */
static void ops_of_one_instant_start_in_the_order_of_their_lanes(void **state) {
  (void)state;
  const uint64_t durations[] = {1, 1, 1, 1};
  log_t log = {.durations = durations};
  ovl_simulation_t simulation = logged(&log);
  ovl_pipeline_options_t options = pipeline_options(1);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int l = 0; l < 4; l++) {
    ovl_lane_t lane = add_lane(p, l % 2 == 0 ? OVL_LANE_LOOP : OVL_LANE_POOL, 1);
    ovl_stage_options_t stage = stage_options(lane, count_call, NULL);
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
  simulate(p, 2, &simulation);
  assert_int_equal(log.count, 8);
  for (uint32_t k = 0; k < 8; k++) {
    assert_int_equal(log.told[k].lane, k % 4 + 1);
    assert_int_equal(log.told[k].start, k / 4);
  }
  ovl_pipeline_close(p, NULL);
}

/* ---- changes nothing --------------------------------------------------------------------------------------------- */

static void a_simulation_freezes_nothing(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(5, 3);
  assert_int_equal(simulate(p, 4, NULL).ops, 8);
  add_stage(p, (ovl_lane_t){2}, count_call, NULL);
  assert_int_equal(simulate(p, 4, NULL).ops, 12);
  assert_int_equal(stats_of(p).ops, 0);
  assert_int_equal(ovl_pipeline_run(p, 2), 0);
  assert_int_equal(stats_of(p).ops, 6);
  assert_int_equal(simulate(p, 4, NULL).ops, 12);
  assert_int_equal(stats_of(p).ops, 6); /* still of the run */
  ovl_pipeline_close(p, NULL);
}

static void what_cannot_be_simulated_is_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(5, 3);
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_simulate(NULL, 4, NULL, &stats), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_simulate(p, OVL_STREAMING, NULL, &stats), OVL_EINVAL);
  assert_non_null(strstr(ovl_pipeline_error(p), "OVL_STREAMING"));
  assert_int_equal(ovl_pipeline_simulate(p, 4, NULL, NULL), 0);
  assert_string_equal(ovl_pipeline_error(p), "");
  ovl_pipeline_close(p, NULL);
}

static int refused_in_flight;

static void simulate_meanwhile(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)microbatch;
  (void)item;
  (void)status;
  refused_in_flight = ovl_pipeline_simulate(p, 1, NULL, NULL);
}

static void not_while_a_run_is_in_flight(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_microbatch = simulate_meanwhile;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), NULL, NULL);
  assert_int_equal(ovl_pipeline_run(p, 1), 0);
  assert_int_equal(refused_in_flight, OVL_EBUSY);
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hints_of_50_and_30_ms_give_430_and_640),
      cmocka_unit_test(any_hints_give_what_the_closed_forms_say),
      cmocka_unit_test(without_a_hint_an_op_takes_one_nanosecond),
      cmocka_unit_test(time_that_does_not_fit_is_the_most_that_does),
      cmocka_unit_test(work_that_does_not_fit_is_the_most_that_does),
      cmocka_unit_test(every_op_is_told_with_its_times),
      cmocka_unit_test(ops_of_one_instant_start_in_the_order_of_their_lanes),
      cmocka_unit_test(a_simulation_freezes_nothing),
      cmocka_unit_test(what_cannot_be_simulated_is_refused),
      cmocka_unit_test(not_while_a_run_is_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
