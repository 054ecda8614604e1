/* SPDX-License-Identifier: MIT */
/* Measures systems in all cases of a grid, in turns (ABC, BCA, CAB, ...), so that a disturbance of the
 * machine meets all of them alike, and prints what came of it: medians, ratios, and the spread. */
#include "bench_grid.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench_load.h"
#include "bench_ratio.h"

enum { MOST_CASES = 24, SHORT_RUNS = 21 };

typedef struct cell {
  uint64_t count; /* microbatches of a repetition; 0: not measured */
  double values[BENCH_MOST_REPETITIONS];
  size_t repetitions;
  bench_summary_t summary;
} cell_t;

typedef struct table {
  const bench_case_t *cases[MOST_CASES];
  size_t case_count;
  cell_t *cells; /* [case][system] */
} table_t;

static cell_t *cell_at(const table_t *table, size_t column, size_t system) {
  return &table->cells[column * bench_system_count + system];
}

static bool is_empty(const bench_case_t *c) { return c->durations.even_ns == 0; }

/* ---- measuring ---- */

static double value_of(const bench_grid_t *grid, const bench_case_t *c, const bench_work_t *work,
                       uint64_t elapsed_ns) {
  if (is_empty(c))
    return (double)elapsed_ns / (double)(work->microbatches * work->stages);
  return (double)grid->ideal(work) / (double)elapsed_ns;
}

/* The median of many, each of which finds threads that have had nothing to do for a while. 0: one failed. */
static uint64_t repeat_short(bench_t *bench, const bench_system_t *system, bench_work_t *work,
                             uint64_t count) {
  double values[SHORT_RUNS];
  size_t runs = bench->options.effort == BENCH_SMOKE ? 1 : SHORT_RUNS;
  for (size_t i = 0; i < runs; i++) {
    uint64_t elapsed_ns = bench_repeat(bench, system, work, count);
    if (elapsed_ns == 0)
      return 0;
    values[i] = (double)elapsed_ns;
  }
  return (uint64_t)bench_summarize(values, runs).median;
}

static void repeat_all(bench_t *bench, const bench_grid_t *grid, const bench_case_t *c, bench_work_t *work,
                       cell_t *cells) {
  for (unsigned r = 0; r < bench->options.repetitions; r++)
    for (size_t k = 0; k < bench_system_count; k++) {
      size_t s = (k + r) % bench_system_count;
      if (cells[s].count == 0)
        continue;
      uint64_t elapsed_ns =
          (c->microbatches != 0 ? repeat_short : bench_repeat)(bench, bench_systems[s], work, cells[s].count);
      if (elapsed_ns != 0)
        cells[s].values[cells[s].repetitions++] = value_of(grid, c, work, elapsed_ns);
    }
}

static void measure_case(bench_t *bench, const char *scenario, const bench_grid_t *grid,
                         const bench_case_t *c, cell_t *cells) {
  bench_work_t work = {.lanes = grid->lanes, .stages = grid->stages, .window = c->window};
  uint64_t ns = bench->repetition_ns * grid->stretch;
  if (!bench_work_init(&work, &c->durations)) {
    bench_fail(bench, scenario, "no memory");
    return;
  }
  bench_report_progress(&bench->report, scenario, c->label, "");
  uint64_t count = bench_ideal_count(&work, grid->ideal, ns);
  for (size_t s = 0; s < bench_system_count; s++)
    if (bench_system_is_open(s))
      cells[s].count = bench_warm_up(bench, bench_systems[s], &work, count, ns);
  for (size_t s = 0; c->microbatches != 0 && s < bench_system_count; s++)
    cells[s].count = cells[s].count > 0 ? c->microbatches : 0;
  repeat_all(bench, grid, c, &work, cells);
  bench_work_finish(&work);
}

static void collect(bench_t *bench, const char *scenario, const bench_case_t *c, cell_t *cells) {
  for (size_t s = 0; s < bench_system_count; s++) {
    bench_result_t result = {.scenario = scenario,
                             .system = bench_systems[s]->name,
                             .unit = is_empty(c) ? "ns/op" : "efficiency",
                             .microbatches = cells[s].count};
    cells[s].summary = bench_summarize(cells[s].values, cells[s].repetitions);
    if (cells[s].repetitions == 0)
      continue;
    snprintf(result.label, sizeof result.label, "%s", c->label);
    result.summary = cells[s].summary;
    bench_report_add(&bench->report, &result);
  }
}

