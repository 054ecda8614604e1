/* SPDX-License-Identifier: MIT */
/* Events behind ops, waits in front of them.
 *
 * Within a call an op waits for the in-edges of its stage; one that waits for nothing of its own microbatch comes first
 * in its slot, so it also waits for those that came last in the slot before it. All ops are issued in one order that
 * keeps the dependencies, so what is to be waited for has been issued, or was skipped because something failed. Of a
 * skipped op nobody knows what it would have waited for: who waits for it waits for all that has been issued. */
#include "device/tracks.h"

#include <string.h>

#include "ovl/errors.h"

/* ---- entries ----------------------------------------------------------------------------------------------------- */

int ovl_tracks_use(ovl_tracks_t *tracks, const ovl_device_t *device) {
  if (tracks->current == device || device->enter == NULL)
    return 0;
  int r = device->enter(device->context);
  tracks->current = r == 0 ? device : NULL;
  return r;
}

static int record(ovl_tracks_t *tracks, const ovl_device_t *device, void *event, void *stream) {
  int r = ovl_tracks_use(tracks, device);
  return r != 0 ? r : device->event_record(device->context, event, stream);
}

static int wait(ovl_tracks_t *tracks, const ovl_device_t *device, void *stream, void *event) {
  int r = ovl_tracks_use(tracks, device);
  return r != 0 ? r : device->stream_wait(device->context, stream, event);
}

/* ---- what waits for what ------------------------------------------------------------------------------------------- */

static bool same_stream(const ovl_track_t *a, const ovl_track_t *b) {
  return a->device == b->device && a->stream == b->stream;
}

static bool is_origin(const ovl_tracks_t *tracks, const ovl_track_t *lane) {
  return tracks->origins && lane->device == tracks->lanes[0].device && lane->stream == tracks->origin;
}

/* ---- fork and join ------------------------------------------------------------------------------------------------- */

/* All of this call comes after all of the eager one before. */
static int follow_last_call(ovl_tracks_t *tracks) {
  return tracks->ended ? wait(tracks, tracks->lanes[0].device, tracks->origin, tracks->end) : 0;
}

static void begin(ovl_tracks_t *tracks, ovl_mode_t mode, const ovl_track_lane_t *lanes) {
  const ovl_plan_t *plan = tracks->plan;
  tracks->graph = &plan->graphs[mode];
  tracks->current = NULL;
  tracks->lost = false;
  ovl_plan_find_ends(plan, tracks->graph, tracks->source, tracks->sink);
  memset(tracks->marks, 0, (size_t)plan->stage_count * tracks->ring * sizeof *tracks->marks);
  memset(tracks->waited, 0, (size_t)plan->lane_count * plan->lane_count * sizeof *tracks->waited);
  for (uint32_t l = 0; l < plan->lane_count; l++) {
    ovl_track_t *lane = &tracks->lanes[l];
    lane->stream = lanes[l].stream;
    lane->issued = lane->marked = 0;
    lane->marked_event = NULL;
    lane->forked = tracks->origins ? is_origin(tracks, lane) : tracks->after == NULL;
  }
}

int ovl_tracks_begin(ovl_tracks_t *tracks, ovl_mode_t mode, int set, const ovl_track_lane_t *lanes,
                     void *origin) {
  tracks->set = set;
  tracks->origin = origin;
  begin(tracks, mode, lanes);
  int r = set == OVL_EAGER ? follow_last_call(tracks) : 0;
  return r != 0 ? r : record(tracks, tracks->lanes[0].device, tracks->fork[set], origin);
}

int ovl_tracks_begin_run(ovl_tracks_t *tracks, ovl_mode_t mode, const ovl_track_lane_t *lanes, void *after) {
  int r = 0;
  tracks->after = after;
  begin(tracks, mode, lanes);
  for (uint32_t l = 0; r == 0 && l < tracks->plan->lane_count; l++)
    if (tracks->lanes[l].base != NULL)
      r = record(tracks, tracks->lanes[l].device, tracks->lanes[l].base, tracks->lanes[l].stream);
  return r;
}

void *ovl_tracks_end(const ovl_tracks_t *tracks) { return tracks->ended ? tracks->end : NULL; }

/* The stage's op of the last microbatch of the slot. The ring is a multiple of the window. */
static const ovl_mark_t *last_mark(const ovl_tracks_t *tracks, uint32_t stage, uint32_t slot) {
  const ovl_mark_t *last = NULL;
  for (uint32_t i = slot; i < tracks->ring; i += tracks->plan->window) {
    const ovl_mark_t *mark = &tracks->marks[(size_t)stage * tracks->ring + i];
    if (last == NULL || mark->name > last->name)
      last = mark;
  }
  return last;
}

