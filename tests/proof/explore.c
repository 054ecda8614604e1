/* SPDX-License-Identifier: MIT */
/* Depth first. All that changes lies in one block of memory, the pair and what it has allocated, so going back is
 * copying it. A state that was met before, with all that has happened to every op, is not entered again. */
#include "proof/explore.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ovl/errors.h"

enum { MOST_EVENTS = 128, ARENA_BYTES = 1 << 16, MOST_STATES = 1 << 22 };

/* What has happened so far beyond what the spec knows. */
typedef struct spent {
  uint32_t failures, cancels, expiries;
  uint8_t expired[SPEC_MICROBATCHES]; /* bits, by stage */
} spent_t;

/* The block. */
typedef struct world {
  pair_t pair;
  spent_t spent;
  size_t used; /* of `arena` */
  _Alignas(max_align_t) unsigned char arena[ARENA_BYTES];
} world_t;

typedef enum event_kind { TAKE, END, END_WITH_ERROR, EXPIRE, CANCEL, TELL, RETIRE } event_kind_t;

typedef struct event {
  event_kind_t kind;
  uint32_t lane; /* of TAKE */
  spec_op_t op;  /* of the three after it */
} event_t;

struct explorer {
  world_t world;
  pair_frame_t frame;
  explore_limits_t limits;
  explore_result_t *result;
  unsigned char *saved[MOST_EVENTS]; /* worlds, by depth */
  event_t path[MOST_EVENTS];
  uint64_t *seen; /* an open table of hashes; those of other rounds count as empty */
  uint32_t *round_of;
  uint32_t round, seen_count;
};

/* ---- memory: nothing is given back before the end -------------------------------------------------------------------- */

static void *take_from_arena(void *context, size_t bytes) {
  world_t *world = context;
  size_t size = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (size > sizeof world->arena - world->used)
    return NULL;
  world->used += size;
  return world->arena + world->used - size;
}

static void give_to_arena(void *context, void *block) {
  (void)context;
  (void)block;
}

static size_t world_bytes(const world_t *world) { return offsetof(world_t, arena) + world->used; }

/* ---- states met ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
  hash ^= hash >> 32;
  hash *= UINT64_C(0xd6e8feb86659fd93);
  return hash ^ (hash >> 29);
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  for (uint64_t word; count > 0; count -= count < sizeof word ? count : sizeof word) {
    word = 0;
    memcpy(&word, at, count < sizeof word ? count : sizeof word);
    at += sizeof word;
    hash = mix(hash, word);
  }
  return hash;
}

/* All that decides what may follow, and all that has happened to each op; no times. */
static uint64_t hash_of(const explorer_t *x) {
  const pair_t *pair = &x->world.pair;
  const spec_t *spec = &pair->spec;
  uint64_t hash = mix_bytes(1, spec->microbatches, spec->admitted * sizeof *spec->microbatches);
  hash = mix_bytes(hash, spec->ready, spec->ready_count * sizeof *spec->ready);
  hash = mix(hash, (uint64_t)spec->admitted << 32 | (uint64_t)spec->stopped << 16 | spec->ready_count);
  hash = mix_bytes(hash, &x->world.spent, offsetof(spent_t, expired) + spec->admitted);
  for (uint32_t l = 0; l < x->frame.run.lane_count; l++)
    hash = mix(hash, spec->position[l]);
  for (uint32_t l = 0; pair->ordered && l < x->frame.run.lane_count; l++)
    hash = mix(hash, pair->orders.lanes[l].at << 32 | pair->orders.lanes[l].ring.count);
  for (const ovl_core_slot_t *slot = pair->core.ended_head; slot != NULL; slot = slot->next_ended)
    hash = mix(hash, slot->microbatch);
  return hash;
}

