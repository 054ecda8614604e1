/* SPDX-License-Identifier: MIT */
/* The frozen description: what runs where and what waits for what, as flat arrays that the core
 * walks. Built once from the lanes, stages and dependencies; never changed afterwards. */
#ifndef OVL_PLAN_PLAN_H
#define OVL_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory.h"
#include "ovl/pipeline.h"

/* ---- what the user described; indexes count from 0 ------------------------------------------------ */

typedef struct ovl_lane_desc {
  uint32_t width;
  ovl_lane_kind_t kind;
  ovl_role_t role;
  bool fixed;  /* OVL_ORDER_FIXED; its width is 1 */
  bool silent; /* its ops' durations say nothing, so they are no part of statistics */
} ovl_lane_desc_t;

typedef struct ovl_stage_desc {
  uint32_t lane;
  bool chained;  /* waits for the stage before it */
  bool always;   /* runs for failed microbatches too */
  bool deadline; /* its ops may take only so long */
  bool shadow;   /* is no stage of the user's: not counted */
} ovl_stage_desc_t;

typedef struct ovl_dependency {
  uint32_t before;
  uint32_t after;
  uint32_t distance;
} ovl_dependency_t;

typedef struct ovl_description {
  const ovl_lane_desc_t *lanes;
  const ovl_stage_desc_t *stages;
  const ovl_dependency_t *dependencies;
  const uint32_t *order; /* see ovl_plan_t.order; NULL: the lowest numbered first */
  uint32_t lane_count;
  uint32_t stage_count;
  uint32_t dependency_count;
  uint32_t window;
  uint32_t slots; /* what callbacks see as op->slot is microbatch mod this; 0: window */
  uint32_t rows;  /* see ovl_plan_t.rows; 0: window */
} ovl_description_t;

/* ---- what it becomes ------------------------------------------------------------------------------ */

/* One end of an edge, seen from the other: `stage` of the microbatch `distance` away. */
typedef struct ovl_edge {
  uint32_t stage;
  uint32_t distance;
} ovl_edge_t;

/* The edges of all stages: those of stage s are edges[first[s]] .. edges[first[s + 1] - 1]. */
typedef struct ovl_edges {
  uint32_t *first;
  ovl_edge_t *edges;
} ovl_edges_t;

/* What waits for what in one mode. Edges that the window implies are left out, so every distance is
 * below the window; no edge stands twice; out-edges are sorted by distance, then stage. */
typedef struct ovl_graph {
  ovl_edges_t in;
  ovl_edges_t out;
  uint32_t limit; /* microbatches in flight at most: the window, or 1 */
  bool crosses;   /* some edge has a distance above 0 */
} ovl_graph_t;

typedef struct ovl_plan {
  uint32_t lane_count;
  uint32_t stage_count;
  uint32_t window;
  uint32_t slots; /* the user's: at most window */
  uint32_t rows;  /* microbatch i is in row i mod this, where it stays until i + rows: at least window */
  ovl_lane_desc_t *lanes; /* widths cut to what the window and the lane's stages can use */
  ovl_stage_desc_t *stages;
  uint32_t *lane_first; /* lane_stages[lane_first[l]] .. are the stages of lane l, in the order of `order` */
  uint32_t *lane_stages;
  uint32_t *order;       /* all stages, every one after those that it waits for within a microbatch */
  ovl_graph_t graphs[2]; /* by ovl_mode_t; the serial one is a chain along `order` */
} ovl_plan_t;

/* 0, OVL_ENOMEM or OVL_ECYCLE; on error nothing is held. */
int ovl_plan_init(ovl_plan_t *plan, const ovl_description_t *description, const ovl_memory_t *memory);
void ovl_plan_finish(ovl_plan_t *plan, const ovl_memory_t *memory);

/* By stage: does it wait for nothing of its own microbatch, and does nothing of that wait for it? */
void ovl_plan_find_ends(const ovl_plan_t *plan, const ovl_graph_t *graph, bool *source, bool *sink);

/* Looks for a way from stage `from` to stage `to` along edges of distance 0. *length becomes the number
 * of stages on it (0: there is none), which path[0] = from .. path[*length - 1] = to name. path has room
 * for all stages. 0 or OVL_ENOMEM. */
int ovl_plan_find_path(const ovl_description_t *description, uint32_t from, uint32_t to,
                       const ovl_memory_t *memory, uint32_t *path, uint32_t *length);

#endif
