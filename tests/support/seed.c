/* SPDX-License-Identifier: MIT */
/* Seeds: taken from the environment or the clock, and said whatever happens. */
#include "support/seed.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t first;
static char words[80]; /* for on_abort, which may not format anything */

uint64_t number_from_environment(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  if (text == NULL || *text == '\0')
    return otherwise;
  char *end;
  errno = 0;
  uint64_t number = strtoull(text, &end, 0);
  if (errno != 0 || *end != '\0') {
    fprintf(stderr, "%s=%s is not a number\n", variable, text);
    exit(1);
  }
  return number;
}

static void on_abort(int signal_number) {
  (void)signal_number;
  if (write(STDERR_FILENO, words, strlen(words)) < 0)
    _exit(1);
}

void seed_init(void) {
  first = number_from_environment("OVL_SEED", (uint64_t)time(NULL) * 1000000);
  signal(SIGABRT, on_abort);
  fprintf(stderr, "random from OVL_SEED=%" PRIu64 " on\n",
          first); /* who ends the process otherwise says none */
}

uint64_t seed_first(void) { return first; }

uint64_t seed_rounds(uint64_t otherwise) { return number_from_environment("OVL_ITERATIONS", otherwise); }

void seed_round(uint64_t seed) {
  snprintf(words, sizeof words, "again with OVL_SEED=%" PRIu64 " OVL_ITERATIONS=1\n", seed);
}

const char *seed_words(void) { return words; }
