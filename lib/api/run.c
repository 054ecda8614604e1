/* SPDX-License-Identifier: MIT */
/* Running a pipeline: the public calls, each a request to the executor with its refusal put into words. */
#include <assert.h>

#include "api/devices.h"
#include "api/options.h"
#include "api/pipeline.h"
#include "exec/process.h"

/* ---- failures ------------------------------------------------------------------------------------------------ */

static void describe_fault(const ovl_pipeline_t *p, const ovl_fault_t *fault, ovl_failure_t *failure) {
  ovl_failure_init(failure);
  failure->status = fault->status;
  failure->native = fault->native;
  failure->microbatch = fault->microbatch;
  failure->stage_name = failure->lane_name = "";
  if (fault->status == 0 || fault->stage == OVL_NO_STAGE)
    return;
  uint32_t stage = p->devices != NULL ? ovl_issue_user_stage(&p->devices->issue, fault->stage) : fault->stage;
  uint32_t lane = p->plan->stages[stage].lane;
  failure->stage.id = stage + 1;
  failure->lane.id = lane + 1;
  failure->stage_name = ovl_stage_name(p, stage);
  failure->lane_name = ovl_lane_name(p, lane);
}

void ovl_pipeline_on_fault(ovl_pipeline_t *p, const ovl_fault_t *fault) {
  ovl_failure_t failure;
  describe_fault(p, fault, &failure);
  p->options.on_failure(p, &failure);
}

int ovl_pipeline_failure(const ovl_pipeline_t *p, ovl_failure_t *failure) {
  if (p == NULL || failure == NULL)
    return OVL_EINVAL;
  ovl_failure_t f;
  ovl_exec_lock(&p->exec);
  ovl_fault_t first = p->enqueued ? p->enqueue_fault : p->exec.core.first;
  ovl_exec_unlock(&p->exec);
  describe_fault(p, &first, &f);
  return ovl_options_write(failure, &f, sizeof f, offsetof(ovl_failure_t, native));
}

/* ---- start --------------------------------------------------------------------------------------------------- */

/* The lanes of one sync domain are one lane of the run. */
static int prepare(ovl_pipeline_t *p, const char *call, uint64_t microbatches, ovl_order_source_t *order) {
  const ovl_devices_t *devices = p->devices;
  if (devices == NULL)
    return ovl_pipeline_prepare_order(p, call, microbatches, NULL, order);
  const ovl_order_groups_t groups = {
      .lane_of = devices->run_lanes, .lane_count = devices->plan.lane_count, .window = devices->plan.window};
  int r = ovl_pipeline_prepare_order(p, call, microbatches, &groups, order);
  return r != 0 ? r : ovl_devices_begin(p, call, microbatches);
}

static int start(ovl_pipeline_t *p, const char *call, uv_loop_t *loop, uint64_t microbatches,
                 ovl_pipeline_cb done, int *status_out) {
  int r = ovl_pipeline_freeze(p);
  if (r != 0)
    return r;
  ovl_order_source_t order;
  r = prepare(p, call, microbatches, &order);
  if (r != 0)
    return r;
  r = ovl_exec_launch(&p->exec, loop, p->mode, microbatches, &order, done, status_out);
  if (r == 0) {
    ovl_exec_lock(&p->exec);
    p->enqueued = false;
    ovl_exec_unlock(&p->exec);
    return ovl_accept(p);
  }
  return ovl_refuse(p, r, "%s: %s", call,
                    r == OVL_EBUSY || r == OVL_EITEMS ? ovl_strerror(r) : uv_strerror(r));
}

int ovl_pipeline_start(ovl_pipeline_t *p, struct uv_loop_s *loop, uint64_t microbatches,
                       ovl_pipeline_cb done) {
  if (p == NULL)
    return OVL_EINVAL;
  if (loop == NULL)
    return ovl_refuse(p, OVL_EINVAL, "start: the loop is NULL");
  return start(p, "start", loop, microbatches, done, NULL);
}

int ovl_pipeline_run(ovl_pipeline_t *p, uint64_t microbatches) {
  if (p == NULL)
    return OVL_EINVAL;
  if (ovl_in_callback())
    return OVL_EDEADLK;
  uv_loop_t loop;
  int status = 0, r = uv_loop_init(&loop);
  if (r != 0)
    return ovl_refuse(p, r, "run: no loop: %s", uv_strerror(r));
  r = start(p, "run", &loop, microbatches, NULL, &status);
  uv_run(&loop, UV_RUN_DEFAULT); /* p may be gone when this returns */
  int closed = uv_loop_close(&loop);
  assert(closed == 0);
  (void)closed;
  return r != 0 ? r : status;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

int ovl_pipeline_submit(ovl_pipeline_t *p, void *item) {
  if (p == NULL)
    return OVL_EINVAL;
  int r = ovl_pipeline_freeze(p);
  return r != 0 ? r : ovl_exec_submit(&p->exec, item);
}

int ovl_pipeline_finish(ovl_pipeline_t *p) {
  if (p == NULL)
    return OVL_EINVAL;
  int r = ovl_pipeline_freeze(p);
  return r != 0 ? r : ovl_exec_finish_items(&p->exec);
}

int ovl_pipeline_cancel(ovl_pipeline_t *p) { return p != NULL ? ovl_exec_cancel(&p->exec) : OVL_EINVAL; }

int ovl_op_complete(ovl_op_t *op, int status) {
  if (op == NULL || op->pipeline == NULL || status == OVL_PENDING)
    return OVL_EINVAL;
  return ovl_exec_complete_op(&op->pipeline->exec, ovl_core_op_of(op), status);
}

/* ---- close ----------------------------------------------------------------------------------------------------- */

void ovl_pipeline_on_over(ovl_pipeline_t *p) {
  if (p->closed != NULL)
    p->closed(p);
  ovl_pipeline_free(p);
}

void ovl_pipeline_close(ovl_pipeline_t *p, ovl_close_cb closed) {
  if (p == NULL)
    return;
  p->closed = closed;
  if (ovl_exec_close(&p->exec))
    return; /* on_over follows the run */
  bool before = ovl_callback_enter();
  ovl_exec_drop_items(&p->exec);
  ovl_pipeline_on_over(p);
  ovl_callback_leave(before);
}
