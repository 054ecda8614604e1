/* SPDX-License-Identifier: MIT */
/* Keeps the first fault's text and counts the rest. */
#include "support/faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "support/cmocka_all.h"

static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t mutex; /* protects the two below */
static char first[512];
static unsigned long count;

static void make_mutex(void) { uv_mutex_init(&mutex); }

void note_fault(const char *format, ...) {
  uv_once(&once, make_mutex);
  va_list arguments;
  va_start(arguments, format);
  uv_mutex_lock(&mutex);
  if (count++ == 0)
    vsnprintf(first, sizeof first, format, arguments);
  uv_mutex_unlock(&mutex);
  va_end(arguments);
}

void assert_no_faults(const char *where) {
  char text[sizeof first];
  uv_once(&once, make_mutex);
  uv_mutex_lock(&mutex);
  unsigned long found = count;
  memcpy(text, first, sizeof text);
  count = 0;
  uv_mutex_unlock(&mutex);
  if (found > 0)
    fail_msg("%s: %s (%lu faults in all)", where, text, found);
}
