/* SPDX-License-Identifier: MIT */
/* A backend whose compute and communication are precise sleeps, with a record of when each op ran.
 * It is also the pattern to copy for a backend of your own: five steps, numbered here and in the .c file.
 *
 * This is how you write a backend:
 *   1. Put what your callbacks need into one struct: handles, sizes, buffers.
 *   2. Give each microbatch its own place in it. Memory that may be reused is indexed by op->slot, results
 *      that must survive by op->microbatch. Then no callback needs a lock.
 *   3. Write one callback for each kind of work. It finds the struct in op->data, does the work and returns
 *      0, or a negative error; on a pool lane it may block.
 *   4. Offer one function that enters the callbacks into the pipeline's options, so that no program has to
 *      know their names.
 *   5. Pair every init with a finish. The struct must outlive every run that uses it. */
#ifndef EXAMPLES_BACKEND_SLEEP_H
#define EXAMPLES_BACKEND_SLEEP_H

#include <stddef.h>
#include <stdint.h>

#include "ovl.h"

/* When the two ops of one microbatch ran, on uv_hrtime()'s clock. All 0 before they did. */
typedef struct backend_sleep_record {
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  uint64_t comm_start_ns;
  uint64_t comm_end_ns;
  uint32_t computes; /* how often the op ran: 1 in a run without fault */
  uint32_t comms;
} backend_sleep_record_t;

typedef struct backend_sleep {
  uint64_t compute_ns; /* how long each op sleeps: never less, and more only by what the system adds */
  uint64_t comm_ns;
  uint64_t microbatches;           /* how many records there are */
  backend_sleep_record_t *records; /* one a microbatch; written by its ops, read it after the run */
} backend_sleep_t;

/* Prepares a backend for runs of `microbatches` microbatches. 0 or OVL_ENOMEM; finish is fine after both. */
int backend_sleep_init(backend_sleep_t *backend, uint64_t microbatches, uint64_t compute_ns,
                       uint64_t comm_ns);

/* Releases the records. No run may be using them. */
void backend_sleep_finish(backend_sleep_t *backend);

/* Enters compute, comm and op->data into the options of a two-lane pipeline. */
void backend_sleep_use(backend_sleep_t *backend, ovl_pipeline_options_t *options);

/* For a simulation: as long as the sleeps of this backend are asked to be, and a record of when they would be.
 * data is the backend. */
void backend_sleep_simulate(backend_sleep_t *backend, ovl_simulation_t *simulation);

/* Swaps the records for an empty set and hands out the old one, the caller's to free(): a second run
 * of the same pipeline leaves those of the first alone. 0, or OVL_ENOMEM, then nothing has changed. */
int backend_sleep_take_records(backend_sleep_t *backend, backend_sleep_record_t **records);

#endif
