/* SPDX-License-Identifier: MIT */
/* A scenario that all systems are measured in: one shape of work, in cases that differ in their durations. */
#ifndef OVL_BENCH_GRID_H
#define OVL_BENCH_GRID_H

#include "bench.h"
#include "bench_system.h"

typedef struct bench_case {
  const char *label;
  bench_durations_t durations; /* all 0: the unit is ns per operation, else it is efficiency */
  uint32_t window;
  bool quick; /* is part of a quick run */
  uint64_t
      microbatches; /* of a run, many of which make a repetition; 0: of one that takes as long as others */
} bench_case_t;

typedef struct bench_grid {
  uint32_t lanes, stages;
  uint64_t (*ideal)(const bench_work_t *work); /* elapsed of efficiency 1 */
  const bench_case_t *cases;
  size_t case_count;
  uint64_t stretch; /* repetitions take so many times as long as elsewhere */
  bool loaded;      /* while as many threads as there are processors spin */
} bench_grid_t;

/* Measures, prints the table, collects the results. */
void bench_grid_run(bench_t *bench, const bench_scenario_t *scenario, const bench_grid_t *grid);

/* ---- the parts, for whoever measures systems otherwise ---- */

/* Opens or closes the systems that were chosen; one that cannot be opened is left out, after a message. */
void bench_systems_open(bench_t *bench);
void bench_systems_close(bench_t *bench);
bool bench_system_is_open(size_t system);

/* How many microbatches take about `ns` in the ideal. */
uint64_t bench_ideal_count(bench_work_t *work, uint64_t (*ideal)(const bench_work_t *), uint64_t ns);

/* Runs a few under watch, then some more to warm up and to see how long they take. Returns how many
 * microbatches the system is to be given, at most `count`, fewer where that would take several times `ns`.
 * 0: it failed, or broke a rule. Leaves work->microbatches changed. */
uint64_t bench_warm_up(bench_t *bench, const bench_system_t *system, bench_work_t *work, uint64_t count,
                       uint64_t ns);

/* One repetition, and the rest after it. Elapsed ns; 0: it failed. */
uint64_t bench_repeat(bench_t *bench, const bench_system_t *system, bench_work_t *work, uint64_t count);

#endif
