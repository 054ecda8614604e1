/* SPDX-License-Identifier: MIT */
/* Data-parallel training of a small network on two ranks: gradients are reduced in buckets while earlier layers are
 * still computing theirs. Runs serially and overlapped with several sizes of buckets; all must learn the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dbo_gradients/network.h"
#include "dbo_gradients/order.h"
#include "dbo_gradients/training.h"
#include "ovl.h"
#include "parts/arguments.h"
#include "parts/matrix.h"
#include "parts/ranks.h"
#include "parts/report.h"

#define PROGRAM "dbo_gradients"
#define FORWARD_NS \
  1500000 /* how long a layer's forward should take when the number of samples is not given */
#define KIB_VALUES (1024 / sizeof(float))

/* Both runs with one size of buckets. */
typedef struct row {
  size_t values; /* of a bucket */
  size_t buckets;
  size_t turned;        /* of them, how many at the end of a step are reduced in reverse */
  run_times_t times[2]; /* by ovl_mode_t */
} row_t;

typedef struct program {
  uint64_t steps;
  uint64_t accumulate;
  uint64_t bucket_kb;
  uint64_t width;
  uint64_t samples;
  uint64_t comm_us;
  uint64_t latency_us;
  uint64_t repeats;
  ranks_t ranks;
  training_t trainings[RANKS];
  training_costs_t costs;
  float *learned[RANKS]; /* weights after the first run; NULL before */
  double *losses[RANKS]; /* of the first run, by microbatch */
} program_t;

static uint64_t microbatches(const program_t *program) { return program->steps * program->accumulate; }

/* ---- set-up ---- */

static int reduce(training_t *training, ovl_op_t *op, float *values, size_t count) {
  return ranks_reduce(training->carrier.data, op, values, count, training_flight(training->costs, count));
}

/* The link's order must be the same on all ranks; which one it is, is chosen later. */
static int describe(rank_t *rank) {
  ovl_lane_options_t lane;
  ovl_lane_t compute;
  ovl_lane_t link;
  ovl_lane_options_init(&lane);
  lane.name = "compute";
  lane.role = OVL_ROLE_COMPUTE;
  int status = ovl_pipeline_add_lane(rank->pipeline, &lane, &compute);
  lane.name = "link";
  lane.role = OVL_ROLE_COMM;
  lane.order = OVL_ORDER_FIXED;
  if (status == 0)
    status = ovl_pipeline_add_lane(rank->pipeline, &lane, &link);
  return status == 0 ? training_describe(rank->program, rank->pipeline, compute, link) : status;
}

static int set_up_rank(program_t *program, unsigned r) {
  training_t *training = &program->trainings[r];
  size_t count = (size_t)microbatches(program);
  int status = network_init(&training->network, r, (size_t)program->width, (size_t)program->samples,
                            (size_t)program->accumulate, training_window(program->accumulate));
  training->carrier = (training_carrier_t){.ranks = RANKS, .data = &program->ranks.each[r], .reduce = reduce};
  training->diary = &program->ranks.each[r].times;
  training->accumulate = program->accumulate;
  training->costs = &program->costs;
  training->losses = calloc(count, sizeof(double));
  program->losses[r] = calloc(count, sizeof(double));
  program->learned[r] = matrix_new(network_size(&training->network));
  program->ranks.each[r].program = training;
  if (training->losses == NULL || program->losses[r] == NULL || program->learned[r] == NULL)
    return OVL_ENOMEM;
  return status;
}

static int set_up(program_t *program) {
  int status = 0;
  if (program->samples == 0)
    program->samples = network_samples((size_t)program->width, FORWARD_NS);
  for (unsigned r = 0; r < RANKS && status == 0; r++)
    status = set_up_rank(program, r);
  return status == 0 ? 0 : report_failure(PROGRAM, "memory for the networks", status);
}

static void tear_down(program_t *program) {
  for (unsigned r = 0; r < RANKS; r++) {
    network_finish(&program->trainings[r].network);
    free(program->trainings[r].losses);
    free(program->losses[r]);
    free(program->learned[r]);
  }
}

/* ---- one run ---- */

static int run_once(program_t *program, ovl_mode_t mode, run_times_t *times) {
  for (unsigned r = 0; r < RANKS; r++) {
    network_reset(&program->trainings[r].network);
    memset(program->trainings[r].losses, 0, (size_t)microbatches(program) * sizeof(double));
  }
  if (ranks_run(&program->ranks, mode, times) != 0)
    return -1;
  for (unsigned r = 0; r < RANKS; r++)
    if (training_check(&program->trainings[r], &program->ranks.each[r].times, PROGRAM) != 0)
      return -1;
  return 0;
}

/* What the run should take if every stage costs what its hint says. */
static int expect(program_t *program, ovl_mode_t mode, run_times_t *times) {
  ovl_pipeline_t *pipeline = program->ranks.each[0].pipeline;
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_set_mode(pipeline, mode);
  if (status == 0)
    status = ovl_pipeline_simulate(pipeline, microbatches(program), NULL, &stats);
  times->theory_ns = stats.elapsed_ns;
  return status == 0 ? 0 : report_failure(PROGRAM, "simulating a run", status);
}

