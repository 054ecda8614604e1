/* SPDX-License-Identifier: MIT */
/* How many runners are of any use.
 *
 * Lanes whose ops wait need a thread each, whatever processors there are. Lanes whose ops compute do not: on fewer
 * processors their threads only take turns, and one that is put aside in the midst of an op holds its lane up. So every
 * now and then a runner looks whether its thread waited for anything during an op. While none of the last did, and they
 * were brief, no more runners are busy than there are processors.
 *
 * And ops may be so brief that to hand the lanes' state from one processor to another takes longer than they do: one
 * runner alone gets more done then. Whether it does is tried for a while, and from time to time again.
 *
 * One more stands by meanwhile, and lifts all that if an op takes long after all: it may wait for what another op of this
 * run, or of another process, has to do. No clock, no lock. */
#ifndef OVL_EXEC_CROWD_H
#define OVL_EXEC_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define OVL_CROWD_BRIEF_NS UINT64_C(1000000) /* an op that takes longer is not brief */
#define OVL_CROWD_SPAN_NS UINT64_C(100000)
#define OVL_CROWD_LATELY 4 /* fewer spans say little: a thread may have been put aside in them */
#define OVL_CROWD_STAND_BY_NS UINT64_C(2000000) /* how often who stands by looks */

typedef struct ovl_crowd {
  uint32_t processors;
  uint32_t computed;     /* ops that were looked at since one that waited or was not brief */
  uint64_t lifted_until; /* time */
  bool stands_by;        /* somebody does */

  /* How ops go on, by spans of time. */
  uint64_t since; /* this one began; 0: it begins with the next look */
  uint64_t ops, took;
  bool alone;                           /* one runner is to do all */
  bool trial;                           /* of that, or of the other way */
  uint32_t spans;                       /* since the last trial; in a trial: of it, so far */
  uint32_t patience;                    /* how many until the next */
  uint64_t lately_ns[OVL_CROWD_LATELY]; /* from one op to the next, in the last spans */
  uint64_t usual_ns;                    /* the same, when that was last looked at */
} ovl_crowd_t;

void ovl_crowd_init(ovl_crowd_t *crowd);

/* A run begins: what was learned stays. */
void ovl_crowd_begin(ovl_crowd_t *crowd);

/* How often this thread has waited; 0 where the system does not say, and then they all count as waiting. */
uint64_t ovl_crowd_waits(void);

/* An op was looked at: it took so long, and `before` and `after` it the thread had waited so often. */
void ovl_crowd_note(ovl_crowd_t *crowd, uint64_t took, uint64_t before, uint64_t after);

/* The span that ends with this is judged. */
void ovl_crowd_judge(ovl_crowd_t *crowd, uint64_t now);

/* Each op, at about the time that it ended. */
static inline void ovl_crowd_count(ovl_crowd_t *crowd, uint64_t took, uint64_t now) {
  crowd->ops++;
  crowd->took += took;
  if (now > crowd->since && now - crowd->since >= OVL_CROWD_SPAN_NS)
    ovl_crowd_judge(crowd, now);
}

/* It is known whether ops compute. */
bool ovl_crowd_is_settled(const ovl_crowd_t *crowd);

/* An op turned out to take long: for a while all are welcome. */
void ovl_crowd_lift(ovl_crowd_t *crowd, uint64_t now);

/* Are so many busy runners enough? */
bool ovl_crowd_is_full(const ovl_crowd_t *crowd, uint32_t busy, uint64_t now);

#endif
