/* SPDX-License-Identifier: MIT */
/* The invariant checker: recomputes from scratch what the core keeps up to date step by step, and holds
 * the two against each other. It knows the guarantees, not the code. */
#include "core/core.h"
#include "core/idle.h"

#define REQUIRE(condition, text) \
  do {                           \
    if (!(condition))            \
      return text;               \
  } while (0)

static const ovl_core_op_t *at(const ovl_core_t *core, uint32_t slot, uint32_t stage) {
  return &core->ops[(size_t)slot * core->plan->stage_count + stage];
}

static uint32_t open_sources(const ovl_core_t *core, const ovl_core_op_t *op) {
  const ovl_edges_t *in = &core->graph->in;
  uint32_t stage = op->stage, open = 0;
  for (uint32_t e = in->first[stage]; e < in->first[stage + 1]; e++)
    open += ovl_core_open_source(core, op, in->edges[e]) != NULL;
  return open;
}

/* What the callback of a running op sees. */
static const char *check_shown(const ovl_core_t *core, const ovl_core_slot_t *slot, const ovl_core_op_t *op) {
  const ovl_op_t *pub = &op->pub;
  REQUIRE(pub->microbatch == slot->microbatch, "an op is not of its slot's microbatch");
  REQUIRE(pub->slot == slot->microbatch % core->plan->slots, "the user's slot is not microbatch mod slots");
  REQUIRE(pub->item == slot->item, "an op has not its microbatch's item");
  REQUIRE(pub->stage.id == op->stage + 1 && pub->lane.id == op->lane + 1,
          "an op is of another stage or lane");
  REQUIRE(pub->status == 0 || pub->status == slot->fault.status,
          "an op sees another error than its microbatch's");
  REQUIRE(pub->status == 0 || core->plan->stages[op->stage].always, "an op of a failed microbatch runs");
  return NULL;
}

static const char *check_op(const ovl_core_t *core, const ovl_core_slot_t *slot, const ovl_core_op_t *op) {
  REQUIRE(op->slot == slot->microbatch % core->plan->rows, "a row is not microbatch mod rows");
  REQUIRE(op->state != OVL_OP_IDLE, "an op of an active slot is idle");
  REQUIRE(op->waits == open_sources(core, op), "an op's count of open dependencies is wrong");
  if (op->state == OVL_OP_WAITING)
    REQUIRE(op->waits > 0, "an op waits for nothing");
  else
    REQUIRE(op->waits == 0, "an op is on its way before all it depends on has ended");
  if (op->state == OVL_OP_READY && slot->fault.status != 0)
    REQUIRE(core->plan->stages[op->stage].always, "an op of a failed microbatch is ready");
  return op->state == OVL_OP_RUNNING ? check_shown(core, slot, op) : NULL;
}

static const char *check_slot(const ovl_core_t *core, const ovl_core_slot_t *slot) {
  uint32_t left = 0, unstarted = 0;
  for (uint32_t s = 0; s < core->plan->stage_count; s++) {
    const ovl_core_op_t *op = at(core, ovl_core_slot_of(core, slot), s);
    const char *wrong = check_op(core, slot, op);
    REQUIRE(wrong == NULL, wrong);
    left += op->state != OVL_OP_DONE;
    unstarted += op->state == OVL_OP_WAITING || op->state == OVL_OP_READY;
  }
  REQUIRE(slot->microbatch < core->next, "a slot holds a microbatch that was not admitted");
  REQUIRE(slot->left == left, "a slot's count of ops left is wrong");
  REQUIRE(slot->unstarted == unstarted, "a slot's count of unstarted ops is wrong");
  REQUIRE((slot->state == OVL_SLOT_ENDED) == (left == 0),
          "a slot is ended with ops left, or not ended without");
  if (core->stopped && slot->fault.status == 0)
    REQUIRE(unstarted == 0, "a stopped run leaves a microbatch unmarked that has ops to start");
  return NULL;
}

