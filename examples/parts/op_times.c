/* SPDX-License-Identifier: MIT */
/* Times are compared without any tolerance: an op's end is written before the library learns of it, and the
 * start of what waited for it afterwards, on one clock. So a run that keeps the rules can not seem to break one. */
#include "parts/op_times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static size_t count(const op_times_t *times) { return (size_t)times->microbatches * times->stages; }

int op_times_init(op_times_t *times, uint64_t microbatches, uint32_t stages) {
  times->microbatches = microbatches;
  times->stages = stages;
  times->ops = NULL;
  if (microbatches > SIZE_MAX / sizeof *times->ops / (stages + 1))
    return OVL_ENOMEM;
  times->ops = calloc(count(times) + 1, sizeof *times->ops);
  return times->ops == NULL ? OVL_ENOMEM : 0;
}

void op_times_finish(op_times_t *times) {
  free(times->ops);
  times->ops = NULL;
}

void op_times_clear(op_times_t *times) { memset(times->ops, 0, count(times) * sizeof *times->ops); }

static op_time_t *place(const op_times_t *times, uint64_t microbatch, ovl_stage_t stage) {
  return &times->ops[microbatch * times->stages + stage.id - 1];
}

void op_times_begin(op_times_t *times, const ovl_op_t *op) {
  op_time_t *time = place(times, op->microbatch, op->stage);
  time->lane = op->lane.id;
  time->runs++;
  time->start_ns = uv_hrtime();
}

void op_times_end(op_times_t *times, const ovl_op_t *op) {
  place(times, op->microbatch, op->stage)->end_ns = uv_hrtime();
}

const op_time_t *op_times_of(const op_times_t *times, uint64_t microbatch, ovl_stage_t stage) {
  return place(times, microbatch, stage);
}

/* ---- durations ---- */

static uint64_t duration(const op_time_t *time) { return time->end_ns - time->start_ns; }

uint64_t op_times_mean(const op_times_t *times, ovl_stage_t stage) {
  uint64_t sum_ns = 0;
  for (uint64_t i = 0; i < times->microbatches; i++)
    sum_ns += duration(place(times, i, stage));
  return times->microbatches == 0 ? 0 : sum_ns / times->microbatches;
}

uint64_t op_times_span(const op_times_t *times) {
  uint64_t first_ns = UINT64_MAX;
  uint64_t last_ns = 0;
  for (size_t i = 0; i < count(times); i++) {
    if (times->ops[i].start_ns < first_ns)
      first_ns = times->ops[i].start_ns;
    if (times->ops[i].end_ns > last_ns)
      last_ns = times->ops[i].end_ns;
  }
  return count(times) == 0 ? 0 : last_ns - first_ns;
}

uint64_t op_times_duration(const ovl_op_t *op, void *times) {
  return duration(place(times, op->microbatch, op->stage));
}

int op_times_predict(op_times_t *times, ovl_pipeline_t *pipeline, uint64_t *predicted_ns) {
  ovl_simulation_t simulation;
  ovl_stats_t stats;
  ovl_simulation_init(&simulation);
  ovl_stats_init(&stats);
  simulation.duration = op_times_duration;
  simulation.data = times;
  int status = ovl_pipeline_simulate(pipeline, times->microbatches, &simulation, &stats);
  *predicted_ns = stats.elapsed_ns;
  return status;
}

/* ---- rules ---- */

static int refuse(const op_times_t *times, const op_time_t *time, const char *program, const char *what) {
  size_t index = (size_t)(time - times->ops);
  fprintf(stderr, "%s: stage %zu of microbatch %zu %s\n", program, index % times->stages + 1,
          index / times->stages, what);
  return -1;
}

/* By lane, then start, then end. */
static int compare(const void *left, const void *right) {
  const op_time_t *a = *(const op_time_t *const *)left;
  const op_time_t *b = *(const op_time_t *const *)right;
  if (a->lane != b->lane)
    return a->lane < b->lane ? -1 : 1;
  if (a->start_ns != b->start_ns)
    return a->start_ns < b->start_ns ? -1 : 1;
  return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static int compare_times(const void *left, const void *right) {
  const op_time_t *a = *(const op_time_t *const *)left;
  const op_time_t *b = *(const op_time_t *const *)right;
  if (a->start_ns != b->start_ns)
    return a->start_ns < b->start_ns ? -1 : 1;
  return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static int check_turns(const op_times_t *times, const op_time_t **sorted, ovl_mode_t mode,
                       const char *program) {
  qsort(sorted, count(times), sizeof(op_time_t *), mode == OVL_SERIAL ? compare_times : compare);
  for (size_t i = 1; i < count(times); i++)
    if ((mode == OVL_SERIAL || sorted[i]->lane == sorted[i - 1]->lane) &&
        sorted[i]->start_ns < sorted[i - 1]->end_ns)
      return refuse(times, sorted[i], program, "began before the one ahead of it on its lane had ended");
  return 0;
}

int op_times_check(const op_times_t *times, ovl_mode_t mode, const char *program) {
  const op_time_t **sorted = calloc(count(times) + 1, sizeof *sorted);
  int result = 0;
  if (sorted == NULL) {
    fprintf(stderr, "%s: no memory for checking the run\n", program);
    return -1;
  }
  for (size_t i = 0; i < count(times) && result == 0; i++) {
    sorted[i] = &times->ops[i];
    if (times->ops[i].runs != 1 || times->ops[i].end_ns < times->ops[i].start_ns)
      result = refuse(times, &times->ops[i], program, "did not begin and end once");
  }
  if (result == 0)
    result = check_turns(times, sorted, mode, program);
  free(sorted);
  return result;
}

int op_times_check_after(const op_times_t *times, ovl_stage_t before, ovl_stage_t after, uint64_t distance,
                         const char *program) {
  for (uint64_t i = distance; i < times->microbatches; i++)
    if (place(times, i, after)->start_ns < place(times, i - distance, before)->end_ns)
      return refuse(times, place(times, i, after), program, "began before one that it waits for had ended");
  return 0;
}
