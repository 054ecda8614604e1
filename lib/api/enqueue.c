/* SPDX-License-Identifier: MIT */
/* ovl_pipeline_enqueue: the simulation of the cost hints says which op comes next, and that one is issued. So the order
 * on the streams is the one in which a run of exactly these durations would start its ops, and what fails, is skipped and
 * runs all the same is decided by the core, as in every run. */
#include <string.h>

#include "api/devices.h"
#include "api/options.h"
#include "api/pipeline.h"
#include "device/tracks.h"
#include "exec/process.h"

typedef struct ovl_enqueuer {
  ovl_tracks_t tracks;
  ovl_sim_t sim;
  ovl_track_lane_t *lanes; /* of this call */
  ovl_fault_t fault;       /* its first error */
} ovl_enqueuer_t;

/* ---- may it be enqueued? ------------------------------------------------------------------------------------------- */

static int check_lanes(ovl_pipeline_t *p) {
  for (uint32_t l = 0; l < p->lane_devices.count; l++) {
    if (ovl_pipeline_lane_device(p, l)->given == NULL)
      return ovl_refuse(p, OVL_EDEVICE, "enqueue: lane \"%.100s\" is no device lane", ovl_lane_name(p, l));
    if (!ovl_pipeline_same_domain(p, 0, l))
      return ovl_refuse(p, OVL_EDEVICE,
                        "enqueue: lanes \"%.100s\" and \"%.100s\" are of different sync domains",
                        ovl_lane_name(p, 0), ovl_lane_name(p, l));
  }
  return 0;
}

static int check_call(ovl_pipeline_t *p, const ovl_enqueue_t *given, ovl_enqueue_t *call) {
  if (ovl_options_read(call, sizeof *call, given, offsetof(ovl_enqueue_t, lane_streams)) != 0)
    return ovl_refuse(p, OVL_ESTRUCTSIZE,
                      "enqueue: the struct's size is %zu, or it has fields this library lacks", given->size);
  if (call->origin == NULL)
    return ovl_refuse(p, OVL_EINVAL, "enqueue: origin is NULL");
  if (call->microbatches == OVL_STREAMING)
    return ovl_refuse(p, OVL_EINVAL, "enqueue: a number of microbatches is needed, not OVL_STREAMING");
  if (call->lane_streams != NULL && call->lane_count != p->lane_descs.count)
    return ovl_refuse(p, OVL_EINVAL, "enqueue: streams for %zu lanes, and there are %u", call->lane_count,
                      (unsigned)p->lane_descs.count);
  if (ovl_pipeline_is_busy(p))
    return ovl_refuse(p, OVL_EBUSY, "enqueue: a run is in flight");
  if (ovl_devices_poisoned(p))
    return ovl_refuse(p, OVL_EPOISONED, "enqueue: %s", ovl_strerror(OVL_EPOISONED));
  return check_lanes(p);
}

/* ---- set-up -------------------------------------------------------------------------------------------------------- */

static int set_up(ovl_pipeline_t *p, ovl_enqueuer_t *q) {
  uint32_t count = p->lane_descs.count;
  q->lanes = ovl_memory_array(&p->memory, count, sizeof *q->lanes);
  if (q->lanes == NULL)
    return OVL_ENOMEM;
  for (uint32_t l = 0; l < count; l++)
    q->lanes[l].device = ovl_pipeline_lane_table(p, l);
  const ovl_core_options_t core = {.keep_going = p->options.on_error == OVL_ON_ERROR_CONTINUE};
  int r = ovl_sim_init(&q->sim, p->plan, ovl_pipeline_cost, p, &core, &p->memory);
  if (r != 0)
    return r;
  ovl_pipeline_bind_core(p, &q->sim.core);
  const ovl_track_options_t options = {.lanes = q->lanes};
  return count > 0 ? ovl_tracks_init(&q->tracks, p->plan, &options, &p->memory) : 0;
}

static void finish(const ovl_memory_t *memory, ovl_enqueuer_t *q) {
  if (q->tracks.plan != NULL)
    ovl_tracks_finish(&q->tracks, false);
  ovl_sim_finish(&q->sim);
  ovl_memory_free(memory, q->lanes);
  ovl_memory_free(memory, q);
}

