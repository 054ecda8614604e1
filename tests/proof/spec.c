/* SPDX-License-Identifier: MIT */
/* The rules of a run, slow and plain. */
#include "proof/spec.h"

#include <assert.h>
#include <string.h>

/* ---- what is run ------------------------------------------------------------------------------------------------ */

static void add_source(spec_run_t *run, uint32_t stage, uint32_t before, uint32_t distance) {
  assert(run->source_count[stage] < SPEC_SOURCES);
  run->sources[stage][run->source_count[stage]++] = (ovl_edge_t){.stage = before, .distance = distance};
}

static bool may_be_next(const spec_run_t *run, uint32_t stage, const bool *placed) {
  if (placed[stage])
    return false;
  for (uint32_t k = 0; k < run->source_count[stage]; k++)
    if (run->sources[stage][k].distance == 0 && !placed[run->sources[stage][k].stage])
      return false;
  return true;
}

static void find_sequence(spec_run_t *run) {
  bool placed[SPEC_STAGES] = {false};
  run->sequence_count = 0;
  for (uint32_t s = 0; s < run->stage_count; s++)
    if (may_be_next(run, s, placed)) {
      placed[s] = true;
      run->sequence[run->sequence_count++] = (uint8_t)s;
      s = UINT32_MAX; /* from the lowest again */
    }
}

static void make_serial(spec_run_t *run) {
  run->window = 1;
  memset(run->source_count, 0, sizeof run->source_count);
  for (uint32_t k = 1; k < run->sequence_count; k++)
    add_source(run, run->sequence[k], run->sequence[k - 1], 0);
}

void spec_run_init(spec_run_t *run, const ovl_description_t *d, ovl_mode_t mode, uint32_t count,
                   const ovl_core_options_t *options, const spec_order_t *orders) {
  assert(d->lane_count <= SPEC_LANES && d->stage_count <= SPEC_STAGES && count <= SPEC_MICROBATCHES);
  memset(run, 0, sizeof *run);
  run->lane_count = d->lane_count;
  run->stage_count = d->stage_count;
  run->window = d->window;
  run->count = count;
  run->keep_going = options->keep_going;
  run->report = options->report;
  run->tell = options->tell;
  for (uint32_t l = 0; l < d->lane_count; l++) {
    run->width[l] = d->lanes[l].width;
    run->fixed[l] = d->lanes[l].fixed && mode == OVL_OVERLAP;
    run->orders[l] = &orders[l];
  }
  for (uint32_t s = 0; s < d->stage_count; s++) {
    run->lane[s] = (uint8_t)d->stages[s].lane;
    run->always[s] = d->stages[s].always;
    if (s > 0 && d->stages[s].chained)
      add_source(run, s, s - 1, 0);
  }
  for (uint32_t k = 0; k < d->dependency_count; k++)
    add_source(run, d->dependencies[k].after, d->dependencies[k].before, d->dependencies[k].distance);
  find_sequence(run);
  if (mode == OVL_SERIAL)
    make_serial(run);
}

void spec_order_by_microbatch(const spec_run_t *run, uint32_t lane, spec_order_t *order) {
  order->count = 0;
  for (uint32_t i = 0; i < run->count; i++)
    for (uint32_t k = 0; k < run->sequence_count; k++)
      if (run->lane[run->sequence[k]] == lane)
        order->ops[order->count++] = (spec_op_t){.microbatch = (uint8_t)i, .stage = run->sequence[k]};
}

/* ---- what follows from an event ----------------------------------------------------------------------------------- */

static uint8_t *state_of(spec_t *spec, spec_op_t op) {
  return &spec->microbatches[op.microbatch].ops[op.stage];
}

static spec_state_t seen(const spec_t *spec, spec_op_t op) {
  return (spec_state_t)spec->microbatches[op.microbatch].ops[op.stage];
}

static bool has_ended(uint8_t state) { return state == SPEC_RAN || state == SPEC_SKIPPED; }

