/* SPDX-License-Identifier: MIT */
/* A trace in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing read. Described in "Trace Event
 * Format" (Google, docs/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). */
#include <stdlib.h>

#include "observe/views.h"
#include "ovl/errors.h"

typedef struct json {
  ovl_text_t text;
  ovl_trace_names_t names;
  const ovl_memory_t *memory;
  bool begun;            /* an event was written */
  ovl_trace_view_t view; /* what is being written */
  uint64_t flows;        /* in this view so far */
} json_t;

/* ---- events -------------------------------------------------------------------------------------------------- */

/* Begins an event of that phase. */
static void begin(json_t *j, char phase) {
  ovl_text_print(&j->text, "%s\n{\"ph\":\"%c\",\"pid\":%u", j->begun ? "," : "", phase,
                 (unsigned)j->view.process_id);
  j->begun = true;
}

static void end(json_t *j) { ovl_text_print(&j->text, "}"); }

static void put_name(json_t *j, const char *key, const char *name) {
  ovl_text_print(&j->text, ",\"%s\":", key);
  ovl_text_json(&j->text, name);
}

/* Microseconds, as the format wants them, to the nanosecond. */
static void put_us(json_t *j, const char *key, uint64_t ns, bool negative) {
  ovl_text_print(&j->text, ",\"%s\":%s%llu.%03u", key, negative ? "-" : "", (unsigned long long)(ns / 1000),
                 (unsigned)(ns % 1000));
}

static void put_time(json_t *j, uint64_t ns) {
  uint64_t offset = (uint64_t)j->view.clock_offset_ns, back = 0 - offset;
  bool negative = j->view.clock_offset_ns < 0 && ns < back;
  put_us(j, "ts", negative ? back - ns : ns + offset, negative);
}

static void put_track(json_t *j, uint32_t lane, uint32_t place) {
  uint64_t track = 1 + place;
  for (uint32_t l = 0; l < lane; l++)
    track += j->names.plan->lanes[l].width;
  ovl_text_print(&j->text, ",\"tid\":%llu", (unsigned long long)track);
}

static void put_track_of(json_t *j, const ovl_trace_record_t *r) { put_track(j, r->lane.id - 1, r->place); }

/* ---- names of processes and tracks --------------------------------------------------------------------------- */

/* Perfetto counts an empty name as an error of the file. */
static bool has_name(const char *name) { return name[0] != '\0'; }

static void name_process(json_t *j) {
  if (!has_name(j->view.name))
    return;
  begin(j, 'M');
  ovl_text_print(&j->text, ",\"name\":\"process_name\",\"args\":{\"name\":");
  ovl_text_json(&j->text, j->view.name);
  ovl_text_print(&j->text, "}");
  end(j);
}

static void name_track(json_t *j, uint32_t lane, uint32_t place) {
  if (has_name(j->names.lanes[lane])) {
    begin(j, 'M');
    put_track(j, lane, place);
    ovl_text_print(&j->text, ",\"name\":\"thread_name\",\"args\":{\"name\":");
    ovl_text_json(&j->text, j->names.lanes[lane]);
    ovl_text_print(&j->text, "}");
    end(j);
  }
  begin(j, 'M');
  put_track(j, lane, place);
  ovl_text_print(&j->text, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}", (unsigned)lane);
  end(j);
}

