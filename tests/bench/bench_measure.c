/* SPDX-License-Identifier: MIT */
/* Measuring a system: opening it, watching that it keeps the rules, finding out how much work makes a
 * repetition of the wanted length, and running one. */
#include <stdio.h>
#include <uv.h>

#include "bench_clock.h"
#include "bench_grid.h"

enum { WATCHED = 300, OVERHEAD_NS = 50, PATIENCE = 2 };

static bool opened[BENCH_MOST_SYSTEMS];

void bench_systems_open(bench_t *bench) {
  for (size_t s = 0; s < bench_system_count; s++) {
    const bench_system_t *system = bench_systems[s];
    opened[s] = bench->options.systems[s];
    if (opened[s] && system->open != NULL && system->open() != 0) {
      bench_fail(bench, system->name, "cannot be opened");
      opened[s] = false;
    }
  }
}

void bench_systems_close(bench_t *bench) {
  (void)bench;
  for (size_t s = 0; s < bench_system_count; s++) {
    if (opened[s] && bench_systems[s]->close != NULL)
      bench_systems[s]->close();
    opened[s] = false;
  }
}

bool bench_system_is_open(size_t system) { return opened[system]; }

static uint64_t at_least(uint64_t value, uint64_t least) { return value > least ? value : least; }

/* Shorter runs would be all beginning and end. */
static uint64_t least_count(const bench_work_t *work) { return UINT64_C(4) * work->window; }

uint64_t bench_ideal_count(bench_work_t *work, uint64_t (*ideal)(const bench_work_t *), uint64_t ns) {
  work->microbatches = 64;
  bool is_empty = work->mask == 0 && work->ns[0] == 0;
  uint64_t each_ns = is_empty ? 0 : ideal(work) / work->microbatches;
  return at_least(ns / (each_ns + OVERHEAD_NS * work->stages), least_count(work));
}

/* Runs a few microbatches under watch; false: a rule was broken, or it failed. */
static bool watch(bench_t *bench, const bench_system_t *system, bench_work_t *work, uint64_t count) {
  work->microbatches = count < WATCHED ? count : WATCHED;
  work->check = bench_check_begin(work);
  if (work->check == NULL) {
    bench_fail(bench, system->name, "no memory");
    return false;
  }
  uint64_t elapsed_ns = system->run(work);
  const char *broken = bench_check_end(work->check);
  work->check = NULL;
  if (broken != NULL || elapsed_ns == 0)
    bench_fail(bench, system->name, broken != NULL ? broken : "failed");
  return broken == NULL && elapsed_ns != 0;
}

uint64_t bench_warm_up(bench_t *bench, const bench_system_t *system, bench_work_t *work, uint64_t count,
                       uint64_t ns) {
  if (!watch(bench, system, work, count))
    return 0;
  uint64_t some = at_least(count / 16, least_count(work));
  double elapsed_ns = (double)bench_repeat(bench, system, work, some);
  double expected_ns = elapsed_ns * (double)count / (double)some;
  if (elapsed_ns == 0 || expected_ns <= (double)(PATIENCE * ns))
    return elapsed_ns == 0 ? 0 : count;
  return at_least((uint64_t)((double)count * PATIENCE * (double)ns / expected_ns), least_count(work));
}

uint64_t bench_repeat(bench_t *bench, const bench_system_t *system, bench_work_t *work, uint64_t count) {
  work->microbatches = count;
  uint64_t elapsed_ns = system->run(work);
  if (elapsed_ns == 0)
    bench_fail(bench, system->name, "failed");
  if (bench->rest_ns > 0)
    uv_sleep((unsigned)(bench->rest_ns / 1000000));
  return elapsed_ns;
}
