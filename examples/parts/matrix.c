/* SPDX-License-Identifier: MIT */
/* Three products, by CBLAS or by a loop that keeps a strip of the result in registers.
 * EXAMPLES_CBLAS is the build's word for having found CBLAS. */
#include "parts/matrix.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define LINE 64 /* bytes */

#ifdef EXAMPLES_CBLAS

#include <cblas.h>

const char *matrix_method(void) { return "CBLAS"; }

/* One thread a product: the examples have as many lanes as they want processors. */
static void one_thread(void) {
#ifdef EXAMPLES_OPENBLAS
  openblas_set_num_threads(1);
#endif
}

static void product(float *c, const float *a, CBLAS_TRANSPOSE turn_a, const float *b, CBLAS_TRANSPOSE turn_b,
                    matrix_shape_t shape) {
  static uv_once_t once = UV_ONCE_INIT;
  int rows = (int)shape.rows;
  int inner = (int)shape.inner;
  int columns = (int)shape.columns;
  uv_once(&once, one_thread);
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, rows, columns, inner, 1.0F, a,
              turn_a == CblasTrans ? rows : inner, b, turn_b == CblasTrans ? inner : columns, 0.0F, c,
              columns);
}

void matrix_multiply(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, a, CblasNoTrans, b, CblasNoTrans, shape);
}

void matrix_multiply_bt(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, a, CblasNoTrans, b, CblasTrans, shape);
}

void matrix_multiply_at(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, a, CblasTrans, b, CblasNoTrans, shape);
}

#else

#define STRIP 16 /* neighbours in a row of the result; compilers make vectors of them */

const char *matrix_method(void) { return "a plain loop"; }

/* A matrix to read from: element (i, k) is at[i * down + k * right]. */
typedef struct view {
  const float *at;
  size_t down;
  size_t right;
} view_t;

/* c[t] = sum over k of a(0, k) b(k, t). */
static void full_strip(float *c, view_t a, view_t b, size_t inner) {
  float sums[STRIP] = {0};
  for (size_t k = 0; k < inner; k++) {
    const float factor = a.at[k * a.right];
    const float *row = &b.at[k * b.down];
    for (size_t t = 0; t < STRIP; t++)
      sums[t] += factor * row[t];
  }
  memcpy(c, sums, sizeof sums);
}

/* The same where b lies across, or where less than a strip is left. */
static void any_strip(float *c, view_t a, view_t b, size_t inner, size_t count) {
  float sums[STRIP] = {0};
  for (size_t k = 0; k < inner; k++) {
    const float factor = a.at[k * a.right];
    const float *row = &b.at[k * b.down];
    for (size_t t = 0; t < count; t++)
      sums[t] += factor * row[t * b.right];
  }
  memcpy(c, sums, count * sizeof *c);
}

static void product(float *c, view_t a, view_t b, matrix_shape_t shape) {
  for (size_t i = 0; i < shape.rows; i++) {
    const view_t row = {&a.at[i * a.down], a.down, a.right};
    for (size_t j = 0; j < shape.columns; j += STRIP) {
      const view_t strip = {&b.at[j * b.right], b.down, b.right};
      size_t left = shape.columns - j;
      float *to = &c[i * shape.columns + j];
      if (left >= STRIP && b.right == 1)
        full_strip(to, row, strip, shape.inner);
      else
        any_strip(to, row, strip, shape.inner, left < STRIP ? left : STRIP);
    }
  }
}

void matrix_multiply(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, (view_t){a, shape.inner, 1}, (view_t){b, shape.columns, 1}, shape);
}

void matrix_multiply_bt(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, (view_t){a, shape.inner, 1}, (view_t){b, 1, shape.inner}, shape);
}

void matrix_multiply_at(float *c, const float *a, const float *b, matrix_shape_t shape) {
  product(c, (view_t){a, 1, shape.rows}, (view_t){b, shape.columns, 1}, shape);
}

#endif

/* ---- memory and numbers ---- */

float *matrix_new(size_t count) {
  if (count > SIZE_MAX / sizeof(float) - LINE)
    return NULL;
  size_t bytes = (count * sizeof(float) / LINE + 1) * LINE;
  float *values = aligned_alloc(LINE, bytes);
  if (values != NULL)
    memset(values, 0, bytes);
  return values;
}

/* splitmix64: Steele, Lea, Flood 2014. */
uint64_t matrix_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void matrix_fill(float *values, size_t count, uint64_t seed, float scale) {
  for (size_t i = 0; i < count; i++)
    values[i] = scale * ((float)(matrix_random(&seed) >> 40) / 8388608.0F - 1.0F);
}

/* ---- speed ---- */

/* The fastest of several, as others may have disturbed the rest. */
static uint64_t fastest(float *c, const float *a, const float *b, size_t size) {
  uint64_t best_ns = UINT64_MAX;
  uint64_t begin_ns = uv_hrtime();
  for (int tries = 0; tries < 50 && (tries < 3 || uv_hrtime() - begin_ns < 20000000); tries++) {
    uint64_t start_ns = uv_hrtime();
    matrix_multiply(c, a, b, (matrix_shape_t){size, size, size});
    uint64_t took_ns = uv_hrtime() - start_ns;
    if (took_ns < best_ns)
      best_ns = took_ns;
  }
  return best_ns == 0 ? 1 : best_ns;
}

double matrix_rate(size_t size) {
  float *a = matrix_new(size * size);
  float *b = matrix_new(size * size);
  float *c = matrix_new(size * size);
  double rate = 0;
  if (a != NULL && b != NULL && c != NULL) {
    matrix_fill(a, size * size, 1, 1.0F);
    matrix_fill(b, size * size, 2, 1.0F);
    rate = 2.0 * (double)(size * size * size) / (double)fastest(c, a, b, size);
  }
  free(a);
  free(b);
  free(c);
  return rate;
}
