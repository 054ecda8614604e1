/* SPDX-License-Identifier: MIT */
/* The command line of overlap_sim: what may be asked for, and within which limits.
 * Reading it has no effect but messages on stdout (--help) and stderr (errors). */
#ifndef EXAMPLES_OVERLAP_SIM_OPTIONS_H
#define EXAMPLES_OVERLAP_SIM_OPTIONS_H

#include <stdint.h>

#define OVERLAP_SIM_MAX_MICROBATCHES UINT64_C(1000000) /* each is recorded, twice */
#define OVERLAP_SIM_MAX_WINDOW UINT64_C(65536)         /* each slot has memory of its own */

typedef struct overlap_sim_options {
  uint64_t microbatches; /* 8 unless told otherwise */
  uint64_t compute_ns;   /* 50 ms */
  uint64_t comm_ns;      /* 30 ms */
  uint32_t window;       /* 0: the library's default */
  int json;
  int timeline;      /* draw the runs even beside JSON, then on stderr */
  int virtual_time;  /* simulate both runs: nobody sleeps, and the times are exact */
  int explain;       /* say in words what bounds the overlapped run; not in virtual time */
  const char *svg;   /* a file's name, within argv; NULL: none */
  const char *trace; /* the same */
} overlap_sim_options_t;

/* What the program does next. */
typedef enum overlap_sim_request {
  OVERLAP_SIM_RUN,
  OVERLAP_SIM_HELPED, /* --help was answered: exit 0 */
  OVERLAP_SIM_REFUSED /* one line on stderr said why: exit 2 */
} overlap_sim_request_t;

overlap_sim_request_t overlap_sim_options_read(overlap_sim_options_t *options, int argc, char **argv);

#endif
