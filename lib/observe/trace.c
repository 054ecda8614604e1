/* SPDX-License-Identifier: MIT */
/* From the core's ring to the caller's array, and records in order of something else than their ends. */
#include "observe/trace.h"

#include <stdlib.h>
#include <string.h>

enum { COPIED_AT_ONCE = 64 }; /* records: some us under the lock */

/* ---- copying ------------------------------------------------------------------------------------------------- */

void ovl_trace_copy_begin(ovl_trace_copy_t *copy, const ovl_core_t *core, uint64_t elapsed, double by,
                          ovl_trace_t *trace) {
  const ovl_trace_ring_t *ring = &core->trace;
  uint64_t oldest = ovl_trace_ring_oldest(ring);
  trace->count = 0;
  trace->kept = ring->written - oldest;
  trace->dropped = oldest - ring->first;
  trace->start_ns = core->started;
  trace->elapsed_ns = (uint64_t)((double)elapsed * by);
  uint64_t wanted = trace->kept < trace->capacity ? trace->kept : trace->capacity;
  *copy = (ovl_trace_copy_t){
      .next = ring->written - wanted, .to = ring->written, .start = core->started, .by = by};
}

static uint64_t since_start(const ovl_trace_copy_t *copy, uint64_t time) {
  return (uint64_t)((double)(time - copy->start) * copy->by);
}

static void copy_one(const ovl_trace_copy_t *copy, const ovl_trace_record_t *from, ovl_trace_t *trace) {
  char *into = (char *)trace->records + trace->count++ * trace->record_size;
  ovl_trace_record_t record = *from;
  record.ready_ns = since_start(copy, from->ready_ns);
  record.start_ns = since_start(copy, from->start_ns);
  record.end_ns = since_start(copy, from->end_ns);
  size_t size = trace->record_size < sizeof record ? trace->record_size : sizeof record;
  memset(into, 0, trace->record_size);
  memcpy(into, &record, size);
}

bool ovl_trace_copy_some(ovl_trace_copy_t *copy, const ovl_core_t *core, ovl_trace_t *trace) {
  const ovl_trace_ring_t *ring = &core->trace;
  uint64_t oldest = ovl_trace_ring_oldest(ring);
  if (copy->next < oldest)
    copy->next = oldest; /* overtaken, perhaps by the next run */
  for (int n = 0; n < COPIED_AT_ONCE && copy->next < copy->to; n++)
    copy_one(copy, &ring->records[copy->next++ % ring->capacity], trace);
  return copy->next < copy->to;
}

/* ---- looking ------------------------------------------------------------------------------------------------- */

static bool record_fits(const ovl_trace_record_t *r, const ovl_plan_t *plan) {
  if (r->stage.id == 0 || r->stage.id > plan->stage_count || r->start_ns > r->end_ns)
    return false;
  uint32_t lane = plan->stages[r->stage.id - 1].lane;
  return r->lane.id == lane + 1 && r->place < plan->lanes[lane].width;
}

bool ovl_trace_fits(const ovl_trace_t *trace, const ovl_plan_t *plan) {
  for (size_t i = 0; i < trace->count; i++)
    if (!record_fits(ovl_trace_at(trace, i), plan))
      return false;
  return true;
}

typedef const ovl_trace_record_t *entry_t;

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int compare_ops(const void *left, const void *right) {
  const ovl_trace_record_t *a = *(const entry_t *)left, *b = *(const entry_t *)right;
  int order = compare(a->microbatch, b->microbatch);
  return order != 0 ? order : compare(a->stage.id, b->stage.id);
}

static int compare_tracks(const void *left, const void *right) {
  const ovl_trace_record_t *a = *(const entry_t *)left, *b = *(const entry_t *)right;
  int order = compare(a->lane.id, b->lane.id);
  if (order == 0)
    order = compare(a->place, b->place);
  if (order == 0)
    order = compare(a->start_ns, b->start_ns);
  return order != 0 ? order : compare(a->end_ns, b->end_ns);
}

static ovl_trace_list_t sorted(const ovl_trace_t *trace, int (*by)(const void *, const void *),
                               const ovl_memory_t *memory) {
  entry_t *list = ovl_memory_array(memory, trace->count, sizeof *list);
  for (size_t i = 0; list != NULL && i < trace->count; i++)
    list[i] = ovl_trace_at(trace, i);
  if (list != NULL)
    qsort(list, trace->count, sizeof *list, by);
  return list;
}

ovl_trace_list_t ovl_trace_by_op(const ovl_trace_t *trace, const ovl_memory_t *memory) {
  return sorted(trace, compare_ops, memory);
}

ovl_trace_list_t ovl_trace_by_track(const ovl_trace_t *trace, const ovl_memory_t *memory) {
  return sorted(trace, compare_tracks, memory);
}

void ovl_trace_list_free(ovl_trace_list_t list, const ovl_memory_t *memory) {
  ovl_memory_free(memory, (void *)(uintptr_t)list);
}

const ovl_trace_record_t *ovl_trace_find(ovl_trace_list_t by_op, size_t count, uint64_t microbatch,
                                         uint32_t stage) {
  const ovl_trace_record_t op = {.microbatch = microbatch, .stage = {stage + 1}}, *key = &op;
  const entry_t *found = bsearch(&key, by_op, count, sizeof *by_op, compare_ops);
  return found != NULL ? *found : NULL;
}

/* ---- percentiles --------------------------------------------------------------------------------------------- */

typedef struct spread {
  uint64_t count, shortest, longest;
} spread_t;

static spread_t spread_of(const ovl_trace_t *trace, ovl_stage_t stage) {
  spread_t s = {.shortest = UINT64_MAX};
  for (size_t i = 0; i < trace->count; i++) {
    const ovl_trace_record_t *r = ovl_trace_at(trace, i);
    uint64_t duration = ovl_trace_duration(r);
    if (r->stage.id != stage.id)
      continue;
    s.count++;
    s.shortest = duration < s.shortest ? duration : s.shortest;
    s.longest = duration > s.longest ? duration : s.longest;
  }
  return s;
}

static uint64_t count_up_to(const ovl_trace_t *trace, ovl_stage_t stage, uint64_t longest) {
  uint64_t count = 0;
  for (size_t i = 0; i < trace->count; i++)
    count +=
        ovl_trace_at(trace, i)->stage.id == stage.id && ovl_trace_duration(ovl_trace_at(trace, i)) <= longest;
  return count;
}

bool ovl_trace_percentile_of(const ovl_trace_t *trace, ovl_stage_t stage, double percent, uint64_t *ns) {
  spread_t s = spread_of(trace, stage);
  if (s.count == 0)
    return false;
  double share = percent * (double)s.count / 100.0;
  uint64_t wanted = (uint64_t)share;
  wanted += (double)wanted < share || wanted == 0;
  while (s.shortest < s.longest) { /* halves the span in which it lies: takes time, and no memory */
    uint64_t middle = s.shortest + (s.longest - s.shortest) / 2;
    if (count_up_to(trace, stage, middle) >= wanted)
      s.longest = middle;
    else
      s.shortest = middle + 1;
  }
  *ns = s.shortest;
  return true;
}
