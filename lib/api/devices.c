/* SPDX-License-Identifier: MIT */
/* Pipelines with device lanes: which lanes the device keeps in order, and what the executor is given instead. */
#include "api/devices.h"

#include "api/pipeline.h"

/* ---- lanes and their domains ----------------------------------------------------------------------------------------- */

const ovl_lane_device_t *ovl_pipeline_lane_device(const ovl_pipeline_t *p, uint32_t lane) {
  return &((const ovl_lane_device_t *)p->lane_devices.items)[lane];
}

bool ovl_pipeline_same_domain(const ovl_pipeline_t *p, uint32_t lane, uint32_t other) {
  const ovl_lane_device_t *a = ovl_pipeline_lane_device(p, lane), *b = ovl_pipeline_lane_device(p, other);
  return a->given == b->given ||
         (a->table.sync_domain != NULL && a->table.sync_domain == b->table.sync_domain);
}

/* Lanes of one device share its table. */
const ovl_device_t *ovl_pipeline_lane_table(const ovl_pipeline_t *p, uint32_t lane) {
  uint32_t first = 0;
  while (ovl_pipeline_lane_device(p, first)->given != ovl_pipeline_lane_device(p, lane)->given)
    first++;
  return ovl_pipeline_lane_device(p, lane)->given != NULL ? &ovl_pipeline_lane_device(p, first)->table : NULL;
}

/* Numbers the domains by their first lanes; how many there are. */
static uint32_t number_domains(const ovl_pipeline_t *p, uint32_t *domains) {
  uint32_t count = 0;
  for (uint32_t l = 0; l < p->lane_devices.count; l++) {
    domains[l] = OVL_NO_DOMAIN;
    if (ovl_pipeline_lane_device(p, l)->given == NULL)
      continue;
    for (uint32_t k = 0; k < l && domains[l] == OVL_NO_DOMAIN; k++)
      if (domains[k] != OVL_NO_DOMAIN && ovl_pipeline_same_domain(p, k, l))
        domains[l] = domains[k];
    if (domains[l] == OVL_NO_DOMAIN)
      domains[l] = count++;
  }
  return count;
}

int ovl_devices_group(const ovl_pipeline_t *p, ovl_order_groups_t *groups) {
  uint32_t count = p->lane_devices.count;
  uint32_t *lane_of = ovl_memory_array(&p->memory, count, sizeof *lane_of);
  if (lane_of == NULL)
    return OVL_ENOMEM;
  uint32_t domains = number_domains(p, lane_of);
  for (uint32_t l = 0; l < count; l++)
    lane_of[l] = lane_of[l] == OVL_NO_DOMAIN ? l : count + lane_of[l];
  *groups = (ovl_order_groups_t){
      .lane_of = lane_of, .lane_count = count + domains, .window = ovl_pipeline_effective_window(p)};
  return 0;
}

/* ---- set-up ---------------------------------------------------------------------------------------------------------- */

/* Who looks at a microbatch's buffers when it has ended, needs its slot until then. */
static uint32_t issue_ahead(const ovl_pipeline_t *p, uint32_t window) {
  uint32_t wanted = p->options.issue_ahead;
  if (wanted == 0)
    wanted = window <= UINT32_MAX / 2 ? 2 * window : window;
  return p->options.on_microbatch != NULL || wanted < window ? window : wanted;
}

static bool timed(const ovl_pipeline_t *p) { return p->options.device_timing == OVL_DEVICE_TIMING_ALL; }

static int make_plan(const ovl_pipeline_t *p, const ovl_plan_t *plan, ovl_devices_t *devices) {
  const ovl_description_t d = ovl_pipeline_describe(p);
  uint32_t *domains = ovl_memory_array(&p->memory, d.lane_count, sizeof *domains);
  if (domains == NULL)
    return OVL_ENOMEM;
  uint32_t count = number_domains(p, domains);
  int r = ovl_issue_init(&devices->issue, &d, plan, domains, count, issue_ahead(p, d.window), timed(p),
                         &p->memory);
  ovl_memory_free(&p->memory, domains);
  return r != 0 ? r : ovl_plan_init(&devices->plan, &devices->issue.description, &p->memory);
}

