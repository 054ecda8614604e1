/* SPDX-License-Identifier: MIT */
/* ovl_pipeline_explain: the statistics put into words. The lane that works most is what bounds a run; why it does
 * not work all the time is what can be changed. */
#include "ovl/explain.h"

#include <string.h>

#include "api/explain.h"

#define MATTERS 10.0 /* percent of the time of the busiest lane */
#define SATURATED 85.0

/* ---- the run and its lanes ------------------------------------------------------------------------------------- */

static void look(ovl_view_t *v) {
  const ovl_executor_t *x = &v->p->exec;
  ovl_exec_lock(x);
  v->serial = x->core.graph == &x->core.plan->graphs[OVL_SERIAL];
  v->in_flight = x->phase != OVL_EXEC_IDLE;
  ovl_exec_unlock(x);
  ovl_stats_init(&v->run);
  ovl_pipeline_stats(v->p, &v->run);
}

static double percent(uint64_t part, const ovl_lane_stats_t *lane) {
  double whole = (double)lane->width * (double)lane->elapsed_ns;
  return whole > 0.0 ? 100.0 * (double)part / whole : 0.0;
}

static void tell_run(const ovl_view_t *v) {
  const ovl_stats_t *s = &v->run;
  ovl_note_add(v->text, "%s run%s: %llu microbatches, %llu operations in %s",
               v->serial ? "serial" : "overlapped", v->in_flight ? " so far" : "",
               (unsigned long long)s->microbatches, (unsigned long long)s->ops,
               ovl_note_time(s->elapsed_ns).text);
  if (v->p->device_lanes == 0)
    ovl_note_add(v->text, "; without overhead %s", ovl_note_time(s->bound_ns).text);
  ovl_note_add(v->text, "\n");
}

static bool is_on_device(const ovl_view_t *v, uint32_t lane) {
  return ovl_pipeline_lane_device(v->p, lane)->given != NULL;
}

static void tell_device_lane(const ovl_view_t *v, uint32_t index, const ovl_lane_stats_t *lane) {
  if (v->p->options.device_timing == OVL_DEVICE_TIMING_ALL)
    ovl_note_add(v->text, "lane \"%.100s\": busy %.0f %%, as its device says\n", ovl_lane_name(v->p, index),
                 percent(lane->busy_ns, lane));
  else
    ovl_note_add(
        v->text,
        "lane \"%.100s\": on a device, so for how long it works is not known without device_timing\n",
        ovl_lane_name(v->p, index));
}

static void tell_lane(const ovl_view_t *v, uint32_t index, const ovl_lane_stats_t *lane) {
  if (is_on_device(v, index)) {
    tell_device_lane(v, index, lane);
    return;
  }
  ovl_note_add(v->text, "lane \"%.100s\": busy %.0f %%", ovl_lane_name(v->p, index),
               percent(lane->busy_ns, lane));
  for (ovl_idle_reason_t reason = 0; reason < OVL_IDLE_REASONS; reason++) {
    double share = percent(ovl_stats_idle(lane, reason), lane);
    if (share >= 1.0)
      ovl_note_add(v->text, ", %s %.0f %%", ovl_stats_idle_name(reason), share);
  }
  ovl_note_add(v->text, "\n");
}

/* Tells each lane, and keeps the one that works most. False: it may be one of which that is not known. */
static bool tell_lanes(ovl_view_t *v) {
  bool known = true;
  ovl_lane_stats_t lane;
  for (uint32_t l = 0; l < v->p->lane_descs.count; l++) {
    ovl_lane_stats_init(&lane);
    ovl_pipeline_lane_stats(v->p, (ovl_lane_t){l + 1}, &lane);
    tell_lane(v, l, &lane);
    known &= lane.timed_ops > 0 || lane.ops == 0;
    if (l == 0 || percent(lane.busy_ns, &lane) > percent(v->lane.busy_ns, &v->lane)) {
      v->busiest = l;
      v->lane = lane;
    }
  }
  return known;
}

/* ---- what bounds it -------------------------------------------------------------------------------------------- */

