/* SPDX-License-Identifier: MIT */
/* Results: collected, printed as tables on stdout, and written as JSON. Progress goes to stderr. */
#ifndef OVL_BENCH_REPORT_H
#define OVL_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench_summary {
  double median, p99, min, max;
  size_t count; /* of values; 0: there is none */
} bench_summary_t;

/* Sorts the values. */
bench_summary_t bench_summarize(double *values, size_t count);

/* A search that ended where it was to end at the latest: its figure is this limit. */
typedef enum bench_limit { BENCH_NO_LIMIT, BENCH_MORE_THAN, BENCH_AT_MOST } bench_limit_t;

typedef struct bench_result {
  const char *scenario; /* kept by address, as system and unit */
  const char *system;
  const char *unit;
  char label[40];
  bench_summary_t summary;
  bench_limit_t limit;
  uint64_t microbatches; /* 0: says nothing here */
} bench_result_t;

typedef struct bench_report {
  bench_result_t *results;
  size_t count, capacity;
  uint64_t begun_ns;
  bool on_terminal; /* progress overwrites itself */
  bool pending;     /* a line of progress stands on the terminal */
} bench_report_t;

void bench_report_init(bench_report_t *report);
void bench_report_finish(bench_report_t *report);

/* Collects a result. */
void bench_report_add(bench_report_t *report, const bench_result_t *result);

/* A title on stdout, and the head of the rows that bench_report_row() prints. */
void bench_report_title(bench_report_t *report, const char *name, const char *what);
void bench_report_head(void);

/* Collects a result and prints it as a row. */
void bench_report_row(bench_report_t *report, const bench_result_t *result);

/* Says on stderr what is being measured. */
void bench_report_progress(bench_report_t *report, const char *scenario, const char *label,
                           const char *system);
void bench_report_progress_over(bench_report_t *report);

/* The header's fields are the caller's: `write_header` prints them, each line ending with a comma. 0, or
 * -1. */
int bench_report_write_json(const bench_report_t *report, FILE *file,
                            void (*write_header)(FILE *file, const void *data), const void *data);
void bench_json_string(FILE *file, const char *text);

#endif
