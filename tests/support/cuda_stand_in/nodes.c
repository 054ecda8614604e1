/* SPDX-License-Identifier: MIT */
/* What is put down: nodes, what each of them comes after, and races between works that nothing orders. */
#include "support/cuda_stand_in/machine.h"

/* ---- sets of nodes ----------------------------------------------------------------------------------------------- */

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

/* ---- works ------------------------------------------------------------------------------------------------------- */

bool comes_after(const node_t *node, uint32_t work) { return node->after[work / 64] >> work % 64 & 1; }

const stand_in_work_t *work_of(const node_t *node) {
  return node->work > 0 ? &machine.works[node->work - 1] : NULL;
}

static bool meet(const stand_in_work_t *a, const stand_in_work_t *b) {
  return ((a->writes & (b->reads | b->writes)) | (a->reads & b->writes)) != 0;
}

static void add_work(node_t *node, const stand_in_work_t *work) {
  insist(machine.work_count < WORKS);
  insist(machine.room == 0 || work->units <= machine.room);
  for (uint32_t w = 0; w < machine.work_count; w++)
    machine.races += meet(&machine.works[w], work) && !comes_after(node, w);
  uint32_t index = machine.work_count++;
  machine.works[index] = *work;
  node->work = index + 1;
  node->after[index / 64] |= UINT64_C(1) << index % 64;
  if (work->communicator > 0)
    collective_join(node, work);
}

uint32_t put_node(const place_t *place, const deps_t *deps, const stand_in_work_t *work) {
  insist(machine.node_count < NODES);
  uint32_t number = machine.node_count++;
  node_t *node = &machine.nodes[number];
  node->deps = *deps;
  if (work != NULL && work->communicator > 0)
    collective_order(work, &node->deps);
  node->place = *place;
  node->host = this_thread()->host;
  for (uint32_t i = 0; i < node->deps.count; i++)
    for (size_t b = 0; b < WORKS / 64; b++)
      node->after[b] |= machine.nodes[node->deps.at[i]].after[b];
  if (work != NULL)
    add_work(node, work);
  return number;
}
