/* SPDX-License-Identifier: MIT */
/* What a larger window, a wider lane or overlap would bring: the pipeline as it is and as it could be, simulated
 * with the mean duration of each stage. */
#include "api/explain.h"

#define MOST_MICROBATCHES 1000u /* what comes after them goes on like them */
#define WORTH_SAYING 1.02

typedef struct trial {
  const ovl_view_t *view;
  uint64_t *means;        /* by stage */
  ovl_lane_desc_t *lanes; /* a copy, to change */
  ovl_description_t description;
  uint64_t count;
  uint64_t base; /* how long the run takes in simulation as it is; 0: cannot be simulated */
} trial_t;

static uint64_t mean_of(void *context, const ovl_op_t *op) {
  return ((const uint64_t *)context)[op->stage.id - 1];
}

/* How long it takes as described now; 0: no memory. */
static uint64_t simulate(const trial_t *t, ovl_mode_t mode) {
  const ovl_memory_t *memory = &t->view->p->memory;
  ovl_plan_t plan;
  ovl_sim_t sim;
  uint64_t end, elapsed = 0;
  if (ovl_plan_init(&plan, &t->description, memory) != 0)
    return 0;
  if (ovl_sim_init(&sim, &plan, mean_of, t->means, &(ovl_core_options_t){0}, memory) == 0) {
    ovl_sim_begin(&sim, mode, t->count);
    while (ovl_sim_next(&sim, &end) != NULL)
      ;
    elapsed = sim.now;
    ovl_sim_finish(&sim);
  }
  ovl_plan_finish(&plan, memory);
  return elapsed;
}

/* How many times as fast the run would be as described now; 0: not worth saying. */
static double gain(const trial_t *t) {
  uint64_t elapsed = simulate(t, OVL_OVERLAP);
  double times = elapsed > 0 ? (double)t->base / (double)elapsed : 0.0;
  return times >= WORTH_SAYING ? times : 0.0;
}

#define BY_SIMULATION "would bring %.2fx, by simulation of the measured durations\n"

static void try_window(trial_t *t) {
  uint32_t window = t->description.window;
  if (window > UINT32_MAX / 2 || window >= t->count)
    return;
  t->description.window = 2 * window;
  double times = gain(t);
  t->description.window = window;
  if (times > 0.0)
    ovl_note_add(t->view->text, "what if: window %u -> %u " BY_SIMULATION, (unsigned)window,
                 2 * (unsigned)window, times);
}

static void try_width(trial_t *t) {
  ovl_lane_desc_t *lane = &t->lanes[t->view->busiest];
  if (lane->fixed || lane->width == UINT32_MAX)
    return;
  lane->width++;
  double times = gain(t);
  lane->width--;
  if (times > 0.0)
    ovl_note_add(t->view->text, "what if: lane \"%.100s\" width %u -> %u " BY_SIMULATION,
                 ovl_lane_name(t->view->p, t->view->busiest), (unsigned)lane->width,
                 (unsigned)lane->width + 1, times);
}

static void try_all(trial_t *t) {
  t->base = simulate(t, t->view->serial ? OVL_SERIAL : OVL_OVERLAP);
  if (t->view->serial) {
    double times = gain(t);
    if (times > 0.0)
      ovl_note_add(t->view->text, "what if: OVL_OVERLAP " BY_SIMULATION, times);
    return;
  }
  try_window(t);
  try_width(t);
}

/* The order of a fixed lane with several stages depends on cost hints, or was given: both are the user's. */
static bool can_be_simulated(const ovl_plan_t *plan) {
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (plan->lanes[l].fixed && plan->lane_first[l + 1] - plan->lane_first[l] > 1)
      return false;
  return true;
}

void ovl_view_what_if(const ovl_view_t *view) {
  const ovl_pipeline_t *p = view->p;
  trial_t t = {.view = view, .description = ovl_pipeline_describe(p)};
  if (!can_be_simulated(p->plan))
    return;
  t.count = view->run.microbatches < MOST_MICROBATCHES ? view->run.microbatches : MOST_MICROBATCHES;
  t.means = ovl_memory_array(&p->memory, p->stage_descs.count, sizeof *t.means);
  t.lanes = ovl_memory_array(&p->memory, p->lane_descs.count, sizeof *t.lanes);
  if (t.means != NULL && t.lanes != NULL) {
    for (uint32_t s = 0; s < p->stage_descs.count; s++)
      t.means[s] = ovl_view_mean(view, s);
    for (uint32_t l = 0; l < p->lane_descs.count; l++)
      t.lanes[l] = t.description.lanes[l];
    t.description.lanes = t.lanes;
    try_all(&t);
  }
  ovl_memory_free(&p->memory, t.lanes);
  ovl_memory_free(&p->memory, t.means);
}
