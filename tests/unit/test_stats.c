/* SPDX-License-Identifier: MIT */
/* Shows that the statistics count exactly, that their times agree with each other whatever the machine does, that
 * they can be had while a run goes on, and that they say in words why overlap was missed. */
#include <float.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "observe/stats.h"
#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"
#include "support/nap.h"

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

/* Spins a little, by the number of its microbatch. */
static int work(ovl_op_t *op) {
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 200 + op->microbatch % 7 * 100; i++)
    sum = sum + i;
  return 0;
}

static int fail_every_fifth(ovl_op_t *op) { return op->microbatch % 5 == 2 ? -5 : 0; }

static ovl_pipeline_t *two_lanes(ovl_pipeline_options_t options, ovl_op_cb compute, ovl_op_cb comm) {
  options.compute = compute;
  options.comm = comm;
  return make_pipeline(&options);
}

static ovl_lane_stats_t lane_stats_of(const ovl_pipeline_t *p, uint32_t id) {
  ovl_lane_stats_t stats;
  ovl_lane_stats_init(&stats);
  assert_int_equal(ovl_pipeline_lane_stats(p, (ovl_lane_t){id}, &stats), 0);
  return stats;
}

static ovl_stage_stats_t stage_stats_of(const ovl_pipeline_t *p, uint32_t id) {
  ovl_stage_stats_t stats;
  ovl_stage_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){id}, &stats), 0);
  return stats;
}

/* Times are rounded one by one when they are corrected for the clock's rate. */
static bool about(double a, double b) {
  double apart = a > b ? a - b : b - a;
  return apart <= 4.0 + 1e-6 * (a > b ? a : b);
}

static uint64_t idle_of(const ovl_lane_stats_t *s) {
  return s->idle_fill_ns + s->idle_dependency_ns + s->idle_window_ns + s->idle_input_ns +
         s->idle_fixed_order_ns + s->idle_runner_ns + s->idle_tail_ns;
}

static bool adds_up(const ovl_lane_stats_t *s) {
  return s->busy_ns + idle_of(s) == s->width * s->elapsed_ns && s->awaited_ns <= s->idle_dependency_ns;
}

/* What holds of any run of the two lanes. */
static void check_times(const ovl_pipeline_t *p) {
  ovl_stats_t s = stats_of(p);
  uint64_t busy = 0;
  for (uint32_t id = 1; id <= 2; id++) {
    ovl_lane_stats_t lane = lane_stats_of(p, id);
    ovl_stage_stats_t stage = stage_stats_of(p, id);
    assert_int_equal(lane.elapsed_ns, s.elapsed_ns);
    assert_true(adds_up(&lane));
    assert_int_equal(lane.idle_input_ns + lane.idle_fixed_order_ns, 0);
    assert_true(stage.delay_max_ns <= stage.delay_total_ns);
    assert_true(about(stage.delay_mean_ns * (double)stage.ops, (double)stage.delay_total_ns));
    assert_true(lane.busy_ns <= s.bound_ns); /* one after the other */
    assert_int_equal(stage.total_ns, lane.busy_ns);
    assert_true(stage.min_ns <= stage.max_ns && stage.max_ns <= stage.total_ns);
    assert_true(stage.mean_ns >= (double)stage.min_ns && stage.mean_ns <= (double)stage.max_ns + 1.0);
    assert_true(about(stage.mean_ns * (double)stage.ops, (double)stage.total_ns));
    busy += lane.busy_ns;
  }
  assert_true(about((double)s.work_ns, (double)busy));
  assert_true(s.bound_ns <= s.work_ns); /* somebody always works */
  assert_true(s.bound_ns <= s.elapsed_ns);
  assert_true(s.hidden_ns + s.exposed_ns <= s.elapsed_ns);
  assert_true(s.hidden_ns + s.exposed_ns + 2 >= lane_stats_of(p, 2).busy_ns);
  assert_true(about(s.efficiency * (double)s.elapsed_ns, (double)s.bound_ns));
  assert_true(about(s.concurrency * (double)s.elapsed_ns, (double)s.work_ns));
  assert_int_equal(s.reserved, 0);
}

