/* SPDX-License-Identifier: MIT */
/* What begins and ends next. A node is issued by its host, runs, and is done; where streams meet there is nothing to
 * run. Of all that can happen the seed chooses, in any order or in that of virtual time. */
#include "support/cuda_stand_in/machine.h"

/* What can happen next. */
typedef struct step {
  node_t *node; /* NULL: nothing */
  uint64_t time;
  int rank;      /* of what happens at one time: ends, then where streams meet, then what begins */
  uint64_t seen; /* as good ones */
} step_t;

/* ---- room -------------------------------------------------------------------------------------------------------- */

static uint32_t units_of(const node_t *node) {
  const stand_in_work_t *work = work_of(node);
  return work != NULL && machine.room > 0 ? work->units : 0;
}

static uint32_t free_units(int device) {
  return machine.room - (uint32_t)__builtin_popcountll(machine.held_units[device]);
}

/* Those that were free first. */
static uint64_t choose_units(int device, uint32_t count) {
  uint64_t chosen = 0;
  for (; count > 0; count--) {
    uint32_t best = UNITS;
    for (uint32_t u = 0; u < machine.room; u++)
      if (((machine.held_units[device] | chosen) >> u & 1) == 0 &&
          (best == UNITS || machine.free_at[device][u] < machine.free_at[device][best]))
        best = u;
    chosen |= UINT64_C(1) << best;
  }
  return chosen;
}

static void give_units_back(const node_t *node) {
  int device = node->place.device;
  machine.held_units[device] &= ~node->units;
  for (uint32_t u = 0; u < machine.room; u++)
    if (node->units >> u & 1)
      machine.free_at[device][u] = node->end;
}

/* ---- what can happen --------------------------------------------------------------------------------------------- */

bool deps_are_done(const node_t *node) {
  for (uint32_t i = 0; i < node->deps.count; i++)
    if (machine.nodes[node->deps.at[i]].state != NODE_DONE)
      return false;
  return true;
}

static bool is_ready(const node_t *node) {
  return node->state == NODE_ISSUED && node->has_turn && machine.broken[node->place.device] == 0 &&
         deps_are_done(node) && !collective_is_lost(node);
}

/* NULL: each stream has a queue of its own. */
static hardware_queue_t *queue_of(const place_t *place) {
  return machine.connections > 0 ? &machine.queues[place->device][place->stream % machine.connections] : NULL;
}

/* Of a hardware queue nothing begins before what was issued there earlier has begun. */
static void give_turns(void) {
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    for (uint32_t q = 0; q < machine.connections; q++)
      machine.queues[d][q].taken = false;
  for (uint32_t n = machine.first_left; n < machine.node_count; n++) {
    node_t *node = &machine.nodes[n];
    hardware_queue_t *queue = queue_of(&node->place);
    if (node->state != NODE_ISSUED)
      continue;
    node->has_turn = queue == NULL || !queue->taken;
    if (queue != NULL)
      queue->taken = true;
  }
}

/* The most urgent of those that want room, by device. */
static void find_most_urgent(int *urgent) {
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    urgent[d] = 0;
  for (uint32_t n = machine.first_left; n < machine.node_count; n++) {
    const node_t *node = &machine.nodes[n];
    if (units_of(node) > 0 && node->place.priority < urgent[node->place.device] && is_ready(node))
      urgent[node->place.device] = node->place.priority;
  }
}

static bool can_begin(const node_t *node, const int *urgent) {
  int device = node->place.device;
  if (!is_ready(node))
    return false;
  return units_of(node) == 0 ||
         (node->place.priority <= urgent[device] && units_of(node) <= free_units(device));
}

static bool can_end(const node_t *node) {
  return node->state == NODE_RUNNING && machine.broken[node->place.device] == 0 && collective_can_end(node);
}

