/* SPDX-License-Identifier: MIT */
/* Text for people, in one form for all examples.
 * %f follows LC_NUMERIC, which the examples never set. */
#include "parts/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

/* libovl passes libuv's codes on, so a code that is not its own is one of those. */
static const char *words(int status) { return status < -20000 ? ovl_strerror(status) : uv_strerror(status); }

int report_failure(const char *program, const char *what, int status) {
  fprintf(stderr, "%s: %s: %s\n", program, what, words(status));
  return status;
}

int report_refusal(const char *program, const char *what, const ovl_pipeline_t *pipeline, int status) {
  const char *why = ovl_pipeline_error(pipeline);
  fprintf(stderr, "%s: %s: %s%s%s\n", program, what, words(status), *why == '\0' ? "" : ": ", why);
  return status;
}

int report_failed_run(const char *program, const ovl_pipeline_t *pipeline, int status) {
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  if (ovl_pipeline_failure(pipeline, &failure) != 0 || failure.microbatch == OVL_NO_MICROBATCH)
    return report_failure(program, "a run", status);
  fprintf(stderr, "%s: '%s' of microbatch %" PRIu64 ": %s\n", program, failure.stage_name, failure.microbatch,
          words(status));
  return status;
}

double report_ratio(uint64_t above, uint64_t below) {
  return below == 0 ? 1.0 : (double)above / (double)below;
}

double report_ms(uint64_t ns) { return (double)ns / 1e6; }

static void print_run(const char *name, const run_times_t *run, int with_theory) {
  printf("  %-10s", name);
  if (with_theory)
    printf(" %12.3f", report_ms(run->theory_ns));
  printf(" %14.3f %13.3f %20.3f\n", report_ms(run->predicted_ns), report_ms(run->measured_ns),
         report_ratio(run->measured_ns, run->predicted_ns));
}

void report_runs(const run_times_t *serial, const run_times_t *overlap) {
  int with_theory = serial->theory_ns != 0 && overlap->theory_ns != 0;
  printf("\n  %-10s%s  predicted, ms  measured, ms  measured/predicted\n", "",
         with_theory ? "   theory, ms" : "");
  print_run("serial", serial, with_theory);
  print_run("overlapped", overlap, with_theory);
  printf("  %-10s", "speedup");
  if (with_theory)
    printf(" %12.3f", report_ratio(serial->theory_ns, overlap->theory_ns));
  printf(" %14.3f %13.3f\n", report_ratio(serial->predicted_ns, overlap->predicted_ns),
         report_ratio(serial->measured_ns, overlap->measured_ns));
}

void report_processors(unsigned wanted) {
  unsigned there = uv_available_parallelism();
  if (there < wanted)
    printf("note: %u compute at a time, and there %s %u processor%s: they take turns, so times say little\n",
           wanted, there == 1 ? "is" : "are", there, there == 1 ? "" : "s");
}

int report_flush(const char *program, int code) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return code;
  fprintf(stderr, "%s: the output could not be written\n", program);
  return code == 0 ? EXIT_FAULT : code;
}
