/* SPDX-License-Identifier: MIT */
/* A sweep over the starts and ends of all lanes that have a role, as far as all of them are known. */
#include "device/times.h"

#include <string.h>

#include "ovl/errors.h"

/* ---- set-up ---------------------------------------------------------------------------------------------------------- */

static uint32_t stages_on(const ovl_plan_t *plan, uint32_t lane) {
  return plan->lane_first[lane + 1] - plan->lane_first[lane];
}

static uint32_t clock_of(const ovl_track_lane_t *lanes, uint32_t lane) {
  uint32_t first = 0;
  while (lanes[first].device != lanes[lane].device)
    first++;
  return first;
}

/* One lane is ahead of another by no more than the host is behind, twice: what has ended, and what has not. */
static int rings_init(ovl_times_t *times, const ovl_track_lane_t *lanes, uint32_t ahead,
                      const ovl_memory_t *memory) {
  const ovl_plan_t *plan = times->plan;
  uint32_t deep, all;
  if (__builtin_mul_overflow(ahead, 2U, &deep) || __builtin_mul_overflow(deep, plan->stage_count, &all))
    return OVL_ETOOBIG;
  times->spans = ovl_memory_array(memory, all, sizeof *times->spans);
  if (times->spans == NULL)
    return OVL_ENOMEM;
  for (uint32_t l = 0, at = 0; l < plan->lane_count; l++) {
    times->lanes[l].spans = &times->spans[at];
    times->lanes[l].clock = clock_of(lanes, l);
    times->lanes[l].capacity = lanes[l].device != NULL ? deep * stages_on(plan, l) : 0;
    at += times->lanes[l].capacity;
  }
  return 0;
}

int ovl_times_init(ovl_times_t *times, const ovl_plan_t *plan, const ovl_track_lane_t *lanes, uint32_t ahead,
                   const ovl_memory_t *memory) {
  memset(times, 0, sizeof *times);
  times->plan = plan;
  times->stages = ovl_memory_array(memory, plan->stage_count, sizeof *times->stages);
  times->lanes = ovl_memory_array(memory, plan->lane_count, sizeof *times->lanes);
  int r =
      times->stages == NULL || times->lanes == NULL ? OVL_ENOMEM : rings_init(times, lanes, ahead, memory);
  if (r != 0)
    ovl_times_finish(times, memory);
  return r;
}

void ovl_times_finish(ovl_times_t *times, const ovl_memory_t *memory) {
  ovl_memory_free(memory, times->spans);
  ovl_memory_free(memory, times->lanes);
  ovl_memory_free(memory, times->stages);
  memset(times, 0, sizeof *times);
}

void ovl_times_reset(ovl_times_t *times) {
  memset(times->stages, 0, times->plan->stage_count * sizeof *times->stages);
  memset(&times->roles, 0, sizeof times->roles);
  for (uint32_t l = 0; l < times->plan->lane_count; l++) {
    ovl_times_lane_t *lane = &times->lanes[l];
    lane->first = lane->count = 0;
    lane->inside = false;
    lane->until = lane->behind = 0;
  }
}

/* ---- the sweep ------------------------------------------------------------------------------------------------------- */

static bool has_role(const ovl_times_t *times, uint32_t lane) {
  return times->plan->lanes[lane].role != OVL_ROLE_OTHER;
}

static uint64_t next_edge(const ovl_times_lane_t *lane) {
  const ovl_span_t *span = &lane->spans[lane->first];
  return lane->inside ? span->end : span->start;
}

/* The lane whose next start or end comes first; how far all are known, in *known. */
static uint32_t find_next(const ovl_times_t *times, uint64_t *known) {
  uint32_t next = UINT32_MAX;
  *known = UINT64_MAX;
  for (uint32_t l = 0; l < times->plan->lane_count; l++) {
    const ovl_times_lane_t *lane = &times->lanes[l];
    if (!has_role(times, l) || lane->capacity == 0)
      continue;
    if (lane->count == 0)
      *known = lane->until < *known ? lane->until : *known;
    else if (next == UINT32_MAX || next_edge(lane) < next_edge(&times->lanes[next]))
      next = l;
  }
  return next;
}

static void pass(ovl_times_t *times, uint32_t index) {
  ovl_times_lane_t *lane = &times->lanes[index];
  uint32_t *running = &times->roles.running[times->plan->lanes[index].role];
  uint64_t edge = next_edge(lane), since = times->roles.roles_since;
  ovl_tally_roles(&times->roles, edge > since ? edge : since);
  *running += lane->inside ? -1U : 1U;
  if (lane->inside) {
    lane->first = lane->first + 1 == lane->capacity ? 0 : lane->first + 1;
    lane->count--;
  }
  lane->inside = !lane->inside;
}

static void settle(ovl_times_t *times, bool whatever) {
  uint64_t known;
  for (uint32_t next; (next = find_next(times, &known)) != UINT32_MAX;) {
    if (!whatever && next_edge(&times->lanes[next]) > known)
      return;
    pass(times, next);
  }
}

void ovl_times_flush(ovl_times_t *times) { settle(times, true); }

/* Clocks of devices are coarse, so ops may seem to have run at once that ran one after another: each takes what it took. And a
 * clock that began late, for its stream was busy when the run began, is so far behind that others cannot wait for it:
 * it is put forward to them. So all of what a device says counts. */
static ovl_span_t place(ovl_times_t *times, const ovl_times_lane_t *lane, uint64_t start, uint64_t duration) {
  uint64_t since = times->roles.roles_since, *behind = &times->lanes[lane->clock].behind;
  if (lane->until < since && start + *behind < since)
    *behind = since - start;
  uint64_t from = start + *behind > lane->until ? start + *behind : lane->until;
  return (ovl_span_t){.start = from, .end = from + duration};
}

void ovl_times_add(ovl_times_t *times, uint32_t stage, uint64_t start, uint64_t end) {
  uint32_t index = times->plan->stages[stage].lane;
  uint64_t duration = end > start ? end - start : 0;
  ovl_times_lane_t *lane = &times->lanes[index];
  ovl_tally_stage(&times->stages[stage], duration, 0);
  if (!has_role(times, index))
    return;
  if (lane->count == lane->capacity)
    settle(times, true);
  const ovl_span_t span = place(times, lane, start, duration);
  lane->spans[(lane->first + lane->count++) % lane->capacity] = span;
  lane->until = span.end;
  settle(times, false);
}
