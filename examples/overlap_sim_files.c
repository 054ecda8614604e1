/* SPDX-License-Identifier: MIT */
/* Opens, writes and closes; every error names its file. */
#include "overlap_sim_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int (*writer_t)(const ovl_pipeline_t *pipeline, const ovl_trace_view_t *views, size_t count,
                        ovl_write_cb write, void *context);

static int report(const char *option, const char *name, const char *why) {
  fprintf(stderr, "overlap_sim: %s: '%s': %s\n", option, name, why);
  return -1;
}

/* ---- opening ---- */

static int open_file(overlap_sim_file_t *file, const char *option, const char *name) {
  file->name = name;
  if (name == NULL)
    return 0;
  file->file = fopen(name, "w");
  return file->file != NULL ? 0 : report(option, name, strerror(errno));
}

static int make_room(ovl_trace_t *trace, size_t ops) {
  ovl_trace_record_t *records = calloc(ops > 0 ? ops : 1, sizeof *records);
  if (records == NULL) {
    fprintf(stderr, "overlap_sim: no memory for the records of %zu operations\n", ops);
    return -1;
  }
  ovl_trace_init(trace, records, ops);
  return 0;
}

int overlap_sim_files_init(overlap_sim_files_t *files, const overlap_sim_options_t *options) {
  size_t ops = 2 * (size_t)options->microbatches;
  memset(files, 0, sizeof *files);
  ovl_trace_init(&files->serial, NULL, 0);
  ovl_trace_init(&files->overlap, NULL, 0);
  if (open_file(&files->svg, "--svg", options->svg) != 0 ||
      open_file(&files->trace, "--trace", options->trace) != 0)
    return -1;
  if (options->svg == NULL && options->trace == NULL)
    return 0;
  return make_room(&files->serial, ops) == 0 ? make_room(&files->overlap, ops) : -1;
}

void overlap_sim_files_finish(overlap_sim_files_t *files) {
  if (files->svg.file != NULL)
    fclose(files->svg.file);
  if (files->trace.file != NULL)
    fclose(files->trace.file);
  free(files->serial.records);
  free(files->overlap.records);
}

/* ---- writing ---- */

/* -errno is also what libuv and this library call it. */
static int write_file(overlap_sim_file_t *file, const char *option, writer_t write,
                      const ovl_pipeline_t *pipeline, const ovl_trace_view_t *views) {
  if (file->name == NULL)
    return 0;
  int status = write(pipeline, views, 2, ovl_write_to_file, file->file);
  if (fclose(file->file) != 0 && status == 0)
    status = -errno;
  file->file = NULL;
  return status == 0 ? 0
                     : report(option, file->name, status > -4096 ? strerror(-status) : ovl_strerror(status));
}

int overlap_sim_files_write(overlap_sim_files_t *files, const ovl_pipeline_t *pipeline,
                            uint64_t serial_bound_ns, uint64_t overlap_bound_ns) {
  ovl_trace_view_t views[2];
  for (int i = 0; i < 2; i++)
    ovl_trace_view_init(&views[i]);
  views[0].trace = &files->serial;
  views[0].name = "serial";
  views[0].bound_ns = serial_bound_ns;
  views[1].trace = &files->overlap;
  views[1].name = "overlapped";
  views[1].bound_ns = overlap_bound_ns;
  int drawn = write_file(&files->svg, "--svg", ovl_pipeline_trace_svg, pipeline, views);
  int traced = write_file(&files->trace, "--trace", ovl_pipeline_trace_write, pipeline, views);
  return drawn == 0 && traced == 0 ? 0 : -1;
}
