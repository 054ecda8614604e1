/* SPDX-License-Identifier: MIT */
/* The events and tables of tracks: made, and destroyed. Only ops have events that others, or the host, may wait for. */
#include <string.h>

#include "device/tracks.h"
#include "ovl/errors.h"

/* ---- which ops have events --------------------------------------------------------------------------------------- */

/* On another lane of the domain. */
static bool is_foreign(const ovl_tracks_t *tracks, uint32_t stage, uint32_t other) {
  return ovl_track_lane_of(tracks->plan, stage) != ovl_track_lane_of(tracks->plan, other) &&
         ovl_track_is_mine(tracks, other);
}

/* Stages that some op on another lane, or the host, may wait for. */
static void find_recorded(ovl_tracks_t *tracks, const ovl_graph_t *graph, const uint32_t *watches) {
  const ovl_plan_t *plan = tracks->plan;
  ovl_plan_find_ends(plan, graph, tracks->source, tracks->sink);
  for (uint32_t s = 0; s < plan->stage_count; s++) {
    if (!ovl_track_is_mine(tracks, s))
      continue;
    tracks->recorded[s] |= watches != NULL && watches[s] != OVL_NO_WATCH;
    for (uint32_t e = graph->out.first[s]; e < graph->out.first[s + 1]; e++)
      tracks->recorded[s] |= is_foreign(tracks, s, graph->out.edges[e].stage);
    for (uint32_t t = 0; tracks->sink[s] && t < plan->stage_count; t++)
      tracks->recorded[s] |= tracks->source[t] && is_foreign(tracks, s, t);
  }
}

/* ---- made and destroyed ---------------------------------------------------------------------------------------- */

static int create_with(ovl_tracks_t *tracks, uint32_t lane, int timing, void **event) {
  const ovl_device_t *device = tracks->lanes[lane].device;
  int r = ovl_tracks_use(tracks, device);
  if (r == 0)
    r = device->event_create(device->context, timing, event);
  if (r != 0)
    *event = NULL;
  return r;
}

static int create(ovl_tracks_t *tracks, uint32_t lane, void **event) {
  return create_with(tracks, lane, 0, event);
}

static void destroy(ovl_tracks_t *tracks, uint32_t lane, void *event) {
  const ovl_device_t *device = tracks->lanes[lane].device;
  if (event == NULL)
    return;
  (void)ovl_tracks_use(tracks, device); /* there is nobody to tell */
  device->event_destroy(device->context, event);
}

static int create_events(ovl_tracks_t *tracks, int set) {
  const ovl_plan_t *plan = tracks->plan;
  int r = 0;
  for (uint32_t l = 0; r == 0 && l < plan->lane_count; l++)
    if (tracks->lanes[l].device != NULL)
      r = create(tracks, l, &tracks->tails[set][l]);
  if (r == 0 && tracks->origins)
    r = create(tracks, 0, &tracks->fork[set]);
  if (r == 0 && tracks->origins && set == OVL_EAGER)
    r = create(tracks, 0, &tracks->end);
  for (uint32_t s = 0; s < plan->stage_count; s++)
    for (uint32_t i = 0; r == 0 && tracks->recorded[s] && i < tracks->ring; i++)
      r = create_with(tracks, ovl_track_lane_of(plan, s), tracks->starts != NULL,
                      &tracks->events[set][(size_t)s * tracks->ring + i]);
  return r;
}

static int create_timing_events(ovl_tracks_t *tracks) {
  const ovl_plan_t *plan = tracks->plan;
  int r = 0;
  for (uint32_t l = 0; r == 0 && l < plan->lane_count; l++)
    if (tracks->lanes[l].device != NULL && ovl_track_first_lane(tracks, l) == l)
      r = create_with(tracks, l, 1, &tracks->lanes[l].base);
  for (uint32_t s = 0; s < plan->stage_count; s++)
    for (uint32_t i = 0; r == 0 && ovl_track_is_mine(tracks, s) && i < tracks->ring; i++)
      r = create_with(tracks, ovl_track_lane_of(plan, s), 1, &tracks->starts[(size_t)s * tracks->ring + i]);
  return r;
}

