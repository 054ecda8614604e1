/* SPDX-License-Identifier: MIT */
/* The records of all ranks become views of rank 0's pipeline, which is described as theirs are. They are sent as bytes:
 * all ranks run this program, on machines of one kind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/clocks.h"
#include "mpi/job.h"

#define BARRIERS 100

/* What a rank sends beside its records. */
typedef struct header {
  uint64_t start_ns;
  uint64_t elapsed_ns;
  clocks_offset_t offset; /* of rank 0's clock to its own */
} header_t;

/* ---- clocks ---- */

static int pass_barriers(job_t *job, clocks_barrier_t *barriers) {
  int code = MPI_SUCCESS;
  for (int i = 0; i < BARRIERS && code == MPI_SUCCESS; i++) {
    barriers[i].entered_ns = uv_hrtime();
    code = MPI_Barrier(job->link.comm);
    barriers[i].left_ns = uv_hrtime();
  }
  return code;
}

static int compare_clocks(job_t *job, clocks_offset_t *offset) {
  clocks_barrier_t ours[BARRIERS], theirs[BARRIERS];
  int code = pass_barriers(job, ours);
  memcpy(theirs, ours, sizeof theirs);
  if (code == MPI_SUCCESS)
    code = MPI_Bcast(theirs, sizeof theirs, MPI_BYTE, 0, job->link.comm);
  *offset = clocks_unknown();
  for (int i = 0; i < BARRIERS; i++)
    clocks_narrow(offset, &theirs[i], &ours[i]);
  if (job->rank == 0)
    *offset = (clocks_offset_t){0, 0};
  return backend_mpi_status(code);
}

/* ---- rank 0: the file ---- */

typedef struct gathered {
  header_t *headers;
  ovl_trace_record_t *records; /* of rank 0, then of rank 1, ... */
  ovl_trace_t *traces;
  ovl_trace_view_t *views;
  char (*names)[32];
} gathered_t;

static void free_gathered(gathered_t *all) {
  free(all->headers);
  free(all->records);
  free(all->traces);
  free(all->views);
  free(all->names);
}

/* On rank 0 alone. */
static int new_gathered(const job_t *job, gathered_t *all) {
  size_t ranks = (size_t)job->size;
  *all = (gathered_t){.headers = NULL};
  if (job->rank != 0)
    return 0;
  all->headers = calloc(ranks, sizeof *all->headers);
  all->records = calloc(ranks * job->trace.count, sizeof *all->records);
  all->traces = calloc(ranks, sizeof *all->traces);
  all->views = calloc(ranks, sizeof *all->views);
  all->names = calloc(ranks, sizeof *all->names);
  return all->headers != NULL && all->records != NULL && all->traces != NULL && all->views != NULL &&
                 all->names != NULL
             ? 0
             : OVL_ENOMEM;
}

/* Times of a trace count from the start of its rank's run; in the file they count from that of rank 0's. */
static void fill_view(job_t *job, gathered_t *all, size_t rank) {
  const clocks_offset_t *offset = &all->headers[rank].offset;
  ovl_trace_t *trace = &all->traces[rank];
  ovl_trace_view_t *view = &all->views[rank];
  ovl_trace_init(trace, all->records + rank * job->trace.count, job->trace.count);
  trace->count = job->trace.count;
  trace->kept = job->trace.count;
  trace->start_ns = all->headers[rank].start_ns;
  trace->elapsed_ns = all->headers[rank].elapsed_ns;
  (void)snprintf(all->names[rank], sizeof all->names[rank], "rank %zu", rank);
  ovl_trace_view_init(view);
  view->trace = trace;
  view->name = all->names[rank];
  view->clock_offset_ns = (int64_t)(trace->start_ns - job->trace.start_ns) + clocks_middle(offset);
  if (clocks_error(offset) > job->clock_error_ns)
    job->clock_error_ns = clocks_error(offset);
}

static int write_file(job_t *job, gathered_t *all) {
  FILE *file = fopen(job->trace_file, "w");
  if (file == NULL)
    return -errno;
  int status =
      ovl_pipeline_trace_write(job->pipeline, all->views, (size_t)job->size, ovl_write_to_file, file);
  if (fclose(file) != 0 && status == 0)
    status = -errno;
  return status;
}

/* ---- all ranks ---- */

static int gather(job_t *job, const header_t *header, gathered_t *all) {
  int bytes = (int)(job->trace.count * sizeof *job->records);
  int code =
      MPI_Gather(header, sizeof *header, MPI_BYTE, all->headers, sizeof *header, MPI_BYTE, 0, job->link.comm);
  if (code == MPI_SUCCESS)
    code = MPI_Gather(job->records, bytes, MPI_BYTE, all->records, bytes, MPI_BYTE, 0, job->link.comm);
  return backend_mpi_status(code);
}

static int gather_and_write(job_t *job, gathered_t *all) {
  header_t header = {.start_ns = job->trace.start_ns, .elapsed_ns = job->trace.elapsed_ns};
  int status = compare_clocks(job, &header.offset);
  if (status == 0)
    status = gather(job, &header, all);
  if (status != 0 || job->rank != 0)
    return status;
  for (size_t r = 0; r < (size_t)job->size; r++)
    fill_view(job, all, r);
  return write_file(job, all);
}

int job_write_trace(job_t *job) {
  gathered_t all;
  int status = job_agree(job, new_gathered(job, &all));
  if (status == 0)
    status = gather_and_write(job, &all);
  free_gathered(&all);
  if (status != 0)
    (void)job_complain(job, "writing the trace", status);
  return job_agree(job, status);
}
