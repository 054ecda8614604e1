/* SPDX-License-Identifier: MIT */
/* From what the user described to what is issued and watched. */
#include "plan/issue.h"

#include <string.h>

#include "ovl/errors.h"

/* ---- who waits on the host ----------------------------------------------------------------------------------------- */

/* What the edges are worked out with; `source` and `sink`: waits for nothing of its microbatch, and nothing for it. */
typedef struct work {
  const ovl_description_t *d;
  const ovl_plan_t *plan; /* made from d */
  ovl_issue_t *issue;
  bool *source, *sink;
  uint64_t dependency_count;
} work_t;

static uint32_t domain_of(const work_t *w, uint32_t stage) {
  return w->issue->domains[w->d->stages[stage].lane];
}

static bool on_device(const work_t *w, uint32_t stage) { return domain_of(w, stage) != OVL_NO_DOMAIN; }

/* The device itself keeps the two in order. */
static bool in_stream_order(const work_t *w, uint32_t before, uint32_t after) {
  return on_device(w, before) && domain_of(w, before) == domain_of(w, after);
}

static void each_edge(work_t *w, void (*see)(work_t *w, ovl_dependency_t edge)) {
  const ovl_edges_t *out = &w->plan->graphs[OVL_OVERLAP].out;
  for (uint32_t s = 0; s < w->plan->stage_count; s++)
    for (uint32_t e = out->first[s]; e < out->first[s + 1]; e++)
      see(w, (ovl_dependency_t){s, out->edges[e].stage, out->edges[e].distance});
}

static void want_watch(work_t *w, uint32_t stage) {
  if (on_device(w, stage))
    w->issue->watches[stage] = 0; /* numbered later */
}

static void see_watched(work_t *w, ovl_dependency_t edge) {
  if (!in_stream_order(w, edge.before, edge.after))
    want_watch(w, edge.before);
}

static uint32_t number_watches(work_t *w) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < w->d->stage_count; s++)
    if (w->issue->watches[s] != OVL_NO_WATCH) {
      w->issue->watched[count] = s;
      w->issue->watches[s] = w->d->stage_count + count++;
    }
  return count;
}

/* In a serial run the host waits wherever the device does not. */
static void watch_in_order(work_t *w) {
  for (uint32_t k = 1; k < w->d->stage_count; k++)
    see_watched(w, (ovl_dependency_t){.before = w->plan->order[k - 1], .after = w->plan->order[k]});
}

static uint32_t find_watches(work_t *w, bool all) {
  for (uint32_t s = 0; s < w->d->stage_count; s++)
    w->issue->watches[s] = OVL_NO_WATCH;
  ovl_plan_find_ends(w->plan, &w->plan->graphs[OVL_OVERLAP], w->source, w->sink);
  each_edge(w, see_watched);
  watch_in_order(w);
  for (uint32_t s = 0; s < w->d->stage_count; s++)
    if (all || w->sink[s] || w->d->stages[s].deadline)
      want_watch(w, s);
  return number_watches(w);
}

/* ---- edges ----------------------------------------------------------------------------------------------------------- */

/* Called twice: counts, and then writes. */
static void add_edge(work_t *w, uint32_t before, uint32_t after, uint32_t distance) {
  if (w->issue->dependencies != NULL)
    w->issue->dependencies[w->dependency_count] = (ovl_dependency_t){before, after, distance};
  w->dependency_count++;
}

static void translate(work_t *w, ovl_dependency_t edge) {
  bool watched = on_device(w, edge.before) && !in_stream_order(w, edge.before, edge.after);
  add_edge(w, watched ? w->issue->watches[edge.before] : edge.before, edge.after, edge.distance);
}

/* With as many microbatches in flight as slots, a slot is free when the microbatch in it has retired. */
static void add_slots(work_t *w, uint32_t ahead) {
  for (uint32_t s = 0; ahead > w->d->window && s < w->d->stage_count; s++)
    for (uint32_t t = 0; w->sink[s] && t < w->d->stage_count; t++)
      if (w->source[t])
        translate(w, (ovl_dependency_t){.before = s, .after = t, .distance = w->d->window});
}

static void add_edges(work_t *w, uint32_t ahead) {
  w->dependency_count = 0;
  each_edge(w, translate);
  for (uint32_t s = 0; s < w->d->stage_count; s++)
    if (w->issue->watches[s] != OVL_NO_WATCH)
      add_edge(w, s, w->issue->watches[s], 0);
  add_slots(w, ahead);
}

static int make_edges(work_t *w, uint32_t ahead, const ovl_memory_t *memory) {
  add_edges(w, ahead);
  if (w->dependency_count > UINT32_MAX)
    return OVL_ETOOBIG;
  w->issue->dependencies =
      ovl_memory_array(memory, (size_t)w->dependency_count, sizeof *w->issue->dependencies);
  if (w->issue->dependencies == NULL)
    return OVL_ENOMEM;
  add_edges(w, ahead);
  return 0;
}

/* ---- lanes and stages ---------------------------------------------------------------------------------------------- */

