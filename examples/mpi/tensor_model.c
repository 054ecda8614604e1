/* SPDX-License-Identifier: MIT */
/* Weights are cut from whole matrices that depend on the layer alone, so that any number of ranks computes the same model. */
#include "mpi/tensor_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"
#include "parts/matrix.h"
#include "parts/rows.h"

struct tensor_weights {
  float *up;   /* dimension x its columns */
  float *down; /* by chunk, its rows x columns of the chunk */
};

static size_t all_hidden(const tensor_shape_t *shape) { return 4 * shape->dimension; }
static size_t hidden(const tensor_shape_t *shape) { return all_hidden(shape) / shape->ranks; }

size_t tensor_rows(const tensor_shape_t *shape) {
  return shape->sequence ? shape->tokens / shape->ranks : shape->tokens;
}

size_t tensor_columns(const tensor_shape_t *shape) { return shape->dimension / shape->chunks; }

static size_t first_row(const tensor_shape_t *shape) {
  return shape->sequence ? shape->rank * tensor_rows(shape) : 0;
}

const char *tensor_refusal(const tensor_shape_t *shape) {
  if (all_hidden(shape) % shape->ranks != 0)
    return "four times the dimension is no multiple of the number of ranks";
  if (shape->dimension % shape->chunks != 0)
    return "the dimension is no multiple of the number of chunks";
  if (shape->sequence && shape->tokens % shape->ranks != 0)
    return "the number of tokens is no multiple of the number of ranks, which share them";
  return NULL;
}

/* ---- weights ---- */

/* Those of a whole layer; `up` with as many numbers as `down`. */
static void fill_whole(const tensor_shape_t *shape, size_t layer, float *up, float *down) {
  size_t count = shape->dimension * all_hidden(shape);
  matrix_fill(up, count, 2 * layer + 1, 1.5F / sqrtf((float)shape->dimension));
  matrix_fill(down, count, 2 * layer + 2, 1.5F / sqrtf((float)all_hidden(shape)));
}

/* A block of a matrix with `width` columns, to where its rows lie one after another. */
static void cut(float *to, const float *from, size_t rows, size_t columns, size_t width) {
  for (size_t row = 0; row < rows; row++)
    memcpy(to + row * columns, from + row * width, columns * sizeof *to);
}

static void cut_layer(const tensor_shape_t *shape, tensor_weights_t *layer, const float *up,
                      const float *down) {
  size_t first = shape->rank * hidden(shape);
  size_t columns = tensor_columns(shape);
  cut(layer->up, up + first, shape->dimension, hidden(shape), all_hidden(shape));
  for (size_t c = 0; c < shape->chunks; c++)
    cut(layer->down + c * hidden(shape) * columns, down + first * shape->dimension + c * columns,
        hidden(shape), columns, shape->dimension);
}

static int new_layers(tensor_model_t *model) {
  const tensor_shape_t *shape = &model->shape;
  size_t whole = shape->dimension * all_hidden(shape);
  float *up = matrix_new(whole);
  float *down = matrix_new(whole);
  int status = up != NULL && down != NULL ? 0 : OVL_ENOMEM;
  for (size_t l = 0; l < shape->layers && status == 0; l++) {
    tensor_weights_t *layer = &model->weights[l];
    layer->up = matrix_new(shape->dimension * hidden(shape));
    layer->down = matrix_new(shape->dimension * hidden(shape));
    if (layer->up == NULL || layer->down == NULL) {
      status = OVL_ENOMEM;
    } else {
      fill_whole(shape, l, up, down);
      cut_layer(shape, layer, up, down);
    }
  }
  free(up);
  free(down);
  return status;
}

/* ---- memory ---- */

static int new_slot(const tensor_shape_t *shape, tensor_slot_t *slot) {
  size_t size = shape->tokens * shape->dimension;
  slot->x = matrix_new(size);
  slot->normal = matrix_new(size);
  slot->hidden = matrix_new(shape->tokens * hidden(shape));
  slot->partial = matrix_new(size);
  slot->sum = matrix_new(size);
  return slot->x != NULL && slot->normal != NULL && slot->hidden != NULL && slot->partial != NULL &&
                 slot->sum != NULL
             ? 0
             : OVL_ENOMEM;
}

int tensor_model_init(tensor_model_t *model, const tensor_shape_t *shape, size_t slots) {
  *model = (tensor_model_t){.shape = *shape, .slots = slots};
  model->weights = calloc(shape->layers, sizeof *model->weights);
  model->slot = calloc(slots, sizeof *model->slot);
  model->scratch = matrix_new(shape->tokens * shape->dimension);
  int status = model->weights != NULL && model->slot != NULL && model->scratch != NULL ? 0 : OVL_ENOMEM;
  for (size_t s = 0; s < slots && status == 0; s++)
    status = new_slot(shape, &model->slot[s]);
  return status == 0 ? new_layers(model) : status;
}

