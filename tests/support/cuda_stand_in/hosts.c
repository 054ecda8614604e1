/* SPDX-License-Identifier: MIT */
/* How far each host has come. A call of CUDA's returns at once in the test, but what it put down is seen by the device
 * only when its host, a thread in virtual time, has come there: a full queue makes that wait, and so does a module that
 * is used for the first time. So hosts can wait for each other's work without threads, and it is seen when that is for
 * ever. */
#include "support/cuda_stand_in/machine.h"

static uint64_t module_of(const node_t *node) {
  const stand_in_work_t *work = work_of(node);
  return work != NULL && work->module > 0 ? UINT64_C(1) << work->module : 0;
}

/* Loading waits for all that the device has. */
static const char *must_wait_for(const node_t *node) {
  int device = node->place.device;
  if (machine.broken[device] != 0)
    return NULL;
  if (machine.queued[device] >= machine.queue)
    return "room in the queue of";
  if ((module_of(node) & ~machine.loaded[device]) != 0 && machine.queued[device] > 0)
    return "a module to be loaded on";
  return NULL;
}

static void load(host_t *host, const node_t *node) {
  int device = node->place.device;
  if ((module_of(node) & ~machine.loaded[device]) == 0)
    return;
  machine.loaded[device] |= module_of(node);
  if (host->time < machine.idle_at[device])
    host->time = machine.idle_at[device];
}

static void issue(host_t *host, node_t *node) {
  load(host, node);
  node->earliest = host->time;
  node->state = NODE_ISSUED;
  machine.queued[node->place.device]++;
}

static void go_on(int number) {
  host_t *host = &machine.hosts[number];
  host->waits_for = NULL;
  for (; host->next < machine.node_count; host->next++) {
    node_t *node = &machine.nodes[host->next];
    if (node->host != number)
      continue;
    host->waits_for = must_wait_for(node);
    if (host->waits_for != NULL) {
      machine.waits_of_host += host->waited != host->next + 1;
      host->waited = host->next + 1;
      return;
    }
    issue(host, node);
  }
}

void hosts_go_on(void) {
  for (int h = 0; h < STAND_IN_HOSTS; h++)
    go_on(h);
}

void stand_in_load(int device, uint32_t module) { machine.loaded[device] |= UINT64_C(1) << module; }
