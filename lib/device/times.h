/* SPDX-License-Identifier: MIT */
/* When ops ran, as the device says by timing events: how long by stage, and for how long communication ran beside compute.
 * Nanoseconds since the run began. A lane's ops come in the order of its stream; those of different lanes come in any order,
 * for the host hears of them when it asks, so what is ahead of a lane that has not said more waits here.
 * No threads, no clock. */
#ifndef OVL_DEVICE_TIMES_H
#define OVL_DEVICE_TIMES_H

#include "core/tally.h"
#include "device/tracks.h"

typedef struct ovl_span {
  uint64_t start, end;
} ovl_span_t;

typedef struct ovl_times_lane {
  ovl_span_t *spans;               /* a ring: those that are not accounted for */
  uint32_t capacity, first, count; /* no capacity: no stages, or on the host, so it is never heard of */
  uint32_t clock;                  /* the first lane of its device */
  uint64_t behind;                 /* of such a lane: so much its device's clock is put forward */
  bool inside;                     /* the first one's start is */
  uint64_t until;                  /* all is known up to here */
} ovl_times_lane_t;

typedef struct ovl_times {
  const ovl_plan_t *plan;
  ovl_stage_tally_t *stages; /* of ops that ran: number, durations */
  ovl_times_lane_t *lanes;
  ovl_span_t *spans; /* of all lanes */
  ovl_tally_t roles; /* hidden and exposed time */
} ovl_times_t;

/* 0, OVL_ENOMEM or OVL_ETOOBIG. lanes: the plan's, those without a device are the host's. ahead: how many
 * microbatches the host may be behind. On error nothing is held. */
int ovl_times_init(ovl_times_t *times, const ovl_plan_t *plan, const ovl_track_lane_t *lanes, uint32_t ahead,
                   const ovl_memory_t *memory);
void ovl_times_finish(ovl_times_t *times, const ovl_memory_t *memory);
void ovl_times_reset(ovl_times_t *times);

void ovl_times_add(ovl_times_t *times, uint32_t stage, uint64_t start, uint64_t end);

/* Nothing more comes in this run. */
void ovl_times_flush(ovl_times_t *times);

#endif
