/* SPDX-License-Identifier: MIT */
/* Asynchronous operations: from ovl_op_complete() on a foreign thread to the start of the successor, with
 * runners that spin, that sleep, and that gave their thread back; beside the bare means of waking a
 * thread. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"
#include "bench_clock.h"
#include "bench_pipeline.h"

typedef enum kind { PIPELINE, PIPELINE_TO_LOOP, FLAG, SEMAPHORE, ASYNC } kind_t;

/* How one row is measured. The sender waits gap_ns before each hand-over, so that the other side is in the
 * state that is meant: a pool thread without work sleeps after spin_ns, and after 2 ms more gives itself
 * back. */
typedef struct way {
  const char *label, *system;
  kind_t kind;
  uint64_t gap_ns, spin_ns, samples;
} way_t;

static const way_t ways[] = {
    {"spinning", "libovl", PIPELINE, 20000, 10000000, 5000},
    {"spinning", "atomic flag", FLAG, 20000, 0, 5000},
    {"parked", "libovl", PIPELINE, 300000, 1, 2000},
    {"parked", "uv_sem", SEMAPHORE, 300000, 0, 2000},
    {"thread given back", "libovl", PIPELINE, 5000000, 1, 200},
    {"to the loop", "libovl", PIPELINE_TO_LOOP, 300000, 0, 2000},
    {"to the loop", "uv_async", ASYNC, 300000, 0, 2000},
};

enum { WAYS = sizeof ways / sizeof ways[0], PARTS = 5 };

typedef struct hand_over {
  const way_t *way;
  uint64_t samples, received;
  double *ns;
  atomic_uint_fast64_t sent_ns;
  atomic_uint_fast64_t wanted; /* how many hand-overs the receiver is ready for */
  _Atomic(ovl_op_t *) op;      /* pipelines: what is to be completed */
  atomic_uint_fast64_t flag;
  uv_sem_t semaphore;
  uv_loop_t loop;
  uv_async_t async;
} hand_over_t;

/* ---- the sender's thread ---- */

static void wait_gap(uint64_t gap_ns) {
  uint64_t end_ns = bench_now_ns() + gap_ns;
  while (bench_now_ns() < end_ns)
    bench_pause();
}

static void send_one(hand_over_t *h, uint64_t number) {
  ovl_op_t *op = atomic_load(&h->op);
  atomic_store(&h->sent_ns, bench_now_ns());
  switch (h->way->kind) {
  case PIPELINE:
  case PIPELINE_TO_LOOP:
    ovl_op_complete(op, 0);
    break;
  case FLAG:
    atomic_store(&h->flag, number);
    break;
  case SEMAPHORE:
    uv_sem_post(&h->semaphore);
    break;
  case ASYNC:
    uv_async_send(&h->async);
    break;
  }
}

static void sender_main(void *argument) {
  hand_over_t *h = argument;
  for (uint64_t number = 1; number <= h->samples; number++) {
    for (unsigned spins = 0; atomic_load(&h->wanted) < number; spins++)
      if (spins < 1000)
        bench_pause();
      else
        sched_yield();
    wait_gap(h->way->gap_ns);
    send_one(h, number);
  }
}

/* ---- the receiver ---- */

static void receive(hand_over_t *h) {
  uint64_t now_ns = bench_now_ns();
  h->ns[h->received++] = (double)(now_ns - atomic_load(&h->sent_ns));
}

static int leave_pending(ovl_op_t *op) {
  hand_over_t *h = op->data;
  atomic_store(&h->op, op);
  atomic_store(&h->wanted, op->microbatch + 1);
  return OVL_PENDING;
}

static int succeed(ovl_op_t *op) {
  receive(op->data);
  return 0;
}

static int wait_or_succeed(ovl_op_t *op) { return op->stage.id == 1 ? leave_pending(op) : succeed(op); }

