/* SPDX-License-Identifier: MIT */
/* The same scheduler in virtual time: what a pipeline would do if its ops took as long as you say. */
#ifndef OVL_SIMULATE_H
#define OVL_SIMULATE_H

#include <string.h>

#include "ovl/stats.h"
#include "ovl/trace.h"
#include "ovl/types.h"

OVL_BEGIN_DECLS

/* All 0: durations from the stages' cost hints. */
typedef struct ovl_simulation {
  size_t size;
  uint64_t (*duration)(const ovl_op_t *op, void *data); /* how long op takes, in ns; NULL: its cost hint */
  /* Told of every op in the order of their starts, with its virtual start and end in ns; NULL: nobody. */
  void (*on_op)(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data);
  void *data;         /* for both */
  ovl_trace_t *trace; /* gets the newest records that it has room for; NULL: none are kept */
} ovl_simulation_t;

static inline void ovl_simulation_init(ovl_simulation_t *simulation) {
  memset(simulation, 0, sizeof *simulation);
  simulation->size = sizeof *simulation;
}

/* Runs `microbatches` microbatches in virtual time, in the mode of the next run, and fills `stats` (may be NULL) as
 * a real run would: elapsed_ns is virtual. Every lane counts as a resource of its own, whatever its kind. Calls no
 * callback of the stages but `cost`; freezes nothing. Ops of one instant start in the order of their lanes.
 * Any thread, one at a time with the calls that describe; not while a run is in flight.
 * Errors: OVL_EINVAL p is NULL, or microbatches is OVL_STREAMING; OVL_ESTRUCTSIZE; OVL_EBUSY; OVL_EORDER;
 *         OVL_ETOOBIG; OVL_ENOMEM. */
OVL_EXTERN int ovl_pipeline_simulate(ovl_pipeline_t *p, uint64_t microbatches,
                                     const ovl_simulation_t *simulation, ovl_stats_t *stats);

OVL_END_DECLS

#endif
