/* SPDX-License-Identifier: MIT */
/* The heart of the core: what becomes ready when an op ends, who is admitted when a slot is free, and
 * what is skipped when something fails.
 *
 * Every op of an admitted microbatch ends exactly once, in settle(): because it ran, or because it was
 * skipped. Cascades (a skipped op ends the next one, which ends its microbatch, which admits another) go
 * through the list of ops to skip, so the stack stays flat however long they are. Skipping takes effect
 * when an op would become ready, so whatever waits for a skipped op still waits for all that came before
 * it, and `always` stages run in their place. */
#include "core/core.h"

#include <string.h>

#include "core/idle.h"
#include "core/lists.h"
#include "core/record.h"
#include "ovl/errors.h"

#ifdef OVL_CHECK
#include <stdio.h>
#include <stdlib.h>
static void checked(const ovl_core_t *core) {
  const char *wrong = ovl_core_check(core);
  if (wrong != NULL) {
    fprintf(stderr, "libovl: invariant broken: %s\n", wrong);
    abort();
  }
}
#else
static void checked(const ovl_core_t *core) { (void)core; }
#endif

void ovl_core_advance(ovl_core_t *core, uint64_t now) { core->now = ovl_core_max(core->now, now); }

static ovl_core_op_t *op_at(const ovl_core_t *core, uint32_t slot, uint32_t stage) {
  return &core->ops[(size_t)slot * core->plan->stage_count + stage];
}

static bool runs_anyway(const ovl_core_t *core, const ovl_core_op_t *op) {
  return core->plan->stages[op->stage].always;
}

/* ---- becoming ready -------------------------------------------------------------------------------- */

static void push_skip(ovl_core_t *core, ovl_core_op_t *op) {
  op->next = NULL;
  if (core->skip_tail != NULL)
    core->skip_tail->next = op;
  else
    core->skip_head = op;
  core->skip_tail = op;
}

static ovl_core_op_t *pop_skip(ovl_core_t *core) {
  ovl_core_op_t *op = core->skip_head;
  if (op != NULL && (core->skip_head = op->next) == NULL)
    core->skip_tail = NULL;
  return op;
}

/* `ended` is the last op that it waited for; NULL: it did not have to wait. */
static void become_ready(ovl_core_t *core, ovl_core_op_t *op, const ovl_core_op_t *ended) {
  const ovl_core_slot_t *slot = ovl_core_op_slot(core, op);
  if (slot->fault.status != 0 && !runs_anyway(core, op)) {
    push_skip(core, op);
    return;
  }
  op->state = OVL_OP_READY;
  op->instant = core->instant;
  op->ready_at = core->now;
  if (core->options.trace > 0)
    op->failed = 0;
  ovl_lane_push(core, op);
  ovl_idle_attribute(core, op, ended);
}

/* ---- admission ------------------------------------------------------------------------------------- */

/* What op waits for in earlier microbatches that have not ended it. Those up to i - window have retired,
 * so a source is in the slot `distance` back, where it stays until i + window - distance is admitted. */
static void count_waits(ovl_core_t *core, ovl_core_op_t *op, uint32_t slot, uint32_t stage) {
  const ovl_edges_t *in = &core->graph->in;
  op->waits = in->first[stage + 1] - in->first[stage];
  if (!core->graph->crosses)
    return;
  for (uint32_t e = in->first[stage]; e < in->first[stage + 1]; e++) {
    uint32_t distance = in->edges[e].distance;
    if (distance == 0)
      continue;
    if (distance > core->slots[slot].microbatch) {
      op->waits--;
      continue;
    }
    uint32_t from = slot >= distance ? slot - distance : slot + core->plan->rows - distance;
    const ovl_core_op_t *source = op_at(core, from, in->edges[e].stage);
    if (source->state == OVL_OP_DONE) {
      op->waits--;
      op->bound = ovl_core_max(op->bound, source->bound);
    }
  }
}

static void prepare_op(ovl_core_t *core, uint32_t slot, uint32_t stage, uint64_t bound) {
  ovl_core_op_t *op = op_at(core, slot, stage);
  op->state = OVL_OP_WAITING;
  op->bound = bound;
  ovl_idle_pass(core, &core->lanes[op->lane]);
  core->lanes[op->lane].unstarted++;
  count_waits(core, op, slot, stage);
}

