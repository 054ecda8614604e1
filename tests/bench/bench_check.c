/* SPDX-License-Identifier: MIT */
/* Watches a system at work, so that none wins by breaking a rule: every operation runs once, after the
 * stage before it; a lane runs one at a time; no more than `window` microbatches are between first and
 * last stage. */
#include "bench_check.h"

#include <stdatomic.h>
#include <stdlib.h>

struct bench_check {
  uint32_t stages, lanes, window;
  uint64_t microbatches;
  atomic_uint lane_busy[BENCH_MOST_LANES];
  atomic_uint in_flight;
  atomic_uint_fast64_t ops;
  _Atomic(const char *) broken; /* the first rule */
  atomic_uint at[];             /* by microbatch: 2 s when stage s may begin, 2 s + 1 while it runs */
};

bench_check_t *bench_check_begin(const bench_work_t *work) {
  bench_check_t *check = calloc(1, sizeof *check + (size_t)work->microbatches * sizeof check->at[0]);
  if (check == NULL)
    return NULL;
  check->stages = work->stages;
  check->lanes = work->lanes;
  check->window = work->window;
  check->microbatches = work->microbatches;
  return check;
}

static void expect(bench_check_t *check, bool kept, const char *rule) {
  const char *none = NULL;
  if (!kept)
    atomic_compare_exchange_strong(&check->broken, &none, rule);
}

void bench_check_op_begins(bench_check_t *check, uint64_t microbatch, uint32_t stage) {
  expect(check, microbatch < check->microbatches && stage < check->stages,
         "an operation that does not exist ran");
  if (microbatch >= check->microbatches || stage >= check->stages)
    return;
  unsigned as_is = 2 * stage;
  expect(check, atomic_compare_exchange_strong(&check->at[microbatch], &as_is, 2 * stage + 1),
         "an operation ran before the one that it depends on had ended, or twice");
  expect(check, atomic_fetch_add(&check->lane_busy[stage % check->lanes], 1) == 0,
         "a lane ran two operations at once");
  if (stage == 0)
    expect(check, atomic_fetch_add(&check->in_flight, 1) < check->window,
           "more microbatches were in flight than the window allows");
}

void bench_check_op_ends(bench_check_t *check, uint64_t microbatch, uint32_t stage) {
  if (microbatch >= check->microbatches || stage >= check->stages)
    return;
  if (stage + 1 == check->stages)
    atomic_fetch_sub(&check->in_flight, 1);
  atomic_fetch_sub(&check->lane_busy[stage % check->lanes], 1);
  atomic_store(&check->at[microbatch], 2 * stage + 2);
  atomic_fetch_add(&check->ops, 1);
}

const char *bench_check_end(bench_check_t *check) {
  expect(check, atomic_load(&check->ops) == check->microbatches * check->stages, "an operation did not run");
  const char *broken = atomic_load(&check->broken);
  free(check);
  return broken;
}
