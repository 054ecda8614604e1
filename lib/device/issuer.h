/* SPDX-License-Identifier: MIT */
/* What the executor calls for the stages of an issue plan (plan/issue.h): the user's stages on device lanes put their work on
 * the streams, their watches wait for it by asking events. */
#ifndef OVL_DEVICE_ISSUER_H
#define OVL_DEVICE_ISSUER_H

#include <stdatomic.h>
#include <uv.h>

#include "device/times.h"
#include "device/tracks.h"
#include "plan/issue.h"

/* What a callback of a device stage is given. */
typedef struct ovl_issuer_stage {
  struct ovl_issuer *issuer;
  uint32_t stage; /* the user's */
  bool always;
  ovl_op_cb run;
  void *data;
  atomic_ullong
      skipped; /* in this run: ops whose callback was left out, because their microbatch had failed */
} ovl_issuer_stage_t;

/* A watch in flight: in the queue of its lane, in the order of the stream. */
typedef struct ovl_watch {
  ovl_op_t *op;
  const ovl_mark_t *mark; /* stays as it is until the watch has ended */
  struct ovl_watch *before, *after;
} ovl_watch_t;

/* A stream does one thing after another: so only the first is asked for, and of those with a deadline only the first's counts. */
typedef struct ovl_watch_queue {
  ovl_watch_t *first, *last;
  ovl_watch_t *counted; /* whose deadline counts; NULL: there is none */
  bool deadlines;       /* a stage of the lane has one */
} ovl_watch_queue_t;

typedef struct ovl_issuer {
  const ovl_issue_t *issue;
  const ovl_plan_t *plan; /* the user's */
  ovl_memory_t memory;
  const ovl_track_lane_t *lanes; /* the user's */
  ovl_tracks_t *tracks;          /* by sync domain; each used by one thread at a time */
  ovl_issuer_stage_t *stages;    /* by the user's stage */
  uint32_t ahead;
  uint64_t abandon_ns;                         /* see ovl_pipeline_options_t */
  bool (*is_stopped)(const ovl_pipeline_t *p); /* has the run been? */
  void (*tell)(ovl_op_t *op, uint32_t stage, uint64_t start,
               uint64_t end);                     /* of a watch: when the op of the user's stage ran */
  void (*count_deadline)(ovl_op_t *op, bool now); /* of a watch with one: from now on; else not yet */
  uint64_t stopped_at;                            /* seen by the poll hook, which alone uses it; 0: not yet */
  atomic_bool abandoned;                          /* some work has been given up */

  bool timed;
  ovl_times_t times; /* if so, see ovl_issuer_times */

  ovl_watch_t *watches;      /* [watch][microbatch mod ahead] */
  ovl_watch_queue_t *queues; /* by the user's lane */
  uv_mutex_t mutex;          /* of the queues and times: watches begin while others are asked for */
  bool mutex_made;
} ovl_issuer_t;

/* 0, OVL_ENOMEM, OVL_ETOOBIG, or what an entry of a device returned. All given must outlive it. The callbacks and data of its
 * stages are for the caller to fill in. On error nothing is held. */
int ovl_issuer_init(ovl_issuer_t *issuer, const ovl_issue_t *issue, const ovl_plan_t *plan,
                    const ovl_track_lane_t *lanes, bool timed, const ovl_memory_t *memory);
void ovl_issuer_finish(ovl_issuer_t *issuer);

/* For a run that is about to start, and whose streams wait for the event `after` first (NULL: for none): 0, OVL_ECAPTURE when the stream of *lane is capturing, or as init: the first run makes the
 * events. */
int ovl_issuer_begin(ovl_issuer_t *issuer, ovl_mode_t mode, void *after, uint32_t *lane);

/* Calls `look` with what the device has said so far of when ops ran; over: nothing more comes in this run. Any thread. */
void ovl_issuer_times(ovl_issuer_t *issuer, bool over, void (*look)(const ovl_times_t *times, void *data),
                      void *data);

/* Ops of the user's stage that were skipped in this run. Any thread. */
uint64_t ovl_issuer_skipped(const ovl_issuer_t *issuer, uint32_t stage);

/* The callbacks. data: the ovl_issuer_stage_t of the user's stage; for poll the issuer. */
int ovl_issuer_put(ovl_op_t *op);
int ovl_issuer_watch(ovl_op_t *op);
void ovl_issuer_poll(ovl_pipeline_t *p, ovl_lane_t lane, void *data);

#endif
