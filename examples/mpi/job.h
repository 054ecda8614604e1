/* SPDX-License-Identifier: MIT */
/* What the programs here share: MPI's start and end, a pipeline of two lanes on each rank (one computes, the other is
 * MPI's), its runs in both modes on all ranks, what is printed of them, and what becomes of a rank that fails.
 *
 * All ranks call the same functions in the same order; what one rank finds wrong is told to all, so that all end. Those
 * that return int return 0, or an error after a message, unless said otherwise. */
#ifndef EXAMPLES_MPI_JOB_H
#define EXAMPLES_MPI_JOB_H

#include <stdatomic.h>
#include <stdint.h>

#include "mpi/backend_mpi.h"
#include "ovl.h"
#include "parts/op_times.h"
#include "parts/report.h"

/* What goes wrong on purpose, for job_disturb. */
typedef enum job_fault { JOB_NO_FAULT, JOB_ERROR, JOB_KILLED, JOB_STOPPED } job_fault_t;

extern const char *const job_levels[]; /* words of --threads, for job_t.threads */
extern const char *const job_faults[]; /* words of --fault, by job_fault_t */

/* One run on one rank. */
typedef struct job_run {
  uint64_t elapsed_ns;
  uint64_t hidden_ns; /* as in ovl_stats_t */
  uint64_t exposed_ns;
  uint64_t cpu_ns; /* of all processors, by the process while it ran */
} job_run_t;

typedef struct job job_t;

/* What a program does, and does for a run. */
typedef struct job_hooks {
  int (*set_up)(void *data);     /* by job_main: once MPI is there. Its own messages, as the next */
  int (*work)(void *data);       /* if that went well */
  void (*tear_down)(void *data); /* in any case */
  int (*describe)(job_t *job);   /* adds its stages and dependencies */
  int (*before)(job_t *job, ovl_mode_t mode); /* prepares a run; NULL: nothing is to be done */
  int (*after)(job_t *job, ovl_mode_t mode);  /* looks at what came of one that ended well; its own message */
  ovl_microbatch_cb on_microbatch;            /* may be NULL. ovl_pipeline_data() is the job */
} job_hooks_t;

struct job {
  const char *program; /* its name, for messages */
  void *data;          /* the program's own, and its stages' op->data */
  job_hooks_t hooks;

  /* From the command line, see JOB_ARGUMENTS. */
  uint64_t threads;
  uint64_t repeats;
  uint64_t json;
  uint64_t poll_us;
  uint64_t timeout_ms;
  uint64_t jitter_us;
  uint64_t fault; /* job_fault_t */
  uint64_t fault_rank;
  uint64_t fault_op;
  const char *trace_file; /* NULL: none is wanted */

  int rank;
  int size;
  backend_mpi_t mpi;
  mpi_lane_t link;

  /* Of the pipeline; from job_open to job_close. */
  ovl_pipeline_t *pipeline;
  ovl_lane_t compute_lane;
  ovl_lane_t link_lane;
  uint64_t microbatches;
  op_times_t times;              /* of the last run */
  ovl_trace_t trace;             /* the same, in full */
  ovl_trace_record_t *records;   /* its records */
  uint64_t *durations;           /* of ops, in the order of times.ops, that predictions stand on */
  uint64_t *costs;               /* of stages, by id - 1: the hints */
  uint64_t runs;                 /* begun so far */
  ovl_mode_t mode;               /* of the run in flight */
  atomic_uint_fast64_t computed; /* ops of the run in flight for which job_disturb was called */

  /* By ovl_mode_t, of the fastest run: over all ranks, and what this rank saw of it. Predicted is what the mode takes in
   * virtual time with the durations of the fastest serial run: for OVL_OVERLAP, the bound. */
  run_times_t runs_of_all[2];
  job_run_t own[2];
  uint64_t compute_ns; /* of the fastest serial run: all ops that compute, on the rank where they took most */
  uint64_t comm_ns;    /* and all that communicate */

  uint64_t clock_error_ns; /* rank 0: how much the times of other ranks may be off in the trace file */
};

/* Rows of a program's table of arguments. */
#define JOB_ARGUMENTS(job)                                                                                    \
  {'r', "repeat", "R", &(job)->repeats, 1, 1000, "runs in each mode, of which the fastest counts"},           \
      {'t', "threads", "LEVEL", &(job)->threads, 0, 0, "which threads may call MPI", .words = job_levels},    \
      {'p', "poll-us", "US", &(job)->poll_us, 0, 100000, "longest pause between two polls; 0: 50"},           \
      {'T', "timeout-ms", "MS", &(job)->timeout_ms, 1, 3600000, "deadline of an op that communicates"},       \
      {'j', "jitter-us", "US", &(job)->jitter_us, 0, 1000000, "pauses at random, up to this, before ops"},    \
      {'o', "trace", "FILE", .text = &(job)->trace_file, .help = "writes the last run of all ranks there"},   \
      {'J', "json", NULL, &(job)->json, .help = "prints one JSON object instead of tables"},                  \
      {'F', "fault", "KIND", &(job)->fault, 0, 0, "what goes wrong in overlapped runs", .words = job_faults}, \
      {'R', "fault-rank", "N", &(job)->fault_rank, 0, 1 << 20, "on which rank"}, {                            \
    'O', "fault-op", "N", &(job)->fault_op, 0, UINT64_MAX, "in which of its ops that compute"                 \
  }

/* ---- job.c: the process and its pipeline ---- */

/* The defaults; before the command line is read. */
void job_init(job_t *job, const char *program, void *data, job_hooks_t hooks);

/* A program, from the command line on: arguments_run() calls it with the job. Returns the exit code. */
int job_main(void *job);

/* Initialises MPI as job->threads says, and the lane. After an error there is nothing to end. */
int job_begin(job_t *job);

/* Finalises MPI. Returns the exit code, of those of all ranks the greatest. */
int job_end(job_t *job, int code);

/* The least of all ranks' statuses: 0 if all have 0. No message. */
int job_agree(job_t *job, int status);

/* Makes the pipeline for runs of `microbatches` microbatches through `stages` stages, and lets the program describe it.
 * After an error, too, job_close is due. */
int job_open(job_t *job, uint64_t microbatches, uint32_t window, uint32_t stages);
void job_close(job_t *job);

/* For `describe`: adds a stage of which name, run and lane are set. One on the link's lane becomes `always`, with a
 * deadline; all get the job's cost hints and data. No message; what ovl_pipeline_add_stage returned. */
int job_add_stage(job_t *job, ovl_stage_options_t *stage, ovl_stage_t *added);

/* The first thing that an op does which computes: waits at random, or fails, as the command line wants it. 0, or what
 * the callback is to return. */
int job_disturb(job_t *job, const ovl_op_t *op);

/* One line on stderr that names the program and the rank. Returns the status. */
int job_complain(const job_t *job, const char *what, int status);

/* ---- job_run.c: runs ---- */

/* A serial run that says what ops cost, then `repeat` times one in each mode. Where a rank is waited for in vain, those
 * that wait say so and end all: then this does not return. */
int job_experiment(job_t *job);

/* ---- job_report.c: what is printed, by rank 0 ---- */
int job_report(job_t *job);

/* ---- job_trace.c: the last run of all ranks in one file, all on the clock of rank 0 ---- */
int job_write_trace(job_t *job);

#endif
