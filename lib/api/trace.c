/* SPDX-License-Identifier: MIT */
/* The public calls on traces: read, asked for percentiles. */
#include "ovl/trace.h"

#include "api/options.h"
#include "api/pipeline.h"
#include "observe/trace.h"

#define LEAST_TRACE_SIZE offsetof(ovl_trace_t, elapsed_ns)
#define LEAST_RECORD_SIZE (offsetof(ovl_trace_record_t, end_ns) + sizeof(uint64_t))
#define MOST_RECORD_SIZE 4096

/* ---- reading ------------------------------------------------------------------------------------------------- */

int ovl_trace_read(ovl_trace_t *into, const ovl_trace_t *from) {
  if (ovl_options_read(into, sizeof *into, from, LEAST_TRACE_SIZE) != 0)
    return OVL_ESTRUCTSIZE;
  size_t size = into->record_size;
  if (size < LEAST_RECORD_SIZE || size > MOST_RECORD_SIZE || size % sizeof(uint64_t) != 0)
    return OVL_ESTRUCTSIZE;
  bool sound = into->count <= into->capacity && (into->records != NULL || into->capacity == 0);
  return sound ? 0 : OVL_EINVAL;
}

int ovl_trace_return(ovl_trace_t *into, const ovl_trace_t *from) {
  return ovl_options_write(into, from, sizeof *from, LEAST_TRACE_SIZE);
}

/* The lock is given up between parts. */
static void copy(const ovl_executor_t *x, ovl_trace_t *trace) {
  ovl_trace_copy_t copy;
  ovl_lock_t *lock = ovl_exec_lock_of(x);
  ovl_lock(lock);
  ovl_trace_copy_begin(&copy, &x->core, ovl_run_elapsed(x), ovl_run_correction(x), trace);
  while (ovl_trace_copy_some(&copy, &x->core, trace)) {
    ovl_unlock(lock);
    ovl_lock(lock);
  }
  ovl_unlock(lock);
}

static void read_kept(const ovl_pipeline_t *p, ovl_trace_t *trace) {
  trace->count = 0;
  trace->kept = trace->dropped = trace->start_ns = trace->elapsed_ns = 0;
  if (atomic_load(&p->frozen))
    copy(&p->exec, trace);
}

int ovl_pipeline_trace(const ovl_pipeline_t *p, ovl_trace_t *trace) {
  ovl_trace_t t;
  if (p == NULL || trace == NULL)
    return OVL_EINVAL;
  int r = ovl_trace_read(&t, trace);
  if (r != 0)
    return r;
  read_kept(p, &t);
  return ovl_trace_return(trace, &t);
}

/* ---- percentiles --------------------------------------------------------------------------------------------- */

int ovl_trace_percentile(const ovl_trace_t *trace, ovl_stage_t stage, double percent, uint64_t *ns) {
  ovl_trace_t t;
  if (trace == NULL || ns == NULL || !(percent >= 0.0 && percent <= 100.0))
    return OVL_EINVAL;
  int r = ovl_trace_read(&t, trace);
  if (r != 0)
    return r;
  return ovl_trace_percentile_of(&t, stage, percent, ns) ? 0 : OVL_ENOSTAGE;
}
