/* SPDX-License-Identifier: MIT */
/* What the examples print alike: failures, and what a serial and an overlapped run should have taken and took.
 * Nothing printed here decides how a program exits, but for output that could not be written. */
#ifndef EXAMPLES_PARTS_REPORT_H
#define EXAMPLES_PARTS_REPORT_H

#include <stdint.h>

#include "ovl.h"

#define EXIT_FAULT 1
#define EXIT_USAGE 2

/* One run, in nanoseconds. */
typedef struct run_times {
  uint64_t theory_ns;    /* by a formula; 0: there is none */
  uint64_t predicted_ns; /* the same schedule in virtual time, with durations that were measured */
  uint64_t measured_ns;
} run_times_t;

/* One line on stderr: which program, what failed, the code in words. Returns the code. */
int report_failure(const char *program, const char *what, int status);

/* The same with the library's own words: why it refused a description or a start, or where a run failed. */
int report_refusal(const char *program, const char *what, const ovl_pipeline_t *pipeline, int status);
int report_failed_run(const char *program, const ovl_pipeline_t *pipeline, int status);

/* The table of a serial and an overlapped run, with their ratios. */
void report_runs(const run_times_t *serial, const run_times_t *overlap);

/* 1 where nothing took any time, so that there is always a number. */
double report_ratio(uint64_t above, uint64_t below);

/* Milliseconds, for printing. */
double report_ms(uint64_t ns);

/* A note if there are fewer processors than lanes that compute. */
void report_processors(unsigned wanted);

/* What was printed counts only once it has been written: returns `code`, or EXIT_FAULT in place of 0. */
int report_flush(const char *program, int code);

#endif
