/* SPDX-License-Identifier: MIT */
/* A run as it is explained: what the parts of ovl_pipeline_explain share. */
#ifndef OVL_API_EXPLAIN_H
#define OVL_API_EXPLAIN_H

#include "api/pipeline.h"
#include "observe/note.h"
#include "observe/stats.h"

typedef struct ovl_view {
  const ovl_pipeline_t *p;
  ovl_note_t *text;
  ovl_stats_t run;
  bool serial, in_flight;
  uint32_t busiest;      /* the lane that works most */
  ovl_lane_stats_t lane; /* its statistics */
} ovl_view_t;

/* How long an op of the stage took on average; 0: none has ended. */
uint64_t ovl_view_mean(const ovl_view_t *view, uint32_t stage);

/* what_if.c: what other settings would bring. */
void ovl_view_what_if(const ovl_view_t *view);

#endif
