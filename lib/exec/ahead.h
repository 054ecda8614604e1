/* SPDX-License-Identifier: MIT */
/* Going ahead: how the runners of a chain hand over to each other without the lock.
 *
 * Where the lock and what it protects have to come from another processor's cache, two brief ops are far apart. In a
 * chain there is a shorter way: op i of a stage may begin when the stage before it has ended i, and of the first stage,
 * when the last one has ended i - window. So lanes can be *open*: a runner takes one that is vacant and has such an op,
 * runs op after op of it, always the one that has been ready longest, notes when each began and ended, and looks for
 * another lane when it has to wait. Whoever takes the lock *catches up* first: it tells the core what has been noted, in
 * the order of the times. So the core decides nothing else than it would have, and nobody who has the lock knows less. An
 * open lane is held: nothing begins on it in any other way.
 *
 * Meanwhile the core may be late by some microbatches, for which there are more rows of ops than the window needs;
 * ovl_executor_t.ahead_allowed says up to which one there are. One of the runners is the *keeper*: now and then it
 * catches up, so that the others need not, and what the core touches stays with one processor. Who has to wait anyway takes
 * that over, so that it is not left to the one for which all wait.
 *
 * All can be *called back* at any time: each step of a runner goes through the lane's `meeting`, so it has either been
 * taken, and then the runner is about to note it, or it never will be. That is done before anything fails, so nothing
 * begins after that; and where somebody may have to be called or told when an op ends, which who goes ahead does not do.
 * Nor does it when its own op fails or is pending: it comes back, and that op is reported under the lock, as always. */
#ifndef OVL_EXEC_AHEAD_H
#define OVL_EXEC_AHEAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define OVL_AHEAD_OFTEN 16u /* after how many ops the keeper tells the core */

/* ovl_ahead_lane_t.meeting */
#define OVL_MEETING_OPEN UINT64_C(1)
#define OVL_MEETING_TAKEN UINT64_C(2)
#define OVL_MEETING_STEP UINT64_C(4)

typedef struct ovl_ahead_note {
  uint64_t began, ended;
  uint32_t op;     /* where it is among the core's ops */
  uint32_t thread; /* that called it */
} ovl_ahead_note_t;

typedef struct ovl_ahead_stage {
  /* Constant, but for the last two: of who looks whether an op may begin. Nobody else reads this line, so to write to it
   * does not take long; on that of `ended` the next load would wait for the store before it. */
  _Alignas(OVL_LINE) const struct ovl_ahead_stage *source; /* whose ops these wait for */
  uint64_t lead;                                           /* op i waits for op i - lead there */
  atomic_uint_least64_t *ended_at;                         /* by row; NULL: nobody asks */
  uint32_t number;
  atomic_uint_least64_t seen;  /* of the source's ops, at least so many have ended */
  atomic_uint_least64_t begun; /* of its own */

  /* A count of ops, as `begun`. Written by who has taken the lane, or under the lock while it is not open. Others begin
   * what waits for an op once it is in here, and the core is told of it by this count, too: it may be told of whatever
   * somebody has built on. */
  _Alignas(OVL_LINE) atomic_uint_least64_t ended;
} ovl_ahead_stage_t;

/* One without stages is never open. */
typedef struct ovl_ahead_lane {
  /* Constant. */
  ovl_ahead_note_t *notes; /* of its ops in the order in which they began: a ring, of 2^k */
  uint64_t note_mask;      /* 2^k - 1 */
  const uint32_t *stages;  /* those on it */
  uint32_t stage_count;

  /* Steps so far, whether a runner has taken the lane, and whether another step may be taken. To open it is one, too. */
  _Alignas(OVL_LINE) atomic_uint_least64_t meeting;

  /* Written as those of stages. Counts: of ops, and of steps that are noted. */
  _Alignas(OVL_LINE) atomic_uint_least64_t begun;
  atomic_uint_least64_t noted;

  /* Under the lock: what the core knows of, and what was to be seen when somebody last looked. */
  _Alignas(OVL_LINE) bool open;
  uint64_t known_begun, known_ended;
  uint64_t seen_begun, seen_ended;
} ovl_ahead_lane_t;

/* A runner that goes ahead, for itself alone. */
typedef struct ovl_trip {
  ovl_ahead_lane_t *on;     /* the lane that it has taken, or had taken before; NULL: it does not go ahead */
  bool stuck;               /* some op could begin if the core knew more */
  uint32_t thread;          /* its */
  uint32_t told;            /* how many ops it has begun since it last caught up */
  uint64_t kept;            /* how many ops had ended that the core knew of then */
  uint64_t meeting;         /* as it has left it */
  uint64_t count;           /* of the run */
  uint64_t allowed;         /* when it last looked */
  uint64_t number;          /* of its op, on the lane, */
  ovl_ahead_stage_t *stage; /*   whose these are */
  uint64_t microbatch;
} ovl_trip_t;

/* Counts that are read for more than their value are read with memory_order_acquire. */
static inline uint64_t ovl_count_get(const atomic_uint_least64_t *count) {
  return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void ovl_count_set(atomic_uint_least64_t *count, uint64_t value) {
  atomic_store_explicit(count, value, memory_order_release);
}

/* The stage's op of the microbatch has ended: when, for those who ask, and that it has. */
static inline void ovl_ahead_stage_ended(ovl_ahead_stage_t *s, uint64_t microbatch, uint32_t rows,
                                         uint64_t now) {
  if (s->ended_at != NULL)
    atomic_store_explicit(&s->ended_at[microbatch % rows], now, memory_order_relaxed);
  ovl_count_set(&s->ended, microbatch + 1);
}

/* Of the lane's op of that number, from 0, in the order in which they began. */
static inline ovl_ahead_note_t *ovl_ahead_note_at(const ovl_ahead_lane_t *a, uint64_t number) {
  return &a->notes[number & a->note_mask];
}

#endif
