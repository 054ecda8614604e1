/* SPDX-License-Identifier: MIT */
/* What every scenario gets: how thorough to be, which systems to measure, and where results go. */
#ifndef OVL_BENCH_H
#define OVL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_report.h"

/* SMOKE only shows that everything works: its figures mean nothing. */
typedef enum bench_effort { BENCH_FULL, BENCH_QUICK, BENCH_SMOKE } bench_effort_t;

enum { BENCH_MOST_REPETITIONS = 99, BENCH_MOST_SYSTEMS = 16, BENCH_MOST_SCENARIOS = 32 };

typedef struct bench_options {
  bench_effort_t effort;
  unsigned repetitions;
  const char *json;                     /* a file; NULL: none */
  bool systems[BENCH_MOST_SYSTEMS];     /* chosen, as numbered in bench_systems */
  bool scenarios[BENCH_MOST_SCENARIOS]; /* chosen, as numbered in bench_scenarios */
} bench_options_t;

typedef struct bench {
  bench_options_t options;
  char **arguments;       /* of the command line; NULL after the last */
  uint64_t repetition_ns; /* what one repetition should take */
  uint64_t rest_ns; /* between two, so that threads that wait for more of the last one's work go to sleep */
  double line_ns[BENCH_MOST_SCENARIOS]; /* bench_line_ns() before each; only of those that were run */
  bench_report_t report;
  bool failed; /* a system failed or broke a rule; said on stderr */
} bench_t;

typedef struct bench_scenario {
  const char *name; /* as in --scenario */
  const char *what;
  void (*run)(bench_t *bench, const struct bench_scenario *scenario);
} bench_scenario_t;

extern const bench_scenario_t bench_scenarios[];
extern const size_t bench_scenario_count;

void bench_run_two_lanes(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_unbalanced(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_random(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_ping_pong(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_four_lanes(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_short_runs(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_oversubscribed(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_metg(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_hand_over(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_issue(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_submit(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_start_up(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_idle(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_timer(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_what_if(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_simulator(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_statistics(bench_t *bench, const bench_scenario_t *scenario);
void bench_run_sizes(bench_t *bench, const bench_scenario_t *scenario);

/* `full` where the effort is full, a tenth of it for a quick run, a thousandth to show that it works; at
 * least 1. */
uint64_t bench_scale(const bench_t *bench, uint64_t full);

/* Notes that something failed and says so on stderr. */
void bench_fail(bench_t *bench, const char *where, const char *what);

#endif
