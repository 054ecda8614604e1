/* SPDX-License-Identifier: MIT */
/* A set of graphs of every shape, and a way to run one that watches what always holds: every op runs exactly
 * once, after all that it depends on; no lane runs more than its width; no slot is used before it is free;
 * every microbatch is reported once. */
#ifndef TEST_SUPPORT_GRAPHS_H
#define TEST_SUPPORT_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ovl.h"

/* How the ops of a stage end. */
typedef enum graph_style {
  STYLE_INLINE,  /* the callback returns 0 */
  STYLE_EARLY,   /* the callback completes the op, then returns OVL_PENDING */
  STYLE_FOREIGN, /* a foreign thread completes it */
  STYLE_POLLED,  /* the lane's poll hook completes it */
  STYLE_NOTHING  /* there is no callback */
} graph_style_t;

enum { GRAPH_LANES = 8, GRAPH_STAGES = 12, GRAPH_DEPENDENCIES = 12 };

typedef struct graph_lane {
  const char *name; /* NULL: no such lane */
  ovl_lane_kind_t kind;
  uint32_t width;
  bool polled;
} graph_lane_t;

typedef struct graph_stage {
  const char *name; /* NULL: no such stage */
  uint32_t lane;    /* index */
  graph_style_t style;
  bool unchained;
} graph_stage_t;

typedef struct graph_dependency {
  uint32_t before, after, distance; /* stages by index; both 0: no such dependency */
} graph_dependency_t;

typedef struct graph {
  const char *name;
  uint32_t window;
  graph_lane_t lanes[GRAPH_LANES];
  graph_stage_t stages[GRAPH_STAGES];
  graph_dependency_t dependencies[GRAPH_DEPENDENCIES];
} graph_t;

extern const graph_t all_graphs[];
extern const size_t all_graph_count;

/* How a graph is run. */
typedef struct graph_variation {
  const char *name;
  ovl_mode_t mode;
  bool streaming; /* a thread of its own submits */
  bool report;    /* with on_microbatch */
  bool no_stats;
  uint32_t window; /* 0: the graph's */
  uint64_t spin_ns;
  uint64_t work_ns; /* each callback spins for so long */
} graph_variation_t;

extern const graph_variation_t all_variations[];
extern const size_t all_variation_count;

/* Runs a graph and asserts all of the above. */
void run_graph(const graph_t *graph, const graph_variation_t *variation, uint64_t microbatches);

/* Every graph in every variation. */
void run_all_graphs(uint64_t microbatches);

#endif
