/* SPDX-License-Identifier: MIT */
/* Nodes, virtual time, races, and what is in the cells. */
#include "support/cuda_stand_in/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

machine_t machine;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t epoch;

void insist_that(bool holds, const char *words) {
  if (holds)
    return;
  (void)fprintf(stderr, "the stand-in for CUDA is used wrongly or too small: %s\n", words);
  abort();
}

/* ---- threads and calls ------------------------------------------------------------------------------------------- */

thread_state_t *this_thread(void) {
  static _Thread_local thread_state_t state;
  if (state.epoch != epoch)
    state = (thread_state_t){.epoch = epoch};
  return &state;
}

static uint64_t next_random(void) {
  machine.random = machine.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return machine.random >> 33;
}

cudaError_t health(int device) { return (cudaError_t)machine.broken[device]; }

cudaError_t call_begin(void) {
  pthread_mutex_lock(&mutex);
  machine.contexts[this_thread()->device] = true;
  for (uint64_t steps = next_random() % 3; !machine.held_back && steps > 0 && run_some(); steps--) {
  }
  return health(this_thread()->device);
}

cudaError_t call_end(cudaError_t code) {
  if (code != cudaSuccess)
    this_thread()->last_error = code;
  pthread_mutex_unlock(&mutex);
  return code;
}

void stand_in_reset(uint64_t seed) {
  memset(&machine, 0, sizeof machine);
  machine.random = seed;
  machine.queue = NODES;
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    machine.legacy[d] = (struct CUstream_st){.device = d, .made = true};
  epoch++;
}

void stand_in_hold(int hold) { machine.held_back = hold != 0; }

void stand_in_set_queue(uint32_t capacity) { machine.queue = capacity; }

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

void deps_add(deps_t *deps, uint32_t node) {
  for (uint32_t i = 0; i < deps->count; i++)
    if (deps->at[i] == node)
      return;
  insist(deps->count < DEPS);
  deps->at[deps->count++] = node;
}

void deps_add_all(deps_t *deps, const deps_t *more) {
  for (uint32_t i = 0; i < more->count; i++)
    deps_add(deps, more->at[i]);
}

void deps_set(deps_t *deps, uint32_t node) {
  deps->count = 0;
  deps_add(deps, node);
}

static bool comes_after(const node_t *node, uint32_t work) { return node->after[work / 64] >> work % 64 & 1; }

static bool meet(const stand_in_work_t *a, const stand_in_work_t *b) {
  return ((a->writes & (b->reads | b->writes)) | (a->reads & b->writes)) != 0;
}

static void add_work(node_t *node, const stand_in_work_t *work) {
  insist(machine.work_count < WORKS);
  for (uint32_t w = 0; w < machine.work_count; w++)
    machine.races += meet(&machine.works[w], work) && !comes_after(node, w);
  uint32_t index = machine.work_count++;
  machine.works[index] = *work;
  node->work = index + 1;
  node->end += work->duration;
  node->after[index / 64] |= UINT64_C(1) << index % 64;
}

static void wait_for_room(int device) {
  if (machine.queued[device] < machine.queue)
    return;
  machine.waits_of_host++;
  while (machine.queued[device] >= machine.queue && run_some()) {
  }
}

uint32_t put_node(int device, const deps_t *deps, const stand_in_work_t *work) {
  wait_for_room(device);
  insist(machine.node_count < NODES);
  node_t *node = &machine.nodes[machine.node_count];
  node->deps = *deps;
  node->device = device;
  for (uint32_t i = 0; i < deps->count; i++) {
    const node_t *before = &machine.nodes[deps->at[i]];
    node->end = node->end > before->end ? node->end : before->end;
    for (size_t b = 0; b < WORKS / 64; b++)
      node->after[b] |= before->after[b];
  }
  if (work != NULL)
    add_work(node, work);
  machine.time = machine.time > node->end ? machine.time : node->end;
  machine.queued[device]++;
  return machine.node_count++;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, uint64_t number) {
  sum = (sum ^ number) * UINT64_C(0x9e3779b97f4a7c15);
  return sum ^ sum >> 29;
}

static void write_cells(const stand_in_work_t *work) {
  uint64_t value = mix(1, work->label);
  for (int c = 0; c < STAND_IN_CELLS; c++)
    if (work->reads >> c & 1)
      value = mix(value, machine.cells[c]);
  for (int c = 0; c < STAND_IN_CELLS; c++)
    if (work->writes >> c & 1)
      machine.cells[c] = value;
}

static void run_node(node_t *node) {
  const stand_in_work_t *work = node->work > 0 ? &machine.works[node->work - 1] : NULL;
  node->done = true;
  machine.queued[node->device]--;
  if (work != NULL && work->fault != 0)
    machine.broken[node->device] = work->fault;
  else if (work != NULL)
    write_cells(work);
}

static bool can_run(const node_t *node) {
  if (node->done || machine.broken[node->device] != 0)
    return false;
  for (uint32_t i = 0; i < node->deps.count; i++)
    if (!machine.nodes[node->deps.at[i]].done)
      return false;
  return true;
}

bool run_some(void) {
  node_t *chosen = NULL;
  uint64_t seen = 0;
  while (machine.first_left < machine.node_count && machine.nodes[machine.first_left].done)
    machine.first_left++;
  for (uint32_t n = machine.first_left; n < machine.node_count; n++)
    if (can_run(&machine.nodes[n]) && next_random() % ++seen == 0)
      chosen = &machine.nodes[n];
  if (chosen != NULL)
    run_node(chosen);
  return chosen != NULL;
}

void stand_in_finish(void) {
  pthread_mutex_lock(&mutex);
  while (run_some()) {
  }
  pthread_mutex_unlock(&mutex);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

uint64_t stand_in_time(void) { return machine.time; }
uint32_t stand_in_works(void) { return machine.work_count; }
uint32_t stand_in_races(void) { return machine.races; }
uint32_t stand_in_held(void) { return machine.held; }
uint32_t stand_in_waits_of_host(void) { return machine.waits_of_host; }
int stand_in_has_context(int device) { return machine.contexts[device]; }

int stand_in_priority(cudaStream_t stream) { return stream->priority; }
unsigned stand_in_event_flags(cudaEvent_t event) { return event->flags; }

uint64_t stand_in_memory(void) {
  uint64_t sum = 0;
  for (int c = 0; c < STAND_IN_CELLS; c++)
    sum = mix(sum, machine.cells[c]);
  return sum;
}

void stand_in_clear_memory(void) { memset(machine.cells, 0, sizeof machine.cells); }

uint32_t stand_in_graph_nodes(cudaGraph_t graph) { return graph->count; }

uint64_t stand_in_graph_shape(cudaGraph_t graph) {
  uint64_t sum = graph->count;
  for (uint32_t n = 0; n < graph->count; n++) {
    sum = mix(sum, graph->nodes[n].work.label);
    for (uint32_t d = 0; d < graph->nodes[n].deps.count; d++)
      sum = mix(sum, graph->nodes[n].deps.at[d]);
  }
  return sum;
}
