/* SPDX-License-Identifier: MIT */
/* Every way in which a run can go: from each state every event that a driver may bring is tried, in every order,
 * until no state is new. The core is held against the spec in each of them. */
#ifndef OVL_TESTS_EXPLORE_H
#define OVL_TESTS_EXPLORE_H

#include "proof/pair.h"

/* What may happen on one way, and how often. */
typedef struct explore_limits {
  uint32_t failures; /* ops that fail */
  uint32_t cancels;
  uint32_t expiries; /* ops that fail and run on */
  bool eager;        /* what can start, does at once; else events come in between */
} explore_limits_t;

typedef struct explore_result {
  const char *wrong; /* NULL: nothing */
  char path[1024];   /* the events that led there */
  uint64_t states, events;
} explore_result_t;

typedef struct explorer explorer_t;

explorer_t *explorer_new(void);
void explorer_free(explorer_t *explorer);

/* Explores the runs of one pipeline; one with a cycle must be refused. */
void explore(explorer_t *explorer, const pair_shape_t *shape, const explore_limits_t *limits,
             pair_mutant_t mutant, explore_result_t *result);

#endif
