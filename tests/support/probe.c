/* SPDX-License-Identifier: MIT */
#include "support/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void probe_die(const char *text) {
  fprintf(stderr, "probe: %s\n", text);
  abort();
}

static void need(bool holds, const char *text) {
  if (!holds)
    probe_die(text);
}

/* ---- the log ----------------------------------------------------------------------------------------------- */

static bool on_loop_thread(const probe_t *probe) {
  uv_thread_t self = uv_thread_self();
  return uv_thread_equal(&self, &probe->loop_thread) != 0;
}

/* With the mutex held. */
static void write_locked(probe_t *probe, probe_event_t *event) {
  need(probe->event_count < PROBE_EVENTS, "the log is full: something goes on for ever");
  event->on_loop = on_loop_thread(probe);
  event->number = probe->event_count;
  probe->events[probe->event_count++] = *event;
  probe->counts[event->type]++;
  uv_cond_broadcast(&probe->changed);
}

static void tell_test(probe_t *probe, const probe_event_t *event) {
  if (probe->options.on_event != NULL)
    probe->options.on_event(probe, event);
}

/* True while this thread is in ovl_op_complete, which calls nobody back. */
static _Thread_local bool completing;

static int complete_quietly(ovl_op_t *op, int status) {
  completing = true;
  int r = ovl_op_complete(op, status);
  completing = false;
  return r;
}

static void note(probe_t *probe, probe_event_t event) {
  need(!completing, "a callback was called from within ovl_op_complete");
  uv_mutex_lock(&probe->mutex);
  write_locked(probe, &event);
  uv_mutex_unlock(&probe->mutex);
  tell_test(probe, &event);
}

static void note_op(probe_event_type_t type, const ovl_op_t *op, int status) {
  const probe_place_t *place = op->data;
  note(place->probe, (probe_event_t){.type = type,
                                     .stage = place->stage,
                                     .microbatch = op->microbatch,
                                     .status = status,
                                     .item = op->item});
}

uint32_t probe_count(probe_t *probe, probe_event_type_t type) {
  uv_mutex_lock(&probe->mutex);
  uint32_t count = probe->counts[type];
  uv_mutex_unlock(&probe->mutex);
  return count;
}

const probe_event_t *probe_find(const probe_t *probe, probe_event_type_t type, uint32_t stage,
                                uint64_t microbatch) {
  for (uint32_t i = 0; i < probe->event_count; i++) {
    const probe_event_t *event = &probe->events[i];
    if (event->type == type && event->stage == stage && event->microbatch == microbatch)
      return event;
  }
  return NULL;
}

bool probe_has(probe_t *probe, probe_event_type_t type, uint32_t stage, uint64_t microbatch) {
  uv_mutex_lock(&probe->mutex);
  bool has = probe_find(probe, type, stage, microbatch) != NULL;
  uv_mutex_unlock(&probe->mutex);
  return has;
}

const probe_event_t *probe_nth(const probe_t *probe, probe_event_type_t type, uint32_t nth) {
  for (uint32_t i = 0; i < probe->event_count; i++)
    if (probe->events[i].type == type && nth-- == 0)
      return &probe->events[i];
  return NULL;
}

