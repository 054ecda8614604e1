/* SPDX-License-Identifier: MIT */
/* Traces in the forms that others read. The views are complete: each has a trace of this pipeline, a name and a
 * process id. */
#ifndef OVL_OBSERVE_VIEWS_H
#define OVL_OBSERVE_VIEWS_H

#include "observe/text.h"
#include "observe/trace.h"

/* 0, OVL_ENOMEM, or what `write` returned. */
int ovl_trace_write_json(const ovl_trace_names_t *names, const ovl_trace_view_t *views, size_t count,
                         const ovl_memory_t *memory, ovl_write_cb write, void *context);
int ovl_trace_write_svg(const ovl_trace_names_t *names, const ovl_trace_view_t *views, size_t count,
                        const ovl_memory_t *memory, ovl_write_cb write, void *context);

#endif
