/* SPDX-License-Identifier: MIT */
/* Random numbers that a seed brings back: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef OVL_TESTS_RANDOM_H
#define OVL_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct random_source {
  uint64_t state;
} random_source_t;

static inline uint64_t random_next(random_source_t *random) {
  uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* 0 .. bound - 1 */
static inline uint32_t random_below(random_source_t *random, uint32_t bound) {
  return (uint32_t)(random_next(random) >> 32) % bound;
}

/* True in `percent` of 100 cases. */
static inline bool random_chance(random_source_t *random, uint32_t percent) {
  return random_below(random, 100) < percent;
}

#endif
