/* SPDX-License-Identifier: MIT */
/* A thread of its own that looks once a second at how much processor time the process has used. */
#include "support/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STALLED_SECONDS 30
#define STALLED_NS 5000000 /* less processor time in a second than this is none */

static _Atomic(const char *) expected;
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void say(const char *text) {
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

static void report(void) {
  say("\nthis test was waiting for: ");
  say(atomic_load(&expected));
  say("\n");
}

static void on_terminate(int number) {
  report();
  signal(number, SIG_DFL);
  raise(number);
}

static int64_t processor_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *watch(void *unused) {
  (void)unused;
  int64_t before = processor_ns();
  for (int stalled = 0; stalled < STALLED_SECONDS;) {
    const struct timespec second = {.tv_sec = 1, .tv_nsec = 0};
    nanosleep(&second, NULL);
    int64_t now = processor_ns();
    stalled = now - before < STALLED_NS ? stalled + 1 : 0;
    before = now;
  }
  report();
  abort();
}

static void start(void) {
  pthread_t thread;
  signal(SIGTERM, on_terminate);
  signal(SIGINT, on_terminate);
  if (pthread_create(&thread, NULL, watch, NULL) == 0)
    pthread_detach(thread);
}

void watchdog_expect(const char *what) {
  atomic_store(&expected, what);
  pthread_once(&started, start);
}
