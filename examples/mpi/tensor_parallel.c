/* SPDX-License-Identifier: MIT */
/* Layers split over the ranks of MPI: while one microbatch's parts are added up, another one computes. Serially and
 * overlapped, all must end with the same bits, and with what one rank alone gets, but for rounding. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/job.h"
#include "mpi/tensor_model.h"
#include "parts/arguments.h"
#include "parts/matrix.h"

#define PROGRAM "tensor_parallel"

/* In results, relative to their size: sums are made in another order. Each layer adds some. */
#define ROUNDING 1e-5

/* What a stage works on. */
typedef struct part {
  size_t layer;
  size_t chunk;
} part_t;

typedef struct program {
  uint64_t microbatches;
  uint64_t layers;
  uint64_t tokens;
  uint64_t dimension;
  uint64_t chunks;
  uint64_t sequence;
  job_t job;
  tensor_model_t model;
  part_t *parts;    /* by stage id - 1 */
  float *results;   /* of the last run, by microbatch */
  float *first;     /* of the first run; of the whole model on one rank, in the end */
  double deviation; /* from the latter, on this rank */
} program_t;

static size_t result_size(const program_t *program) {
  return tensor_rows(&program->model.shape) * program->model.shape.dimension;
}

static const part_t *part_of(const ovl_op_t *op) {
  const program_t *program = op->data;
  return &program->parts[op->stage.id - 1];
}

/* ---- what the stages do: those that compute ---- */

/* x is complete when the layer before has been added up. */
static void begin_layer(program_t *program, const ovl_op_t *op) {
  if (part_of(op)->layer == 0)
    tensor_embed(&program->model, op->slot, op->microbatch);
  else
    tensor_take_in(&program->model, op->slot);
  tensor_normalise(&program->model, op->slot);
}

static int run_normalise(ovl_op_t *op) {
  program_t *program = op->data;
  int status = job_disturb(&program->job, op);
  if (status == 0)
    begin_layer(program, op);
  return status;
}

/* The first chunk's also does what is needed for all of them. */
static int run_product(ovl_op_t *op) {
  program_t *program = op->data;
  const part_t *part = part_of(op);
  int status = job_disturb(&program->job, op);
  if (status != 0)
    return status;
  if (part->chunk == 0 && !program->sequence)
    begin_layer(program, op);
  if (part->chunk == 0)
    tensor_expand(&program->model, op->slot, part->layer);
  tensor_contract(&program->model, op->slot, part->layer, part->chunk);
  return 0;
}

/* ---- and those that communicate ---- */

static int run_gather(ovl_op_t *op) {
  program_t *program = op->data;
  mpi_lane_t *link = &program->job.link;
  MPI_Request *request;
  int status = mpi_lane_begin(link, op, &request);
  if (status != 0)
    return status;
  return mpi_lane_started(link, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL,
                                               program->model.slot[op->slot].normal,
                                               (int)result_size(program), MPI_FLOAT, link->comm, request));
}

/* The sums of all rows to all ranks; or to each those of its own. */
static int start_reduction(const program_t *program, const ovl_op_t *op, MPI_Comm comm,
                           MPI_Request *request) {
  const tensor_shape_t *shape = &program->model.shape;
  const float *partial = tensor_partial(&program->model, op->slot, part_of(op)->chunk);
  float *sum = tensor_sum(&program->model, op->slot, part_of(op)->chunk);
  int count = (int)(tensor_rows(shape) * tensor_columns(shape));
  if (shape->sequence)
    return MPI_Ireduce_scatter_block(partial, sum, count, MPI_FLOAT, MPI_SUM, comm, request);
  return MPI_Iallreduce(partial, sum, count, MPI_FLOAT, MPI_SUM, comm, request);
}

static int run_reduction(ovl_op_t *op) {
  program_t *program = op->data;
  mpi_lane_t *link = &program->job.link;
  MPI_Request *request;
  int status = mpi_lane_begin(link, op, &request);
  if (status != 0)
    return status;
  return mpi_lane_started(link, start_reduction(program, op, link->comm, request));
}

/* The slot is free when this has returned, so what is wanted of it is taken now. */
static void on_microbatch(ovl_pipeline_t *pipeline, uint64_t microbatch, void *item, int status) {
  const job_t *job = ovl_pipeline_data(pipeline);
  program_t *program = job->data;
  size_t slot = (size_t)(microbatch % ovl_pipeline_window(pipeline));
  (void)item;
  if (status != 0)
    return;
  tensor_take_in(&program->model, slot);
  memcpy(program->results + microbatch * result_size(program), program->model.slot[slot].x,
         result_size(program) * sizeof(float));
}

