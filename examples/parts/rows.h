/* SPDX-License-Identifier: MIT */
/* What models do to their matrices row by row, between two products. */
#ifndef EXAMPLES_PARTS_ROWS_H
#define EXAMPLES_PARTS_ROWS_H

#include <stddef.h>

/* x += more. */
void rows_add(float *x, const float *more, size_t count);

/* Each row to a mean square of 1. */
void rows_normalise(float *to, const float *from, size_t rows, size_t columns);

/* What is below 0 becomes 0. */
void rows_drop_negative(float *values, size_t count);

#endif