void *ovl_pipeline_enqueued_end(const ovl_pipeline_t *p) {
  return p->enqueuer != NULL && p->enqueuer->tracks.plan != NULL ? ovl_tracks_end(&p->enqueuer->tracks)
                                                                 : NULL;
}

void ovl_pipeline_drop_enqueuer(ovl_pipeline_t *p) {
  if (p->enqueuer != NULL)
    finish(&p->memory, p->enqueuer);
  p->enqueuer = NULL;
}

static int make_enqueuer(ovl_pipeline_t *p) {
  if (p->enqueuer != NULL)
    return 0;
  ovl_enqueuer_t *q = ovl_memory_array(&p->memory, 1, sizeof *q);
  int r = q != NULL ? set_up(p, q) : OVL_ENOMEM;
  if (r == 0) {
    p->enqueuer = q;
    return 0;
  }
  if (q != NULL)
    finish(&p->memory, q);
  return ovl_devices_refuse_events(p, "enqueue", r);
}

/* The streams of this call. */
static int choose_streams(ovl_pipeline_t *p, const ovl_enqueue_t *call) {
  for (uint32_t l = 0; l < p->lane_descs.count; l++) {
    void *given = call->lane_streams != NULL ? call->lane_streams[l] : NULL;
    p->enqueuer->lanes[l].stream = given != NULL ? given : ovl_pipeline_lane_device(p, l)->stream;
    if (p->enqueuer->lanes[l].stream == NULL)
      return ovl_refuse(p, OVL_EINVAL, "enqueue: lane \"%.100s\" has no stream, and the call brings none",
                        ovl_lane_name(p, l));
  }
  return 0;
}

/* ---- issuing ------------------------------------------------------------------------------------------------------- */

static int call_op(const ovl_pipeline_t *p, const ovl_enqueue_t *call, const ovl_core_op_t *op) {
  ovl_core_op_t seen = {.pub = op->pub}; /* never started, so ovl_op_complete() refuses it */
  ovl_op_cb run = ((const ovl_stage_hooks_t *)p->stage_hooks.items)[op->stage].run;
  seen.pub.stream = p->enqueuer->lanes[op->lane].stream;
  seen.pub.item = call->items != NULL ? call->items[op->pub.microbatch] : NULL;
  return run != NULL ? run(&seen.pub) : 0;
}

/* What it put on the stream is followed by its event even if it failed: it may have put something there. */
static int issue(ovl_pipeline_t *p, const ovl_enqueue_t *call, const ovl_core_op_t *op) {
  ovl_tracks_t *tracks = &p->enqueuer->tracks;
  uint32_t stage = op->stage;
  int result = ovl_tracks_before(tracks, stage, op->pub.microbatch);
  if (result != 0)
    return result;
  result = call_op(p, call, op);
  int after = ovl_tracks_after(tracks, stage, op->pub.microbatch);
  return result != 0 ? result : after;
}

static void issue_all(ovl_pipeline_t *p, const ovl_enqueue_t *call) {
  ovl_sim_t *sim = &p->enqueuer->sim;
  uint64_t end;
  for (ovl_core_op_t *op; (op = ovl_sim_next(sim, &end)) != NULL;) {
    int result = issue(p, call, op);
    if (result != 0)
      ovl_core_fail(&sim->core, op, ovl_code_of(result), result > 0 ? result : 0, sim->now);
  }
}

/* ---- the call ------------------------------------------------------------------------------------------------------ */

/* An error of the call itself, which no op is to blame for. */
static void fault(ovl_pipeline_t *p, int result) {
  if (result != 0 && p->enqueuer->fault.status == 0)
    p->enqueuer->fault = (ovl_fault_t){.status = ovl_code_of(result),
                                       .native = result > 0 ? result : 0,
                                       .stage = OVL_NO_STAGE,
                                       .microbatch = OVL_NO_MICROBATCH};
}

