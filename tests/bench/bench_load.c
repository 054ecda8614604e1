/* SPDX-License-Identifier: MIT */
/* Threads that compete for the processors and do nothing else. */
#include "bench_load.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

static uv_thread_t *threads;
static unsigned count;
static atomic_bool ending;

static void spin(void *argument) {
  (void)argument;
  while (!atomic_load_explicit(&ending, memory_order_relaxed))
    continue;
}

void bench_load_begin(void) {
  count = uv_available_parallelism();
  threads = malloc(count * sizeof *threads);
  atomic_store(&ending, false);
  for (unsigned i = 0; i < count; i++)
    if (threads == NULL || uv_thread_create(&threads[i], spin, NULL) != 0)
      abort();
}

void bench_load_end(void) {
  atomic_store(&ending, true);
  for (unsigned i = 0; i < count; i++)
    uv_thread_join(&threads[i]);
  free(threads);
  threads = NULL;
}