static bool is_on_loop(probe_way_t way) {
  return way == PROBE_LOOP || way == PROBE_LOOP_FOREIGN || way == PROBE_LOOP_POLLED || way == PROBE_LOOP_HELD;
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

static void put(probe_ops_t *list, ovl_op_t *op) {
  need(list->count < PROBE_OPS, "too many ops at a time");
  list->ops[list->count++] = op;
}

static ovl_op_t *take_at(probe_ops_t *list, uint32_t at) {
  ovl_op_t *op = list->ops[at];
  list->count--;
  memmove(&list->ops[at], &list->ops[at + 1], (list->count - at) * sizeof(ovl_op_t *));
  return op;
}

static int outcome_of(probe_t *probe, const ovl_op_t *op) {
  if (probe->options.outcome != NULL)
    return probe->options.outcome(probe, op);
  const probe_place_t *place = op->data;
  return place->stage == probe->fault.stage && op->microbatch == probe->fault.microbatch ? probe->fault.status
                                                                                         : 0;
}

static int end_here(ovl_op_t *op) {
  const probe_place_t *place = op->data;
  int status = outcome_of(place->probe, op);
  note_op(PROBE_ENDS, op, status);
  return status;
}

int probe_complete(probe_t *probe, ovl_op_t *op, int status) {
  (void)probe;
  note_op(PROBE_ENDS, op, status);
  return complete_quietly(op, status);
}

static void complete_here(ovl_op_t *op) {
  int status = end_here(op);
  need(complete_quietly(op, status) == 0, "a completion was refused");
}

static probe_ops_t *polled_by(probe_t *probe, uint32_t stage) {
  uint32_t shares = probe->options.stages[stage].shares;
  return &probe->places[shares != 0 ? shares - 1 : stage].polled;
}

/* Where an op of that way waits for its completion; NULL: it does not. With the mutex held. */
static probe_ops_t *waiting_place(probe_t *probe, uint32_t stage) {
  switch (probe->options.stages[stage].way) {
  case PROBE_POOL_FOREIGN:
  case PROBE_LOOP_FOREIGN:
    return &probe->carried;
  case PROBE_POOL_POLLED:
  case PROBE_LOOP_POLLED:
    return polled_by(probe, stage);
  case PROBE_POOL_HELD:
  case PROBE_LOOP_HELD:
    return probe->gate_open ? NULL : &probe->held;
  case PROBE_POOL:
  case PROBE_LOOP:
  case PROBE_POOL_GATED:
    break;
  }
  return NULL;
}

static void pass_gate(probe_t *probe) {
  uv_mutex_lock(&probe->mutex);
  while (!probe->gate_open)
    uv_cond_wait(&probe->changed, &probe->mutex);
  uv_mutex_unlock(&probe->mutex);
}

static int run_op(ovl_op_t *op) {
  const probe_place_t *place = op->data;
  probe_t *probe = place->probe;
  note_op(PROBE_STARTS, op, op->status);
  if (probe->options.stages[place->stage].way == PROBE_POOL_GATED)
    pass_gate(probe);
  uv_mutex_lock(&probe->mutex);
  probe_ops_t *waiting = waiting_place(probe, place->stage);
  if (waiting != NULL) {
    put(waiting, op);
    uv_cond_broadcast(&probe->changed);
  }
  uv_mutex_unlock(&probe->mutex);
  return waiting != NULL ? OVL_PENDING : end_here(op);
}

/* The op may be completed meanwhile, and stays what it is until the hook returns. The result is to be ignored, so
 * it is the oddest there is. */
static int cancel_op(ovl_op_t *op) {
  uint64_t microbatch = op->microbatch;
  note_op(PROBE_HOOK, op, op->status);
  need(op->microbatch == microbatch, "an op was used for another microbatch while its cancel hook ran");
  return microbatch % 2 == 0 ? OVL_PENDING : 35;
}

static void poll_lane(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  probe_place_t *place = data;
  (void)p;
  need(lane.id == place->probe->lanes[place->stage].id, "a poll hook was given another lane");
  need(on_loop_thread(place->probe) == is_on_loop(place->probe->options.stages[place->stage].way),
       "a poll hook was called on a thread that is not its lane's");
  uv_mutex_lock(&place->probe->mutex);
  ovl_op_t *op = place->polled.count > 0 ? take_at(&place->polled, 0) : NULL;
  uv_mutex_unlock(&place->probe->mutex);
  if (op != NULL)
    complete_here(op);
}

static void carry(void *argument) {
  probe_t *probe = argument;
  uv_mutex_lock(&probe->mutex);
  for (;;) {
    while (probe->carried.count == 0 && !probe->carrier_stops)
      uv_cond_wait(&probe->changed, &probe->mutex);
    if (probe->carried.count == 0)
      break;
    ovl_op_t *op = take_at(&probe->carried, 0);
    uv_mutex_unlock(&probe->mutex);
    complete_here(op);
    uv_mutex_lock(&probe->mutex);
  }
  uv_mutex_unlock(&probe->mutex);
}

/* ---- other callbacks ------------------------------------------------------------------------------------------ */

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  note(ovl_pipeline_data(p), (probe_event_t){.type = PROBE_MICROBATCH,
                                             .stage = PROBE_NONE,
                                             .microbatch = microbatch,
                                             .status = status,
                                             .item = item});
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  probe_event_t event = {.type = PROBE_FAILURE, .stage = PROBE_NONE, .microbatch = failure->microbatch};
  if (failure->stage.id != 0)
    event.stage = failure->stage.id - 1;
  event.status = failure->status;
  event.failure = *failure;
  note(ovl_pipeline_data(p), event);
}

static void on_room(ovl_pipeline_t *p) {
  note(ovl_pipeline_data(p), (probe_event_t){.type = PROBE_ROOM, .stage = PROBE_NONE});
}

