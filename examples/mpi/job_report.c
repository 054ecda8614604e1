/* SPDX-License-Identifier: MIT */
/* Tables for people, and one object for programs. All ranks send what they saw to rank 0, which prints. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi/job.h"
#include "parts/matrix.h"

#define MODES 2

static const char *level_name(const job_t *job) {
  switch (job->mpi.level) {
  case MPI_THREAD_MULTIPLE:
    return "multiple";
  case MPI_THREAD_SERIALIZED:
    return "serialized";
  default:
    return "funneled";
  }
}

/* ---- tables ---- */

static void print_tables(const job_t *job, const job_run_t *ranks) {
  printf("MPI's threads: %s; products by %s\n", level_name(job), matrix_method());
  printf("a serial run computes for %.3f ms and communicates for %.3f ms\n", report_ms(job->compute_ns),
         report_ms(job->comm_ns));
  report_runs(&job->runs_of_all[OVL_SERIAL], &job->runs_of_all[OVL_OVERLAP]);
  printf("\n  %-8s %14s %14s %18s %22s\n", "rank", "exposed, ms", "hidden, ms", "processors, ms",
         "of that serially, ms");
  for (int r = 0; r < job->size; r++) {
    const job_run_t *overlap = &ranks[MODES * r + OVL_OVERLAP];
    printf("  %-8d %14.3f %14.3f %18.3f %22.3f\n", r, report_ms(overlap->exposed_ns),
           report_ms(overlap->hidden_ns), report_ms(overlap->cpu_ns),
           report_ms(ranks[MODES * r + OVL_SERIAL].cpu_ns));
  }
  printf("\n  predicted: in virtual time, with the durations of the serial run; the fastest of %" PRIu64
         " runs each\n",
         job->repeats);
  if (job->trace_file != NULL)
    printf("  the times of ranks in the trace are right to within %.3f us\n",
           (double)job->clock_error_ns / 1e3);
}

/* ---- JSON ---- */

typedef struct field {
  const char *name;
  ovl_mode_t mode;
  size_t offset; /* in job_run_t */
} field_t;

static const field_t fields[] = {
    {"exposed_ns", OVL_OVERLAP, offsetof(job_run_t, exposed_ns)},
    {"hidden_ns", OVL_OVERLAP, offsetof(job_run_t, hidden_ns)},
    {"cpu_ns", OVL_OVERLAP, offsetof(job_run_t, cpu_ns)},
    {"serial_cpu_ns", OVL_SERIAL, offsetof(job_run_t, cpu_ns)},
};

static void print_field(const job_t *job, const job_run_t *ranks, const field_t *field) {
  printf(", \"%s\": [", field->name);
  for (int r = 0; r < job->size; r++)
    printf("%s%" PRIu64, r == 0 ? "" : ", ",
           *(const uint64_t *)((const char *)&ranks[MODES * r + (int)field->mode] + field->offset));
  printf("]");
}

static void print_json(const job_t *job, const job_run_t *ranks) {
  const run_times_t *serial = &job->runs_of_all[OVL_SERIAL];
  const run_times_t *overlap = &job->runs_of_all[OVL_OVERLAP];
  printf("{\"program\": \"%s\", \"ranks\": %d, \"threads\": \"%s\", \"repeat\": %" PRIu64
         ", \"microbatches\": %" PRIu64,
         job->program, job->size, level_name(job), job->repeats, job->microbatches);
  printf(", \"compute_ns\": %" PRIu64 ", \"comm_ns\": %" PRIu64, job->compute_ns, job->comm_ns);
  printf(", \"serial_ns\": %" PRIu64 ", \"serial_predicted_ns\": %" PRIu64, serial->measured_ns,
         serial->predicted_ns);
  printf(", \"overlapped_ns\": %" PRIu64 ", \"bound_ns\": %" PRIu64, overlap->measured_ns,
         overlap->predicted_ns);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    print_field(job, ranks, &fields[i]);
  if (job->trace_file != NULL)
    printf(", \"clock_error_ns\": %" PRIu64, job->clock_error_ns);
  printf("}\n");
}

/* ---- rank 0 ---- */

static int gather(job_t *job, job_run_t *ranks) {
  int code =
      MPI_Gather(job->own, sizeof job->own, MPI_BYTE, ranks, sizeof job->own, MPI_BYTE, 0, job->link.comm);
  return code == MPI_SUCCESS ? 0 : job_complain(job, "gathering the ranks' times", backend_mpi_status(code));
}

int job_report(job_t *job) {
  job_run_t *ranks = calloc((size_t)job->size * MODES, sizeof *ranks);
  int status = job_agree(job, ranks != NULL ? 0 : OVL_ENOMEM);
  if (status == 0)
    status = gather(job, ranks);
  if (status == 0 && job->rank == 0)
    (job->json ? print_json : print_tables)(job, ranks);
  free(ranks);
  return status;
}
