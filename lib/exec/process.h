/* SPDX-License-Identifier: MIT */
/* What belongs to the process or the thread and not to a run: is exit() under way, and is this thread inside a
 * callback of the library, and which one is it? */
#ifndef OVL_EXEC_PROCESS_H
#define OVL_EXEC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* exit() has begun: runners leave after the op in hand, for libuv is about to join its threads. */
bool ovl_process_exits(void);

/* Brackets calls that give work to libuv's pool or take it back: libuv's destructor destroys the pool's mutex, and
 * using it afterwards aborts the process. False: exit() has begun, the pool must not be touched, and leave is not
 * called. Between the two exit() waits. Loop thread, after watch_exit, no lock held. */
bool ovl_process_enter_pool(void);
void ovl_process_leave_pool(void);

/* From now on exit() is noticed. Any thread. */
void ovl_process_watch_exit(void);

/* Is this thread inside a callback of libovl? */
bool ovl_in_callback(void);

/* This thread's number, from 1 on in the order in which threads first asked. */
uint32_t ovl_thread_number(void);

/* Brackets code that calls back: leave() wants what enter() returned. */
bool ovl_callback_enter(void);
void ovl_callback_leave(bool before);

#endif
