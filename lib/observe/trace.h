/* SPDX-License-Identifier: MIT */
/* A core's records in the public form, and what is to be found in a trace. */
#ifndef OVL_OBSERVE_TRACE_H
#define OVL_OBSERVE_TRACE_H

#include "core/core.h"
#include "ovl/trace.h"

/* ---- copying ------------------------------------------------------------------------------------------------- */

/* A copy that is being made: between two parts of it the core may go on, and even begin another run. */
typedef struct ovl_trace_copy {
  uint64_t run;      /* ring.first of the run */
  uint64_t next, to; /* numbers of records */
  uint64_t start;    /* of the run */
  double by;         /* what times are multiplied by, see ovl_clock_correction */
} ovl_trace_copy_t;

/* Begins a copy to trace->records, and sets what is known of all. */
void ovl_trace_copy_begin(ovl_trace_copy_t *copy, const ovl_core_t *core, uint64_t elapsed, double by,
                          ovl_trace_t *trace);

/* Copies some records; false: there are no more. */
bool ovl_trace_copy_some(ovl_trace_copy_t *copy, const ovl_core_t *core, ovl_trace_t *trace);

/* ---- looking ------------------------------------------------------------------------------------------------- */

static inline const ovl_trace_record_t *ovl_trace_at(const ovl_trace_t *trace, size_t i) {
  return (const ovl_trace_record_t *)(const void *)((const char *)trace->records + i * trace->record_size);
}

static inline uint64_t ovl_trace_duration(const ovl_trace_record_t *r) { return r->end_ns - r->start_ns; }

/* As ovl_trace_percentile; false: there is no record of the stage. */
bool ovl_trace_percentile_of(const ovl_trace_t *trace, ovl_stage_t stage, double percent, uint64_t *ns);

#endif
