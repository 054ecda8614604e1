/* SPDX-License-Identifier: MIT */
/* A rank's part of a job, from MPI's start to its end. */
#include "mpi/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "parts/matrix.h"

const char *const job_levels[] = {"multiple", "serialized", "funneled", "single", NULL};
const char *const job_faults[] = {"none", "error", "killed", "stopped", NULL};

static const int levels[] = {MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_FUNNELED,
                             MPI_THREAD_SINGLE};

/* ---- the process ---- */

void job_init(job_t *job, const char *program, void *data, job_hooks_t hooks) {
  *job =
      (job_t){.program = program, .data = data, .hooks = hooks, .repeats = 3, .timeout_ms = 60000, .size = 1};
}

int job_complain(const job_t *job, const char *what, int status) {
  char words[MPI_MAX_ERROR_STRING];
  fprintf(stderr, "%s: rank %d: %s: %s\n", job->program, job->rank, what, backend_mpi_words(status, words));
  return status;
}

static int start_mpi(job_t *job) {
  int provided;
  int code = MPI_Init_thread(NULL, NULL, levels[job->threads], &provided);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_size(MPI_COMM_WORLD, &job->size);
  return backend_mpi_status(code);
}

static int set_up_lane(job_t *job) {
  const char *why = backend_mpi_init(&job->mpi);
  if (why != NULL) {
    fprintf(stderr, "%s: rank %d: %s\n", job->program, job->rank, why);
    return OVL_EINVAL;
  }
  int status = mpi_lane_init(&job->link, &job->mpi, MPI_COMM_WORLD);
  if (status == 0)
    return 0;
  backend_mpi_finish(&job->mpi);
  return job_complain(job, "a communicator", status);
}

int job_begin(job_t *job) {
  int status = start_mpi(job);
  if (status != 0)
    return job_complain(job, "starting MPI", status);
  status = set_up_lane(job);
  if (status != 0)
    (void)MPI_Finalize(); /* the first error is what counts */
  return status;
}

int job_end(job_t *job, int code) {
  int worst = EXIT_FAULT;
  if (MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, job->link.comm) != MPI_SUCCESS)
    worst = EXIT_FAULT;
  mpi_lane_finish(&job->link);
  backend_mpi_finish(&job->mpi);
  return MPI_Finalize() == MPI_SUCCESS ? worst : EXIT_FAULT;
}

int job_main(void *data) {
  job_t *job = data;
  if (job_begin(job) != 0)
    return EXIT_FAULT;
  int status = job->hooks.set_up(job->data);
  if (status == 0)
    status = job->hooks.work(job->data);
  job->hooks.tear_down(job->data);
  return job_end(job, report_flush(job->program, status == 0 ? EXIT_SUCCESS : EXIT_FAULT));
}

int job_agree(job_t *job, int status) {
  int least;
  int code = MPI_Allreduce(&status, &least, 1, MPI_INT, MPI_MIN, job->link.comm);
  return code == MPI_SUCCESS ? least : backend_mpi_status(code);
}

/* ---- the pipeline ---- */

static uint64_t cost(const ovl_op_t *op) {
  const job_t *job = ovl_pipeline_data(op->pipeline);
  return job->costs[op->stage.id - 1];
}

static int add_lanes(job_t *job) {
  ovl_lane_options_t lane;
  ovl_lane_options_init(&lane);
  lane.name = "compute";
  lane.role = OVL_ROLE_COMPUTE;
  int status = ovl_pipeline_add_lane(job->pipeline, &lane, &job->compute_lane);
  ovl_lane_options_init(&lane);
  lane.name = "link";
  lane.poll_max_ns = job->poll_us * 1000;
  mpi_lane_describe(&job->link, &lane);
  return status == 0 ? ovl_pipeline_add_lane(job->pipeline, &lane, &job->link_lane) : status;
}

/* spin_ns: idle runners would take processors from those that compute. A loop without them polls more often. */
static int describe(job_t *job, size_t records, uint32_t window) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.data = job;
  options.window = window;
  options.spin_ns = job->mpi.level == MPI_THREAD_FUNNELED ? 0 : 1;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.on_failure = backend_mpi_on_failure;
  options.on_microbatch = job->hooks.on_microbatch;
  options.trace = records;
  int status = ovl_pipeline_create(&job->pipeline, &options);
  if (status == 0)
    status = add_lanes(job);
  return status == 0 ? job->hooks.describe(job) : status;
}

/* The least cost there is, until the first run has shown better. */
static int make_room(job_t *job, size_t records, uint32_t stages) {
  job->records = calloc(records, sizeof *job->records);
  job->durations = calloc(records, sizeof *job->durations);
  job->costs = calloc(stages, sizeof *job->costs);
  if (job->records == NULL || job->durations == NULL || job->costs == NULL)
    return OVL_ENOMEM;
  for (uint32_t s = 0; s < stages; s++)
    job->costs[s] = 1;
  return op_times_init(&job->times, job->microbatches, stages);
}

int job_open(job_t *job, uint64_t microbatches, uint32_t window, uint32_t stages) {
  size_t records = (size_t)microbatches * stages;
  job->microbatches = microbatches;
  memset(job->runs_of_all, 0, sizeof job->runs_of_all);
  int status = make_room(job, records, stages);
  if (status != 0)
    (void)job_complain(job, "memory for the records of a run", status);
  else if ((status = describe(job, records, window)) != 0)
    (void)report_refusal(job->program, "describing the pipeline", job->pipeline, status);
  return job_agree(job, status);
}

void job_close(job_t *job) {
  ovl_pipeline_close(job->pipeline, NULL);
  job->pipeline = NULL;
  op_times_finish(&job->times);
  free(job->records);
  free(job->durations);
  free(job->costs);
  job->records = NULL;
  job->durations = job->costs = NULL;
}

int job_add_stage(job_t *job, ovl_stage_options_t *stage, ovl_stage_t *added) {
  stage->data = job->data;
  stage->cost = cost;
  if (stage->lane.id == job->link_lane.id) {
    stage->always = 1;
    stage->timeout_ns = job->timeout_ms * 1000000;
  }
  return ovl_pipeline_add_stage(job->pipeline, stage, added);
}

/* ---- disturbance ---- */

/* Different on each rank, in each run and for each op. */
static void pause_at_random(const job_t *job, const ovl_op_t *op) {
  uint64_t state = (uint64_t)job->rank << 48 ^ job->runs << 32 ^ op->microbatch << 16 ^ op->stage.id;
  uint64_t us = matrix_random(&state) % (job->jitter_us + 1);
  const struct timespec pause = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  (void)nanosleep(&pause, NULL); /* a shorter one is as random */
}

/* The op at which it happens. */
static int go_wrong(const job_t *job) {
  if (job->fault == JOB_ERROR)
    return UV_EIO;
  if (job->fault == JOB_KILLED)
    (void)raise(SIGKILL);
  else if (job->fault == JOB_STOPPED)
    (void)raise(SIGSTOP);
  return 0;
}

int job_disturb(job_t *job, const ovl_op_t *op) {
  if (job->jitter_us > 0)
    pause_at_random(job, op);
  uint64_t number = atomic_fetch_add(&job->computed, 1);
  if (job->mode == OVL_SERIAL || (uint64_t)job->rank != job->fault_rank || number != job->fault_op)
    return 0;
  return go_wrong(job);
}
