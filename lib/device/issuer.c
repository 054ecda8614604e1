/* SPDX-License-Identifier: MIT */
/* Issuing and watching. The order of issuing is the executor's, by a lane of fixed order for each domain, so a domain's tracks
 * are used by one thread at a time; a watch begins after its stage has been issued, so it finds the mark. */
#include "device/issuer.h"

#include <string.h>

#include "core/core.h"
#include "ovl/errors.h"

/* ---- set-up ---------------------------------------------------------------------------------------------------------- */

static uint32_t lane_of(const ovl_issuer_t *issuer, uint32_t stage) {
  return issuer->plan->stages[stage].lane;
}

static int tables_init(ovl_issuer_t *issuer) {
  const ovl_issue_t *issue = issuer->issue;
  const ovl_memory_t *memory = &issuer->memory;
  size_t watches;
  if (__builtin_mul_overflow((size_t)(issue->description.stage_count - issue->user_stages),
                             (size_t)issuer->ahead, &watches))
    return OVL_ETOOBIG;

  issuer->tracks = ovl_memory_array(memory, issue->domain_count, sizeof *issuer->tracks);
  issuer->stages = ovl_memory_array(memory, issue->user_stages, sizeof *issuer->stages);
  issuer->watches = ovl_memory_array(memory, watches, sizeof *issuer->watches);
  issuer->queues = ovl_memory_array(memory, issue->user_lanes, sizeof *issuer->queues);
  if (issuer->tracks == NULL || issuer->stages == NULL || issuer->watches == NULL || issuer->queues == NULL)
    return OVL_ENOMEM;

  for (uint32_t s = 0; s < issue->user_stages; s++) {
    issuer->stages[s].issuer = issuer;
    issuer->stages[s].stage = s;
    issuer->queues[lane_of(issuer, s)].deadlines |= issuer->plan->stages[s].deadline;
  }
  return 0;
}

int ovl_issuer_init(ovl_issuer_t *issuer, const ovl_issue_t *issue, const ovl_plan_t *plan,
                    const ovl_track_lane_t *lanes, bool timed, const ovl_memory_t *memory) {
  memset(issuer, 0, sizeof *issuer);
  issuer->issue = issue;
  issuer->plan = plan;
  issuer->memory = *memory;
  issuer->ahead = issue->description.window;
  issuer->lanes = lanes;
  issuer->timed = timed;
  int r = tables_init(issuer);
  if (r == 0 && timed)
    r = ovl_times_init(&issuer->times, plan, lanes, issuer->ahead, memory);
  if (r == 0)
    r = uv_mutex_init(&issuer->mutex);
  issuer->mutex_made = r == 0;
  if (r != 0)
    ovl_issuer_finish(issuer);
  return r;
}

void ovl_issuer_finish(ovl_issuer_t *issuer) {
  const ovl_memory_t memory = issuer->memory;
  for (uint32_t k = 0; issuer->tracks != NULL && k < issuer->issue->domain_count; k++)
    if (issuer->tracks[k].plan != NULL)
      ovl_tracks_finish(&issuer->tracks[k], atomic_load(&issuer->abandoned));
  if (issuer->mutex_made)
    uv_mutex_destroy(&issuer->mutex);
  if (issuer->times.plan != NULL)
    ovl_times_finish(&issuer->times, &memory);
  ovl_memory_free(&memory, issuer->queues);
  ovl_memory_free(&memory, issuer->watches);
  ovl_memory_free(&memory, issuer->stages);
  ovl_memory_free(&memory, issuer->tracks);

  memset(issuer, 0, sizeof *issuer);
}

static bool captures(const ovl_track_lane_t *lane) {
  const ovl_device_t *device = lane->device;
  int capturing = 0;
  if (device == NULL || device->is_capturing == NULL)
    return false;
  if (device->enter != NULL && device->enter(device->context) != 0)
    return false; /* the first op will say so */
  return device->is_capturing(device->context, lane->stream, &capturing) != 0 || capturing;
}

/* By the first run: a pipeline that is only enqueued needs none of them. */
static int make_tracks(ovl_issuer_t *issuer) {
  int r = 0;
  for (uint32_t k = 0; r == 0 && k < issuer->issue->domain_count; k++) {
    const ovl_track_options_t options = {.lanes = issuer->lanes,
                                         .domains = issuer->issue->domains,
                                         .domain = k,
                                         .watches = issuer->issue->watches,
                                         .ahead = issuer->ahead,
                                         .timed = issuer->timed};
    if (issuer->tracks[k].plan == NULL)
      r = ovl_tracks_init(&issuer->tracks[k], issuer->plan, &options, &issuer->memory);
  }
  return r;
}

/* Others may be looking at its times. */
static void forget_last_run(ovl_issuer_t *issuer) {
  issuer->stopped_at = 0;
  for (uint32_t s = 0; s < issuer->issue->user_stages; s++)
    atomic_store(&issuer->stages[s].skipped, 0);
  uv_mutex_lock(&issuer->mutex);
  if (issuer->timed)
    ovl_times_reset(&issuer->times);
  uv_mutex_unlock(&issuer->mutex);
}