static uint64_t last_name(const ovl_tracks_t *tracks, uint32_t slot) {
  uint64_t name = 0;
  for (uint32_t s = 0; s < tracks->plan->stage_count; s++) {
    const ovl_mark_t *mark = last_mark(tracks, s, slot);
    name = mark->name > name ? mark->name : name;
  }
  return name;
}

/* The last of the slot's ops on the lane on which its last microbatch ends; NULL: it ends on several, or did not. */
static const ovl_mark_t *last_of_slot(const ovl_tracks_t *tracks, uint32_t slot) {
  const ovl_plan_t *plan = tracks->plan;
  const ovl_mark_t *last = NULL;
  uint64_t name = last_name(tracks, slot);
  uint32_t lane = 0;
  for (uint32_t s = 0; s < plan->stage_count; s++) {
    if (!tracks->sink[s])
      continue;
    const ovl_mark_t *mark = last_mark(tracks, s, slot);
    if (mark->name != name || name == 0 || (last != NULL && lane != ovl_track_lane_of(plan, s)))
      return NULL;
    if (last == NULL || mark->position > last->position)
      last = mark;
    lane = ovl_track_lane_of(plan, s);
  }
  return last;
}

void *ovl_tracks_slot(const ovl_tracks_t *tracks, uint32_t slot) {
  bool known = tracks->ended && tracks->set == OVL_EAGER && !tracks->lost;
  const ovl_mark_t *last = known ? last_of_slot(tracks, slot) : NULL;
  return last != NULL && last->event != NULL ? last->event : ovl_tracks_end(tracks);
}

static int fork_lane(ovl_tracks_t *tracks, ovl_track_t *lane) {
  void *event = tracks->origins ? tracks->fork[tracks->set] : tracks->after;
  int r = wait(tracks, lane->device, lane->stream, event);
  lane->forked = r == 0;
  return r;
}

/* An event behind all that is on the lane's stream by now. */
static int mark_tail(ovl_tracks_t *tracks, uint32_t index) {
  ovl_track_t *lane = &tracks->lanes[index];
  if (lane->marked_event != NULL && lane->marked == lane->issued)
    return 0;
  void *event = tracks->tails[tracks->set][index];
  int r = record(tracks, lane->device, event, lane->stream);
  if (r == 0) {
    lane->marked = lane->issued;
    lane->marked_event = event;
  }
  return r;
}

int ovl_tracks_join(ovl_tracks_t *tracks) {
  int first = 0;
  for (uint32_t l = 0; l < tracks->plan->lane_count; l++) {
    ovl_track_t *lane = &tracks->lanes[l];
    if ((lane->issued == 0 && !lane->forked) || is_origin(tracks, lane))
      continue;
    int r = mark_tail(tracks, l);
    if (r == 0)
      r = wait(tracks, tracks->lanes[0].device, tracks->origin, lane->marked_event);
    if (first == 0)
      first = r;
  }
  if (tracks->set != OVL_EAGER)
    return first;
  int r = record(tracks, tracks->lanes[0].device, tracks->end, tracks->origin);
  tracks->ended |= r == 0;
  return first != 0 ? first : r;
}

/* ---- around an op ---------------------------------------------------------------------------------------------------- */

static int wait_for_all(ovl_tracks_t *tracks, uint32_t index) {
  ovl_track_t *lane = &tracks->lanes[index];
  int r = 0;
  for (uint32_t l = 0; r == 0 && l < tracks->plan->lane_count; l++) {
    const ovl_track_t *other = &tracks->lanes[l];
    if (other->device == NULL || same_stream(other, lane) || lane->waited[l] == other->issued)
      continue;
    r = mark_tail(tracks, l);
    if (r == 0)
      r = wait(tracks, lane->device, lane->stream, other->marked_event);
    if (r == 0)
      lane->waited[l] = other->issued;
  }
  return r;
}

/* Of what it waits for on each other lane, the last is enough. False: some of it was never issued. */
static bool note(ovl_tracks_t *tracks, uint32_t index, uint32_t stage, uint64_t microbatch) {
  ovl_track_t *lane = &tracks->lanes[index];
  uint32_t on = ovl_track_lane_of(tracks->plan, stage);
  const ovl_mark_t *mark = &tracks->marks[ovl_track_place(tracks, stage, microbatch)];
  if (!ovl_track_is_mine(tracks, stage))
    return true; /* the host has waited for it */
  if (mark->name != microbatch + 1)
    return false;
  if (same_stream(&tracks->lanes[on], lane) || lane->waited[on] >= mark->position)
    return true;
  if (tracks->noted[on] == NULL)
    tracks->noted_lanes[tracks->noted_count++] = on;
  if (tracks->noted[on] == NULL || tracks->noted[on]->position < mark->position)
    tracks->noted[on] = mark;
  return true;
}

