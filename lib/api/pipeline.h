/* SPDX-License-Identifier: MIT */
/* A pipeline from the inside: the description as it grows, the plan it is frozen into, and the executor
 * that runs it. */
#ifndef OVL_API_PIPELINE_H
#define OVL_API_PIPELINE_H

#include <stdatomic.h>

#include "core/core.h"
#include "exec/executor.h"
#include "ovl.h"
#include "plan/plan.h"
#include "sim/orders.h"

/* A stage's cost hint. */
typedef struct ovl_stage_cost {
  uint64_t ns;
  ovl_cost_cb call;
} ovl_stage_cost_t;

/* A lane's device; given NULL: it has none. */
typedef struct ovl_lane_device {
  const ovl_device_t *given; /* what the user passed: lanes with one table are of one device */
  ovl_device_t table;        /* completed to this library's size */
  void *stream;
} ovl_lane_device_t;

/* An array that grows; `size` is that of one item. */
typedef struct ovl_vector {
  void *items;
  uint32_t count, capacity;
} ovl_vector_t;

#define OVL_STALL_BYTES 8192

struct ovl_pipeline {
  ovl_memory_t memory;
  ovl_pipeline_options_t options; /* the caller's, completed to this library's size */

  /* Describing: one thread at a time, until frozen. Those of lanes have equal counts, and so have those of stages. */
  ovl_vector_t lane_descs;   /* ovl_lane_desc_t */
  ovl_vector_t lane_hooks;   /* ovl_lane_hooks_t */
  ovl_vector_t lane_names;   /* char * */
  ovl_vector_t lane_orders;  /* ovl_order_list_t: given explicitly; count 0: none. Changes between runs too */
  ovl_vector_t lane_devices; /* ovl_lane_device_t */
  ovl_vector_t stage_descs;  /* ovl_stage_desc_t */
  ovl_vector_t stage_hooks;  /* ovl_stage_hooks_t */
  ovl_vector_t stage_names;  /* char * */
  ovl_vector_t stage_costs;  /* ovl_stage_cost_t */
  ovl_vector_t dependencies; /* ovl_dependency_t */
  uint32_t device_lanes;     /* how many lanes have a device */
  bool goes_back;            /* a dependency of distance 0 leads to an earlier stage */
  char error[512];
  char *stall_text; /* what on_stall is given, of OVL_STALL_BYTES; NULL: nobody asked */

  /* Set by the first run or submit, with the lock held, and constant from then on. */
  atomic_bool frozen;
  ovl_plan_t *plan;
  struct ovl_devices *devices; /* NULL: there are no device lanes, and the executor runs `plan` */

  ovl_orders_t *orders; /* of fixed lanes, for counted runs; NULL until one needs it. As the mode below */
  bool orders_grouped;  /* they are for a run with an issuer, not for an enqueue */
  bool orders_checked;  /* the explicit ones can be kept */
  ovl_mode_t mode;      /* of the next run; like the description, one thread at a time */
  ovl_close_cb closed;  /* loop thread: what the close that waits for the end of a run is to call */
  struct ovl_enqueuer *enqueuer; /* NULL until the first enqueue; one thread at a time, as calls of it are */
  bool enqueuing;                /* one is on its way: a callback of it may call back in */
  bool enqueued;                 /* an enqueue came after the last run; with the lock, as the next */
  ovl_fault_t enqueue_fault;     /* its first error */
  ovl_executor_t exec;
};

static inline const char *ovl_lane_name(const ovl_pipeline_t *p, uint32_t lane) {
  return ((char **)p->lane_names.items)[lane];
}

static inline const char *ovl_stage_name(const ovl_pipeline_t *p, uint32_t stage) {
  return ((char **)p->stage_names.items)[stage];
}

/* Makes room for one more item of `size` bytes: its address, or NULL. The count is the caller's to raise. */
void *ovl_vector_next(ovl_vector_t *vector, size_t size, const ovl_memory_t *memory);

/* Freezes the description unless it is frozen. Any thread, without the lock: two that come together both
 * build, and the second throws its work away. 0, OVL_ENOMEM, OVL_ETOOBIG or OVL_ECYCLE. */
