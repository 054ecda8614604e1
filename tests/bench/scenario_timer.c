/* SPDX-License-Identifier: MIT */
/* A pipeline as a guest: how late a timer of 10 ms gets beside a saturated pipeline, and beside two bare
 * threads that spin as much, in turns; and the longest time for which the library kept the loop in one
 * turn. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "ovl.h"

enum { PERIOD_MS = 10, MOST_TICKS = 4096, PHASES = 6, THREADS = 2, OP_NS = 20000 };

typedef struct ticks {
  double late_us[MOST_TICKS];
  size_t count;
} ticks_t;

typedef struct guest {
  uv_loop_t loop;
  uv_timer_t timer;
  uv_prepare_t prepare;
  uv_check_t check;
  uv_async_t thread_ended;
  uint64_t op_ticks, phase_ns, last_tick_ns;
  atomic_bool ending;
  ticks_t *ticks;
  ticks_t beside_threads, beside_pipeline;

  /* Time between prepare and check in which the loop did not wait: the turn of those that were woken,
   * which are the library's wake-ups and nothing else. */
  uint64_t prepared_ns, waited_ns;
  double longest_us;
} guest_t;

static void on_tick(uv_timer_t *timer) {
  guest_t *g = timer->data;
  uint64_t now_ns = bench_now_ns();
  double late_us = (double)(now_ns - g->last_tick_ns) / 1000 - PERIOD_MS * 1000.0;
  g->last_tick_ns = now_ns;
  if (g->ticks->count < MOST_TICKS)
    g->ticks->late_us[g->ticks->count++] = late_us > 0 ? late_us : 0;
}

static void on_prepare(uv_prepare_t *prepare) {
  guest_t *g = prepare->data;
  g->waited_ns = uv_metrics_idle_time(&g->loop);
  g->prepared_ns = bench_now_ns();
}

static void on_check(uv_check_t *check) {
  guest_t *g = check->data;
  uint64_t turn_ns = bench_now_ns() - g->prepared_ns,
           waited_ns = uv_metrics_idle_time(&g->loop) - g->waited_ns;
  double busy_us = turn_ns > waited_ns ? (double)(turn_ns - waited_ns) / 1000 : 0;
  if (g->ticks == &g->beside_pipeline && busy_us > g->longest_us)
    g->longest_us = busy_us;
}

static void count_in(guest_t *g, ticks_t *ticks) {
  g->ticks = ticks;
  uv_update_time(&g->loop);
  g->last_tick_ns = bench_now_ns();
  uv_timer_start(&g->timer, on_tick, PERIOD_MS, PERIOD_MS);
}

/* ---- two bare threads ---- */

static void spin_until_end(void *argument) {
  guest_t *g = argument;
  while (!atomic_load(&g->ending))
    bench_spin(g->op_ticks);
}

static void end_after_phase(void *argument) {
  guest_t *g = argument;
  uv_sleep((unsigned)(g->phase_ns / 1000000));
  atomic_store(&g->ending, true);
  uv_async_send(&g->thread_ended);
}

static void on_thread_ended(uv_async_t *async) { uv_stop(async->loop); }

static void run_threads(guest_t *g) {
  uv_thread_t threads[THREADS + 1];
  atomic_store(&g->ending, false);
  count_in(g, &g->beside_threads);
  for (unsigned i = 0; i <= THREADS; i++)
    if (uv_thread_create(&threads[i], i < THREADS ? spin_until_end : end_after_phase, g) != 0)
      abort();
  uv_run(&g->loop, UV_RUN_DEFAULT);
  for (unsigned i = 0; i <= THREADS; i++)
    uv_thread_join(&threads[i]);
}

/* ---- the pipeline: two pool lanes and one on the loop, as a program has that touches its data there ---- */

static int spin_op(ovl_op_t *op) {
  const guest_t *g = op->data;
  bench_spin(g->op_ticks);
  return 0;
}