/* ---- the pipeline ----
 *
 *   each layer                    product 0 .. product C-1           compute lane, one after another
 *                                     |             |
 *                                 reduction 0 .. reduction C-1       link; the next layer waits for all of them
 *
 *   with --sequence-parallel in front of that: normalise, gather */

static uint32_t stages_of_layer(const program_t *program) {
  return (uint32_t)(2 * program->chunks + (program->sequence ? 2 : 0));
}

static int add_stage(program_t *program, const char *what, part_t part, ovl_lane_t lane, ovl_op_cb run,
                     ovl_stage_t *added) {
  ovl_stage_options_t stage;
  char name[64];
  (void)snprintf(name, sizeof name, "%s %zu.%zu", what, part.layer, part.chunk);
  ovl_stage_options_init(&stage);
  stage.name = name;
  stage.lane = lane;
  stage.run = run;
  stage.unchained = 1;
  int status = job_add_stage(&program->job, &stage, added);
  if (status == 0)
    program->parts[added->id - 1] = part;
  return status;
}

/* `last` are the reductions of the layer before; there are none before the first. */
static int wait_for_layer(program_t *program, size_t layer, const ovl_stage_t *last, ovl_stage_t stage) {
  int status = 0;
  for (size_t c = 0; c < program->chunks && layer > 0 && status == 0; c++)
    status = ovl_pipeline_add_dependency(program->job.pipeline, last[c], stage, 0);
  return status;
}

static int add_gather(program_t *program, size_t layer, const ovl_stage_t *last, ovl_stage_t *gather) {
  const part_t part = {.layer = layer};
  ovl_stage_t normalise;
  int status = add_stage(program, "normalise", part, program->job.compute_lane, run_normalise, &normalise);
  if (status == 0)
    status = wait_for_layer(program, layer, last, normalise);
  if (status == 0)
    status = add_stage(program, "gather", part, program->job.link_lane, run_gather, gather);
  return status == 0 ? ovl_pipeline_add_dependency(program->job.pipeline, normalise, *gather, 0) : status;
}

static int add_first_product(program_t *program, size_t layer, const ovl_stage_t *last,
                             ovl_stage_t *product) {
  ovl_stage_t gather = {0};
  int status = program->sequence ? add_gather(program, layer, last, &gather) : 0;
  if (status == 0)
    status = add_stage(program, "product", (part_t){.layer = layer}, program->job.compute_lane, run_product,
                       product);
  if (status != 0)
    return status;
  return program->sequence ? ovl_pipeline_add_dependency(program->job.pipeline, gather, *product, 0)
                           : wait_for_layer(program, layer, last, *product);
}

/* `last` becomes this layer's reductions. */
static int add_layer(program_t *program, size_t layer, ovl_stage_t *last) {
  ovl_stage_t product, before;
  int status = add_first_product(program, layer, last, &product);
  for (size_t c = 0; c < program->chunks && status == 0; c++) {
    const part_t part = {layer, c};
    before = product;
    if (c > 0)
      status = add_stage(program, "product", part, program->job.compute_lane, run_product, &product);
    if (c > 0 && status == 0)
      status = ovl_pipeline_add_dependency(program->job.pipeline, before, product, 0);
    if (status == 0)
      status = add_stage(program, "reduction", part, program->job.link_lane, run_reduction, &last[c]);
    if (status == 0)
      status = ovl_pipeline_add_dependency(program->job.pipeline, product, last[c], 0);
  }
  return status;
}

static int describe(job_t *job) {
  program_t *program = job->data;
  ovl_stage_t *last = calloc(program->chunks, sizeof *last);
  int status = last != NULL ? 0 : OVL_ENOMEM;
  for (size_t layer = 0; layer < program->layers && status == 0; layer++)
    status = add_layer(program, layer, last);
  free(last);
  return status;
}

/* ---- what came of it ---- */

static size_t result_bytes(const program_t *program) {
  return (size_t)program->microbatches * result_size(program) * sizeof(float);
}

static int before_run(job_t *job, ovl_mode_t mode) {
  program_t *program = job->data;
  (void)mode;
  memset(program->results, 0, result_bytes(program));
  return 0;
}

/* To the last bit. */
static int after_run(job_t *job, ovl_mode_t mode) {
  program_t *program = job->data;
  if (job->runs == 1)
    memcpy(program->first, program->results, result_bytes(program));
  if (memcmp(program->first, program->results, result_bytes(program)) == 0)
    return 0;
  return job_complain(job,
                      mode == OVL_SERIAL ? "a serial run has other results than the first one"
                                         : "an overlapped run has other results than the serial one",
                      OVL_EINVAL);
}

/* The mean square of the difference, relative to that of the right ones. */
static double deviation(const float *found, const float *right, size_t count) {
  double differences = 0, squares = 0;
  for (size_t i = 0; i < count; i++) {
    double difference = (double)found[i] - (double)right[i];
    differences += difference * difference;
    squares += (double)right[i] * (double)right[i];
  }
  return sqrt(differences / squares);
}

