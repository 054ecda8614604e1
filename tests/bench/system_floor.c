/* SPDX-License-Identifier: MIT */
/* The floor: a thread for each lane, as far as there are processors, a counter for each stage, and nothing
 * else. A thread goes through its operations in an order that was worked out before, and spins until the
 * counter of the stage before has passed. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench_clock.h"
#include "bench_pipeline.h"
#include "bench_system.h"

enum { LINE = 128, SPINS = 2000 };

typedef struct counter {
  _Alignas(LINE) atomic_uint_fast64_t value; /* microbatches that the stage has done */
} counter_t;

typedef struct floor_run {
  const bench_work_t *work;
  counter_t stages[BENCH_MOST_STAGES];
  counter_t arrived; /* threads that wait for the start */
  counter_t go;
  uint32_t threads;
  uint8_t *order[BENCH_MOST_LANES]; /* by thread: its stages in their order; NULL: it has one stage */
  uint64_t ordered[BENCH_MOST_LANES];
} floor_run_t;

typedef struct floor_thread {
  floor_run_t *run;
  uint32_t number;
  uv_thread_t thread;
} floor_thread_t;

/* Looks at the counter only when what it saw last is not enough. After a while it lets others run. */
static void wait_for(counter_t *counter, uint64_t least, uint64_t *seen) {
  for (unsigned spins = 0; *seen < least; spins++) {
    *seen = atomic_load_explicit(&counter->value, memory_order_acquire);
    if (*seen >= least)
      return;
    if (spins < SPINS)
      bench_pause();
    else
      sched_yield();
  }
}

/* What an operation waits for: the stage before it, or, for the first stage, room in the window. */
static void wait_turn(floor_run_t *run, uint64_t microbatch, uint32_t stage, uint64_t *seen) {
  uint32_t window = run->work->window;
  if (stage > 0)
    wait_for(&run->stages[stage - 1], microbatch + 1, seen);
  else if (microbatch >= window)
    wait_for(&run->stages[run->work->stages - 1], microbatch + 1 - window, seen);
}

static void work_one_stage(floor_run_t *run, uint32_t stage) {
  uint64_t seen = 0;
  for (uint64_t i = 0; i < run->work->microbatches; i++) {
    wait_turn(run, i, stage, &seen);
    bench_op(run->work, i, stage);
    atomic_store_explicit(&run->stages[stage].value, i + 1, memory_order_release);
  }
}

static void work_in_order(floor_run_t *run, uint32_t thread) {
  uint64_t seen[BENCH_MOST_STAGES] = {0}, next[BENCH_MOST_STAGES] = {0};
  for (uint64_t k = 0; k < run->ordered[thread]; k++) {
    uint32_t stage = run->order[thread][k];
    uint64_t i = next[stage]++;
    wait_turn(run, i, stage, &seen[stage]);
    bench_op(run->work, i, stage);
    atomic_store_explicit(&run->stages[stage].value, i + 1, memory_order_release);
  }
}

static void thread_main(void *argument) {
  floor_thread_t *thread = argument;
  floor_run_t *run = thread->run;
  uint64_t seen = 0;
  atomic_fetch_add(&run->arrived.value, 1);
  wait_for(&run->go, 1, &seen);
  if (run->order[thread->number] == NULL)
    work_one_stage(run, thread->number);
  else
    work_in_order(run, thread->number);
}

/* ---- the order of threads with several stages: that of the simulator, for as many lanes as threads ---- */

static void note_op(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data) {
  floor_run_t *run = data;
  uint32_t thread = op->lane.id - 1;
  (void)start_ns;
  (void)end_ns;
  run->order[thread][run->ordered[thread]++] = (uint8_t)(op->stage.id - 1);
}

static bool plan(floor_run_t *run) {
  bench_work_t work = *run->work;
  if (work.stages <= run->threads)
    return true;
  for (uint32_t t = 0; t < run->threads; t++)
    if ((run->order[t] = malloc((size_t)(work.microbatches * work.stages))) == NULL)
      return false;
  work.lanes = run->threads;
  return bench_pipeline_simulate(&work, note_op, run) != 0;
}

/* ---- a run ---- */

/* The calling thread is the first. */
static uint64_t run_threads(floor_run_t *run) {
  floor_thread_t threads[BENCH_MOST_LANES];
  uint32_t count = 1;
  uint64_t seen = 0;
  threads[0] = (floor_thread_t){.run = run, .number = 0};
  while (count < run->threads) {
    threads[count] = (floor_thread_t){.run = run, .number = count};
    if (uv_thread_create(&threads[count].thread, thread_main, &threads[count]) != 0)
      abort(); /* those that were made wait for those that were not */
    count++;
  }
  wait_for(&run->arrived, count - 1, &seen);
  uint64_t begun_ns = bench_now_ns();
  atomic_store(&run->go.value, 1);
  thread_main(&threads[0]);
  seen = 0;
  wait_for(&run->stages[run->work->stages - 1], run->work->microbatches, &seen);
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  for (uint32_t t = 1; t < count; t++)
    uv_thread_join(&threads[t].thread);
  return elapsed_ns;
}

static uint64_t run_floor(const bench_work_t *work) {
  floor_run_t *run = aligned_alloc(LINE, sizeof *run);
  if (run == NULL)
    return 0;
  *run = (floor_run_t){.work = work, .threads = bench_threads(work)};
  uint64_t elapsed_ns = 0;
  if (plan(run))
    elapsed_ns = run_threads(run);
  else
    fputs("bench: floor: no memory for the order\n", stderr);
  for (uint32_t t = 0; t < run->threads; t++)
    free(run->order[t]);
  free(run);
  return elapsed_ns;
}

const bench_system_t bench_system_floor = {
    .name = "floor",
    .what = "no library: a thread for each lane, or processor, that spins on the counter of the stage before",
    .run = run_floor,
};