/* Of lanes that had anything to do, the places that had. */
static void name_tracks(json_t *j, ovl_trace_list_t by_track, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (i == 0 || !ovl_trace_same_track(by_track[i - 1], by_track[i]))
      name_track(j, by_track[i]->lane.id - 1, by_track[i]->place);
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static void write_op(json_t *j, const ovl_trace_record_t *r) {
  begin(j, 'X');
  put_track_of(j, r);
  put_name(j, "name", j->names.stages[r->stage.id - 1]);
  put_name(j, "cat", "op");
  put_time(j, r->start_ns);
  put_us(j, "dur", ovl_trace_duration(r), false);
  ovl_text_print(&j->text, ",\"args\":{\"microbatch\":%llu,\"slot\":%u,\"thread\":%u,\"waited_ns\":%llu",
                 (unsigned long long)r->microbatch, (unsigned)r->slot, (unsigned)r->thread,
                 (unsigned long long)(r->start_ns - r->ready_ns));
  ovl_text_print(&j->text, ",\"status\":%d}", r->status);
  end(j);
}

/* One end of an arrow: at a time inside the op, which it then belongs to. */
static void write_end(json_t *j, char phase, const ovl_trace_record_t *r, uint64_t time) {
  begin(j, phase);
  put_track_of(j, r);
  ovl_text_print(&j->text, ",\"id\":\"0x%llx\",\"name\":\"dependency\",\"cat\":\"dependency\",\"bp\":\"e\"",
                 (unsigned long long)j->view.process_id << 32 | j->flows);
  put_time(j, time);
  end(j);
}

/* Arrows to the op from those that it waited for, where they are in the trace; none is before microbatch 0. */
static void write_flows(json_t *j, const ovl_trace_record_t *r, ovl_trace_list_t by_op, size_t count) {
  const ovl_edges_t *in = &j->names.plan->graphs[OVL_OVERLAP].in;
  for (uint32_t e = in->first[r->stage.id - 1]; e < in->first[r->stage.id]; e++) {
    ovl_edge_t edge = in->edges[e];
    const ovl_trace_record_t *from = ovl_trace_find(by_op, count, r->microbatch - edge.distance, edge.stage);
    if (from == NULL)
      continue;
    j->flows++;
    write_end(j, 's', from, from->end_ns > from->start_ns ? from->end_ns - 1 : from->end_ns);
    write_end(j, 'f', r, r->start_ns);
  }
}

/* ---- microbatches in flight ---------------------------------------------------------------------------------- */

typedef struct change {
  uint64_t time;
  int by;
} change_t;

static int compare_changes(const void *left, const void *right) {
  const change_t *a = left, *b = right;
  return (a->time > b->time) - (a->time < b->time);
}

/* Two for each microbatch; returns how many there are. */
static size_t find_changes(ovl_trace_list_t by_op, size_t count, change_t *changes) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    const ovl_trace_record_t *r = by_op[i];
    if (i == 0 || by_op[i - 1]->microbatch != r->microbatch) {
      changes[found++] = (change_t){.time = r->ready_ns, .by = 1};
      changes[found++] = (change_t){.time = r->end_ns, .by = -1};
    }
    change_t *first = &changes[found - 2], *last = &changes[found - 1];
    first->time = r->ready_ns < first->time ? r->ready_ns : first->time;
    last->time = r->end_ns > last->time ? r->end_ns : last->time;
  }
  return found;
}

static void write_counter(json_t *j, const change_t *changes, size_t count) {
  int in_flight = 0;
  for (size_t i = 0; i < count; i++) {
    in_flight += changes[i].by;
    if (i + 1 < count && changes[i + 1].time == changes[i].time)
      continue;
    begin(j, 'C');
    ovl_text_print(&j->text, ",\"name\":\"microbatches in flight\",\"args\":{\"microbatches\":%d}",
                   in_flight);
    put_time(j, changes[i].time);
    end(j);
  }
}

/* ---- views --------------------------------------------------------------------------------------------------- */

static void write_records(json_t *j, ovl_trace_list_t by_op, ovl_trace_list_t by_track, change_t *changes) {
  const ovl_trace_t *trace = j->view.trace;
  name_process(j);
  name_tracks(j, by_track, trace->count);
  for (size_t i = 0; i < trace->count; i++) {
    write_op(j, ovl_trace_at(trace, i));
    write_flows(j, ovl_trace_at(trace, i), by_op, trace->count);
  }
  size_t count = find_changes(by_op, trace->count, changes);
  qsort(changes, count, sizeof *changes, compare_changes);
  write_counter(j, changes, count);
}

static int write_view(json_t *j) {
  const ovl_trace_t *trace = j->view.trace;
  ovl_trace_list_t by_op = ovl_trace_by_op(trace, j->memory), by_track = ovl_trace_by_track(trace, j->memory);
  change_t *changes = ovl_memory_array(j->memory, 2 * trace->count, sizeof *changes);
  bool whole = by_op != NULL && by_track != NULL && changes != NULL;
  if (whole)
    write_records(j, by_op, by_track, changes);
  ovl_memory_free(j->memory, changes);
  ovl_trace_list_free(by_track, j->memory);
  ovl_trace_list_free(by_op, j->memory);
  return whole ? 0 : OVL_ENOMEM;
}

int ovl_trace_write_json(const ovl_trace_names_t *names, const ovl_trace_view_t *views, size_t count,
                         const ovl_memory_t *memory, ovl_write_cb write, void *context) {
  json_t j = {.names = *names, .memory = memory};
  int r = 0;
  ovl_text_begin(&j.text, write, context);
  ovl_text_print(&j.text, "{\"traceEvents\":[");
  for (size_t i = 0; r == 0 && i < count; i++) {
    j.view = views[i];
    j.flows = 0;
    r = write_view(&j);
  }
  ovl_text_print(&j.text, "\n]}\n");
  int written = ovl_text_end(&j.text);
  return r != 0 ? r : written;
}
