/* SPDX-License-Identifier: MIT */
/* A stand-in for CUDA's runtime: the calls that a backend and its tests make, on devices that do not exist. It
 * knows the rules which CUDA's and NCCL's documentation states, so that code written against CUDA can be shown to break
 * them without a GPU. What passes here has not been run on a GPU, and no time it gives is a measurement. README.md lists
 * the rules, and the tests that libovl keeps them.
 *
 * - Works run in virtual time, and in an order that a seed chooses: any that their streams, their events and the
 *   device's limits allow. Some of it happens at each call, as if the device went on meanwhile; all of it in
 *   stand_in_finish(). When nothing can happen and something is left, that is a deadlock, and stand_in_deadlock() says
 *   who waits for whom.
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
 * - A work that fails stops its device: all calls that concern it give that error from then on, and what is on its
 *   streams, host functions too, never happens.
 * - A host function holds its stream up, and may not call CUDA (800).
 * - A device takes so many works before a launch waits for it, and the first launch of a module waits for all that the
 *   device has. It is hosts in virtual time that wait; the calls return.
 * - With a limited number of hardware queues, works and waits begin in the order of issue on each of them.
 * - With limited room a work holds its units while it runs. Of those that are ready the most urgent begins first; what
 *   runs is not put off.
 * - Collectives: see stand_in_communicator(). */
#ifndef TEST_SUPPORT_STAND_IN_H
#define TEST_SUPPORT_STAND_IN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
  STAND_IN_DEVICES = 4,
  STAND_IN_RANKS = STAND_IN_DEVICES,
  STAND_IN_HOSTS = 4,
  STAND_IN_CELLS = 64,
  STAND_IN_FUNCTION_NS = 20, /* a host function takes */
  STAND_IN_REMOTE_ERROR = 6  /* ncclRemoteError */
};

typedef struct stand_in_work {
  uint64_t label;
  uint64_t duration;
  uint64_t reads;  /* cells, a bit each */
  uint64_t writes; /* what is written follows from the label and from what is in the cells that are read */
  int fault;       /* not 0: instead of writing, the device stops with this code */
  uint32_t units;  /* of the device that it holds while it runs */
  uint32_t module; /* its code, 1 to 63; 0: of one that is loaded */
  uint32_t communicator,
      rank;              /* not 0: this rank's part of a collective of that communicator. All ranks write what
                                  follows from the cells that all of them read */
  cudaHostFn_t function; /* not NULL: a host function */
  void *data;
} stand_in_work_t;

/* Everything anew, on all threads. No handle of the last time may be used any more. */
void stand_in_reset(uint64_t seed);

/* ---- limits, after a reset: none ---- */

/* Not 0: nothing runs at calls, only in stand_in_finish(). */
void stand_in_hold(int hold);

/* The same; and all then happens in the order of virtual time, so that times are those of a device that never idles
 * while something can begin. */
void stand_in_set_in_time(void);

/* How many works and waits a device takes before launching waits. That takes no virtual time. */
void stand_in_set_queue(uint32_t capacity);

/* Hardware queues of each device. */
void stand_in_set_connections(uint32_t queues);

/* Units of each device, 16 at most. */
void stand_in_set_room(uint32_t units);

/* ---- works ---- */

/* A kernel launch. */
cudaError_t stand_in_launch(cudaStream_t stream, const stand_in_work_t *work);

/* Loads it before it is used. */
void stand_in_load(int device, uint32_t module);

/* The calls of this thread are from now on those of that host, 0 at first. Hosts wait independently of each other, and
 * do not share streams and events. */
void stand_in_set_host(int host);

/* The host waits until nothing is left to do that can be done. */
void stand_in_finish(void);

/* NULL: nothing is left, but for what a device that stopped had. Else, when nothing can happen: in words, a line each, which
 * collective waits for which rank, and which host for what. Valid until the next time. */
const char *stand_in_deadlock(void);

/* ---- collectives ---- */

/* A communicator of so many ranks, each on a device of its own; its number, from 1. The n-th calls of all ranks are one
 * collective: each part holds its units from when it begins until all have begun, then they end together. The parts of
 * one rank run one after the other. Races between ranks are not looked for: let each have its own cells. */
uint32_t stand_in_communicator(uint32_t ranks);

/* The rank is gone: what it has not begun never begins. The others' parts wait, and their events are not done, until they
 * are aborted. */
void stand_in_lose(uint32_t communicator, uint32_t rank);

/* What ncclCommGetAsyncError would say: 0, or STAND_IN_REMOTE_ERROR. */
int stand_in_async_error(uint32_t communicator);

/* That rank's parts end, without a result; another call of it is 400. */
void stand_in_abort(uint32_t communicator, uint32_t rank);

/* ---- looking ---- */

/* The end of the last work so far. */
uint64_t stand_in_time(void);

uint32_t stand_in_held(void); /* streams, events, captures and graphs that are left to end */
uint32_t stand_in_works(void);
uint32_t stand_in_races(void);
uint32_t stand_in_mismatches(void); /* calls with another label than other ranks' parts of that collective */
uint32_t stand_in_waits_of_host(void); /* launches that met a full queue, or a module to be loaded */
uint32_t stand_in_calls_inside(void);  /* CUDA's calls in host functions */
int stand_in_has_context(int device);

/* What they were made with. */
int stand_in_priority(cudaStream_t stream);
unsigned stand_in_event_flags(cudaEvent_t event);

/* What is in all cells, as one number, and in one; and 0 in each. */
uint64_t stand_in_memory(void);
uint64_t stand_in_cell(int cell);
void stand_in_clear_memory(void);

/* Nodes and edges of a graph, as one number, and how many nodes. */
uint64_t stand_in_graph_shape(cudaGraph_t graph);
uint32_t stand_in_graph_nodes(cudaGraph_t graph);

/* In how much the graph differs from the works that were launched from number `first` on (counted from 0, as
 * stand_in_works): in what they are, and in which comes after which. */
uint32_t stand_in_graph_differs(cudaGraph_t graph, uint32_t first);

#endif
