/* SPDX-License-Identifier: MIT */
/* The public calls on traces: read, written, drawn, asked for percentiles. */
#include "ovl/trace.h"

#include "api/options.h"
#include "api/pipeline.h"
#include "observe/views.h"

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
  ovl_exec_lock(x);
  ovl_trace_copy_begin(&copy, &x->core, ovl_run_elapsed(x), ovl_run_correction(x), trace);
  while (ovl_trace_copy_some(&copy, &x->core, trace)) {
    ovl_exec_unlock(x);
    ovl_exec_lock(x);
  }
  ovl_exec_unlock(x);
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

/* ---- views --------------------------------------------------------------------------------------------------- */

/* What is written, completed: `views` and `traces` have `count` entries. */
typedef struct showing {
  ovl_trace_view_t *views;
  ovl_trace_t *traces;
  size_t count;
  ovl_trace_t own; /* a copy of what the pipeline has kept, for views that have no trace of their own */
} showing_t;

static int load_own(const ovl_pipeline_t *p, ovl_trace_t *own) {
  if (own->records != NULL)
    return 0;
  ovl_trace_init(own, NULL, 0);
  read_kept(p, own);
  size_t kept = (size_t)own->kept; /* they are in memory */
  ovl_trace_init(own, ovl_memory_array(&p->memory, kept, sizeof *own->records), kept);
  if (own->records == NULL)
    return OVL_ENOMEM;
  read_kept(p, own);
  return 0;
}

static int load_view(const ovl_pipeline_t *p, showing_t *s, size_t i, const ovl_trace_view_t *from) {
  ovl_trace_view_t *view = &s->views[i];
  if (ovl_options_read(view, sizeof *view, from, offsetof(ovl_trace_view_t, trace)) != 0)
    return OVL_ESTRUCTSIZE;
  int r = 0;
  if (view->trace == NULL) {
    r = load_own(p, &s->own);
    s->traces[i] = s->own;
  } else {
    r = ovl_trace_read(&s->traces[i], view->trace);
  }
  view->trace = &s->traces[i];
  if (view->name == NULL)
    view->name = "libovl";
  if (view->process_id == 0)
    view->process_id = (uint32_t)i + 1;
  return r;
}

static int load(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count, showing_t *s) {
  s->count = count;
  s->views = ovl_memory_array(&p->memory, count, sizeof *s->views);
  s->traces = ovl_memory_array(&p->memory, count, sizeof *s->traces);
  int r = s->views != NULL && s->traces != NULL ? 0 : OVL_ENOMEM;
  for (size_t i = 0; r == 0 && i < count; i++)
    r = load_view(p, s, i, (const void *)((const char *)views + i * views->size));
  return r;
}

static void unload(const ovl_pipeline_t *p, showing_t *s) {
  ovl_memory_free(&p->memory, s->own.records);
  ovl_memory_free(&p->memory, s->traces);
  ovl_memory_free(&p->memory, s->views);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

typedef int (*writer_t)(const ovl_trace_names_t *names, const ovl_trace_view_t *views, size_t count,
                        const ovl_memory_t *memory, ovl_write_cb write, void *context);

static int write_with(writer_t writer, const ovl_pipeline_t *p, const showing_t *s, ovl_write_cb write,
                      void *context) {
  ovl_plan_t own;
  ovl_trace_names_t names = {.lanes = p->lane_names.items, .stages = p->stage_names.items};
  int r = ovl_pipeline_get_plan(p, &own, &names.plan);
  if (r != 0)
    return r;
  for (size_t i = 0; r == 0 && i < s->count; i++)
    r = ovl_trace_fits(&s->traces[i], names.plan) ? 0 : OVL_EINVAL;
  if (r == 0)
    r = writer(&names, s->views, s->count, &p->memory, write, context);
  ovl_pipeline_put_plan(p, &own);
  return r;
}

static int show(writer_t writer, const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                ovl_write_cb write, void *context) {
  ovl_trace_view_t one;
  showing_t s = {0};
  if (p == NULL || write == NULL || (views == NULL && count > 0))
    return OVL_EINVAL;
  if (views == NULL) {
    ovl_trace_view_init(&one);
    views = &one;
    count = 1;
  }
  int r = load(p, views, count, &s);
  if (r == 0)
    r = write_with(writer, p, &s, write, context);
  unload(p, &s);
  return r;
}

int ovl_pipeline_trace_write(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                             ovl_write_cb write, void *context) {
  return show(ovl_trace_write_json, p, views, count, write, context);
}

int ovl_pipeline_trace_svg(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                           ovl_write_cb write, void *context) {
  return show(ovl_trace_write_svg, p, views, count, write, context);
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
