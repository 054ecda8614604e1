/* SPDX-License-Identifier: MIT */
/* One list of results, printed as it grows and written at the end.
 * Figures are doubles with six digits: more than any of them is worth. */
#include "bench_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_clock.h"
#include "bench_ratio.h"
#include "bench_system.h"

/* ---- summaries ---- */

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

bench_summary_t bench_summarize(double *values, size_t count) {
  if (count == 0)
    return (bench_summary_t){.count = 0};
  qsort(values, count, sizeof values[0], compare);
  size_t rank = (count * 99 + 99) / 100;
  return (bench_summary_t){.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
                           .p99 = values[rank - 1],
                           .min = values[0],
                           .max = values[count - 1],
                           .count = count};
}

/* ---- collecting ---- */

void bench_report_init(bench_report_t *report) {
  *report = (bench_report_t){.begun_ns = bench_now_ns(), .on_terminal = isatty(STDERR_FILENO) == 1};
}

void bench_report_finish(bench_report_t *report) { free(report->results); }

void bench_report_add(bench_report_t *report, const bench_result_t *result) {
  if (report->count == report->capacity) {
    size_t capacity = report->capacity == 0 ? 256 : 2 * report->capacity;
    bench_result_t *results = realloc(report->results, capacity * sizeof *results);
    if (results == NULL)
      abort();
    report->results = results;
    report->capacity = capacity;
  }
  report->results[report->count++] = *result;
}

/* ---- printing ---- */

void bench_report_title(bench_report_t *report, const char *name, const char *what) {
  bench_report_progress_over(report);
  printf("\n%s: %s\n", name, what);
  fflush(stdout);
}

void bench_report_head(void) {
  printf("%-38s %-12s %11s %11s %11s %11s\n", "", "", "median", "99 %", "smallest", "largest");
}

static const char *const limits[] = {"", "more than", "at most"};

/* Four digits or so, whatever the size. */
static void print_figure(double value) {
  int digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  printf(" %11.*f", digits, value);
}

void bench_report_row(bench_report_t *report, const bench_result_t *result) {
  bench_report_add(report, result);
  bench_report_progress_over(report);
  char what[64];
  snprintf(what, sizeof what, "%s%s%s", result->label, result->limit != BENCH_NO_LIMIT ? ": " : "",
           limits[result->limit]);
  printf("%-38s %-12s", what, result->system);
  print_figure(result->summary.median);
  print_figure(result->summary.p99);
  print_figure(result->summary.min);
  print_figure(result->summary.max);
  printf("  %s\n", result->unit);
  fflush(stdout);
}

void bench_report_progress(bench_report_t *report, const char *scenario, const char *label,
                           const char *system) {
  double seconds = (double)(bench_now_ns() - report->begun_ns) / 1e9;
  fprintf(stderr, "%s[%5.1f s] %s%s%s%s%s", report->on_terminal ? "\r\033[K" : "", seconds, scenario,
          *label != '\0' ? ", " : "", label, *system != '\0' ? ": " : "", system);
  if (report->on_terminal)
    fflush(stderr);
  else
    fputc('\n', stderr);
  report->pending = report->on_terminal;
}

void bench_report_progress_over(bench_report_t *report) {
  if (report->pending)
    fputs("\r\033[K", stderr);
  report->pending = false;
}

/* ---- JSON ---- */

void bench_json_string(FILE *file, const char *text) {
  fputc('"', file);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\')
      fputc('\\', file);
    if ((unsigned char)*text >= ' ')
      fputc(*text, file);
  }
  fputc('"', file);
}

static void write_field(FILE *file, const char *name, const char *text) {
  fprintf(file, "\"%s\": ", name);
  bench_json_string(file, text);
  fputs(", ", file);
}

static void write_ratios(FILE *file, const bench_ratios_t *ratios) {
  if (ratios->to_floor > 0)
    fprintf(file, "\"to_floor\": %.6g, ", ratios->to_floor);
  if (ratios->to_best > 0) {
    fprintf(file, "\"to_best_peer\": %.6g, ", ratios->to_best);
    write_field(file, "best_peer", ratios->best);
  }
}

static void write_result(const bench_report_t *report, FILE *file, const bench_result_t *result) {
  fputs("    {", file);
  write_field(file, "scenario", result->scenario);
  write_field(file, "case", result->label);
  write_field(file, "system", result->system);
  write_field(file, "unit", result->unit);
  if (result->microbatches != 0)
    fprintf(file, "\"microbatches\": %llu, ", (unsigned long long)result->microbatches);
  if (result->limit != BENCH_NO_LIMIT)
    write_field(file, "limit", limits[result->limit]);
  if (strcmp(result->system, bench_system_ovl.name) == 0) {
    bench_ratios_t ratios = bench_ratios(report, result->scenario, result->label);
    write_ratios(file, &ratios);
  }
  fprintf(file, "\"median\": %.6g, \"p99\": %.6g, \"min\": %.6g, \"max\": %.6g, \"values\": %zu}",
          result->summary.median, result->summary.p99, result->summary.min, result->summary.max,
          result->summary.count);
}

int bench_report_write_json(const bench_report_t *report, FILE *file,
                            void (*write_header)(FILE *file, const void *data), const void *data) {
  fputs("{\n", file);
  write_header(file, data);
  fputs("  \"results\": [\n", file);
  for (size_t i = 0; i < report->count; i++) {
    write_result(report, file, &report->results[i]);
    fputs(i + 1 < report->count ? ",\n" : "\n", file);
  }
  fputs("  ]\n}\n", file);
  return fflush(file) == 0 && !ferror(file) ? 0 : -1;
}
