/* SPDX-License-Identifier: MIT */
/* The order of fixed lanes in a counted run: given explicitly, or planned as the order in which the simulator
 * starts the ops on the cost hints alone, so that it is the same in every run and on every rank.
 *
 * A plan is not written down beforehand: a simulation goes along with the run, a little ahead of it, so memory
 * stays O(window x stages). With hints from a callback, which must not be called under a lock, the order is
 * written down when the run starts: O(microbatches x stages of fixed lanes). A lane with a single stage needs no
 * plan when hints are constant: equal jobs never overtake each other, so its order is that of the microbatches. */
#ifndef OVL_SIM_ORDERS_H
#define OVL_SIM_ORDERS_H

#include "sim/sim.h"

/* An order written down. */
typedef struct ovl_order_list {
  ovl_op_ref_t *refs;
  uint64_t count;
} ovl_order_list_t;

/* Starts that the simulation has seen and the run has not reached: a ring. */
typedef struct ovl_order_ring {
  ovl_op_ref_t *refs;
  uint32_t capacity, first, count;
} ovl_order_ring_t;

typedef struct ovl_lane_order {
  bool planned;          /* takes its order from the simulation */
  bool given;            /* explicitly */
  ovl_order_list_t list; /* given, or planned and written down */
  uint64_t at, sim_at;   /* where the run, and the simulation, stand in it */
  ovl_order_ring_t ring; /* planned along the way */
} ovl_lane_order_t;

/* For a run in which several lanes are one (the issuer of device lanes): which lane of the run, by lane of the plan. */
typedef struct ovl_order_groups {
  const uint32_t *lane_of; /* lanes that are not grouped keep their number */
  uint32_t lane_count;     /* of the run */
  uint32_t window;         /* of the run */
} ovl_order_groups_t;

typedef struct ovl_orders {
  const ovl_plan_t *plan;
  ovl_memory_t memory;
  ovl_lane_order_t *lanes; /* of the plan, and those that only the run has */
  uint32_t lane_count;     /* how many */
  uint32_t *groups;        /* by lane of the plan: the lane of the run that it is part of */
  bool *loose;             /* for the simulation: lanes whose order it is to find */
  bool from_calls;         /* hints come from callbacks: write orders down */
  bool simulates;          /* some lane's order is planned or given */
  ovl_sim_t sim;
} ovl_orders_t;

/* 0, OVL_ENOMEM, OVL_ETOOBIG. groups: NULL: the run's lanes are the plan's. `given` has an entry for each lane (count 0: none) and must outlive the orders, as
 * must the plan. duration: the cost hints; from_calls: it calls back. */
int ovl_orders_init(ovl_orders_t *orders, const ovl_plan_t *plan, const ovl_order_list_t *given,
                    ovl_duration_fn duration, void *context, bool from_calls,
                    const ovl_order_groups_t *groups, const ovl_memory_t *memory);
void ovl_orders_finish(ovl_orders_t *orders);

/* Prepares for a run of `count` microbatches. No lock may be held: it may call hints back. 0 or OVL_ENOMEM. */
int ovl_orders_begin(ovl_orders_t *orders, uint64_t count);

/* For the run's core. */
ovl_order_source_t ovl_orders_source(ovl_orders_t *orders);

/* Runs `count` microbatches through the simulation to see whether the given orders can be kept. True: they can.
 * False: *lane is one that gets stuck, at *turn. Afterwards begin() must be called. */
bool ovl_orders_feasible(ovl_orders_t *orders, uint64_t count, uint32_t *lane, ovl_op_ref_t *turn);

#endif