static void find_saturated(const ovl_view_t *v) {
  static const char *const roles[] = {
      [OVL_ROLE_OTHER] = "lane", [OVL_ROLE_COMPUTE] = "compute", [OVL_ROLE_COMM] = "comm"};
  double share = percent(v->lane.busy_ns, &v->lane);
  if (share >= SATURATED)
    ovl_note_add(v->text,
                 "%s-bound: lane \"%.100s\" works %.0f %% of the time; shorten its operations, or give it "
                 "more width\n",
                 roles[v->p->plan->lanes[v->busiest].role], ovl_lane_name(v->p, v->busiest), share);
}

static void find_dependency(const ovl_view_t *v, double share) {
  const ovl_lane_stats_t *lane = &v->lane;
  ovl_note_add(v->text, "dependency-bound: lane \"%.100s\" waits %.0f %% of the time for other operations",
               ovl_lane_name(v->p, v->busiest), share);
  if (lane->awaited.id != 0)
    ovl_note_add(v->text, ", for %s of it until \"%.100s\" has ended and \"%.100s\" may start",
                 ovl_note_time(lane->awaited_ns).text, ovl_stage_name(v->p, lane->awaited.id - 1),
                 ovl_stage_name(v->p, lane->waiting.id - 1));
  ovl_note_add(v->text, "; shorten what it waits for, or cut the dependency\n");
}

/* Pool operations were ready, and the pool had no thread for them. */
static bool is_starved(const ovl_view_t *v) {
  const ovl_stats_t *s = &v->run;
  return s->pool_wait_ns > s->elapsed_ns / 10 &&
         (s->pool_peak < s->pool_width || s->pool_wait_ns > s->elapsed_ns / 2);
}

static void find_starved(const ovl_view_t *v) {
  if (is_starved(v))
    ovl_note_add(
        v->text,
        "pool-starved: operations waited for a thread for %s of it; of %u that could work %u did; raise "
        "UV_THREADPOOL_SIZE, or keep other work off the pool\n",
        ovl_note_time(v->run.pool_wait_ns).text, (unsigned)v->run.pool_width, (unsigned)v->run.pool_peak);
}

static void find_runner(const ovl_view_t *v) {
  uint64_t ops = v->lane.ops > 0 ? v->lane.ops : 1;
  if (v->p->plan->lanes[v->busiest].kind == OVL_LANE_POOL && is_starved(v))
    return; /* said already */
  ovl_note_add(v->text,
               "dispatch-bound: operations of lane \"%.100s\" take %s and wait %s for a thread or the loop; "
               "make them longer, or keep the loop free\n",
               ovl_lane_name(v->p, v->busiest), ovl_note_time(v->lane.busy_ns / ops).text,
               ovl_note_time(v->lane.idle_runner_ns / ops).text);
}

static void find_reason(const ovl_view_t *v, ovl_idle_reason_t reason, double share) {
  const char *name = ovl_lane_name(v->p, v->busiest);
  switch (reason) {
  case OVL_IDLE_DEPENDENCY:
    find_dependency(v, share);
    break;
  case OVL_IDLE_WINDOW:
    ovl_note_add(v->text,
                 "window-bound: lane \"%.100s\" waits %.0f %% of the time for a slot; raise the window "
                 "of %u, or make on_microbatch return sooner\n",
                 name, share, (unsigned)v->run.window);
    break;
  case OVL_IDLE_INPUT:
    ovl_note_add(v->text, "input-bound: lane \"%.100s\" waits %.0f %% of the time for items; submit sooner\n",
                 name, share);
    break;
  case OVL_IDLE_FIXED_ORDER:
    ovl_note_add(v->text,
                 "order-bound: lane \"%.100s\" waits %.0f %% of the time for an operation's turn while "
                 "others are ready; give it another order, or OVL_ORDER_READY\n",
                 name, share);
    break;
  case OVL_IDLE_RUNNER:
    find_runner(v);
    break;
  case OVL_IDLE_FILL:
  case OVL_IDLE_TAIL:
    break; /* together */
  }
}

