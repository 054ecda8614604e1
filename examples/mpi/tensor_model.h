/* SPDX-License-Identifier: MIT */
/* One rank's share of a model whose layers are split over all ranks, and the whole of it to compare with.
 *
 *   a layer    x += relu(normalised(x) up) down       x: tokens x dimension, up: dimension x 4 dimension, down: back again
 *
 * A rank has a part of the columns of `up`, and of the rows of `down`, so its product is a part of the sum, in all columns:
 * the ranks' parts are added up to get the layer's. Here are the products; adding up is the caller's, chunk by chunk of
 * the columns. What is not multiplied is done by every rank for all tokens, or, if `sequence` is set, for its share of them. */
#ifndef EXAMPLES_MPI_TENSOR_MODEL_H
#define EXAMPLES_MPI_TENSOR_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct tensor_shape {
  size_t layers;
  size_t tokens; /* of a microbatch */
  size_t dimension;
  size_t chunks; /* of columns of what a layer adds */
  size_t rank;
  size_t ranks;
  int sequence;
} tensor_shape_t;

typedef struct tensor_weights tensor_weights_t; /* of one layer */

/* What lives between two ops of a microbatch. Chunks lie one after another, row by row each. */
typedef struct tensor_slot {
  float *x; /* rows x dimension: what goes through the layers */
  float *
      normal; /* tokens x dimension: the same, normalised; with `sequence` its own rows until they are gathered */
  float *hidden;  /* tokens x its part of the columns of `up` */
  float *partial; /* by chunk, tokens x columns: what this rank adds */
  float *sum;     /* by chunk, rows x columns: what all ranks add */
} tensor_slot_t;

typedef struct tensor_model {
  tensor_shape_t shape;
  size_t slots;
  tensor_weights_t *weights;
  tensor_slot_t *slot;
  float *scratch;
} tensor_model_t;

/* NULL, or why a model cannot be split like that. */
const char *tensor_refusal(const tensor_shape_t *shape);

size_t tensor_rows(const tensor_shape_t *shape);    /* tokens of which this rank holds x */
size_t tensor_columns(const tensor_shape_t *shape); /* of a chunk */

/* 0 or OVL_ENOMEM; finish is fine after both. */
int tensor_model_init(tensor_model_t *model, const tensor_shape_t *shape, size_t slots);
void tensor_model_finish(tensor_model_t *model);

/* x becomes the tokens of a microbatch, or this rank's of them. */
void tensor_embed(tensor_model_t *model, size_t slot, uint64_t microbatch);

/* Adds the sums to x. */
void tensor_take_in(tensor_model_t *model, size_t slot);

/* x normalised, to its rows of `normal`. */
void tensor_normalise(tensor_model_t *model, size_t slot);

/* The product with `up`, and what is below 0 is dropped; then that with a chunk of `down`. */
void tensor_expand(tensor_model_t *model, size_t slot, size_t layer);
void tensor_contract(tensor_model_t *model, size_t slot, size_t layer, size_t chunk);

/* Where a chunk is. */
float *tensor_partial(const tensor_model_t *model, size_t slot, size_t chunk);
float *tensor_sum(const tensor_model_t *model, size_t slot, size_t chunk);

/* The rows of x that this rank ends with, for each of `microbatches` microbatches, computed without any other rank and
 * without any cut. 0 or OVL_ENOMEM. */
int tensor_reference(const tensor_shape_t *shape, uint64_t microbatches, float *results);

#endif
