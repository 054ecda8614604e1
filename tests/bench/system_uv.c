/* SPDX-License-Identifier: MIT */
/* Plain libuv: each operation is a uv_queue_work(), and what follows from its end is decided on the loop.
 * The loop and the pool stay warm between runs. */
#include <stdio.h>
#include <uv.h>

#include "bench_clock.h"
#include "bench_system.h"
#include "hand.h"

typedef struct request {
  uv_work_t work;
  hand_op_t op;
} request_t;

static uv_loop_t loop;
static hand_t hand;                           /* loop thread */
static request_t requests[BENCH_MOST_WINDOW]; /* by slot: a microbatch has one operation at a time */
static int failure;

static int open_loop(void) { return uv_loop_init(&loop); }

static void close_loop(void) { uv_loop_close(&loop); }

static void do_work(uv_work_t *work) {
  request_t *request = (request_t *)work;
  bench_op(hand.work, request->op.microbatch, request->op.stage);
}

static void after_work(uv_work_t *work, int status);

static void queue_ready(void) {
  hand_op_t op;
  while (failure == 0 && hand_take(&hand, &op)) {
    request_t *request = &requests[op.microbatch % hand.work->window];
    request->op = op;
    failure = uv_queue_work(&loop, &request->work, do_work, after_work);
  }
}

static void after_work(uv_work_t *work, int status) {
  request_t *request = (request_t *)work;
  (void)status;
  hand_end(&hand, request->op);
  queue_ready();
}

static uint64_t run_uv(const bench_work_t *work) {
  uint64_t begun_ns = bench_now_ns();
  failure = 0;
  hand_begin(&hand, work);
  queue_ready();
  uv_run(&loop, UV_RUN_DEFAULT);
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  if (failure != 0)
    fprintf(stderr, "bench: uv: %s\n", uv_strerror(failure));
  return failure == 0 ? elapsed_ns : 0;
}

const bench_system_t bench_system_uv = {
    .name = "uv",
    .what =
        "plain libuv: a uv_queue_work() for each operation, the next one queued by its after-work callback",
    .is_peer = true,
    .open = open_loop,
    .close = close_loop,
    .run = run_uv,
};
