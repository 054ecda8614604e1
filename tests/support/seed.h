/* SPDX-License-Identifier: MIT */
/* Where a random test begins, and how much of it there is.
 *
 *   OVL_SEED=N        begins at N; without it, somewhere else every time
 *   OVL_ITERATIONS=N  so many rounds
 *
 * Round k of a test has the seed `first + k`, so OVL_SEED=N OVL_ITERATIONS=1 plays round N alone. */
#ifndef OVL_TESTS_SEED_H
#define OVL_TESTS_SEED_H

#include <stdint.h>

/* The number in an environment variable, or `otherwise`; a text that is no number ends the test. */
uint64_t number_from_environment(const char *variable, uint64_t otherwise);

/* Reads both variables. To be called in main. */
void seed_init(void);

uint64_t seed_first(void);
uint64_t seed_rounds(uint64_t otherwise);

/* From now on it is this round that is played: said when the test aborts, and by seed_words(). */
void seed_round(uint64_t seed);

/* "again with OVL_SEED=... OVL_ITERATIONS=1" */
const char *seed_words(void);

#endif