/* ---- the table ---- */

enum { NAME_WIDTH = 15, CELL_WIDTH = 11 };

static void print_head(const char *what, const table_t *table) {
  printf("%-*s", NAME_WIDTH, what);
  for (size_t c = 0; c < table->case_count; c++)
    printf(" %*s", CELL_WIDTH, table->cases[c]->label);
  putchar('\n');
}

static void print_text(const char *text) { printf(" %*s", CELL_WIDTH, text); }

static void print_number(double value) {
  char text[24];
  snprintf(text, sizeof text, value < 10 ? "%.3f" : value < 100 ? "%.1f" : "%.0f", value);
  print_text(text);
}

static void print_medians(const table_t *table, size_t system) {
  printf("%-*s", NAME_WIDTH, bench_systems[system]->name);
  for (size_t c = 0; c < table->case_count; c++) {
    const bench_summary_t *summary = &cell_at(table, c, system)->summary;
    if (summary->count == 0)
      print_text("-");
    else
      print_number(summary->median);
  }
  putchar('\n');
}

static void print_spread(const table_t *table, size_t system) {
  printf("%-*s", NAME_WIDTH, bench_systems[system]->name);
  for (size_t c = 0; c < table->case_count; c++) {
    const bench_summary_t *summary = &cell_at(table, c, system)->summary;
    char text[48];
    snprintf(text, sizeof text, is_empty(table->cases[c]) ? "%.0f-%.0f" : "%.2f-%.2f", summary->min,
             summary->max);
    print_text(summary->count == 0 ? "-" : text);
  }
  putchar('\n');
}

static void print_ratio(double ratio) {
  if (ratio > 0)
    print_number(ratio);
  else
    print_text("-");
}

static void print_ratios(const bench_report_t *report, const char *scenario, const table_t *table) {
  bench_ratios_t ratios[MOST_CASES];
  for (size_t c = 0; c < table->case_count; c++)
    ratios[c] = bench_ratios(report, scenario, table->cases[c]->label);
  printf("%-*s", NAME_WIDTH, "libovl : floor");
  for (size_t c = 0; c < table->case_count; c++)
    print_ratio(ratios[c].to_floor);
  printf("\n%-*s", NAME_WIDTH, "libovl : best");
  for (size_t c = 0; c < table->case_count; c++)
    print_ratio(ratios[c].to_best);
  printf("\n%-*s", NAME_WIDTH, "  best peer");
  for (size_t c = 0; c < table->case_count; c++)
    print_text(ratios[c].best != NULL ? ratios[c].best : "-");
  putchar('\n');
}

static void print_table(bench_t *bench, const bench_scenario_t *scenario, const table_t *table) {
  bench_report_title(&bench->report, scenario->name, scenario->what);
  print_head("median", table);
  for (size_t s = 0; s < bench_system_count; s++)
    if (bench->options.systems[s])
      print_medians(table, s);
  print_ratios(&bench->report, scenario->name, table);
  print_head("spread", table);
  for (size_t s = 0; s < bench_system_count; s++)
    if (bench->options.systems[s])
      print_spread(table, s);
  fflush(stdout);
}

static void choose_cases(const bench_t *bench, const bench_grid_t *grid, table_t *table) {
  for (size_t c = 0; c < grid->case_count && table->case_count < MOST_CASES; c++)
    if (bench->options.effort == BENCH_FULL || grid->cases[c].quick)
      table->cases[table->case_count++] = &grid->cases[c];
}

void bench_grid_run(bench_t *bench, const bench_scenario_t *scenario, const bench_grid_t *grid) {
  table_t table = {.case_count = 0};
  choose_cases(bench, grid, &table);
  table.cells = calloc(table.case_count * bench_system_count, sizeof *table.cells);
  if (table.cells == NULL) {
    bench_fail(bench, scenario->name, "no memory");
    return;
  }
  bench_systems_open(bench);
  if (grid->loaded)
    bench_load_begin();
  for (size_t c = 0; c < table.case_count; c++) {
    measure_case(bench, scenario->name, grid, table.cases[c], cell_at(&table, c, 0));
    collect(bench, scenario->name, table.cases[c], cell_at(&table, c, 0));
  }
  if (grid->loaded)
    bench_load_end();
  bench_systems_close(bench);
  print_table(bench, scenario, &table);
  free(table.cells);
}
