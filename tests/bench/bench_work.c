/* SPDX-License-Identifier: MIT */
/* Durations, the operation itself, and the shortest time in which the work can be done.
 * An operation looks its duration up in a small table and spins that long. */
#include "bench_work.h"

#include <stdlib.h>
#include <uv.h>

#include "bench_check.h"
#include "bench_clock.h"
#include "bench_pipeline.h"
#include "support/random.h"

enum { RANDOM_MICROBATCHES = 1024, SEED = 20240229 };

static uint64_t duration_of(const bench_durations_t *durations, uint32_t stage, random_source_t *random) {
  uint64_t ns = stage % 2 == 0 ? durations->even_ns : durations->odd_ns;
  return durations->random ? random_next(random) % (2 * ns + 1) : ns;
}

bool bench_work_init(bench_work_t *work, const bench_durations_t *durations) {
  static uint64_t numbers;
  random_source_t random = {.state = SEED};
  size_t microbatches = durations->random ? RANDOM_MICROBATCHES : 1, count = microbatches * work->stages;
  work->number = ++numbers;
  work->mask = microbatches - 1;
  work->check = NULL;
  work->ns = malloc(count * sizeof *work->ns);
  work->ticks = malloc(count * sizeof *work->ticks);
  if (work->ns == NULL || work->ticks == NULL) {
    bench_work_finish(work);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    work->ns[i] = duration_of(durations, (uint32_t)(i % work->stages), &random);
    work->ticks[i] = bench_ticks(work->ns[i]);
  }
  return true;
}

void bench_work_finish(bench_work_t *work) {
  free(work->ns);
  free(work->ticks);
  work->ns = work->ticks = NULL;
}

void bench_op(const bench_work_t *work, uint64_t microbatch, uint32_t stage) {
  if (work->check != NULL)
    bench_check_op_begins(work->check, microbatch, stage);
  bench_spin(work->ticks[(microbatch & work->mask) * work->stages + stage]);
  if (work->check != NULL)
    bench_check_op_ends(work->check, microbatch, stage);
}

/* ---- the shortest time ---- */

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t bench_ideal_two_lanes(const bench_work_t *work) {
  uint64_t ends[BENCH_MOST_WINDOW] = {0}; /* of the second stage, by slot */
  uint64_t first = 0, second = 0;
  for (uint64_t j = 0; j < work->microbatches; j++) {
    uint64_t *slot = &ends[j % work->window];
    first = later(first, *slot) + bench_duration(work, j, 0);
    second = later(first, second) + bench_duration(work, j, 1);
    *slot = second;
  }
  return second;
}

uint64_t bench_ideal_simulated(const bench_work_t *work) { return bench_pipeline_simulate(work, NULL, NULL); }

uint64_t bench_ideal_processors(const bench_work_t *work) {
  uint64_t processors = uv_available_parallelism(), lanes = work->lanes;
  uint64_t m = processors < lanes ? processors : lanes;
  return (lanes * work->microbatches + m * (m - 1)) * bench_duration(work, 0, 0) / m;
}
