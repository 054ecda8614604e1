/* SPDX-License-Identifier: MIT */
/* What the core has added up, as ratios and, where overlap was missed, in words. */
#include "observe/stats.h"

#include "core/idle.h"

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

/* Where the parts of a lane's time stand: busy, then idle for each reason. */
enum { BUSY = 0, IDLE = 1, PARTS = IDLE + OVL_IDLE_REASONS };

static uint64_t *part_of(ovl_lane_stats_t *s, int part) {
  uint64_t *const parts[PARTS] = {
      [BUSY] = &s->busy_ns,
      [IDLE + OVL_IDLE_FILL] = &s->idle_fill_ns,
      [IDLE + OVL_IDLE_DEPENDENCY] = &s->idle_dependency_ns,
      [IDLE + OVL_IDLE_WINDOW] = &s->idle_window_ns,
      [IDLE + OVL_IDLE_INPUT] = &s->idle_input_ns,
      [IDLE + OVL_IDLE_FIXED_ORDER] = &s->idle_fixed_order_ns,
      [IDLE + OVL_IDLE_RUNNER] = &s->idle_runner_ns,
      [IDLE + OVL_IDLE_TAIL] = &s->idle_tail_ns,
  };
  return parts[part];
}

uint64_t ovl_stats_idle(const ovl_lane_stats_t *s, ovl_idle_reason_t reason) {
  ovl_lane_stats_t copy = *s;
  return *part_of(&copy, IDLE + (int)reason);
}

const char *ovl_stats_idle_name(ovl_idle_reason_t reason) {
  static const char *const names[OVL_IDLE_REASONS] = {
      [OVL_IDLE_FILL] = "not reached yet",           [OVL_IDLE_DEPENDENCY] = "waits for other operations",
      [OVL_IDLE_WINDOW] = "waits for a slot",        [OVL_IDLE_INPUT] = "waits for items",
      [OVL_IDLE_FIXED_ORDER] = "waits for its turn", [OVL_IDLE_RUNNER] = "waits for a thread",
      [OVL_IDLE_TAIL] = "nothing more to come",
  };
  return names[reason];
}

/* The pair of stages that the lane waited for most. */
static void find_awaited(const ovl_core_t *core, uint32_t lane, ovl_lane_stats_t *s) {
  const ovl_plan_t *plan = core->plan;
  const ovl_edges_t *in = &core->graph->in;
  for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++) {
    uint32_t stage = plan->lane_stages[i];
    for (uint32_t e = in->first[stage]; e < in->first[stage + 1]; e++)
      if (core->tally.awaited[e] > s->awaited_ns) {
        s->awaited_ns = core->tally.awaited[e];
        s->waiting.id = stage + 1;
        s->awaited.id = in->edges[e].stage + 1;
      }
  }
}

/* What is not idle is busy: of ops that have ended, and of those that are running. */
static void find_idle(const ovl_core_t *core, uint32_t lane, ovl_lane_stats_t *s) {
  uint64_t idle[OVL_IDLE_REASONS];
  ovl_idle_until(core, lane, core->started + s->elapsed_ns, idle);
  s->busy_ns = s->width * s->elapsed_ns;
  for (int reason = 0; reason < OVL_IDLE_REASONS; reason++) {
    *part_of(s, IDLE + reason) = idle[reason];
    s->busy_ns -= idle[reason];
  }
}

void ovl_stats_of_lane(const ovl_core_t *core, uint32_t lane, uint64_t elapsed, ovl_lane_stats_t *s) {
  ovl_lane_stats_init(s);
  s->ops = ovl_core_lane_ops(core, lane);
  s->peak = core->lanes[lane].peak;
  s->elapsed_ns = elapsed;
  s->width = core->plan->lanes[lane].width;
  if (!core->options.statistics)
    return;
  s->timed_ops = s->ops;
  find_idle(core, lane, s);
  find_awaited(core, lane, s);
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
  s->delay_total_ns = t->delay;
  s->delay_max_ns = t->most_delay;
  s->delay_mean_ns = ratio(t->delay, t->ops);
  s->timed_ops =
      core->options.statistics && !core->plan->lanes[core->plan->stages[stage].lane].silent ? t->ops : 0;
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

/* Scaled one by one the parts would not add up any more. So it is their running sum that is scaled, and of the last
 * part that there is, so much that the whole is right. */
void ovl_stats_scale_lane(ovl_lane_stats_t *s, double by) {
  uint64_t sum = 0, scaled = 0, *last = NULL;
  scale(&s->elapsed_ns, by);
  const uint64_t whole = s->width * s->elapsed_ns;
  for (int p = 0; p < PARTS; p++) {
    uint64_t *part = part_of(s, p), before = scaled;
    if (*part == 0)
      continue;
    scaled = sum += *part;
    scale(&scaled, by);
    if (scaled > whole)
      scaled = whole;
    *part = scaled - before;
    last = part;
  }
  if (last != NULL)
    *last += whole - scaled;
  scale(&s->awaited_ns, by);
  if (s->awaited_ns > s->idle_dependency_ns)
    s->awaited_ns = s->idle_dependency_ns;
}

void ovl_stats_scale_stage(ovl_stage_stats_t *s, double by) {
  scale(&s->total_ns, by);
  scale(&s->min_ns, by);
  scale(&s->max_ns, by);
  s->mean_ns *= by;
  scale(&s->delay_total_ns, by);
  scale(&s->delay_max_ns, by);
  s->delay_mean_ns *= by;
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