static void count_handle(uv_handle_t *handle, void *count) {
  (void)handle;
  ++*(uint32_t *)count;
}

static uint32_t count_handles(uv_loop_t *loop) {
  uint32_t count = 0;
  uv_walk(loop, count_handle, &count);
  return count;
}

static void on_done(ovl_pipeline_t *p, int status) {
  probe_t *probe = ovl_pipeline_data(p);
  bool alive = probe->handles == 0 && uv_loop_alive(probe->loop);
  probe->left_over = alive || count_handles(probe->loop) > probe->handles;
  note(probe, (probe_event_t){.type = PROBE_DONE, .stage = PROBE_NONE, .status = status});
}

static void on_closed(ovl_pipeline_t *p) {
  probe_t *probe = ovl_pipeline_data(p);
  probe->pipeline = NULL;
  note(probe, (probe_event_t){.type = PROBE_CLOSED, .stage = PROBE_NONE});
}

/* ---- describing ----------------------------------------------------------------------------------------------- */

static void add_lane(probe_t *probe, uint32_t stage) {
  const probe_stage_t *described = &probe->options.stages[stage];
  char name[16];
  ovl_lane_options_t o;
  if (described->shares != 0) {
    probe->lanes[stage] = probe->lanes[described->shares - 1];
    return;
  }
  snprintf(name, sizeof name, "L%u", (unsigned)stage);
  ovl_lane_options_init(&o);
  o.name = name;
  o.kind = is_on_loop(described->way) ? OVL_LANE_LOOP : OVL_LANE_POOL;
  o.width = described->width;
  o.data = &probe->places[stage];
  if (described->way == PROBE_POOL_POLLED || described->way == PROBE_LOOP_POLLED)
    o.poll = poll_lane;
  need(ovl_pipeline_add_lane(probe->pipeline, &o, &probe->lanes[stage]) == 0, "add_lane failed");
}

static void add_stage(probe_t *probe, uint32_t stage) {
  const probe_stage_t *described = &probe->options.stages[stage];
  char name[16];
  ovl_stage_options_t o;
  snprintf(name, sizeof name, "S%u", (unsigned)stage);
  ovl_stage_options_init(&o);
  o.name = name;
  o.lane = probe->lanes[stage];
  o.run = run_op;
  o.cancel = described->no_hook ? NULL : cancel_op;
  o.data = &probe->places[stage];
  o.timeout_ns = described->timeout_ns;
  o.unchained = described->unchained;
  o.always = described->always;
  need(ovl_pipeline_add_stage(probe->pipeline, &o, &probe->stages[stage]) == 0, "add_stage failed");
}

static void create(probe_t *probe) {
  ovl_pipeline_options_t o;
  ovl_pipeline_options_init(&o);
  o.data = probe;
  o.window = probe->options.window;
  o.queue = probe->options.queue;
  o.mode = probe->options.mode;
  o.on_error = probe->options.on_error;
  o.allocator = &probe->quarantine.allocator;
  o.on_microbatch = probe->options.no_on_microbatch ? NULL : on_microbatch;
  o.on_failure = probe->options.no_on_failure ? NULL : on_failure;
  o.on_room = on_room;
  need(ovl_pipeline_create(&probe->pipeline, &o) == 0, "create failed");
}

static void start_carrier(probe_t *probe) {
  for (uint32_t s = 0; s < probe->options.stage_count; s++) {
    probe_way_t way = probe->options.stages[s].way;
    probe->has_carrier |= way == PROBE_POOL_FOREIGN || way == PROBE_LOOP_FOREIGN;
  }
  if (probe->has_carrier)
    need(uv_thread_create(&probe->carrier, carry, probe) == 0, "no thread");
}

probe_t *probe_open(const probe_options_t *options) {
  probe_t *probe = calloc(1, sizeof *probe);
  need(probe != NULL, "no memory");
  probe->options = *options;
  need(uv_mutex_init(&probe->mutex) == 0 && uv_cond_init(&probe->changed) == 0, "no mutex");
  quarantine_init(&probe->quarantine);
  probe->loop = options->loop != NULL ? options->loop : &probe->own_loop;
  if (options->loop == NULL)
    need(uv_loop_init(probe->loop) == 0, "no loop");
  probe->loop_thread = uv_thread_self();
  create(probe);
  for (uint32_t s = 0; s < options->stage_count; s++) {
    probe->places[s].probe = probe;
    probe->places[s].stage = s;
    add_lane(probe, s);
    add_stage(probe, s);
  }
  start_carrier(probe);
  return probe;
}