/* Of the microbatch that has to retire before the next one can be admitted; NULL: there is none. */
static const ovl_core_slot_t *slot_before(const ovl_core_t *core) {
  uint32_t back = core->graph->limit, slot = core->next_slot;
  if (core->next < back)
    return NULL;
  return &core->slots[slot >= back ? slot - back : slot + core->plan->rows - back];
}

/* That, and its own arrival. */
static uint64_t admission_bound(const ovl_core_t *core, uint64_t arrived) {
  const ovl_core_slot_t *before = slot_before(core);
  return ovl_core_max(before != NULL ? before->bound : core->started, arrived);
}

static void slot_ended(ovl_core_t *core, ovl_core_slot_t *slot);

static void admit_one(ovl_core_t *core) {
  uint32_t index = core->next_slot, stages = core->plan->stage_count;
  ovl_core_slot_t *slot = &core->slots[index];
  ovl_core_item_t from = {.item = NULL, .arrived = core->started};
  if (core->count == OVL_STREAMING)
    from = ovl_items_pop(core);
  slot->bound = admission_bound(core, from.arrived);
  slot->microbatch = core->next++;
  slot->item = from.item;
  if (slot->fault.status != 0)
    slot->fault = (ovl_fault_t){0};
  slot->left = slot->unstarted = stages;
  slot->state = OVL_SLOT_ACTIVE;
  core->next_slot = index + 1 == core->plan->rows ? 0 : index + 1;
  core->in_flight++;
  for (uint32_t s = 0; s < stages; s++)
    prepare_op(core, index, s, slot->bound);
  for (uint32_t s = 0; s < stages; s++)
    if (op_at(core, index, s)->waits == 0)
      become_ready(core, op_at(core, index, s), NULL);
  if (stages == 0)
    slot_ended(core, slot);
}

static bool may_admit(const ovl_core_t *core) {
  if (core->stopped || !core->active || core->in_flight >= core->graph->limit)
    return false;
  const ovl_core_slot_t *before = slot_before(core);
  if (core->slots[core->next_slot].state != OVL_SLOT_FREE ||
      (before != NULL && before->state != OVL_SLOT_FREE))
    return false;
  return core->count == OVL_STREAMING ? core->item_count > 0 : core->next < core->count;
}

/* A counted run without stages and reports has nothing to say about any single microbatch. */
static void admit_empty_run(ovl_core_t *core) {
  if (core->plan->stage_count == 0 && !core->options.report && core->count != OVL_STREAMING &&
      !core->stopped && core->active) {
    core->tally.retired += core->count - core->next;
    core->next = core->count;
  }
}

/* ---- ending ---------------------------------------------------------------------------------------- */

static void free_slot(ovl_core_t *core, ovl_core_slot_t *slot) {
  slot->state = OVL_SLOT_FREE;
  core->in_flight--;
  core->tally.retired++;
  core->tally.failed += slot->fault.status != 0;
}

static void slot_ended(ovl_core_t *core, ovl_core_slot_t *slot) {
  if (!core->options.report && !slot->tell) {
    free_slot(core, slot);
    return;
  }
  slot->state = OVL_SLOT_ENDED;
  if (core->options.report)
    ovl_ended_push(core, slot);
}

/* Tells those that wait for op that it has ended. Out-edges are sorted, so ops become ready in the order of
 * their microbatches, then stages. */
static void release_dependents(ovl_core_t *core, const ovl_core_op_t *op) {
  const ovl_edges_t *out = &core->graph->out;
  uint32_t rows = core->plan->rows;
  uint64_t microbatch = ovl_core_op_microbatch(core, op);
  for (uint32_t e = out->first[op->stage]; e < out->first[op->stage + 1]; e++) {
    ovl_edge_t edge = out->edges[e];
    if (microbatch + edge.distance >= core->next)
      continue; /* not admitted yet: it will see this op done */
    uint32_t slot = op->slot + edge.distance;
    ovl_core_op_t *dependent = op_at(core, slot >= rows ? slot - rows : slot, edge.stage);
    dependent->bound = ovl_core_max(dependent->bound, op->bound);
    if (--dependent->waits == 0)
      become_ready(core, dependent, op);
  }
}

static void op_ended(ovl_core_t *core, ovl_core_op_t *op) {
  ovl_core_slot_t *slot = ovl_core_op_slot(core, op);
  op->state = OVL_OP_DONE;
  slot->bound = ovl_core_max(slot->bound, op->bound);
  release_dependents(core, op);
  if (--slot->left == 0)
    slot_ended(core, slot);
}

