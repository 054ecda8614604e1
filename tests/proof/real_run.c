/* SPDX-License-Identifier: MIT */
/* Describes and runs pipelines, and writes the log. */
#include "proof/real_run.h"

#include <sched.h>
#include <string.h>

#include "api/pipeline.h"
#include "support/describe.h"
#include "support/faults.h"

static _Thread_local bool completing; /* this thread is inside ovl_op_complete */

/* ---- the log -------------------------------------------------------------------------------------------------------- */

static void write_event(real_run_t *run, real_event_t event) {
  event.written = uv_hrtime();
  unsigned at = atomic_fetch_add(&run->event_count, 1);
  if (at < REAL_EVENTS)
    run->events[at] = event;
}

static void write_op(real_run_t *run, real_event_kind_t kind, const ovl_op_t *op, int status) {
  write_event(run, (real_event_t){.kind = kind,
                                  .microbatch = op->microbatch,
                                  .stage = op->stage.id - 1,
                                  .status = status,
                                  .item = op->item});
}

/* ---- what ops do ------------------------------------------------------------------------------------------------------ */

static random_source_t random_of(const real_run_t *run, uint64_t microbatch, uint32_t stage) {
  return (random_source_t){.state = run->plan.seed + microbatch * REAL_STAGES + stage};
}

int real_outcome(const real_run_t *run, uint64_t microbatch, uint32_t stage) {
  random_source_t random = random_of(run, microbatch, stage);
  if (random_below(&random, 1000) >= run->plan.trouble)
    return 0;
  return random_chance(&random, 20) ? 1 + (int)random_below(&random, 99)
                                    : -1 - (int)random_below(&random, 99);
}

static void spend_time(const real_run_t *run, const ovl_op_t *op) {
  random_source_t random = random_of(run, op->microbatch, op->stage.id + 7);
  uint64_t ns = random_chance(&random, 70) ? 0 : random_below(&random, 20000);
  if (run->plan.dawdles && random_chance(&random, 10))
    ns = 2500000; /* longer than any deadline */
  if (ns > 1000000) {
    uv_sleep((unsigned)(ns / 1000000));
    return;
  }
  for (uint64_t until = uv_hrtime() + ns; ns > 0 && uv_hrtime() < until;)
    ;
}

static void complete(ovl_op_t *op) {
  real_run_t *run = ovl_pipeline_data(op->pipeline);
  int status = real_outcome(run, op->microbatch, op->stage.id - 1);
  write_op(run, REAL_ENDS, op, status);
  completing = true;
  int r = ovl_op_complete(op, status);
  completing = false;
  expect(r == 0, "a completion is refused with %d", r);
}

static void complete_as_a_stranger(ovl_op_t *op) {
  spend_time(ovl_pipeline_data(op->pipeline), op);
  complete(op);
}

static void keep_for_poll(real_run_t *run, ovl_op_t *op) {
  uint32_t lane = op->lane.id - 1;
  uv_mutex_lock(&run->mutex);
  run->polled[lane][run->polled_count[lane]++] = op;
  uv_mutex_unlock(&run->mutex);
}

static void on_poll(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  real_run_t *run = data;
  uint32_t l = lane.id - 1;
  expect(!completing && p == run->pipeline, "a poll hook is called where it should not be");
  uv_mutex_lock(&run->mutex);
  ovl_op_t *op = run->polled_count[l] > 0 ? run->polled[l][--run->polled_count[l]] : NULL;
  uv_mutex_unlock(&run->mutex);
  if (op != NULL)
    complete(op);
}

static void cancel(real_run_t *run, bool must) {
  int r = ovl_pipeline_cancel(run->pipeline);
  expect(!must || r == 0, "a cancel from inside an op is refused with %d", r);
  if (r == 0)
    write_event(run, (real_event_t){.kind = REAL_CANCELLED});
}