/* ---- counts and times -------------------------------------------------------------------------------------------- */

static void a_run_is_counted_exactly(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(4), work, work);
  assert_int_equal(ovl_pipeline_run(p, 50), 0);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.microbatches, 50);
  assert_int_equal(s.ops, 100);
  assert_int_equal(s.failed, 0);
  assert_int_equal(s.skipped, 0);
  assert_int_equal(s.window, 4);
  assert_int_equal(s.pool_width, 2);
  assert_in_range(s.pool_peak, 1, 2);
  assert_int_equal(s.loop_longest_ns, 0);
  assert_true(s.elapsed_ns > 0 && s.work_ns > 0);
  for (uint32_t id = 1; id <= 2; id++) {
    assert_int_equal(lane_stats_of(p, id).ops, 50);
    assert_int_equal(lane_stats_of(p, id).width, 1);
    assert_int_equal(lane_stats_of(p, id).peak, 1);
    assert_int_equal(stage_stats_of(p, id).ops, 50);
  }
  check_times(p);
  ovl_pipeline_close(p, NULL);
}

static void failed_and_skipped_are_counted_exactly(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(3);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  ovl_pipeline_t *p = two_lanes(options, fail_every_fifth, no_op);
  assert_int_equal(ovl_pipeline_run(p, 50), -5);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.microbatches, 50);
  assert_int_equal(s.failed, 10);
  assert_int_equal(s.ops, 90);
  assert_int_equal(s.skipped, 10);
  assert_int_equal(stage_stats_of(p, 1).ops, 50);
  assert_int_equal(stage_stats_of(p, 1).failed, 10);
  assert_int_equal(stage_stats_of(p, 1).skipped, 0);
  assert_int_equal(stage_stats_of(p, 2).ops, 40);
  assert_int_equal(stage_stats_of(p, 2).failed, 0);
  assert_int_equal(stage_stats_of(p, 2).skipped, 10);
  check_times(p);
  ovl_pipeline_close(p, NULL);
}

static void a_stopped_run_counts_what_it_did(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(1), fail_every_fifth, no_op);
  assert_int_equal(ovl_pipeline_run(p, 50), -5);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.microbatches, 3); /* 0, 1, and 2, which fails */
  assert_int_equal(s.failed, 1);
  assert_int_equal(s.ops, 5);
  assert_int_equal(s.skipped, 1);
  check_times(p);
  ovl_pipeline_close(p, NULL);
}

static void every_run_counts_from_nothing(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(4), work, work);
  const uint64_t counts[] = {20, 7, 0, 3};
  for (size_t run = 0; run < sizeof counts / sizeof *counts; run++) {
    assert_int_equal(ovl_pipeline_run(p, counts[run]), 0);
    assert_int_equal(stats_of(p).microbatches, counts[run]);
    assert_int_equal(stats_of(p).ops, 2 * counts[run]);
    assert_int_equal(lane_stats_of(p, 2).ops, counts[run]);
    assert_int_equal(stage_stats_of(p, 1).ops, counts[run]);
    check_times(p);
  }
  ovl_pipeline_close(p, NULL);
}

static void a_serial_run_takes_at_least_its_work(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  options.mode = OVL_SERIAL;
  ovl_pipeline_t *p = two_lanes(options, work, work);
  assert_int_equal(ovl_pipeline_run(p, 30), 0);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.bound_ns, s.work_ns);
  assert_int_equal(s.hidden_ns, 0);
  assert_true(s.concurrency <= 1.0);
  assert_string_equal(s.finding, ""); /* nobody asked for overlap */
  check_times(p);
  ovl_pipeline_close(p, NULL);
}