/* An event of microbatch i is waited for by the device up to i + window, and asked for by the host until it is done. */
static int tables_init(ovl_tracks_t *tracks, uint32_t ahead, bool timed) {
  const ovl_memory_t *memory = &tracks->memory;
  size_t lanes = tracks->plan->lane_count, stages = tracks->plan->stage_count, places, pairs;
  uint32_t window = tracks->plan->window;
  if (__builtin_add_overflow(window, ahead > window ? ahead : window, &tracks->ring) ||
      __builtin_mul_overflow(stages, (size_t)tracks->ring, &places) ||
      __builtin_mul_overflow(lanes, lanes, &pairs))
    return OVL_ETOOBIG;
  tracks->lanes = ovl_memory_array(memory, lanes, sizeof *tracks->lanes);
  tracks->waited = ovl_memory_array(memory, pairs, sizeof *tracks->waited);
  tracks->recorded = ovl_memory_array(memory, stages, sizeof *tracks->recorded);
  tracks->source = ovl_memory_array(memory, stages, sizeof *tracks->source);
  tracks->sink = ovl_memory_array(memory, stages, sizeof *tracks->sink);
  tracks->marks = ovl_memory_array(memory, places, sizeof *tracks->marks);
  tracks->noted = ovl_memory_array(memory, lanes, sizeof *tracks->noted);
  tracks->noted_lanes = ovl_memory_array(memory, lanes, sizeof *tracks->noted_lanes);
  bool whole = tracks->lanes != NULL && tracks->waited != NULL && tracks->recorded != NULL &&
               tracks->source != NULL && tracks->sink != NULL && tracks->marks != NULL &&
               tracks->noted != NULL && tracks->noted_lanes != NULL;
  if (timed) {
    tracks->starts = ovl_memory_array(memory, places, sizeof(void *));
    whole = whole && tracks->starts != NULL;
  }
  for (int set = 0; set < OVL_EVENT_SETS; set++) {
    tracks->events[set] = ovl_memory_array(memory, places, sizeof(void *));
    tracks->tails[set] = ovl_memory_array(memory, lanes, sizeof(void *));
    whole = whole && tracks->events[set] != NULL && tracks->tails[set] != NULL;
  }
  return whole ? 0 : OVL_ENOMEM;
}

int ovl_tracks_init(ovl_tracks_t *tracks, const ovl_plan_t *plan, const ovl_track_options_t *options,
                    const ovl_memory_t *memory) {
  memset(tracks, 0, sizeof *tracks);
  tracks->plan = plan;
  tracks->memory = *memory;
  tracks->origins = options->domains == NULL;
  int r = tables_init(tracks, options->ahead, options->timed);
  if (r == 0) {
    for (uint32_t l = 0; l < plan->lane_count; l++) {
      bool mine = options->domains == NULL || options->domains[l] == options->domain;
      tracks->lanes[l] = (ovl_track_t){.device = mine ? options->lanes[l].device : NULL,
                                       .waited = &tracks->waited[(size_t)l * plan->lane_count]};
    }
    find_recorded(tracks, &plan->graphs[OVL_OVERLAP], options->watches);
    find_recorded(tracks, &plan->graphs[OVL_SERIAL], options->watches);
  }
  bool captures = r == 0 && tracks->origins && tracks->lanes[0].device->is_capturing != NULL;
  for (int set = 0; r == 0 && set < (captures ? OVL_EVENT_SETS : 1); set++)
    r = create_events(tracks, set);
  if (r == 0 && options->timed)
    r = create_timing_events(tracks);
  if (r != 0)
    ovl_tracks_finish(tracks, false);
  return r;
}

static void destroy_events(ovl_tracks_t *tracks, int set) {
  const ovl_plan_t *plan = tracks->plan;
  for (uint32_t s = 0; tracks->events[set] != NULL && s < plan->stage_count; s++)
    for (uint32_t i = 0; i < tracks->ring; i++)
      destroy(tracks, ovl_track_lane_of(plan, s), tracks->events[set][(size_t)s * tracks->ring + i]);
  for (uint32_t l = 0; tracks->tails[set] != NULL && l < plan->lane_count; l++)
    destroy(tracks, l, tracks->tails[set][l]);
  if (tracks->origins)
    destroy(tracks, 0, tracks->fork[set]);
  if (tracks->origins && set == OVL_EAGER)
    destroy(tracks, 0, tracks->end);
}

static void destroy_timing_events(ovl_tracks_t *tracks) {
  const ovl_plan_t *plan = tracks->plan;
  for (uint32_t s = 0; tracks->starts != NULL && s < plan->stage_count; s++)
    for (uint32_t i = 0; i < tracks->ring; i++)
      destroy(tracks, ovl_track_lane_of(plan, s), tracks->starts[(size_t)s * tracks->ring + i]);
  for (uint32_t l = 0; l < plan->lane_count; l++)
    destroy(tracks, l, tracks->lanes[l].base);
}

void ovl_tracks_finish(ovl_tracks_t *tracks, bool leave_events) {
  const ovl_memory_t memory = tracks->memory;
  tracks->current = NULL;
  if (tracks->lanes != NULL && !leave_events)
    destroy_timing_events(tracks);
  for (int set = 0; set < OVL_EVENT_SETS; set++) {
    if (tracks->lanes != NULL && !leave_events)
      destroy_events(tracks, set);
    ovl_memory_free(&memory, tracks->tails[set]);
    ovl_memory_free(&memory, tracks->events[set]);
  }
  ovl_memory_free(&memory, tracks->starts);
  ovl_memory_free(&memory, tracks->noted_lanes);
  ovl_memory_free(&memory, tracks->noted);
  ovl_memory_free(&memory, tracks->marks);
  ovl_memory_free(&memory, tracks->sink);
  ovl_memory_free(&memory, tracks->source);
  ovl_memory_free(&memory, tracks->recorded);
  ovl_memory_free(&memory, tracks->waited);
  ovl_memory_free(&memory, tracks->lanes);
  memset(tracks, 0, sizeof *tracks);
}
