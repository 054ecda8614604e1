/* SPDX-License-Identifier: MIT */
/* What a run did and how well: statistics of the last run, or a snapshot of the one in flight.
 * All times are nanoseconds. On by default; `no_stats` in ovl_pipeline_options_t leaves only the
 * counts and elapsed_ns. */
#ifndef OVL_STATS_H
#define OVL_STATS_H

#include <string.h>

#include "ovl/types.h"

OVL_BEGIN_DECLS

/* Of a whole run. */
typedef struct ovl_stats {
  size_t size;
  uint64_t microbatches; /* retired, failed ones included; never admitted items are not counted */
  uint64_t failed;       /* of them, those that ended with an error */
  uint64_t ops;          /* operations that ran */
  uint64_t skipped;      /* operations that did not run because their microbatch had failed */
  uint64_t elapsed_ns;   /* start to the end of the last op */
  uint64_t
      work_ns; /* sum of the durations of all ops that are known, taken while they contended: no serial time;
                  UINT64_MAX where it does not fit (in a simulation) */
  double concurrency; /* work_ns / elapsed_ns; 0 when nothing ran */

  /* The executed order without any overhead, by the recurrence
   *   v(op) = max(v of what it depends on, v(retirement of i - window), arrival of i,
   *               v of the op that ran before it on the same one of the lane's `width` places)
   *           + duration,
   * the largest v of all. Each term is no later than it was in the run, so bound_ns <= elapsed_ns. 0 in pipelines with device
   * lanes: when their ops could have run is not known. */
  uint64_t bound_ns;
  double efficiency; /* bound_ns / elapsed_ns; 0 when nothing ran */

  uint64_t hidden_ns; /* time in which a lane of role COMM and one of role COMPUTE both worked */
  uint64_t
      exposed_ns; /* time in which a lane of role COMM worked and none of role COMPUTE; both with device_timing also
                          for device lanes, by their own clock: they neither hide behind host lanes nor hide them */

  uint32_t window;
  uint32_t pool_width;      /* pool operations that may run at once, by the lanes' widths and the window */
  uint32_t pool_peak;       /* most pool threads that worked for this run at one time */
  uint32_t reserved;        /* 0 */
  uint64_t pool_wait_ns;    /* time in which a pool operation could have started and no thread took it */
  uint64_t loop_longest_ns; /* the longest single callback on a lane of kind LOOP */

  /* One sentence when overlap was asked for and not had, naming the cause (a starved thread pool, a
   * loop lane that blocks, window 1); else "". A static string, never NULL. */
  const char *finding;
} ovl_stats_t;

/* Of one lane. At every moment each of its `width` places is busy, or free for exactly one reason, so
 *   busy_ns + idle_fill_ns + ... + idle_tail_ns == width * elapsed_ns
 * to the nanosecond, in every snapshot (but with no_stats, where all of them are 0). Each free place is matched with
 * an op: with one that is ready (runner; or fixed_order, if it is another one's turn); those that are left with one
 * that waits (dependency); the rest has none (window, input or tail). Before its first op, fill stands for
 * dependency and window.
 * Of a device lane `ops` counts what was issued, and how long that took is no part of any time. With device_timing busy_ns is what
 * the device itself took for its ops, without it 0; why the lane was idle is not known, and these times are 0. */
typedef struct ovl_lane_stats {
  size_t size;
  uint64_t ops;
  uint64_t busy_ns; /* sum of its ops' durations; in a snapshot of a run in flight also of those that run */
  uint64_t elapsed_ns; /* of the run */
  uint32_t width;      /* ops at a time: no more than the window and the lane's stages have use for */
  uint32_t peak;       /* most ops that ran on it at one time */

  uint64_t idle_fill_ns;       /* none of its ops had become ready yet: nothing had reached it */
  uint64_t idle_dependency_ns; /* ops of microbatches in flight waited for what they depend on */
  uint64_t
      idle_window_ns; /* no op was left in the microbatches in flight; more are to come, and wait for a slot
                                   (in OVL_SERIAL there is one) */
  uint64_t idle_input_ns;       /* streaming: no op was left, and no item was there */
  uint64_t idle_fixed_order_ns; /* ops were ready, but not the one whose turn it is */
  uint64_t
      idle_runner_ns; /* an op could have started and no thread (or the loop) had taken it yet: the time that
                                   it takes to wake one, to get a pool thread, to come back to the loop; and from the
                                   end of an op until the scheduler had heard of it */
  uint64_t idle_tail_ns; /* nothing more comes for it in this run */

  /* Of idle_dependency_ns, which wait was the longest in sum: until an op of stage `waiting`, on this lane, became
   * ready because one of stage `awaited` had ended. Ids 0: it never waited so. A wait that goes on, or that ended
   * with the admission of another microbatch, counts for none; what waits for an op that is skipped, for the next. */
  ovl_stage_t waiting;
  ovl_stage_t awaited;
  uint64_t awaited_ns; /* for how long */

  uint64_t
      timed_ops; /* how many of `ops` have ended with a known duration: all, but on device lanes only with device_timing */
} ovl_lane_stats_t;

/* Of one stage. */
typedef struct ovl_stage_stats {
  size_t size;
  uint64_t ops;
  uint64_t failed;
  uint64_t skipped;
  uint64_t total_ns;
  uint64_t min_ns; /* 0 when no op ran */
  uint64_t max_ns;
  double mean_ns;

  /* How long its ops were ready before they started, of the `ops` that have ended. */
  uint64_t delay_total_ns;
  uint64_t delay_max_ns;
  double delay_mean_ns;

  uint64_t timed_ops; /* as for the lane: total, min, max and mean are theirs */
} ovl_stage_stats_t;

static inline void ovl_stats_init(ovl_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->size = sizeof *stats;
}

static inline void ovl_lane_stats_init(ovl_lane_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->size = sizeof *stats;
}

static inline void ovl_stage_stats_init(ovl_stage_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->size = sizeof *stats;
}

/* Each fills what the caller's struct has room for, by its `size`; nothing beyond it is written.
 * Before the first run all figures are 0. Any thread, before close. While a run is in flight its clock is
 * still being calibrated, so the times of two snapshots may differ by some parts in a million: what did not
 * change between them may be a little less in the second.
 * Errors: OVL_EINVAL an argument is NULL; OVL_ESTRUCTSIZE; OVL_ENOLANE; OVL_ENOSTAGE. */
OVL_EXTERN int ovl_pipeline_stats(const ovl_pipeline_t *p, ovl_stats_t *stats);
OVL_EXTERN int ovl_pipeline_lane_stats(const ovl_pipeline_t *p, ovl_lane_t lane, ovl_lane_stats_t *stats);
OVL_EXTERN int ovl_pipeline_stage_stats(const ovl_pipeline_t *p, ovl_stage_t stage, ovl_stage_stats_t *stats);

OVL_END_DECLS

#endif
