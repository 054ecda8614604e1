/* SPDX-License-Identifier: MIT */
/* The lanes compute or wait for the link; the loop's thread lets requests in and hears of their end.
 * A block belongs to its request's slot, so it is written by the next one only when this one has retired. */
#include "pd_disaggregation/serving.h"

#include <stdio.h>
#include <stdlib.h>

#include "parts/report.h"

/* ---- what the stages do ---- */

/* All of the prompt but the last token, with which decode begins. */
static int run_prefill(ovl_op_t *op) {
  serving_t *serving = op->data;
  const request_t *request = op->item;
  op_times_begin(&serving->times, op);
  language_prefill(serving->language, &serving->prefill_scratch, request->prompt, request->prompt_count - 1,
                   &serving->prefilled[op->slot]);
  op_times_end(&serving->times, op);
  return 0;
}

/* On the link's thread. */
static void arrive(void *data) {
  serving_t *serving = data;
  ovl_op_t *op = serving->flying;
  language_block_copy(serving->language, &serving->decoded[op->slot], &serving->prefilled[op->slot]);
  op_times_end(&serving->times, op);
  int status = ovl_op_complete(op, 0);
  if (status == 0)
    return;
  (void)report_failure(serving->program, "completing a transfer", status);
  abort(); /* its run would never end */
}

/* Only departs. */
static int run_transfer(ovl_op_t *op) {
  serving_t *serving = op->data;
  op_times_begin(&serving->times, op);
  serving->flying = op;
  int status = flight_depart(&serving->link, serving_flight(serving, op->item), arrive, serving);
  return status == 0 ? OVL_PENDING : status;
}

static int run_decode(ovl_op_t *op) {
  serving_t *serving = op->data;
  op_times_begin(&serving->times, op);
  requests_decode(op->item, serving->language, &serving->decode_scratch, &serving->decoded[op->slot]);
  op_times_end(&serving->times, op);
  return 0;
}

uint64_t serving_flight(const serving_t *serving, const request_t *request) {
  size_t bytes = language_block_bytes(serving->language, request->prompt_count - 1);
  return (uint64_t)(serving->ns_per_byte * (double)bytes);
}

/* ---- letting requests in ---- */

static void stop(serving_t *serving, const char *what, int status) {
  serving->status = report_failure(serving->program, what, status);
  (void)ovl_pipeline_cancel(serving->pipeline); /* fails only where the run is ending already */
}

/* As many of those that wait as there is room for. */
static void let_in(serving_t *serving) {
  int status = 0;
  while (serving->submitted < serving->arrived && status == 0) {
    status = ovl_pipeline_submit(serving->pipeline, &serving->requests[serving->submitted]);
    if (status == 0)
      serving->submitted++;
  }
  if (status == OVL_EAGAIN)
    serving->refused++; /* on_room will go on */
  else if (status != 0 && serving->status == 0)
    stop(serving, "submitting a request", status);
  if (serving->submitted < serving->count)
    return;
  status = ovl_pipeline_finish(serving->pipeline);
  if (status != 0)
    stop(serving, "finishing the stream", status);
}

static void on_room(ovl_pipeline_t *pipeline) { let_in(ovl_pipeline_data(pipeline)); }

static void on_timer(uv_timer_t *timer);

/* libuv's timers count whole milliseconds, so several may arrive at once. */
static int await_next(serving_t *serving) {
  uint64_t passed_ns = uv_hrtime() - serving->start_ns;
  double left_ms = (serving->next_ns - (double)passed_ns) / 1e6;
  uv_update_time(&serving->loop);
  return uv_timer_start(&serving->timer, on_timer, left_ms > 0 ? (uint64_t)left_ms + 1 : 0, 0);
}

static void on_timer(uv_timer_t *timer) {
  serving_t *serving = timer->data;
  uint64_t now_ns = uv_hrtime();
  while (serving->arrived < serving->count && serving->next_ns <= (double)(now_ns - serving->start_ns)) {
    serving->requests[serving->arrived++].arrived_ns = now_ns;
    if (serving->arrived < serving->count)
      serving->next_ns += serving->pause_ns * serving->requests[serving->arrived].after;
  }
  let_in(serving);
  int status = serving->arrived < serving->count && serving->status == 0 ? await_next(serving) : 0;
  if (status != 0)
    stop(serving, "waiting for the next request", status);
}

/* ---- a run ---- */

static void on_microbatch(ovl_pipeline_t *pipeline, uint64_t microbatch, void *item, int status) {
  request_t *request = item;
  (void)pipeline;
  (void)microbatch;
  request->reports++;
  request->status = status;
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  serving_t *serving = ovl_pipeline_data(pipeline);
  if (status != 0 && serving->status == 0)
    serving->status = report_failed_run(serving->program, pipeline, status);
  uv_close((uv_handle_t *)&serving->timer, NULL);
}

static int begin(serving_t *serving) {
  int status = uv_timer_init(&serving->loop, &serving->timer);
  if (status != 0)
    return report_failure(serving->program, "making a timer", status);
  serving->timer.data = serving;
  serving->start_ns = uv_hrtime();
  serving->next_ns = serving->pause_ns * serving->requests[0].after;
  status = ovl_pipeline_start(serving->pipeline, &serving->loop, OVL_STREAMING, on_done);
  if (status != 0) {
    uv_close((uv_handle_t *)&serving->timer, NULL);
    return report_refusal(serving->program, "starting the server", serving->pipeline, status);
  }
  status = await_next(serving);
  if (status != 0)
    stop(serving, "waiting for the first request", status);
  return 0;
}

