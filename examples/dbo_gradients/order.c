/* SPDX-License-Identifier: MIT */
/* Tries one order after another on the first rank's pipeline, and gives the best to every rank.
 * A few steps are enough to compare by; the order repeats with every step. */
#include "dbo_gradients/order.h"

#include <stdlib.h>

#include "parts/report.h"

#define STEPS 4  /* to compare by */
#define TRIES 32 /* about */

/* Which bucket is reduced at `place` of a step. */
static size_t bucket_at(size_t buckets, size_t turned, size_t place) {
  size_t straight = buckets - turned;
  return place < straight ? place : buckets - 1 - (place - straight);
}

static int set_order(const training_t *training, uint64_t microbatches, size_t turned) {
  size_t buckets = training->bucket_count;
  size_t count = (size_t)microbatches * buckets;
  ovl_op_id_t *order = calloc(count, sizeof *order);
  if (order == NULL)
    return OVL_ENOMEM;
  for (size_t i = 0; i < count; i++)
    order[i] = (ovl_op_id_t){i / buckets, training->reduction[bucket_at(buckets, turned, i % buckets)]};
  int status = ovl_pipeline_set_order(training->pipeline, training->link, order, count);
  free(order);
  return status;
}

/* How long that takes in virtual time. */
static int try_order(const training_t *training, uint64_t microbatches, size_t turned, uint64_t *elapsed_ns) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = set_order(training, microbatches, turned);
  if (status == 0)
    status = ovl_pipeline_simulate(training->pipeline, microbatches, NULL, &stats);
  *elapsed_ns = stats.elapsed_ns;
  return status;
}

static int find_best(const training_t *training, uint64_t microbatches, size_t *turned) {
  size_t buckets = training->bucket_count;
  uint64_t best_ns = UINT64_MAX;
  int status = 0;
  for (size_t tried = 0; tried <= buckets && status == 0; tried += 1 + buckets / TRIES) {
    uint64_t elapsed_ns;
    status = try_order(training, microbatches, tried, &elapsed_ns);
    if (status == 0 && elapsed_ns < best_ns) {
      best_ns = elapsed_ns;
      *turned = tried;
    }
  }
  return status;
}

int order_choose(training_t *trainings, size_t count, uint64_t microbatches, const char *program,
                 size_t *turned) {
  const ovl_pipeline_t *pipeline = trainings[0].pipeline;
  uint64_t few = STEPS * trainings[0].accumulate;
  int status = ovl_pipeline_set_mode(trainings[0].pipeline, OVL_OVERLAP);
  if (status == 0)
    status = find_best(&trainings[0], microbatches < few ? microbatches : few, turned);
  for (size_t t = 0; t < count && status == 0; t++) {
    pipeline = trainings[t].pipeline;
    status = set_order(&trainings[t], microbatches, *turned);
  }
  return status == 0 ? 0 : report_refusal(program, "ordering the reductions", pipeline, status);
}
