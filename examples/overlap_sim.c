/* SPDX-License-Identifier: MIT */
/* The experiment: sleeping compute and communication, run serially, then overlapped on the same pipeline.
 * Prints both times beside what theory allows, draws both runs, and fails if one was too fast to be true. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "backend_sleep.h"
#include "overlap_check.h"
#include "overlap_sim_files.h"
#include "overlap_sim_options.h"
#include "ovl.h"
#include "timeline.h"

#define EXIT_FAULT 1
#define EXIT_USAGE 2

typedef struct experiment {
  overlap_sim_options_t options;
  backend_sleep_t backend;
  overlap_sim_files_t files;
  ovl_pipeline_t *pipeline;
  overlap_run_t serial;
  overlap_run_t overlap;
  backend_sleep_record_t *serial_records; /* owned; those of the overlapped run stay with the backend */
  uint64_t processor_ns;                  /* that both runs took, of all threads, user and system */
  const char *finding;                    /* the library's words on the overlapped run; "" for none */
} experiment_t;

/* ---- running ---- */

static int report(const char *what, int status) {
  fprintf(stderr, "overlap_sim: %s: %s (%s)\n", what, ovl_strerror(status), ovl_err_name(status));
  return status;
}

static int set_up(experiment_t *experiment) {
  const overlap_sim_options_t *options = &experiment->options;
  ovl_pipeline_options_t pipeline_options;
  int status =
      backend_sleep_init(&experiment->backend, options->microbatches, options->compute_ns, options->comm_ns);
  if (status != 0)
    return report("memory for the records", status);
  ovl_pipeline_options_init(&pipeline_options);
  backend_sleep_use(&experiment->backend, &pipeline_options);
  pipeline_options.window = options->window;
  pipeline_options.mode = OVL_SERIAL;
  pipeline_options.trace = experiment->files.serial.capacity;
  status = ovl_pipeline_create(&experiment->pipeline, &pipeline_options);
  return status == 0 ? 0 : report("creating the pipeline", status);
}

/* What the rules are for each run; with a window of 1 nothing may overlap. */
static void set_expectations(experiment_t *experiment) {
  uint64_t n = experiment->options.microbatches;
  uint64_t compute_ns = experiment->options.compute_ns;
  uint64_t comm_ns = experiment->options.comm_ns;
  uint64_t window = ovl_pipeline_window(experiment->pipeline);
  uint64_t serial_ns = ovl_bound_serial(n, compute_ns, comm_ns);
  uint64_t overlap_ns = window == 1 ? serial_ns : ovl_bound_overlap(n, compute_ns, comm_ns);
  experiment->serial =
      (overlap_run_t){.name = "serial", .microbatches = n, .window = 1, .bound_ns = serial_ns};
  experiment->overlap =
      (overlap_run_t){.name = "overlapped", .microbatches = n, .window = window, .bound_ns = overlap_ns};
}

static int run_for_real(experiment_t *experiment, uint64_t microbatches, ovl_stats_t *stats,
                        ovl_trace_t *trace) {
  int status = ovl_pipeline_run(experiment->pipeline, microbatches);
  if (status == 0)
    status = ovl_pipeline_trace(experiment->pipeline, trace);
  return status != 0 ? status : ovl_pipeline_stats(experiment->pipeline, stats);
}

static int run_virtually(experiment_t *experiment, uint64_t microbatches, ovl_stats_t *stats,
                         ovl_trace_t *trace) {
  ovl_simulation_t simulation;
  backend_sleep_simulate(&experiment->backend, &simulation);
  simulation.trace = trace;
  return ovl_pipeline_simulate(experiment->pipeline, microbatches, &simulation, stats);
}

static int run_once(experiment_t *experiment, ovl_mode_t mode, overlap_run_t *run, ovl_trace_t *trace) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_set_mode(experiment->pipeline, mode);
  if (status == 0)
    status = (experiment->options.virtual_time ? run_virtually : run_for_real)(experiment, run->microbatches,
                                                                               &stats, trace);
  if (status != 0)
    return report(mode == OVL_SERIAL ? "the serial run" : "the overlapped run", status);
  run->elapsed_ns = stats.elapsed_ns;
  experiment->finding = stats.finding;
  return 0;
}

static uint64_t ns_of(const uv_timeval_t *time) {
  return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

/* Of this process so far; 0 where the system does not say. */
static uint64_t processor_time_ns(void) {
  uv_rusage_t usage;
  return uv_getrusage(&usage) == 0 ? ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime) : 0;
}

