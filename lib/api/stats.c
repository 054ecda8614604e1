/* SPDX-License-Identifier: MIT */
/* The public calls that ask for statistics: of the last run, or a snapshot of the one in flight. */
#include "observe/stats.h"

#include "api/devices.h"
#include "api/options.h"
#include "api/pipeline.h"

uint64_t ovl_run_elapsed(const ovl_executor_t *x) {
  if (x->phase != OVL_EXEC_RUNNING)
    return x->elapsed;
  uint64_t now = ovl_clock_now(&x->clock);
  return (now > x->core.now ? now : x->core.now) - x->core.started;
}

/* Of a run in flight as it shows so far. */
double ovl_run_correction(const ovl_executor_t *x) {
  if (x->phase == OVL_EXEC_RUNNING)
    return ovl_clock_correction(&x->clock);
  return x->elapsed > 0 ? x->correction : 1.0;
}

static void read_run(const ovl_pipeline_t *p, ovl_stats_t *s) {
  const ovl_executor_t *x = &p->exec;
  ovl_exec_lock(x);
  ovl_stats_of_core(&x->core, ovl_run_elapsed(x), s);
  for (uint32_t i = 0; i < p->plan->stage_count; i++) {
    s->ops -= ovl_devices_skipped(p, i);
    s->skipped += ovl_devices_skipped(p, i);
  }
  s->pool_width = x->crew.size;
  s->pool_peak = x->crew.peak;
  if (x->core.options.statistics) {
    s->pool_wait_ns = x->crew.wait_ns;
    s->loop_longest_ns = x->loop_longest;
  }
  ovl_stats_scale(s, ovl_run_correction(x));
  s->finding = ovl_stats_finding(&x->core, s);
  if (p->devices != NULL)
    ovl_devices_correct(p, s);
  ovl_exec_unlock(x);
}

int ovl_pipeline_stats(const ovl_pipeline_t *p, ovl_stats_t *stats) {
  if (p == NULL || stats == NULL)
    return OVL_EINVAL;
  ovl_stats_t s;
  ovl_stats_init(&s);
  s.finding = "";
  if (atomic_load(&p->frozen))
    read_run(p, &s);
  return ovl_options_write(stats, &s, sizeof s, offsetof(ovl_stats_t, microbatches));
}

/* What was issued. How long it took is not known, so neither is for how long the lane was idle. */
static void read_device_lane(const ovl_pipeline_t *p, uint32_t lane, ovl_lane_stats_t *s) {
  const ovl_plan_t *plan = p->plan;
  *s = (ovl_lane_stats_t){.size = s->size, .width = s->width, .elapsed_ns = s->elapsed_ns};
  for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++)
    s->ops +=
        p->exec.core.tally.stages[plan->lane_stages[i]].ops - ovl_devices_skipped(p, plan->lane_stages[i]);
}

int ovl_pipeline_lane_stats(const ovl_pipeline_t *p, ovl_lane_t lane, ovl_lane_stats_t *stats) {
  if (p == NULL || stats == NULL)
    return OVL_EINVAL;
  if (lane.id == 0 || lane.id > p->lane_descs.count)
    return OVL_ENOLANE;
  ovl_lane_stats_t s;
  ovl_lane_stats_init(&s);
  if (atomic_load(&p->frozen)) {
    ovl_exec_lock(&p->exec);
    ovl_stats_of_lane(&p->exec.core, lane.id - 1, ovl_run_elapsed(&p->exec), &s);
    if (p->devices != NULL && s.awaited.id != 0)
      s.awaited.id = ovl_issue_user_stage(&p->devices->issue, s.awaited.id - 1) + 1;
    bool on_device = ovl_pipeline_lane_device(p, lane.id - 1)->given != NULL;
    if (on_device)
      read_device_lane(p, lane.id - 1, &s);
    ovl_stats_scale_lane(&s, ovl_run_correction(&p->exec));
    if (on_device)
      ovl_devices_add_lane_times(p, lane.id - 1, &s);
    ovl_exec_unlock(&p->exec);
  }
  return ovl_options_write(stats, &s, sizeof s, offsetof(ovl_lane_stats_t, ops));
}

int ovl_pipeline_stage_stats(const ovl_pipeline_t *p, ovl_stage_t stage, ovl_stage_stats_t *stats) {
  if (p == NULL || stats == NULL)
    return OVL_EINVAL;
  if (stage.id == 0 || stage.id > p->stage_descs.count)
    return OVL_ENOSTAGE;
  ovl_stage_stats_t s;
  ovl_stage_stats_init(&s);
  if (atomic_load(&p->frozen)) {
    ovl_exec_lock(&p->exec);
    ovl_stats_of_stage(&p->exec.core, stage.id - 1, &s);
    s.ops -= ovl_devices_skipped(p, stage.id - 1);
    s.skipped += ovl_devices_skipped(p, stage.id - 1);
    s.failed += ovl_devices_failed(p, stage.id - 1);
    if (s.failed > s.ops) /* once by its callback, and again by the device */
      s.failed = s.ops;
    ovl_stats_scale_stage(&s, ovl_run_correction(&p->exec));
    if (ovl_pipeline_lane_device(p, p->plan->stages[stage.id - 1].lane)->given != NULL)
      ovl_devices_add_stage_times(p, stage.id - 1, &s);
    ovl_exec_unlock(&p->exec);
  }
  return ovl_options_write(stats, &s, sizeof s, offsetof(ovl_stage_stats_t, ops));
}
