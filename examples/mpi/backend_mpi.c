/* SPDX-License-Identifier: MIT */
/* The library never calls run and poll of one lane at the same time, so a lane's fields need no lock; `given_up` alone is
 * set by another thread. */
#include "mpi/backend_mpi.h"

#include <stdio.h>

enum { DATA, STATUS, REQUESTS };

/* ---- the process ---- */

const char *backend_mpi_init(backend_mpi_t *mpi) {
  int main_thread = 0;
  if (MPI_Query_thread(&mpi->level) != MPI_SUCCESS)
    return "MPI does not say which threads may call it";
  if (mpi->level == MPI_THREAD_SINGLE)
    return "MPI was initialised for MPI_THREAD_SINGLE, but pipelines have threads: ask MPI_Init_thread for "
           "more";
  if (MPI_Is_thread_main(&main_thread) != MPI_SUCCESS || !main_thread)
    return "this is not the thread that initialised MPI";
  return uv_mutex_init(&mpi->mutex) == 0 ? NULL : "there is no mutex to be had";
}

void backend_mpi_finish(backend_mpi_t *mpi) { uv_mutex_destroy(&mpi->mutex); }

static void enter(backend_mpi_t *mpi) {
  if (mpi->level == MPI_THREAD_SERIALIZED)
    uv_mutex_lock(&mpi->mutex);
}

static void leave(backend_mpi_t *mpi) {
  if (mpi->level == MPI_THREAD_SERIALIZED)
    uv_mutex_unlock(&mpi->mutex);
}

static int may_call(const backend_mpi_t *mpi) {
  int main_thread = 1;
  if (mpi->level == MPI_THREAD_FUNNELED && MPI_Is_thread_main(&main_thread) != MPI_SUCCESS)
    return 0;
  return main_thread;
}

/* ---- errors ---- */

int backend_mpi_status(int code) {
  int class = MPI_ERR_OTHER;
  if (code == MPI_SUCCESS)
    return 0;
  (void)MPI_Error_class(code, &class); /* of a code that it does not know it is an error of another kind */
  return BACKEND_MPI_ERROR - class;
}

const char *backend_mpi_words(int status, char text[MPI_MAX_ERROR_STRING]) {
  int length;
  if (status == BACKEND_MPI_ETHREAD)
    (void)snprintf(text, MPI_MAX_ERROR_STRING, "not on MPI's main thread, as MPI_THREAD_FUNNELED demands");
  else if (status > BACKEND_MPI_ERROR)
    (void)snprintf(text, MPI_MAX_ERROR_STRING, "%s",
                   status == 0 || status == OVL_ETIMEDOUT || status < -20000 ? ovl_strerror(status)
                                                                             : uv_strerror(status));
  else if (MPI_Error_string(BACKEND_MPI_ERROR - status, text, &length) != MPI_SUCCESS)
    (void)snprintf(text, MPI_MAX_ERROR_STRING, "MPI's error class %d", BACKEND_MPI_ERROR - status);
  return text;
}

void backend_mpi_on_failure(ovl_pipeline_t *pipeline, const ovl_failure_t *failure) {
  if (failure->status == OVL_ETIMEDOUT)
    (void)ovl_pipeline_cancel(pipeline); /* a run that has ended meanwhile needs it no more */
}

/* ---- a lane ---- */