static int on_run(ovl_op_t *op) {
  real_run_t *run = ovl_pipeline_data(op->pipeline);
  const real_stage_t *stage = &run->shape.stages[op->stage.id - 1];
  write_op(run, REAL_STARTS, op, op->status);
  expect(!completing, "an op is run by the thread that completes another");
  expect(op->slot == op->microbatch % run->shape.window, "an op has another's slot");
  if (run->plan.cancel == REAL_CANCEL_FROM_OP &&
      op->microbatch * run->shape.stage_count + op->stage.id == run->plan.cancel_at)
    cancel(run, true);
  switch (stage->manner) {
  case REAL_EARLY:
    complete(op);
    return OVL_PENDING;
  case REAL_FOREIGN:
    foreign_give(&run->foreign, op);
    return OVL_PENDING;
  case REAL_POLLED:
    keep_for_poll(run, op);
    return OVL_PENDING;
  case REAL_INLINE:
  case REAL_NOTHING:
  case REAL_MANNERS:
    break;
  }
  spend_time(run, op);
  int status = real_outcome(run, op->microbatch, op->stage.id - 1);
  write_op(run, REAL_ENDS, op, status);
  return status;
}

static int on_cancel(ovl_op_t *op) {
  expect(!completing, "a hook is called by the thread that completes an op");
  write_op(ovl_pipeline_data(op->pipeline), REAL_HOOK, op, op->status);
  return 0;
}

/* ---- what the pipeline says --------------------------------------------------------------------------------------------- */

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  expect(!completing, "a microbatch is reported by the thread that completes an op");
  write_event(
      ovl_pipeline_data(p),
      (real_event_t){.kind = REAL_MICROBATCH, .microbatch = microbatch, .item = item, .status = status});
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  expect(!completing, "a failure is told by the thread that completes an op");
  write_event(ovl_pipeline_data(p), (real_event_t){.kind = REAL_FAILURE,
                                                   .microbatch = failure->microbatch,
                                                   .stage = failure->stage.id - 1,
                                                   .status = failure->status});
}

static void tell_producer(real_run_t *run, bool *flag) {
  uv_mutex_lock(&run->mutex);
  *flag = true;
  uv_cond_broadcast(&run->changed);
  uv_mutex_unlock(&run->mutex);
}

static void on_room(ovl_pipeline_t *p) {
  real_run_t *run = ovl_pipeline_data(p);
  tell_producer(run, &run->room);
}

static void on_done(ovl_pipeline_t *p, int status) {
  real_run_t *run = ovl_pipeline_data(p);
  write_event(run, (real_event_t){.kind = REAL_DONE, .status = status});
  run->status = status;
  tell_producer(run, &run->over);
}

/* ---- describing ---------------------------------------------------------------------------------------------------------- */

static void add_lanes(real_run_t *run) {
  for (uint32_t l = 0; l < run->shape.lane_count; l++) {
    const real_lane_t *lane = &run->shape.lanes[l];
    ovl_lane_options_t options = lane_options(NULL, lane->kind, lane->width);
    options.order = lane->fixed ? OVL_ORDER_FIXED : OVL_ORDER_READY;
    options.role = (ovl_role_t)(l % 3);
    options.poll = lane->polled ? on_poll : NULL;
    options.data = run;
    add_lane_with(run->pipeline, &options);
  }
}

static void add_stages(real_run_t *run) {
  for (uint32_t s = 0; s < run->shape.stage_count; s++) {
    const real_stage_t *stage = &run->shape.stages[s];
    ovl_stage_options_t options = stage_options((ovl_lane_t){stage->lane + 1}, on_run, NULL);
    if (stage->manner == REAL_NOTHING)
      options.run = NULL;
    options.cancel = stage->hook ? on_cancel : NULL;
    options.unchained = stage->unchained;
    options.always = stage->always;
    options.timeout_ns = stage->timeout_ns;
    options.cost_ns = stage->cost_ns;
    add_stage_with(run->pipeline, &options);
  }
  for (uint32_t k = 0; k < run->shape.dependency_count; k++) {
    const real_dependency_t *d = &run->shape.dependencies[k];
    assert_int_equal(ovl_pipeline_add_dependency(run->pipeline, (ovl_stage_t){d->before + 1},
                                                 (ovl_stage_t){d->after + 1}, d->distance),
                     0);
  }
}

