/* SPDX-License-Identifier: MIT */
/* Threads, and what is around each call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda_stand_in/machine.h"

machine_t machine;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t epoch;

void insist_that(bool holds, const char *words) {
  if (holds)
    return;
  (void)fprintf(stderr, "the stand-in for CUDA is used wrongly or too small: %s\n", words);
  abort();
}

uint64_t next_random(void) {
  machine.random = machine.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return machine.random >> 33;
}

uint64_t mix(uint64_t sum, uint64_t number) {
  sum = (sum ^ number) * UINT64_C(0x9e3779b97f4a7c15);
  return sum ^ sum >> 29;
}

/* ---- threads and calls ------------------------------------------------------------------------------------------- */

thread_state_t *this_thread(void) {
  static _Thread_local thread_state_t state;
  if (state.epoch != epoch)
    state = (thread_state_t){.epoch = epoch};
  return &state;
}

cudaError_t health(int device) { return (cudaError_t)machine.broken[device]; }

void machine_lock(void) { pthread_mutex_lock(&mutex); }

void machine_unlock(void) { pthread_mutex_unlock(&mutex); }

/* A host function runs where the mutex is held. */
cudaError_t call_begin(void) {
  if (this_thread()->inside) {
    machine.calls_inside++;
    return cudaErrorNotPermitted;
  }
  machine_lock();
  machine.contexts[this_thread()->device] = true;
  for (uint64_t steps = next_random() % 4; !machine.held_back && steps > 0 && run_some(); steps--) {
  }
  return health(this_thread()->device);
}

cudaError_t call_end(cudaError_t code) {
  if (this_thread()->inside)
    return code;
  if (code != cudaSuccess)
    this_thread()->last_error = code;
  machine_unlock();
  return code;
}

void stand_in_reset(uint64_t seed) {
  memset(&machine, 0, sizeof machine);
  machine.random = seed;
  machine.queue = NODES;
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    machine.legacy[d] = (struct CUstream_st){.place = {.device = d, .stream = STREAMS}, .made = true};
  epoch++;
}

void stand_in_finish(void) {
  machine_lock();
  while (run_some()) {
  }
  machine_unlock();
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* Also while other threads call. */
void stand_in_hold(int hold) {
  machine_lock();
  machine.held_back = hold != 0;
  machine_unlock();
}

void stand_in_set_in_time(void) { machine.held_back = machine.in_time = true; }

void stand_in_set_queue(uint32_t capacity) { machine.queue = capacity; }

void stand_in_set_connections(uint32_t queues) {
  insist(queues <= STREAMS);
  machine.connections = queues;
}

void stand_in_set_room(uint32_t units) {
  insist(units <= UNITS);
  machine.room = units;
}

void stand_in_set_host(int host) { this_thread()->host = host; }

/* ---- looking ----------------------------------------------------------------------------------------------------- */

uint64_t stand_in_time(void) { return machine.time; }
uint32_t stand_in_races(void) { return machine.races; }
uint32_t stand_in_mismatches(void) { return machine.mismatches; }
uint32_t stand_in_held(void) { return machine.held; }
uint32_t stand_in_waits_of_host(void) { return machine.waits_of_host; }
uint32_t stand_in_calls_inside(void) { return machine.calls_inside; }
int stand_in_has_context(int device) { return machine.contexts[device]; }

/* The same. */
uint32_t stand_in_works(void) {
  machine_lock();
  uint32_t works = machine.work_count;
  machine_unlock();
  return works;
}

int stand_in_priority(cudaStream_t stream) { return stream->place.priority; }
unsigned stand_in_event_flags(cudaEvent_t event) { return event->flags; }

uint64_t stand_in_memory(void) {
  uint64_t sum = 0;
  for (int c = 0; c < STAND_IN_CELLS; c++)
    sum = mix(sum, machine.cells[c]);
  return sum;
}

uint64_t stand_in_cell(int cell) { return machine.cells[cell]; }

void stand_in_clear_memory(void) { memset(machine.cells, 0, sizeof machine.cells); }
