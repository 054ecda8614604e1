/* SPDX-License-Identifier: MIT */
/* What is wrong is noted on any thread, inside any callback, and asserted on the test's own thread, since
 * cmocka's assertions jump out of whatever they are called in. */
#ifndef TEST_SUPPORT_FAULTS_H
#define TEST_SUPPORT_FAULTS_H

/* Notes a fault; the first is kept in words. Any thread. */
void note_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes a fault unless `condition` holds. */
#define expect(condition, ...) \
  do {                         \
    if (!(condition))          \
      note_fault(__VA_ARGS__); \
  } while (0)

/* The test's thread: fails the test if a fault was noted, and forgets it. `where` says during what. */
void assert_no_faults(const char *where);

#endif
