/* SPDX-License-Identifier: MIT */
/* Going ahead: how the runners of a chain hand over to each other without the lock.
 *
 * Where the lock and what it protects have to come from another processor's cache, two brief ops are far apart. In a
 * chain, each of its stages on a lane of its own, there is a shorter way: op i of a lane may begin when the lane before
 * it has ended i, and on the first lane, when the last one has ended i - window. So lanes can be *open*: a runner takes
 * one that is vacant and whose count says that an op may begin, runs op after op of it, notes when each began and ended,
 * and looks for another lane when it has to wait. Whoever takes the lock *catches up* first: it tells the core what has
 * been noted, in the order of the times. So the core decides nothing else than it would have, and nobody who has the
 * lock knows less. An open lane is held: nothing begins on it in any other way.
 *
 * Meanwhile the core may be late by some microbatches, for which there are more rows of ops than the window needs;
 * ovl_executor_t.ahead_allowed says up to which one ops are set up. One of the runners is the *keeper*: now and then it
 * catches up, so that the others need not, and what the core touches stays with one processor.
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

typedef struct ovl_ahead_note {
  uint64_t began, ended;
  uint32_t thread;
} ovl_ahead_note_t;

/* Of a lane, and of the one stage on it. */
typedef struct ovl_ahead {
  /* Constant. */
  const struct ovl_ahead *source; /* whose ops these wait for */
  uint64_t lead;                  /* op i waits for op i - lead there */
  ovl_ahead_note_t *notes;        /* by row */
  uint32_t stage, lane;

  /* Steps so far, whether a runner has taken the lane, and whether another step may be taken. To open it is one, too. */
  _Alignas(OVL_LINE) atomic_uint_least64_t meeting;

  /* Written by who has taken it, or under the lock while it is not open. Counts of ops; and of steps that are noted. */
  _Alignas(OVL_LINE) atomic_uint_least64_t ended;
  atomic_uint_least64_t begun, noted;

  /* Under the lock: what the core knows of, and what was to be seen when somebody last looked. */
  _Alignas(OVL_LINE) bool open;
  uint64_t known_begun, known_ended;
  uint64_t seen_begun, seen_ended;
} ovl_ahead_t;

/* A runner that goes ahead, for itself alone. */
typedef struct ovl_trip {
  ovl_ahead_t *on;       /* the lane that it has taken, or had taken before; NULL: it does not go ahead */
  bool keeps;            /* it is the keeper */
  bool stuck;            /* some op could begin if the core knew more */
  uint32_t thread;       /* its */
  uint32_t told;         /* how many ops it has begun since it last caught up */
  uint64_t meeting;      /* as it has left it */
  uint64_t count;        /* of the run */
  uint64_t next;         /* the microbatch that it begins next */
  uint64_t source_ended; /* when it last looked */
  uint64_t allowed;      /* too */
} ovl_trip_t;

#endif