static int run_both(experiment_t *experiment) {
  uint64_t before_ns = processor_time_ns();
  int status = run_once(experiment, OVL_SERIAL, &experiment->serial, &experiment->files.serial);
  if (status != 0)
    return status;
  status = backend_sleep_take_records(&experiment->backend, &experiment->serial_records);
  if (status != 0)
    return report("memory for the records", status);
  status = run_once(experiment, OVL_OVERLAP, &experiment->overlap, &experiment->files.overlap);
  experiment->processor_ns = processor_time_ns() - before_ns;
  experiment->serial.records = experiment->serial_records;
  experiment->overlap.records = experiment->backend.records;
  return status;
}

static void tear_down(experiment_t *experiment) {
  ovl_pipeline_close(experiment->pipeline, NULL);
  free(experiment->serial_records);
  backend_sleep_finish(&experiment->backend);
  overlap_sim_files_finish(&experiment->files);
}

/* ---- printing ---- */

/* 1 where nothing took any time, so that there is always a number. */
static double ratio(uint64_t above, uint64_t below) {
  return below == 0 ? 1.0 : (double)above / (double)below;
}

static double speedup(const experiment_t *experiment) {
  return ratio(experiment->serial.elapsed_ns, experiment->overlap.elapsed_ns);
}

/* How much of what theory allows was reached; an empty run reached all of nothing. */
static double efficiency(const experiment_t *experiment) {
  if (experiment->overlap.microbatches == 0)
    return 1.0;
  return ratio(experiment->overlap.bound_ns, experiment->overlap.elapsed_ns);
}

/* Exactly, whatever the locale: whole milliseconds, a point, six digits. */
static void print_json_ms(const char *name, uint64_t ns) {
  printf("\"%s\": %llu.%06llu, ", name, (unsigned long long)(ns / 1000000),
         (unsigned long long)(ns % 1000000));
}

/* %f follows LC_NUMERIC, which this program never sets. */
static void print_json(const experiment_t *experiment) {
  printf("{\"microbatches\": %llu, ", (unsigned long long)experiment->options.microbatches);
  print_json_ms("compute_ms", experiment->options.compute_ns);
  print_json_ms("comm_ms", experiment->options.comm_ns);
  printf("\"window\": %llu, ", (unsigned long long)experiment->overlap.window);
  print_json_ms("serial_bound_ms", experiment->serial.bound_ns);
  print_json_ms("overlap_bound_ms", experiment->overlap.bound_ns);
  print_json_ms("serial_ms", experiment->serial.elapsed_ns);
  print_json_ms("overlap_ms", experiment->overlap.elapsed_ns);
  printf("\"speedup\": %.6f, \"efficiency\": %.6f}\n", speedup(experiment), efficiency(experiment));
}

static double ms(uint64_t ns) { return (double)ns / 1e6; }

/* As it was asked for: 50 ms as "50", a quarter as "0.25". */
static void print_plain_ms(uint64_t ns) {
  int digits = 6;
  uint64_t fraction = ns % 1000000;
  for (; digits > 0 && fraction % 10 == 0; digits--)
    fraction /= 10;
  printf("%llu", (unsigned long long)(ns / 1000000));
  if (digits > 0)
    printf(".%0*llu", digits, (unsigned long long)fraction);
  printf(" ms");
}

static void print_parameters(const experiment_t *experiment) {
  uint64_t n = experiment->options.microbatches;
  printf("%llu microbatch%s, compute ", (unsigned long long)n, n == 1 ? "" : "es");
  print_plain_ms(experiment->options.compute_ns);
  printf(", communication ");
  print_plain_ms(experiment->options.comm_ns);
  printf(", window %llu\n", (unsigned long long)experiment->overlap.window);
}

static void print_times(const overlap_run_t *run) {
  printf("  %-10s %14.3f %14.3f\n", run->name, ms(run->bound_ns), ms(run->elapsed_ns));
}