static void run_pipeline(hand_over_t *h) {
  ovl_pipeline_t *pipeline =
      bench_pipeline_open(&(bench_shape_t){.lanes = 2,
                                           .stages = 2,
                                           .window = 1,
                                           .run = wait_or_succeed,
                                           .data = h,
                                           .spin_ns = h->way->spin_ns,
                                           .loop_last = h->way->kind == PIPELINE_TO_LOOP});
  if (pipeline == NULL || bench_pipeline_run(pipeline, &h->loop, h->samples) == 0)
    abort(); /* the sender waits */
  ovl_pipeline_close(pipeline, NULL);
}

static void run_flag(hand_over_t *h) {
  for (uint64_t number = 1; number <= h->samples; number++) {
    atomic_store(&h->wanted, number);
    while (atomic_load_explicit(&h->flag, memory_order_acquire) < number)
      bench_pause();
    receive(h);
  }
}

static void run_semaphore(hand_over_t *h) {
  for (uint64_t number = 1; number <= h->samples; number++) {
    atomic_store(&h->wanted, number);
    uv_sem_wait(&h->semaphore);
    receive(h);
  }
}

static void on_async(uv_async_t *async) {
  hand_over_t *h = async->data;
  receive(h);
  if (h->received < h->samples)
    atomic_store(&h->wanted, h->received + 1);
  else
    uv_close((uv_handle_t *)async, NULL);
}

static void run_async(hand_over_t *h) {
  h->async.data = h;
  atomic_store(&h->wanted, 1);
  uv_run(&h->loop, UV_RUN_DEFAULT);
}

static void receive_all(hand_over_t *h) {
  switch (h->way->kind) {
  case PIPELINE:
  case PIPELINE_TO_LOOP:
    run_pipeline(h);
    break;
  case FLAG:
    run_flag(h);
    break;
  case SEMAPHORE:
    run_semaphore(h);
    break;
  case ASYNC:
    run_async(h);
    break;
  }
}

/* ---- a row ---- */

static void measure(hand_over_t *h) {
  uv_thread_t sender;
  if (uv_loop_init(&h->loop) != 0 || uv_sem_init(&h->semaphore, 0) != 0)
    abort();
  if (h->way->kind == ASYNC && uv_async_init(&h->loop, &h->async, on_async) != 0)
    abort();
  if (uv_thread_create(&sender, sender_main, h) != 0)
    abort();
  receive_all(h);
  uv_thread_join(&sender);
  uv_sem_destroy(&h->semaphore);
  uv_loop_close(&h->loop);
}

static void report(bench_t *bench, const bench_scenario_t *scenario, const way_t *way, double *ns,
                   size_t count) {
  bench_result_t result = {.scenario = scenario->name, .system = way->system, .unit = "ns"};
  snprintf(result.label, sizeof result.label, "%s", way->label);
  result.summary = bench_summarize(ns, count);
  bench_report_row(&bench->report, &result);
}

/* In turns, a part of the samples at a time: they are to be compared. */
void bench_run_hand_over(bench_t *bench, const bench_scenario_t *scenario) {
  double *ns[WAYS] = {NULL};
  size_t received[WAYS] = {0};
  bench_report_title(&bench->report, scenario->name, scenario->what);
  bench_report_head();
  for (size_t part = 0; part < PARTS; part++)
    for (size_t w = 0; w < WAYS; w++) {
      uint64_t samples = (bench_scale(bench, ways[w].samples) + PARTS - 1) / PARTS;
      if (part == 0 && (ns[w] = calloc(PARTS * (size_t)samples, sizeof *ns[w])) == NULL)
        abort();
      hand_over_t h = {.way = &ways[w], .samples = samples, .ns = &ns[w][received[w]]};
      bench_report_progress(&bench->report, scenario->name, ways[w].label, ways[w].system);
      measure(&h);
      received[w] += (size_t)h.received;
    }
  for (size_t w = 0; w < WAYS; w++) {
    report(bench, scenario, &ways[w], ns[w], received[w]);
    free(ns[w]);
  }
}
