/* SPDX-License-Identifier: MIT */
/* Lanes with a poll hook. While ops of such a lane are outstanding, one runner (or the loop, for a loop lane)
 * attends it: polls, pauses, polls again. The pause starts at nothing, doubles while nothing happens up to
 * poll_max_ns, and starts anew on progress; one above 50 us is a small part of what has been waited. While the hook runs, the lane is held, so no op of it starts; and
 * it is not polled while a callback of it runs. */
#include "exec/executor.h"

#define FIRST_PAUSE_NS UINT64_C(500)
#define LATE_BY 8 /* a pause above the usual is no more than this part of what has been waited */

static bool wants_poll(const ovl_exec_lane_t *lane) {
  return lane->outstanding > 0 && lane->calls == 0 && !lane->attended;
}

static ovl_lane_kind_t kind_of(const ovl_executor_t *x, uint32_t lane) {
  return x->core.plan->lanes[lane].kind;
}

uint32_t ovl_poll_unattended(const ovl_executor_t *x) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < x->poll_lane_count; i++)
    count += kind_of(x, x->poll_lanes[i]) == OVL_LANE_POOL && wants_poll(&x->lanes[x->poll_lanes[i]]);
  return count;
}

/* Takes on the lane that is due first; with due_only, one that is due by now. */
uint32_t ovl_poll_claim(ovl_executor_t *x, ovl_lane_kind_t kind, uint64_t now, bool due_only) {
  uint32_t best = OVL_NO_LANE;
  for (uint32_t i = 0; i < x->poll_lane_count; i++) {
    uint32_t lane = x->poll_lanes[i];
    if (kind_of(x, lane) == kind && wants_poll(&x->lanes[lane]) &&
        !(due_only && x->lanes[lane].next_poll > now) &&
        (best == OVL_NO_LANE || x->lanes[lane].next_poll < x->lanes[best].next_poll))
      best = lane;
  }
  if (best != OVL_NO_LANE)
    x->lanes[best].attended = true;
  return best;
}

static uint64_t longest_pause(const ovl_exec_lane_t *lane, uint64_t most, uint64_t now) {
  uint64_t patient = (now - lane->quiet_since) / LATE_BY;
  if (patient < OVL_DEFAULT_POLL_NS)
    patient = OVL_DEFAULT_POLL_NS;
  return most < patient ? most : patient;
}

static void set_pause(ovl_exec_lane_t *lane, bool progress, uint64_t most, uint64_t now) {
  if (progress) {
    lane->pause = 0;
    lane->quiet_since = now;
  } else {
    lane->pause = lane->pause == 0 ? FIRST_PAUSE_NS : lane->pause * 2;
  }
  uint64_t longest = longest_pause(lane, most, now);
  if (lane->pause > longest)
    lane->pause = longest;
  lane->next_poll = now + lane->pause;
}

void ovl_poll_lane(ovl_executor_t *x, uint32_t index) {
  ovl_exec_lane_t *lane = &x->lanes[index];
  const ovl_lane_hooks_t *hooks = &x->lane_hooks[index];
  uint64_t before = lane->progress;
  if (lane->calls > 0) { /* one started during the pause: after it */
    set_pause(lane, false, hooks->poll_max_ns, ovl_clock_now(&x->clock));
    return;
  }
  ovl_core_hold_lane(&x->core, index, true);
  ovl_exec_unlock(x);
  hooks->poll(x->pipeline, (ovl_lane_t){index + 1}, hooks->data);
  ovl_exec_lock(x);
  ovl_core_hold_lane(&x->core, index, false);
  set_pause(lane, lane->progress != before, hooks->poll_max_ns, ovl_clock_now(&x->clock));
}