static uint64_t time_of_begin(const node_t *node) {
  uint64_t time = node->earliest, units = choose_units(node->place.device, units_of(node));
  const hardware_queue_t *queue = queue_of(&node->place);
  if (queue != NULL && time < queue->time)
    time = queue->time;
  for (uint32_t i = 0; i < node->deps.count; i++)
    if (time < machine.nodes[node->deps.at[i]].end)
      time = machine.nodes[node->deps.at[i]].end;
  for (uint32_t u = 0; u < machine.room; u++)
    if (units >> u & 1 && time < machine.free_at[node->place.device][u])
      time = machine.free_at[node->place.device][u];
  return time;
}

static uint64_t time_of_end(const node_t *node) {
  if (collective_is_aborted(node))
    return node->start;
  return (node->meeting > 0 ? machine.meetings[node->meeting - 1].start : node->start) +
         work_of(node)->duration;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* In any order all are as good as each other. */
static int compare(const step_t *a, const step_t *b) {
  if (!machine.in_time)
    return 0;
  return a->time != b->time ? (a->time < b->time ? -1 : 1) : a->rank - b->rank;
}

static void offer(step_t *best, step_t step) {
  int order = best->node == NULL ? -1 : compare(&step, best);
  if (order > 0)
    return;
  step.seen = order < 0 ? 1 : best->seen + 1;
  best->seen = step.seen;
  if (next_random() % step.seen == 0)
    *best = step;
}

static step_t choose(void) {
  step_t best = {.node = NULL};
  int urgent[STAND_IN_DEVICES];
  hosts_go_on();
  while (machine.first_left < machine.node_count && machine.nodes[machine.first_left].state == NODE_DONE)
    machine.first_left++;
  give_turns();
  find_most_urgent(urgent);
  for (uint32_t n = machine.first_left; n < machine.node_count; n++) {
    node_t *node = &machine.nodes[n];
    if (can_end(node))
      offer(&best, (step_t){.node = node, .time = time_of_end(node), .rank = 0});
    else if (can_begin(node, urgent))
      offer(&best, (step_t){.node = node, .time = time_of_begin(node), .rank = node->work > 0 ? 2 : 1});
  }
  return best;
}

/* ---- doing ------------------------------------------------------------------------------------------------------- */

/* It may not call, and what stops the device keeps it from being called at all. */
static void call_host_function(const stand_in_work_t *work) {
  this_thread()->inside = true;
  work->function(work->data);
  this_thread()->inside = false;
}

static void write_cells(const node_t *node, const stand_in_work_t *work) {
  uint64_t value = mix(1, work->label);
  for (int c = 0; c < STAND_IN_CELLS; c++)
    if (work->reads >> c & 1)
      value = mix(value, machine.cells[c]);
  if (node->meeting > 0)
    value = machine.meetings[node->meeting - 1].value;
  for (int c = 0; c < STAND_IN_CELLS; c++)
    if (work->writes >> c & 1)
      machine.cells[c] = value;
}

static void finish(node_t *node, uint64_t end) {
  node->state = NODE_DONE;
  node->end = end;
  machine.queued[node->place.device]--;
  if (machine.idle_at[node->place.device] < end)
    machine.idle_at[node->place.device] = end;
  if (machine.time < end)
    machine.time = end;
}

static void begin(node_t *node, uint64_t time) {
  hardware_queue_t *queue = queue_of(&node->place);
  if (queue != NULL)
    queue->time = time;
  if (node->work == 0) {
    finish(node, time);
    return;
  }
  node->start = time;
  node->state = NODE_RUNNING;
  node->units = choose_units(node->place.device, units_of(node));
  machine.held_units[node->place.device] |= node->units;
  collective_arrive(node);
}

static void end(node_t *node, uint64_t time) {
  const stand_in_work_t *work = work_of(node);
  finish(node, time);
  give_units_back(node);
  if (work->fault != 0)
    machine.broken[node->place.device] = work->fault;
  else if (work->function != NULL)
    call_host_function(work);
  else if (!collective_is_aborted(node))
    write_cells(node, work);
}

bool run_some(void) {
  step_t step = choose();
  if (step.node != NULL && step.node->state == NODE_ISSUED)
    begin(step.node, step.time);
  else if (step.node != NULL)
    end(step.node, step.time);
  return step.node != NULL;
}

bool can_go_on(void) { return choose().node != NULL; }
