/* SPDX-License-Identifier: MIT */
/* Threads that belong to nobody: they complete the ops that callbacks leave pending with them, as another
 * library's completion threads do. */
#ifndef TEST_SUPPORT_FOREIGN_H
#define TEST_SUPPORT_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "ovl.h"

typedef struct foreign {
  uv_mutex_t mutex; /* protects all below but `end` */
  uv_cond_t given;
  ovl_op_t **ops; /* a ring */
  size_t capacity, first, count;
  bool stopping;
  void (*end)(ovl_op_t *op);
  uv_thread_t *threads;
  size_t thread_count;
} foreign_t;

/* Starts the threads. At most `capacity` ops may be with them at a time. Each is completed with 0, or, if `end`
 * is not NULL, handed to `end` instead. */
void foreign_start(foreign_t *f, size_t threads, size_t capacity, void (*end)(ovl_op_t *op));

/* Leaves an op with them. Any thread; the caller returns OVL_PENDING. */
void foreign_give(foreign_t *f, ovl_op_t *op);

/* Completes what is left and joins the threads. */
void foreign_stop(foreign_t *f);

#endif
