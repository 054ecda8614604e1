/* SPDX-License-Identifier: MIT */
/* If w P = (w A) B holds for a random row w, then P = A B, but for one chance in so many as w's numbers have values.
 * Doubles, as a result that never came holds no numbers; they hold these whole numbers exactly. */
#include "cuda_stream/reference.h"

#include <stdlib.h>

#include "parts/matrix.h"

#define VALUES 1000 /* of a random number */

static int random_below(uint64_t *state, uint64_t limit) {
  return (int)((matrix_random(state) >> 32) % limit);
}

void reference_fill(float *matrix, size_t dimension, uint64_t seed) {
  for (size_t i = 0; i < dimension * dimension; i++)
    matrix[i] = (float)(random_below(&seed, 5) - 2);
}

/* row times a column. */
static double product_of(const double *row, const float *column, size_t dimension) {
  double sum = 0;
  for (size_t i = 0; i < dimension; i++)
    sum += row[i] * (double)column[i];
  return sum;
}

/* Members' inputs one after another; `matrix` is for scratch. */
static void add_inputs(double *to, const double *row, float *matrix, size_t dimension,
                       const reference_t *what) {
  for (unsigned r = what->first; r <= what->last; r++) {
    reference_fill(matrix, dimension, REFERENCE_INPUT(r, what->microbatch));
    for (size_t c = 0; c < dimension; c++)
      to[c] += product_of(row, matrix + c * dimension, dimension);
  }
}

static int64_t count_wrong(const float *product, const double *row, const double *through,
                           const float *weights, size_t dimension, const reference_t *what) {
  int64_t wrong = 0;
  for (size_t c = 0; c < what->columns; c++)
    wrong += product_of(row, product + c * dimension, dimension) !=
             product_of(through, weights + (what->column + c) * dimension, dimension);
  return wrong;
}

int64_t reference_wrong_columns(const float *product, size_t dimension, const reference_t *what) {
  double *row = calloc(dimension, sizeof *row), *through = calloc(dimension, sizeof *through);
  float *matrix = matrix_new(dimension * dimension);
  uint64_t state = what->microbatch;
  int64_t wrong = -1;
  if (row != NULL && through != NULL && matrix != NULL) {
    for (size_t i = 0; i < dimension; i++)
      row[i] = random_below(&state, VALUES);
    add_inputs(through, row, matrix, dimension, what);
    reference_fill(matrix, dimension, REFERENCE_WEIGHTS);
    wrong = count_wrong(product, row, through, matrix, dimension, what);
  }
  free(matrix);
  free(through);
  free(row);
  return wrong;
}
