/* SPDX-License-Identifier: MIT */
/* A device on paper: nothing runs, but what is put on its streams is kept, with what it comes after. An event is what its
 * stream had come to when it was last recorded, as with CUDA: waits that were put down before a new record keep to the old
 * one, and an event that was never recorded is done.
 *
 * Each piece of work knows two things: when it would start and end if all works took as long as they say, and which works
 * it comes after whatever they take. The second is what tests of dependencies ask for: no lucky timing can hide a wait
 * that is missing. And the paper knows what the host has been told: that an event is done, so all that it comes after. */
#ifndef TEST_SUPPORT_PAPER_DEVICE_H
#define TEST_SUPPORT_PAPER_DEVICE_H

#include <stdatomic.h>

#include "ovl.h"

enum { PAPER_STREAMS = 16, PAPER_WORKS = 8192, PAPER_EVENTS = 4096 };

typedef struct paper paper_t;

typedef struct paper_stream {
  paper_t *paper;
  int device; /* which of the two devices it belongs to */
  uint64_t now;
  uint32_t seen[PAPER_STREAMS]; /* by stream: how many of its works all that comes now comes after */
} paper_stream_t;

typedef struct paper_event {
  int device;
  int captured; /* was it recorded under capture? -1: never recorded */
  int timing;
  uint64_t now;
  uint32_t seen[PAPER_STREAMS];
  uint32_t queries; /* since it was recorded */
} paper_event_t;

typedef struct paper_work {
  uint32_t stream, position; /* the position-th work of its stream, from 1 on */
  uint32_t stage;            /* as all below: what put it down */
  uint64_t microbatch;
  uint32_t slot;
  uint64_t start, end;
  uint32_t seen[PAPER_STREAMS]; /* when it starts */
} paper_work_t;

struct paper {
  ovl_device_t devices[2]; /* of one sync domain */
  struct paper_half {
    paper_t *paper;
    int device;
  } halves[2]; /* their contexts */
  paper_stream_t streams[PAPER_STREAMS];
  uint32_t stream_count;
  paper_work_t works[PAPER_WORKS];
  uint32_t work_count;
  paper_event_t events[PAPER_EVENTS];
  uint32_t events_made, events_ended;
  long events_left; /* the n-th event from now cannot be made (error 2), and only that one; -1: all can */
  uint64_t records, waits;
  int capturing;  /* what is_capturing says */
  int invalid;    /* ... and whether it fails */
  int fail_after; /* this many records and waits succeed, the next one returns fail_with; -1: all succeed */
  int fail_with;  /* ... and has no effect */
  int fail_once;  /* and those after it succeed */
  int blind;      /* records and waits are only counted: streams may be any handles */
  uint32_t patience;             /* an event is done when it has been asked for that often after its record */
  atomic_int hold;               /* not 0: none is done */
  uint32_t known[PAPER_STREAMS]; /* by stream: how many of its works the host knows to be done */
  int query_error;               /* what queries return instead of 0 */
  int elapsed_error;             /* what elapsed returns */
  uint32_t timing_events;        /* made with timing */
  uint64_t shape;                /* a hash of all that was put down since it was last set to 0 */
};

void paper_init(paper_t *paper);

/* One from malloc, and its end: all events that were made have been destroyed. */
paper_t *paper_make(void);
void paper_free(paper_t *paper);

/* A stream of one of the two devices. */
void *paper_stream(paper_t *paper, int device);

/* Puts work down on op->stream that takes that long. */
void paper_put(const ovl_op_t *op, uint64_t duration);

/* The work of an op since work number `from`; fails the test if there is none or more than one. */
const paper_work_t *paper_find(const paper_t *paper, uint32_t from, uint32_t stage, uint64_t microbatch);

/* Whatever they take, does `later` come after `earlier`? */
int paper_after(const paper_work_t *later, const paper_work_t *earlier);

/* All works from number `from` on come after all before them. */
void paper_assert_all_after(const paper_t *paper, uint32_t from);

/* Does what comes next on the stream come after all works? */
int paper_joined(const paper_t *paper, const void *stream);

/* Does the host know that the work is done? Any thread. */
int paper_is_known(const paper_t *paper, uint32_t stage, uint64_t microbatch);

/* When the last work since number `from` ends. */
uint64_t paper_end(const paper_t *paper, uint32_t from);

#endif