/* The first two wait until the third has come. */
static int meet(ovl_op_t *op) {
  static ovl_op_t *waiting[2];
  if (op->microbatch < 2) {
    waiting[op->microbatch] = op;
    return OVL_PENDING;
  }
  ovl_op_complete(waiting[0], 0);
  ovl_op_complete(waiting[1], 0);
  return 0;
}

static void a_lane_that_is_three_wide_has_a_peak_of_three(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(3);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 3), meet, NULL);
  assert_int_equal(ovl_pipeline_run(p, 3), 0);
  assert_int_equal(lane_stats_of(p, 1).width, 3);
  assert_int_equal(lane_stats_of(p, 1).peak, 3);
  assert_true(lane_stats_of(p, 1).busy_ns <= 3 * stats_of(p).elapsed_ns);
  ovl_lane_stats_t lane = lane_stats_of(p, 1);
  assert_true(adds_up(&lane));
  assert_int_equal(stats_of(p).pool_width, 0);
  assert_int_equal(stats_of(p).pool_peak, 0);
  ovl_pipeline_close(p, NULL);
}

/* Times are corrected for the clock's rate: all of them, by one factor, and nothing else. */
static void a_correction_is_applied_to_every_time_and_to_no_count(void **state) {
  (void)state;
  ovl_stats_t s = {
      .size = sizeof s, .microbatches = 1, .failed = 2, .ops = 3, .skipped = 4, .elapsed_ns = 1000};
  s.work_ns = 1200;
  s.bound_ns = 800;
  s.hidden_ns = 300;
  s.exposed_ns = 200;
  s.pool_wait_ns = 100;
  s.loop_longest_ns = 60;
  s.efficiency = 0.8;
  s.concurrency = 1.2;
  ovl_stats_t expected = s;
  uint64_t *const times[] = {&expected.elapsed_ns,     &expected.work_ns,    &expected.bound_ns,
                             &expected.hidden_ns,      &expected.exposed_ns, &expected.pool_wait_ns,
                             &expected.loop_longest_ns};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] /= 2;
  ovl_stats_scale(&s, 0.5);
  assert_memory_equal(&s, &expected, sizeof s);

  ovl_lane_stats_t lane = {
      .size = sizeof lane, .ops = 5, .busy_ns = 700, .elapsed_ns = 1000, .width = 2, .peak = 1};
  lane.idle_dependency_ns = 800;
  lane.idle_tail_ns = 500;
  lane.awaited_ns = 600;
  ovl_stats_scale_lane(&lane, 0.5);
  assert_true(lane.busy_ns == 350 && lane.elapsed_ns == 500 && lane.ops == 5 && lane.width == 2 &&
              lane.peak == 1);
  assert_true(lane.idle_dependency_ns == 400 && lane.idle_tail_ns == 250 && lane.awaited_ns == 300);

  ovl_stage_stats_t stage = {.size = sizeof stage, .ops = 5, .failed = 1, .skipped = 2, .total_ns = 50};
  stage.min_ns = 4;
  stage.max_ns = 20;
  stage.mean_ns = 10.0;
  stage.delay_total_ns = 30;
  stage.delay_max_ns = 12;
  stage.delay_mean_ns = 6.0;
  ovl_stats_scale_stage(&stage, 0.5);
  assert_true(stage.total_ns == 25 && stage.min_ns == 2 && stage.max_ns == 10 && stage.mean_ns == 5.0);
  assert_true(stage.delay_total_ns == 15 && stage.delay_max_ns == 6 && stage.delay_mean_ns == 3.0);
  assert_true(stage.ops == 5 && stage.failed == 1 && stage.skipped == 2);
}