static int wait_for_noted(ovl_tracks_t *tracks, uint32_t index) {
  ovl_track_t *lane = &tracks->lanes[index];
  int r = 0;
  while (tracks->noted_count > 0) {
    uint32_t on = tracks->noted_lanes[--tracks->noted_count];
    const ovl_mark_t *mark = tracks->noted[on];
    tracks->noted[on] = NULL;
    if (r == 0)
      r = wait(tracks, lane->device, lane->stream, mark->event);
    if (r == 0)
      lane->waited[on] = mark->position;
  }
  return r;
}

/* The first in its slot comes after those that were the last there. */
static bool note_slot(ovl_tracks_t *tracks, uint32_t index, uint64_t microbatch) {
  uint32_t limit = tracks->graph->limit;
  bool all = true;
  for (uint32_t s = 0; microbatch >= limit && s < tracks->plan->stage_count; s++)
    if (tracks->sink[s])
      all &= note(tracks, index, s, microbatch - limit);
  return all;
}

int ovl_tracks_before(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch) {
  uint32_t index = ovl_track_lane_of(tracks->plan, stage);
  tracks->current = NULL; /* a callback may have entered another, and a run's ops change threads */
  const ovl_edges_t *in = &tracks->graph->in;
  ovl_track_t *lane = &tracks->lanes[index];
  bool all = !tracks->source[stage] || note_slot(tracks, index, microbatch);
  for (uint32_t e = in->first[stage]; e < in->first[stage + 1]; e++)
    if (in->edges[e].distance <= microbatch)
      all &= note(tracks, index, in->edges[e].stage, microbatch - in->edges[e].distance);
  int r = lane->forked ? 0 : fork_lane(tracks, lane);
  int noted = wait_for_noted(tracks, index);
  if (r == 0)
    r = noted;
  if (r == 0 && !all)
    r = wait_for_all(tracks, index);
  return r != 0 ? r : ovl_tracks_use(tracks, lane->device);
}

int ovl_tracks_start(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch) {
  const ovl_track_t *lane = &tracks->lanes[ovl_track_lane_of(tracks->plan, stage)];
  if (tracks->starts == NULL)
    return 0;
  void *event = tracks->starts[ovl_track_place(tracks, stage, microbatch)];
  int r = record(tracks, lane->device, event, lane->stream);
  tracks->start = r == 0 ? event : NULL;
  return r;
}

int ovl_tracks_after(ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch) {
  uint32_t index = ovl_track_lane_of(tracks->plan, stage);
  size_t place = ovl_track_place(tracks, stage, microbatch);
  ovl_track_t *lane = &tracks->lanes[index];
  ovl_mark_t *mark = &tracks->marks[place];
  tracks->current = NULL;
  *mark = (ovl_mark_t){.name = microbatch + 1,
                       .position = ++lane->issued,
                       .event = tracks->events[tracks->set][place],
                       .start = tracks->start};
  tracks->start = NULL;
  int r = mark->event != NULL ? record(tracks, lane->device, mark->event, lane->stream) : 0;
  if (r != 0) {
    mark->name = 0; /* who waits for it waits for all */
    tracks->lost = true;
  } else if (mark->event != NULL) {
    lane->marked = lane->issued;
    lane->marked_event = mark->event;
  }
  return r;
}

const ovl_mark_t *ovl_tracks_mark(const ovl_tracks_t *tracks, uint32_t stage, uint64_t microbatch) {
  const ovl_mark_t *mark = &tracks->marks[ovl_track_place(tracks, stage, microbatch)];
  return mark->name == microbatch + 1 ? mark : NULL;
}

static int elapsed(const ovl_device_t *device, void *start, void *end, uint64_t *ns) {
  *ns = 0;
  int r = device->enter != NULL ? device->enter(device->context) : 0;
  return r != 0 ? r : device->elapsed(device->context, start, end, ns);
}

/* Each op by itself: what counts from the base may be coarse after a long time. */
int ovl_tracks_times(const ovl_tracks_t *tracks, uint32_t lane, const ovl_mark_t *mark, uint64_t *start,
                     uint64_t *end) {
  const ovl_device_t *device = tracks->lanes[lane].device;
  uint64_t duration;
  int r = elapsed(device, tracks->lanes[ovl_track_first_lane(tracks, lane)].base, mark->start, start);
  if (r == 0)
    r = elapsed(device, mark->start, mark->event, &duration);
  if (r == 0)
    *end = *start + duration;
  return r;
}
