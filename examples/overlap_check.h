/* SPDX-License-Identifier: MIT */
/* Decides from a run's records and its time whether the run kept every rule, or was "fast" by breaking one.
 * It is apart from the experiment so that a test can feed it faulty runs and see it refuse them. */
#ifndef EXAMPLES_OVERLAP_CHECK_H
#define EXAMPLES_OVERLAP_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "backend_sleep.h"

/* One finished run. */
typedef struct overlap_run {
  const char *name; /* for messages: "serial", "overlapped" */
  uint64_t microbatches;
  uint64_t window;     /* 1: one microbatch after another */
  uint64_t bound_ns;   /* no run that keeps the rules is shorter */
  uint64_t elapsed_ns; /* as the library measured it */
  const backend_sleep_record_t *records;
} overlap_run_t;

/* From the first start to the last end in the records; 0 without records. */
uint64_t overlap_run_span_ns(const overlap_run_t *run);

/* When the first op started; 0 without records. */
uint64_t overlap_run_start_ns(const overlap_run_t *run);

/* 0 when all rules were kept; else -1, and `message` says in one line which was broken, and by how much:
 *   each op ran once;
 *   the communication of a microbatch started after its compute had ended;
 *   a lane ran one op at a time, microbatches in order;
 *   microbatch i started after microbatch i - window had ended;
 *   the run took no less than its bound, by the records and by the library's clock.
 * There is no tolerance: the times are whole nanoseconds, the sleeps never end early, and the records and the
 * sleeps use the same clock, so a run that keeps the rules can not be short by even one of them. */
int overlap_check(const overlap_run_t *run, char *message, size_t size);

#endif
