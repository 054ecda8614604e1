/* SPDX-License-Identifier: MIT */
/* Draws the lanes of a run as rows of text, each microbatch by a digit or letter of its own.
 * Several runs drawn with one timeline_t share one scale, so that their lengths can be compared by eye. */
#ifndef EXAMPLES_TIMELINE_H
#define EXAMPLES_TIMELINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TIMELINE_MIN_WIDTH 40
#define TIMELINE_MAX_WIDTH 400

typedef struct timeline {
  FILE *out;
  size_t columns;    /* for time, without the labels */
  uint64_t total_ns; /* what the columns stand for: the longest of the runs */
  int colour;
  int summed;   /* set when a column had to stand for several microbatches */
  int repeated; /* set when there were more microbatches than symbols */
} timeline_t;

/* One op, in nanoseconds since the start of its run. */
typedef struct timeline_op {
  uint64_t start_ns;
  uint64_t end_ns;
} timeline_op_t;

/* Returns op i of a lane. */
typedef timeline_op_t (*timeline_op_cb)(const void *source, uint64_t i);

typedef struct timeline_lane {
  const char *name;      /* at most 7 characters */
  const char *colour;    /* an SGR code such as "32" */
  timeline_op_cb op;     /* of microbatch i; in order of time, not overlapping */
  const void *source;    /* handed to `op` */
  uint64_t microbatches; /* how many ops there are */
} timeline_lane_t;

/* How wide and whether in colour, from the output and the environment: COLUMNS, else the terminal, else 80
 * characters; colour on a terminal that is not dumb and without NO_COLOR. */
void timeline_init(timeline_t *timeline, FILE *out, uint64_t total_ns);

/* Draws one row:  "  compute |000111 |".
 * An op fills the columns whose centre it covers, and at least one. A column that would have to stand for
 * several microbatches shows instead how much of it was busy, to the nearest quarter: '.', '-', '=' or '#'; in
 * a row where that is frequent all columns do. */
void timeline_draw(timeline_t *timeline, const timeline_lane_t *lane);

/* Draws the scale below the rows, and explains the signs that they used. */
void timeline_draw_scale(const timeline_t *timeline);

#endif
