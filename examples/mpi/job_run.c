/* SPDX-License-Identifier: MIT */
/* Runs on all ranks, and what is learnt from them.
 * How long ops took is read from the library's records. An op that communicates begins when its rank is there and ends when
 * all ranks' numbers are; on the rank that comes last nothing but the link is in it, so the least of the ranks counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "mpi/job.h"

/* ---- ends that are not good ---- */

/* Others may wait for this rank, or it for them, and MPI for all: nothing is left but to end the job. */
static void give_up(void) {
  (void)fflush(NULL);
  (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
  abort();
}

static void print_failure(const job_t *job, int status) {
  char what[256] = "a run";
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  if (ovl_pipeline_failure(job->pipeline, &failure) == 0 && failure.stage.id != 0)
    (void)snprintf(what, sizeof what, "'%s' of microbatch %" PRIu64 " on lane '%s'", failure.stage_name,
                   failure.microbatch, failure.lane_name);
  else if (*ovl_pipeline_error(job->pipeline) != '\0')
    (void)snprintf(what, sizeof what, "a run: %s", ovl_pipeline_error(job->pipeline));
  (void)job_complain(job, what, status);
}

/* What a callback returned has been carried to all; MPI's errors and deadlines are this rank's alone. */
static int is_carried(const job_t *job, int status) {
  return !atomic_load(&job->link.given_up) && status > BACKEND_MPI_ETHREAD;
}

/* The ranks' statuses become one. */
static int settle(job_t *job, int status) {
  if (status != 0)
    print_failure(job, status);
  if (status != 0 && !is_carried(job, status))
    give_up();
  int agreed = job_agree(job, status);
  return agreed != 0 && status == 0 ? job_complain(job, "another rank failed", agreed) : agreed;
}

/* ---- one run ---- */

static int compare(job_t *job) {
  mpi_fingerprints_t prints;
  int status = mpi_lane_compare(&job->link, job->pipeline, job->microbatches, &prints);
  if (status != OVL_EINVAL)
    return status == 0 ? 0 : job_complain(job, "comparing fingerprints", status);
  fprintf(stderr,
          "%s: rank %d: its fingerprint is %016" PRIx64 ", and the ranks have from %016" PRIx64
          " to %016" PRIx64 ", so they would communicate in different orders%s%s\n",
          job->program, job->rank, prints.own, prints.least, prints.most, prints.own == 0 ? ": " : "",
          prints.own == 0 ? ovl_pipeline_error(job->pipeline) : "");
  return status;
}

static uint64_t cpu_ns(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0)
    return 0;
  return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
         (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static int prepare(job_t *job, ovl_mode_t mode) {
  job->mode = mode;
  job->runs++;
  atomic_store(&job->computed, 0);
  int status = ovl_pipeline_set_mode(job->pipeline, mode);
  if (status != 0)
    (void)job_complain(job, "choosing the mode", status);
  else if (job->hooks.before != NULL)
    status = job->hooks.before(job, mode);
  return job_agree(job, status);
}

/* All ops' records, and from them their times. */
static int take_records(job_t *job) {
  size_t count = (size_t)job->microbatches * job->times.stages;
  ovl_trace_init(&job->trace, job->records, count);
  int status = ovl_pipeline_trace(job->pipeline, &job->trace);
  op_times_clear(&job->times);
  for (size_t i = 0; i < job->trace.count; i++) {
    const ovl_trace_record_t *record = &job->records[i];
    op_time_t *time = &job->times.ops[record->microbatch * job->times.stages + record->stage.id - 1];
    *time = (op_time_t){record->start_ns, record->end_ns, record->lane.id, time->runs + 1};
  }
  return status;
}

/* This rank's part: every op ran once, no lane ran two at a time, and the run was no faster than its own ops allow. */
static int examine(job_t *job, ovl_mode_t mode, job_run_t *run) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_stats(job->pipeline, &stats);
  if (status == 0)
    status = take_records(job);
  if (status != 0)
    return job_complain(job, "what is known of a run", status);
  run->elapsed_ns = stats.elapsed_ns;
  run->hidden_ns = stats.hidden_ns;
  run->exposed_ns = stats.exposed_ns;
  if (stats.elapsed_ns < stats.bound_ns)
    return job_complain(job, "a run was faster than its bound", OVL_EINVAL);
  return op_times_check(&job->times, mode, job->program) == 0 ? 0 : OVL_EINVAL;
}

static int run_once(job_t *job, ovl_mode_t mode, job_run_t *run) {
  int status = prepare(job, mode);
  if (status == 0)
    status = compare(job);
  if (status != 0)
    return status;
  uint64_t before_ns = cpu_ns();
  status = ovl_pipeline_run(job->pipeline, job->microbatches);
  run->cpu_ns = cpu_ns() - before_ns;
  status = settle(job, status);
  if (status != 0)
    return status;
  status = examine(job, mode, run);
  if (status == 0)
    status = job->hooks.after(job, mode);
  return job_agree(job, status);
}

/* ---- what is learnt ---- */

static int greatest(const job_t *job, uint64_t *values, int count) {
  int code = MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_UINT64_T, MPI_MAX, job->link.comm);
  return code == MPI_SUCCESS ? 0 : job_complain(job, "comparing times", backend_mpi_status(code));
}