static int make_tables(const ovl_pipeline_t *p, ovl_devices_t *devices) {
  const ovl_issue_t *issue = &devices->issue;
  devices->stage_hooks =
      ovl_memory_array(&p->memory, devices->plan.stage_count, sizeof *devices->stage_hooks);
  devices->lane_hooks = ovl_memory_array(&p->memory, devices->plan.lane_count, sizeof *devices->lane_hooks);
  devices->lanes = ovl_memory_array(&p->memory, issue->user_lanes, sizeof *devices->lanes);
  devices->run_lanes = ovl_memory_array(&p->memory, issue->user_lanes, sizeof *devices->run_lanes);
  if (devices->stage_hooks == NULL || devices->lane_hooks == NULL || devices->lanes == NULL ||
      devices->run_lanes == NULL)
    return OVL_ENOMEM;
  for (uint32_t l = 0; l < issue->user_lanes; l++) {
    devices->lanes[l] = (ovl_track_lane_t){.device = ovl_pipeline_lane_table(p, l),
                                           .stream = ovl_pipeline_lane_device(p, l)->stream};
    devices->run_lanes[l] = issue->domains[l] == OVL_NO_DOMAIN ? l : issue->user_lanes + issue->domains[l];
  }
  return 0;
}

static void fill_hooks(const ovl_pipeline_t *p, ovl_devices_t *devices) {
  const ovl_stage_hooks_t *given = p->stage_hooks.items;
  const ovl_lane_hooks_t *lanes = p->lane_hooks.items;
  const ovl_issue_t *issue = &devices->issue;
  for (uint32_t l = 0; l < issue->user_lanes; l++)
    devices->lane_hooks[l] = lanes[l];
  devices->lane_hooks[issue->observer] = (ovl_lane_hooks_t){
      .poll = ovl_issuer_poll, .data = &devices->issuer, .poll_max_ns = OVL_DEVICE_POLL_NS};
  for (uint32_t s = 0; s < devices->plan.stage_count; s++) {
    uint32_t user = ovl_issue_user_stage(issue, s);
    ovl_issuer_stage_t *stage = &devices->issuer.stages[user];
    devices->stage_hooks[s] = given[user];
    if (devices->plan.stages[s].lane < issue->user_lanes)
      continue;
    stage->run = given[user].run;
    stage->data = given[user].data;
    stage->always = ((const ovl_stage_desc_t *)p->stage_descs.items)[user].always;
    devices->stage_hooks[s] = s < issue->user_stages
                                  ? (ovl_stage_hooks_t){.run = ovl_issuer_put, .data = stage}
                                  : (ovl_stage_hooks_t){.run = ovl_issuer_watch,
                                                        .data = stage,
                                                        .timeout_ns = given[user].timeout_ns};
  }
}

static bool is_stopped(const ovl_pipeline_t *p) {
  ovl_exec_lock(&p->exec);
  bool stopped = p->exec.core.stopped;
  ovl_exec_unlock(&p->exec);
  return stopped;
}

static void count_deadline(ovl_op_t *op, bool now) {
  ovl_executor_t *x = &op->pipeline->exec;
  ovl_exec_lock(x);
  ovl_exec_count_deadline(x, ovl_core_op_of(op), now ? ovl_clock_now(&x->clock) : UINT64_MAX);
  ovl_exec_unlock(x);
}

/* The user's op, in the executor's clock. The two differ by some parts in a million. */
static void tell(ovl_op_t *op, uint32_t stage, uint64_t start, uint64_t end) {
  ovl_pipeline_t *p = op->pipeline;
  ovl_core_t *core = &p->exec.core;
  if (core->options.trace == 0)
    return;
  ovl_exec_lock(&p->exec);
  const ovl_trace_record_t record = {.microbatch = op->microbatch,
                                     .stage = {stage + 1},
                                     .lane = {p->plan->stages[stage].lane + 1},
                                     .slot = op->slot,
                                     .ready_ns = core->started + start,
                                     .start_ns = core->started + start,
                                     .end_ns = core->started + end};
  ovl_core_keep_record(core, &record);
  ovl_exec_unlock(&p->exec);
}