int ovl_issuer_begin(ovl_issuer_t *issuer, ovl_mode_t mode, void *after, uint32_t *lane) {
  for (*lane = 0; *lane < issuer->issue->user_lanes; ++*lane)
    if (captures(&issuer->lanes[*lane]))
      return OVL_ECAPTURE;
  int r = make_tracks(issuer);
  for (uint32_t k = 0; r == 0 && k < issuer->issue->domain_count; k++)
    r = ovl_tracks_begin_run(&issuer->tracks[k], mode, issuer->lanes, after);
  if (r == 0)
    forget_last_run(issuer);
  return r;
}

/* ---- issuing --------------------------------------------------------------------------------------------------------- */

static ovl_tracks_t *tracks_of(const ovl_issuer_t *issuer, uint32_t stage) {
  return &issuer->tracks[issuer->issue->domains[lane_of(issuer, stage)]];
}

/* The user sees the user's lane. A whole op that was never started: so ovl_op_complete() refuses it. */
static int call(const ovl_issuer_stage_t *stage, const ovl_op_t *op) {
  ovl_core_op_t seen = {.pub = *op};
  uint32_t lane = lane_of(stage->issuer, stage->stage);
  seen.pub.lane.id = lane + 1;
  seen.pub.stream = stage->issuer->lanes[lane].stream;
  seen.pub.data = stage->data;
  return stage->run != NULL ? stage->run(&seen.pub) : 0;
}

uint64_t ovl_issuer_skipped(const ovl_issuer_t *issuer, uint32_t stage) {
  return atomic_load_explicit(&issuer->stages[stage].skipped, memory_order_relaxed);
}

/* Of a failed microbatch whatever was put down is still waited for, by who comes next on the streams and by its watches: so a
 * skipped op waits and is marked as any, and puts nothing down between. */
int ovl_issuer_put(ovl_op_t *op) {
  ovl_issuer_stage_t *stage = op->data;
  ovl_tracks_t *tracks = tracks_of(stage->issuer, stage->stage);
  int result = ovl_tracks_before(tracks, stage->stage, op->microbatch);
  bool skipped = op->status != 0 && !stage->always;
  if (skipped)
    atomic_fetch_add_explicit(&stage->skipped, 1, memory_order_relaxed);
  else if (result == 0)
    result = ovl_tracks_start(tracks, stage->stage, op->microbatch);
  if (!skipped && result == 0)
    result = call(stage, op);
  int after = ovl_tracks_after(tracks, stage->stage, op->microbatch);
  if (result == 0)
    result = after;
  return result == OVL_PENDING ? OVL_EBADRESULT : result; /* nobody would ever complete it */
}

/* ---- watching -------------------------------------------------------------------------------------------------------- */

/* Watches of one lane may begin in another order than that in which their stages were issued, if seldom. */
static void enter_queue(ovl_issuer_t *issuer, uint32_t lane, ovl_watch_t *watch) {
  ovl_watch_queue_t *queue = &issuer->queues[lane];
  uv_mutex_lock(&issuer->mutex);
  watch->before = queue->last;
  while (watch->before != NULL && watch->before->mark->position > watch->mark->position)
    watch->before = watch->before->before;
  watch->after = watch->before != NULL ? watch->before->after : queue->first;
  *(watch->before != NULL ? &watch->before->after : &queue->first) = watch;
  *(watch->after != NULL ? &watch->after->before : &queue->last) = watch;
  uv_mutex_unlock(&issuer->mutex);
}

static ovl_watch_t *first_of(ovl_issuer_t *issuer, uint32_t lane) {
  uv_mutex_lock(&issuer->mutex);
  ovl_watch_t *first = issuer->queues[lane].first;
  uv_mutex_unlock(&issuer->mutex);
  return first;
}

static void leave_queue(ovl_issuer_t *issuer, uint32_t lane, const ovl_watch_t *watch) {
  ovl_watch_queue_t *queue = &issuer->queues[lane];
  uv_mutex_lock(&issuer->mutex);
  if (queue->counted == watch)
    queue->counted = NULL;
  *(watch->before != NULL ? &watch->before->after : &queue->first) = watch->after;
  *(watch->after != NULL ? &watch->after->before : &queue->last) = watch->before;
  uv_mutex_unlock(&issuer->mutex);
}

static bool has_deadline(const ovl_issuer_t *issuer, const ovl_watch_t *watch) {
  const ovl_issuer_stage_t *stage = watch->op->data;
  return issuer->plan->stages[stage->stage].deadline;
}