/* True: it is new. */
static bool enter_state(explorer_t *x) {
  uint64_t hash = hash_of(x);
  uint32_t at = (uint32_t)(hash >> 20) % MOST_STATES;
  for (; x->round_of[at] == x->round; at = (at + 1) % MOST_STATES)
    if (x->seen[at] == hash)
      return false;
  if (++x->seen_count > MOST_STATES / 4 * 3) {
    x->world.pair.wrong = "there are more states than the table has room for";
    return false;
  }
  x->seen[at] = hash;
  x->round_of[at] = x->round;
  x->result->states++;
  return true;
}

/* ---- events ---------------------------------------------------------------------------------------------------------- */

static void add_takes(const explorer_t *x, event_t *events, uint32_t *count) {
  spec_op_t op;
  for (uint32_t l = 0; l < x->frame.run.lane_count; l++)
    if (spec_next(&x->world.pair.spec, &x->frame.run, l, &op))
      events[(*count)++] = (event_t){.kind = TAKE, .lane = l};
}

static void add_ends(const explorer_t *x, event_t *events, uint32_t *count) {
  const spec_t *spec = &x->world.pair.spec;
  const spent_t *spent = &x->world.spent;
  for (uint32_t i = spec->oldest; i < spec->admitted; i++)
    for (uint32_t s = 0; s < x->frame.run.stage_count; s++) {
      spec_op_t op = {.microbatch = (uint8_t)i, .stage = (uint8_t)s};
      bool expired = spent->expired[i] >> s & 1;
      if (spec->microbatches[i].ops[s] != SPEC_RUNNING)
        continue;
      events[(*count)++] = (event_t){.kind = END, .op = op};
      if (spent->failures < x->limits.failures && !expired)
        events[(*count)++] = (event_t){.kind = END_WITH_ERROR, .op = op};
      if (spent->expiries < x->limits.expiries && !expired)
        events[(*count)++] = (event_t){.kind = EXPIRE, .op = op};
    }
}

/* Errors are told before microbatches are reported. */
static void add_reports(const explorer_t *x, event_t *events, uint32_t *count) {
  const ovl_core_t *core = &x->world.pair.core;
  if (core->tell_cancel || core->tell_head != NULL)
    events[(*count)++] = (event_t){.kind = TELL};
  else if (core->ended_head != NULL)
    events[(*count)++] = (event_t){.kind = RETIRE};
}

static uint32_t list_events(const explorer_t *x, event_t *events) {
  uint32_t count = 0;
  if (pair_is_over(&x->world.pair))
    return 0;
  add_takes(x, events, &count);
  if (x->limits.eager && count > 0)
    return 1;
  add_ends(x, events, &count);
  add_reports(x, events, &count);
  if (x->world.spent.cancels < x->limits.cancels)
    events[count++] = (event_t){.kind = CANCEL};
  return count;
}

static void bring(world_t *world, const event_t *event) {
  switch (event->kind) {
  case TAKE:
    pair_take(&world->pair, event->lane, NULL);
    return;
  case END:
    pair_end(&world->pair, event->op, 0);
    return;
  case END_WITH_ERROR:
    world->spent.failures++;
    pair_end(&world->pair, event->op, -5);
    return;
  case EXPIRE:
    world->spent.expiries++;
    world->spent.expired[event->op.microbatch] |= (uint8_t)(1u << event->op.stage);
    pair_expire(&world->pair, event->op);
    return;
  case CANCEL:
    world->spent.cancels++;
    pair_cancel(&world->pair);
    return;
  case TELL:
    pair_tell(&world->pair);
    return;
  case RETIRE:
    pair_retire(&world->pair);
    return;
  }
}

/* ---- what went wrong -------------------------------------------------------------------------------------------------- */

static void write_event(const event_t *event, char *text, size_t room) {
  static const char *const names[] = {"take", "end", "fail", "expire", "cancel", "tell", "retire"};
  if (event->kind == TAKE)
    snprintf(text, room, "take from lane %u; ", (unsigned)event->lane);
  else if (event->kind <= EXPIRE)
    snprintf(text, room, "%s %u.%u; ", names[event->kind], event->op.microbatch, event->op.stage);
  else
    snprintf(text, room, "%s; ", names[event->kind]);
}

