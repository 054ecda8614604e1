/* SPDX-License-Identifier: MIT */
/* Ping-pong through the layers of a model that is split over two ranks: while one microbatch's sums are reduced
 * between the ranks, another microbatch computes. Runs serially and overlapped; both must end with the same bits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layered_tbo/model.h"
#include "ovl.h"
#include "parts/arguments.h"
#include "parts/matrix.h"
#include "parts/ranks.h"
#include "parts/report.h"

#define PROGRAM "layered_tbo"
#define STAGES_A_LAYER 4 /* attention, its reduction, MLP, its reduction */
#define PARTS_A_LAYER 2  /* attention and MLP, each followed by a reduction */
#define PART_NS 3000000  /* how long a part should take when the dimension is not given */
#define KINDS 3          /* of results: serial, overlapped, without a pipeline */
#define ALONE 2          /* the last; the others are indexed by ovl_mode_t */

typedef struct program {
  uint64_t microbatches;
  uint64_t layers;
  uint64_t dimension;
  uint64_t comm_us;
  uint64_t repeats;
  uint64_t compute_ns; /* of a part, measured; the same on all ranks, as it goes into the planned order */
  uint64_t flight_ns;
  ranks_t ranks;
  model_t models[RANKS];
  float *results[KINDS][RANKS]; /* all microbatches' */
  int kind;                     /* of the run in flight */
  ovl_stage_t *stages;          /* of a rank's pipeline; the same ids on all */
  run_times_t times[2];         /* by ovl_mode_t */
} program_t;

static model_t *model_of(const rank_t *rank) {
  program_t *program = rank->program;
  return &program->models[rank->index];
}

/* Which layer an op belongs to: stages are added layer by layer. */
static size_t layer_of(const ovl_op_t *op) { return (op->stage.id - 1) / STAGES_A_LAYER; }

/* ---- what the stages do ---- */

static int run_attention(ovl_op_t *op) {
  rank_t *rank = op->data;
  op_times_begin(&rank->times, op);
  if (layer_of(op) == 0)
    model_embed(model_of(rank), op->slot, op->microbatch);
  model_attention(model_of(rank), op->slot, layer_of(op));
  op_times_end(&rank->times, op);
  return 0;
}

static int run_mlp(ovl_op_t *op) {
  rank_t *rank = op->data;
  op_times_begin(&rank->times, op);
  model_mlp(model_of(rank), op->slot, layer_of(op));
  op_times_end(&rank->times, op);
  return 0;
}

/* Only contributes: the op ends when the other rank has, too, and the link has carried both. */
static int run_reduction(ovl_op_t *op) {
  rank_t *rank = op->data;
  const program_t *program = rank->program;
  const model_t *model = model_of(rank);
  op_times_begin(&rank->times, op);
  return ranks_reduce(rank, op, model->slot[op->slot].partial, model_size(model), program->flight_ns);
}

/* The slot is free when this has returned, so what is wanted of it is taken now. */
static void on_microbatch(ovl_pipeline_t *pipeline, uint64_t microbatch, void *item, int status) {
  const rank_t *rank = ovl_pipeline_data(pipeline);
  const program_t *program = rank->program;
  model_t *model = model_of(rank);
  size_t slot = (size_t)(microbatch % ovl_pipeline_window(pipeline));
  (void)item;
  if (status != 0)
    return;
  model_end(model, slot);
  memcpy(program->results[program->kind][rank->index] + microbatch * model_size(model), model->slot[slot].x,
         model_size(model) * sizeof(float));
}

/* ---- the pipeline of a rank ---- */

static uint64_t compute_cost(const ovl_op_t *op) {
  const rank_t *rank = op->data;
  return ((const program_t *)rank->program)->compute_ns;
}

static uint64_t flight_cost(const ovl_op_t *op) {
  const rank_t *rank = op->data;
  return ((const program_t *)rank->program)->flight_ns;
}

static int add_lanes(rank_t *rank, ovl_lane_t *compute, ovl_lane_t *comm) {
  ovl_lane_options_t lane;
  ovl_lane_options_init(&lane);
  lane.name = "compute";
  lane.role = OVL_ROLE_COMPUTE;
  int status = ovl_pipeline_add_lane(rank->pipeline, &lane, compute);
  lane.name = "link";
  lane.role = OVL_ROLE_COMM;
  lane.order = OVL_ORDER_FIXED; /* the same on all ranks, or they would wait for each other for ever */
  return status == 0 ? ovl_pipeline_add_lane(rank->pipeline, &lane, comm) : status;
}

static int add_stage(rank_t *rank, const char *part, size_t layer, ovl_lane_t lane, ovl_op_cb run) {
  program_t *program = rank->program;
  ovl_stage_options_t stage;
  ovl_stage_t added;
  char name[64];
  (void)snprintf(name, sizeof name, "%s %zu", part, layer);
  ovl_stage_options_init(&stage);
  stage.name = name;
  stage.lane = lane;
  stage.run = run;
  stage.cost = run == run_reduction ? flight_cost : compute_cost;
  stage.data = rank;
  int status = ovl_pipeline_add_stage(rank->pipeline, &stage, &added);
  if (status == 0)
    program->stages[added.id - 1] = added;
  return status;
}

