/* SPDX-License-Identifier: MIT */
/* Random pipelines in which most lanes keep an order. */
#ifndef OVL_TESTS_FIXED_SHAPE_H
#define OVL_TESTS_FIXED_SHAPE_H

#include "proof/pair.h"
#include "support/random.h"

/* Never has a cycle. */
void fixed_shape_random(pair_shape_t *shape, random_source_t *random);

#endif
