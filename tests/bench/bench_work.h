/* SPDX-License-Identifier: MIT */
/* The work that every system gets: microbatches that go through a chain of stages, each stage on a lane that
 * takes one operation at a time, with so many microbatches in flight. Stage s is on lane s mod lanes. */
#ifndef OVL_BENCH_WORK_H
#define OVL_BENCH_WORK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_MOST_LANES = 8, BENCH_MOST_STAGES = 8, BENCH_MOST_WINDOW = 16 };

typedef struct bench_check bench_check_t;

typedef struct bench_work {
  uint64_t number; /* no two have the same */
  uint64_t microbatches;
  uint32_t lanes, stages, window;
  uint64_t *ns;    /* durations: [(microbatch & mask) * stages + stage] */
  uint64_t *ticks; /* the same for bench_spin() */
  uint64_t mask;
  bench_check_t *check; /* NULL: nobody watches */
} bench_work_t;

/* How long the stages take: those of even number, and those of odd number. */
typedef struct bench_durations {
  uint64_t even_ns, odd_ns;
  bool random; /* evenly spread between 0 and twice that, the same for all systems and runs */
} bench_durations_t;

/* The caller sets lanes, stages and window before, and microbatches before a run. False: no memory. */
bool bench_work_init(bench_work_t *work, const bench_durations_t *durations);
void bench_work_finish(bench_work_t *work);

static inline uint32_t bench_lane_of(const bench_work_t *work, uint32_t stage) { return stage % work->lanes; }

static inline uint64_t bench_duration(const bench_work_t *work, uint64_t microbatch, uint32_t stage) {
  return work->ns[(microbatch & work->mask) * work->stages + stage];
}

/* What each system calls for each operation, exactly once. Any thread. */
void bench_op(const bench_work_t *work, uint64_t microbatch, uint32_t stage);

/* ---- watching whether a system keeps the rules ---- */

/* Of a work whose number of microbatches is set. NULL: no memory. */
bench_check_t *bench_check_begin(const bench_work_t *work);

/* NULL: every operation ran once and in its place; else the first rule that was broken. Frees the check. */
const char *bench_check_end(bench_check_t *check);

/* ---- the shortest time that the rules allow: `elapsed` of efficiency 1 ---- */

/* Two lanes, a stage on each: S1(j) = max(E1(j-1), E2(j-W)), S2(j) = max(E1(j), E2(j-1)), E = S +
 * duration. */
uint64_t bench_ideal_two_lanes(const bench_work_t *work);

/* What libovl's simulator says for the order "first ready first" on lanes that are all independent. */
uint64_t bench_ideal_simulated(const bench_work_t *work);

/* L lanes with one stage of g each on P processors, m = min(L, P): at the beginning and at the end of the run
 * processors lack work for m(m-1)/2 operations each, and all others share L n, so (L n + m(m-1)) g / m. */
uint64_t bench_ideal_processors(const bench_work_t *work);

#ifdef __cplusplus
}
#endif

#endif
