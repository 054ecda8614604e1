/* SPDX-License-Identifier: MIT */
/* A run in words: what bounds it, and what to change; who waits for whom. For people to read; the wording is no part
 * of the interface, only the names that lines begin with. */
#ifndef OVL_EXPLAIN_H
#define OVL_EXPLAIN_H

#include "ovl/types.h"

OVL_BEGIN_DECLS

/* Writes what bounded the last run, or bounds the one in flight so far, into `buffer` as lines that end with '\n',
 * and a 0 after them; what does not fit into `bytes` is cut off, and the text ends with "...\n" then. `bytes` may be
 * 0, and buffer NULL. The first line tells the run, then comes one for each lane: how much of its time it was busy
 * and why it was idle (ovl_lane_stats_t). After them a line for each finding, with the figures behind it:
 *   compute-bound, comm-bound, lane-bound   the lane that works most works nearly all of the time
 *   pool-starved                            operations found no thread in the pool for a tenth of the time
 *   dependency-bound, window-bound, input-bound, order-bound, dispatch-bound, few microbatches
 *                                           why that lane is idle, if it is so for a tenth of the time
 *   blocked loop                            a callback of a loop lane took so long that the loop stood still
 *   contention                              a stage took longer than in the last serial run of this pipeline
 *   serial                                  overlap was not asked for
 *   what if                                 what a larger window, a wider lane or overlap would bring, by simulation
 *                                           of the durations that were measured. Not while a run is in flight (it
 *                                           takes memory), and not with fixed lanes of several stages.
 * With no_stats there is the first line alone; with device lanes whose devices do not tell how long they work (see
 * device_timing) there are the lanes, and no findings. Takes the time of a simulation of 1000 microbatches.
 * Any thread, before close.
 * Returns the length of the whole text without the 0, as snprintf does.
 * Errors: OVL_EINVAL p is NULL, or buffer is NULL and bytes is not 0. */
OVL_EXTERN int ovl_pipeline_explain(const ovl_pipeline_t *p, char *buffer, size_t bytes);

/* Writes who waits for whom at this moment in the run in flight, into `buffer` as above: for each lane how many of its
 * places are busy and why the others are idle; its operations that run, since when, and whether in their callback or
 * waiting for ovl_op_complete; those that are ready; those that wait, and for which stage of which microbatch; then
 * the slots and their microbatches. Of each kind at most eight are listed, and the number of others is told.
 * For a run that seems to stand still: writing takes a while, in which no op of p can start or end.
 * Any thread, before close, in callbacks too.
 * Returns the length of the whole text without the 0, as snprintf does.
 * Errors: OVL_EINVAL p is NULL, or buffer is NULL and bytes is not 0. */
OVL_EXTERN int ovl_pipeline_dump(const ovl_pipeline_t *p, char *buffer, size_t bytes);

OVL_END_DECLS

#endif
