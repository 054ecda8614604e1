/* SPDX-License-Identifier: MIT */
/* The rules of a two-lane run, one function each.
 * Every function returns 0, or -1 and a message that names the microbatch and the amount. */
#include "overlap_check.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct finding {
  char *text;
  size_t size;
} finding_t;

static int fault(const finding_t *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fault(const finding_t *finding, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(finding->text, finding->size, format, arguments);
  va_end(arguments);
  return -1;
}

static unsigned long long difference(uint64_t larger, uint64_t smaller) {
  return (unsigned long long)(larger - smaller);
}

uint64_t overlap_run_start_ns(const overlap_run_t *run) {
  return run->microbatches == 0 ? 0 : run->records[0].compute_start_ns;
}

uint64_t overlap_run_span_ns(const overlap_run_t *run) {
  uint64_t start_ns = overlap_run_start_ns(run);
  uint64_t end_ns = start_ns;
  for (uint64_t i = 0; i < run->microbatches; i++)
    if (run->records[i].comm_end_ns > end_ns)
      end_ns = run->records[i].comm_end_ns;
  return end_ns - start_ns;
}

static int check_ran_once(const overlap_run_t *run, uint64_t i, const finding_t *finding) {
  const backend_sleep_record_t *record = &run->records[i];
  if (record->computes == 1 && record->comms == 1)
    return 0;
  return fault(finding,
               "%s run: compute of microbatch %llu ran %u times and its communication %u times, not once",
               run->name, (unsigned long long)i, record->computes, record->comms);
}

static int check_dependency(const overlap_run_t *run, uint64_t i, const finding_t *finding) {
  const backend_sleep_record_t *record = &run->records[i];
  if (record->comm_start_ns >= record->compute_end_ns)
    return 0;
  return fault(finding,
               "%s run: communication of microbatch %llu started %llu ns before its compute had ended",
               run->name, (unsigned long long)i, difference(record->compute_end_ns, record->comm_start_ns));
}

static int check_lanes(const overlap_run_t *run, uint64_t i, const finding_t *finding) {
  if (i == 0)
    return 0;
  const backend_sleep_record_t *record = &run->records[i];
  const backend_sleep_record_t *before = &run->records[i - 1];
  if (record->compute_start_ns < before->compute_end_ns)
    return fault(finding, "%s run: compute of microbatch %llu started %llu ns before that of %llu had ended",
                 run->name, (unsigned long long)i,
                 difference(before->compute_end_ns, record->compute_start_ns), (unsigned long long)(i - 1));
  if (record->comm_start_ns < before->comm_end_ns)
    return fault(finding,
                 "%s run: communication of microbatch %llu started %llu ns before that of %llu had ended",
                 run->name, (unsigned long long)i, difference(before->comm_end_ns, record->comm_start_ns),
                 (unsigned long long)(i - 1));
  return 0;
}

static int check_window(const overlap_run_t *run, uint64_t i, const finding_t *finding) {
  if (i < run->window)
    return 0;
  uint64_t start_ns = run->records[i].compute_start_ns;
  uint64_t free_ns = run->records[i - run->window].comm_end_ns;
  if (start_ns >= free_ns)
    return 0;
  return fault(finding,
               "%s run: microbatch %llu started %llu ns before microbatch %llu had left the window of %llu",
               run->name, (unsigned long long)i, difference(free_ns, start_ns),
               (unsigned long long)(i - run->window), (unsigned long long)run->window);
}

static int check_bound(const overlap_run_t *run, uint64_t took_ns, const char *by, const finding_t *finding) {
  if (took_ns >= run->bound_ns)
    return 0;
  return fault(
      finding,
      "%s run: %.6f ms by the %s, %llu ns faster than the bound of %.6f ms allows: a dependency was broken",
      run->name, (double)took_ns / 1e6, by, difference(run->bound_ns, took_ns), (double)run->bound_ns / 1e6);
}

int overlap_check(const overlap_run_t *run, char *message, size_t size) {
  finding_t finding = {message, size};
  for (uint64_t i = 0; i < run->microbatches; i++) {
    if (check_ran_once(run, i, &finding) != 0)
      return -1;
    if (check_dependency(run, i, &finding) != 0)
      return -1;
    if (check_lanes(run, i, &finding) != 0)
      return -1;
    if (check_window(run, i, &finding) != 0)
      return -1;
  }
  if (check_bound(run, overlap_run_span_ns(run), "records", &finding) != 0)
    return -1;
  return check_bound(run, run->elapsed_ns, "library's clock", &finding);
}