static void op_skipped(ovl_core_t *core, ovl_core_op_t *op) {
  ovl_idle_pass(core, &core->lanes[op->lane]);
  ovl_core_op_slot(core, op)->unstarted--;
  core->lanes[op->lane].unstarted--;
  core->tally.skipped++;
  core->tally.stages[op->stage].skipped++;
  op_ended(core, op);
  ovl_turn_refresh(core, op->lane);
}

/* Follows up on whatever has changed until nothing more follows. */
static void settle(ovl_core_t *core) {
  for (;;) {
    ovl_core_op_t *op = pop_skip(core);
    if (op != NULL)
      op_skipped(core, op);
    else if (may_admit(core))
      admit_one(core);
    else
      break;
  }
  ovl_idle_refresh(core);
  checked(core);
}

/* ---- failing --------------------------------------------------------------------------------------- */

/* Takes the slot's ready ops back; those that wait are skipped when they would become ready. */
static void skip_ready(ovl_core_t *core, ovl_core_slot_t *slot) {
  uint32_t index = ovl_core_slot_of(core, slot);
  for (uint32_t s = 0; s < core->plan->stage_count; s++) {
    ovl_core_op_t *op = op_at(core, index, s);
    if (op->state == OVL_OP_READY && !runs_anyway(core, op)) {
      op->state = OVL_OP_WAITING;
      ovl_idle_pass(core, &core->lanes[op->lane]);
      ovl_lane_remove(core, op);
      push_skip(core, op);
    }
  }
}

/* A microbatch with nothing left to start is not affected: it ends as its running ops do. */
static void stop(ovl_core_t *core) {
  core->stopped = true;
  for (uint32_t i = 0; i < core->plan->rows; i++) {
    ovl_core_slot_t *slot = &core->slots[i];
    if (slot->state != OVL_SLOT_ACTIVE || slot->fault.status != 0 || slot->unstarted == 0)
      continue;
    slot->fault =
        (ovl_fault_t){.status = OVL_ECANCELED, .stage = OVL_NO_STAGE, .microbatch = slot->microbatch};
    skip_ready(core, slot);
  }
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    ovl_turn_refresh(core, l); /* it may have been waiting for a microbatch that will never come */
}

static void fail_slot(ovl_core_t *core, ovl_core_slot_t *slot, ovl_fault_t fault) {
  bool first = core->first.status == 0;
  slot->fault = fault;
  core->faults++;
  if (first)
    core->first = fault;
  if (core->options.tell && (first || core->options.keep_going)) {
    slot->tell = true;
    ovl_tell_push(core, slot);
  }
  skip_ready(core, slot);
  if (!core->options.keep_going && !core->stopped)
    stop(core);
}

static void op_failed(ovl_core_t *core, ovl_core_op_t *op, int status, int native) {
  ovl_core_slot_t *slot = ovl_core_op_slot(core, op);
  core->tally.stages[op->stage].failed++;
  if (slot->fault.status == 0)
    fail_slot(core, slot,
              (ovl_fault_t){
                  .status = status, .native = native, .stage = op->stage, .microbatch = slot->microbatch});
}

/* ---- events ---------------------------------------------------------------------------------------- */

void ovl_core_set_order(ovl_core_t *core, const ovl_order_source_t *order) { core->order = *order; }

void ovl_core_begin(ovl_core_t *core, ovl_mode_t mode, uint64_t count, uint64_t now) {
  ovl_core_reset(core);
  core->graph = &core->plan->graphs[mode];
  core->count = count;
  core->now = core->started = now;
  for (uint32_t l = 0; l < core->plan->lane_count; l++) {
    core->lanes[l].since = now;
    ovl_turn_begin(core, l, mode);
  }
  core->active = true;
  core->tally.bound = core->tally.roles_since = now;
  admit_empty_run(core);
  settle(core);
}

int ovl_core_submit(ovl_core_t *core, void *item, uint64_t now) {
  if (!ovl_core_has_room(core))
    return OVL_EAGAIN;
  ovl_core_advance(core, now);
  ovl_items_push(core, (ovl_core_item_t){.item = item, .arrived = now});
  settle(core);
  return 0;
}

bool ovl_core_has_room(const ovl_core_t *core) {
  return core->item_count + core->in_flight < core->item_capacity;
}

void ovl_core_finish_items(ovl_core_t *core, uint64_t now) {
  ovl_core_advance(core, now);
  core->finished = true;
  ovl_idle_refresh(core);
}

