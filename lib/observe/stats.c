/* SPDX-License-Identifier: MIT */
/* Statistics for the user: what the core has added up, as ratios and, where overlap was missed, in words. */
#include "ovl/stats.h"

#include "api/options.h"
#include "api/pipeline.h"

static ovl_lock_t *lock_of(const ovl_pipeline_t *p) { return ovl_exec_lock_of(&p->exec); }

static double ratio(uint64_t a, uint64_t b) { return b != 0 ? (double)a / (double)b : 0.0; }

static uint64_t elapsed(const ovl_executor_t *x) {
  if (x->phase != OVL_EXEC_RUNNING)
    return x->elapsed;
  uint64_t now = ovl_clock_now(&x->clock);
  return (now > x->core.now ? now : x->core.now) - x->core.started;
}

/* ---- findings: why overlap was asked for and not had --------------------------------------------------------- */

/* A cause counts when it took more than a tenth of the run, and more than waking a thread takes. */
static bool matters(uint64_t part, const ovl_stats_t *s) {
  return part > s->elapsed_ns / 10 && part > 1000000;
}

static bool on_loop(const ovl_pipeline_t *p, ovl_role_t role) {
  for (uint32_t l = 0; l < p->plan->lane_count; l++)
    if (p->plan->lanes[l].kind == OVL_LANE_LOOP && (role == OVL_ROLE_OTHER || p->plan->lanes[l].role == role))
      return true;
  return false;
}

static const char *find(const ovl_pipeline_t *p, const ovl_stats_t *s) {
  if (p->mode != OVL_OVERLAP || p->options.no_stats || s->ops == 0)
    return "";
  if (matters(s->pool_wait_ns, s) && s->pool_peak < s->pool_width)
    return "the thread pool is starved: operations were ready and found no thread; raise UV_THREADPOOL_SIZE, "
           "or keep "
           "other work off the pool";
  if (!matters(s->exposed_ns, s) || s->hidden_ns > s->exposed_ns / 10)
    return "";
  if (s->window == 1 && s->microbatches > 1)
    return "the window is 1, so no microbatch can overlap with another; raise it to 2 or more";
  if (on_loop(p, OVL_ROLE_OTHER) && s->loop_longest_ns > 1000000)
    return "a callback on a loop lane blocks the loop, so nothing else of the loop's runs meanwhile; make it "
           "return "
           "OVL_PENDING, or move it to a pool lane";
  return "";
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void fill_counts(const ovl_executor_t *x, ovl_stats_t *s) {
  const ovl_tally_t *t = &x->core.tally;
  s->microbatches = t->retired;
  s->failed = t->failed;
  s->ops = t->ops;
  s->skipped = t->skipped;
  s->elapsed_ns = elapsed(x);
  s->window = x->core.plan->window;
  s->pool_width = x->crew.size;
  s->pool_peak = x->crew.peak;
}

static void fill_times(const ovl_executor_t *x, ovl_stats_t *s) {
  const ovl_tally_t *t = &x->core.tally;
  s->work_ns = t->work;
  s->concurrency = ratio(t->work, s->elapsed_ns);
  s->bound_ns = t->bound > x->core.started ? t->bound - x->core.started : 0;
  s->efficiency = ratio(s->bound_ns, s->elapsed_ns);
  s->hidden_ns = t->hidden;
  s->exposed_ns = t->exposed;
  s->pool_wait_ns = x->crew.wait_ns;
  s->loop_longest_ns = x->loop_longest;
}

int ovl_pipeline_stats(const ovl_pipeline_t *p, ovl_stats_t *stats) {
  if (p == NULL || stats == NULL)
    return OVL_EINVAL;
  ovl_stats_t s;
  ovl_stats_init(&s);
  s.finding = "";
  if (atomic_load(&p->frozen)) {
    ovl_lock(lock_of(p));
    fill_counts(&p->exec, &s);
    if (!p->options.no_stats)
      fill_times(&p->exec, &s);
    ovl_unlock(lock_of(p));
    s.finding = find(p, &s);
  }
  return ovl_options_write(stats, &s, sizeof s, offsetof(ovl_stats_t, microbatches));
}

int ovl_pipeline_lane_stats(const ovl_pipeline_t *p, ovl_lane_t lane, ovl_lane_stats_t *stats) {
  if (p == NULL || stats == NULL)
    return OVL_EINVAL;
  if (lane.id == 0 || lane.id > p->lane_descs.count)
    return OVL_ENOLANE;
  ovl_lane_stats_t s;
  ovl_lane_stats_init(&s);
  if (atomic_load(&p->frozen)) {
    ovl_lock(lock_of(p));
    const ovl_lane_tally_t *t = &p->exec.core.tally.lanes[lane.id - 1];
    s.ops = t->ops;
    s.busy_ns = t->busy;
    s.peak = t->peak;
    s.elapsed_ns = elapsed(&p->exec);
    s.width = p->plan->lanes[lane.id - 1].width;
    ovl_unlock(lock_of(p));
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
    ovl_lock(lock_of(p));
    const ovl_stage_tally_t *t = &p->exec.core.tally.stages[stage.id - 1];
    s.ops = t->ops;
    s.failed = t->failed;
    s.skipped = t->skipped;
    s.total_ns = t->total;
    s.min_ns = t->min;
    s.max_ns = t->max;
    s.mean_ns = ratio(t->total, t->ops);
    ovl_unlock(lock_of(p));
  }
  return ovl_options_write(stats, &s, sizeof s, offsetof(ovl_stage_stats_t, ops));
}
