/* SPDX-License-Identifier: MIT */
/* What a rank's stages do, and what waits for what.
 * Why no op reads what another still writes is told at describe_waits(). */
#include "dbo_gradients/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct training_part {
  training_t *training;
  size_t index; /* layer or bucket */
};

uint32_t training_window(uint64_t accumulate) { return (uint32_t)accumulate + 1; }

/* ---- buckets ---- */

static size_t count_buckets(const network_t *network, size_t values) {
  return (network_size(network) + values - 1) / values;
}

uint32_t training_stages(const network_t *network, size_t values) {
  return 2 * NETWORK_LAYERS + 2 * (uint32_t)count_buckets(network, values);
}

/* Layers lie last to first. */
static size_t layer_at(const network_t *network, size_t position) {
  return NETWORK_LAYERS - 1 - position / (network->width * network->width);
}

int training_cut(training_t *training, size_t values) {
  const network_t *network = &training->network;
  size_t count = count_buckets(network, values);
  training->bucket_count = count;
  training->buckets = calloc(count, sizeof *training->buckets);
  training->parts = calloc(training_stages(network, values), sizeof *training->parts);
  training->reduction = calloc(count, sizeof *training->reduction);
  training->update = calloc(count, sizeof *training->update);
  if (training->buckets == NULL || training->parts == NULL || training->reduction == NULL ||
      training->update == NULL)
    return OVL_ENOMEM;
  for (size_t b = 0; b < count; b++) {
    size_t first = b * values;
    size_t left = network_size(network) - first;
    size_t size = left < values ? left : values;
    training->buckets[b] =
        (bucket_t){first, size, layer_at(network, first), layer_at(network, first + size - 1)};
  }
  return 0;
}

void training_uncut(training_t *training) {
  free(training->buckets);
  free(training->parts);
  free(training->reduction);
  free(training->update);
  training->buckets = NULL;
  training->parts = NULL;
  training->reduction = NULL;
  training->update = NULL;
}

static int holds(const bucket_t *bucket, size_t layer) {
  return layer <= bucket->highest && layer >= bucket->lowest;
}

/* ---- what the stages do ---- */

static int ends_step(const training_t *training, uint64_t microbatch) {
  return microbatch % training->accumulate == training->accumulate - 1;
}

static void begin(const training_t *training, const ovl_op_t *op) {
  if (training->diary != NULL)
    op_times_begin(training->diary, op);
}

static void end(const training_t *training, const ovl_op_t *op) {
  if (training->diary != NULL)
    op_times_end(training->diary, op);
}

static int run_forward(ovl_op_t *op) {
  const training_part_t *part = op->data;
  training_t *training = part->training;
  int status = training->carrier.disturb == NULL ? 0 : training->carrier.disturb(training->carrier.data, op);
  if (status != 0)
    return status;
  begin(training, op);
  network_forward(&training->network, op->slot, part->index, (size_t)(op->microbatch % training->accumulate));
  if (part->index == NETWORK_LAYERS - 1)
    training->losses[op->microbatch] = network_loss(&training->network, op->slot);
  end(training, op);
  return 0;
}

static int run_backward(ovl_op_t *op) {
  const training_part_t *part = op->data;
  training_t *training = part->training;
  begin(training, op);
  network_backward(&training->network, op->slot, part->index);
  end(training, op);
  return 0;
}

/* Adds up the step's microbatches, in the same order every time, whichever of them was ready first. */
static void gather(training_t *training, const ovl_op_t *op, const bucket_t *bucket) {
  float *own = training->network.slot[op->slot].gradients;
  uint64_t window = training_window(training->accumulate);
  for (uint64_t back = 1; back < training->accumulate; back++) {
    const float *other = training->network.slot[(op->microbatch - back) % window].gradients;
    for (size_t i = bucket->first; i < bucket->first + bucket->count; i++)
      own[i] += other[i];
  }
}

static int run_reduction(ovl_op_t *op) {
  const training_part_t *part = op->data;
  training_t *training = part->training;
  const bucket_t *bucket = &training->buckets[part->index];
  begin(training, op);
  if (!ends_step(training, op->microbatch)) {
    end(training, op);
    return 0;
  }
  gather(training, op, bucket);
  return training->carrier.reduce(training, op, training->network.slot[op->slot].gradients + bucket->first,
                                  bucket->count);
}

static int run_update(ovl_op_t *op) {
  const training_part_t *part = op->data;
  training_t *training = part->training;
  const bucket_t *bucket = &training->buckets[part->index];
  begin(training, op);
  if (ends_step(training, op->microbatch))
    network_update(&training->network, op->slot, bucket->first, bucket->count,
                   TRAINING_RATE / (float)(training->accumulate * training->carrier.ranks));
  end(training, op);
  return 0;
}

/* ---- what they cost ---- */

uint64_t training_flight(const training_costs_t *costs, size_t count) {
  return costs->latency_ns + (uint64_t)llround(costs->flight_ns * (double)count);
}

static uint64_t forward_cost(const ovl_op_t *op) {
  const training_part_t *part = op->data;
  return part->training->costs->forward_ns[part->index];
}

static uint64_t backward_cost(const ovl_op_t *op) {
  const training_part_t *part = op->data;
  return part->training->costs->backward_ns[part->index];
}