/* Stages of one microbatch wait for each other in the order of adding, which is all that is needed here. */
static int describe(rank_t *rank) {
  const program_t *program = rank->program;
  ovl_lane_t compute;
  ovl_lane_t comm;
  int status = add_lanes(rank, &compute, &comm);
  for (size_t layer = 0; layer < program->layers && status == 0; layer++) {
    status = add_stage(rank, "attention", layer, compute, run_attention);
    if (status == 0)
      status = add_stage(rank, "reduction of attention", layer, comm, run_reduction);
    if (status == 0)
      status = add_stage(rank, "MLP", layer, compute, run_mlp);
    if (status == 0)
      status = add_stage(rank, "reduction of MLP", layer, comm, run_reduction);
  }
  return status;
}

/* ---- set-up ---- */

/* Such that a part takes PART_NS, if products of its size are as fast as matrix_rate() says. */
static size_t choose_dimension(void) {
  double rate = matrix_rate(96);
  size_t dimension = 16;
  while (dimension < 512 && model_operations(dimension + 8) < rate * PART_NS)
    dimension += 8;
  return dimension;
}

static int set_up_rank(program_t *program, unsigned r) {
  size_t slots = (size_t)program->microbatches;
  int status = model_init(&program->models[r], r, (size_t)program->layers, (size_t)program->dimension, slots);
  program->ranks.each[r].program = program;
  for (int kind = 0; kind < KINDS && status == 0; kind++) {
    program->results[kind][r] = matrix_new(slots * model_size(&program->models[r]));
    if (program->results[kind][r] == NULL)
      status = OVL_ENOMEM;
  }
  return status;
}

static int set_up(program_t *program) {
  uint32_t stages = (uint32_t)program->layers * STAGES_A_LAYER;
  int status = 0;
  if (program->dimension == 0)
    program->dimension = choose_dimension();
  program->stages = calloc(stages, sizeof *program->stages);
  if (program->stages == NULL)
    status = OVL_ENOMEM;
  for (unsigned r = 0; r < RANKS && status == 0; r++)
    status = set_up_rank(program, r);
  if (status != 0)
    return report_failure(PROGRAM, "memory for the model", status);
  return ranks_open(&program->ranks, program->microbatches, stages, (uint32_t)program->microbatches, describe,
                    on_microbatch);
}

static void tear_down(program_t *program) {
  ranks_close(&program->ranks);
  for (unsigned r = 0; r < RANKS; r++) {
    model_finish(&program->models[r]);
    for (int kind = 0; kind < KINDS; kind++)
      free(program->results[kind][r]);
  }
  free(program->stages);
}

/* ---- runs ---- */

/* The mean of the stages on one lane, which are every second one. */
static uint64_t mean_from(const program_t *program, size_t first) {
  uint64_t sum_ns = 0;
  size_t count = PARTS_A_LAYER * (size_t)program->layers;
  for (size_t i = 0; i < count; i++)
    sum_ns += ranks_mean(&program->ranks, program->stages[2 * i + first]);
  return sum_ns / count;
}

/* T = P (c + m) for one microbatch alone or k after one another; P k max(c, m) + min(c, m) for k in ping-pong. */
static uint64_t theory(const program_t *program, ovl_mode_t mode, uint64_t compute_ns, uint64_t comm_ns) {
  uint64_t pairs = program->microbatches * program->layers * PARTS_A_LAYER;
  if (mode == OVL_SERIAL || program->microbatches == 1)
    return ovl_bound_serial(pairs, compute_ns, comm_ns);
  return ovl_bound_overlap(pairs, compute_ns, comm_ns);
}

/* A rule that the scheduler's own records do not show: each op began when the one before it had ended. */
static int check_chain(const program_t *program) {
  size_t stages = (size_t)program->layers * STAGES_A_LAYER;
  for (unsigned r = 0; r < RANKS; r++)
    for (size_t s = 1; s < stages; s++)
      if (op_times_check_after(&program->ranks.each[r].times, program->stages[s - 1], program->stages[s], 0,
                               PROGRAM) != 0)
        return -1;
  return 0;
}

static int run_once(program_t *program, ovl_mode_t mode) {
  run_times_t times;
  run_times_t *best = &program->times[mode];
  program->kind = (int)mode;
  for (unsigned r = 0; r < RANKS; r++)
    memset(program->results[mode][r], 0,
           (size_t)program->microbatches * model_size(&program->models[r]) * sizeof(float));
  if (ranks_run(&program->ranks, mode, &times) != 0 || check_chain(program) != 0)
    return -1;
  times.theory_ns = theory(program, mode, mean_from(program, 0), mean_from(program, 1));
  if (best->measured_ns == 0 || times.measured_ns < best->measured_ns)
    *best = times;
  return 0;
}