ovl_devices_t *ovl_devices_make(const ovl_pipeline_t *p, const ovl_plan_t *plan, int *result) {
  ovl_devices_t *devices = ovl_memory_array(&p->memory, 1, sizeof *devices);
  *result = devices != NULL ? make_plan(p, plan, devices) : OVL_ENOMEM;
  if (*result == 0)
    *result = make_tables(p, devices);
  if (*result == 0)
    *result = ovl_issuer_init(&devices->issuer, &devices->issue, plan, devices->lanes, timed(p), &p->memory);
  if (*result == 0) {
    devices->issuer.abandon_ns = p->options.abandon_ns;
    devices->issuer.is_stopped = is_stopped;
    devices->issuer.count_deadline = count_deadline;
    devices->issuer.tell = tell;
    fill_hooks(p, devices);
    return devices;
  }
  if (devices != NULL)
    ovl_devices_free(devices, &p->memory);
  return NULL;
}

void ovl_devices_free(ovl_devices_t *devices, const ovl_memory_t *memory) {
  if (devices->issuer.issue != NULL)
    ovl_issuer_finish(&devices->issuer);
  ovl_memory_free(memory, devices->run_lanes);
  ovl_memory_free(memory, devices->lanes);
  ovl_memory_free(memory, devices->lane_hooks);
  ovl_memory_free(memory, devices->stage_hooks);
  ovl_plan_finish(&devices->plan, memory);
  ovl_issue_finish(&devices->issue, memory);
  ovl_memory_free(memory, devices);
}

/* ---- names ------------------------------------------------------------------------------------------------------------ */

const char *ovl_run_lane_name(const ovl_pipeline_t *p, uint32_t lane) {
  if (p->devices == NULL || lane < p->devices->issue.user_lanes)
    return ovl_lane_name(p, lane);
  return lane == p->devices->issue.observer ? "(what devices have done)" : "(what is issued to devices)";
}

const char *ovl_run_stage_name(const ovl_pipeline_t *p, uint32_t stage) {
  return ovl_stage_name(p, p->devices != NULL ? ovl_issue_user_stage(&p->devices->issue, stage) : stage);
}

/* ---- a run ----------------------------------------------------------------------------------------------------------- */

bool ovl_devices_poisoned(const ovl_pipeline_t *p) {
  return p->devices != NULL && atomic_load(&p->devices->issuer.abandoned);
}

int ovl_devices_refuse_events(ovl_pipeline_t *p, const char *call, int result) {
  int code = ovl_code_of(result);
  return ovl_refuse(p, code, "%s: the events could not be made: %s (%d)", call, ovl_strerror(code), result);
}

int ovl_devices_begin(ovl_pipeline_t *p, const char *call, uint64_t microbatches) {
  uint32_t lane;
  if (ovl_devices_poisoned(p))
    return ovl_refuse(p, OVL_EPOISONED, "%s: %s", call, ovl_strerror(OVL_EPOISONED));
  int r = p->enqueuing ? OVL_EBUSY : ovl_exec_may_launch(&p->exec, microbatches);
  if (r != 0)
    return ovl_refuse(p, r, "%s: %s", call, ovl_strerror(r));
  for (lane = 0; lane < p->lane_devices.count; lane++)
    if (p->devices->lanes[lane].device != NULL && p->devices->lanes[lane].stream == NULL)
      return ovl_refuse(p, OVL_EINVAL, "%s: lane \"%.100s\" has no stream", call, ovl_lane_name(p, lane));
  r = ovl_issuer_begin(&p->devices->issuer, p->mode, ovl_pipeline_enqueued_end(p), &lane);
  if (r == OVL_ECAPTURE)
    return ovl_refuse(p, r, "%s: the stream of lane \"%.100s\" is capturing; enqueue can be captured", call,
                      ovl_lane_name(p, lane));
  return r == 0 ? 0 : ovl_devices_refuse_events(p, call, r);
}
