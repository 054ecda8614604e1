/* SPDX-License-Identifier: MIT */
/* Layers of causal attention on random weights; the likeliest token is taken, the first of equals.
 * Both phases are one function, for many tokens at once or for one. */
#include "pd_disaggregation/language.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ovl.h"
#include "parts/matrix.h"

/* ---- memory ---- */

static float *new_weights(size_t rows, size_t columns, uint64_t seed) {
  float *weights = matrix_new(rows * columns);
  if (weights != NULL)
    matrix_fill(weights, rows * columns, seed, 1.7F / sqrtf((float)columns));
  return weights;
}

int language_init(language_t *language, size_t width, size_t longest) {
  *language = (language_t){.width = width, .longest = longest};
  language->embedding = new_weights(LANGUAGE_TOKENS, width, 1);
  int missing = language->embedding == NULL;
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++) {
    float **all[] = {&language->query[l], &language->key[l], &language->value[l], &language->out[l]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
      *all[i] = new_weights(width, width, 10 * (l + 1) + i);
      missing += *all[i] == NULL;
    }
  }
  return missing == 0 ? 0 : OVL_ENOMEM;
}

void language_finish(language_t *language) {
  free(language->embedding);
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++) {
    free(language->query[l]);
    free(language->key[l]);
    free(language->value[l]);
    free(language->out[l]);
  }
  *language = (language_t){.width = 0};
}

int language_block_init(language_block_t *block, const language_t *language) {
  int missing = 0;
  *block = (language_block_t){.tokens = 0};
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++) {
    block->keys[l] = matrix_new(language->longest * language->width);
    block->values[l] = matrix_new(language->longest * language->width);
    missing += block->keys[l] == NULL || block->values[l] == NULL;
  }
  return missing == 0 ? 0 : OVL_ENOMEM;
}

void language_block_finish(language_block_t *block) {
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++) {
    free(block->keys[l]);
    free(block->values[l]);
  }
  *block = (language_block_t){.tokens = 0};
}

int language_scratch_init(language_scratch_t *scratch, const language_t *language) {
  size_t count = language->longest * language->width;
  *scratch = (language_scratch_t){.x = matrix_new(count),
                                  .query = matrix_new(count),
                                  .mixed = matrix_new(count),
                                  .out = matrix_new(count),
                                  .scores = matrix_new(language->longest * language->longest)};
  return scratch->x != NULL && scratch->query != NULL && scratch->mixed != NULL && scratch->out != NULL &&
                 scratch->scores != NULL
             ? 0
             : OVL_ENOMEM;
}

void language_scratch_finish(language_scratch_t *scratch) {
  free(scratch->x);
  free(scratch->query);
  free(scratch->mixed);
  free(scratch->out);
  free(scratch->scores);
  *scratch = (language_scratch_t){.x = NULL};
}

/* ---- computing ---- */

/* Row i may look at the first `visible` + i columns; the rest becomes 0. */
static void softmax_causal(float *scores, size_t rows, size_t columns, size_t visible, float scale) {
  for (size_t row = 0; row < rows; row++, scores += columns) {
    float most = scores[0];
    float sum = 0;
    for (size_t i = 1; i < visible + row; i++)
      most = scores[i] > most ? scores[i] : most;
    for (size_t i = 0; i < visible + row; i++)
      sum += scores[i] = expf((scores[i] - most) * scale);
    for (size_t i = 0; i < columns; i++)
      scores[i] = i < visible + row ? scores[i] / sum : 0;
  }
}

static void normalise(float *x, size_t rows, size_t columns) {
  for (size_t row = 0; row < rows; row++, x += columns) {
    float squares = 0;
    for (size_t i = 0; i < columns; i++)
      squares += x[i] * x[i];
    float scale = 1.0F / sqrtf(squares / (float)columns + 1e-6F);
    for (size_t i = 0; i < columns; i++)
      x[i] *= scale;
  }
}

/* `rows` more tokens, after those that the block has. */
static void layer(const language_t *language, language_scratch_t *scratch, size_t l, size_t rows,
                  language_block_t *block) {
  size_t width = language->width;
  size_t all = block->tokens + rows;
  matrix_shape_t square = {rows, width, width};
  float *keys = block->keys[l];
  float *values = block->values[l];
  normalise(scratch->x, rows, width);
  matrix_multiply(scratch->query, scratch->x, language->query[l], square);
  matrix_multiply(keys + block->tokens * width, scratch->x, language->key[l], square);
  matrix_multiply(values + block->tokens * width, scratch->x, language->value[l], square);
  matrix_multiply_bt(scratch->scores, scratch->query, keys, (matrix_shape_t){rows, width, all});
  softmax_causal(scratch->scores, rows, all, block->tokens + 1, 1.0F / sqrtf((float)width));
  matrix_multiply(scratch->mixed, scratch->scores, values, (matrix_shape_t){rows, all, width});
  matrix_multiply(scratch->out, scratch->mixed, language->out[l], square);
  for (size_t i = 0; i < rows * width; i++)
    scratch->x[i] += scratch->out[i];
}

static void all_layers(const language_t *language, language_scratch_t *scratch, const uint8_t *tokens,
                       size_t rows, language_block_t *block) {
  size_t width = language->width;
  for (size_t i = 0; i < rows; i++)
    memcpy(scratch->x + i * width, language->embedding + tokens[i] * width, width * sizeof(float));
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++)
    layer(language, scratch, l, rows, block);
  block->tokens += rows;
}

void language_prefill(const language_t *language, language_scratch_t *scratch, const uint8_t *prompt,
                      size_t count, language_block_t *block) {
  block->tokens = 0;
  all_layers(language, scratch, prompt, count, block);
}

/* A token that stands for itself would repeat for ever, so the one that was given is left out. */
static uint8_t likeliest(const float *scores, uint8_t given) {
  size_t best = given == 0 ? 1 : 0;
  for (size_t i = best + 1; i < LANGUAGE_TOKENS; i++)
    if (i != given && scores[i] > scores[best])
      best = i;
  return (uint8_t)best;
}

uint8_t language_decode(const language_t *language, language_scratch_t *scratch, uint8_t token,
                        language_block_t *block) {
  all_layers(language, scratch, &token, 1, block);
  matrix_multiply_bt(scratch->scores, scratch->x, language->embedding,
                     (matrix_shape_t){1, language->width, LANGUAGE_TOKENS});
  return likeliest(scratch->scores, token);
}

/* ---- transfer ---- */

size_t language_block_bytes(const language_t *language, size_t tokens) {
  return 2 * LANGUAGE_LAYERS * tokens * language->width * sizeof(float);
}

void language_block_copy(const language_t *language, language_block_t *to, const language_block_t *from) {
  size_t bytes = from->tokens * language->width * sizeof(float);
  to->tokens = from->tokens;
  for (size_t l = 0; l < LANGUAGE_LAYERS; l++) {
    memcpy(to->keys[l], from->keys[l], bytes);
    memcpy(to->values[l], from->values[l], bytes);
  }
}
