/* SPDX-License-Identifier: MIT */
/* Plain loops: next to the products these take no time. */
#include "parts/rows.h"

#include <math.h>

void rows_add(float *x, const float *more, size_t count) {
  for (size_t i = 0; i < count; i++)
    x[i] += more[i];
}

void rows_normalise(float *to, const float *from, size_t rows, size_t columns) {
  for (size_t row = 0; row < rows; row++, to += columns, from += columns) {
    float squares = 0;
    for (size_t i = 0; i < columns; i++)
      squares += from[i] * from[i];
    float scale = 1.0F / sqrtf(squares / (float)columns + 1e-6F);
    for (size_t i = 0; i < columns; i++)
      to[i] = from[i] * scale;
  }
}

void rows_drop_negative(float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    values[i] = values[i] > 0 ? values[i] : 0;
}
