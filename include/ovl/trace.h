/* SPDX-License-Identifier: MIT */
/* When each op ran: a bounded record of a run's ops, and what can be made of it. That is a file for ui.perfetto.dev
 * and chrome://tracing, a drawing, and percentiles.
 *
 * A pipeline keeps the records of its last `trace` ops that ended (ovl_pipeline_options_t); a simulation those that
 * ovl_simulation_t.trace has room for. An op's record is written when the op ends; ops that were skipped have none.
 * Ops on device lanes have one only with device_timing, when the host has learned that they ended: their times are the device's,
 * counted from an event that was recorded as the run started (early by as long as its stream was still busy then), and
 * ready_ns is start_ns.
 * A new run begins with none. Recording takes no lock and no memory beyond what is there when the run starts. */
#ifndef OVL_TRACE_H
#define OVL_TRACE_H

#include <string.h>

#include "ovl/types.h"

OVL_BEGIN_DECLS

/* One op. Times are nanoseconds since the start of the run; ready_ns <= start_ns <= end_ns. */
typedef struct ovl_trace_record {
  uint64_t microbatch;
  ovl_stage_t stage;
  ovl_lane_t lane;
  uint32_t slot;
  uint32_t place;    /* which of the lane's `width` places it ran in, from 0 */
  uint32_t thread;   /* that called it: 0 the loop's, or none in a simulation; else one of libuv's pool,
                        by a number of its own for as long as the process lives */
  int status;        /* 0, or the error that the op ended with */
  uint64_t ready_ns; /* from then on only its lane kept it waiting */
  uint64_t start_ns;
  uint64_t end_ns;
} ovl_trace_record_t;

/* Records, in the order in which the ops ended, and what is known of all of them. */
typedef struct ovl_trace {
  size_t size;
  size_t record_size;          /* of one; as _init sets it */
  ovl_trace_record_t *records; /* the caller's, with room for `capacity`; may be NULL if that is 0 */
  size_t capacity;
  size_t count;        /* how many of them are set: the newest. This and what follows is set by the library */
  uint64_t kept;       /* how many there are */
  uint64_t dropped;    /* how many there were and are not kept, because they were the oldest */
  uint64_t start_ns;   /* of the run, on the clock of uv_hrtime(); 0 in a simulation */
  uint64_t elapsed_ns; /* of the run, as in its statistics */
} ovl_trace_t;

/* How a trace is shown by the functions below. */
typedef struct ovl_trace_view {
  size_t size;
  const ovl_trace_t *trace; /* NULL: what the pipeline has kept of its last run */
  const char *name;         /* of the run, such as "serial" or "rank 3"; any bytes; NULL: "libovl" */
  uint32_t process_id; /* JSON: tells the processes in one file apart; 0: 1 + its index among the views */
  int64_t
      clock_offset_ns; /* JSON: added to all times. trace->start_ns puts all runs of a machine on one clock */
  uint64_t bound_ns;   /* SVG: no run that keeps the rules takes less: marked; 0: nothing is */
} ovl_trace_view_t;

static inline void ovl_trace_init(ovl_trace_t *trace, ovl_trace_record_t *records, size_t capacity) {
  memset(trace, 0, sizeof *trace);
  trace->size = sizeof *trace;
  trace->record_size = sizeof *records;
  trace->records = records;
  trace->capacity = capacity;
}

static inline void ovl_trace_view_init(ovl_trace_view_t *view) {
  memset(view, 0, sizeof *view);
  view->size = sizeof *view;
}

/* Copies the newest records of the last run, or of the one in flight so far, to trace->records, and sets what is
 * known of all. A copy for which there is not room for all, or with a run in flight that overtakes it, has
 * count < kept. Any thread, before close; a run in flight is not held up for longer than some us at a time.
 * Errors: OVL_EINVAL an argument is NULL, or records is and capacity is not 0; OVL_ESTRUCTSIZE. */
OVL_EXTERN int ovl_pipeline_trace(const ovl_pipeline_t *p, ovl_trace_t *trace);

/* What is written goes here, in parts. Not 0: it failed; then nothing more is written, and that is returned.
 * Called by the thread that calls what writes, with no lock held. */
typedef int (*ovl_write_cb)(void *context, const char *bytes, size_t count);

/* An ovl_write_cb for a FILE *, which is the context. Errors: -errno of fwrite. The caller closes the file, and
 * looks whether that succeeds. */
OVL_EXTERN int ovl_write_to_file(void *file, const char *bytes, size_t count);

/* Writes traces of p as one file in Chrome's trace event format (JSON): a process for each of the `count` views, with
 * a track for each place of each lane, an event for each op, arrows from ops to those that depend on them, and a
 * counter of the microbatches in flight (from the first of their ops in the trace that is ready to the last that
 * ends). Files of several ranks can be merged if their process ids differ. views NULL and count 0: one view, all
 * defaults. `views` is an array of structs of views[0].size.
 * Uses p's allocator, also if a run is in flight. Any thread, before close; before the first run like the calls that
 * describe.
 * Errors: OVL_EINVAL p or write is NULL, views is and count is not 0, or a trace's records are not of this pipeline;
 *         OVL_ESTRUCTSIZE; OVL_ENOMEM; what `write` returned. */
OVL_EXTERN int ovl_pipeline_trace_write(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                                        ovl_write_cb write, void *context);

/* Draws traces of p as one SVG, one above the other on one scale of time, for light and dark pages: a row for each
 * place of each lane, a box for each op with its microbatch's number, its stage, times and error when pointed at.
 * Ops too short to be seen alone are drawn together. Otherwise as ovl_pipeline_trace_write. */
OVL_EXTERN int ovl_pipeline_trace_svg(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                                      ovl_write_cb write, void *context);

/* The duration (end_ns - start_ns) that `percent` percent of the stage's records do not exceed: the least of them with
 * that property, so 0 gives the shortest and 100 the longest. Any thread.
 * Errors: OVL_EINVAL an argument is NULL, or percent is not from 0 to 100; OVL_ESTRUCTSIZE; OVL_ENOSTAGE there is no
 *         record of that stage. */
OVL_EXTERN int ovl_trace_percentile(const ovl_trace_t *trace, ovl_stage_t stage, double percent,
                                    uint64_t *ns);

OVL_END_DECLS

#endif
