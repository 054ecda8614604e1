/* SPDX-License-Identifier: MIT */
/* A thread pool as one writes it by hand: a mutex around the queues, a condition variable for threads without
 * work. A thread that ended an operation takes the next one itself, and wakes another if there are two. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench_clock.h"
#include "bench_system.h"
#include "hand.h"

typedef struct pool {
  uv_mutex_t mutex; /* protects all below */
  uv_cond_t work_came, state_changed;
  hand_t hand;
  uint32_t idle; /* threads that wait for work */
  bool leaving;
} pool_t;

static void work_off(pool_t *pool) {
  const bench_work_t *work = pool->hand.work;
  hand_op_t op;
  while (hand_take(&pool->hand, &op)) {
    if (pool->idle > 0 && hand_has_next(&pool->hand))
      uv_cond_signal(&pool->work_came);
    uv_mutex_unlock(&pool->mutex);
    bench_op(work, op.microbatch, op.stage);
    uv_mutex_lock(&pool->mutex);
    hand_end(&pool->hand, op);
  }
}

static void thread_main(void *argument) {
  pool_t *pool = argument;
  uv_mutex_lock(&pool->mutex);
  while (!pool->leaving) {
    work_off(pool);
    pool->idle++;
    uv_cond_signal(&pool->state_changed);
    if (!pool->leaving)
      uv_cond_wait(&pool->work_came, &pool->mutex);
    pool->idle--;
  }
  uv_mutex_unlock(&pool->mutex);
}

static uint64_t run_work(pool_t *pool, const bench_work_t *work, uint32_t threads) {
  uv_mutex_lock(&pool->mutex);
  while (pool->idle < threads)
    uv_cond_wait(&pool->state_changed, &pool->mutex);
  uint64_t begun_ns = bench_now_ns();
  hand_begin(&pool->hand, work);
  uv_cond_broadcast(&pool->work_came);
  while (!hand_is_over(&pool->hand))
    uv_cond_wait(&pool->state_changed, &pool->mutex);
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  pool->leaving = true;
  uv_cond_broadcast(&pool->work_came);
  uv_mutex_unlock(&pool->mutex);
  return elapsed_ns;
}

/* The threads wait until the time counts. */
static uint64_t run_pool(const bench_work_t *work) {
  static const bench_work_t nothing = {.lanes = 1, .stages = 1, .window = 1};
  pool_t pool = {.idle = 0};
  uv_thread_t threads[BENCH_MOST_LANES];
  uint32_t count = bench_threads(work);
  hand_begin(&pool.hand, &nothing);
  if (uv_mutex_init(&pool.mutex) != 0 || uv_cond_init(&pool.work_came) != 0 ||
      uv_cond_init(&pool.state_changed) != 0)
    abort();
  for (uint32_t i = 0; i < count; i++)
    if (uv_thread_create(&threads[i], thread_main, &pool) != 0)
      abort();
  uint64_t elapsed_ns = run_work(&pool, work, count);
  for (uint32_t i = 0; i < count; i++)
    uv_thread_join(&threads[i]);
  uv_cond_destroy(&pool.state_changed);
  uv_cond_destroy(&pool.work_came);
  uv_mutex_destroy(&pool.mutex);
  return elapsed_ns;
}

const bench_system_t bench_system_pool = {
    .name = "pool",
    .what = "a thread pool by hand: a mutex, a condition variable, a queue for each lane",
    .is_peer = true,
    .run = run_pool,
};
