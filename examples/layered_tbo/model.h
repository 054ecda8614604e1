/* SPDX-License-Identifier: MIT */
/* One rank's half of a small transformer that is split over two ranks: a head of attention each, half of each MLP.
 * Each part ends in a partial sum, which becomes the layer's result when the ranks' sums are added. */
#ifndef EXAMPLES_LAYERED_TBO_MODEL_H
#define EXAMPLES_LAYERED_TBO_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct model_weights model_weights_t; /* of one layer */

/* What lives within one part of a layer belongs to the lane that computes, as it runs one op at a time; what lives
 * between two of them belongs to the microbatch's slot. */
typedef struct model_slot {
  float *x;       /* tokens x dimension: what goes through the layers */
  float *partial; /* the same: what this rank adds, then what all ranks add */
} model_slot_t;

typedef struct model {
  size_t layers;
  size_t dimension;
  size_t tokens; /* of a microbatch: as many as the dimension, so attention and MLP take about as long */
  size_t slots;
  model_weights_t *weights;
  model_slot_t *slot;
  float *scratch;
} model_t;

/* About how many operations a part of a layer has on each rank. */
double model_operations(size_t dimension);

/* 0 or OVL_ENOMEM; finish is fine after both. */
int model_init(model_t *model, unsigned rank, size_t layers, size_t dimension, size_t slots);
void model_finish(model_t *model);

/* x becomes the tokens of a microbatch, and nothing is left to add. */
void model_embed(model_t *model, size_t slot, uint64_t microbatch);

/* Adds what the ranks summed to x, and leaves this rank's share of the part in `partial`. */
void model_attention(model_t *model, size_t slot, size_t layer);
void model_mlp(model_t *model, size_t slot, size_t layer);

/* Adds what the ranks summed last. */
void model_end(model_t *model, size_t slot);

/* How many numbers x and `partial` have. */
size_t model_size(const model_t *model);

#endif