ovl_core_op_t *ovl_core_take(ovl_core_t *core, uint32_t lane, uint64_t now) {
  ovl_core_op_t *op = core->lanes[lane].head;
  ovl_core_show(core, op);
  ovl_core_take_shown(core, op, now);
  return op;
}

void ovl_core_take_shown(ovl_core_t *core, ovl_core_op_t *op, uint64_t now) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  ovl_core_slot_t *slot = ovl_core_op_slot(core, op);
  ovl_core_advance(core, now);
  ovl_idle_pass(core, lane);
  op->state = OVL_OP_RUNNING;
  op->delay = core->now - op->ready_at;
  op->started = core->now;
  op->place = lane->free[--lane->free_count];
  slot->unstarted--;
  lane->unstarted--;
  core->running++;
  core->moves++;
  ovl_lane_remove(core, op);
  ovl_record_start(core, op);
  checked(core);
}

void ovl_core_end(ovl_core_t *core, ovl_core_op_t *op, int status, int native, uint64_t now) {
  ovl_core_lane_t *lane = &core->lanes[op->lane];
  uint64_t ended = ovl_core_max(now, op->started);
  ovl_core_advance(core, now);
  ovl_idle_pass(core, lane);
  ovl_record_end(core, op, status, ended);
  if (lane->free[lane->free_count] != op->place) /* not so for a lane of width 1 */
    lane->free[lane->free_count] = op->place;
  lane->free_count++;
  core->running--;
  core->moves++;
  if (status != 0)
    op_failed(core, op, status, native);
  op_ended(core, op);
  ovl_lane_update(core, op->lane);
  settle(core);
}

void ovl_core_fail(ovl_core_t *core, ovl_core_op_t *op, int status, int native, uint64_t now) {
  ovl_core_advance(core, now);
  op->failed = status;
  op_failed(core, op, status, native);
  settle(core);
}

void ovl_core_cancel(ovl_core_t *core, uint64_t now) {
  ovl_core_advance(core, now);
  core->faults++;
  if (core->first.status == 0)
    core->first =
        (ovl_fault_t){.status = OVL_ECANCELED, .stage = OVL_NO_STAGE, .microbatch = OVL_NO_MICROBATCH};
  if (core->options.tell && !core->stopped) {
    core->tell_cancel = true;
    core->cancel_after = core->tell_tail;
  }
  if (!core->stopped)
    stop(core);
  settle(core);
}

void ovl_core_retire(ovl_core_t *core, ovl_core_slot_t *slot, uint64_t now) {
  ovl_core_advance(core, now);
  free_slot(core, slot);
  settle(core);
}

bool ovl_core_next_fault(ovl_core_t *core, ovl_fault_t *fault, uint64_t now) {
  if (core->tell_cancel && core->cancel_after == NULL) {
    core->tell_cancel = false;
    *fault = (ovl_fault_t){.status = OVL_ECANCELED, .stage = OVL_NO_STAGE, .microbatch = OVL_NO_MICROBATCH};
    return true;
  }
  ovl_core_slot_t *slot = ovl_tell_pop(core);
  if (slot == NULL)
    return false;
  if (slot == core->cancel_after)
    core->cancel_after = NULL;
  *fault = slot->fault;
  slot->tell = false;
  if (slot->state == OVL_SLOT_ENDED && !core->options.report)
    ovl_core_retire(core, slot, now);
  return true;
}

void ovl_core_leave(ovl_core_t *core) {
  core->active = false;
  if (core->count == OVL_STREAMING)
    core->finished = false; /* else it is for the streaming run that comes */
  core->next = 0;           /* items that are given back from now on are the next run's */
}

static bool nothing_to_come(const ovl_core_t *core) {
  if (core->stopped)
    return true;
  return core->count == OVL_STREAMING ? core->finished && core->item_count == 0 : core->next == core->count;
}

uint64_t ovl_core_places_left(const ovl_core_t *core) {
  if (!nothing_to_come(core))
    return UINT64_MAX;
  uint64_t places = 0;
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    if (core->plan->lanes[l].kind == OVL_LANE_POOL &&
        (core->lanes[l].unstarted > 0 || ovl_core_running(core, l) > 0))
      places += core->plan->lanes[l].width;
  return places;
}

bool ovl_core_over(const ovl_core_t *core) {
  return core->active && core->in_flight == 0 && nothing_to_come(core);
}