static bool sources_ended(const spec_t *spec, const spec_run_t *run, uint32_t i, uint32_t stage) {
  for (uint32_t k = 0; k < run->source_count[stage]; k++) {
    ovl_edge_t source = run->sources[stage][k];
    if (source.distance <= i && !has_ended(spec->microbatches[i - source.distance].ops[source.stage]))
      return false;
  }
  return true;
}

static void forget_ready(spec_t *spec, spec_op_t op) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < spec->ready_count; k++)
    if (spec->ready[k].microbatch != op.microbatch || spec->ready[k].stage != op.stage)
      spec->ready[kept++] = spec->ready[k];
  spec->ready_count = kept;
}

static bool update_op(spec_t *spec, const spec_run_t *run, spec_op_t op) {
  const spec_microbatch_t *m = &spec->microbatches[op.microbatch];
  uint8_t *state = state_of(spec, op);
  bool runs = m->fate == SPEC_FINE || run->always[op.stage];
  bool ready = *state == SPEC_READY || *state == SPEC_FRESH;
  if (ready ? runs : *state != SPEC_WAITING || !sources_ended(spec, run, op.microbatch, op.stage))
    return false;
  if (ready)
    forget_ready(spec, op);
  *state = runs ? SPEC_FRESH : SPEC_SKIPPED;
  spec->skipped += !runs;
  return true;
}

static void retire(spec_t *spec, spec_microbatch_t *m) {
  m->retired = true;
  spec->retired++;
  spec->failed += m->fate != SPEC_FINE;
}

static bool update_microbatch(spec_t *spec, const spec_run_t *run, uint32_t i) {
  spec_microbatch_t *m = &spec->microbatches[i];
  bool changed = false, ended = true;
  for (uint32_t s = 0; s < run->stage_count; s++) {
    changed |= update_op(spec, run, (spec_op_t){.microbatch = (uint8_t)i, .stage = (uint8_t)s});
    ended &= has_ended(m->ops[s]);
  }
  if (ended && !m->ended) {
    m->ended = changed = true;
    if (!run->report && !m->owes_fault)
      retire(spec, m);
  }
  return changed;
}

static bool admit(spec_t *spec, const spec_run_t *run) {
  if (spec->stopped || spec->admitted == run->count)
    return false;
  if (spec->admitted >= run->window && !spec->microbatches[spec->admitted - run->window].retired)
    return false;
  memset(spec->microbatches[spec->admitted++].ops, SPEC_WAITING, run->stage_count);
  return true;
}

static void list_fresh(spec_t *spec, const spec_run_t *run) {
  for (uint32_t i = spec->oldest; i < spec->admitted; i++)
    for (uint32_t s = 0; s < run->stage_count; s++) {
      spec_op_t op = {.microbatch = (uint8_t)i, .stage = (uint8_t)s};
      if (*state_of(spec, op) != SPEC_FRESH)
        continue;
      *state_of(spec, op) = SPEC_READY;
      spec->ready[spec->ready_count++] = op;
    }
}

static void pass_turns(spec_t *spec, const spec_run_t *run, uint32_t lane) {
  const spec_order_t *order = run->orders[lane];
  for (; spec->position[lane] < order->count; spec->position[lane]++) {
    spec_op_t op = order->ops[spec->position[lane]];
    spec_state_t state = seen(spec, op);
    if (state == SPEC_ABSENT ? !spec->stopped : state < SPEC_RUNNING)
      return;
  }
}

static void settle(spec_t *spec, const spec_run_t *run) {
  for (bool changed = true; changed;) {
    changed = admit(spec, run);
    for (uint32_t i = spec->oldest; i < spec->admitted; i++)
      if (!spec->microbatches[i].ended)
        changed |= update_microbatch(spec, run, i);
  }
  list_fresh(spec, run);
  while (spec->oldest < spec->admitted && spec->microbatches[spec->oldest].retired)
    spec->oldest++;
  for (uint32_t l = 0; l < run->lane_count; l++)
    if (run->fixed[l])
      pass_turns(spec, run, l);
}

/* ---- failing ------------------------------------------------------------------------------------------------------- */

static bool has_something_to_start(const spec_run_t *run, const spec_microbatch_t *m) {
  for (uint32_t s = 0; s < run->stage_count; s++)
    if (m->ops[s] == SPEC_WAITING || m->ops[s] == SPEC_READY)
      return true;
  return false;
}

