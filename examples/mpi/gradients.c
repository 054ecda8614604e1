/* SPDX-License-Identifier: MIT */
/* Data-parallel training as in dbo_gradients, with a process for each rank and MPI between them: buckets of gradients
 * are reduced while earlier layers still compute theirs, and the next forward waits for the buckets that it needs.
 * Runs serially and overlapped in turns; all must learn the same, which is what one rank learns alone from all samples. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dbo_gradients/network.h"
#include "dbo_gradients/order.h"
#include "dbo_gradients/training.h"
#include "mpi/gradients_reference.h"
#include "mpi/job.h"
#include "ovl.h"
#include "parts/arguments.h"
#include "parts/matrix.h"
#include "parts/report.h"

#define PROGRAM "gradients"
#define FORWARD_NS \
  4000000 /* how long a layer's forward should take when the number of samples is not given */
#define KIB_VALUES (1024 / sizeof(float))

typedef struct program {
  uint64_t steps;
  uint64_t accumulate;
  uint64_t bucket_kb;
  uint64_t width;
  uint64_t samples;
  job_t job;
  training_t training;
  training_costs_t costs;
  size_t turned;  /* buckets at a step's end that are reduced in reverse */
  float *learned; /* weights after the first run */
  double *losses; /* of the first run, by microbatch */
} program_t;

static uint64_t microbatches(const program_t *program) { return program->steps * program->accumulate; }
static size_t bucket_values(const program_t *program) { return (size_t)program->bucket_kb * KIB_VALUES; }

/* ---- what the training is given ---- */

static int reduce(training_t *training, ovl_op_t *op, float *values, size_t count) {
  program_t *program = training->carrier.data;
  mpi_lane_t *link = &program->job.link;
  MPI_Request *request;
  int status = mpi_lane_begin(link, op, &request);
  if (status != 0)
    return status;
  return mpi_lane_started(
      link, MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, link->comm, request));
}

static int disturb(void *data, const ovl_op_t *op) {
  program_t *program = data;
  return job_disturb(&program->job, op);
}

/* ---- hooks of the job ---- */

static int describe(job_t *job) {
  program_t *program = job->data;
  return training_describe(&program->training, job->pipeline, job->compute_lane, job->link_lane);
}

/* What the first run has shown, on all ranks alike. Only every accumulate-th microbatch has reductions and updates to do. */
static void take_costs(program_t *program) {
  const training_t *training = &program->training;
  const uint64_t *costs = program->job.costs;
  uint64_t flight_ns = 0;
  for (size_t l = 0; l < NETWORK_LAYERS; l++) {
    program->costs.forward_ns[l] = costs[training->forward[l].id - 1];
    program->costs.backward_ns[l] = costs[training->backward[l].id - 1];
  }
  for (size_t b = 0; b < training->bucket_count; b++)
    flight_ns += costs[training->reduction[b].id - 1];
  program->costs.flight_ns =
      (double)(flight_ns * program->accumulate) / (double)network_size(&training->network);
  program->costs.update_ns =
      (double)(costs[training->update[0].id - 1] * program->accumulate) / (double)training->buckets[0].count;
}

/* The first run reduces bucket after bucket; then it is known what takes how long, and which order is best. */
static int before(job_t *job, ovl_mode_t mode) {
  program_t *program = job->data;
  network_reset(&program->training.network);
  memset(program->training.losses, 0, (size_t)microbatches(program) * sizeof(double));
  if (job->runs != 2)
    return 0;
  take_costs(program);
  int status = order_choose(&program->training, 1, microbatches(program), PROGRAM, &program->turned);
  return status == 0 ? ovl_pipeline_set_mode(job->pipeline, mode) : status;
}

static int keep_learned(program_t *program) {
  const network_t *network = &program->training.network;
  const reference_t reference = {(unsigned)program->job.size, network->width, network->samples,
                                 program->steps, program->accumulate};
  memcpy(program->learned, network->weights, network_size(network) * sizeof(float));
  memcpy(program->losses, program->training.losses, (size_t)microbatches(program) * sizeof(double));
  return program->job.rank == 0 ? reference_check(&reference, network->weights, PROGRAM) : 0;
}

/* With the first run, to the last bit. */
static int compare_learned(const program_t *program, ovl_mode_t mode) {
  const network_t *network = &program->training.network;
  if (memcmp(program->learned, network->weights, network_size(network) * sizeof(float)) == 0 &&
      memcmp(program->losses, program->training.losses, (size_t)microbatches(program) * sizeof(double)) == 0)
    return 0;
  fprintf(stderr, PROGRAM ": rank %d has learned something else in the %s run than in the first\n",
          program->job.rank, mode == OVL_SERIAL ? "serial" : "overlapped");
  return OVL_EINVAL;
}

static int after(job_t *job, ovl_mode_t mode) {
  program_t *program = job->data;
  if (training_check(&program->training, &job->times, PROGRAM) != 0)
    return OVL_EINVAL;
  if (job->runs == 1)
    return keep_learned(program) == 0 ? 0 : OVL_EINVAL;
  return compare_learned(program, mode);
}

/* ---- after all runs ---- */

/* The ranks with each other, to the last bit. */
static int compare_ranks(program_t *program) {
  network_t *network = &program->training.network;
  int count = (int)network_size(network);
  int code = MPI_Bcast(network->weights, count, MPI_FLOAT, 0, program->job.link.comm);
  int status = backend_mpi_status(code);
  if (status != 0)
    (void)job_complain(&program->job, "comparing the ranks", status);
  else if (memcmp(program->learned, network->weights, (size_t)count * sizeof(float)) != 0)
    status = job_complain(&program->job, "it has learned something else than rank 0", OVL_EINVAL);
  return job_agree(&program->job, status);
}

