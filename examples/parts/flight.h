/* SPDX-License-Identifier: MIT */
/* A link as a model: what departs on it arrives after a given time, told by one thread of its own.
 * Nobody waits for a flight; whoever sent it goes on, and a function is called when it arrives. */
#ifndef EXAMPLES_PARTS_FLIGHT_H
#define EXAMPLES_PARTS_FLIGHT_H

#include <stdint.h>
#include <uv.h>

/* On the link's thread, without a lock, so it may begin the next flight. */
typedef void (*flight_cb)(void *data);

/* A link with at most one flight at a time, as a lane of width 1 has. */
typedef struct flight {
  uv_thread_t thread;
  uv_mutex_t mutex; /* protects all below */
  uv_cond_t changed;
  flight_cb arrive; /* NULL: nothing is under way */
  void *data;
  uint64_t due_ns;
  int finishing;
} flight_t;

/* 0, or libuv's error; then nothing is held. */
int flight_init(flight_t *flight);

/* Calls arrive(data) after `duration_ns`. Any thread. 0, or OVL_EBUSY while another flight is under way. */
int flight_depart(flight_t *flight, uint64_t duration_ns, flight_cb arrive, void *data);

/* Ends the thread. Nothing may be under way. */
void flight_finish(flight_t *flight);

#endif