static int run_loop(serving_t *serving) {
  int status = uv_loop_init(&serving->loop);
  if (status != 0)
    return report_failure(serving->program, "making a loop", status);
  status = begin(serving);
  (void)uv_run(&serving->loop, UV_RUN_DEFAULT); /* until nothing is left; checked by the next call */
  int closed = uv_loop_close(&serving->loop);
  if (closed != 0)
    return report_failure(serving->program, "closing the loop", closed);
  return status == 0 ? serving->status : status;
}

static int check(const serving_t *serving, ovl_mode_t mode) {
  const ovl_stage_t *stages = serving->stages;
  uint64_t window = mode == OVL_SERIAL ? 1 : serving->window;
  for (size_t i = 0; i < serving->count; i++)
    if (serving->requests[i].reports != 1 || serving->requests[i].status != 0) {
      fprintf(stderr, "%s: request %zu was reported %u times, last with %d\n", serving->program, i,
              serving->requests[i].reports, serving->requests[i].status);
      return OVL_EINVAL;
    }
  if (op_times_check(&serving->times, mode, serving->program) != 0)
    return OVL_EINVAL;
  for (size_t s = 1; s < SERVING_STAGES; s++)
    if (op_times_check_after(&serving->times, stages[s - 1], stages[s], 0, serving->program) != 0)
      return OVL_EINVAL;
  return op_times_check_after(&serving->times, stages[SERVING_DECODE], stages[SERVING_PREFILL], window,
                              serving->program);
}

int serving_run(serving_t *serving, ovl_mode_t mode) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  requests_clear(serving->requests, serving->count);
  op_times_clear(&serving->times);
  serving->arrived = serving->submitted = serving->refused = 0;
  serving->status = 0;
  int status = ovl_pipeline_set_mode(serving->pipeline, mode);
  if (status != 0)
    return report_failure(serving->program, "choosing the mode", status);
  status = run_loop(serving);
  if (status != 0)
    return status;
  status = ovl_pipeline_stats(serving->pipeline, &stats);
  if (status != 0)
    return report_failure(serving->program, "the statistics", status);
  serving->elapsed_ns = stats.elapsed_ns;
  if (stats.bound_ns <= stats.elapsed_ns)
    return check(serving, mode);
  fprintf(stderr, "%s: a run was faster than its bound\n", serving->program);
  return OVL_EINVAL;
}

/* ---- set-up ---- */

static int add_stage(serving_t *serving, const char *name, ovl_role_t role, ovl_op_cb run,
                     ovl_stage_t *added) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.name = stage.name = name;
  lane.role = role;
  stage.run = run;
  stage.data = serving;
  int status = ovl_pipeline_add_lane(serving->pipeline, &lane, &stage.lane);
  return status == 0 ? ovl_pipeline_add_stage(serving->pipeline, &stage, added) : status;
}

/* spin_ns: idle runners would take processors from those that compute. */
static int describe(serving_t *serving) {
  ovl_pipeline_options_t options;
  ovl_stage_t *stages = serving->stages;
  ovl_pipeline_options_init(&options);
  options.data = serving;
  options.window = serving->window;
  options.spin_ns = 1;
  options.on_microbatch = on_microbatch;
  options.on_room = on_room;
  int status = ovl_pipeline_create(&serving->pipeline, &options);
  if (status == 0)
    status = add_stage(serving, "prefill", OVL_ROLE_COMPUTE, run_prefill, &stages[SERVING_PREFILL]);
  if (status == 0)
    status = add_stage(serving, "transfer", OVL_ROLE_COMM, run_transfer, &stages[SERVING_TRANSFER]);
  if (status == 0)
    status = add_stage(serving, "decode", OVL_ROLE_COMPUTE, run_decode, &stages[SERVING_DECODE]);
  return status;
}

static int allocate(serving_t *serving) {
  int status = op_times_init(&serving->times, serving->count, SERVING_STAGES);
  serving->prefilled = calloc(serving->window, sizeof *serving->prefilled);
  serving->decoded = calloc(serving->window, sizeof *serving->decoded);
  if (serving->prefilled == NULL || serving->decoded == NULL)
    return OVL_ENOMEM;
  for (uint32_t slot = 0; slot < serving->window && status == 0; slot++) {
    status = language_block_init(&serving->prefilled[slot], serving->language);
    if (status == 0)
      status = language_block_init(&serving->decoded[slot], serving->language);
  }
  if (status == 0)
    status = language_scratch_init(&serving->prefill_scratch, serving->language);
  return status == 0 ? language_scratch_init(&serving->decode_scratch, serving->language) : status;
}

int serving_open(serving_t *serving) {
  int status = flight_init(&serving->link);
  if (status != 0)
    return report_failure(serving->program, "making the link", status);
  serving->linked = 1;
  status = allocate(serving);
  if (status != 0)
    return report_failure(serving->program, "memory for the server", status);
  status = describe(serving);
  return status == 0 ? 0
                     : report_refusal(serving->program, "describing the pipeline", serving->pipeline, status);
}

void serving_close(serving_t *serving) {
  ovl_pipeline_close(serving->pipeline, NULL);
  for (uint32_t slot = 0; slot < serving->window; slot++) {
    if (serving->prefilled != NULL)
      language_block_finish(&serving->prefilled[slot]);
    if (serving->decoded != NULL)
      language_block_finish(&serving->decoded[slot]);
  }
  free(serving->prefilled);
  free(serving->decoded);
  language_scratch_finish(&serving->prefill_scratch);
  language_scratch_finish(&serving->decode_scratch);
  op_times_finish(&serving->times);
  if (serving->linked)
    flight_finish(&serving->link);
}
