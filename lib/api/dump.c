/* SPDX-License-Identifier: MIT */
/* ovl_pipeline_dump: who waits for whom, as the core sees it at this moment; and the report of a stall, which is the
 * same text. */
#include "api/pipeline.h"
#include "core/idle.h"
#include "observe/note.h"
#include "observe/stats.h"
#include "ovl/explain.h"

#define MOST_LISTED 8 /* ops of a lane in one state, and slots */

typedef struct dump {
  const ovl_pipeline_t *p;
  const ovl_core_t *core;
  ovl_note_t text;
  uint64_t now;
} dump_t;

static unsigned long long number(uint64_t n) { return (unsigned long long)n; }

static void tell_name(dump_t *d, const ovl_core_op_t *op) {
  ovl_note_add(&d->text, "\"%.100s\" of microbatch %llu", ovl_run_stage_name(d->p, op->stage),
               number(ovl_core_op_microbatch(d->core, op)));
}

static ovl_words_t since(const dump_t *d, uint64_t time) { return ovl_note_time(ovl_since(d->now, time)); }

/* ---- ops ------------------------------------------------------------------------------------------------------- */

static void tell_running(dump_t *d, const ovl_core_op_t *op) {
  const char *where = op->busy & OVL_BUSY_CALL      ? "in its callback"
                      : op->busy & OVL_BUSY_PENDING ? "waits for ovl_op_complete"
                                                    : "in its cancel hook";
  ovl_note_add(&d->text, " for %s, %s%s", since(d, op->started).text, where,
               op->flags & OVL_OP_EXPIRED ? ", beyond its deadline" : "");
}

static void tell_waiting(dump_t *d, const ovl_core_op_t *op) {
  const ovl_edges_t *in = &d->core->graph->in;
  uint32_t stage = op->stage;
  const char *before = " for ";
  for (uint32_t e = in->first[stage]; e < in->first[stage + 1]; e++) {
    const ovl_core_op_t *source = ovl_core_open_source(d->core, op, in->edges[e]);
    if (source == NULL)
      continue;
    ovl_note_add(&d->text, "%s", before);
    tell_name(d, source);
    before = ", ";
  }
}

static void tell_op(dump_t *d, const ovl_core_op_t *op) {
  static const char *const states[] = {
      [OVL_OP_WAITING] = "waits", [OVL_OP_READY] = "ready", [OVL_OP_RUNNING] = "runs"};
  ovl_note_add(&d->text, "  %s: ", states[op->state]);
  tell_name(d, op);
  if (op->state == OVL_OP_RUNNING)
    tell_running(d, op);
  else if (op->state == OVL_OP_READY)
    ovl_note_add(&d->text, " for %s", since(d, op->ready_at).text);
  else
    tell_waiting(d, op);
  ovl_note_add(&d->text, "\n");
}

/* The lane's ops in that state, the oldest microbatch first. */
static void tell_ops(dump_t *d, uint32_t lane, ovl_op_state_t state) {
  const ovl_core_t *core = d->core;
  const ovl_plan_t *plan = core->plan;
  uint32_t found = 0;
  for (uint32_t i = 0; i < plan->rows; i++) {
    uint32_t slot = (core->next_slot + i) % plan->rows; /* the next to be admitted takes the oldest one's */
    for (uint32_t k = plan->lane_first[lane]; k < plan->lane_first[lane + 1]; k++) {
      const ovl_core_op_t *op = &core->ops[(size_t)slot * plan->stage_count + plan->lane_stages[k]];
      if (core->slots[slot].state != OVL_SLOT_FREE && op->state == state && ++found <= MOST_LISTED)
        tell_op(d, op);
    }
  }
  if (found > MOST_LISTED)
    ovl_note_add(&d->text, "  and %u more\n", (unsigned)(found - MOST_LISTED));
}

/* ---- lanes and slots ------------------------------------------------------------------------------------------- */

