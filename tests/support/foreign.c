/* SPDX-License-Identifier: MIT */
/* A ring of ops under a mutex, served by all threads. */
#include "support/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "support/faults.h"

/* The next op; NULL: there is none and there will be none. */
static ovl_op_t *next(foreign_t *f) {
  ovl_op_t *op = NULL;
  uv_mutex_lock(&f->mutex);
  while (f->count == 0 && !f->stopping)
    uv_cond_wait(&f->given, &f->mutex);
  if (f->count > 0) {
    op = f->ops[f->first];
    f->first = (f->first + 1) % f->capacity;
    f->count--;
  }
  uv_mutex_unlock(&f->mutex);
  return op;
}

static void serve(void *argument) {
  foreign_t *f = argument;
  ovl_op_t *op;
  while ((op = next(f)) != NULL)
    f->end(op);
}

static void complete(ovl_op_t *op) {
  int r = ovl_op_complete(op, 0);
  expect(r == 0, "ovl_op_complete on a foreign thread: %s", ovl_err_name(r));
}

void foreign_start(foreign_t *f, size_t threads, size_t capacity, void (*end)(ovl_op_t *op)) {
  memset(f, 0, sizeof *f);
  f->capacity = capacity;
  f->end = end != NULL ? end : complete;
  f->ops = calloc(capacity, sizeof *f->ops);
  f->threads = calloc(threads, sizeof *f->threads);
  if (f->ops == NULL || f->threads == NULL || uv_mutex_init(&f->mutex) != 0 || uv_cond_init(&f->given) != 0)
    abort();
  for (; f->thread_count < threads; f->thread_count++)
    if (uv_thread_create(&f->threads[f->thread_count], serve, f) != 0)
      abort();
}

void foreign_give(foreign_t *f, ovl_op_t *op) {
  uv_mutex_lock(&f->mutex);
  expect(f->count < f->capacity, "more than %zu ops in flight", f->capacity);
  if (f->count < f->capacity)
    f->ops[(f->first + f->count++) % f->capacity] = op;
  uv_cond_signal(&f->given);
  uv_mutex_unlock(&f->mutex);
}

void foreign_stop(foreign_t *f) {
  uv_mutex_lock(&f->mutex);
  f->stopping = true;
  uv_cond_broadcast(&f->given);
  uv_mutex_unlock(&f->mutex);
  for (size_t i = 0; i < f->thread_count; i++)
    uv_thread_join(&f->threads[i]);
  uv_cond_destroy(&f->given);
  uv_mutex_destroy(&f->mutex);
  free(f->threads);
  free(f->ops);
}
