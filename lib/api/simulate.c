/* SPDX-License-Identifier: MIT */
/* ovl_pipeline_simulate: the pipeline's plan in the virtual-time driver, with the user's durations. */
#include "ovl/simulate.h"

#include <string.h>

#include "api/options.h"
#include "api/pipeline.h"
#include "exec/process.h"
#include "observe/stats.h"
#include "observe/trace.h"

static uint64_t given_duration(void *context, const ovl_op_t *op) {
  const ovl_simulation_t *simulation = context;
  return simulation->duration(op, simulation->data);
}

static void play(ovl_sim_t *sim, ovl_mode_t mode, uint64_t microbatches, const ovl_simulation_t *simulation) {
  const ovl_core_op_t *op;
  uint64_t end;
  ovl_sim_begin(sim, mode, microbatches);
  while ((op = ovl_sim_next(sim, &end)) != NULL)
    if (simulation->on_op != NULL)
      simulation->on_op(&op->pub, sim->now, end, simulation->data);
}

/* Records that the run can leave and the caller has room for. */
static size_t records_wanted(const ovl_plan_t *plan, uint64_t microbatches, const ovl_trace_t *trace) {
  size_t ops;
  if (__builtin_mul_overflow(microbatches, plan->stage_count, &ops) || ops > trace->capacity)
    return trace->capacity;
  return ops;
}

static void take_records(const ovl_sim_t *sim, ovl_trace_t *trace) {
  ovl_trace_copy_t copy;
  ovl_trace_copy_begin(&copy, &sim->core, sim->now, 1.0, trace);
  while (ovl_trace_copy_some(&copy, &sim->core, trace))
    ;
}

static int run_simulation(ovl_pipeline_t *p, const ovl_plan_t *plan, uint64_t microbatches,
                          ovl_simulation_t *simulation, ovl_stats_t *stats) {
  ovl_orders_t orders = {0};
  ovl_sim_t sim;
  bool ordered = p->mode == OVL_OVERLAP, hints = simulation->duration == NULL;
  ovl_core_options_t options = {.statistics = true};
  if (simulation->trace != NULL)
    options.trace = records_wanted(plan, microbatches, simulation->trace);
  int r = ovl_sim_init(&sim, plan, hints ? ovl_pipeline_cost : given_duration, hints ? (void *)p : simulation,
                       &options, &p->memory);
  if (r != 0)
    return ovl_refuse(p, r, "simulate: %s", ovl_strerror(r));
  if (ordered)
    r = ovl_pipeline_make_orders(p, "simulate", plan, microbatches, NULL, &orders);
  if (r == 0) {
    ovl_order_source_t source = ovl_orders_source(&orders);
    if (ordered)
      ovl_core_set_order(&sim.core, &source);
    ovl_pipeline_bind_core(p, &sim.core);
    play(&sim, p->mode, microbatches, simulation);
    ovl_stats_of_core(&sim.core, sim.now, stats);
    if (simulation->trace != NULL)
      take_records(&sim, simulation->trace);
    ovl_orders_finish(&orders);
  }
  ovl_sim_finish(&sim);
  return r;
}

static int simulate(ovl_pipeline_t *p, uint64_t microbatches, ovl_simulation_t *simulation,
                    ovl_stats_t *stats) {
  ovl_plan_t own;
  const ovl_plan_t *plan;
  int r = ovl_pipeline_get_plan(p, &own, &plan);
  if (r != 0)
    return ovl_refuse(p, r, "simulate: %s", ovl_strerror(r));
  bool before = ovl_callback_enter();
  r = run_simulation(p, plan, microbatches, simulation, stats);
  ovl_callback_leave(before);
  ovl_pipeline_put_plan(p, &own);
  return r;
}

/* A copy of the caller's, with a copy of its trace. */
static int read_simulation(ovl_pipeline_t *p, const ovl_simulation_t *simulation, ovl_simulation_t *s,
                           ovl_trace_t *trace) {
  ovl_simulation_init(s);
  if (simulation != NULL &&
      ovl_options_read(s, sizeof *s, simulation, offsetof(ovl_simulation_t, duration)) != 0)
    return ovl_refuse(p, OVL_ESTRUCTSIZE, "simulate: the simulation's size is %zu", simulation->size);
  if (s->trace == NULL)
    return 0;
  int r = ovl_trace_read(trace, s->trace);
  s->trace = trace;
  return r == 0 ? 0 : ovl_refuse(p, r, "simulate: the trace: %s", ovl_strerror(r));
}

int ovl_pipeline_simulate(ovl_pipeline_t *p, uint64_t microbatches, const ovl_simulation_t *simulation,
                          ovl_stats_t *stats) {
  if (p == NULL)
    return OVL_EINVAL;
  ovl_simulation_t s;
  ovl_stats_t result;
  ovl_trace_t trace;
  int r = read_simulation(p, simulation, &s, &trace);
  if (r != 0)
    return r;
  if (microbatches == OVL_STREAMING)
    return ovl_refuse(p, OVL_EINVAL, "simulate: a number of microbatches is needed, not OVL_STREAMING");
  if (ovl_pipeline_is_busy(p))
    return ovl_refuse(p, OVL_EBUSY, "simulate: a run is in flight");
  r = simulate(p, microbatches, &s, &result);
  if (r != 0)
    return r;
  if (s.trace != NULL)
    ovl_trace_return(simulation->trace, s.trace);
  if (stats != NULL &&
      ovl_options_write(stats, &result, sizeof result, offsetof(ovl_stats_t, microbatches)) != 0)
    return ovl_refuse(p, OVL_ESTRUCTSIZE, "simulate: the statistics' size is %zu", stats->size);
  return ovl_accept(p);
}
