/* SPDX-License-Identifier: MIT */
/* Random dependencies of a pipeline, kept for the test to look at. */
#ifndef TEST_SUPPORT_RANDOM_EDGES_H
#define TEST_SUPPORT_RANDOM_EDGES_H

#include "support/describe.h"
#include "support/random.h"

enum { RANDOM_EDGES = 5 }; /* at most */

/* Stages by id. */
typedef struct edge {
  uint32_t before, after, distance;
} edge_t;

/* Adds some to p, none of which closes a cycle; how many there are in `edges` then, which has room for RANDOM_EDGES. */
static inline uint32_t add_random_edges(random_source_t *random, ovl_pipeline_t *p, uint32_t stages,
                                        uint32_t window, edge_t *edges) {
  uint32_t kept = 0;
  for (uint32_t e = random_below(random, RANDOM_EDGES + 1); e > 0; e--) {
    edge_t edge = {1 + random_below(random, stages), 1 + random_below(random, stages),
                   random_below(random, window + 1)};
    if (edge.distance == 0 && edge.before >= edge.after)
      continue;
    assert_int_equal(
        ovl_pipeline_add_dependency(p, (ovl_stage_t){edge.before}, (ovl_stage_t){edge.after}, edge.distance),
        0);
    edges[kept++] = edge;
  }
  return kept;
}

#endif