static void write_path(explorer_t *x, uint32_t length) {
  explore_result_t *result = x->result;
  result->wrong = x->world.pair.wrong;
  result->path[0] = '\0';
  for (uint32_t k = 0; k < length; k++) {
    size_t at = strlen(result->path);
    write_event(&x->path[k], result->path + at, sizeof result->path - at);
  }
}

/* ---- the search ------------------------------------------------------------------------------------------------------- */

static void save(explorer_t *x, uint32_t depth) {
  if (x->saved[depth] == NULL)
    x->saved[depth] = malloc(sizeof(world_t));
  assert(x->saved[depth] != NULL);
  memcpy(x->saved[depth], &x->world, world_bytes(&x->world));
}

static void go_back(explorer_t *x, uint32_t depth) {
  memcpy(&x->world, x->saved[depth], world_bytes(&x->world));
}

/* From the state in hand; false: something is wrong. */
static bool search(explorer_t *x, uint32_t depth) {
  event_t events[SPEC_LANES + 3 * SPEC_LANES * 8 + 2];
  uint32_t count = list_events(x, events);
  size_t used = x->world.used;
  assert(depth + 1 < MOST_EVENTS);
  if (count > 1)
    save(x, depth);
  for (uint32_t k = 0; k < count; k++) {
    if (k > 0)
      go_back(x, depth);
    x->path[depth] = events[k];
    bring(&x->world, &events[k]);
    x->result->events++;
    if (x->world.used != used)
      x->world.pair.wrong = "memory was allocated while the run was under way";
    bool is_new = x->world.pair.wrong == NULL && enter_state(x);
    if (x->world.pair.wrong != NULL) {
      write_path(x, depth + 1);
      return false;
    }
    if (is_new && !search(x, depth + 1))
      return false;
  }
  return true;
}

static void start_over(explorer_t *x) {
  x->world.used = 0;
  memset(&x->world.spent, 0, sizeof x->world.spent);
  x->seen_count = 0;
  x->round++;
}

void explore(explorer_t *x, const pair_shape_t *shape, const explore_limits_t *limits, pair_mutant_t mutant,
             explore_result_t *result) {
  const ovl_memory_t memory = {.allocate = take_from_arena, .release = give_to_arena, .context = &x->world};
  *result = (explore_result_t){0};
  x->result = result;
  x->limits = *limits;
  start_over(x);
  int r = pair_frame_init(&x->frame, shape, mutant);
  if (r != (pair_frame_has_cycle(&x->frame) ? OVL_ECYCLE : 0))
    result->wrong = "a cycle is not refused, or what is none is";
  if (r != 0)
    return;
  r = pair_init(&x->world.pair, &x->frame, &memory);
  assert(r == 0);
  pair_begin(&x->world.pair);
  if (x->world.pair.wrong == NULL && enter_state(x))
    search(x, 0);
  if (result->wrong == NULL && x->world.pair.wrong != NULL)
    write_path(x, 0);
  pair_finish(&x->world.pair);
  pair_frame_finish(&x->frame);
}

explorer_t *explorer_new(void) {
  explorer_t *x = aligned_alloc(_Alignof(explorer_t), sizeof *x);
  if (x == NULL)
    return NULL;
  memset(x, 0, sizeof *x);
  x->seen = calloc(MOST_STATES, sizeof *x->seen);
  x->round_of = calloc(MOST_STATES, sizeof *x->round_of);
  if (x->seen == NULL || x->round_of == NULL) {
    explorer_free(x);
    return NULL;
  }
  return x;
}

void explorer_free(explorer_t *x) {
  if (x == NULL)
    return;
  for (uint32_t depth = 0; depth < MOST_EVENTS; depth++)
    free(x->saved[depth]);
  free(x->seen);
  free(x->round_of);
  free(x);
}