/* 0, or the code of a capture that was invalidated. */
static int ask_capture(const ovl_enqueuer_t *q, void *origin, int *capturing) {
  const ovl_device_t *device = q->lanes[0].device;
  *capturing = 0;
  if (device->is_capturing == NULL)
    return 0;
  int r = device->enter != NULL ? device->enter(device->context) : 0;
  return r != 0 ? r : device->is_capturing(device->context, origin, capturing) != 0 ? OVL_ECAPTURE : 0;
}

static void play(ovl_pipeline_t *p, const ovl_enqueue_t *call) {
  ovl_enqueuer_t *q = p->enqueuer;
  int capturing, still = 0, r = ask_capture(q, call->origin, &capturing);
  if (r == 0)
    r = ovl_tracks_begin(&q->tracks, p->mode, capturing ? OVL_CAPTURED : OVL_EAGER, q->lanes, call->origin);
  if (r != 0) {
    fault(p, r);
    return;
  }
  ovl_sim_begin(&q->sim, p->mode, call->microbatches);
  issue_all(p, call);
  r = ovl_tracks_join(&q->tracks);
  if (capturing && (ask_capture(q, call->origin, &still) != 0 || !still))
    fault(p, OVL_ECAPTURE);
  if (p->enqueuer->fault.status == 0)
    p->enqueuer->fault = q->sim.core.first;
  fault(p, r);
}

static int make_order(ovl_pipeline_t *p, const ovl_enqueue_t *call) {
  ovl_order_source_t order;
  int r = ovl_pipeline_prepare_order(p, "enqueue", call->microbatches, NULL, &order);
  if (r == 0)
    ovl_core_set_order(&p->enqueuer->sim.core, &order);
  return r;
}

static int refuse_fault(ovl_pipeline_t *p, const ovl_fault_t *f) {
  if (f->status == 0)
    return ovl_accept(p);
  if (f->stage == OVL_NO_STAGE)
    return ovl_refuse(p, f->status, "enqueue: %s (%d)", ovl_strerror(f->status),
                      f->native != 0 ? f->native : f->status);
  return ovl_refuse(p, f->status, "enqueue: \"%.100s\" of microbatch %llu: %s (%d)",
                    ovl_stage_name(p, f->stage), (unsigned long long)f->microbatch, ovl_strerror(f->status),
                    f->native != 0 ? f->native : f->status);
}

static int enqueue(ovl_pipeline_t *p, const ovl_enqueue_t *call) {
  int r = choose_streams(p, call);
  if (r == 0)
    r = make_order(p, call);
  if (r != 0)
    return r;
  p->enqueuer->fault = (ovl_fault_t){.status = 0};
  if (call->microbatches > 0 && p->stage_descs.count > 0) {
    bool before = ovl_callback_enter();
    p->enqueuing = true;
    play(p, call);
    p->enqueuing = false;
    ovl_callback_leave(before);
  }
  ovl_exec_lock(&p->exec);
  p->enqueued = true;
  p->enqueue_fault = p->enqueuer->fault;
  ovl_exec_unlock(&p->exec);
  return refuse_fault(p, &p->enqueuer->fault);
}

int ovl_pipeline_enqueue(ovl_pipeline_t *p, const ovl_enqueue_t *given) {
  if (p == NULL)
    return OVL_EINVAL;
  if (given == NULL)
    return ovl_refuse(p, OVL_EINVAL, "enqueue: enqueue is NULL");
  ovl_enqueue_t call;
  int r = check_call(p, given, &call);
  if (r == 0)
    r = ovl_pipeline_freeze(p);
  if (r == 0)
    r = make_enqueuer(p);
  return r != 0 ? r : enqueue(p, &call);
}

int ovl_pipeline_slot_event(ovl_pipeline_t *p, uint32_t slot, void **event) {
  if (p == NULL || event == NULL || slot >= ovl_pipeline_window(p))
    return OVL_EINVAL;
  if (p->enqueuing || ovl_pipeline_is_busy(p))
    return OVL_EBUSY;
  if (ovl_devices_poisoned(p))
    return OVL_EPOISONED;
  *event = p->enqueuer != NULL && p->enqueuer->tracks.plan != NULL
               ? ovl_tracks_slot(&p->enqueuer->tracks, slot)
               : NULL;
  return 0;
}
