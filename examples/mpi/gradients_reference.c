/* SPDX-License-Identifier: MIT */
/* A network for each rank, as their samples differ; all of them are given the same gradients.
 * Networks are those of dbo_gradients, and nothing else here is shared with what is checked. */
#include "mpi/gradients_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dbo_gradients/network.h"
#include "dbo_gradients/training.h"
#include "parts/matrix.h"
#include "parts/report.h"

#define TOLERANCE 1e-4 /* of the largest weight */

typedef struct whole {
  network_t *networks; /* by rank */
  float *sum;
} whole_t;

static int set_up(const reference_t *reference, whole_t *whole) {
  int status = 0;
  whole->networks = calloc(reference->ranks, sizeof *whole->networks);
  if (whole->networks == NULL)
    return OVL_ENOMEM;
  for (unsigned r = 0; r < reference->ranks && status == 0; r++) {
    status = network_init(&whole->networks[r], r, reference->width, reference->samples,
                          (size_t)reference->accumulate, 1);
    if (status == 0)
      network_reset(&whole->networks[r]);
  }
  if (status == 0)
    whole->sum = matrix_new(network_size(&whole->networks[0]));
  return whole->sum == NULL ? OVL_ENOMEM : 0;
}

static void tear_down(const reference_t *reference, whole_t *whole) {
  for (unsigned r = 0; whole->networks != NULL && r < reference->ranks; r++)
    network_finish(&whole->networks[r]);
  free(whole->networks);
  free(whole->sum);
}

/* ---- learning ---- */

static void add_gradients(network_t *network, size_t batch, float *sum) {
  for (size_t l = 0; l < NETWORK_LAYERS; l++)
    network_forward(network, 0, l, batch);
  (void)network_loss(network, 0); /* what backward begins with */
  for (size_t l = NETWORK_LAYERS; l-- > 0;)
    network_backward(network, 0, l);
  for (size_t i = 0; i < network_size(network); i++)
    sum[i] += network->slot[0].gradients[i];
}

static void learn_step(const reference_t *reference, whole_t *whole) {
  size_t size = network_size(&whole->networks[0]);
  memset(whole->sum, 0, size * sizeof *whole->sum);
  for (unsigned r = 0; r < reference->ranks; r++)
    for (size_t batch = 0; batch < reference->accumulate; batch++)
      add_gradients(&whole->networks[r], batch, whole->sum);
  for (unsigned r = 0; r < reference->ranks; r++) {
    memcpy(whole->networks[r].slot[0].gradients, whole->sum, size * sizeof *whole->sum);
    network_update(&whole->networks[r], 0, 0, size,
                   TRAINING_RATE / (float)(reference->accumulate * reference->ranks));
  }
}

/* ---- comparing ---- */

/* The first that is too far off, or is no number. */
static int compare(const network_t *network, const float *weights, const char *program) {
  double largest = 0;
  for (size_t i = 0; i < network_size(network); i++)
    largest = fmax(largest, fabs((double)network->weights[i]));
  for (size_t i = 0; i < network_size(network); i++) {
    double apart = fabs((double)network->weights[i] - (double)weights[i]);
    if (apart <= TOLERANCE * largest)
      continue;
    fprintf(stderr, "%s: weight %zu is %g, but %g if one rank learns alone\n", program, i, (double)weights[i],
            (double)network->weights[i]);
    return -1;
  }
  return 0;
}

int reference_check(const reference_t *reference, const float *weights, const char *program) {
  whole_t whole = {NULL, NULL};
  int status = set_up(reference, &whole);
  if (status != 0) {
    (void)report_failure(program, "memory for the reference", status);
  } else {
    for (uint64_t step = 0; step < reference->steps; step++)
      learn_step(reference, &whole);
    status = compare(&whole.networks[0], weights, program);
  }
  tear_down(reference, &whole);
  return status == 0 ? 0 : -1;
}
