/* SPDX-License-Identifier: MIT */
/* libuv's thread pool as the tests see it. libuv reads UV_THREADPOOL_SIZE once, so it is set at the beginning of
 * main, if at all. */
#ifndef TEST_SUPPORT_POOL_H
#define TEST_SUPPORT_POOL_H

#include <stdlib.h>

/* How many threads the pool has. */
static inline unsigned pool_size(void) {
  const char *text = getenv("UV_THREADPOOL_SIZE");
  unsigned long size = text != NULL ? strtoul(text, NULL, 10) : 4;
  return size == 0 ? 1 : size > 1024 ? 1024 : (unsigned)size;
}

/* A test compiled with TEST_POOL_SIZE has a pool of that size, others the size that the environment says. */
static inline void set_pool_size(void) {
#ifdef TEST_POOL_SIZE
  setenv("UV_THREADPOOL_SIZE", TEST_POOL_SIZE, 1);
#endif
}

#endif
