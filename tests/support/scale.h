/* SPDX-License-Identifier: MIT */
/* How much a test does: the full counts in a plain build, fewer where every event is followed by a walk over
 * the whole state (OVL_CHECK) or every memory access is watched. */
#ifndef TEST_SUPPORT_SCALE_H
#define TEST_SUPPORT_SCALE_H

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#ifdef OVL_CHECK
#define TEST_CHECKED 1
#else
#define TEST_CHECKED 0
#endif

/* `full` in a plain build; a fraction of it elsewhere, at least 1. */
static inline uint64_t test_count(uint64_t full) {
  uint64_t count = full / (TEST_SANITIZED ? 20u : 1u) / (TEST_CHECKED ? 10u : 1u);
  return count > 0 ? count : 1;
}

#endif