int mpi_lane_init(mpi_lane_t *lane, backend_mpi_t *mpi, MPI_Comm parent) {
  *lane = (mpi_lane_t){.mpi = mpi, .requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
  int code = MPI_Comm_dup(parent, &lane->comm);
  if (code != MPI_SUCCESS)
    return backend_mpi_status(code);
  code = MPI_Comm_set_errhandler(lane->comm, MPI_ERRORS_RETURN);
  if (code != MPI_SUCCESS)
    mpi_lane_finish(lane);
  return backend_mpi_status(code);
}

/* If that fails, there is nothing else to be done with it. */
void mpi_lane_finish(mpi_lane_t *lane) { (void)MPI_Comm_free(&lane->comm); }

void mpi_lane_describe(mpi_lane_t *lane, ovl_lane_options_t *options) {
  options->role = OVL_ROLE_COMM;
  options->kind = lane->mpi->level == MPI_THREAD_FUNNELED ? OVL_LANE_LOOP : OVL_LANE_POOL;
  options->order = OVL_ORDER_FIXED;
  options->data = lane;
  options->poll = mpi_lane_poll;
  options->abort = mpi_lane_abort;
}

/* The least of the complements is the complement of the most. */
int mpi_lane_compare(mpi_lane_t *lane, ovl_pipeline_t *pipeline, uint64_t microbatches,
                     mpi_fingerprints_t *prints) {
  uint64_t own = ovl_pipeline_fingerprint(pipeline, microbatches);
  uint64_t sent[2] = {own, ~own};
  uint64_t least[2];
  int code = MPI_Allreduce(sent, least, 2, MPI_UINT64_T, MPI_MIN, lane->comm);
  if (code != MPI_SUCCESS)
    return backend_mpi_status(code);
  if (prints != NULL)
    *prints = (mpi_fingerprints_t){.own = own, .least = least[0], .most = ~least[1]};
  return least[0] == ~least[1] && own != 0 ? 0 : OVL_EINVAL;
}

/* ---- an op ---- */

int mpi_lane_begin(mpi_lane_t *lane, ovl_op_t *op, MPI_Request **request) {
  if (atomic_load(&lane->given_up))
    return OVL_ECANCELED;
  if (lane->op != NULL)
    return OVL_EBUSY;
  if (!may_call(lane->mpi))
    return BACKEND_MPI_ETHREAD;
  lane->own = op->status;
  enter(lane->mpi);
  int code =
      MPI_Iallreduce(&lane->own, &lane->agreed, 1, MPI_INT, MPI_MIN, lane->comm, &lane->requests[STATUS]);
  lane->error = backend_mpi_status(code);
  if (code != MPI_SUCCESS) {
    leave(lane->mpi);
    return lane->error;
  }
  lane->op = op;
  *request = &lane->requests[DATA];
  return 0;
}

int mpi_lane_started(mpi_lane_t *lane, int code) {
  lane->error = backend_mpi_status(code);
  if (code != MPI_SUCCESS)
    lane->requests[DATA] = MPI_REQUEST_NULL;
  leave(lane->mpi);
  return OVL_PENDING;
}

/* Whether a request is done, or will never be. One that is null is done. */
static int is_done(mpi_lane_t *lane, MPI_Request *request) {
  int done = 0;
  int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS)
    return done;
  *request = MPI_REQUEST_NULL;
  if (lane->error == 0)
    lane->error = backend_mpi_status(code);
  return 1;
}

/* Both, and in the order in which they are likely to end. */
static int test(mpi_lane_t *lane) {
  enter(lane->mpi);
  int done = is_done(lane, &lane->requests[STATUS]) && is_done(lane, &lane->requests[DATA]);
  leave(lane->mpi);
  return done;
}

/* The op is the lane's no more when it is told: the next one may begin at once. */
static void end(mpi_lane_t *lane, int status) {
  ovl_op_t *op = lane->op;
  lane->op = NULL;
  (void)ovl_op_complete(op, status); /* it is in flight, and nobody else completes it */
}

void mpi_lane_poll(ovl_pipeline_t *pipeline, ovl_lane_t id, void *data) {
  mpi_lane_t *lane = data;
  (void)pipeline;
  (void)id;
  if (lane->op == NULL)
    return;
  if (test(lane))
    end(lane, lane->error != 0 ? lane->error : lane->agreed);
  else if (atomic_load(&lane->given_up))
    end(lane, OVL_ECANCELED);
}

/* On the loop's thread, perhaps while the lane is polled on another. */
void mpi_lane_abort(ovl_pipeline_t *pipeline, ovl_lane_t id, void *data) {
  mpi_lane_t *lane = data;
  (void)pipeline;
  (void)id;
  atomic_store(&lane->given_up, 1);
}
