/* SPDX-License-Identifier: MIT */
/* Whether more runners than processors would be of any use.
 *
 * Lanes whose ops wait need a thread each, whatever processors there are. Lanes whose ops compute do not: on fewer
 * processors their threads only take turns, and one that is put aside in the midst of an op holds its lane up. So every
 * now and then a runner looks whether its thread waited for anything during an op. While none of the last did, and they
 * were brief, no more runners are busy than there are processors; one more stands by, and lifts that if an op takes long
 * after all: it may wait for what another op of this run, or of another process, has to do. */
#ifndef OVL_EXEC_CROWD_H
#define OVL_EXEC_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define OVL_CROWD_BRIEF_NS UINT64_C(1000000)    /* an op that takes longer is not brief */
#define OVL_CROWD_STAND_BY_NS UINT64_C(2000000) /* how often who stands by looks */

typedef struct ovl_crowd {
  uint32_t processors;   /* 0: not known */
  uint32_t computed;     /* ops that were looked at since one that waited or was not brief */
  uint64_t lifted_until; /* time */
  bool stands_by;        /* somebody does */
} ovl_crowd_t;

void ovl_crowd_reset(ovl_crowd_t *crowd);

/* How often this thread has waited; 0 where the system does not say, and then they all count as waiting. */
uint64_t ovl_crowd_waits(void);

/* An op was looked at: it took so long, and `before` and `after` it the thread had waited so often. */
void ovl_crowd_note(ovl_crowd_t *crowd, uint64_t took, uint64_t before, uint64_t after);

/* An op turned out to take long: for a while all are welcome. */
void ovl_crowd_lift(ovl_crowd_t *crowd, uint64_t now);

/* Are so many busy runners enough? */
bool ovl_crowd_is_full(const ovl_crowd_t *crowd, uint32_t busy, uint64_t now);

#endif
