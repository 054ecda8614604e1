/* SPDX-License-Identifier: MIT */
/* A fixed run for counting instructions: so many empty operations of two pool lanes, window 8, all on one
 * pool thread. The difference of two runs of different length, by the difference of their operations, is
 * what the hot path takes; `tests/bench/run --instructions` makes valgrind count and does the division. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench_pipeline.h"

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

int main(int argc, char **argv) {
  char *end = NULL;
  unsigned long long operations = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
  if (operations == 0 || operations > UINT32_MAX || *end != '\0' || argv[1][0] == '-') {
    fputs("Usage: bench_instructions OPERATIONS\n", stderr);
    return 2;
  }
  setenv("UV_THREADPOOL_SIZE", "1", 1);
  ovl_pipeline_t *pipeline =
      bench_pipeline_open(&(bench_shape_t){.lanes = 2, .stages = 2, .window = 8, .run = do_nothing});
  uv_loop_t loop;
  if (pipeline == NULL || uv_loop_init(&loop) != 0)
    return EXIT_FAILURE;
  uint64_t elapsed_ns = bench_pipeline_run(pipeline, &loop, operations / 2);
  ovl_pipeline_close(pipeline, NULL);
  uv_loop_close(&loop);
  return elapsed_ns != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