void real_open(real_run_t *run) {
  ovl_pipeline_options_t options = pipeline_options(run->shape.window);
  options.data = run;
  options.queue = run->shape.queue;
  options.mode = run->shape.mode;
  options.on_error = run->shape.on_error;
  options.spin_ns = run->shape.spin_ns;
  options.no_stats = run->shape.no_stats;
  options.trace = run->shape.traced ? REAL_MICROBATCHES * REAL_STAGES : 0;
  options.on_microbatch = run->shape.reports ? on_microbatch : NULL;
  options.on_failure = run->shape.tells ? on_failure : NULL;
  options.on_room = run->shape.rooms ? on_room : NULL;
  run->pipeline = make_pipeline(&options);
  add_lanes(run);
  add_stages(run);
  uv_mutex_init(&run->mutex);
  uv_cond_init(&run->changed);
}

void real_close(real_run_t *run) {
  ovl_pipeline_close(run->pipeline, NULL);
  uv_cond_destroy(&run->changed);
  uv_mutex_destroy(&run->mutex);
}

/* ---- the orders that fixed lanes must keep -------------------------------------------------------------------------------- */

static void note_start(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  real_run_t *run = data;
  uint32_t lane = op->lane.id - 1;
  (void)start;
  (void)end;
  run->order[lane][run->order_count[lane]++] = (uint32_t)op->microbatch * REAL_STAGES + op->stage.id - 1;
}

static void give_order(ovl_pipeline_t *p, uint32_t lane, const uint32_t *numbers, uint32_t count) {
  ovl_op_id_t order[REAL_MICROBATCHES * REAL_STAGES] = {{0, {0}}};
  for (uint32_t k = 0; k < count; k++)
    order[k] = (ovl_op_id_t){.microbatch = numbers[k] / REAL_STAGES, .stage = {numbers[k] % REAL_STAGES + 1}};
  assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){lane + 1}, order, count), 0);
}

static uint64_t any_duration(const ovl_op_t *op, void *data) {
  random_source_t random = random_of(data, op->microbatch, op->stage.id + 50);
  return random_below(&random, 100);
}

/* The order in which the lane starts its ops by a simulation with other durations, in which it keeps none. */
static void simulate_other_order(const real_run_t *run) {
  static real_run_t twin;
  ovl_simulation_t simulation;
  memset(&twin, 0, sizeof twin);
  twin.shape = run->shape;
  twin.plan = run->plan;
  for (uint32_t l = 0; l < twin.shape.lane_count; l++)
    twin.shape.lanes[l].fixed = false;
  real_open(&twin);
  ovl_simulation_init(&simulation);
  simulation.duration = any_duration;
  simulation.on_op = note_start;
  simulation.data = &twin;
  assert_int_equal(ovl_pipeline_simulate(twin.pipeline, run->plan.count, &simulation, NULL), 0);
  real_close(&twin);
  for (uint32_t l = 0; l < run->shape.lane_count; l++)
    if (run->shape.lanes[l].fixed)
      give_order(run->pipeline, l, twin.order[l], twin.order_count[l]);
}

static void take_orders_back(const real_run_t *run) {
  for (uint32_t l = 0; l < run->shape.lane_count; l++)
    if (run->shape.lanes[l].fixed)
      give_order(run->pipeline, l, NULL, 0);
}

/* Counted: what the simulator says. Streaming: microbatch by microbatch, as a serial simulation does. */
static void expect_orders(real_run_t *run) {
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.on_op = note_start;
  simulation.data = run;
  memset(run->order_count, 0, sizeof run->order_count);
  take_orders_back(run);
  if (run->plan.gives && run->shape.mode == OVL_OVERLAP)
    simulate_other_order(run);
  if (run->plan.streaming)
    ovl_pipeline_set_mode(run->pipeline, OVL_SERIAL);
  assert_int_equal(ovl_pipeline_simulate(run->pipeline, run->plan.count, &simulation, NULL), 0);
  ovl_pipeline_set_mode(run->pipeline, run->shape.mode);
}