/* Without a pipeline: part by part, the ranks one after another. */
static void compute_alone(program_t *program, uint64_t microbatch) {
  size_t size = model_size(&program->models[0]);
  for (unsigned r = 0; r < RANKS; r++)
    model_embed(&program->models[r], 0, microbatch);
  for (size_t part = 0; part < PARTS_A_LAYER * program->layers; part++) {
    float *partials[RANKS];
    for (unsigned r = 0; r < RANKS; r++) {
      (part % 2 == 0 ? model_attention : model_mlp)(&program->models[r], 0, part / 2);
      partials[r] = program->models[r].slot[0].partial;
    }
    for (size_t i = 0; i < size; i++)
      partials[0][i] = partials[1][i] = partials[0][i] + partials[1][i];
  }
  for (unsigned r = 0; r < RANKS; r++) {
    model_end(&program->models[r], 0);
    memcpy(program->results[ALONE][r] + microbatch * size, program->models[r].slot[0].x,
           size * sizeof(float));
  }
}

/* Both modes and both ranks, to the last bit. */
static int compare_results(program_t *program) {
  size_t size = (size_t)program->microbatches * model_size(&program->models[0]);
  for (uint64_t i = 0; i < program->microbatches; i++)
    compute_alone(program, i);
  for (int kind = 0; kind < KINDS; kind++)
    for (unsigned r = 0; r < RANKS; r++)
      if (memcmp(program->results[kind][r], program->results[ALONE][0], size * sizeof(float)) != 0) {
        fprintf(stderr, PROGRAM ": the results of rank %u, %s, differ from those without a pipeline\n", r,
                kind == OVL_SERIAL ? "serial" : "overlapped");
        return -1;
      }
  return 0;
}

/* The first run only measures how long a part takes, with both ranks at work. */
static int run_all(program_t *program) {
  if (run_once(program, OVL_SERIAL) != 0)
    return -1;
  program->compute_ns = mean_from(program, 0);
  program->flight_ns = program->comm_us > 0 ? program->comm_us * 1000 : program->compute_ns / 5 * 4;
  program->times[OVL_SERIAL] = (run_times_t){.measured_ns = 0};
  for (uint64_t i = 0; i < program->repeats; i++)
    if (run_once(program, OVL_SERIAL) != 0 || run_once(program, OVL_OVERLAP) != 0)
      return -1;
  return compare_results(program);
}

/* ---- the program ---- */

static void print_report(const program_t *program) {
  double sum = 0;
  for (size_t i = 0; i < model_size(&program->models[0]); i++)
    sum += fabs((double)program->results[OVL_OVERLAP][0][i]);
  printf("2 ranks, %" PRIu64 " layers, %" PRIu64 " microbatches of %zu tokens, dimension %" PRIu64
         ", products by %s\n",
         program->layers, program->microbatches, program->models[0].tokens, program->dimension,
         matrix_method());
  printf("a part of a layer computes for %.3f ms, its reduction flies for %.3f ms\n",
         report_ms(program->compute_ns), report_ms(program->flight_ns));
  report_processors(RANKS);
  report_runs(&program->times[OVL_SERIAL], &program->times[OVL_OVERLAP]);
  printf("\n  best of %" PRIu64 " runs each; results equal to the last bit in both modes, on both ranks and\n"
         "  without a pipeline (mean magnitude of microbatch 0: %.6f)\n",
         program->repeats, sum / (double)model_size(&program->models[0]));
}

static int run_program(void *data) {
  program_t *program = data;
  if (ranks_init(&program->ranks, PROGRAM) != 0)
    return EXIT_FAULT;
  int code = set_up(program) == 0 && run_all(program) == 0 ? EXIT_SUCCESS : EXIT_FAULT;
  if (code == EXIT_SUCCESS)
    print_report(program);
  tear_down(program);
  ranks_finish(&program->ranks);
  return report_flush(PROGRAM, code);
}

int main(int argc, char **argv) {
  program_t program = {.microbatches = 2, .layers = 8, .repeats = 5};
  const argument_t list[] = {
      {'k', "microbatches", "K", &program.microbatches, 1, 64, "microbatches in ping-pong"},
      {'l', "layers", "L", &program.layers, 1, 256, "layers"},
      {'d', "dimension", "D", &program.dimension, 0, 1024, "width of the model; 0: parts take about 3 ms"},
      {'u', "comm-us", "US", &program.comm_us, 0, 1000000, "flight of a reduction; 0: 4/5 of a part"},
      {'r', "repeat", "R", &program.repeats, 1, 1000, "runs in each mode, of which the fastest counts"},
  };
  const arguments_t arguments = {
      PROGRAM, "Ping-pong of microbatches through layers whose sums are reduced between two ranks.", list,
      sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, run_program, &program);
}