/* Whatever the factor, and however the parts would be rounded one by one. */
static void parts_that_are_corrected_still_add_up(void **state) {
  (void)state;
  for (uint64_t k = 1; k < 2000; k++) {
    ovl_lane_stats_t s = {.size = sizeof s, .elapsed_ns = 100000 + 7 * k, .width = 1 + k % 4};
    uint64_t whole = s.width * s.elapsed_ns, left = k % 3 == 0 ? k % 5 : whole * (k % 11) / 10;
    s.busy_ns = whole - left;
    s.idle_fill_ns = left / 7;
    s.idle_dependency_ns = s.awaited_ns = left / 3;
    s.idle_runner_ns = left - left / 7 - left / 3;
    assert_true(adds_up(&s));
    ovl_stats_scale_lane(&s, 0.9 + (double)(k * 37 % 2000) * 1e-4);
    assert_true(adds_up(&s));
    assert_true(s.busy_ns <= whole * 2 && s.idle_runner_ns <= whole * 2); /* no part is below 0 */
    assert_int_equal(s.idle_window_ns + s.idle_input_ns + s.idle_fixed_order_ns + s.idle_tail_ns, 0);
  }
}

/* 3 x 30 x 0.7 is less than 63 as a double, and 30 x 0.7 is 21; where products are kept with more digits, both are less. */
static void parts_that_are_rounded_down_still_add_up(void **state) {
  (void)state;
  ovl_lane_stats_t s = {.size = sizeof s, .busy_ns = 80, .elapsed_ns = 30, .width = 3, .idle_fill_ns = 10};
  ovl_stats_scale_lane(&s, 0.7);
  assert_true(adds_up(&s));
  if (FLT_EVAL_METHOD != 0)
    return;
  assert_int_equal(s.elapsed_ns, 21);
  assert_int_equal(s.busy_ns, 56);
  assert_int_equal(s.idle_fill_ns, 7);
}

/* ---- without statistics ------------------------------------------------------------------------------------------ */

static void without_statistics_there_are_counts_and_the_time_elapsed(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  options.no_stats = 1;
  ovl_pipeline_t *p = two_lanes(options, work, work);
  assert_int_equal(ovl_pipeline_run(p, 20), 0);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.microbatches, 20);
  assert_int_equal(s.ops, 40);
  assert_true(s.elapsed_ns > 0);
  assert_int_equal(s.work_ns + s.bound_ns + s.hidden_ns + s.exposed_ns + s.pool_wait_ns + s.loop_longest_ns,
                   0);
  assert_true(s.concurrency == 0.0 && s.efficiency == 0.0);
  assert_string_equal(s.finding, "");
  assert_int_equal(lane_stats_of(p, 1).ops, 20);
  assert_int_equal(lane_stats_of(p, 1).busy_ns, 0);
  ovl_lane_stats_t lane = lane_stats_of(p, 2);
  assert_int_equal(idle_of(&lane), 0);
  assert_int_equal(stage_stats_of(p, 2).delay_total_ns + stage_stats_of(p, 2).delay_max_ns, 0);
  assert_int_equal(stage_stats_of(p, 2).ops, 20);
  assert_int_equal(stage_stats_of(p, 2).total_ns + stage_stats_of(p, 2).max_ns, 0);
  ovl_pipeline_close(p, NULL);
}

static void before_the_first_run_all_is_zero(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(4), no_op, no_op);
  ovl_stats_t s = stats_of(p), zero;
  ovl_stats_init(&zero);
  assert_string_equal(s.finding, "");
  s.finding = NULL;
  assert_memory_equal(&s, &zero, sizeof s);
  assert_int_equal(lane_stats_of(p, 1).ops + lane_stats_of(p, 1).busy_ns + lane_stats_of(p, 1).elapsed_ns, 0);
  assert_int_equal(stage_stats_of(p, 1).ops + stage_stats_of(p, 1).total_ns, 0);
  ovl_pipeline_close(p, NULL);
}

static void a_run_of_nothing_has_no_ratios(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(4), no_op, no_op);
  assert_int_equal(ovl_pipeline_run(p, 0), 0);
  ovl_stats_t s = stats_of(p);
  assert_int_equal(s.microbatches + s.ops + s.work_ns + s.bound_ns, 0);
  assert_true(s.concurrency == 0.0 && s.efficiency == 0.0);
  assert_int_equal(stage_stats_of(p, 1).min_ns, 0);
  ovl_pipeline_close(p, NULL);
}