static void keep_learned(program_t *program) {
  for (unsigned r = 0; r < RANKS; r++) {
    const network_t *network = &program->trainings[r].network;
    memcpy(program->learned[r], network->weights, network_size(network) * sizeof(float));
    memcpy(program->losses[r], program->trainings[r].losses, (size_t)microbatches(program) * sizeof(double));
  }
}

/* With the first run, to the last bit, and the ranks with each other. */
static int compare_learned(const program_t *program, ovl_mode_t mode) {
  for (unsigned r = 0; r < RANKS; r++) {
    const network_t *network = &program->trainings[r].network;
    if (memcmp(program->learned[0], network->weights, network_size(network) * sizeof(float)) == 0 &&
        memcmp(program->losses[r], program->trainings[r].losses,
               (size_t)microbatches(program) * sizeof(double)) == 0)
      continue;
    fprintf(stderr, PROGRAM ": rank %u has learned something else in the %s run than in the first\n", r,
            mode == OVL_SERIAL ? "serial" : "overlapped");
    return -1;
  }
  return 0;
}

/* ---- runs with one size of buckets ---- */

static int open_row(program_t *program, row_t *row) {
  for (unsigned r = 0; r < RANKS; r++) {
    int status = training_cut(&program->trainings[r], row->values);
    if (status != 0)
      return report_failure(PROGRAM, "memory for the buckets", status);
  }
  row->buckets = program->trainings[0].bucket_count;
  return ranks_open(&program->ranks, microbatches(program),
                    training_stages(&program->trainings[0].network, row->values),
                    training_window(program->accumulate), describe, NULL);
}

static void close_row(program_t *program) {
  ranks_close(&program->ranks);
  for (unsigned r = 0; r < RANKS; r++)
    training_uncut(&program->trainings[r]);
}

/* Keeps the times of the fastest run. */
static int run_mode(program_t *program, ovl_mode_t mode, run_times_t *best) {
  run_times_t times;
  if (run_once(program, mode, &times) != 0 || expect(program, mode, &times) != 0 ||
      compare_learned(program, mode) != 0)
    return -1;
  if (best->measured_ns == 0 || times.measured_ns < best->measured_ns)
    *best = times;
  return 0;
}

static int run_both(program_t *program, row_t *row) {
  for (uint64_t i = 0; i < program->repeats; i++)
    if (run_mode(program, OVL_SERIAL, &row->times[OVL_SERIAL]) != 0 ||
        run_mode(program, OVL_OVERLAP, &row->times[OVL_OVERLAP]) != 0)
      return -1;
  return 0;
}

/* Takes the costs from a serial run without any flight, with both ranks at work. */
static int measure_costs(program_t *program) {
  const training_t *training = &program->trainings[0];
  training_costs_t *costs = &program->costs;
  uint64_t backward_ns = 0;
  run_times_t times;
  if (run_once(program, OVL_SERIAL, &times) != 0)
    return -1;
  for (size_t l = 0; l < NETWORK_LAYERS; l++) {
    costs->forward_ns[l] = ranks_mean(&program->ranks, training->forward[l]);
    costs->backward_ns[l] = ranks_mean(&program->ranks, training->backward[l]);
    backward_ns += costs->backward_ns[l];
  }
  double values = (double)network_size(&training->network);
  costs->update_ns = (double)ranks_mean(&program->ranks, training->update[0]) * (double)program->accumulate /
                     (double)training->buckets[0].count;
  costs->flight_ns =
      (program->comm_us > 0 ? (double)program->comm_us * 1000 : (double)backward_ns * 0.8) / values;
  costs->latency_ns = program->latency_us * 1000;
  keep_learned(program);
  return 0;
}

static int run_row(program_t *program, row_t *row, int first) {
  int result = open_row(program, row);
  if (result == 0 && first)
    result = measure_costs(program);
  if (result == 0)
    result = order_choose(program->trainings, RANKS, microbatches(program), PROGRAM, &row->turned);
  if (result == 0)
    result = run_both(program, row);
  close_row(program);
  return result == 0 ? 0 : -1;
}

/* ---- what came of it ---- */

/* Over the ranks and the microbatches of a step. */
static double loss_of(const program_t *program, uint64_t step) {
  double sum = 0;
  for (unsigned r = 0; r < RANKS; r++)
    for (uint64_t i = 0; i < program->accumulate; i++)
      sum += program->losses[r][step * program->accumulate + i];
  return sum / (double)(program->accumulate * RANKS);
}

static int check_loss(const program_t *program) {
  double first = loss_of(program, 0);
  double last = loss_of(program, program->steps - 1);
  if (program->steps == 1 || last < first)
    return 0;
  fprintf(stderr, PROGRAM ": the loss did not fall: %g, then %g\n", first, last);
  return -1;
}

