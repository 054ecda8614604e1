/* SPDX-License-Identifier: MIT */
/* From the core's ring to the caller's array; percentiles. */
#include "observe/trace.h"

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
  *copy = (ovl_trace_copy_t){.run = ring->first,
                             .next = ring->written - wanted,
                             .to = ring->written,
                             .start = core->started,
                             .by = by};
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
  if (ring->first != copy->run)
    return false;
  if (copy->next < oldest)
    copy->next = oldest; /* overtaken */
  for (int n = 0; n < COPIED_AT_ONCE && copy->next < copy->to; n++)
    copy_one(copy, &ring->records[copy->next++ % ring->capacity], trace);
  return copy->next < copy->to;
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
