/* SPDX-License-Identifier: MIT */
/* Products of small matrices, and the memory and numbers to fill them with.
 * Through CBLAS where the build found it, else by a plain loop; row by row, in single precision. */
#ifndef EXAMPLES_PARTS_MATRIX_H
#define EXAMPLES_PARTS_MATRIX_H

#include <stddef.h>
#include <stdint.h>

/* Of a product: the result has rows x columns elements, each a sum over `inner`. */
typedef struct matrix_shape {
  size_t rows;
  size_t inner;
  size_t columns;
} matrix_shape_t;

/* c = a b, with a: rows x inner, b: inner x columns. c must be neither of them, in all three. The same
 * arguments give the same bits, whatever thread computes. */
void matrix_multiply(float *c, const float *a, const float *b, matrix_shape_t shape);

/* c = a b', with a: rows x inner, b: columns x inner. */
void matrix_multiply_bt(float *c, const float *a, const float *b, matrix_shape_t shape);

/* c = a' b, with a: inner x rows, b: inner x columns. */
void matrix_multiply_at(float *c, const float *a, const float *b, matrix_shape_t shape);

/* "CBLAS" or "a plain loop". */
const char *matrix_method(void);

/* How fast products of about size x size are here: operations (a multiplication and an addition count as
 * two) per nanosecond. Measured when called, in some milliseconds; 0 when there was no memory. */
double matrix_rate(size_t size);

/* `count` numbers, all 0, aligned to a cache line; the caller's to free(). NULL: no memory. */
float *matrix_new(size_t count);

/* Fills with pseudo-random numbers between -scale and scale; the same seed gives the same numbers. */
void matrix_fill(float *values, size_t count, uint64_t seed, float scale);

/* The next of a pseudo-random sequence, for other purposes; the seed is where *state begins. */
uint64_t matrix_random(uint64_t *state);

#endif