static const char *check_slots(const ovl_core_t *core) {
  uint32_t in_flight = 0;
  for (uint32_t i = 0; i < core->plan->rows; i++) {
    const ovl_core_slot_t *slot = &core->slots[i];
    if (slot->state == OVL_SLOT_FREE)
      continue;
    in_flight++;
    const char *wrong = check_slot(core, slot);
    REQUIRE(wrong == NULL, wrong);
    REQUIRE(slot->microbatch + core->plan->window >= core->next,
            "a microbatch was admitted before the one a window earlier had retired");
  }
  REQUIRE(in_flight == core->in_flight, "the count of slots in flight is wrong");
  REQUIRE(in_flight <= core->graph->limit, "more microbatches are in flight than may be");
  return NULL;
}

static uint32_t count_ops(const ovl_core_t *core, uint32_t lane, ovl_op_state_t state) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < core->plan->rows; i++)
    for (uint32_t s = 0; s < core->plan->stage_count; s++)
      count += core->slots[i].state != OVL_SLOT_FREE && core->plan->stages[s].lane == lane &&
               at(core, i, s)->state == state;
  return count;
}

static const char *check_turn(const ovl_core_t *core, const ovl_core_lane_t *lane, uint32_t index) {
  REQUIRE(lane->ready == count_ops(core, index, OVL_OP_READY), "a fixed lane's count of ready ops is wrong");
  REQUIRE(lane->unstarted == lane->ready + count_ops(core, index, OVL_OP_WAITING),
          "a fixed lane's count of unstarted ops is wrong");
  REQUIRE(!lane->exhausted || lane->unstarted == 0, "a fixed lane has ops left and none has a turn");
  if (lane->head == NULL)
    return NULL;
  REQUIRE(lane->head->state == OVL_OP_READY && lane->head->lane == index,
          "a fixed lane's head is not a ready op of it");
  REQUIRE(ovl_core_op_microbatch(core, lane->head) == lane->turn.microbatch &&
              lane->head->stage == lane->turn.stage,
          "a fixed lane's head is not the op whose turn it is");
  return NULL;
}

static bool comes_before(const ovl_core_t *core, const ovl_core_op_t *a, const ovl_core_op_t *b) {
  uint64_t i = ovl_core_op_microbatch(core, a), k = ovl_core_op_microbatch(core, b);
  return i != k ? i < k : a->stage < b->stage;
}

static const char *check_ready_list(const ovl_core_t *core, uint32_t index) {
  const ovl_core_lane_t *lane = &core->lanes[index];
  if (lane->fixed)
    return check_turn(core, lane, index);
  const ovl_core_op_t *last = NULL;
  uint32_t listed = 0;
  for (const ovl_core_op_t *op = lane->head; op != NULL; last = op, op = op->next) {
    listed++;
    REQUIRE(op->state == OVL_OP_READY && op->lane == index, "a ready list holds a wrong op");
    REQUIRE(op->prev == last, "a ready list is torn");
    if (last == NULL)
      continue;
    REQUIRE(last->instant <= op->instant, "a ready list is not in the order of readiness");
    if (last->instant == op->instant)
      REQUIRE(comes_before(core, last, op), "a ready list does not break ties by number");
  }
  REQUIRE(lane->tail == last, "a ready list's tail is wrong");
  REQUIRE(lane->ready == listed && listed == count_ops(core, index, OVL_OP_READY),
          "a count of ready ops is wrong");
  return NULL;
}

static const char *check_lanes(const ovl_core_t *core) {
  uint32_t startable[2] = {0, 0}, running = 0;
  for (uint32_t l = 0; l < core->plan->lane_count; l++) {
    const ovl_core_lane_t *lane = &core->lanes[l];
    uint32_t width = core->plan->lanes[l].width, running_here = count_ops(core, l, OVL_OP_RUNNING),
             may = lane->held ? 0 : width - running_here;
    const char *wrong = check_ready_list(core, l);
    REQUIRE(wrong == NULL, wrong);
    REQUIRE(running_here <= width, "a lane runs more ops than its width");
    REQUIRE(lane->free_count == width - running_here, "a lane's places and its running ops disagree");
    uint32_t ready = lane->fixed ? lane->head != NULL : lane->ready;
    REQUIRE(lane->startable == (ready < may ? ready : may), "a lane's count of startable ops is wrong");
    bool bit = (*ovl_core_lane_word(core, core->plan->lanes[l].kind, l / 64) >> (l % 64)) & 1;
    REQUIRE(bit == (lane->startable > 0), "a lane's startable bit is wrong");
    startable[core->plan->lanes[l].kind] += lane->startable;
    running += running_here;
  }
  REQUIRE(startable[0] == core->startable[0] && startable[1] == core->startable[1],
          "the counts of startable ops are wrong");
  REQUIRE(running == core->running, "the count of running ops is wrong");
  if (core->graph->limit == 1 && core->graph == &core->plan->graphs[OVL_SERIAL])
    REQUIRE(running + startable[0] + startable[1] <= 1, "a serial run has more than one op on its way");
  return NULL;
}

