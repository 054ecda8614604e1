/* SPDX-License-Identifier: MIT */
/* The benchmark program: runs the scenarios that were chosen, one after another, and writes what came of it.
 * README.md says what is measured and how each system is set up. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench_clock.h"
#include "bench_line.h"
#include "bench_options.h"
#include "bench_system.h"
#include "ovl.h"

#define MS UINT64_C(1000000)

const bench_scenario_t bench_scenarios[] = {
    {"two_lanes", "two pool lanes, operations that spin g, window 8; efficiency = (n g + g) / elapsed",
     bench_run_two_lanes},
    {"unbalanced", "the same, compute/communication of different length; efficiency = bound / elapsed",
     bench_run_unbalanced},
    {"random", "the same, lengths evenly spread from 0 to 2 g; efficiency against the two-lane recurrence",
     bench_run_random},
    {"ping_pong", "eight stages in turns on two lanes, window W; efficiency against the simulator",
     bench_run_ping_pong},
    {"four_lanes", "four stages on four lanes, window 8; efficiency against what the processors allow",
     bench_run_four_lanes},
    {"short_runs", "two_lanes with runs of a few microbatches, after a pause in which threads go to sleep",
     bench_run_short_runs},
    {"oversubscribed", "two_lanes while as many threads spin as there are processors",
     bench_run_oversubscribed},
    {"metg", "METG(50 %): the smallest g with half of the efficiency that is possible, by scenario",
     bench_run_metg},
    {"hand_over", "from ovl_op_complete() on a foreign thread to the start of the successor",
     bench_run_hand_over},
    {"issue", "issuing to a device whose entries do nothing", bench_run_issue},
    {"submit", "streaming: one empty operation an item, window 64, queue 1024", bench_run_submit},
    {"start_up", "a run of ten empty operations on a warm loop", bench_run_start_up},
    {"idle", "processor time, in us a second, while a run waits for a foreign completion", bench_run_idle},
    {"timer", "the application's timer beside a saturated pipeline", bench_run_timer},
    {"what_if", "what advice of ovl_pipeline_explain promises and what it brings, for operations that sleep",
     bench_run_what_if},
    {"simulator", "operations in virtual time", bench_run_simulator},
    {"statistics", "empty operations with and without statistics and a trace", bench_run_statistics},
    {"sizes", "empty operations by the size of each dimension", bench_run_sizes},
};

const size_t bench_scenario_count = sizeof bench_scenarios / sizeof bench_scenarios[0];

static const char *const efforts[] = {
    [BENCH_FULL] = "full", [BENCH_QUICK] = "quick", [BENCH_SMOKE] = "smoke"};

uint64_t bench_scale(const bench_t *bench, uint64_t full) {
  static const uint64_t parts[] = {[BENCH_FULL] = 1, [BENCH_QUICK] = 10, [BENCH_SMOKE] = 1000};
  uint64_t scaled = full / parts[bench->options.effort];
  return scaled > 0 ? scaled : 1;
}

void bench_fail(bench_t *bench, const char *where, const char *what) {
  bench_report_progress_over(&bench->report);
  fprintf(stderr, "bench: %s: %s\n", where, what);
  bench->failed = true;
}

static void set_up(bench_t *bench) {
  static const uint64_t repetition_ns[] = {
      [BENCH_FULL] = 80 * MS, [BENCH_QUICK] = 20 * MS, [BENCH_SMOKE] = MS / 4};
  static const uint64_t rest_ns[] = {[BENCH_FULL] = 10 * MS, [BENCH_QUICK] = 5 * MS, [BENCH_SMOKE] = 0};
  bench->repetition_ns = repetition_ns[bench->options.effort];
  bench->rest_ns = rest_ns[bench->options.effort];
  bench_clock_init();
  bench_report_init(&bench->report);
}

static const char *pool_size(void) {
  const char *size = getenv("UV_THREADPOOL_SIZE");
  return size != NULL ? size : "4";
}

/* As one would type it again. */
static void write_command(FILE *file, const bench_t *bench) {
  fputs("tests/bench/run", file);
  for (char **argument = bench->arguments; *argument != NULL; argument++)
    fprintf(file, " %s", *argument);
}

static const char *processor_name(void) {
  static char name[80];
  uv_cpu_info_t *processors;
  int count;
  if (uv_cpu_info(&processors, &count) == 0) {
    if (count > 0 && processors[0].model != NULL)
      snprintf(name, sizeof name, "%.79s", processors[0].model);
    uv_free_cpu_info(processors, count);
  }
  return name;
}

