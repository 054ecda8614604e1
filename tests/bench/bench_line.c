/* SPDX-License-Identifier: MIT */
/* How long a line of the processors' caches takes from one processor to another. Short operations are bound by it, and
 * on a virtual machine it may change from one minute to the next, as its processors move. */
#include "bench_line.h"

#include <stdatomic.h>
#include <stdint.h>
#include <uv.h>

#include "bench_clock.h"

enum { EXCHANGES = 5000, TRIES = 5 };

#define MOST_NS UINT64_C(10000000) /* for a try: on a busy machine the threads may have to take turns */
#define OVER UINT32_MAX

static struct { _Alignas(128) _Atomic uint32_t turn; /* odd: the thread's */ } ball;

static uint32_t see(void) { return atomic_load_explicit(&ball.turn, memory_order_acquire); }

static void pass(uint32_t turn) { atomic_store_explicit(&ball.turn, turn, memory_order_release); }

static void return_it(void *unused) {
  (void)unused;
  for (uint32_t turn; (turn = see()) != OVER;)
    if (turn % 2 == 1)
      pass(turn + 1);
    else
      bench_pause();
}

/* How often it went there and back in the time that passed. */
static double measure_ns(void) {
  uv_thread_t thread;
  pass(1);
  if (uv_thread_create(&thread, return_it, NULL) != 0)
    return 0;
  while (see() != 2) /* it is there */
    bench_pause();
  uint64_t begun_ns = bench_now_ns(), passed_ns = 0;
  uint32_t exchanges = 0;
  while (exchanges < EXCHANGES && passed_ns < MOST_NS) {
    pass(2 * exchanges + 3);
    while (see() != 2 * exchanges + 4)
      bench_pause();
    exchanges++;
    passed_ns = exchanges % 100 == 0 ? bench_now_ns() - begun_ns : passed_ns;
  }
  passed_ns = bench_now_ns() - begun_ns;
  pass(OVER);
  uv_thread_join(&thread);
  return (double)passed_ns / (2.0 * exchanges);
}

double bench_line_ns(void) {
  double least_ns = 0;
  for (int i = 0; i < TRIES && uv_available_parallelism() > 1; i++) {
    double ns = measure_ns();
    if (least_ns == 0 || ns < least_ns)
      least_ns = ns;
  }
  return least_ns;
}