static void what_there_is_not_has_no_statistics(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(4), no_op, no_op);
  ovl_stats_t s;
  ovl_lane_stats_t lane;
  ovl_stage_stats_t stage;
  ovl_stats_init(&s);
  ovl_lane_stats_init(&lane);
  ovl_stage_stats_init(&stage);
  assert_int_equal(ovl_pipeline_stats(NULL, &s), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_stats(p, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_lane_stats(NULL, (ovl_lane_t){1}, &lane), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_lane_stats(p, (ovl_lane_t){1}, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_lane_stats(p, (ovl_lane_t){0}, &lane), OVL_ENOLANE);
  assert_int_equal(ovl_pipeline_lane_stats(p, (ovl_lane_t){3}, &lane), OVL_ENOLANE);
  assert_int_equal(ovl_pipeline_stage_stats(NULL, (ovl_stage_t){1}, &stage), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){1}, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){0}, &stage), OVL_ENOSTAGE);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){3}, &stage), OVL_ENOSTAGE);
  ovl_pipeline_close(p, NULL);
}

/* ---- while a run goes on ----------------------------------------------------------------------------------------- */

static atomic_int wrong;

/* Ops of one lane, one at a time: each sees how many have ended. */
static int count_from_inside(ovl_op_t *op) {
  ovl_stats_t s;
  ovl_stats_init(&s);
  if (ovl_pipeline_stats(op->pipeline, &s) != 0 || s.ops != op->microbatch ||
      s.microbatches != op->microbatch || s.bound_ns > s.elapsed_ns)
    atomic_fetch_add(&wrong, 1);
  return 0;
}

static void an_op_sees_those_before_it(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(3);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), count_from_inside, NULL);
  atomic_store(&wrong, 0);
  assert_int_equal(ovl_pipeline_run(p, 100), 0);
  assert_int_equal(atomic_load(&wrong), 0);
  ovl_pipeline_close(p, NULL);
}

enum { WATCHED = 300, LOOKS = 5 };

typedef struct watcher {
  ovl_pipeline_t *p;
  uv_thread_t thread;
  atomic_int looks, stop;
} watcher_t;

static watcher_t watcher;

/* The first op waits until it has been looked at a few times, so somebody does look in the midst of the run. */
static int wait_for_watcher(ovl_op_t *op) {
  while (op->microbatch == 0 && atomic_load(&watcher.looks) < LOOKS)
    uv_sleep(1);
  return work(op);
}

/* What a snapshot must be like, whenever it is taken. The bound may shrink a little, for times are corrected by the
 * clock's rate as it shows so far. */
static bool is_sound(const ovl_stats_t *s, const ovl_stats_t *before) {
  return s->ops >= before->ops && s->ops <= 2 * WATCHED && s->microbatches >= before->microbatches &&
         s->microbatches <= WATCHED && s->bound_ns + 1000 + before->bound_ns / 50 >= before->bound_ns &&
         s->bound_ns <= s->elapsed_ns && s->hidden_ns + s->exposed_ns <= s->elapsed_ns;
}

static void watch(void *argument) {
  watcher_t *w = argument;
  ovl_stats_t before = {.size = sizeof before};
  while (!atomic_load(&w->stop)) {
    ovl_stats_t s = {.size = sizeof s};
    ovl_lane_stats_t lane = {.size = sizeof lane};
    if (ovl_pipeline_stats(w->p, &s) != 0 || !is_sound(&s, &before))
      atomic_fetch_add(&wrong, 1);
    if (ovl_pipeline_lane_stats(w->p, (ovl_lane_t){1}, &lane) != 0 || lane.ops > WATCHED || lane.peak > 1 ||
        !adds_up(&lane))
      atomic_fetch_add(&wrong, 1);
    before = s;
    if (s.elapsed_ns > 0)
      atomic_fetch_add(&w->looks, 1);
    uv_sleep(0);
  }
}