static void print_header(const bench_t *bench) {
  printf("command: ");
  write_command(stdout, bench);
  printf("\nprocessor: %s; compiler: %s\n", processor_name(), __VERSION__);
  printf("libovl %s, %s run: %u processors, %s, libuv %s with a pool of %s, medians of %u repetitions\n",
         ovl_version_string(), efforts[bench->options.effort], uv_available_parallelism(), bench_clock_name(),
         uv_version_string(), pool_size(), bench->options.repetitions);
  for (size_t s = 0; s < bench_system_count; s++)
    if (bench->options.systems[s])
      printf("  %-9s %s\n", bench_systems[s]->name, bench_systems[s]->what);
  if (*bench_systems_missing != '\0')
    printf("not in this build:%s\n", bench_systems_missing);
  fflush(stdout);
}

static void write_header(FILE *file, const void *data) {
  const bench_t *bench = data;
  fprintf(file, "  \"libovl\": \"%s\",\n  \"libuv\": \"%s\",\n  \"effort\": \"%s\",\n", ovl_version_string(),
          uv_version_string(), efforts[bench->options.effort]);
  fprintf(file, "  \"processors\": %u,\n  \"clock\": \"%s\",\n  \"repetitions\": %u,\n",
          uv_available_parallelism(), bench_clock_name(), bench->options.repetitions);
  fputs("  \"processor\": ", file);
  bench_json_string(file, processor_name());
  fputs(",\n  \"compiler\": ", file);
  bench_json_string(file, __VERSION__);
  fputs(",\n  \"command\": [\"tests/bench/run\"", file);
  for (char **argument = bench->arguments; *argument != NULL; argument++) {
    fputs(", ", file);
    bench_json_string(file, *argument);
  }
  fputs("],\n  \"pool\": ", file);
  bench_json_string(file, pool_size());
  fputs(",\n  \"systems\": {", file);
  for (size_t s = 0; s < bench_system_count; s++) {
    fputs(s == 0 ? "\n    " : ",\n    ", file);
    bench_json_string(file, bench_systems[s]->name);
    fputs(": ", file);
    bench_json_string(file, bench_systems[s]->what);
  }
  fputs("\n  },\n  \"line_ns\": {", file);
  const char *separator = "\n    ";
  for (size_t s = 0; s < bench_scenario_count; s++)
    if (bench->options.scenarios[s]) {
      fputs(separator, file);
      bench_json_string(file, bench_scenarios[s].name);
      fprintf(file, ": %.1f", bench->line_ns[s]);
      separator = ",\n    ";
    }
  fputs("\n  },\n", file);
}

static void write_json(bench_t *bench, FILE *file) {
  if (file == NULL)
    return;
  int status = bench_report_write_json(&bench->report, file, write_header, bench);
  if (fclose(file) != 0 || status != 0)
    bench_fail(bench, bench->options.json, "cannot be written");
}

static void run_all(bench_t *bench) {
  for (size_t s = 0; s < bench_scenario_count; s++) {
    if (!bench->options.scenarios[s])
      continue;
    bench->line_ns[s] = bench_line_ns();
    bench_scenarios[s].run(bench, &bench_scenarios[s]);
    printf("(before it a line of cache took %.0f ns from one processor to another)\n", bench->line_ns[s]);
  }
  bench_report_progress_over(&bench->report);
}

/* The file is opened first, so that nobody waits minutes to hear that it cannot be. */
static int run_program(bench_t *bench) {
  FILE *file = NULL;
  if (bench->options.json != NULL && (file = fopen(bench->options.json, "w")) == NULL) {
    perror(bench->options.json);
    return EXIT_FAILURE;
  }
  set_up(bench);
  print_header(bench);
  run_all(bench);
  write_json(bench, file);
  bench_report_finish(&bench->report);
  return bench->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  bench_t bench = {.arguments = argc > 0 ? argv + 1 : argv};
  switch (bench_options_read(&bench.options, argc, argv)) {
  case BENCH_WISH_RUN:
    return run_program(&bench);
  case BENCH_WISH_HELP:
  case BENCH_WISH_LIST:
    return EXIT_SUCCESS;
  case BENCH_WISH_WRONG:
    break;
  }
  return 2;
}
