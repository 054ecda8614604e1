/* SPDX-License-Identifier: MIT */
/* Layers of products and tanh, the last without it, and the mean square of what is missing to the target.
 * Only the order of additions within a product could change a bit, and that is the same in every run. */
#include "dbo_gradients/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"
#include "parts/matrix.h"

#define WEIGHTS_SEED 7
#define TEACHER_SEED 11

static size_t layer_size(const network_t *network) { return network->width * network->width; }
static size_t batch_size(const network_t *network) { return network->samples * network->width; }

size_t network_size(const network_t *network) { return NETWORK_LAYERS * layer_size(network); }

size_t network_offset(const network_t *network, size_t layer) {
  return (NETWORK_LAYERS - 1 - layer) * layer_size(network);
}

double network_operations(size_t width, size_t samples) {
  return 2.0 * (double)samples * (double)width * (double)width;
}

size_t network_samples(size_t width, uint64_t forward_ns) {
  double rate = matrix_rate(96);
  size_t samples = 8;
  while (samples < 1024 && network_operations(width, samples + 8) < rate * (double)forward_ns)
    samples += 8;
  return samples;
}

/* ---- memory ---- */

static int new_slot(const network_t *network, network_slot_t *slot) {
  int missing = 0;
  for (size_t l = 0; l < NETWORK_LAYERS; l++) {
    slot->outputs[l] = matrix_new(batch_size(network));
    slot->deltas[l] = matrix_new(batch_size(network));
    missing += slot->outputs[l] == NULL || slot->deltas[l] == NULL;
  }
  slot->gradients = matrix_new(network_size(network));
  return missing == 0 && slot->gradients != NULL ? 0 : OVL_ENOMEM;
}

/* The function to imitate: tanh of a product with fixed weights. */
static int make_samples(network_t *network, unsigned rank) {
  size_t rows = network->batches * network->samples;
  float *teacher = matrix_new(layer_size(network));
  if (teacher == NULL)
    return OVL_ENOMEM;
  matrix_fill(teacher, layer_size(network), TEACHER_SEED, 2.0F / sqrtf((float)network->width));
  matrix_fill(network->inputs, rows * network->width, 1000 + rank, 1.0F);
  matrix_multiply(network->targets, network->inputs, teacher,
                  (matrix_shape_t){rows, network->width, network->width});
  for (size_t i = 0; i < rows * network->width; i++)
    network->targets[i] = tanhf(network->targets[i]);
  free(teacher);
  return 0;
}

int network_init(network_t *network, unsigned rank, size_t width, size_t samples, size_t batches,
                 size_t slots) {
  *network = (network_t){.width = width, .samples = samples, .batches = batches, .slots = slots};
  network->weights = matrix_new(network_size(network));
  network->inputs = matrix_new(batches * batch_size(network));
  network->targets = matrix_new(batches * batch_size(network));
  network->slot = calloc(slots, sizeof *network->slot);
  if (network->weights == NULL || network->inputs == NULL || network->targets == NULL ||
      network->slot == NULL)
    return OVL_ENOMEM;
  int status = make_samples(network, rank);
  for (size_t s = 0; s < slots && status == 0; s++)
    status = new_slot(network, &network->slot[s]);
  return status;
}

void network_finish(network_t *network) {
  for (size_t s = 0; s < network->slots && network->slot != NULL; s++) {
    for (size_t l = 0; l < NETWORK_LAYERS; l++) {
      free(network->slot[s].outputs[l]);
      free(network->slot[s].deltas[l]);
    }
    free(network->slot[s].gradients);
  }
  free(network->slot);
  free(network->weights);
  free(network->inputs);
  free(network->targets);
  *network = (network_t){.width = 0};
}

void network_reset(network_t *network) {
  matrix_fill(network->weights, network_size(network), WEIGHTS_SEED, 1.5F / sqrtf((float)network->width));
}

/* ---- computing ---- */

static const float *input_of(const network_t *network, const network_slot_t *slot, size_t layer) {
  return layer == 0 ? network->inputs + slot->batch * batch_size(network) : slot->outputs[layer - 1];
}

void network_forward(network_t *network, size_t slot, size_t layer, size_t batch) {
  network_slot_t *own = &network->slot[slot];
  matrix_shape_t shape = {network->samples, network->width, network->width};
  if (layer == 0)
    own->batch = batch;
  matrix_multiply(own->outputs[layer], input_of(network, own, layer),
                  network->weights + network_offset(network, layer), shape);
  for (size_t i = 0; layer + 1 < NETWORK_LAYERS && i < batch_size(network); i++)
    own->outputs[layer][i] = tanhf(own->outputs[layer][i]);
}

double network_loss(network_t *network, size_t slot) {
  network_slot_t *own = &network->slot[slot];
  const float *outputs = own->outputs[NETWORK_LAYERS - 1];
  const float *targets = network->targets + own->batch * batch_size(network);
  float *deltas = own->deltas[NETWORK_LAYERS - 1];
  double sum = 0;
  for (size_t i = 0; i < batch_size(network); i++) {
    float missing = outputs[i] - targets[i];
    sum += (double)missing * (double)missing;
    deltas[i] = missing / (float)network->samples;
  }
  return sum / (double)batch_size(network);
}

void network_backward(network_t *network, size_t slot, size_t layer) {
  network_slot_t *own = &network->slot[slot];
  const float *deltas = own->deltas[layer];
  const float *inputs = input_of(network, own, layer);
  matrix_multiply_at(own->gradients + network_offset(network, layer), inputs, deltas,
                     (matrix_shape_t){network->width, network->samples, network->width});
  if (layer == 0)
    return;
  float *before = own->deltas[layer - 1];
  matrix_multiply_bt(before, deltas, network->weights + network_offset(network, layer),
                     (matrix_shape_t){network->samples, network->width, network->width});
  for (size_t i = 0; i < batch_size(network); i++)
    before[i] *= 1.0F - inputs[i] * inputs[i];
}

void network_update(network_t *network, size_t slot, size_t first, size_t count, float rate) {
  const float *gradients = network->slot[slot].gradients;
  for (size_t i = first; i < first + count; i++)
    network->weights[i] -= rate * gradients[i];
}
