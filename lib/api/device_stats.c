/* SPDX-License-Identifier: MIT */
/* What the issuers of device lanes know beside the core: which ops were skipped, and what the devices have said of when the
 * others ran. */
#include "api/devices.h"
#include "api/pipeline.h"

uint64_t ovl_devices_skipped(const ovl_pipeline_t *p, uint32_t stage) {
  uint64_t ended = p->exec.core.tally.stages[stage].ops;
  uint64_t skipped = p->devices != NULL ? ovl_issuer_skipped(&p->devices->issuer, stage) : 0;
  return skipped < ended ? skipped : ended; /* the last may not have ended yet */
}

uint64_t ovl_devices_failed(const ovl_pipeline_t *p, uint32_t stage) {
  uint32_t watch = p->devices != NULL ? p->devices->issue.watches[stage] : OVL_NO_WATCH;
  return watch != OVL_NO_WATCH ? p->exec.core.tally.stages[watch].failed : 0;
}

typedef struct look {
  uint32_t index;
  void *into;
} look_t;

static void ask(const ovl_pipeline_t *p, void (*see)(const ovl_times_t *times, void *data), uint32_t index,
                void *into) {
  look_t look = {.index = index, .into = into};
  if (p->devices != NULL && p->devices->issuer.timed && p->exec.core.options.statistics)
    ovl_issuer_times(&p->devices->issuer, p->exec.phase != OVL_EXEC_RUNNING, see, &look);
}

static void see_run(const ovl_times_t *times, void *data) {
  ovl_stats_t *s = ((look_t *)data)->into;
  for (uint32_t i = 0; i < times->plan->stage_count; i++)
    s->work_ns += times->stages[i].total;
  s->hidden_ns += times->roles.hidden;
  s->exposed_ns += times->roles.exposed;
  s->concurrency = s->elapsed_ns != 0 ? (double)s->work_ns / (double)s->elapsed_ns : 0.0;
}

static void see_lane(const ovl_times_t *times, void *data) {
  const look_t *look = data;
  const ovl_plan_t *plan = times->plan;
  ovl_lane_stats_t *s = look->into;
  for (uint32_t i = plan->lane_first[look->index]; i < plan->lane_first[look->index + 1]; i++) {
    s->busy_ns += times->stages[plan->lane_stages[i]].total;
    s->timed_ops += times->stages[plan->lane_stages[i]].ops;
  }
}

static void see_stage(const ovl_times_t *times, void *data) {
  const look_t *look = data;
  const ovl_stage_tally_t *t = &times->stages[look->index];
  ovl_stage_stats_t *s = look->into;
  s->timed_ops = t->ops;
  s->total_ns = t->total;
  s->min_ns = t->min;
  s->max_ns = t->max;
  s->mean_ns = t->ops != 0 ? (double)t->total / (double)t->ops : 0.0;
}

void ovl_devices_correct(const ovl_pipeline_t *p, ovl_stats_t *s) {
  s->bound_ns = 0;
  s->efficiency = 0.0;
  ask(p, see_run, 0, s);
}

void ovl_devices_add_lane_times(const ovl_pipeline_t *p, uint32_t lane, ovl_lane_stats_t *s) {
  ask(p, see_lane, lane, s);
}

void ovl_devices_add_stage_times(const ovl_pipeline_t *p, uint32_t stage, ovl_stage_stats_t *s) {
  ask(p, see_stage, stage, s);
}
