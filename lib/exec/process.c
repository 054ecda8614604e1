/* SPDX-License-Identifier: MIT */
/* The one flag of the process and the one of each thread. */
#include "exec/process.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

static _Thread_local bool in_callback;
static atomic_bool process_exits;
static uv_once_t watch_once = UV_ONCE_INIT;

static void on_exit_begins(void) { atomic_store(&process_exits, true); }

/* exit() calls its handlers before the destructors of libraries, and libuv's destructor joins its threads. */
static void watch(void) { atexit(on_exit_begins); }

void ovl_process_watch_exit(void) { uv_once(&watch_once, watch); }

bool ovl_process_exits(void) { return atomic_load_explicit(&process_exits, memory_order_relaxed); }

bool ovl_in_callback(void) { return in_callback; }

bool ovl_callback_enter(void) {
  bool before = in_callback;
  in_callback = true;
  return before;
}

void ovl_callback_leave(bool before) { in_callback = before; }
