/* SPDX-License-Identifier: MIT */
/* A backend for communication lanes: sums the buffers of two ranks that live in one process.
 * As with a real collective nobody waits in a callback: who contributes goes on, and both ops end when the other
 * has contributed too and the modelled link has carried the data.
 *
 * A rank has one reduction under way at a time, so its lane has width 1, and both lanes must contribute in the same
 * order: OVL_ORDER_FIXED. Ranks that get out of step are told so, where real ones hang. */
#ifndef EXAMPLES_BACKEND_REDUCE_H
#define EXAMPLES_BACKEND_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "ovl.h"
#include "parts/flight.h"
#include "parts/op_times.h"

#define BACKEND_REDUCE_RANKS 2

/* What a rank brings. */
typedef struct backend_reduce_part {
  ovl_op_t *op;       /* ends when `values` holds the sum; NULL: nothing was brought */
  op_times_t *times;  /* where its end is written; its beginning is the caller's to write */
  float *values;      /* the rank's, then the sum of all ranks', the same bits on each */
  size_t count;       /* of values; the same on each rank */
  uint64_t flight_ns; /* how long the link takes, from the last contribution on; of the last one counts */
} backend_reduce_part_t;

typedef struct backend_reduce {
  flight_t link;
  uv_mutex_t mutex; /* protects all below */
  backend_reduce_part_t parts[BACKEND_REDUCE_RANKS];
  int status; /* why nothing more is reduced; 0 so far */
} backend_reduce_t;

/* 0, or libuv's error; then nothing is held. */
int backend_reduce_init(backend_reduce_t *backend);

/* No run may be using it. */
void backend_reduce_finish(backend_reduce_t *backend);

/* For a stage's `run`: OVL_PENDING; or an error: UV_EPROTO the ranks are out of step, OVL_EBUSY this rank has a
 * reduction under way, or the status of an abort. */
int backend_reduce_contribute(backend_reduce_t *backend, unsigned rank, backend_reduce_part_t part);

/* A rank has failed, so others would wait for ever: what waits now, and all that comes, fails with `status`.
 * What the link carries already arrives. Any thread; as a lane's or a pipeline's on_failure. */
void backend_reduce_abort(backend_reduce_t *backend, int status);

#endif
