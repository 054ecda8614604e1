/* SPDX-License-Identifier: MIT */
/* A core's records in the public form, and a trace as those that write it find their way in it. */
#ifndef OVL_OBSERVE_TRACE_H
#define OVL_OBSERVE_TRACE_H

#include "core/core.h"
#include "ovl/trace.h"

/* ---- copying ------------------------------------------------------------------------------------------------- */

/* A copy that is being made: between two parts of it the core may go on, and even begin another run. */
typedef struct ovl_trace_copy {
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

/* What a trace is of. */
typedef struct ovl_trace_names {
  const ovl_plan_t *plan;
  char *const *lanes;
  char *const *stages;
} ovl_trace_names_t;

static inline const ovl_trace_record_t *ovl_trace_at(const ovl_trace_t *trace, size_t i) {
  return (const ovl_trace_record_t *)(const void *)((const char *)trace->records + i * trace->record_size);
}

static inline uint64_t ovl_trace_duration(const ovl_trace_record_t *r) { return r->end_ns - r->start_ns; }

static inline bool ovl_trace_same_track(const ovl_trace_record_t *a, const ovl_trace_record_t *b) {
  return a->lane.id == b->lane.id && a->place == b->place;
}

/* Whether all records can be of a pipeline with that plan. */
bool ovl_trace_fits(const ovl_trace_t *trace, const ovl_plan_t *plan);

/* The trace's records in another order: to be released, NULL when there is no memory. */
typedef const ovl_trace_record_t *const *ovl_trace_list_t;
ovl_trace_list_t ovl_trace_by_op(const ovl_trace_t *trace,
                                 const ovl_memory_t *memory); /* microbatch, stage */
ovl_trace_list_t ovl_trace_by_track(const ovl_trace_t *trace,
                                    const ovl_memory_t *memory); /* lane, place, start */
void ovl_trace_list_free(ovl_trace_list_t list, const ovl_memory_t *memory);

/* The record of an op in a list by op, or NULL. */
const ovl_trace_record_t *ovl_trace_find(ovl_trace_list_t by_op, size_t count, uint64_t microbatch,
                                         uint32_t stage);

/* As ovl_trace_percentile; false: there is no record of the stage. */
bool ovl_trace_percentile_of(const ovl_trace_t *trace, ovl_stage_t stage, double percent, uint64_t *ns);

#endif
