/* SPDX-License-Identifier: MIT */
/* What the core has added up, as ratios and, where overlap was missed, in words. */
#include "observe/stats.h"

static double ratio(uint64_t a, uint64_t b) { return b != 0 ? (double)a / (double)b : 0.0; }

void ovl_stats_of_core(const ovl_core_t *core, uint64_t elapsed, ovl_stats_t *s) {
  const ovl_tally_t *t = &core->tally;
  ovl_stats_init(s);
  s->finding = "";
  s->microbatches = t->retired;
  s->failed = t->failed;
  s->ops = t->ops;
  s->skipped = t->skipped;
  s->elapsed_ns = elapsed;
  s->window = core->plan->slots;
  if (!core->options.statistics)
    return;
  s->work_ns = t->work;
  s->concurrency = ratio(t->work, elapsed);
  s->bound_ns = t->bound > core->started ? t->bound - core->started : 0;
  s->efficiency = ratio(s->bound_ns, elapsed);
  s->hidden_ns = t->hidden;
  s->exposed_ns = t->exposed;
}

void ovl_stats_of_lane(const ovl_core_t *core, uint32_t lane, uint64_t elapsed, ovl_lane_stats_t *s) {
  const ovl_core_lane_t *t = &core->lanes[lane];
  ovl_lane_stats_init(s);
  s->ops = t->ops;
  s->busy_ns = t->busy;
  s->peak = t->peak;
  s->elapsed_ns = elapsed;
  s->width = core->plan->lanes[lane].width;
}

void ovl_stats_of_stage(const ovl_core_t *core, uint32_t stage, ovl_stage_stats_t *s) {
  const ovl_stage_tally_t *t = &core->tally.stages[stage];
  ovl_stage_stats_init(s);
  s->ops = t->ops;
  s->failed = t->failed;
  s->skipped = t->skipped;
  s->total_ns = t->total;
  s->min_ns = t->min;
  s->max_ns = t->max;
  s->mean_ns = ratio(t->total, t->ops);
}

/* ---- scaling ------------------------------------------------------------------------------------------------- */

static void scale(uint64_t *time, double by) { *time = (uint64_t)((double)*time * by); }

void ovl_stats_scale(ovl_stats_t *s, double by) {
  scale(&s->elapsed_ns, by);
  scale(&s->work_ns, by);
  scale(&s->bound_ns, by);
  scale(&s->hidden_ns, by);
  scale(&s->exposed_ns, by);
  scale(&s->pool_wait_ns, by);
  scale(&s->loop_longest_ns, by);
}

void ovl_stats_scale_lane(ovl_lane_stats_t *s, double by) {
  scale(&s->busy_ns, by);
  scale(&s->elapsed_ns, by);
}

void ovl_stats_scale_stage(ovl_stage_stats_t *s, double by) {
  scale(&s->total_ns, by);
  scale(&s->min_ns, by);
  scale(&s->max_ns, by);
  s->mean_ns *= by;
}

/* ---- findings ------------------------------------------------------------------------------------------------ */

/* A cause counts when it took more than a tenth of the run, and more than waking a thread takes. */
static bool matters(uint64_t part, const ovl_stats_t *s) {
  return part > s->elapsed_ns / 10 && part > 1000000;
}

static bool has_loop_lane(const ovl_core_t *core) {
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    if (core->plan->lanes[l].kind == OVL_LANE_LOOP)
      return true;
  return false;
}

const char *ovl_stats_finding(const ovl_core_t *core, const ovl_stats_t *s) {
  bool serial = core->graph == &core->plan->graphs[OVL_SERIAL];
  if (serial || !core->options.statistics || s->ops == 0)
    return "";
  bool short_of_threads = s->pool_peak < s->pool_width || s->pool_wait_ns > s->elapsed_ns / 2;
  if (matters(s->pool_wait_ns, s) && short_of_threads)
    return "the thread pool is starved: operations were ready and found no thread; raise "
           "UV_THREADPOOL_SIZE, or keep other work off the pool";
  if (!matters(s->exposed_ns, s) || s->hidden_ns > s->exposed_ns / 10)
    return "";
  if (s->window == 1 && s->microbatches > 1)
    return "the window is 1, so no microbatch can overlap with another; raise it to 2 or more";
  if (has_loop_lane(core) && s->loop_longest_ns > 1000000)
    return "a callback on a loop lane blocks the loop, so nothing else of the loop's runs meanwhile; make "
           "it return OVL_PENDING, or move it to a pool lane";
  return "";
}