void tensor_model_finish(tensor_model_t *model) {
  for (size_t l = 0; l < model->shape.layers && model->weights != NULL; l++) {
    free(model->weights[l].up);
    free(model->weights[l].down);
  }
  for (size_t s = 0; s < model->slots && model->slot != NULL; s++) {
    const tensor_slot_t *slot = &model->slot[s];
    float *all[] = {slot->x, slot->normal, slot->hidden, slot->partial, slot->sum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
      free(all[i]);
  }
  free(model->weights);
  free(model->slot);
  free(model->scratch);
  *model = (tensor_model_t){.slots = 0};
}

/* ---- a rank's part ---- */

static void fill_tokens(float *x, const tensor_shape_t *shape, uint64_t microbatch) {
  matrix_fill(x, shape->tokens * shape->dimension, (microbatch + 1) * 1000003, 1.0F);
}

void tensor_embed(tensor_model_t *model, size_t slot, uint64_t microbatch) {
  const tensor_shape_t *shape = &model->shape;
  fill_tokens(model->scratch, shape, microbatch);
  memcpy(model->slot[slot].x, model->scratch + first_row(shape) * shape->dimension,
         tensor_rows(shape) * shape->dimension * sizeof(float));
}

void tensor_take_in(tensor_model_t *model, size_t slot) {
  const tensor_shape_t *shape = &model->shape;
  size_t columns = tensor_columns(shape);
  for (size_t c = 0; c < shape->chunks; c++)
    for (size_t row = 0; row < tensor_rows(shape); row++)
      rows_add(model->slot[slot].x + row * shape->dimension + c * columns,
               tensor_sum(model, slot, c) + row * columns, columns);
}

void tensor_normalise(tensor_model_t *model, size_t slot) {
  const tensor_shape_t *shape = &model->shape;
  rows_normalise(model->slot[slot].normal + first_row(shape) * shape->dimension, model->slot[slot].x,
                 tensor_rows(shape), shape->dimension);
}

void tensor_expand(tensor_model_t *model, size_t slot, size_t layer) {
  const tensor_shape_t *shape = &model->shape;
  matrix_multiply(model->slot[slot].hidden, model->slot[slot].normal, model->weights[layer].up,
                  (matrix_shape_t){shape->tokens, shape->dimension, hidden(shape)});
  rows_drop_negative(model->slot[slot].hidden, shape->tokens * hidden(shape));
}

void tensor_contract(tensor_model_t *model, size_t slot, size_t layer, size_t chunk) {
  const tensor_shape_t *shape = &model->shape;
  size_t columns = tensor_columns(shape);
  matrix_multiply(tensor_partial(model, slot, chunk), model->slot[slot].hidden,
                  model->weights[layer].down + chunk * hidden(shape) * columns,
                  (matrix_shape_t){shape->tokens, hidden(shape), columns});
}

float *tensor_partial(const tensor_model_t *model, size_t slot, size_t chunk) {
  return model->slot[slot].partial + chunk * model->shape.tokens * tensor_columns(&model->shape);
}

float *tensor_sum(const tensor_model_t *model, size_t slot, size_t chunk) {
  return model->slot[slot].sum + chunk * tensor_rows(&model->shape) * tensor_columns(&model->shape);
}

/* ---- the whole ---- */

/* Like a single rank: that model has one slot, and one microbatch goes through it at a time. */
static void compute_whole(tensor_model_t *whole, uint64_t microbatch) {
  tensor_embed(whole, 0, microbatch);
  for (size_t l = 0; l < whole->shape.layers; l++) {
    tensor_normalise(whole, 0);
    tensor_expand(whole, 0, l);
    tensor_contract(whole, 0, l, 0);
    rows_add(whole->slot[0].x, whole->slot[0].partial, whole->shape.tokens * whole->shape.dimension);
  }
}

int tensor_reference(const tensor_shape_t *shape, uint64_t microbatches, float *results) {
  tensor_shape_t one = *shape;
  tensor_model_t whole;
  size_t size = tensor_rows(shape) * shape->dimension;
  one.chunks = one.ranks = 1;
  one.rank = 0;
  one.sequence = 0;
  int status = tensor_model_init(&whole, &one, 1);
  for (uint64_t i = 0; i < microbatches && status == 0; i++) {
    compute_whole(&whole, i);
    memcpy(results + i * size, whole.slot[0].x + first_row(shape) * shape->dimension, size * sizeof *results);
  }
  tensor_model_finish(&whole);
  return status;
}
