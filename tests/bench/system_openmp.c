/* SPDX-License-Identifier: MIT */
/* OpenMP: one thread of the team makes a task for each operation, which depends on its microbatch's slot,
 * that is on the stage before and on the window, and on its lane. So a lane keeps the order in which tasks
 * are made. */
#include <omp.h>

#include "bench_clock.h"
#include "bench_system.h"

static char slots[BENCH_MOST_WINDOW], lanes[BENCH_MOST_LANES]; /* only their addresses matter */

static void make_task(const bench_work_t *work, uint64_t microbatch, uint32_t stage) {
  char *slot = &slots[microbatch % work->window], *lane = &lanes[bench_lane_of(work, stage)];
  (void)slot;
  (void)lane;
#pragma omp task default(none) firstprivate(work, microbatch, stage, slot, lane) depend(inout      \
                                                                                        : slot[0]) \
    depend(inout                                                                                   \
           : lane[0])
  bench_op(work, microbatch, stage);
}

static void make_all(const bench_work_t *work) {
  for (uint64_t i = 0; i < work->microbatches; i++)
    for (uint32_t s = 0; s < work->stages; s++)
      make_task(work, i, s);
}

/* Several stages share a lane: microbatch by microbatch would leave nothing to overlap, so a window of
 * microbatches goes through stage by stage. */
static void make_all_by_stage(const bench_work_t *work) {
  for (uint64_t first = 0; first < work->microbatches; first += work->window)
    for (uint32_t s = 0; s < work->stages; s++)
      for (uint64_t i = first; i < first + work->window && i < work->microbatches; i++)
        make_task(work, i, s);
}

/* The team is made before the time counts, and sent home after it: it would go on spinning while others are
 * measured. The region ends when all tasks have. */
static uint64_t run_openmp(const bench_work_t *work) {
  int threads = (int)bench_threads(work);
#pragma omp parallel num_threads(threads)
  {}
  uint64_t begun_ns = bench_now_ns();
#pragma omp parallel num_threads(threads) default(none) shared(work)
#pragma omp single
  {
    if (work->stages > work->lanes)
      make_all_by_stage(work);
    else
      make_all(work);
  }
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  omp_pause_resource_all(omp_pause_soft);
  return elapsed_ns;
}

const bench_system_t bench_system_openmp = {
    .name = "openmp",
#if defined(__clang__)
    .what = "OpenMP tasks (libomp) with depend(inout) on slot and lane, made by one thread of the team",
#else
    .what = "OpenMP tasks (libgomp) with depend(inout) on slot and lane, made by one thread of the team",
#endif
    .is_peer = true,
    .run = run_openmp,
};
