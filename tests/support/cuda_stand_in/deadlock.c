/* SPDX-License-Identifier: MIT */
/* Who waits for whom for ever: when nothing can begin or end, that is a deadlock, and this says it in words. What only
 * waits for those that it names is left out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/cuda_stand_in/machine.h"

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  size_t length = strlen(machine.words);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(machine.words + length, sizeof machine.words - length, format, arguments);
  va_end(arguments);
}

/* Why a rank's part is not there. */
static const char *why_not(const meeting_t *meeting, uint32_t rank) {
  const node_t *part = meeting->parts[rank] > 0 ? &machine.nodes[meeting->parts[rank] - 1] : NULL;
  if (machine.communicators[meeting->communicator - 1].lost[rank])
    return "is lost";
  if (machine.communicators[meeting->communicator - 1].aborted[rank])
    return "was aborted";
  if (part == NULL)
    return "has not called it";
  if (machine.broken[part->place.device] != 0)
    return "has a device that stopped";
  if (part->state == NODE_CALLED)
    return "has a host that did not come there";
  if (!deps_are_done(part))
    return "has it behind others in its stream";
  return part->has_turn ? "has no room for it" : "has it behind others in a hardware queue";
}

static void say_of_part(const node_t *node) {
  const meeting_t *meeting = &machine.meetings[node->meeting - 1];
  for (uint32_t r = 0; r < machine.communicators[meeting->communicator - 1].ranks; r++)
    if (!collective_has(meeting, r))
      say("collective %u of communicator %u: rank %u, which holds %u units of device %d, waits for rank %u, "
          "which %s\n",
          (unsigned)meeting->number, (unsigned)meeting->communicator, (unsigned)work_of(node)->rank,
          (unsigned)__builtin_popcountll(node->units), node->place.device, (unsigned)r, why_not(meeting, r));
}

static void say_all(void) {
  for (int h = 0; h < STAND_IN_HOSTS; h++)
    if (machine.hosts[h].waits_for != NULL)
      say("host %d waits for %s device %d\n", h, machine.hosts[h].waits_for,
          machine.nodes[machine.hosts[h].next].place.device);
  for (uint32_t n = machine.first_left; n < machine.node_count; n++)
    if (machine.nodes[n].state == NODE_RUNNING && machine.nodes[n].meeting > 0)
      say_of_part(&machine.nodes[n]);
}

static bool is_left(const node_t *node) {
  return node->state != NODE_DONE && machine.broken[node->place.device] == 0;
}

const char *stand_in_deadlock(void) {
  machine_lock();
  bool left = false;
  machine.words[0] = '\0';
  if (!can_go_on()) {
    for (uint32_t n = machine.first_left; n < machine.node_count; n++)
      left = left || is_left(&machine.nodes[n]);
    say_all();
  }
  machine_unlock();
  return left ? machine.words : NULL;
}