static void print_learning(const program_t *program) {
  const training_costs_t *costs = &program->costs;
  uint64_t forward_ns = 0;
  uint64_t backward_ns = 0;
  for (size_t l = 0; l < NETWORK_LAYERS; l++) {
    forward_ns += costs->forward_ns[l];
    backward_ns += costs->backward_ns[l];
  }
  printf("2 ranks, %" PRIu64 " steps of %" PRIu64 " microbatch%s of %" PRIu64
         " samples, %d layers of %" PRIu64 " x %" PRIu64 ", products by %s\n",
         program->steps, program->accumulate, program->accumulate == 1 ? "" : "es", program->samples,
         NETWORK_LAYERS, program->width, program->width, matrix_method());
  printf("forward %.3f ms, backward %.3f ms, all gradients at once fly for %.3f ms\n", report_ms(forward_ns),
         report_ms(backward_ns),
         report_ms(training_flight(costs, network_size(&program->trainings[0].network))));
  printf("loss %.6f in the first step, %.6f in the last, in every run\n", loss_of(program, 0),
         loss_of(program, program->steps - 1));
  report_processors(RANKS);
}

static void print_row(const row_t *row) {
  const run_times_t *serial = &row->times[OVL_SERIAL];
  const run_times_t *overlap = &row->times[OVL_OVERLAP];
  printf("  %6zu %8zu %7zu %11.3f %14.3f %12.3f %8.3f\n", row->values / KIB_VALUES, row->buckets, row->turned,
         report_ms(serial->measured_ns), report_ms(overlap->predicted_ns), report_ms(overlap->measured_ns),
         report_ratio(serial->measured_ns, overlap->measured_ns));
}

/* ---- the program ---- */

/* The size that was asked for, and those around it; the largest holds everything. */
static size_t choose_rows(const program_t *program, row_t *rows) {
  size_t all = network_size(&program->trainings[0].network);
  size_t asked = (size_t)program->bucket_kb * KIB_VALUES;
  const size_t sizes[] = {asked, 16 * KIB_VALUES, 64 * KIB_VALUES, 256 * KIB_VALUES, all};
  size_t count = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t values = sizes[i] < all ? sizes[i] : all;
    size_t same = 0;
    while (same < count && rows[same].values != values)
      same++;
    if (same == count)
      rows[count++] = (row_t){.values = values};
  }
  return count;
}

static int run_rows(program_t *program) {
  row_t rows[5];
  size_t count = choose_rows(program, rows);
  for (size_t i = 0; i < count; i++)
    if (run_row(program, &rows[i], i == 0) != 0)
      return -1;
  if (check_loss(program) != 0)
    return -1;
  print_learning(program);
  printf("\nbuckets of %zu KiB (theory: every stage takes its mean)\n", rows[0].values / KIB_VALUES);
  report_runs(&rows[0].times[OVL_SERIAL], &rows[0].times[OVL_OVERLAP]);
  printf("\n  %6s %8s %7s %11s %14s %12s %8s\n", "KiB", "buckets", "turned", "serial, ms", "predicted, ms",
         "overlap, ms", "speedup");
  for (size_t i = 0; i < count; i++)
    print_row(&rows[i]);
  return 0;
}

static int run_program(void *data) {
  program_t *program = data;
  if (ranks_init(&program->ranks, PROGRAM) != 0)
    return EXIT_FAULT;
  int code = set_up(program) == 0 && run_rows(program) == 0 ? EXIT_SUCCESS : EXIT_FAULT;
  tear_down(program);
  ranks_finish(&program->ranks);
  return report_flush(PROGRAM, code);
}

int main(int argc, char **argv) {
  program_t program = {
      .steps = 5, .accumulate = 1, .bucket_kb = 64, .width = 192, .latency_us = 100, .repeats = 4};
  const argument_t list[] = {
      {'n', "steps", "N", &program.steps, 1, 10000, "steps of training"},
      {'a', "accumulate", "N", &program.accumulate, 1, 64, "microbatches whose gradients make a step"},
      {'b', "bucket-kb", "KIB", &program.bucket_kb, 1, 1048576, "size of a bucket of gradients"},
      {'d', "dimension", "D", &program.width, 8, 1024, "width of the layers"},
      {'s', "samples", "S", &program.samples, 0, 4096, "of a microbatch; 0: forward takes 1.2 ms a layer"},
      {'u', "comm-us", "US", &program.comm_us, 0, 1000000, "flight of all gradients; 0: 4/5 of backward"},
      {'t', "latency-us", "US", &program.latency_us, 0, 100000, "that every bucket flies in addition"},
      {'r', "repeat", "R", &program.repeats, 1, 1000, "runs in each mode, of which the fastest counts"},
  };
  const arguments_t arguments = {
      PROGRAM, "Training on two ranks, whose gradients are reduced while earlier layers still compute.", list,
      sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, run_program, &program);
}