static void make_lanes(const work_t *w, uint32_t watch_count, uint32_t ahead) {
  ovl_issue_t *issue = w->issue;
  for (uint32_t l = 0; l < w->d->lane_count; l++) {
    issue->lanes[l] = w->d->lanes[l];
    issue->lanes[l].fixed &= issue->domains[l] == OVL_NO_DOMAIN; /* nothing is on a device lane */
  }
  for (uint32_t k = 0; k < issue->domain_count; k++)
    issue->lanes[w->d->lane_count + k] = (ovl_lane_desc_t){.width = 1, .fixed = true, .silent = true};
  uint64_t width = (uint64_t)watch_count * ahead;
  issue->lanes[issue->observer] =
      (ovl_lane_desc_t){.width = width < UINT32_MAX ? (uint32_t)width : UINT32_MAX, .silent = true};
  if (watch_count == 0)
    issue->lanes[issue->observer].width = 1;
}

static void make_stages(const work_t *w, uint32_t watch_count) {
  ovl_issue_t *issue = w->issue;
  for (uint32_t s = 0; s < w->d->stage_count; s++) {
    issue->stages[s] = w->d->stages[s];
    issue->stages[s].chained = false;
    if (!on_device(w, s))
      continue;
    issue->stages[s].always = true;
    issue->stages[s].lane = w->d->lane_count + domain_of(w, s);
  }
  for (uint32_t i = 0; i < watch_count; i++) /* of a failed microbatch too: what was issued is waited for */
    issue->stages[w->d->stage_count + i] =
        (ovl_stage_desc_t){.lane = issue->observer, .always = true, .shadow = true};
}

static void make_order(const work_t *w) {
  const uint32_t *order = w->plan->order;
  uint32_t at = 0;
  for (uint32_t k = 0; k < w->d->stage_count; k++) {
    w->issue->order[at++] = order[k];
    if (w->issue->watches[order[k]] != OVL_NO_WATCH)
      w->issue->order[at++] = w->issue->watches[order[k]];
  }
}

/* ---- set-up ---------------------------------------------------------------------------------------------------------- */

static int tables_init(work_t *w, const uint32_t *domains, const ovl_memory_t *memory) {
  const ovl_description_t *d = w->d;
  ovl_issue_t *issue = w->issue;
  size_t stages = d->stage_count, lanes = (size_t)d->lane_count + issue->domain_count + 1;
  issue->domains = ovl_memory_array(memory, d->lane_count, sizeof *issue->domains);
  issue->watches = ovl_memory_array(memory, stages, sizeof *issue->watches);
  issue->watched = ovl_memory_array(memory, stages, sizeof *issue->watched);
  issue->lanes = ovl_memory_array(memory, lanes, sizeof *issue->lanes);
  issue->stages = ovl_memory_array(memory, 2 * stages, sizeof *issue->stages);
  issue->order = ovl_memory_array(memory, 2 * stages, sizeof *issue->order);
  w->source = ovl_memory_array(memory, stages, sizeof *w->source);
  w->sink = ovl_memory_array(memory, stages, sizeof *w->sink);
  if (issue->domains == NULL || issue->watches == NULL || issue->watched == NULL || issue->lanes == NULL ||
      issue->stages == NULL || issue->order == NULL || w->source == NULL || w->sink == NULL)
    return OVL_ENOMEM;
  memcpy(issue->domains, domains, d->lane_count * sizeof *domains);
  return 0;
}

int ovl_issue_init(ovl_issue_t *issue, const ovl_description_t *d, const ovl_plan_t *plan,
                   const uint32_t *domains, uint32_t domain_count, uint32_t ahead, bool all,
                   const ovl_memory_t *memory) {
  memset(issue, 0, sizeof *issue);
  work_t w = {.d = d, .plan = plan, .issue = issue};
  issue->user_stages = d->stage_count;
  issue->user_lanes = d->lane_count;
  issue->domain_count = domain_count;
  issue->observer = d->lane_count + domain_count;
  uint32_t watch_count = 0;
  int r = tables_init(&w, domains, memory);
  if (r == 0) {
    watch_count = find_watches(&w, all);
    make_lanes(&w, watch_count, ahead);
    make_stages(&w, watch_count);
    make_order(&w);
    r = make_edges(&w, ahead, memory);
  }
  issue->description = (ovl_description_t){.lanes = issue->lanes,
                                           .stages = issue->stages,
                                           .dependencies = issue->dependencies,
                                           .order = issue->order,
                                           .lane_count = issue->observer + 1,
                                           .stage_count = d->stage_count + watch_count,
                                           .dependency_count = (uint32_t)w.dependency_count,
                                           .window = ahead,
                                           .slots = d->window};
  ovl_memory_free(memory, w.source);
  ovl_memory_free(memory, w.sink);
  if (r != 0)
    ovl_issue_finish(issue, memory);
  return r;
}

void ovl_issue_finish(ovl_issue_t *issue, const ovl_memory_t *memory) {
  ovl_memory_free(memory, issue->dependencies);
  ovl_memory_free(memory, issue->order);
  ovl_memory_free(memory, issue->stages);
  ovl_memory_free(memory, issue->lanes);
  ovl_memory_free(memory, issue->watched);
  ovl_memory_free(memory, issue->watches);
  ovl_memory_free(memory, issue->domains);
  memset(issue, 0, sizeof *issue);
}
