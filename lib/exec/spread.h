/* SPDX-License-Identifier: MIT */
/* Keeps the busy runners of a process on different processors.
 *
 * A thread that is called while the caller's processor is still busy with calling may be put on that of another
 * busy thread, beside an idle one, and stay there until the kernel next balances its load: some ms, in which two
 * lanes take turns on one processor. So runners note where they are, and one that finds another there asks to be
 * moved to a processor that none of them uses. What threads may use (sched_setaffinity, cpusets) is kept. */
#ifndef OVL_EXEC_SPREAD_H
#define OVL_EXEC_SPREAD_H

#include <stdint.h>

/* Where a thread was last seen, 1 more than its number; 0: nowhere. */
typedef struct ovl_spot {
  uint32_t processor;
} ovl_spot_t;

/* The thread is busy, as it begins and every now and then; and not busy any more. No lock held: it may take some
 * ten us where threads have to part. Nothing where the system cannot say on which processor a thread is. */
void ovl_spread_busy(ovl_spot_t *spot);
void ovl_spread_idle(ovl_spot_t *spot);

#endif