static void tell_lane(dump_t *d, uint32_t lane) {
  uint64_t places[OVL_IDLE_REASONS];
  ovl_idle_split(d->core, lane, places);
  ovl_note_add(&d->text, "lane \"%.100s\": %u of %u busy", ovl_run_lane_name(d->p, lane),
               (unsigned)ovl_core_running(d->core, lane), (unsigned)d->core->plan->lanes[lane].width);
  for (ovl_idle_reason_t reason = 0; reason < OVL_IDLE_REASONS; reason++)
    if (places[reason] > 0)
      ovl_note_add(&d->text, ", %llu idle: %s", number(places[reason]), ovl_stats_idle_name(reason));
  ovl_note_add(&d->text, "%s\n",
               d->p->exec.lanes[lane].polled && d->core->lanes[lane].held ? " (its poll hook runs)" : "");
  tell_ops(d, lane, OVL_OP_RUNNING);
  tell_ops(d, lane, OVL_OP_READY);
  tell_ops(d, lane, OVL_OP_WAITING);
}

static void tell_slot(dump_t *d, uint32_t index) {
  const ovl_core_slot_t *slot = &d->core->slots[index];
  ovl_note_add(&d->text, "slot %u: microbatch %llu, ", (unsigned)(slot->microbatch % d->core->plan->slots),
               number(slot->microbatch));
  if (slot->state == OVL_SLOT_ENDED)
    ovl_note_add(&d->text, "ended, waits for its report");
  else
    ovl_note_add(&d->text, "%u operations left", (unsigned)slot->left);
  if (slot->fault.status != 0)
    ovl_note_add(&d->text, ", failed: %s", ovl_err_name(slot->fault.status));
  ovl_note_add(&d->text, "\n");
}

static void tell_slots(dump_t *d) {
  uint32_t told = 0;
  for (uint32_t i = 0; i < d->core->plan->rows && told < MOST_LISTED; i++)
    if (d->core->slots[i].state != OVL_SLOT_FREE) {
      tell_slot(d, i);
      told++;
    }
  if (d->core->in_flight > told)
    ovl_note_add(&d->text, "and %u slots more\n", (unsigned)(d->core->in_flight - told));
}

static void tell_run(dump_t *d) {
  const ovl_core_t *core = d->core;
  ovl_note_add(&d->text, "run: %s since %s, %llu microbatches admitted",
               core->graph == &core->plan->graphs[OVL_SERIAL] ? "serial" : "overlapped",
               since(d, core->started).text, number(core->next));
  if (core->count == OVL_STREAMING)
    ovl_note_add(&d->text, ", %u items wait%s", (unsigned)core->item_count,
                 core->finished ? ", finished" : "");
  else
    ovl_note_add(&d->text, " of %llu", number(core->count));
  ovl_note_add(&d->text, ", %llu retired, %u of %u slots taken%s\n", number(core->tally.retired),
               (unsigned)core->in_flight, (unsigned)core->graph->limit, core->stopped ? ", stopped" : "");
}

/* ---- the call, and the report ------------------------------------------------------------------------------------ */

static void tell_all(dump_t *d) {
  const ovl_executor_t *x = &d->p->exec;
  ovl_exec_lock(x);
  if (x->phase == OVL_EXEC_RUNNING) {
    d->core = &x->core;
    d->now = ovl_clock_now(&x->clock);
    tell_run(d);
    for (uint32_t l = 0; l < d->core->plan->lane_count; l++)
      tell_lane(d, l);
    tell_slots(d);
  } else {
    ovl_note_add(&d->text, "no run in flight\n");
  }
  ovl_exec_unlock(x);
}

int ovl_pipeline_dump(const ovl_pipeline_t *p, char *buffer, size_t bytes) {
  if (p == NULL || (buffer == NULL && bytes > 0))
    return OVL_EINVAL;
  dump_t dump = {.p = p};
  ovl_note_init(&dump.text, buffer, bytes);
  tell_all(&dump);
  return ovl_note_end(&dump.text);
}

void ovl_pipeline_on_stall(ovl_pipeline_t *p) {
  ovl_pipeline_dump(p, p->stall_text, OVL_STALL_BYTES);
  p->options.on_stall(p, p->stall_text);
}
