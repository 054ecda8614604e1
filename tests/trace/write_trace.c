/* SPDX-License-Identifier: MIT */
/* Writes a trace of a pipeline to stdout, for test_trace_files.py to read.
 *   write_trace json|svg SCENARIO [ARGUMENT...]     exits with 1 when something is refused */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"

enum { MOST = 65536, MOST_NAMES = 24, MOST_NAME = 65536 };

typedef int (*writer_t)(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                        ovl_write_cb write, void *context);

static ovl_trace_record_t records[2][MOST];

static void must(int status, const char *what) {
  if (status == 0)
    return;
  fprintf(stderr, "write_trace: %s: %s\n", what, ovl_strerror(status));
  exit(EXIT_FAILURE);
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int fail_the_second(ovl_op_t *op) { return op->microbatch == 1 ? OVL_ETIMEDOUT : 0; }

static ovl_pipeline_t *make(uint32_t window, size_t trace) {
  ovl_pipeline_options_t options;
  ovl_pipeline_t *p;
  ovl_pipeline_options_init(&options);
  options.window = window;
  options.trace = trace;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  must(ovl_pipeline_create(&p, &options), "create");
  return p;
}

/* A stage on a lane of its own, both of that name. */
static ovl_stage_t add(ovl_pipeline_t *p, const char *name, uint32_t width, uint64_t cost_ns, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_stage_t id;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.name = stage.name = name;
  lane.width = width;
  stage.cost_ns = cost_ns;
  stage.run = run;
  must(ovl_pipeline_add_lane(p, &lane, &stage.lane), "add_lane");
  must(ovl_pipeline_add_stage(p, &stage, &id), "add_stage");
  return id;
}

/* What a simulation of it leaves in the first or second array of records. */
static ovl_trace_t simulate(ovl_pipeline_t *p, ovl_mode_t mode, uint64_t microbatches, int which) {
  ovl_trace_t trace;
  ovl_simulation_t simulation;
  ovl_trace_init(&trace, records[which], MOST);
  ovl_simulation_init(&simulation);
  simulation.trace = &trace;
  must(ovl_pipeline_set_mode(p, mode), "set_mode");
  must(ovl_pipeline_simulate(p, microbatches, &simulation, NULL), "simulate");
  return trace;
}

static ovl_trace_view_t view_of(const ovl_trace_t *trace, const char *name) {
  ovl_trace_view_t view;
  ovl_trace_view_init(&view);
  view.trace = trace;
  view.name = name;
  return view;
}

/* ---- scenarios --------------------------------------------------------------------------------------------------- */

/* Bytes as two hexadecimal digits each. */
static char *name_from(const char *hex) {
  static char names[MOST_NAMES][MOST_NAME];
  static int used;
  char *name = names[used++];
  unsigned byte;
  for (size_t i = 0; sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
    name[i] = (char)byte;
  return name;
}

/* Stages of these names; the run has that of the first. */
static ovl_pipeline_t *with_names(writer_t write, char **names, int count) {
  ovl_pipeline_t *p = make(2, 0);
  char *first = name_from(names[0]);
  for (int i = 0; i < count; i++)
    add(p, i == 0 ? first : name_from(names[i]), 1, 1000, no_op);
  ovl_trace_t trace = simulate(p, OVL_OVERLAP, 3, 0);
  ovl_trace_view_t view = view_of(&trace, first);
  must(write(p, &view, 1, ovl_write_to_file, stdout), "write");
  return p;
}

/* Two lanes of 5 and 3 us, 8 microbatches: one after another, and overlapped. */
static ovl_pipeline_t *pair(writer_t write) {
  ovl_pipeline_t *p = make(4, 0);
  add(p, "compute", 1, 5000, no_op);
  add(p, "comm", 1, 3000, no_op);
  ovl_trace_t serial = simulate(p, OVL_SERIAL, 8, 0), overlap = simulate(p, OVL_OVERLAP, 8, 1);
  ovl_trace_view_t views[2] = {view_of(&serial, "serial"), view_of(&overlap, "overlapped")};
  views[0].process_id = 77;
  views[0].clock_offset_ns = -2001;
  views[0].bound_ns = ovl_bound_serial(8, 5000, 3000);
  views[1].bound_ns = ovl_bound_overlap(8, 5000, 3000);
  views[1].clock_offset_ns = INT64_C(4000000000000000001);
  must(write(p, views, 2, ovl_write_to_file, stdout), "write");
  return p;
}

/* A real run on lanes 1, 3 and 1 wide, where `last` also waits for itself and for `first`, both two back. */
static ovl_pipeline_t *run(writer_t write, uint64_t microbatches, size_t kept) {
  ovl_pipeline_t *p = make(4, kept);
  ovl_stage_t first = add(p, "first", 1, 0, no_op);
  add(p, "wide", 3, 0, fail_the_second);
  ovl_stage_t last = add(p, "last", 1, 0, no_op);
  must(ovl_pipeline_add_dependency(p, first, last, 2), "add_dependency");
  must(ovl_pipeline_add_dependency(p, last, last, 2), "add_dependency");
  ovl_pipeline_run(p, microbatches); /* one microbatch fails */
  must(write(p, NULL, 0, ovl_write_to_file, stdout), "write");
  return p;
}

/* More ops than a page has room for. */
static ovl_pipeline_t *many(writer_t write) {
  ovl_pipeline_t *p = make(4, 0);
  add(p, "compute", 1, 500, no_op);
  add(p, "comm", 1, 1000, no_op);
  ovl_trace_t trace = simulate(p, OVL_OVERLAP, 20000, 0);
  ovl_trace_view_t view = view_of(&trace, NULL);
  must(write(p, &view, 1, ovl_write_to_file, stdout), "write");
  return p;
}

static ovl_pipeline_t *play(writer_t write, const char *scenario, char **arguments, int count) {
  if (strcmp(scenario, "names") == 0)
    return with_names(write, arguments, count);
  if (strcmp(scenario, "pair") == 0)
    return pair(write);
  if (strcmp(scenario, "run") == 0)
    return run(write, strtoull(arguments[0], NULL, 10), (size_t)strtoull(arguments[1], NULL, 10));
  return many(write);
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 3 + MOST_NAMES)
    return EXIT_FAILURE;
  writer_t write = strcmp(argv[1], "svg") == 0 ? ovl_pipeline_trace_svg : ovl_pipeline_trace_write;
  ovl_pipeline_close(play(write, argv[2], argv + 3, argc - 3), NULL);
  return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
