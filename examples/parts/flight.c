/* SPDX-License-Identifier: MIT */
/* One thread sleeps until the flight under way is due, or until there is one.
 * It wakes a little late, as every sleeper does; what is measured is the flight with that. */
#include "parts/flight.h"

#include <stdio.h>
#include <stdlib.h>

#include "ovl.h"

/* With the mutex held, which it gives up for the call. */
static void land(flight_t *flight) {
  flight_cb arrive = flight->arrive;
  void *data = flight->data;
  flight->arrive = NULL;
  uv_mutex_unlock(&flight->mutex);
  arrive(data);
  uv_mutex_lock(&flight->mutex);
}

static void keep_time(void *argument) {
  flight_t *flight = argument;
  uv_mutex_lock(&flight->mutex);
  while (!flight->finishing) {
    uint64_t now_ns = uv_hrtime();
    if (flight->arrive == NULL)
      uv_cond_wait(&flight->changed, &flight->mutex);
    else if (now_ns < flight->due_ns)
      (void)uv_cond_timedwait(&flight->changed, &flight->mutex,
                              flight->due_ns - now_ns); /* the clock tells */
    else
      land(flight);
  }
  uv_mutex_unlock(&flight->mutex);
}

int flight_init(flight_t *flight) {
  *flight = (flight_t){.finishing = 0};
  int status = uv_mutex_init(&flight->mutex);
  if (status != 0)
    return status;
  status = uv_cond_init(&flight->changed);
  if (status == 0) {
    status = uv_thread_create(&flight->thread, keep_time, flight);
    if (status == 0)
      return 0;
    uv_cond_destroy(&flight->changed);
  }
  uv_mutex_destroy(&flight->mutex);
  return status;
}

int flight_depart(flight_t *flight, uint64_t duration_ns, flight_cb arrive, void *data) {
  int status = OVL_EBUSY;
  uv_mutex_lock(&flight->mutex);
  if (flight->arrive == NULL) {
    flight->arrive = arrive;
    flight->data = data;
    flight->due_ns = uv_hrtime() + duration_ns;
    uv_cond_signal(&flight->changed);
    status = 0;
  }
  uv_mutex_unlock(&flight->mutex);
  return status;
}

void flight_finish(flight_t *flight) {
  uv_mutex_lock(&flight->mutex);
  flight->finishing = 1;
  uv_cond_signal(&flight->changed);
  uv_mutex_unlock(&flight->mutex);
  int status = uv_thread_join(&flight->thread);
  if (status != 0) {
    fprintf(stderr, "joining the link's thread: %s\n", uv_strerror(status));
    abort(); /* it still uses what is about to go */
  }
  uv_cond_destroy(&flight->changed);
  uv_mutex_destroy(&flight->mutex);
}
