/* SPDX-License-Identifier: MIT */
/* The files that overlap_sim writes: both runs as a drawing (--svg) and for trace viewers (--trace).
 * They are opened before anything runs, so that a name that cannot be written to is noticed at once. */
#ifndef EXAMPLES_OVERLAP_SIM_FILES_H
#define EXAMPLES_OVERLAP_SIM_FILES_H

#include <stdio.h>

#include "overlap_sim_options.h"
#include "ovl.h"

/* A file that may not have been asked for. */
typedef struct overlap_sim_file {
  const char *name; /* NULL: not asked for */
  FILE *file;
} overlap_sim_file_t;

typedef struct overlap_sim_files {
  overlap_sim_file_t svg;
  overlap_sim_file_t trace;
  ovl_trace_t serial; /* with room for every op of a run; for none if no file is wanted */
  ovl_trace_t overlap;
} overlap_sim_files_t;

/* Opens the files that the options name and makes room for the records. 0; or -1, then one line on stderr said why.
 * finish is fine after both. */
int overlap_sim_files_init(overlap_sim_files_t *files, const overlap_sim_options_t *options);
void overlap_sim_files_finish(overlap_sim_files_t *files);

/* Writes both runs to them and closes them. The bounds are what theory allows. 0 or -1, as above. */
int overlap_sim_files_write(overlap_sim_files_t *files, const ovl_pipeline_t *pipeline,
                            uint64_t serial_bound_ns, uint64_t overlap_bound_ns);

#endif