/* Of a step, over its microbatches and the ranks. */
static int agree_on_loss(program_t *program, uint64_t step, double *loss) {
  double sum = 0;
  for (uint64_t i = 0; i < program->accumulate; i++)
    sum += program->losses[step * program->accumulate + i];
  int code = MPI_Allreduce(&sum, loss, 1, MPI_DOUBLE, MPI_SUM, program->job.link.comm);
  *loss /= (double)program->accumulate * program->job.size;
  return code == MPI_SUCCESS ? 0 : job_complain(&program->job, "the loss", backend_mpi_status(code));
}

static void print_training(const program_t *program, double first, double last) {
  printf("%d rank%s, %" PRIu64 " steps of %" PRIu64 " microbatch%s of %" PRIu64
         " samples, %d layers of %" PRIu64 " x %" PRIu64 "\n",
         program->job.size, program->job.size == 1 ? "" : "s", program->steps, program->accumulate,
         program->accumulate == 1 ? "" : "es", program->samples, NETWORK_LAYERS, program->width,
         program->width);
  printf("%zu buckets of %" PRIu64 " KiB, at a step's end %zu of them in reverse\n",
         program->training.bucket_count, program->bucket_kb, program->turned);
  printf("loss %.6f in the first step, %.6f in the last, in every run\n", first, last);
}

static int report_training(program_t *program) {
  double first;
  double last;
  if (agree_on_loss(program, 0, &first) != 0 || agree_on_loss(program, program->steps - 1, &last) != 0)
    return -1;
  if (program->job.rank == 0 && !program->job.json)
    print_training(program, first, last);
  if (program->steps == 1 || last < first)
    return 0;
  fprintf(stderr, PROGRAM ": the loss did not fall: %g, then %g\n", first, last);
  return -1;
}

/* ---- the program ---- */

static int allocate(program_t *program) {
  training_t *training = &program->training;
  size_t count = (size_t)microbatches(program);
  int status = network_init(&training->network, (unsigned)program->job.rank, (size_t)program->width,
                            (size_t)program->samples, (size_t)program->accumulate,
                            training_window(program->accumulate));
  if (status == 0)
    status = training_cut(training, bucket_values(program));
  training->losses = calloc(count, sizeof(double));
  program->losses = calloc(count, sizeof(double));
  program->learned = matrix_new(network_size(&training->network));
  return training->losses == NULL || program->losses == NULL || program->learned == NULL ? OVL_ENOMEM
                                                                                         : status;
}

/* Ranks have the same number of samples: that of the first. */
static int set_up(void *data) {
  program_t *program = data;
  job_t *job = &program->job;
  training_t *training = &program->training;
  if (program->samples == 0)
    program->samples = network_samples((size_t)program->width, FORWARD_NS);
  int code = MPI_Bcast(&program->samples, 1, MPI_UINT64_T, 0, job->link.comm);
  int status = code == MPI_SUCCESS ? allocate(program) : backend_mpi_status(code);
  if (status != 0)
    (void)job_complain(job, "setting up the network", status);
  training->carrier = (training_carrier_t){.ranks = (unsigned)job->size,
                                           .data = program,
                                           .timeout_ns = job->timeout_ms * 1000000,
                                           .always = 1,
                                           .reduce = reduce,
                                           .disturb = disturb};
  training->accumulate = program->accumulate;
  training->costs = &program->costs;
  return job_agree(job, status);
}

static void tear_down(void *data) {
  program_t *program = data;
  training_uncut(&program->training);
  network_finish(&program->training.network);
  free(program->training.losses);
  free(program->losses);
  free(program->learned);
}

static int experiment(void *data) {
  program_t *program = data;
  job_t *job = &program->job;
  int status = job_open(job, microbatches(program), training_window(program->accumulate),
                        training_stages(&program->training.network, bucket_values(program)));
  if (status == 0)
    status = job_experiment(job);
  if (status == 0)
    status = compare_ranks(program);
  if (status == 0)
    status = report_training(program);
  if (status == 0)
    status = job_report(job);
  if (status == 0 && job->trace_file != NULL)
    status = job_write_trace(job);
  job_close(job);
  return status;
}

int main(int argc, char **argv) {
  program_t program = {.steps = 5, .accumulate = 1, .bucket_kb = 64, .width = 256};
  job_init(&program.job, PROGRAM, &program,
           (job_hooks_t){.set_up = set_up,
                         .work = experiment,
                         .tear_down = tear_down,
                         .describe = describe,
                         .before = before,
                         .after = after});
  const argument_t list[] = {
      {'n', "steps", "N", &program.steps, 1, 10000, "steps of training"},
      {'a', "accumulate", "N", &program.accumulate, 1, 64, "microbatches whose gradients make a step"},
      {'b', "bucket-kb", "KIB", &program.bucket_kb, 1, 1048576, "size of a bucket of gradients"},
      {'d', "dimension", "D", &program.width, 8, 1024, "width of the layers"},
      {'s', "samples", "S", &program.samples, 0, 4096, "of a microbatch; 0: forward takes 4 ms a layer"},
      JOB_ARGUMENTS(&program.job),
  };
  const arguments_t arguments = {
      PROGRAM, "Training whose gradients are reduced over MPI while earlier layers still compute.", list,
      sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, job_main, &program.job);
}
