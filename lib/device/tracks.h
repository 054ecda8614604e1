/* SPDX-License-Identifier: MIT */
/* Tracks: what has been put on which stream, and what has to wait for what there. Whoever issues a pipeline's device
 * ops, in one order, calls these around each callback:
 *
 *   begin(streams, origin)      the streams of this call, and which of the two sets of events
 *   before(op)                  the op's stream waits for what the op waits for
 *   ... the callback puts its work on the stream ...
 *   after(op)                   an event behind it, if an op on another lane will wait for it
 *   join()                      the origin waits for all streams
 *
 * A run (begin_run) has no origin and nothing to join: the host sees it end. Its tracks may be those of one sync domain of
 * several; what the host waits for, the streams need not.
 *
 * A wait that an earlier wait of the same stream implies is left out. No threads, no clock; the device's entries are
 * called on the caller's thread. */
#ifndef OVL_DEVICE_TRACKS_H
#define OVL_DEVICE_TRACKS_H

#include "ovl/device.h"
#include "plan/issue.h"

/* What a lane was given, and may be given anew for a call. */
typedef struct ovl_track_lane {
  const ovl_device_t *device;
  void *stream;
} ovl_track_lane_t;

typedef struct ovl_track_options {
  const ovl_track_lane_t *lanes; /* by lane */
  const uint32_t *domains;       /* by lane; NULL: all lanes are of the domain */
  uint32_t domain;               /* whose tracks these are */
  const uint32_t *watches;       /* by stage: not OVL_NO_WATCH: the host asks for its events; NULL: none */
  uint32_t ahead;                /* microbatches issued and not known to be done; 0: the host never knows */
  bool timed;                    /* a run's ops are put between timing events */
} ovl_track_options_t;

typedef struct ovl_track {
  const ovl_device_t *device; /* NULL: a lane of another domain */
  void *stream;
  uint64_t issued;    /* ops, in this call */
  uint64_t marked;    /* `issued` when an event was last recorded behind it */
  void *marked_event; /* that event */
  uint64_t *waited;   /* by lane: how many of its ops this stream already waits for */
  bool forked;        /* waits for the origin */
  void *base;         /* timed: the event that times of its device count from */
} ovl_track_t;

/* Where an op ended on its lane's stream. */
typedef struct ovl_mark {
  uint64_t name; /* 1 more than its microbatch; 0: none was issued */
  uint64_t position;
  void *event;
  void *start; /* before what it put down, if that is timed */
} ovl_mark_t;

enum { OVL_EAGER, OVL_CAPTURED, OVL_EVENT_SETS };

typedef struct ovl_tracks {
  const ovl_plan_t *plan;
  const ovl_graph_t *graph; /* of the call, as all that follows */
  ovl_memory_t memory;
  ovl_track_t *lanes;
  uint64_t *waited;         /* of all lanes */
  bool *recorded;           /* by stage: an op on another lane may wait for its ops, in some mode */
  bool *source;             /* by stage, for the call's graph: waits for nothing of its own microbatch */
  bool *sink;               /* and nothing of its own microbatch waits for it */
  uint32_t ring;            /* events of a stage: its microbatch mod this */
  ovl_mark_t *marks;        /* [stage][ring] */
  const ovl_mark_t **noted; /* by lane: what the next op is to wait for there */
  uint32_t *noted_lanes, noted_count;
  void **events[OVL_EVENT_SETS]; /* [stage][ring]; NULL for stages that are not recorded */
  void **tails[OVL_EVENT_SETS];  /* by lane */
  void **starts;                 /* [stage][ring], if ops are timed; else NULL */
  void *start;                   /* of the op that is being issued, or NULL */
  void *fork[OVL_EVENT_SETS];    /* on the origin, before all */
  void *end;                     /* on the origin, behind the eager call before */
  bool ended;                    /* there was one */
  bool lost;                     /* in this call something was put down that has no event behind it */
  void *after;                   /* of a run: what all comes after, or NULL */
  bool origins;                  /* calls have one */
  int set;
  void *origin;                /* of the first lane's device, as the forks */
  const ovl_device_t *current; /* that this thread has entered last */
} ovl_tracks_t;

/* Makes all events. 0, OVL_ENOMEM, OVL_ETOOBIG, or what an entry returned. The plan must outlive it. On error nothing is
 * held. */
int ovl_tracks_init(ovl_tracks_t *tracks, const ovl_plan_t *plan, const ovl_track_options_t *options,
                    const ovl_memory_t *memory);

/* leave_events: does not destroy them, for the device may still come to them. */
void ovl_tracks_finish(ovl_tracks_t *tracks, bool leave_events);

/* All return 0 or what an entry returned. */
int ovl_tracks_begin(ovl_tracks_t *tracks, ovl_mode_t mode, int set, const ovl_track_lane_t *lanes,
                     void *origin);
int ovl_tracks_before(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch);
int ovl_tracks_after(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch);
int ovl_tracks_join(ovl_tracks_t *tracks);

/* All comes after the event `after`; NULL: after none. */
int ovl_tracks_begin_run(ovl_tracks_t *tracks, ovl_mode_t mode, const ovl_track_lane_t *lanes, void *after);

/* Between before and after: the op is not skipped, so it is timed if that is wanted. */
int ovl_tracks_start(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch);

/* Behind the last eager call; NULL: there was none. */
void *ovl_tracks_end(const ovl_tracks_t *tracks);

/* Behind what the last eager call put down for the last microbatch of the slot, or something later. NULL: there was none. */
void *ovl_tracks_slot(const ovl_tracks_t *tracks, uint32_t slot);

/* Where an op ended that has been issued in this run and is not known to be done; it stays as it is until that is known. NULL:
 * nothing could be put down. */
const ovl_mark_t *ovl_tracks_mark(const ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch);

/* When an op that is done and has a start began and ended, in nanoseconds since the run began. Any thread. */
int ovl_tracks_times(const ovl_tracks_t *tracks, uint32_t lane, const ovl_mark_t *mark, uint64_t *start,
                     uint64_t *end);

/* ---- for tracks.c and events.c --------------------------------------------------------------------------------- */

/* Enters the device, if another one was entered last. */
int ovl_tracks_use(ovl_tracks_t *tracks, const ovl_device_t *device);

static inline uint32_t ovl_track_lane_of(const ovl_plan_t *plan, uint32_t stage) {
  return plan->stages[stage].lane;
}

/* In marks and events. */
static inline size_t ovl_track_place(const ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch) {
  return (size_t)stage * tracks->ring + (size_t)(microbatch % tracks->ring);
}

static inline bool ovl_track_is_mine(const ovl_tracks_t *tracks, uint32_t stage) {
  return tracks->lanes[ovl_track_lane_of(tracks->plan, stage)].device != NULL;
}

/* Of a device that comes again in a later lane: its first lane. */
static inline uint32_t ovl_track_first_lane(const ovl_tracks_t *tracks, uint32_t lane) {
  uint32_t first = 0;
  while (tracks->lanes[first].device != tracks->lanes[lane].device)
    first++;
  return first;
}

#endif