static uint64_t reduction_cost(const ovl_op_t *op) {
  const training_part_t *part = op->data;
  const training_t *training = part->training;
  if (!ends_step(training, op->microbatch))
    return 1;
  return training_flight(training->costs, training->buckets[part->index].count);
}

static uint64_t update_cost(const ovl_op_t *op) {
  const training_part_t *part = op->data;
  const training_t *training = part->training;
  if (!ends_step(training, op->microbatch))
    return 1;
  return (uint64_t)llround(training->costs->update_ns * (double)training->buckets[part->index].count);
}

/* ---- lanes and stages ---- */

/* Kinds of stages. */
typedef struct kind {
  const char *name;
  ovl_op_cb run;
  ovl_cost_cb cost;
  int unchained; /* does not wait for the stage added before it */
} kind_t;

static const kind_t kind_forward = {"forward", run_forward, forward_cost, 0};
static const kind_t kind_backward = {"backward", run_backward, backward_cost, 0};
static const kind_t kind_reduction = {"reduction", run_reduction, reduction_cost, 1};
static const kind_t kind_update = {"update", run_update, update_cost, 0};

static int add(training_t *training, const kind_t *kind, ovl_lane_t lane, size_t index, ovl_stage_t *added) {
  ovl_stage_options_t stage;
  char name[64];
  size_t parts = 0;
  while (training->parts[parts].training != NULL)
    parts++;
  training->parts[parts] = (training_part_t){training, index};
  (void)snprintf(name, sizeof name, "%s %zu", kind->name, index);
  ovl_stage_options_init(&stage);
  stage.name = name;
  stage.lane = lane;
  stage.run = kind->run;
  stage.cost = kind->cost;
  stage.unchained = kind->unchained;
  if (kind->run == run_reduction) {
    stage.always = training->carrier.always;
    stage.timeout_ns = training->carrier.timeout_ns;
  }
  stage.data = &training->parts[parts];
  return ovl_pipeline_add_stage(training->pipeline, &stage, added);
}

static int add_layers(training_t *training, ovl_lane_t compute) {
  int status = 0;
  for (size_t l = 0; l < NETWORK_LAYERS && status == 0; l++)
    status = add(training, &kind_forward, compute, l, &training->forward[l]);
  for (size_t l = NETWORK_LAYERS; l-- > 0 && status == 0;)
    status = add(training, &kind_backward, compute, l, &training->backward[l]);
  return status;
}

/* Each update follows its reduction. */
static int add_buckets(training_t *training, ovl_lane_t compute) {
  int status = 0;
  for (size_t b = 0; b < training->bucket_count && status == 0; b++) {
    status = add(training, &kind_reduction, training->link, b, &training->reduction[b]);
    if (status == 0)
      status = add(training, &kind_update, compute, b, &training->update[b]);
  }
  return status;
}

/* All microbatches of a step have left their gradients: distances 0 .. accumulate - 1 are a join over them. The window
 * is larger than that, so none of their slots is in use again.
 *
 * A slot is used again, too, only after it was read: its next microbatch computes gradients of a layer after the
 * forward of that layer, so after the updates of all buckets with a part of it, of all earlier microbatches. */
static int describe_waits(const training_t *training, size_t b) {
  const bucket_t *bucket = &training->buckets[b];
  ovl_pipeline_t *pipeline = training->pipeline;
  int status = 0;
  for (uint32_t back = 0; back < training->accumulate && status == 0; back++)
    status = ovl_pipeline_add_dependency(pipeline, training->backward[bucket->lowest], training->reduction[b],
                                         back);
  for (size_t l = 0; l < NETWORK_LAYERS && status == 0; l++)
    if (holds(bucket, l))
      status = ovl_pipeline_add_dependency(pipeline, training->update[b], training->forward[l], 1);
  return status;
}

int training_describe(training_t *training, ovl_pipeline_t *pipeline, ovl_lane_t compute, ovl_lane_t link) {
  training->pipeline = pipeline;
  training->link = link;
  int status = add_layers(training, compute);
  if (status == 0)
    status = add_buckets(training, compute);
  for (size_t b = 0; b < training->bucket_count && status == 0; b++)
    status = describe_waits(training, b);
  return status;
}

/* ---- rules ---- */

static int check_bucket(const training_t *training, size_t b, const op_times_t *times, const char *program) {
  const bucket_t *bucket = &training->buckets[b];
  int result = op_times_check_after(times, training->reduction[b], training->update[b], 0, program);
  for (uint64_t back = 0; back < training->accumulate && result == 0; back++)
    result = op_times_check_after(times, training->backward[bucket->lowest], training->reduction[b], back,
                                  program);
  for (size_t l = 0; l < NETWORK_LAYERS && result == 0; l++)
    if (holds(bucket, l))
      result = op_times_check_after(times, training->update[b], training->forward[l], 1, program);
  return result;
}

int training_check(const training_t *training, const op_times_t *times, const char *program) {
  int result = 0;
  for (size_t l = 1; l < NETWORK_LAYERS && result == 0; l++) {
    result = op_times_check_after(times, training->forward[l - 1], training->forward[l], 0, program);
    if (result == 0)
      result = op_times_check_after(times, training->backward[l], training->backward[l - 1], 0, program);
  }
  for (size_t b = 0; b < training->bucket_count && result == 0; b++)
    result = check_bucket(training, b, times, program);
  return result;
}