/* How long the lane's ops have been running that have not ended. */
static uint64_t running_time(const ovl_core_t *core, uint32_t lane) {
  uint64_t time = 0;
  for (uint32_t i = 0; i < core->plan->rows; i++)
    for (uint32_t s = 0; s < core->plan->stage_count; s++)
      if (core->slots[i].state != OVL_SLOT_FREE && core->plan->stages[s].lane == lane &&
          at(core, i, s)->state == OVL_OP_RUNNING)
        time += core->now - at(core, i, s)->started;
  return time;
}

static uint64_t attributed_time(const ovl_core_t *core, uint32_t lane) {
  const ovl_edges_t *in = &core->graph->in;
  uint64_t time = 0;
  for (uint32_t s = 0; s < core->plan->stage_count; s++)
    for (uint32_t e = in->first[s]; e < in->first[s + 1]; e++)
      time += core->plan->stages[s].lane == lane ? core->tally.awaited[e] : 0;
  return time;
}

/* Every place of a lane was busy, or idle for one reason, all the time. */
static const char *check_times(const ovl_core_t *core) {
  for (uint32_t l = 0; core->options.statistics && l < core->plan->lane_count; l++) {
    uint64_t idle[OVL_IDLE_REASONS], sum = core->lanes[l].busy + running_time(core, l);
    ovl_idle_until(core, l, core->now, idle);
    for (int reason = 0; reason < OVL_IDLE_REASONS; reason++)
      sum += idle[reason];
    REQUIRE(sum == core->plan->lanes[l].width * (core->now - core->started),
            "a lane's busy and idle time are not its width times the time elapsed");
    uint64_t all;
    if (__builtin_mul_overflow(core->plan->lanes[l].width, core->now - core->started, &all))
      continue; /* sums have begun anew at 0, after centuries: equal they are, but not in order */
    REQUIRE(attributed_time(core, l) <= idle[OVL_IDLE_DEPENDENCY],
            "a lane waited longer for its stages than for any dependency");
  }
  return NULL;
}

/* As long as the run is not over there must be a way on: an op that runs or could start, a report that is
 * owed, or an item that has yet to come. */
static const char *check_way_on(const ovl_core_t *core) {
  if (!core->active || ovl_core_over(core) || core->order.next != NULL)
    return NULL; /* an order from outside may contradict the dependencies: its source finds that out */
  bool held = false, reports = false;
  for (uint32_t l = 0; l < core->plan->lane_count; l++)
    held |= core->lanes[l].held;
  for (uint32_t i = 0; i < core->plan->rows; i++)
    reports |= core->slots[i].state == OVL_SLOT_ENDED;
  bool awaits_items = core->count == OVL_STREAMING && core->in_flight == 0;
  REQUIRE(core->running > 0 || core->startable[0] + core->startable[1] > 0 || held || reports || awaits_items,
          "the run has no way on");
  return NULL;
}

const char *ovl_core_check(const ovl_core_t *core) {
  REQUIRE(core->skip_head == NULL, "ops to skip were left over");
  const char *wrong = check_slots(core);
  if (wrong == NULL)
    wrong = check_lanes(core);
  if (wrong == NULL)
    wrong = check_way_on(core);
  if (wrong == NULL && core->active)
    wrong = check_times(core);
  if (wrong == NULL && core->active)
    REQUIRE(core->tally.bound <= core->now, "the bound is above the time that has passed");
  return wrong;
}
