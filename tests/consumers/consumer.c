/* SPDX-License-Identifier: MIT */
/* A program of someone else's: sends four microbatches through two stages and counts the calls.
 * Compiled as C and as C++11. */
#include <ovl.h>
#include <stdio.h>
#include <string.h>

/* Each is touched by its own lane alone, one operation at a time. */
typedef struct counts {
  int compute;
  int comm;
} counts_t;

static int compute(ovl_op_t *op) {
  counts_t *counts = (counts_t *)op->data;
  counts->compute++;
  return 0;
}

static int comm(ovl_op_t *op) {
  counts_t *counts = (counts_t *)op->data;
  counts->comm++;
  return 0;
}

int main(void) {
  counts_t counts = {0, 0};
  ovl_pipeline_options_t options;
  ovl_pipeline_t *p;
  int status;

  ovl_pipeline_options_init(&options);
  options.compute = compute;
  options.comm = comm;
  options.data = &counts;
  status = ovl_pipeline_create(&p, &options);
  if (status != 0) {
    fprintf(stderr, "create: %s\n", ovl_strerror(status));
    return 1;
  }
  status = ovl_pipeline_run(p, 4);
  ovl_pipeline_close(p, NULL);

  printf("libovl %s: %s, %d computed, %d communicated\n", ovl_version_string(), ovl_strerror(status),
         counts.compute, counts.comm);
  return status == 0 && counts.compute == 4 && counts.comm == 4 && ovl_version() == OVL_VERSION ? 0 : 1;
}
