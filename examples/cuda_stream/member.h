/* SPDX-License-Identifier: MIT */
/* One GPU's pipeline and its runs. All members do the same, in step. */
#ifndef EXAMPLES_CUDA_STREAM_MEMBER_H
#define EXAMPLES_CUDA_STREAM_MEMBER_H

#include "cuda_stream/gpu.h"

typedef enum member_run { MEMBER_SERIAL, MEMBER_OVERLAP, MEMBER_GRAPH, MEMBER_RUNS } member_run_t;

/* What members tell each other: a row of team_page_t.numbers. */
typedef enum member_number {
  NUMBER_TIME,                                /* of each run, the fastest, ns */
  NUMBER_COMPUTE = NUMBER_TIME + MEMBER_RUNS, /* what an op takes in a serial run, ns */
  NUMBER_COMM,
  NUMBER_FINGERPRINT,
} member_number_t;

typedef struct member {
  const team_t *team;
  uint64_t repeats;
  gpu_t gpu;
  ovl_pipeline_t *pipeline;
  ovl_stage_t multiply, communicate;
  uint64_t costs[2];      /* of both stages; the same on all members, as the order follows from them */
  cudaEvent_t begin, end; /* of a run, on the origin */
  cudaEvent_t *marks;     /* before and after each op: [microbatch][stage][2] */
  int marking;            /* are they recorded now? */
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  uint64_t hashes[MEMBER_RUNS];
} member_t;

/* Everything up to the results, which are in the team's page then. 0, or -1 after one line on stderr or more.
 * finish is due after both. */
int member_run(member_t *member, const team_t *team, const gpu_plan_t *plan, uint64_t repeats);
void member_finish(member_t *member);

#endif
