/* SPDX-License-Identifier: MIT */
/* MPI for communication lanes: non-blocking collectives, made to progress by the lane's poll hook.
 * Plain C on MPI 3.0 or later and libuv; copy this pair of files into your project.
 *
 *   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
 *   why = backend_mpi_init(&mpi);                      not NULL: what is wrong with it, in words
 *   mpi_lane_init(&link, &mpi, MPI_COMM_WORLD);        all ranks together; a communicator for each lane
 *   ovl_lane_options_init(&lane);
 *   mpi_lane_describe(&link, &lane);                   then a name, and ovl_pipeline_add_lane
 *   mpi_lane_compare(&link, pipeline, n, &prints);     all ranks together, before each run
 *
 *   static int run_reduction(ovl_op_t *op) {           a stage's `run`
 *     MPI_Request *request;
 *     int status = mpi_lane_begin(link, op, &request);
 *     if (status != 0)
 *       return status;
 *     return mpi_lane_started(link, MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, link->comm, request));
 *   }
 *
 * MPI makes no progress by itself: a collective that was started stands still until somebody calls MPI. The poll hook
 * does so, with a pause in between (poll_max_ns of the lane), on whatever thread the lane's kind has:
 *
 *   thread level   lanes
 *   MULTIPLE       pool lanes; each calls MPI whenever it wants to
 *   SERIALIZED     pool lanes; a mutex lets one of them call MPI at a time, run and poll alike
 *   FUNNELED       loop lanes; the pipeline must be run, or its loop turned, by MPI's main thread
 *   SINGLE         refused
 *
 * Errors of one rank reach the others. Beside each collective goes another one of one number: the status of the microbatch,
 * of which all ranks get the least. So an op ends with the same error on all ranks, if the microbatch has failed on any of
 * them, and whatever is in its buffers is worth nothing then. For this the stages of the lane must be `always`, so that a
 * rank where a microbatch has failed takes part in its collectives all the same, and the pipeline OVL_ON_ERROR_CONTINUE:
 * a rank that stops does not admit the microbatches that others have admitted, and whose collectives they wait in.
 *
 * A rank that is no more takes part in nothing. Who waits for it is freed by the stage's timeout_ns, with on_failure or
 * what it calls being backend_mpi_on_failure: the run is stopped, the lane's abort hook gives the collective up, and the run
 * ends with OVL_ETIMEDOUT. MPI still holds the buffers and the lane then, and all that is left is to report, and MPI_Abort. */
#ifndef EXAMPLES_MPI_BACKEND_MPI_H
#define EXAMPLES_MPI_BACKEND_MPI_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "ovl.h"

/* MPI's error classes are small and positive, libovl's and libuv's codes negative: class c is BACKEND_MPI_ERROR - c, which
 * is none of theirs. */
#define BACKEND_MPI_ERROR (-40000)

/* FUNNELED, and the lane is not on MPI's main thread. */
#define BACKEND_MPI_ETHREAD (BACKEND_MPI_ERROR + 1)

/* What the lanes of a process share. */
typedef struct backend_mpi {
  int level;        /* MPI_THREAD_..., as provided */
  uv_mutex_t mutex; /* SERIALIZED: held around each call of MPI by a lane */
} backend_mpi_t;

/* After MPI_Init_thread, on its thread. NULL, or why lanes cannot use MPI as it was initialised; then nothing is held. */
const char *backend_mpi_init(backend_mpi_t *mpi);

/* After the last lane's. */
void backend_mpi_finish(backend_mpi_t *mpi);

/* What a function here, and so a callback, returns for MPI's code: 0, or a negative value. Where MPI may be called, as
 * what follows. */
int backend_mpi_status(int code);

/* A status in words: MPI's for those that come from it, else libovl's or libuv's. Returns `text`. */
const char *backend_mpi_words(int status, char text[MPI_MAX_ERROR_STRING]);

/* For ovl_pipeline_options_t.on_failure: an op that outlived its deadline stops the run, whatever on_error says. */
void backend_mpi_on_failure(ovl_pipeline_t *pipeline, const ovl_failure_t *failure);

/* A lane: a communicator, and the one collective that is under way on it, as a lane of fixed order has width 1. */
typedef struct mpi_lane {
  backend_mpi_t *mpi;
  MPI_Comm comm;           /* the lane's own; returns its errors */
  ovl_op_t *op;            /* under way; NULL: none */
  MPI_Request requests[2]; /* the op's collective, and that of its status */
  int own;                 /* what this rank says of the microbatch */
  int agreed;              /* the least that any rank says */
  int error;               /* the first that MPI returned for this op; 0: none */
  atomic_int given_up;     /* the run was stopped: nothing is waited for any more */
} mpi_lane_t;

/* What ranks said before a run. */
typedef struct mpi_fingerprints {
  uint64_t own;
  uint64_t least; /* of all ranks */
  uint64_t most;
} mpi_fingerprints_t;

/* Collective over `parent`: all its ranks call it, in the same order for all lanes. 0, or MPI's error; then nothing is
 * held. FUNNELED: on the main thread; else any, while no lane runs. */
int mpi_lane_init(mpi_lane_t *lane, backend_mpi_t *mpi, MPI_Comm parent);

/* Collective, too. Not of a lane that was given up: MPI may still be writing. */
void mpi_lane_finish(mpi_lane_t *lane);

/* Sets what the lane needs to be: role, kind, order, data, poll and abort. */
void mpi_lane_describe(mpi_lane_t *lane, ovl_lane_options_t *options);

/* Before each run of `microbatches` microbatches, in the mode it will have; collective. `prints` may be NULL.
 * 0; OVL_EINVAL: the fingerprints differ, so the ranks would issue their collectives in different orders, or one of
 * them is 0, for which ovl_pipeline_error on that rank says why; or MPI's error. Threads as mpi_lane_init. */
int mpi_lane_compare(mpi_lane_t *lane, ovl_pipeline_t *pipeline, uint64_t microbatches,
                     mpi_fingerprints_t *prints);

/* For a stage's `run`, before it starts a collective on lane->comm with *request. Not 0: that is what `run` returns, and
 * nothing is to be started: OVL_ECANCELED the lane was given up; OVL_EBUSY an op is under way, so the lane is not as
 * described; BACKEND_MPI_ETHREAD; MPI's error. 0: mpi_lane_started is due, on the same thread. */
int mpi_lane_begin(mpi_lane_t *lane, ovl_op_t *op, MPI_Request **request);

/* With what starting the collective returned. Returns what `run` does: OVL_PENDING, also if it could not be started, for
 * the collective of the status is under way; then the op ends with that error, and on the other ranks by its deadline. */
int mpi_lane_started(mpi_lane_t *lane, int code);

/* The lane's hooks, as mpi_lane_describe sets them, for those who wrap them. */
void mpi_lane_poll(ovl_pipeline_t *pipeline, ovl_lane_t id, void *lane);
void mpi_lane_abort(ovl_pipeline_t *pipeline, ovl_lane_t id, void *lane);

#endif
