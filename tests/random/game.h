/* SPDX-License-Identifier: MIT */
/* A game: a core and a model of it are driven at random through a few runs of a random pipeline. */
#ifndef OVL_TESTS_GAME_H
#define OVL_TESTS_GAME_H

#include "random/model.h"

/* A mutant is a core that is made or driven wrongly, to show that the model sees it. */
typedef enum mutant {
  NO_MUTANT,
  /* the core is given another pipeline than the model */
  MUTANT_FORGETS_DEPENDENCIES,
  MUTANT_FORGETS_CHAIN,
  MUTANT_HAS_WIDER_LANES,
  MUTANT_HAS_WIDER_WINDOW,
  MUTANT_HAS_LONGER_QUEUE,
  MUTANT_RUNS_ALWAYS,
  MUTANT_NEVER_RUNS_ALWAYS,
  MUTANT_GOES_ON_AFTER_ERRORS,
  MUTANT_IS_NOT_SERIAL,
  MUTANT_KEEPS_NO_ORDER,
  /* it does something that the model is not told, or something else than it is told */
  MUTANT_DOES_NOT_HOLD,
  MUTANT_KNOWS_NO_TIME,
  MUTANT_PLANS_OTHERWISE,
  MUTANT_LOSES_AN_END,
  MUTANT_LOSES_AN_ERROR,
  MUTANT_LOSES_A_CANCEL,
  MUTANT_RETIRES_IN_SECRET,
  MUTANT_SHORTENS_DURATIONS,
  MUTANTS
} mutant_t;

typedef struct game_result {
  const char *wrong; /* NULL: nothing was */
  uint64_t ops;
  uint64_t steps;
  bool cyclic; /* the pipeline had a cycle and was refused, as it should */
} game_result_t;

/* `compare`: hold the whole state against the model after each step, not only what each event says. */
game_result_t game_play(uint64_t seed, mutant_t mutant, bool compare);

#endif