static void stop_carrier(probe_t *probe) {
  uv_mutex_lock(&probe->mutex);
  probe->carrier_stops = true;
  uv_cond_broadcast(&probe->changed);
  uv_mutex_unlock(&probe->mutex);
  need(uv_thread_join(&probe->carrier) == 0, "a thread cannot be joined");
}

void probe_close_pipeline(probe_t *probe) { ovl_pipeline_close(probe->pipeline, on_closed); }

void probe_close(probe_t *probe) {
  if (probe->pipeline != NULL)
    probe_close_pipeline(probe);
  if (probe->has_carrier)
    stop_carrier(probe);
  assert_null(probe->pipeline);
  assert_int_equal(probe->counts[PROBE_CLOSED], 1);
  assert_int_equal(quarantine_finish(&probe->quarantine), 0);
  if (probe->options.loop == NULL)
    assert_int_equal(uv_loop_close(probe->loop), 0);
  uv_cond_destroy(&probe->changed);
  uv_mutex_destroy(&probe->mutex);
  free(probe);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static void clear_log(probe_t *probe, uint64_t count) {
  uv_mutex_lock(&probe->mutex);
  probe->event_count = 0;
  memset(probe->counts, 0, sizeof probe->counts);
  uv_mutex_unlock(&probe->mutex);
  probe->count = count;
  probe->left_over = false;
  probe->loop_thread = uv_thread_self();
}

void probe_start(probe_t *probe, uint64_t count) {
  clear_log(probe, count);
  probe->blocking = false;
  probe->handles = count_handles(probe->loop);
  assert_int_equal(ovl_pipeline_start(probe->pipeline, probe->loop, count, on_done), 0);
  /* This is the loop's thread: what belongs there cannot have happened yet. */
  assert_int_equal(probe_count(probe, PROBE_DONE) + probe_count(probe, PROBE_MICROBATCH), 0);
  assert_int_equal(probe_count(probe, PROBE_FAILURE) + probe_count(probe, PROBE_HOOK), 0);
}

int probe_finish(probe_t *probe) {
  assert_int_equal(uv_run(probe->loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(probe->counts[PROBE_DONE], 1);
  assert_false(probe->left_over);
  int status = probe_nth(probe, PROBE_DONE, 0)->status;
  probe_check(probe, status);
  probe->accepted = 0;
  return status;
}

int probe_run(probe_t *probe, uint64_t count) {
  probe_start(probe, count);
  return probe_finish(probe);
}

int probe_run_blocking(probe_t *probe, uint64_t count) {
  clear_log(probe, count);
  probe->blocking = true;
  int status = ovl_pipeline_run(probe->pipeline, count);
  assert_int_equal(probe->counts[PROBE_DONE], 0);
  probe_check(probe, status);
  probe->accepted = 0;
  return status;
}

void probe_submit(probe_t *probe, void *item) {
  need(ovl_pipeline_submit(probe->pipeline, item) == 0, "a submit was refused");
  probe->accepted++;
}

static ovl_op_t *take_held(probe_t *probe, uint32_t stage, uint64_t microbatch) {
  for (uint32_t i = 0; i < probe->held.count; i++) {
    const probe_place_t *place = probe->held.ops[i]->data;
    if (place->stage == stage && probe->held.ops[i]->microbatch == microbatch)
      return take_at(&probe->held, i);
  }
  return NULL;
}

ovl_op_t *probe_take(probe_t *probe, uint32_t stage, uint64_t microbatch) {
  ovl_op_t *op;
  uv_mutex_lock(&probe->mutex);
  while ((op = take_held(probe, stage, microbatch)) == NULL)
    uv_cond_wait(&probe->changed, &probe->mutex);
  uv_mutex_unlock(&probe->mutex);
  return op;
}

uint32_t probe_held(probe_t *probe) {
  uv_mutex_lock(&probe->mutex);
  uint32_t count = probe->held.count;
  uv_mutex_unlock(&probe->mutex);
  return count;
}

void probe_open_gate(probe_t *probe) {
  probe_ops_t held;
  uv_mutex_lock(&probe->mutex);
  probe->gate_open = true;
  held = probe->held;
  probe->held.count = 0;
  uv_cond_broadcast(&probe->changed);
  uv_mutex_unlock(&probe->mutex);
  for (uint32_t i = 0; i < held.count; i++)
    complete_here(held.ops[i]);
}
