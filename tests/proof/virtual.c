/* SPDX-License-Identifier: MIT */
/* Describes, simulates, and checks schedules. */
#include "proof/virtual.h"

#include <stdlib.h>
#include <string.h>

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

virtual_shape_t virtual_chain(uint32_t lanes, uint32_t window) {
  virtual_shape_t shape = {.lane_count = lanes, .stage_count = lanes, .window = window};
  for (uint32_t l = 0; l < lanes; l++) {
    shape.width[l] = 1;
    shape.lane[l] = l;
  }
  return shape;
}

virtual_shape_t virtual_random_shape(random_source_t *random, uint32_t most_stages) {
  virtual_shape_t shape = {.lane_count = 1 + random_below(random, 4),
                           .stage_count = 1 + random_below(random, most_stages),
                           .window = 1 + random_below(random, 6)};
  for (uint32_t l = 0; l < shape.lane_count; l++) {
    shape.width[l] = random_chance(random, 60) ? 1 : 1 + random_below(random, 4);
    shape.role[l] = (ovl_role_t)random_below(random, 3);
  }
  for (uint32_t s = 0; s < shape.stage_count; s++) {
    shape.lane[s] = random_below(random, shape.lane_count);
    shape.unchained[s] = random_chance(random, 40);
  }
  for (uint32_t wanted = random_below(random, 5); wanted > 0; wanted--) {
    virtual_dependency_t d = {.before = random_below(random, shape.stage_count),
                              .after = random_below(random, shape.stage_count),
                              .distance = random_below(random, 4)};
    if (d.distance > 0 || d.before < d.after)
      shape.dependencies[shape.dependency_count++] = d;
  }
  return shape;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static void add_lanes(virtual_run_t *run) {
  for (uint32_t l = 0; l < run->shape.lane_count; l++) {
    ovl_lane_options_t options = lane_options(NULL, OVL_LANE_POOL, run->shape.width[l]);
    options.order = run->shape.order[l];
    options.role = run->shape.role[l];
    add_lane_with(run->pipeline, &options);
  }
}

static void add_stages(virtual_run_t *run) {
  for (uint32_t s = 0; s < run->shape.stage_count; s++) {
    ovl_stage_options_t options = stage_options((ovl_lane_t){run->shape.lane[s] + 1}, NULL, NULL);
    options.unchained = run->shape.unchained[s];
    add_stage_with(run->pipeline, &options);
  }
  for (uint32_t k = 0; k < run->shape.dependency_count; k++) {
    const virtual_dependency_t *d = &run->shape.dependencies[k];
    int r = ovl_pipeline_add_dependency(run->pipeline, (ovl_stage_t){d->before + 1},
                                        (ovl_stage_t){d->after + 1}, d->distance);
    assert_int_equal(r, 0);
  }
}

virtual_run_t *virtual_new(const virtual_shape_t *shape) {
  virtual_run_t *run = calloc(1, sizeof *run);
  assert_non_null(run);
  run->shape = *shape;
  ovl_pipeline_options_t options = pipeline_options(shape->window);
  options.mode = shape->mode;
  run->pipeline = make_pipeline(&options);
  add_lanes(run);
  add_stages(run);
  return run;
}

void virtual_free(virtual_run_t *run) {
  ovl_pipeline_close(run->pipeline, NULL);
  free(run);
}

void virtual_equal(virtual_run_t *run, const uint64_t *by_stage) {
  for (uint32_t i = 0; i < VIRTUAL_MICROBATCHES; i++)
    memcpy(run->duration[i], by_stage, run->shape.stage_count * sizeof *by_stage);
}

void virtual_random(virtual_run_t *run, random_source_t *random, uint32_t bound) {
  for (uint32_t i = 0; i < VIRTUAL_MICROBATCHES; i++)
    for (uint32_t s = 0; s < run->shape.stage_count; s++)
      run->duration[i][s] = random_below(random, bound);
}

/* ---- is it legal? ------------------------------------------------------------------------------------------------ */

uint64_t virtual_retired(const virtual_run_t *run, uint32_t microbatch) {
  uint64_t last = 0;
  for (uint32_t s = 0; s < run->shape.stage_count; s++)
    if (run->end[microbatch][s] > last)
      last = run->end[microbatch][s];
  return last;
}

bool virtual_in_order(const virtual_run_t *run) {
  for (uint32_t i = 1; i < run->count; i++)
    if (virtual_retired(run, i) < virtual_retired(run, i - 1))
      return false;
  return true;
}

static uint32_t limit(const virtual_run_t *run) {
  return run->shape.mode == OVL_SERIAL ? 1 : run->shape.window;
}

static void check_op(const virtual_run_t *run, uint32_t i, uint32_t s) {
  uint64_t start = run->start[i][s];
  assert_int_equal(run->end[i][s] - start, run->duration[i][s]);
  if (s > 0 && !run->shape.unchained[s])
    assert_true(start >= run->end[i][s - 1]);
  for (uint32_t k = 0; k < run->shape.dependency_count; k++) {
    const virtual_dependency_t *d = &run->shape.dependencies[k];
    if (d->after == s && d->distance <= i)
      assert_true(start >= run->end[i - d->distance][d->before]);
  }
  for (uint32_t before = 0; before + limit(run) <= i; before++)
    assert_true(start >= virtual_retired(run, before));
}

/* Ops of the lane that run at the moment when this one starts, it among them. An op of no duration takes a place
 * only for those that start with it, so it is left out. */
static uint32_t running_with(const virtual_run_t *run, uint32_t i, uint32_t s) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < run->count; j++)
    for (uint32_t t = 0; t < run->shape.stage_count; t++)
      count += run->shape.lane[t] == run->shape.lane[s] && run->start[j][t] <= run->start[i][s] &&
               run->end[j][t] > run->start[i][s];
  return count;
}