int ovl_pipeline_freeze(ovl_pipeline_t *p);

uint32_t ovl_pipeline_effective_window(const ovl_pipeline_t *p);

/* The last call's reason in words; returns `code` for `return ovl_refuse(...)`. */
int ovl_refuse(ovl_pipeline_t *p, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ovl_accept(ovl_pipeline_t *p); /* the last call succeeded: 0 */

/* The description as it stands. */
ovl_description_t ovl_pipeline_describe(const ovl_pipeline_t *p);

/* The frozen plan, or one made for the caller in *own, which is to be given to ovl_pipeline_put_plan. */
int ovl_pipeline_get_plan(const ovl_pipeline_t *p, ovl_plan_t *own, const ovl_plan_t **plan);
void ovl_pipeline_put_plan(const ovl_pipeline_t *p, ovl_plan_t *own);

/* order.c: how long an op is expected to take (context: the pipeline), and whether any hint is a callback. */
uint64_t ovl_pipeline_cost(void *context, const ovl_op_t *op);
bool ovl_pipeline_cost_calls(const ovl_pipeline_t *p);

/* Makes *orders for a run of `microbatches` on the plan, checked; groups as for ovl_orders_init. Its simulation's ops are bound to p. */
int ovl_pipeline_make_orders(ovl_pipeline_t *p, const char *call, const ovl_plan_t *plan,
                             uint64_t microbatches, const ovl_order_groups_t *groups, ovl_orders_t *orders);

/* Where the run that is to start takes the order of its fixed lanes from. */
int ovl_pipeline_prepare_order(ovl_pipeline_t *p, const char *call, uint64_t microbatches,
                               const ovl_order_groups_t *groups, ovl_order_source_t *source);

void ovl_pipeline_bind_core(ovl_pipeline_t *p, ovl_core_t *core);
void ovl_pipeline_drop_orders(ovl_pipeline_t *p);

/* devices.c: names of what the executor runs: the user's, and what device lanes add. */
const char *ovl_run_lane_name(const ovl_pipeline_t *p, uint32_t lane);
const char *ovl_run_stage_name(const ovl_pipeline_t *p, uint32_t stage);

/* Of a lane; the table is NULL if it has none. */
const ovl_lane_device_t *ovl_pipeline_lane_device(const ovl_pipeline_t *p, uint32_t lane);
const ovl_device_t *ovl_pipeline_lane_table(const ovl_pipeline_t *p, uint32_t lane);
bool ovl_pipeline_same_domain(const ovl_pipeline_t *p, uint32_t lane, uint32_t other);

/* A run is in flight, or an enqueue on its way. */
static inline bool ovl_pipeline_is_busy(ovl_pipeline_t *p) {
  return p->enqueuing || ovl_exec_in_flight(&p->exec);
}

/* enqueue.c: the event behind the last eager call, or NULL. */
void *ovl_pipeline_enqueued_end(const ovl_pipeline_t *p);
void ovl_pipeline_drop_enqueuer(ovl_pipeline_t *p);

/* stats.c: with the lock held, how long the last run took or the one in flight has taken, and by what all of its times
 * are to be multiplied. */
uint64_t ovl_run_elapsed(const ovl_executor_t *x);
double ovl_run_correction(const ovl_executor_t *x);

/* trace.c: with another struct's trace, as its user gave it: 0, OVL_EINVAL or OVL_ESTRUCTSIZE. */
int ovl_trace_read(ovl_trace_t *into, const ovl_trace_t *from);
int ovl_trace_return(ovl_trace_t *into, const ovl_trace_t *from);

/* run.c: what the executor calls back. */
void ovl_pipeline_on_fault(ovl_pipeline_t *p, const ovl_fault_t *fault);
void ovl_pipeline_on_over(ovl_pipeline_t *p);
void ovl_pipeline_on_stall(ovl_pipeline_t *p); /* dump.c */

/* Frees everything. No run may be in flight. */
void ovl_pipeline_free(ovl_pipeline_t *p);

#endif