static void another_thread_may_look_at_any_time(void **state) {
  (void)state;
  atomic_store(&wrong, 0);
  watcher.p = two_lanes(pipeline_options(4), wait_for_watcher, work);
  assert_int_equal(uv_thread_create(&watcher.thread, watch, &watcher), 0);
  int status = ovl_pipeline_run(watcher.p, WATCHED);
  atomic_store(&watcher.stop, 1);
  uv_thread_join(&watcher.thread);
  assert_int_equal(status, 0);
  assert_int_equal(atomic_load(&wrong), 0);
  assert_int_equal(stats_of(watcher.p).ops, 2 * WATCHED);
  ovl_pipeline_close(watcher.p, NULL);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

static uint64_t run_began;

/* So long that whatever else the run spends its time with is less than a tenth of it. */
static int take_most_of_the_time(ovl_op_t *op) {
  if (op->microbatch == 0)
    return 0;
  nap_for(20 * (uv_hrtime() - run_began), 3000000);
  return 0;
}

static const char *finding_of(ovl_pipeline_t *p, uint64_t microbatches) {
  run_began = uv_hrtime();
  assert_int_equal(ovl_pipeline_run(p, microbatches), 0);
  return stats_of(p).finding;
}

static void a_window_of_one_is_found(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(pipeline_options(1), no_op, take_most_of_the_time);
  assert_non_null(strstr(finding_of(p, 2), "the window is 1"));
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_non_null(strstr(stats_of(p).finding, "the window is 1")); /* still of the run that was */
  assert_string_equal(finding_of(p, 2), "");
  ovl_pipeline_close(p, NULL);
}

static void a_loop_lane_that_blocks_is_found(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t settings = lane_options("compute", OVL_LANE_LOOP, 1);
  settings.role = OVL_ROLE_COMPUTE;
  add_stage(p, add_lane_with(p, &settings), no_op, NULL);
  settings.name = "comm";
  settings.role = OVL_ROLE_COMM;
  add_stage(p, add_lane_with(p, &settings), take_most_of_the_time, NULL);
  assert_non_null(strstr(finding_of(p, 2), "loop lane blocks"));
  assert_true(stats_of(p).loop_longest_ns >= 2900000);
  ovl_pipeline_close(p, NULL);
}

static void lanes_without_roles_have_nothing_to_hide(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(1);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), take_most_of_the_time, NULL);
  assert_string_equal(finding_of(p, 2), "");
  assert_int_equal(stats_of(p).hidden_ns + stats_of(p).exposed_ns, 0);
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_is_counted_exactly),
      cmocka_unit_test(failed_and_skipped_are_counted_exactly),
      cmocka_unit_test(a_stopped_run_counts_what_it_did),
      cmocka_unit_test(every_run_counts_from_nothing),
      cmocka_unit_test(a_serial_run_takes_at_least_its_work),
      cmocka_unit_test(a_lane_that_is_three_wide_has_a_peak_of_three),
      cmocka_unit_test(a_correction_is_applied_to_every_time_and_to_no_count),
      cmocka_unit_test(parts_that_are_corrected_still_add_up),
      cmocka_unit_test(parts_that_are_rounded_down_still_add_up),
      cmocka_unit_test(without_statistics_there_are_counts_and_the_time_elapsed),
      cmocka_unit_test(before_the_first_run_all_is_zero),
      cmocka_unit_test(a_run_of_nothing_has_no_ratios),
      cmocka_unit_test(what_there_is_not_has_no_statistics),
      cmocka_unit_test(an_op_sees_those_before_it),
      cmocka_unit_test(another_thread_may_look_at_any_time),
      cmocka_unit_test(a_window_of_one_is_found),
      cmocka_unit_test(a_loop_lane_that_blocks_is_found),
      cmocka_unit_test(lanes_without_roles_have_nothing_to_hide),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
