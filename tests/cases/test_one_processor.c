/* SPDX-License-Identifier: MIT */
/* Case 11: a single processor, on which whoever waits in a loop keeps everybody else from running: everything
 * completes all the same. [oneTBB 2056] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>

#include "support/graphs.h"
#include "support/scale.h"

#ifdef __linux__
#include "support/cmocka_all.h"
#include <sched.h>

static void case_11_every_graph_completes(void **state) {
  (void)state;
  run_all_graphs(TEST_SANITIZED ? 20 : 100);
}

/* Keeps to the first processor that the process may use; false: cannot. */
static int keep_to_one_processor(void) {
  cpu_set_t allowed, one;
  size_t number = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return 0;
  while (number < CPU_SETSIZE && !CPU_ISSET(number, &allowed))
    number++;
  CPU_ZERO(&one);
  CPU_SET(number, &one);
  return number < CPU_SETSIZE && sched_setaffinity(0, sizeof one, &one) == 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(case_11_every_graph_completes)};
  if (!keep_to_one_processor()) {
    printf("skipped: sched_setaffinity failed\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}

#else

int main(void) {
  printf("skipped: processors are chosen with Linux's sched_setaffinity\n");
  return 77;
}

#endif