static int collect(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int add_stage(ovl_pipeline_t *pipeline, guest_t *g, ovl_lane_kind_t kind, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.kind = kind;
  stage.run = run;
  stage.data = g;
  int status = ovl_pipeline_add_lane(pipeline, &lane, &stage.lane);
  return status == 0 ? ovl_pipeline_add_stage(pipeline, &stage, NULL) : status;
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  guest_t *g = ovl_pipeline_data(pipeline);
  (void)status;
  uv_stop(&g->loop);
}

static void run_pipeline(guest_t *g) {
  ovl_pipeline_t *pipeline;
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.data = g;
  if (ovl_pipeline_create(&pipeline, &options) != 0 || add_stage(pipeline, g, OVL_LANE_POOL, spin_op) != 0 ||
      add_stage(pipeline, g, OVL_LANE_POOL, spin_op) != 0 ||
      add_stage(pipeline, g, OVL_LANE_LOOP, collect) != 0)
    abort();
  count_in(g, &g->beside_pipeline);
  if (ovl_pipeline_start(pipeline, &g->loop, g->phase_ns / OP_NS, on_done) != 0)
    abort();
  uv_run(&g->loop, UV_RUN_DEFAULT);
  ovl_pipeline_close(pipeline, NULL);
}

/* ---- the scenario ---- */

static void set_up(guest_t *g) {
  if (uv_loop_init(&g->loop) != 0 || uv_loop_configure(&g->loop, UV_METRICS_IDLE_TIME) != 0)
    abort();
  uv_timer_init(&g->loop, &g->timer);
  uv_prepare_init(&g->loop, &g->prepare);
  uv_check_init(&g->loop, &g->check);
  if (uv_async_init(&g->loop, &g->thread_ended, on_thread_ended) != 0)
    abort();
  g->timer.data = g->prepare.data = g->check.data = g;
  g->op_ticks = bench_ticks(OP_NS);
  uv_prepare_start(&g->prepare, on_prepare);
  uv_check_start(&g->check, on_check);
}

static void tear_down(guest_t *g) {
  uv_close((uv_handle_t *)&g->timer, NULL);
  uv_close((uv_handle_t *)&g->prepare, NULL);
  uv_close((uv_handle_t *)&g->check, NULL);
  uv_close((uv_handle_t *)&g->thread_ended, NULL);
  uv_run(&g->loop, UV_RUN_DEFAULT);
  uv_loop_close(&g->loop);
}

static void add_row(bench_t *bench, const bench_scenario_t *scenario, const char *label, const char *system,
                    double *values, size_t count) {
  bench_result_t result = {.scenario = scenario->name, .system = system, .unit = "us"};
  snprintf(result.label, sizeof result.label, "%s", label);
  result.summary = bench_summarize(values, count);
  bench_report_row(&bench->report, &result);
}

void bench_run_timer(bench_t *bench, const bench_scenario_t *scenario) {
  guest_t *g = calloc(1, sizeof *g);
  if (g == NULL) {
    bench_fail(bench, scenario->name, "no memory");
    return;
  }
  set_up(g);
  g->phase_ns = bench->options.effort == BENCH_FULL    ? UINT64_C(2000000000)
                : bench->options.effort == BENCH_QUICK ? UINT64_C(300000000)
                                                       : UINT64_C(30000000);
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (unsigned phase = 0; phase < PHASES; phase++) {
    bench_report_progress(&bench->report, scenario->name, phase % 2 == 0 ? "threads" : "pipeline", "");
    (phase % 2 == 0 ? run_threads : run_pipeline)(g);
  }
  add_row(bench, scenario, "delay of a 10 ms timer beside", "2 threads", g->beside_threads.late_us,
          g->beside_threads.count);
  add_row(bench, scenario, "delay of a 10 ms timer beside", "libovl", g->beside_pipeline.late_us,
          g->beside_pipeline.count);
  add_row(bench, scenario, "longest turn in the loop", "libovl", &g->longest_us, 1);
  tear_down(g);
  free(g);
}