/* Finds whose deadline counts; whose did so far, in *before. */
static ovl_watch_t *find_counted(ovl_issuer_t *issuer, uint32_t lane, ovl_watch_t **before) {
  ovl_watch_queue_t *queue = &issuer->queues[lane];
  uv_mutex_lock(&issuer->mutex);
  ovl_watch_t *first = queue->first;
  while (first != NULL && !has_deadline(issuer, first))
    first = first->after;
  *before = queue->counted;
  queue->counted = first;
  uv_mutex_unlock(&issuer->mutex);
  return first;
}

static bool is_counted(ovl_issuer_t *issuer, uint32_t lane, const ovl_watch_t *watch) {
  uv_mutex_lock(&issuer->mutex);
  bool counted = issuer->queues[lane].counted == watch;
  uv_mutex_unlock(&issuer->mutex);
  return counted;
}

/* After a watch of the lane has begun, or ended: then the deadline counts anew, for until now the stream was busy with that.
 * Watches may begin side by side: one that was overtaken before its deadline counted has to see that. */
static void count_deadlines(ovl_issuer_t *issuer, uint32_t lane, bool ended) {
  ovl_watch_t *before, *counted;
  if (!issuer->queues[lane].deadlines)
    return;
  counted = find_counted(issuer, lane, &before);
  if (before != NULL && before != counted)
    issuer->count_deadline(before->op, false);
  if (counted == NULL || (before == counted && !ended))
    return;
  issuer->count_deadline(counted->op, true);
  if (!is_counted(issuer, lane, counted))
    issuer->count_deadline(counted->op, false);
}

/* No mark: nothing of it could be put down. */
int ovl_issuer_watch(ovl_op_t *op) {
  const ovl_issuer_stage_t *stage = op->data;
  ovl_issuer_t *issuer = stage->issuer;
  const ovl_mark_t *mark = ovl_tracks_mark(tracks_of(issuer, stage->stage), stage->stage, op->microbatch);
  if (mark == NULL)
    return 0;
  size_t row = op->stage.id - 1 - issuer->issue->user_stages;
  ovl_watch_t *watch = &issuer->watches[row * issuer->ahead + op->microbatch % issuer->ahead];
  *watch = (ovl_watch_t){.op = op, .mark = mark};
  if (has_deadline(issuer, watch))
    issuer->count_deadline(op, false);
  enter_queue(issuer, lane_of(issuer, stage->stage), watch);
  count_deadlines(issuer, lane_of(issuer, stage->stage), false);
  return OVL_PENDING;
}

static bool is_over(ovl_issuer_t *issuer, const ovl_pipeline_t *p) {
  if (issuer->abandon_ns == 0 || !issuer->is_stopped(p))
    return false;
  uint64_t now = uv_hrtime();
  if (issuer->stopped_at == 0)
    issuer->stopped_at = now;
  return now - issuer->stopped_at >= issuer->abandon_ns;
}

static int ask(ovl_issuer_t *issuer, const ovl_device_t *device, const ovl_watch_t *watch, bool over) {
  int result = device->event_query(device->context, watch->mark->event);
  if (result != OVL_PENDING || !over)
    return result;
  atomic_store(&issuer->abandoned, true);
  return OVL_ETIMEDOUT;
}

static int measure(ovl_issuer_t *issuer, uint32_t lane, const ovl_watch_t *watch) {
  const ovl_issuer_stage_t *stage = watch->op->data;
  uint64_t start, end;
  if (watch->mark->start == NULL)
    return 0;
  int r = ovl_tracks_times(tracks_of(issuer, stage->stage), lane, watch->mark, &start, &end);
  if (r != 0)
    return r == OVL_PENDING ? OVL_EBADRESULT : r; /* nobody would ask again */
  uv_mutex_lock(&issuer->mutex);
  ovl_times_add(&issuer->times, stage->stage, start, end);
  uv_mutex_unlock(&issuer->mutex);
  issuer->tell(watch->op, stage->stage, start, end);
  return 0;
}

void ovl_issuer_times(ovl_issuer_t *issuer, bool over, void (*look)(const ovl_times_t *times, void *data),
                      void *data) {
  uv_mutex_lock(&issuer->mutex);
  if (over)
    ovl_times_flush(&issuer->times);
  look(&issuer->times, data);
  uv_mutex_unlock(&issuer->mutex);
}

static void poll_lane(ovl_issuer_t *issuer, uint32_t lane, bool over) {
  for (ovl_watch_t *watch; (watch = first_of(issuer, lane)) != NULL;) {
    int result = ask(issuer, issuer->lanes[lane].device, watch, over);
    if (result == OVL_PENDING)
      return;
    if (result == 0)
      result = measure(issuer, lane, watch);
    leave_queue(issuer, lane, watch);
    (void)ovl_op_complete(watch->op, result); /* the one completion of this op */
    count_deadlines(issuer, lane, true);
  }
}

void ovl_issuer_poll(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  ovl_issuer_t *issuer = data;
  bool over = is_over(issuer, p);
  (void)lane;
  for (uint32_t l = 0; l < issuer->issue->user_lanes; l++)
    poll_lane(issuer, l, over);
}
