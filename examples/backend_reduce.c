/* SPDX-License-Identifier: MIT */
/* The first contribution is kept, the second departs with both, and the link's thread sums and completes.
 * No op is completed with the mutex held. */
#include "backend_reduce.h"

#include <stdio.h>
#include <stdlib.h>

int backend_reduce_init(backend_reduce_t *backend) {
  *backend = (backend_reduce_t){.status = 0};
  int status = uv_mutex_init(&backend->mutex);
  if (status != 0)
    return status;
  status = flight_init(&backend->link);
  if (status != 0)
    uv_mutex_destroy(&backend->mutex);
  return status;
}

void backend_reduce_finish(backend_reduce_t *backend) {
  flight_finish(&backend->link);
  uv_mutex_destroy(&backend->mutex);
}

/* ---- the end of an op ---- */

static void end(const backend_reduce_part_t *part, int status) {
  op_times_end(part->times, part->op);
  int refused = ovl_op_complete(part->op, status);
  if (refused == 0)
    return;
  fprintf(stderr, "backend_reduce: completing a reduction: %s\n", ovl_strerror(refused));
  abort(); /* its run would never end */
}

/* With the mutex held. */
static backend_reduce_part_t take(backend_reduce_t *backend, unsigned rank) {
  backend_reduce_part_t part = backend->parts[rank];
  backend->parts[rank] = (backend_reduce_part_t){.op = NULL};
  return part;
}

/* ---- the link ---- */

/* In the order of ranks, so the same sums every time. */
static void sum(const backend_reduce_part_t *first, const backend_reduce_part_t *second) {
  for (size_t i = 0; i < first->count; i++) {
    float both = first->values[i] + second->values[i];
    first->values[i] = both;
    second->values[i] = both;
  }
}

/* On the link's thread. Both are taken out first: a rank may contribute again as soon as its op has ended. */
static void arrive(void *data) {
  backend_reduce_t *backend = data;
  uv_mutex_lock(&backend->mutex);
  backend_reduce_part_t first = take(backend, 0);
  backend_reduce_part_t second = take(backend, 1);
  uv_mutex_unlock(&backend->mutex);
  sum(&first, &second);
  end(&first, 0);
  end(&second, 0);
}

/* ---- contributing ---- */

static int in_step(const backend_reduce_part_t *a, const backend_reduce_part_t *b) {
  return a->op->stage.id == b->op->stage.id && a->op->microbatch == b->op->microbatch && a->count == b->count;
}

/* With the mutex held. */
static int join(backend_reduce_t *backend, const backend_reduce_part_t *part,
                const backend_reduce_part_t *other) {
  if (!in_step(part, other))
    return UV_EPROTO;
  return flight_depart(&backend->link, part->flight_ns, arrive, backend);
}

/* With the mutex held. */
static int contribute(backend_reduce_t *backend, unsigned rank, const backend_reduce_part_t *part) {
  const backend_reduce_part_t *other = &backend->parts[1 - rank];
  if (backend->status != 0)
    return backend->status;
  if (backend->parts[rank].op != NULL)
    return OVL_EBUSY;
  int status = other->op == NULL ? 0 : join(backend, part, other);
  if (status == 0)
    backend->parts[rank] = *part;
  return status;
}

int backend_reduce_contribute(backend_reduce_t *backend, unsigned rank, backend_reduce_part_t part) {
  uv_mutex_lock(&backend->mutex);
  int status = contribute(backend, rank, &part);
  uv_mutex_unlock(&backend->mutex);
  return status == 0 ? OVL_PENDING : status;
}

void backend_reduce_abort(backend_reduce_t *backend, int status) {
  backend_reduce_part_t waiting = {.op = NULL};
  uv_mutex_lock(&backend->mutex);
  if (backend->status == 0)
    backend->status = status;
  if ((backend->parts[0].op == NULL) != (backend->parts[1].op == NULL))
    waiting = take(backend, backend->parts[0].op == NULL ? 1 : 0);
  uv_mutex_unlock(&backend->mutex);
  if (waiting.op != NULL)
    end(&waiting, status);
}
