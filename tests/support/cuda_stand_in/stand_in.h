/* SPDX-License-Identifier: MIT */
/* A stand-in for CUDA's runtime: the calls that a backend and its tests make, on two devices that do not exist. It
 * knows the rules which CUDA's documentation states, so that code written against CUDA can be shown to break them
 * without a GPU. What passes here has not been run on a GPU, and no time it gives is a measurement.
 *
 * - Works run in virtual time, and in an order that a seed chooses: any that their streams and events allow. Some of
 *   it happens at each call, as if the device went on meanwhile; all of it in stand_in_finish().
 * - A work says which memory cells it reads and writes. Two that meet in a cell and that nothing orders are a race,
 *   found when the later one is launched, whatever the order they then run in. What is in the cells in the end tells
 *   what ran.
 * - Events are snapshots. Waiting for one keeps to what was recorded then; one that was never recorded is done.
 * - Each thread has a current device, a capture mode and a last error. A call makes a context on the current device.
 * - An event is recorded on its own device alone (400), and work launched on that of its stream (400).
 * - The legacy stream waits for all blocking streams of its device, and they for it.
 * - Captures: modes and whom they forbid what (900), invalidation (901), merging two (902), ending elsewhere (903),
 *   forks that did not join (904), dependencies from outside (905), the legacy stream (906), asking for captured
 *   events (907), ending on another thread (908). Where CUDA's documentation does not say so, a wait for an event of
 *   a capture that has ended gives 907, and one in a capture for an event that was never recorded 905.
 * - A work that fails stops its device: all calls that concern it give that error from then on.
 * - A device takes so many works before launching waits for it. */
#ifndef TEST_SUPPORT_STAND_IN_H
#define TEST_SUPPORT_STAND_IN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum { STAND_IN_DEVICES = 2, STAND_IN_CELLS = 64 };

typedef struct stand_in_work {
  uint64_t label;
  uint64_t duration;
  uint64_t reads;  /* cells, a bit each */
  uint64_t writes; /* what is written follows from the label and from what is in the cells that are read */
  int fault;       /* not 0: instead of writing, the device stops with this code */
} stand_in_work_t;

/* Everything anew, on all threads. No handle of the last time may be used any more. */
void stand_in_reset(uint64_t seed);

/* Not 0: nothing runs at calls, only in stand_in_finish() and where a queue is full. */
void stand_in_hold(int hold);

/* How many works a device takes before launching waits. */
void stand_in_set_queue(uint32_t capacity);

/* A kernel launch. */
cudaError_t stand_in_launch(cudaStream_t stream, const stand_in_work_t *work);

/* The host waits until nothing is left to do that can be done. */
void stand_in_finish(void);

/* The end of the last work so far. */
uint64_t stand_in_time(void);

uint32_t stand_in_held(void); /* streams, events, captures and graphs that are left to end */
uint32_t stand_in_works(void);
uint32_t stand_in_races(void);
uint32_t stand_in_waits_of_host(void); /* launches that met a full queue */
int stand_in_has_context(int device);

/* What they were made with. */
int stand_in_priority(cudaStream_t stream);
unsigned stand_in_event_flags(cudaEvent_t event);

/* What is in all cells, as one number; and 0 in each. */
uint64_t stand_in_memory(void);
void stand_in_clear_memory(void);

/* Nodes and edges of a graph, as one number, and how many nodes. */
uint64_t stand_in_graph_shape(cudaGraph_t graph);
uint32_t stand_in_graph_nodes(cudaGraph_t graph);

#endif
