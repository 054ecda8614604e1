/* SPDX-License-Identifier: MIT */
/* The words that every other header uses: typed ids, an operation as its callback sees it, and what
 * a callback may return. */
#ifndef OVL_TYPES_H
#define OVL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OVL_BEGIN_DECLS extern "C" {
#define OVL_END_DECLS }
#else
#define OVL_BEGIN_DECLS
#define OVL_END_DECLS
#endif

#if defined(__GNUC__) || defined(__clang__)
#define OVL_EXTERN __attribute__((visibility("default")))
#else
#define OVL_EXTERN
#endif

OVL_BEGIN_DECLS

/* A pipeline: lanes, stages and dependencies, described once, frozen at its first run (or first
 * submit), run as often as wanted. Opaque.
 * Thread-safety: see the table at the top of ovl/pipeline.h. */
typedef struct ovl_pipeline ovl_pipeline_t;

/* Typed ids: the compiler refuses a lane where a stage belongs. Ids start at 1; id 0 is no lane and
 * no stage, so a forgotten field is noticed. They belong to the pipeline that returned them. */
typedef struct ovl_lane {
  uint32_t id;
} ovl_lane_t;

typedef struct ovl_stage {
  uint32_t id;
} ovl_stage_t;

/* An operation by its numbers: for orders that are given explicitly. */
typedef struct ovl_op_id {
  uint64_t microbatch;
  ovl_stage_t stage;
} ovl_op_id_t;

/* One operation: one stage of one microbatch. Read-only for the callback, and valid until the
 * operation completes: until its callback has returned something else than OVL_PENDING, or
 * ovl_op_complete() has been called for it, whichever is later. */
typedef struct ovl_op {
  ovl_pipeline_t *pipeline;
  uint64_t microbatch; /* 0, 1, 2, ... within this run */
  uint32_t slot;       /* microbatch mod window: index your buffers by it */
  ovl_stage_t stage;
  ovl_lane_t lane;
  int status;   /* of its microbatch: 0, or the error, which only stages marked `always` get to see */
  void *data;   /* the stage's, as given in ovl_stage_options_t */
  void *item;   /* the microbatch's, as submitted; NULL in counted runs */
  void *stream; /* of a device lane: what the callback puts its work on; else NULL */
} ovl_op_t;

/* What an operation's callback returns when ovl_op_complete() will say how it ended. The value is
 * none that CUDA, NCCL or MPI return. */
#define OVL_PENDING 0x4f564c50

/* An operation's callback.
 *   0            done.
 *   OVL_PENDING  later: ovl_op_complete() will be called once for this op.
 *   negative     failed with that code, which is passed on as it is.
 *   other        a positive value is another library's error: the op fails with OVL_EBADRESULT and
 *                the value is kept as ovl_failure_t.native, so `return cudaMemcpyAsync(...)` is an
 *                error and never a hang.
 * Runs on a pool thread for OVL_LANE_POOL (may block), on the loop's thread for OVL_LANE_LOOP (must
 * not block), and on the thread that issues for OVL_LANE_DEVICE, where it puts work on op->stream, must not wait for
 * it, and may not return OVL_PENDING (OVL_EBADRESULT): the op ends in stream order. No lock of the library is held. It must not wait for another op of the same process. */
typedef int (*ovl_op_cb)(ovl_op_t *op);

/* Completes an operation whose callback returned, or is about to return, OVL_PENDING.
 * `status`: 0, a negative error, or another library's positive code (as for ovl_op_cb).
 * The op ends when both have happened: this call, and the return of its callback. If the callback
 * returns something else than OVL_PENDING after this call, the first error of the two counts.
 * Runs no callback on the caller's thread.
 * Any thread, from the start of the op's callback until the run's `done`.
 * Errors: OVL_EALREADY the op has been completed (until its slot is reused, after which the pointer
 *         means another op); OVL_EINVAL op is NULL, was not started, or status is OVL_PENDING. */
OVL_EXTERN int ovl_op_complete(ovl_op_t *op, int status);

OVL_END_DECLS

#endif
