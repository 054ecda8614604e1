/* SPDX-License-Identifier: MIT */
/* One loop turns until both runs have ended.
 * Whatever fails, the loop is run to its end, so that it can be closed and no op is left behind. */
#include "parts/ranks.h"

#include <stdio.h>
#include <uv.h>

#include "ovl.h"

int ranks_init(ranks_t *ranks, const char *program) {
  *ranks = (ranks_t){.program = program};
  for (unsigned r = 0; r < RANKS; r++)
    ranks->each[r] = (rank_t){.ranks = ranks, .index = r};
  int status = backend_reduce_init(&ranks->reduce);
  return status == 0 ? 0 : report_failure(program, "setting up the reduction", status);
}

void ranks_finish(ranks_t *ranks) { backend_reduce_finish(&ranks->reduce); }

/* ---- describing ---- */

static void on_failure(ovl_pipeline_t *pipeline, const ovl_failure_t *failure) {
  rank_t *rank = ovl_pipeline_data(pipeline);
  (void)failure; /* reported with the run's status */
  backend_reduce_abort(&rank->ranks->reduce, OVL_ECANCELED);
}

static int open_one(rank_t *rank, uint32_t stages, ovl_pipeline_options_t *options,
                    ranks_describe_cb describe) {
  const char *program = rank->ranks->program;
  options->data = rank;
  int status = op_times_init(&rank->times, rank->ranks->microbatches, stages);
  if (status != 0)
    return report_failure(program, "memory for a rank's diary", status);
  status = ovl_pipeline_create(&rank->pipeline, options);
  if (status == 0)
    status = describe(rank);
  return status == 0 ? 0 : report_refusal(program, "describing a rank's pipeline", rank->pipeline, status);
}

/* spin_ns: idle runners would take processors from those that compute. */
int ranks_open(ranks_t *ranks, uint64_t microbatches, uint32_t stages, uint32_t window,
               ranks_describe_cb describe, ovl_microbatch_cb on_microbatch) {
  ovl_pipeline_options_t options;
  int status = 0;
  ovl_pipeline_options_init(&options);
  options.window = window;
  options.spin_ns = 1;
  options.on_microbatch = on_microbatch;
  options.on_failure = on_failure;
  ranks->microbatches = microbatches;
  for (unsigned r = 0; r < RANKS && status == 0; r++)
    status = open_one(&ranks->each[r], stages, &options, describe);
  return status;
}

void ranks_close(ranks_t *ranks) {
  for (unsigned r = 0; r < RANKS; r++) {
    ovl_pipeline_close(ranks->each[r].pipeline, NULL);
    ranks->each[r].pipeline = NULL;
    op_times_finish(&ranks->each[r].times);
  }
}

/* ---- running ---- */

/* What ranks on several machines would send each other before they start. */
static int compare_fingerprints(const ranks_t *ranks) {
  uint64_t first = ovl_pipeline_fingerprint(ranks->each[0].pipeline, ranks->microbatches);
  uint64_t second = ovl_pipeline_fingerprint(ranks->each[1].pipeline, ranks->microbatches);
  if (first == second && first != 0)
    return 0;
  const char *why =
      first == 0 ? ovl_pipeline_error(ranks->each[0].pipeline) : "they would reduce in another order";
  fprintf(stderr, "%s: the ranks' fingerprints: %s\n", ranks->program, why);
  return OVL_EINVAL;
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  rank_t *rank = ovl_pipeline_data(pipeline);
  rank->status = status;
}

/* A rank that does not start is as bad for the other as one that fails. */
static int start(ranks_t *ranks, uv_loop_t *loop) {
  for (unsigned r = 0; r < RANKS; r++) {
    ovl_pipeline_t *pipeline = ranks->each[r].pipeline;
    int status = ovl_pipeline_start(pipeline, loop, ranks->microbatches, on_done);
    if (status == 0)
      continue;
    backend_reduce_abort(&ranks->reduce, OVL_ECANCELED);
    return report_refusal(ranks->program, "starting a rank", pipeline, status);
  }
  return 0;
}

/* The rank at fault, and not the one that was told to stop because of it. */
static int first_status(const ranks_t *ranks) {
  const rank_t *failed = NULL;
  for (unsigned r = 0; r < RANKS; r++)
    if (ranks->each[r].status != 0 && (failed == NULL || failed->status == OVL_ECANCELED))
      failed = &ranks->each[r];
  return failed == NULL ? 0 : report_failed_run(ranks->program, failed->pipeline, failed->status);
}

static int run_loop(ranks_t *ranks) {
  uv_loop_t loop;
  int status = uv_loop_init(&loop);
  if (status != 0)
    return report_failure(ranks->program, "making a loop", status);
  status = start(ranks, &loop);
  (void)uv_run(&loop, UV_RUN_DEFAULT); /* until nothing is left; checked by the next call */
  int closed = uv_loop_close(&loop);
  if (closed != 0)
    return report_failure(ranks->program, "closing the loop", closed);
  return status == 0 ? first_status(ranks) : status;
}

/* ---- what came of it ---- */

static int examine(rank_t *rank, ovl_mode_t mode, run_times_t *result) {
  const char *program = rank->ranks->program;
  uint64_t predicted_ns;
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_stats(rank->pipeline, &stats);
  if (status != 0)
    return report_failure(program, "a rank's statistics", status);
  if (op_times_check(&rank->times, mode, program) != 0)
    return OVL_EINVAL;
  if (stats.elapsed_ns < stats.bound_ns) {
    fprintf(stderr, "%s: a run was faster than its bound\n", program);
    return OVL_EINVAL;
  }
  status = op_times_predict(&rank->times, rank->pipeline, &predicted_ns);
  if (status != 0)
    return report_failure(program, "predicting a run", status);
  if (stats.elapsed_ns > result->measured_ns)
    *result = (run_times_t){.predicted_ns = predicted_ns, .measured_ns = stats.elapsed_ns};
  return 0;
}

int ranks_run(ranks_t *ranks, ovl_mode_t mode, run_times_t *result) {
  int status = 0;
  *result = (run_times_t){.measured_ns = 0};
  for (unsigned r = 0; r < RANKS && status == 0; r++) {
    op_times_clear(&ranks->each[r].times);
    ranks->each[r].status = 0;
    status = ovl_pipeline_set_mode(ranks->each[r].pipeline, mode);
  }
  if (status != 0)
    return report_failure(ranks->program, "choosing the mode", status);
  status = compare_fingerprints(ranks);
  if (status == 0)
    status = run_loop(ranks);
  for (unsigned r = 0; r < RANKS && status == 0; r++)
    status = examine(&ranks->each[r], mode, result);
  return status;
}

uint64_t ranks_mean(const ranks_t *ranks, ovl_stage_t stage) {
  uint64_t sum_ns = 0;
  for (unsigned r = 0; r < RANKS; r++)
    sum_ns += op_times_mean(&ranks->each[r].times, stage);
  return sum_ns / RANKS;
}

int ranks_reduce(rank_t *rank, ovl_op_t *op, float *values, size_t count, uint64_t flight_ns) {
  return backend_reduce_contribute(
      &rank->ranks->reduce, rank->index,
      (backend_reduce_part_t){
          .op = op, .times = &rank->times, .values = values, .count = count, .flight_ns = flight_ns});
}
