/* SPDX-License-Identifier: MIT */
/* The order in which a step's buckets are reduced, chosen in virtual time before it is run.
 *
 * Backward finishes the last layer first, and the next step's forward needs the first layer first. So the buckets that
 * would still be waiting when backward ends are better reduced in reverse; how many those are, the simulator tells. */
#ifndef EXAMPLES_DBO_GRADIENTS_ORDER_H
#define EXAMPLES_DBO_GRADIENTS_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "dbo_gradients/training.h"

/* Sets the link's order, for runs of `microbatches` microbatches, to the one with the shortest run by the first training's
 * cost hints, in all of `count` trainings. Where each rank has a process of its own, equal hints give equal orders.
 * *turned becomes the number of buckets at a step's end that are reduced in reverse. 0, or an error after a message. */
int order_choose(training_t *trainings, size_t count, uint64_t microbatches, const char *program,
                 size_t *turned);

#endif