static void print_summary(const experiment_t *experiment) {
  print_parameters(experiment);
  printf("\n  %-10s %14s %14s\n", "", "theory, ms",
         experiment->options.virtual_time ? "virtual, ms" : "measured, ms");
  print_times(&experiment->serial);
  print_times(&experiment->overlap);
  printf("\n  speedup    %.3f (theory %.3f)\n", speedup(experiment),
         ratio(experiment->serial.bound_ns, experiment->overlap.bound_ns));
  printf("  efficiency %.1f %% of what theory allows\n", 100.0 * efficiency(experiment));
  uint64_t elapsed_ns = experiment->serial.elapsed_ns + experiment->overlap.elapsed_ns;
  if (!experiment->options.virtual_time && elapsed_ns > 0)
    printf("  processor  %.2f %% of the time (%.1f ms)\n",
           100.0 * (double)experiment->processor_ns / (double)elapsed_ns, ms(experiment->processor_ns));
  if (experiment->finding != NULL && *experiment->finding != '\0')
    printf("  note: %s\n", experiment->finding);
}

static timeline_op_t compute_op(const void *source, uint64_t i) {
  const overlap_run_t *run = source;
  uint64_t origin_ns = overlap_run_start_ns(run);
  return (timeline_op_t){run->records[i].compute_start_ns - origin_ns,
                         run->records[i].compute_end_ns - origin_ns};
}

static timeline_op_t comm_op(const void *source, uint64_t i) {
  const overlap_run_t *run = source;
  uint64_t origin_ns = overlap_run_start_ns(run);
  return (timeline_op_t){run->records[i].comm_start_ns - origin_ns, run->records[i].comm_end_ns - origin_ns};
}

static void draw_run(timeline_t *timeline, const overlap_run_t *run) {
  timeline_lane_t compute = {"compute", "32", compute_op, run, run->microbatches};
  timeline_lane_t comm = {"comm", "33", comm_op, run, run->microbatches};
  fprintf(timeline->out, "\n%s\n", run->name);
  timeline_draw(timeline, &compute);
  timeline_draw(timeline, &comm);
}

static void draw_both(const experiment_t *experiment, FILE *out) {
  timeline_t timeline;
  uint64_t serial_ns = overlap_run_span_ns(&experiment->serial);
  uint64_t overlap_ns = overlap_run_span_ns(&experiment->overlap);
  timeline_init(&timeline, out, serial_ns > overlap_ns ? serial_ns : overlap_ns);
  draw_run(&timeline, &experiment->serial);
  draw_run(&timeline, &experiment->overlap);
  timeline_draw_scale(&timeline);
}

static void explain(const experiment_t *experiment, FILE *out) {
  char text[4096];
  if (ovl_pipeline_explain(experiment->pipeline, text, sizeof text) > 0)
    fprintf(out, "\n%s", text);
}

/* ---- the program ---- */

static int check(const overlap_run_t *run) {
  char message[256];
  if (overlap_check(run, message, sizeof message) == 0)
    return 0;
  fprintf(stderr, "overlap_sim: %s\n", message);
  return -1;
}

static int run_experiment(experiment_t *experiment) {
  if (overlap_sim_files_init(&experiment->files, &experiment->options) != 0 || set_up(experiment) != 0)
    return EXIT_FAULT;
  set_expectations(experiment);
  if (run_both(experiment) != 0)
    return EXIT_FAULT;
  if (experiment->options.json)
    print_json(experiment);
  else
    print_summary(experiment);
  if (experiment->options.timeline || !experiment->options.json)
    draw_both(experiment, experiment->options.json ? stderr : stdout);
  if (experiment->options.explain)
    explain(experiment, experiment->options.json ? stderr : stdout);
  if (overlap_sim_files_write(&experiment->files, experiment->pipeline, experiment->serial.bound_ns,
                              experiment->overlap.bound_ns) != 0)
    return EXIT_FAULT;
  if (check(&experiment->serial) != 0)
    return EXIT_FAULT;
  return check(&experiment->overlap) == 0 ? EXIT_SUCCESS : EXIT_FAULT;
}

/* What was printed counts only once it has been written. */
static int flush_output(int code) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return code;
  perror("overlap_sim: writing the output");
  return code == EXIT_SUCCESS ? EXIT_FAULT : code;
}

int main(int argc, char **argv) {
  experiment_t experiment = {0};
  overlap_sim_request_t request = overlap_sim_options_read(&experiment.options, argc, argv);
  if (request == OVERLAP_SIM_REFUSED)
    return EXIT_USAGE;
  if (request == OVERLAP_SIM_HELPED)
    return flush_output(EXIT_SUCCESS);
  int code = run_experiment(&experiment);
  tear_down(&experiment);
  return flush_output(code);
}
