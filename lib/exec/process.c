/* SPDX-License-Identifier: MIT */
/* The flag of the process, and the flag and the number of each thread. */
#include "exec/process.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

static _Thread_local bool in_callback;
static _Thread_local uint32_t thread_number;
static atomic_uint threads_numbered;
static atomic_bool process_exits;
static uv_once_t watch_once = UV_ONCE_INIT;

/* From watch() on; held while the pool is being used, and while exit() closes it. */
static uv_mutex_t pool_mutex;

/* The process that watches: a forked child has no threads to wait for, and perhaps a mutex that nobody will release. */
static pid_t watching;

static void on_exit_begins(void) {
  bool shared = getpid() == watching;
  if (shared)
    uv_mutex_lock(&pool_mutex);
  atomic_store(&process_exits, true);
  if (shared)
    uv_mutex_unlock(&pool_mutex);
}

bool ovl_process_enter_pool(void) {
  uv_mutex_lock(&pool_mutex);
  if (!atomic_load(&process_exits))
    return true;
  uv_mutex_unlock(&pool_mutex);
  return false;
}

void ovl_process_leave_pool(void) { uv_mutex_unlock(&pool_mutex); }

/* exit() calls its handlers before the destructors of libraries, and libuv's destructor joins its threads. */
static void watch(void) {
  if (uv_mutex_init(&pool_mutex) != 0)
    abort(); /* as libuv does where it cannot set up what all else stands on */
  watching = getpid();
  atexit(on_exit_begins);
}

void ovl_process_watch_exit(void) { uv_once(&watch_once, watch); }

bool ovl_process_exits(void) { return atomic_load_explicit(&process_exits, memory_order_relaxed); }

bool ovl_in_callback(void) { return in_callback; }

uint32_t ovl_thread_number(void) {
  if (thread_number == 0)
    thread_number = atomic_fetch_add(&threads_numbered, 1) + 1;
  return thread_number;
}

bool ovl_callback_enter(void) {
  bool before = in_callback;
  in_callback = true;
  return before;
}

void ovl_callback_leave(bool before) { in_callback = before; }
