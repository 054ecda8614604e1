/* SPDX-License-Identifier: MIT */
/* Real products, softmax and normalisation on random weights.
 * Nothing depends on time or thread, so every run of a microbatch ends with the same bits. */
#include "layered_tbo/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"
#include "parts/matrix.h"
#include "parts/rows.h"

struct model_weights {
  float *query; /* dimension x head, as the next two */
  float *key;
  float *value;
  float *out;  /* head x dimension */
  float *up;   /* dimension x hidden */
  float *down; /* hidden x dimension */
};

/* A rank's share. */
static size_t head(const model_t *model) { return model->dimension / 2; }
static size_t hidden(const model_t *model) { return 2 * model->dimension; }

size_t model_size(const model_t *model) { return model->tokens * model->dimension; }

/* The MLP: two products of d x d x 2d. Attention has fewer, but not as fast ones. */
double model_operations(size_t dimension) { return 8.0 * pow((double)dimension, 3); }

/* ---- memory ---- */

static float *new_weights(size_t rows, size_t columns, uint64_t seed) {
  float *weights = matrix_new(rows * columns);
  if (weights != NULL)
    matrix_fill(weights, rows * columns, seed, 1.5F / sqrtf((float)rows));
  return weights;
}

/* What the parts need for themselves: normalised x, three of tokens x head, the scores and their sum of values. */
static size_t scratch_size(const model_t *model) {
  size_t attention = model->tokens * (4 * head(model) + model->tokens);
  size_t mlp = model->tokens * hidden(model);
  return model_size(model) + (attention > mlp ? attention : mlp);
}

static int new_layer(const model_t *model, model_weights_t *layer, uint64_t seed) {
  size_t d = model->dimension;
  *layer = (model_weights_t){
      .query = new_weights(d, head(model), seed),
      .key = new_weights(d, head(model), seed + 1),
      .value = new_weights(d, head(model), seed + 2),
      .out = new_weights(head(model), d, seed + 3),
      .up = new_weights(d, hidden(model), seed + 4),
      .down = new_weights(hidden(model), d, seed + 5),
  };
  return layer->query != NULL && layer->key != NULL && layer->value != NULL && layer->out != NULL &&
                 layer->up != NULL && layer->down != NULL
             ? 0
             : OVL_ENOMEM;
}

static int new_slot(const model_t *model, model_slot_t *slot) {
  slot->x = matrix_new(model_size(model));
  slot->partial = matrix_new(model_size(model));
  return slot->x != NULL && slot->partial != NULL ? 0 : OVL_ENOMEM;
}

int model_init(model_t *model, unsigned rank, size_t layers, size_t dimension, size_t slots) {
  *model = (model_t){.layers = layers, .dimension = dimension, .tokens = dimension, .slots = slots};
  model->weights = calloc(layers, sizeof *model->weights);
  model->slot = calloc(slots, sizeof *model->slot);
  model->scratch = matrix_new(scratch_size(model));
  int status = model->weights != NULL && model->slot != NULL && model->scratch != NULL ? 0 : OVL_ENOMEM;
  for (size_t l = 0; l < layers && status == 0; l++)
    status = new_layer(model, &model->weights[l], (2 * l + rank + 1) * 1000);
  for (size_t s = 0; s < slots && status == 0; s++)
    status = new_slot(model, &model->slot[s]);
  return status;
}

void model_finish(model_t *model) {
  for (size_t l = 0; l < model->layers && model->weights != NULL; l++) {
    model_weights_t *layer = &model->weights[l];
    float *all[] = {layer->query, layer->key, layer->value, layer->out, layer->up, layer->down};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
      free(all[i]);
  }
  for (size_t s = 0; s < model->slots && model->slot != NULL; s++) {
    free(model->slot[s].x);
    free(model->slot[s].partial);
  }
  free(model->weights);
  free(model->slot);
  free(model->scratch);
  *model = (model_t){.layers = 0};
}

static void softmax(float *values, size_t rows, size_t columns, float scale) {
  for (size_t row = 0; row < rows; row++, values += columns) {
    float most = values[0];
    float sum = 0;
    for (size_t i = 1; i < columns; i++)
      most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < columns; i++)
      sum += values[i] = expf((values[i] - most) * scale);
    for (size_t i = 0; i < columns; i++)
      values[i] /= sum;
  }
}

/* ---- the parts ---- */

void model_embed(model_t *model, size_t slot, uint64_t microbatch) {
  matrix_fill(model->slot[slot].x, model_size(model), microbatch + 1, 1.0F);
  memset(model->slot[slot].partial, 0, model_size(model) * sizeof(float));
}

void model_end(model_t *model, size_t slot) {
  rows_add(model->slot[slot].x, model->slot[slot].partial, model_size(model));
}

/* Takes in what the ranks summed; returns x normalised, at the beginning of the scratch memory. */
static const float *begin_part(model_t *model, size_t slot) {
  model_end(model, slot);
  rows_normalise(model->scratch, model->slot[slot].x, model->tokens, model->dimension);
  return model->scratch;
}

void model_attention(model_t *model, size_t slot, size_t layer) {
  const model_weights_t *weights = &model->weights[layer];
  size_t tokens = model->tokens;
  size_t width = head(model);
  const float *x = begin_part(model, slot);
  float *query = model->scratch + model_size(model);
  float *key = query + tokens * width;
  float *value = key + tokens * width;
  float *mixed = value + tokens * width;
  float *scores = mixed + tokens * width;
  matrix_shape_t in = {tokens, model->dimension, width};
  matrix_multiply(query, x, weights->query, in);
  matrix_multiply(key, x, weights->key, in);
  matrix_multiply(value, x, weights->value, in);
  matrix_multiply_bt(scores, query, key, (matrix_shape_t){tokens, width, tokens});
  softmax(scores, tokens, tokens, 1.0F / sqrtf((float)width));
  matrix_multiply(mixed, scores, value, (matrix_shape_t){tokens, tokens, width});
  matrix_multiply(model->slot[slot].partial, mixed, weights->out,
                  (matrix_shape_t){tokens, width, model->dimension});
}

void model_mlp(model_t *model, size_t slot, size_t layer) {
  const model_weights_t *weights = &model->weights[layer];
  const float *x = begin_part(model, slot);
  float *middle = model->scratch + model_size(model);
  matrix_multiply(middle, x, weights->up, (matrix_shape_t){model->tokens, model->dimension, hidden(model)});
  rows_drop_negative(middle, model->tokens * hidden(model));
  matrix_multiply(model->slot[slot].partial, middle, weights->down,
                  (matrix_shape_t){model->tokens, hidden(model), model->dimension});
}