static void stop(spec_t *spec, const spec_run_t *run) {
  spec->stopped = true;
  for (uint32_t i = spec->oldest; i < spec->admitted; i++)
    if (spec->microbatches[i].fate == SPEC_FINE && has_something_to_start(run, &spec->microbatches[i]))
      spec->microbatches[i].fate = SPEC_STOPPED;
}

static void fail(spec_t *spec, const spec_run_t *run, spec_op_t op) {
  spec_microbatch_t *m = &spec->microbatches[op.microbatch];
  if (m->fate != SPEC_FINE)
    return;
  m->owes_fault = run->tell && (run->keep_going || !spec->stopped);
  m->fate = SPEC_FAILED;
  if (!run->keep_going && !spec->stopped)
    stop(spec, run);
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

void spec_begin(spec_t *spec, const spec_run_t *run) {
  memset(spec, 0, sizeof *spec);
  settle(spec, run);
}

static bool next_on_fixed(const spec_t *spec, const spec_run_t *run, uint32_t lane, spec_op_t *op) {
  if (spec->position[lane] == run->orders[lane]->count)
    return false;
  *op = run->orders[lane]->ops[spec->position[lane]];
  return seen(spec, *op) == SPEC_READY;
}

bool spec_next(const spec_t *spec, const spec_run_t *run, uint32_t lane, spec_op_t *op) {
  if (spec->running[lane] >= run->width[lane])
    return false;
  if (run->fixed[lane])
    return next_on_fixed(spec, run, lane, op);
  for (uint32_t k = 0; k < spec->ready_count; k++)
    if (run->lane[spec->ready[k].stage] == lane) {
      *op = spec->ready[k];
      return true;
    }
  return false;
}

uint32_t spec_startable(const spec_t *spec, const spec_run_t *run, uint32_t lane) {
  spec_op_t op;
  uint32_t ready = 0, places = run->width[lane] - spec->running[lane];
  if (run->fixed[lane])
    return spec_next(spec, run, lane, &op);
  for (uint32_t k = 0; k < spec->ready_count; k++)
    ready += run->lane[spec->ready[k].stage] == lane;
  return ready < places ? ready : places;
}

void spec_taken(spec_t *spec, const spec_run_t *run, spec_op_t op) {
  forget_ready(spec, op);
  *state_of(spec, op) = SPEC_RUNNING;
  spec->running[run->lane[op.stage]]++;
  settle(spec, run);
}

void spec_ended(spec_t *spec, const spec_run_t *run, spec_op_t op, bool failed) {
  spec->running[run->lane[op.stage]]--;
  if (failed)
    fail(spec, run, op);
  *state_of(spec, op) = SPEC_RAN;
  spec->ops++;
  settle(spec, run);
}

void spec_expired(spec_t *spec, const spec_run_t *run, spec_op_t op) {
  fail(spec, run, op);
  settle(spec, run);
}

void spec_cancelled(spec_t *spec, const spec_run_t *run) {
  if (!spec->stopped)
    stop(spec, run);
  settle(spec, run);
}

void spec_told(spec_t *spec, const spec_run_t *run, uint32_t microbatch) {
  spec_microbatch_t *m = &spec->microbatches[microbatch];
  m->owes_fault = false;
  if (m->ended && !run->report)
    retire(spec, m);
  settle(spec, run);
}

void spec_retired(spec_t *spec, const spec_run_t *run, uint32_t microbatch) {
  retire(spec, &spec->microbatches[microbatch]);
  settle(spec, run);
}

/* ---- questions ------------------------------------------------------------------------------------------------------ */

bool spec_is_over(const spec_t *spec, const spec_run_t *run) {
  return spec->retired == spec->admitted && (spec->stopped || spec->admitted == run->count);
}

const char *spec_left_undone(const spec_t *spec, const spec_run_t *run) {
  for (uint32_t i = 0; i < spec->admitted; i++) {
    const spec_microbatch_t *m = &spec->microbatches[i];
    for (uint32_t s = 0; s < run->stage_count; s++) {
      if (!has_ended(m->ops[s]))
        return "an op never ended";
      if (m->ops[s] == SPEC_SKIPPED && m->fate == SPEC_FINE)
        return "an op of a microbatch without an error never ran";
      if (m->ops[s] == SPEC_SKIPPED && run->always[s])
        return "an op of a stage marked `always` never ran";
    }
    if (!m->retired)
      return "a microbatch never retired";
  }
  return NULL;
}

/* ---- comparing ------------------------------------------------------------------------------------------------------ */

#define REQUIRE(condition, text) \
  do {                           \
    if (!(condition))            \
      return text;               \
  } while (0)

static uint8_t core_state(uint8_t state) {
  static const uint8_t states[] = {
      [SPEC_ABSENT] = OVL_OP_IDLE, [SPEC_WAITING] = OVL_OP_WAITING, [SPEC_FRESH] = OVL_OP_READY,
      [SPEC_READY] = OVL_OP_READY, [SPEC_RUNNING] = OVL_OP_RUNNING, [SPEC_RAN] = OVL_OP_DONE,
      [SPEC_SKIPPED] = OVL_OP_DONE};
  return states[state];
}

static const char *compare_microbatch(const spec_t *spec, const spec_run_t *run, const ovl_core_t *core,
                                      uint32_t i) {
  const spec_microbatch_t *m = &spec->microbatches[i];
  uint32_t index = i % core->plan->window;
  const ovl_core_slot_t *slot = &core->slots[index];
  if (m->retired)
    return slot->microbatch == i && slot->state != OVL_SLOT_FREE ? "a retired microbatch has a slot" : NULL;
  REQUIRE(slot->microbatch == i && slot->state != OVL_SLOT_FREE, "a slot has not the microbatch it should");
  REQUIRE((slot->state == OVL_SLOT_ENDED) == m->ended, "a microbatch has ended too soon, or not");
  REQUIRE((slot->fault.status != 0) == (m->fate != SPEC_FINE), "a microbatch has an error, or should");
  for (uint32_t s = 0; s < run->stage_count; s++)
    REQUIRE(core->ops[(size_t)index * run->stage_count + s].state == core_state(m->ops[s]),
            "an op is not in the state that it should be in");
  return NULL;
}

static const char *compare_lane(const spec_t *spec, const spec_run_t *run, const ovl_core_t *core,
                                uint32_t lane) {
  spec_op_t next;
  bool any = spec_next(spec, run, lane, &next);
  REQUIRE(core->lanes[lane].startable == spec_startable(spec, run, lane),
          "a lane may start more or fewer ops than it should");
  if (!any)
    return NULL;
  const ovl_core_op_t *head = core->lanes[lane].head;
  REQUIRE(ovl_core_op_microbatch(core, head) == next.microbatch && head->stage == next.stage,
          "another op is next on a lane than should be");
  return NULL;
}

const char *spec_compare(const spec_t *spec, const spec_run_t *run, const ovl_core_t *core) {
  REQUIRE(core->next == spec->admitted, "other microbatches are admitted than should be");
  REQUIRE(core->in_flight == spec->admitted - spec->retired, "the count of microbatches in flight is wrong");
  REQUIRE(core->stopped == spec->stopped, "the run is stopped, or should be");
  REQUIRE(core->tally.ops == spec->ops, "the count of ops is wrong");
  REQUIRE(core->tally.skipped == spec->skipped, "the count of skipped ops is wrong");
  REQUIRE(core->tally.retired == spec->retired, "the count of retired microbatches is wrong");
  REQUIRE(core->tally.failed == spec->failed, "the count of failed microbatches is wrong");
  REQUIRE(ovl_core_over(core) == spec_is_over(spec, run), "the run is over too soon, or too late");
  const char *wrong = NULL;
  for (uint32_t i = spec->oldest; wrong == NULL && i < spec->admitted; i++)
    wrong = compare_microbatch(spec, run, core, i);
  for (uint32_t l = 0; wrong == NULL && l < run->lane_count; l++)
    wrong = compare_lane(spec, run, core, l);
  return wrong;
}
