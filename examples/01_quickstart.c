/* SPDX-License-Identifier: MIT */
/* The smallest useful program: eight microbatches whose communication hides under the next one's compute.
 * The two callbacks only sleep; put your own work in their place. */
#include <stdio.h>
#include <uv.h>

#include "ovl.h"

static int compute(ovl_op_t *op) {
  (void)op; /* op->microbatch says which one, op->slot which of your buffers */
  uv_sleep(5);
  return 0;
}

static int comm(ovl_op_t *op) {
  (void)op;
  uv_sleep(3);
  return 0;
}

static int print_statistics(const ovl_pipeline_t *pipeline) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_stats(pipeline, &stats);
  if (status != 0)
    return status;
  uint64_t comm_ns = stats.hidden_ns + stats.exposed_ns;
  double hidden = comm_ns == 0 ? 0.0 : 100.0 * (double)stats.hidden_ns / (double)comm_ns;
  printf("%llu microbatches in %.1f ms, %.2f operations at a time, %.0f %% of the communication hidden\n",
         (unsigned long long)stats.microbatches, (double)stats.elapsed_ns / 1e6, stats.concurrency, hidden);
  return 0;
}

static int complain(int status) {
  fprintf(stderr, "01_quickstart: %s: %s\n", ovl_err_name(status), ovl_strerror(status));
  return 1;
}

int main(void) {
  ovl_pipeline_t *pipeline = NULL;
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.compute = compute;
  options.comm = comm;
  int status = ovl_pipeline_create(&pipeline, &options);
  if (status == 0)
    status = ovl_pipeline_run(pipeline, 8);
  if (status == 0)
    status = print_statistics(pipeline);
  ovl_pipeline_close(pipeline, NULL);
  return status == 0 ? 0 : complain(status);
}