static void find_reasons(const ovl_view_t *v) {
  if (is_on_device(v, v->busiest))
    return; /* a device does not say what it waited for */
  double ends = percent(v->lane.idle_fill_ns + v->lane.idle_tail_ns, &v->lane);
  for (ovl_idle_reason_t reason = 0; reason < OVL_IDLE_REASONS; reason++) {
    double share = percent(ovl_stats_idle(&v->lane, reason), &v->lane);
    if (share >= MATTERS && !(v->serial && (reason == OVL_IDLE_WINDOW || reason == OVL_IDLE_DEPENDENCY)))
      find_reason(v, reason, share);
  }
  if (ends >= MATTERS && !v->serial && !v->in_flight)
    ovl_note_add(
        v->text,
        "few microbatches: lane \"%.100s\" waits %.0f %% of the time for the first to reach it and for "
        "the last to end elsewhere; cut the batch into more of them than %llu\n",
        ovl_lane_name(v->p, v->busiest), ends, (unsigned long long)v->run.microbatches);
}

static void find_blocked_loop(const ovl_view_t *v) {
  if (v->run.loop_longest_ns > 1000000 && v->run.loop_longest_ns > v->run.elapsed_ns / 10)
    ovl_note_add(v->text,
                 "blocked loop: a callback of a loop lane takes up to %s, and nothing else of the loop runs "
                 "meanwhile; let it return OVL_PENDING, or move it to a pool lane\n",
                 ovl_note_time(v->run.loop_longest_ns).text);
}

/* ---- beside a serial run ---------------------------------------------------------------------------------------- */

static uint64_t serial_mean(const ovl_view_t *v, uint32_t stage) {
  ovl_exec_lock(&v->p->exec);
  uint64_t mean = v->p->exec.serial_means[stage];
  ovl_exec_unlock(&v->p->exec);
  return mean;
}

static void find_contention(const ovl_view_t *v, uint32_t stage) {
  uint64_t alone = serial_mean(v, stage), mean = ovl_view_mean(v, stage);
  if (alone > 0 && mean > alone + alone / 10)
    ovl_note_add(
        v->text,
        "contention: \"%.100s\" takes %s overlapped and %s in the last serial run, %.2f times as long; "
        "the lanes compete for processors, memory or a link\n",
        ovl_stage_name(v->p, stage), ovl_note_time(mean).text, ovl_note_time(alone).text,
        (double)mean / (double)alone);
}

static void find_mode(const ovl_view_t *v) {
  if (v->serial)
    ovl_note_add(v->text, "serial: one operation at a time, as asked for; OVL_OVERLAP overlaps them\n");
  for (uint32_t s = 0; !v->serial && s < v->p->stage_descs.count; s++)
    find_contention(v, s);
}

/* ---- the call -------------------------------------------------------------------------------------------------- */

uint64_t ovl_view_mean(const ovl_view_t *v, uint32_t stage) {
  ovl_stage_stats_t s;
  ovl_stage_stats_init(&s);
  ovl_pipeline_stage_stats(v->p, (ovl_stage_t){stage + 1}, &s);
  return s.timed_ops > 0 ? s.total_ns / s.timed_ops : 0;
}

static void explain(ovl_view_t *v) {
  look(v);
  tell_run(v);
  if (!v->p->exec.core.options.statistics || v->run.ops == 0)
    return;
  if (!tell_lanes(v))
    return;
  find_saturated(v);
  find_starved(v);
  find_reasons(v);
  find_blocked_loop(v);
  find_mode(v);
  if (!v->in_flight)
    ovl_view_what_if(v);
}

int ovl_pipeline_explain(const ovl_pipeline_t *p, char *buffer, size_t bytes) {
  if (p == NULL || (buffer == NULL && bytes > 0))
    return OVL_EINVAL;
  ovl_note_t text;
  ovl_view_t view = {.p = p, .text = &text};
  ovl_note_init(&text, buffer, bytes);
  if (atomic_load(&p->frozen))
    explain(&view);
  else
    ovl_note_add(&text, "nothing has run yet\n");
  return ovl_note_end(&text);
}