/* ---- running -------------------------------------------------------------------------------------------------------------- */

/* False: the run has ended. Without on_room it just tries again. */
static bool wait_for_room(real_run_t *run) {
  uv_mutex_lock(&run->mutex);
  while (run->shape.rooms && !run->room && !run->over)
    uv_cond_wait(&run->changed, &run->mutex);
  bool goes_on = !run->over;
  run->room = false;
  uv_mutex_unlock(&run->mutex);
  sched_yield();
  return goes_on;
}

/* Items are numbers that say which they are. */
static void produce(void *argument) {
  real_run_t *run = argument;
  uint32_t accepted = 0;
  int r = 0;
  while (accepted < run->plan.count) {
    r = ovl_pipeline_submit(run->pipeline, (void *)(uintptr_t)(accepted + 1));
    accepted += r == 0;
    if (r != 0 && (r != OVL_EAGAIN || !wait_for_room(run)))
      break;
  }
  expect(r == 0 || r == OVL_EAGAIN || r == OVL_ECANCELED, "a submit is refused with %d", r);
  r = ovl_pipeline_finish(run->pipeline);
  expect(r == 0, "finish is refused with %d", r);
  uv_mutex_lock(&run->mutex);
  run->accepted = accepted;
  uv_mutex_unlock(&run->mutex);
}

static void cancel_later(void *argument) {
  real_run_t *run = argument;
  for (uint64_t until = uv_hrtime() + run->plan.cancel_at * UINT64_C(1000); uv_hrtime() < until;)
    ;
  cancel(run, false);
}

static void start_helpers(real_run_t *run) {
  run->has_producer = run->plan.streaming;
  run->has_canceller = run->plan.cancel == REAL_CANCEL_FROM_THREAD;
  if (run->has_producer)
    assert_int_equal(uv_thread_create(&run->producer, produce, run), 0);
  if (run->has_canceller)
    assert_int_equal(uv_thread_create(&run->canceller, cancel_later, run), 0);
}

static void join_helpers(real_run_t *run) {
  if (run->has_producer)
    uv_thread_join(&run->producer);
  if (run->has_canceller)
    uv_thread_join(&run->canceller);
}

static void play_on_a_loop(real_run_t *run, uint64_t count) {
  assert_int_equal(uv_loop_init(&run->loop), 0);
  assert_int_equal(ovl_pipeline_start(run->pipeline, &run->loop, count, on_done), 0);
  uv_run(&run->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&run->loop), 0);
}

static void keep_records(real_run_t *run) {
  ovl_trace_t trace;
  ovl_trace_init(&trace, run->records, sizeof run->records / sizeof *run->records);
  assert_int_equal(ovl_pipeline_trace(run->pipeline, &trace), 0);
  run->record_count = (uint32_t)trace.count;
  run->goes_ahead = run->pipeline->exec.ahead_count > 0;
}

void real_play(real_run_t *run) {
  uint64_t count = run->plan.streaming ? OVL_STREAMING : run->plan.count;
  expect_orders(run);
  atomic_store(&run->event_count, 0);
  run->over = run->room = false;
  run->accepted = 0;
  foreign_start(&run->foreign, 2, REAL_MICROBATCHES * REAL_STAGES, complete_as_a_stranger);
  start_helpers(run);
  if (run->plan.blocking)
    on_done(run->pipeline, ovl_pipeline_run(run->pipeline, count));
  else
    play_on_a_loop(run, count);
  join_helpers(run);
  foreign_stop(&run->foreign);
  run->failure = failure_of(run->pipeline);
  run->stats = stats_of(run->pipeline);
  keep_records(run);
}
