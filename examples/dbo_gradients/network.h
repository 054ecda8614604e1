/* SPDX-License-Identifier: MIT */
/* One rank's copy of a small network, trained to imitate a function on numbers made up for the purpose.
 * It computes layer by layer, so that gradients can leave while earlier layers are still at it. */
#ifndef EXAMPLES_DBO_GRADIENTS_NETWORK_H
#define EXAMPLES_DBO_GRADIENTS_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#define NETWORK_LAYERS 3

/* What a microbatch needs between its forward and its update. */
typedef struct network_slot {
  float *outputs[NETWORK_LAYERS]; /* of each layer, samples x width */
  float *deltas[NETWORK_LAYERS];  /* the loss's derivative by what goes into a layer's activation */
  float *gradients;               /* in the order in which backward finishes them: last layer first */
  size_t batch;                   /* which samples */
} network_slot_t;

typedef struct network {
  size_t width;   /* of every layer; its weights are width x width */
  size_t samples; /* of a microbatch */
  size_t batches; /* how many different microbatches there are */
  size_t slots;
  float *weights; /* in the order of the gradients */
  float *inputs;  /* batches x samples x width */
  float *targets; /* the same */
  network_slot_t *slot;
} network_t;

/* 0 or OVL_ENOMEM; finish is fine after both. Ranks have the same weights and different samples. */
int network_init(network_t *network, unsigned rank, size_t width, size_t samples, size_t batches,
                 size_t slots);
void network_finish(network_t *network);

/* Back to the weights that training begins with. */
void network_reset(network_t *network);

/* How many weights there are, and where those of a layer begin. */
size_t network_size(const network_t *network);
size_t network_offset(const network_t *network, size_t layer);

/* A layer of the microbatch in `slot`; layer 0 takes samples `batch`. */
void network_forward(network_t *network, size_t slot, size_t layer, size_t batch);

/* After the last layer: the loss, and its derivative for backward. */
double network_loss(network_t *network, size_t slot);

/* The layer's gradients, and what the layer before it needs. */
void network_backward(network_t *network, size_t slot, size_t layer);

/* weights[first ..] -= rate x gradients[first ..], `count` of them. */
void network_update(network_t *network, size_t slot, size_t first, size_t count, float rate);

/* Operations of a layer's forward; backward has as many for the gradients, and again for the layer before. */
double network_operations(size_t width, size_t samples);

/* How many samples make a layer's forward take about that long here, 8 to 1024. Measures for some milliseconds. */
size_t network_samples(size_t width, uint64_t forward_ns);

#endif