static int compare_with_one_rank(program_t *program) {
  int status = tensor_reference(&program->model.shape, program->microbatches, program->first);
  if (status != 0)
    return job_complain(&program->job, "memory for the whole model", status);
  program->deviation = deviation(program->results, program->first, result_bytes(program) / sizeof(float));
  if (program->deviation <= ROUNDING * (double)program->layers)
    return 0;
  return job_complain(&program->job, "the results are not those of one rank alone", OVL_EINVAL);
}

/* ---- the program ---- */

static int set_up(void *data) {
  program_t *program = data;
  job_t *job = &program->job;
  const tensor_shape_t shape = {.layers = (size_t)program->layers,
                                .tokens = (size_t)program->tokens,
                                .dimension = (size_t)program->dimension,
                                .chunks = (size_t)program->chunks,
                                .sequence = (int)program->sequence,
                                .rank = (size_t)job->rank,
                                .ranks = (size_t)job->size};
  const char *why = tensor_refusal(&shape);
  if (why != NULL) {
    if (job->rank == 0)
      fprintf(stderr, PROGRAM ": %s\n", why);
    return OVL_EINVAL;
  }
  int status = tensor_model_init(&program->model, &shape, (size_t)program->microbatches);
  program->parts = calloc(program->layers * stages_of_layer(program), sizeof *program->parts);
  program->results = matrix_new(result_bytes(program) / sizeof(float));
  program->first = matrix_new(result_bytes(program) / sizeof(float));
  if (program->parts == NULL || program->results == NULL || program->first == NULL)
    status = OVL_ENOMEM;
  return job_agree(job, status == 0 ? 0 : job_complain(job, "memory for the model", status));
}

static void tear_down(void *data) {
  program_t *program = data;
  tensor_model_finish(&program->model);
  free(program->parts);
  free(program->results);
  free(program->first);
}

static void print_head(const program_t *program) {
  if (program->job.rank != 0 || program->job.json)
    return;
  printf("%d rank%s, %" PRIu64 " layers, %" PRIu64 " microbatches of %" PRIu64 " tokens, dimension %" PRIu64
         ", %" PRIu64 " chunk%s%s\n",
         program->job.size, program->job.size == 1 ? "" : "s", program->layers, program->microbatches,
         program->tokens, program->dimension, program->chunks, program->chunks == 1 ? "" : "s",
         program->sequence ? ", tokens shared" : "");
}

static void print_tail(const program_t *program) {
  if (program->job.rank != 0 || program->job.json)
    return;
  printf("  results equal to the last bit in all runs, and within %.1e of those of one rank alone\n",
         program->deviation);
}

static int work(void *data) {
  program_t *program = data;
  job_t *job = &program->job;
  print_head(program);
  int status = job_open(job, program->microbatches, (uint32_t)program->microbatches,
                        (uint32_t)program->layers * stages_of_layer(program));
  if (status == 0)
    status = job_experiment(job);
  if (status == 0)
    status = job_agree(job, compare_with_one_rank(program));
  if (status == 0 && job->trace_file != NULL)
    status = job_write_trace(job);
  if (status == 0)
    status = job_report(job);
  if (status == 0)
    print_tail(program);
  job_close(job);
  return status;
}

int main(int argc, char **argv) {
  program_t program = {.microbatches = 2, .layers = 4, .tokens = 128, .dimension = 256, .chunks = 1};
  job_init(&program.job, PROGRAM, &program,
           (job_hooks_t){.set_up = set_up,
                         .work = work,
                         .tear_down = tear_down,
                         .describe = describe,
                         .before = before_run,
                         .after = after_run,
                         .on_microbatch = on_microbatch});
  const argument_t list[] = {
      {'k', "microbatches", "K", &program.microbatches, 1, 64, "microbatches in ping-pong"},
      {'l', "layers", "L", &program.layers, 1, 256, "layers"},
      {'s', "tokens", "S", &program.tokens, 1, 4096, "tokens of a microbatch"},
      {'d', "dimension", "D", &program.dimension, 1, 4096, "width of the model"},
      {'c', "chunks", "C", &program.chunks, 1, 64, "chunks of a product, added up one by one"},
      {'q', "sequence-parallel", NULL, &program.sequence,
       .help = "shares the tokens: reduce-scatter and all-gather in place of all-reduce"},
      JOB_ARGUMENTS(&program.job),
  };
  const arguments_t arguments = {PROGRAM,
                                 "Ping-pong of microbatches through layers that are split over the ranks of "
                                 "MPI. Run it by mpirun, or alone.",
                                 list, sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, job_main, &program.job);
}
