/* SPDX-License-Identifier: MIT */
/* The core under a virtual clock: ops take as long as a function says, and time passes when nothing can start.
 * It is the same core that the executor drives, so what it predicts is what would run. No threads, no clock. */
#ifndef OVL_SIM_SIM_H
#define OVL_SIM_SIM_H

#include "core/core.h"

/* How long op takes, in nanoseconds. */
typedef uint64_t (*ovl_duration_fn)(void *context, const ovl_op_t *op);

/* A running op and when it ends. */
typedef struct ovl_sim_event {
  uint64_t end;
  ovl_core_op_t *op;
} ovl_sim_event_t;

typedef struct ovl_sim {
  ovl_core_t core;
  ovl_duration_fn duration;
  void *context;
  ovl_sim_event_t *events; /* a heap: the one that ends first at 0, ties by microbatch, then stage */
  uint32_t event_count;
  uint64_t now;
} ovl_sim_t;

/* 0, OVL_ENOMEM or OVL_ETOOBIG. The plan must outlive it; the options are its core's. */
int ovl_sim_init(ovl_sim_t *sim, const ovl_plan_t *plan, ovl_duration_fn duration, void *context,
                 const ovl_core_options_t *options, const ovl_memory_t *memory);
void ovl_sim_finish(ovl_sim_t *sim);

/* At time 0. `count` is not OVL_STREAMING. */
void ovl_sim_begin(ovl_sim_t *sim, ovl_mode_t mode, uint64_t count);

/* Lets time pass until the next op starts: that op, and when it will end. NULL: nothing starts any more, because
 * the run is over, or because an order from outside contradicts the dependencies. */
ovl_core_op_t *ovl_sim_next(ovl_sim_t *sim, uint64_t *end);

#endif