static void check_schedule(const virtual_run_t *run) {
  for (uint32_t i = 0; i < run->count; i++)
    for (uint32_t s = 0; s < run->shape.stage_count; s++) {
      check_op(run, i, s);
      assert_true(running_with(run, i, s) <= run->shape.width[run->shape.lane[s]]);
    }
}

/* ---- simulating --------------------------------------------------------------------------------------------------- */

static uint64_t duration_of(const ovl_op_t *op, void *data) {
  return ((const virtual_run_t *)data)->duration[op->microbatch][op->stage.id - 1];
}

static void on_op(const ovl_op_t *op, uint64_t start, uint64_t end, void *data) {
  virtual_run_t *run = data;
  run->start[op->microbatch][op->stage.id - 1] = start;
  run->end[op->microbatch][op->stage.id - 1] = end;
  run->starts[run->start_count++] =
      (virtual_op_t){.microbatch = (uint32_t)op->microbatch, .stage = op->stage.id - 1};
}

static void check_figures(const virtual_run_t *run) {
  const ovl_stats_t *stats = &run->stats;
  uint64_t last = 0, work = 0;
  for (uint32_t i = 0; i < run->count; i++) {
    last = virtual_retired(run, i) > last ? virtual_retired(run, i) : last;
    for (uint32_t s = 0; s < run->shape.stage_count; s++)
      work += run->duration[i][s];
  }
  assert_int_equal(stats->microbatches, run->count);
  assert_int_equal(stats->ops, (uint64_t)run->count * run->shape.stage_count);
  assert_int_equal(stats->elapsed_ns, last);
  assert_int_equal(stats->work_ns, work);
  assert_true(stats->bound_ns <= stats->elapsed_ns);
  if (virtual_in_order(run))
    assert_int_equal(stats->bound_ns, stats->elapsed_ns); /* nothing is in the way in virtual time */
}

uint64_t virtual_simulate(virtual_run_t *run, uint32_t count) {
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.duration = duration_of;
  simulation.on_op = on_op;
  simulation.data = run;
  ovl_stats_init(&run->stats);
  run->count = count;
  run->start_count = 0;
  assert_true(count <= VIRTUAL_MICROBATCHES);
  int r = ovl_pipeline_simulate(run->pipeline, count, &simulation, &run->stats);
  if (r != 0)
    fail_msg("simulate: %s", ovl_pipeline_error(run->pipeline));
  assert_int_equal(run->start_count, count * run->shape.stage_count);
  check_schedule(run);
  check_figures(run);
  return run->stats.elapsed_ns;
}

/* ---- orders --------------------------------------------------------------------------------------------------------- */

void virtual_give_orders(virtual_run_t *run, const virtual_run_t *from) {
  ovl_op_id_t order[VIRTUAL_MICROBATCHES * VIRTUAL_STAGES];
  for (uint32_t l = 0; l < run->shape.lane_count; l++) {
    size_t count = 0;
    for (uint32_t k = 0; k < from->start_count; k++)
      if (run->shape.lane[from->starts[k].stage] == l)
        order[count++] =
            (ovl_op_id_t){.microbatch = from->starts[k].microbatch, .stage = {from->starts[k].stage + 1}};
    if (run->shape.order[l] == OVL_ORDER_FIXED && count > 0)
      assert_int_equal(ovl_pipeline_set_order(run->pipeline, (ovl_lane_t){l + 1}, order, count), 0);
  }
}