static int communicates(const job_t *job, size_t op) { return job->times.ops[op].lane == job->link_lane.id; }

static size_t op_count(const job_t *job) { return (size_t)job->microbatches * job->times.stages; }

static uint64_t took_ns(const job_t *job, size_t op) {
  return job->times.ops[op].end_ns - job->times.ops[op].start_ns;
}

/* From the last run's times: its own where it computes, the least of all ranks' where it communicates. */
static int take_durations(job_t *job) {
  int count = (int)op_count(job);
  for (size_t i = 0; i < op_count(job); i++)
    job->durations[i] = communicates(job, i) ? took_ns(job, i) : UINT64_MAX;
  int code = MPI_Allreduce(MPI_IN_PLACE, job->durations, count, MPI_UINT64_T, MPI_MIN, job->link.comm);
  if (code != MPI_SUCCESS)
    return job_complain(job, "comparing durations", backend_mpi_status(code));
  for (size_t i = 0; i < op_count(job); i++)
    if (!communicates(job, i))
      job->durations[i] = took_ns(job, i);
  return 0;
}

/* The hints: what a stage's ops took on average, the same on all ranks. */
static int take_costs(job_t *job) {
  for (uint32_t s = 0; s < job->times.stages; s++) {
    uint64_t sum_ns = 0;
    for (uint64_t i = 0; i < job->microbatches; i++)
      sum_ns += job->durations[i * job->times.stages + s];
    job->costs[s] = sum_ns / job->microbatches + 1;
  }
  return greatest(job, job->costs, (int)job->times.stages);
}

static uint64_t duration(const ovl_op_t *op, void *data) {
  const job_t *job = data;
  return job->durations[op->microbatch * job->times.stages + op->stage.id - 1];
}

/* Of the rank on which it takes longest. */
static int predict(job_t *job, ovl_mode_t mode, uint64_t *predicted_ns) {
  ovl_simulation_t simulation;
  ovl_stats_t stats;
  ovl_simulation_init(&simulation);
  ovl_stats_init(&stats);
  simulation.duration = duration;
  simulation.data = job;
  int status = ovl_pipeline_set_mode(job->pipeline, mode);
  if (status == 0)
    status = ovl_pipeline_simulate(job->pipeline, job->microbatches, &simulation, &stats);
  status = job_agree(job, status);
  *predicted_ns = stats.elapsed_ns;
  return status == 0 ? greatest(job, predicted_ns, 1) : job_complain(job, "predicting a run", status);
}

static int add_up(job_t *job) {
  uint64_t sums[2] = {0, 0};
  for (size_t i = 0; i < op_count(job); i++)
    sums[communicates(job, i)] += job->durations[i];
  int status = greatest(job, sums, 2);
  job->compute_ns = sums[0];
  job->comm_ns = sums[1];
  return status;
}

/* What the fastest serial run tells. */
static int learn(job_t *job) {
  int status = take_durations(job);
  if (status == 0)
    status = add_up(job);
  if (status == 0)
    status = predict(job, OVL_SERIAL, &job->runs_of_all[OVL_SERIAL].predicted_ns);
  if (status == 0)
    status = predict(job, OVL_OVERLAP, &job->runs_of_all[OVL_OVERLAP].predicted_ns);
  return status;
}

/* A run takes as long as on the rank that was slowest. */
static int measure(job_t *job, ovl_mode_t mode) {
  job_run_t run = {.elapsed_ns = 0};
  run_times_t *best = &job->runs_of_all[mode];
  int status = run_once(job, mode, &run);
  uint64_t measured_ns = run.elapsed_ns;
  if (status == 0)
    status = greatest(job, &measured_ns, 1);
  if (status != 0 || (best->measured_ns != 0 && best->measured_ns <= measured_ns))
    return status;
  best->measured_ns = measured_ns;
  job->own[mode] = run;
  return mode == OVL_SERIAL ? learn(job) : 0;
}

int job_experiment(job_t *job) {
  job_run_t ignored;
  int status = run_once(job, OVL_SERIAL, &ignored);
  if (status == 0)
    status = take_durations(job);
  if (status == 0)
    status = take_costs(job);
  for (uint64_t i = 0; i < job->repeats && status == 0; i++) {
    status = measure(job, OVL_SERIAL);
    if (status == 0)
      status = measure(job, OVL_OVERLAP);
  }
  return status;
}
