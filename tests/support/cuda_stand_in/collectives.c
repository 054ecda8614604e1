/* SPDX-License-Identifier: MIT */
/* Communicators and their collectives. The n-th calls of all ranks are one collective; each rank's part holds what it
 * occupies from when it begins until all have begun, and all end at one time. Parts of one communicator and rank follow
 * each other, whatever streams they are on. */
#include "support/cuda_stand_in/machine.h"

static communicator_t *communicator_of(const stand_in_work_t *work) {
  insist(work->communicator <= machine.communicator_count);
  communicator_t *communicator = &machine.communicators[work->communicator - 1];
  insist(work->rank < communicator->ranks);
  return communicator;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

uint32_t stand_in_communicator(uint32_t ranks) {
  insist(machine.communicator_count < COMMUNICATORS && ranks <= STAND_IN_RANKS);
  machine.communicators[machine.communicator_count].ranks = ranks;
  return ++machine.communicator_count;
}

cudaError_t check_collective(const stand_in_work_t *work) {
  return work->communicator > 0 && communicator_of(work)->aborted[work->rank] ? cudaErrorInvalidResourceHandle
                                                                              : cudaSuccess;
}

void collective_order(const stand_in_work_t *work, deps_t *deps) {
  deps_add_all(deps, &communicator_of(work)->tails[work->rank]);
}

static uint32_t find_meeting(uint32_t communicator, uint32_t number) {
  uint32_t m = 0;
  while (m < machine.meeting_count &&
         (machine.meetings[m].communicator != communicator || machine.meetings[m].number != number))
    m++;
  insist(m < MEETINGS);
  if (m == machine.meeting_count)
    machine.meetings[machine.meeting_count++] = (meeting_t){.communicator = communicator, .number = number};
  return m;
}

/* Do the ranks mean the same one? */
static bool agree(const meeting_t *meeting, const stand_in_work_t *work) {
  for (uint32_t r = 0; r < STAND_IN_RANKS; r++)
    if (meeting->parts[r] > 0 && work_of(&machine.nodes[meeting->parts[r] - 1])->label != work->label)
      return false;
  return true;
}

void collective_join(node_t *node, const stand_in_work_t *work) {
  communicator_t *communicator = communicator_of(work);
  uint32_t number = (uint32_t)(node - machine.nodes);
  uint32_t m = find_meeting(work->communicator, ++communicator->calls[work->rank]);
  machine.mismatches += !agree(&machine.meetings[m], work);
  machine.meetings[m].parts[work->rank] = number + 1;
  node->meeting = m + 1;
  deps_set(&communicator->tails[work->rank], number);
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

static const communicator_t *communicator_at(const meeting_t *meeting) {
  return &machine.communicators[meeting->communicator - 1];
}

bool collective_has(const meeting_t *meeting, uint32_t rank) {
  return meeting->parts[rank] > 0 && machine.nodes[meeting->parts[rank] - 1].state >= NODE_RUNNING &&
         !communicator_at(meeting)->aborted[rank];
}

static void add_part(meeting_t *meeting, const node_t *part) {
  const stand_in_work_t *work = work_of(part);
  meeting->value = mix(meeting->value, work->label);
  for (int c = 0; c < STAND_IN_CELLS; c++)
    if (work->reads >> c & 1)
      meeting->value = mix(meeting->value, machine.cells[c]);
  if (meeting->start < part->start)
    meeting->start = part->start;
}

/* What each rank's part reads is as it was when the last one came. */
void collective_arrive(const node_t *node) {
  meeting_t *meeting = node->meeting > 0 ? &machine.meetings[node->meeting - 1] : NULL;
  if (meeting == NULL)
    return;
  for (uint32_t r = 0; r < communicator_at(meeting)->ranks; r++)
    if (!collective_has(meeting, r))
      return;
  meeting->complete = true;
  for (uint32_t r = 0; r < communicator_at(meeting)->ranks; r++)
    add_part(meeting, &machine.nodes[meeting->parts[r] - 1]);
}

bool collective_can_end(const node_t *node) {
  return node->meeting == 0 || collective_is_aborted(node) || machine.meetings[node->meeting - 1].complete;
}

/* ---- ranks that fail --------------------------------------------------------------------------------------------- */

bool collective_is_lost(const node_t *node) {
  return node->meeting > 0 && communicator_of(work_of(node))->lost[work_of(node)->rank];
}

bool collective_is_aborted(const node_t *node) {
  return node->meeting > 0 && communicator_of(work_of(node))->aborted[work_of(node)->rank];
}

void stand_in_lose(uint32_t communicator, uint32_t rank) {
  machine_lock();
  machine.communicators[communicator - 1].lost[rank] = true;
  machine_unlock();
}

void stand_in_abort(uint32_t communicator, uint32_t rank) {
  machine_lock();
  machine.communicators[communicator - 1].aborted[rank] = true;
  machine_unlock();
}

int stand_in_async_error(uint32_t communicator) {
  int code = 0;
  machine_lock();
  for (uint32_t r = 0; r < STAND_IN_RANKS; r++)
    if (machine.communicators[communicator - 1].lost[r])
      code = STAND_IN_REMOTE_ERROR;
  machine_unlock();
  return code;
}
