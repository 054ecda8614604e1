/* SPDX-License-Identifier: MIT */
/* Reads the log of a run, and knows what must and must not be in it. */
#include <inttypes.h>
#include <string.h>

#include "ovl/errors.h"
#include "proof/real_run.h"
#include "support/cmocka_all.h"
#include "support/seed.h"

enum { NEVER = INT32_MAX };

typedef struct op_log {
  int start, end; /* where in the log, or NEVER */
  int status;     /* that it saw */
  int result;
  uint64_t began_ns, ended_ns; /* as its own callback, or who completed it, saw it */
  bool hooked;
} op_log_t;

typedef struct digest {
  const real_run_t *run;
  const real_shape_t *shape;
  op_log_t ops[REAL_MICROBATCHES][REAL_STAGES];
  int ends[REAL_MICROBATCHES][REAL_STAGES]; /* see work_out_ends */
  int report[REAL_MICROBATCHES], report_status[REAL_MICROBATCHES];
  uint32_t starts, reports, failures, dones, failed_microbatches;
  int stopped_at; /* a failure that stops the run was told, or a cancel accepted */
  bool cancelled, deadlines;
} digest_t;

/* The log up to its first hundred events, to find out how it came to what is wrong. */
static void print_log(const real_run_t *run) {
  static const char *const names[] = {"starts", "ends", "hook", "microbatch", "failure", "cancelled", "done"};
  print_error("%u microbatches, window %u, mode %d, on_error %d%s%s\n", (unsigned)run->plan.count,
              (unsigned)run->shape.window, (int)run->shape.mode, (int)run->shape.on_error,
              run->plan.streaming ? ", streaming" : "", run->plan.blocking ? ", blocking" : "");
  for (unsigned at = 0; at < atomic_load(&run->event_count) && at < 100; at++) {
    const real_event_t *e = &run->events[at];
    print_error("%3u %-10s %u.%u %d\n", at, names[e->kind], (unsigned)e->microbatch, (unsigned)e->stage,
                e->status);
  }
}

#define require(condition, ...)                            \
  do {                                                     \
    if (!(condition)) {                                    \
      print_error(__VA_ARGS__);                            \
      print_error("\n");                                   \
      print_log(d->run);                                   \
      fail_msg("a guarantee is broken; %s", seed_words()); \
    }                                                      \
  } while (0)

static bool is_silent(const digest_t *d, uint32_t stage) {
  return d->shape->stages[stage].manner == REAL_NOTHING;
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static void read_op(digest_t *d, const real_event_t *e, int at) {
  require(e->microbatch < REAL_MICROBATCHES && e->stage < d->shape->stage_count, "an op has no such number");
  op_log_t *op = &d->ops[e->microbatch][e->stage];
  if (e->kind == REAL_STARTS) {
    require(op->start == NEVER, "op %u.%u runs twice", (unsigned)e->microbatch, e->stage);
    op->start = at;
    op->status = e->status;
    op->began_ns = e->written;
    d->starts++;
  } else if (e->kind == REAL_ENDS) {
    require(op->end == NEVER, "op %u.%u ends twice", (unsigned)e->microbatch, e->stage);
    op->end = at;
    op->ended_ns = e->written;
    op->result = e->status;
  } else {
    require(!op->hooked, "the hook of op %u.%u is called twice", (unsigned)e->microbatch, e->stage);
    op->hooked = true;
  }
}

/* What is given back after the run was submitted too late for it, and has the numbers of the next one. */
static void read_report(digest_t *d, const real_event_t *e, int at) {
  uint64_t item = (uintptr_t)e->item, i = d->dones > 0 ? item - 1 : e->microbatch;
  require(i < REAL_MICROBATCHES, "a microbatch is reported that has no such number");
  require(d->report[i] == NEVER, "microbatch %u is reported twice", (unsigned)i);
  require(item == (d->run->plan.streaming ? i + 1 : 0), "microbatch %u has another's item", (unsigned)i);
  d->report[i] = at;
  d->report_status[i] = e->status;
  d->reports++;
}

static void read_event(digest_t *d, const real_event_t *e, int at) {
  switch (e->kind) {
  case REAL_STARTS:
  case REAL_ENDS:
  case REAL_HOOK:
    read_op(d, e, at);
    return;
  case REAL_MICROBATCH:
    read_report(d, e, at);
    return;
  case REAL_FAILURE:
  case REAL_CANCELLED:
    d->failures += e->kind == REAL_FAILURE;
    d->cancelled |= e->kind == REAL_CANCELLED;
    if (d->stopped_at == NEVER && (e->kind == REAL_CANCELLED || d->shape->on_error == OVL_ON_ERROR_STOP))
      d->stopped_at = at;
    return;
  case REAL_DONE:
    d->dones++;
    return;
  }
}

static bool waits_within(const real_shape_t *shape, uint32_t before, uint32_t stage) {
  if (!shape->stages[stage].unchained && stage == before + 1)
    return true;
  for (uint32_t k = 0; k < shape->dependency_count; k++)
    if (shape->dependencies[k].before == before && shape->dependencies[k].after == stage &&
        shape->dependencies[k].distance == 0)
      return true;
  return false;
}

static void read_log(digest_t *d, const real_run_t *run) {
  memset(d, 0, sizeof *d);
  d->run = run;
  d->shape = &run->shape;
  d->stopped_at = NEVER;
  for (uint32_t i = 0; i < REAL_MICROBATCHES; i++) {
    d->report[i] = NEVER;
    for (uint32_t s = 0; s < REAL_STAGES; s++)
      d->ops[i][s].start = d->ops[i][s].end = NEVER;
  }
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    d->deadlines |= d->shape->stages[s].timeout_ns != 0;
  unsigned count = atomic_load(&run->event_count);
  require(count <= REAL_EVENTS, "%u events are too many for the log", count);
  for (unsigned at = 0; at < count; at++)
    read_event(d, &run->events[at], (int)at);
}

/* ---- guarantees 1 and 2 ------------------------------------------------------------------------------------------------- */

static int later(int a, int b) { return a > b ? a : b; }

/* The last place in the log at which something ends that the op waits for; -1: it waits for nothing. */
static int sources_end(const digest_t *d, uint32_t i, uint32_t s) {
  int end = -1;
  if (d->shape->mode == OVL_SERIAL && s > 0)
    return d->ends[i][s - 1];
  if (d->shape->mode == OVL_SERIAL)
    return i > 0 ? d->ends[i - 1][d->shape->stage_count - 1] : -1;
  for (uint32_t before = 0; before < s; before++)
    if (waits_within(d->shape, before, s))
      end = later(end, d->ends[i][before]);
  for (uint32_t k = 0; k < d->shape->dependency_count; k++) {
    const real_dependency_t *e = &d->shape->dependencies[k];
    if (e->after == s && e->distance > 0 && e->distance <= i)
      end = later(end, d->ends[i - e->distance][e->before]);
  }
  return end;
}

/* When the op had ended for those that wait for it. Of one without a callback, and of one that was skipped, it is
 * known that all had ended that it waited for itself. Stages come after those that they wait for. */
static void work_out_ends(digest_t *d) {
  for (uint32_t i = 0; i < REAL_MICROBATCHES; i++)
    for (uint32_t s = 0; s < d->shape->stage_count; s++) {
      const op_log_t *op = &d->ops[i][s];
      bool may_be_absent = is_silent(d, s) || d->run->status != 0;
      d->ends[i][s] = op->start != NEVER ? op->end : may_be_absent ? sources_end(d, i, s) : NEVER;
    }
}

static void check_op(const digest_t *d, uint32_t i, uint32_t s) {
  const op_log_t *op = &d->ops[i][s];
  if (op->start == NEVER) {
    require(op->end == NEVER && !op->hooked, "op %u.%u ends and never started", i, s);
    return;
  }
  require(op->end != NEVER, "op %u.%u never ends", i, s);
  require(sources_end(d, i, s) < op->start, "op %u.%u starts before what it depends on has ended", i, s);
  require(op->status == 0 || d->shape->stages[s].always, "op %u.%u of a failed microbatch starts", i, s);
  require(op->status == 0 || d->run->status != 0, "op %u.%u sees an error that there was not", i, s);
  /* one that cleans up is not affected by the failure that it sees, but may outlive a deadline of its own */
  bool may_be_hooked = op->status == 0 || d->shape->stages[s].timeout_ns != 0;
  require(!op->hooked || (d->run->status != 0 && may_be_hooked), "a hook is called without cause");
}

/* ---- guarantee 3 --------------------------------------------------------------------------------------------------------- */

static void check_widths(const digest_t *d) {
  uint32_t running[REAL_LANES] = {0}, all = 0;
  for (unsigned at = 0; at < atomic_load(&d->run->event_count); at++) {
    const real_event_t *e = &d->run->events[at];
    if (e->kind != REAL_STARTS && e->kind != REAL_ENDS)
      continue;
    uint32_t lane = d->shape->stages[e->stage].lane, step = e->kind == REAL_STARTS ? 1 : UINT32_MAX;
    running[lane] += step;
    all += step;
    require(running[lane] <= d->shape->lanes[lane].width, "lane %u runs more ops than its width", lane);
    require(d->shape->mode != OVL_SERIAL || all <= 1, "a serial run has two ops at a time");
  }
}

/* What is a window back has retired when an op of microbatch i starts. */
static void check_window(const digest_t *d, uint32_t i, uint32_t s) {
  uint32_t window = d->shape->mode == OVL_SERIAL ? 1 : d->shape->window;
  int start = d->ops[i][s].start;
  for (uint32_t j = 0; start != NEVER && j + window <= i; j++) {
    require(!d->shape->reports || d->report[j] < start, "op %u.%u starts before %u has retired", i, s, j);
    for (uint32_t t = 0; t < d->shape->stage_count; t++)
      require(d->ends[j][t] < start, "op %u.%u starts before %u.%u has ended", i, s, j, t);
  }
}

/* ---- guarantee 4 --------------------------------------------------------------------------------------------------------- */

/* What has started on the lane did so in this order; some ops may be missing. */
static void check_order(const digest_t *d, uint32_t lane) {
  int last = -1;
  for (uint32_t k = 0; k < d->run->order_count[lane]; k++) {
    uint32_t i = d->run->order[lane][k] / REAL_STAGES, s = d->run->order[lane][k] % REAL_STAGES;
    int start = d->ops[i][s].start;
    if (start == NEVER)
      continue;
    require(start > last, "op %u.%u is out of order on lane %u", i, s, lane);
    last = start;
  }
}

/* ---- guarantee 6 --------------------------------------------------------------------------------------------------------- */

static bool has_failed_op(const digest_t *d, uint32_t i) {
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    if (d->ops[i][s].end != NEVER && d->ops[i][s].result != 0)
      return true;
  return false;
}

static bool has_started(const digest_t *d, uint32_t i) {
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    if (d->ops[i][s].start != NEVER)
      return true;
  return false;
}

/* Nothing that waits for an op that failed runs in its microbatch, but stages marked `always`. */
static void check_followers(const digest_t *d, uint32_t i) {
  bool after[REAL_STAGES] = {false};
  for (uint32_t s = 0; s < d->shape->stage_count; s++) {
    for (uint32_t before = 0; before < s; before++)
      if (after[before] && (d->shape->mode == OVL_SERIAL || waits_within(d->shape, before, s)))
        after[s] = true;
    const op_log_t *op = &d->ops[i][s];
    require(!after[s] || op->start == NEVER || d->shape->stages[s].always,
            "op %u.%u runs after one that failed", i, s);
    after[s] |= op->end != NEVER && op->result != 0;
  }
}

/* Every op that nothing stands in the way of ran, and every `always` op of a microbatch that was admitted. */
static void check_ran(const digest_t *d, uint32_t i) {
  bool others_count = d->shape->on_error == OVL_ON_ERROR_STOP || d->cancelled || d->deadlines;
  bool fine = !has_failed_op(d, i) && (d->run->status == 0 || !others_count);
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    if (d->ops[i][s].start == NEVER && !is_silent(d, s)) {
      require(!fine, "op %u.%u never ran", i, s);
      require(!has_started(d, i) || !d->shape->stages[s].always,
              "op %u.%u never ran, though it always should", i, s);
    }
}

/* After a run was stopped, or cancelled, ops show up in the log only if they had been taken before. */
static void check_stopped(const digest_t *d) {
  uint32_t late = 0, places = 0;
  for (uint32_t l = 0; l < d->shape->lane_count; l++)
    places += d->shape->lanes[l].width;
  for (unsigned at = 0; at < atomic_load(&d->run->event_count); at++)
    late +=
        (int)at > d->stopped_at && d->run->events[at].kind == REAL_STARTS && d->run->events[at].status == 0;
  require(late <= places, "%u ops start after the run was stopped", late);
}

static bool is_how_it_failed(const digest_t *d, uint64_t i, uint32_t s, int status, int native) {
  const op_log_t *op = &d->ops[i][s];
  if (status == OVL_ETIMEDOUT && d->shape->stages[s].timeout_ns != 0)
    return true;
  if (op->end == NEVER || op->result == 0)
    return false;
  return op->result > 0 ? status == OVL_EBADRESULT && native == op->result : status == op->result;
}

static void check_failure(const digest_t *d) {
  const ovl_failure_t *f = &d->run->failure;
  int status = d->run->status;
  require(f->status == status, "the run ends with %d and its failure is %d", status, f->status);
  require(!d->cancelled || status != 0, "a run that was cancelled reports success");
  if (status == 0) {
    require(d->failed_microbatches == 0 && d->failures == 0, "a run with an error reports success");
    return;
  }
  require(d->cancelled || d->deadlines || d->failed_microbatches > 0, "a run without an error reports %d",
          status);
  if (f->stage.id == 0)
    require(d->cancelled && status == OVL_ECANCELED, "a failure has no stage");
  else
    require(is_how_it_failed(d, f->microbatch, f->stage.id - 1, status, f->native),
            "%u.%u is said to have failed with %d", (unsigned)f->microbatch, f->stage.id - 1, status);
}

static void check_told(const digest_t *d) {
  if (!d->shape->tells || d->run->status == 0) {
    require(d->failures == 0, "a failure is told that was not, or nobody asked for");
    return;
  }
  if (d->shape->on_error == OVL_ON_ERROR_STOP)
    require(d->failures == 1, "%u failures are told", d->failures);
  else if (!d->cancelled && !d->deadlines)
    require(d->failures == d->failed_microbatches, "%u failures are told", d->failures);
}

/* ---- reports --------------------------------------------------------------------------------------------------------------- */

static void check_report(const digest_t *d, uint32_t i) {
  bool failed = has_failed_op(d, i);
  if (d->report[i] == NEVER) {
    require(!has_started(d, i), "microbatch %u is never reported", i);
    return;
  }
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    require(d->ops[i][s].start == NEVER || d->ops[i][s].end < d->report[i], "%u is reported before its end",
            i);
  bool own = false;
  for (uint32_t s = 0; s < d->shape->stage_count; s++) {
    int result = d->ops[i][s].result;
    own |= is_how_it_failed(d, i, s, d->report_status[i], result > 0 ? result : 0);
  }
  bool stopped = d->run->status != 0 && d->report_status[i] == OVL_ECANCELED;
  require(d->report_status[i] == 0 ? !failed : own || stopped, "microbatch %u is reported with %d", i,
          d->report_status[i]);
}

static void check_counts(const digest_t *d) {
  const ovl_stats_t *stats = &d->run->stats;
  bool silent = false;
  for (uint32_t s = 0; s < d->shape->stage_count; s++)
    silent |= is_silent(d, s);
  require(d->dones == 1, "done is called %u times", d->dones);
  require(silent || stats->ops == d->starts, "%u ops ran, and the statistics say another number", d->starts);
  require(stats->ops + stats->skipped == stats->microbatches * d->shape->stage_count, "ops are lost");
  uint32_t expected = d->run->plan.streaming ? d->run->accepted : (uint32_t)stats->microbatches;
  require(!d->shape->reports || d->reports == expected, "%u microbatches are reported, not %u", d->reports,
          expected);
  if (d->run->status == 0)
    require(stats->microbatches == d->run->plan.count, "not all microbatches have retired");
  if (!d->shape->no_stats)
    require(stats->bound_ns <= stats->elapsed_ns, "a run is faster than its bound");
}

/* What is kept of an op that was called: it took no less than those who worked on it saw, but for what the clock may be
 * wrong in a run this short. */
static void check_record(const digest_t *d, const ovl_trace_record_t *r) {
  const op_log_t *op = &d->ops[r->microbatch][r->stage.id - 1];
  require(r->ready_ns <= r->start_ns && r->start_ns <= r->end_ns, "an op ends before it starts");
  require(op->start != NEVER && op->end != NEVER, "an op is recorded that did not run");
  uint64_t took = r->end_ns - r->start_ns, inside = op->ended_ns - op->began_ns;
  require(d->run->goes_ahead || took + took / 50 + 2000 >= inside,
          "op %u.%u took %" PRIu64 " ns, and is said to have taken %" PRIu64, (unsigned)r->microbatch,
          (unsigned)r->stage.id - 1, inside, took);
}

static void check_records(const digest_t *d) {
  uint32_t calls = 0;
  for (uint32_t i = 0; i < REAL_MICROBATCHES; i++)
    for (uint32_t s = 0; s < d->shape->stage_count; s++)
      calls += d->ops[i][s].end != NEVER && !is_silent(d, s);
  for (uint32_t k = 0; k < d->run->record_count; k++) {
    const ovl_trace_record_t *r = &d->run->records[k];
    require(r->microbatch < REAL_MICROBATCHES && r->stage.id - 1 < d->shape->stage_count,
            "a record is of no op");
    if (!is_silent(d, r->stage.id - 1))
      check_record(d, r);
  }
  require(!d->shape->traced || calls <= d->run->record_count, "%u ops have %u records", calls,
          d->run->record_count);
}

/* ---- all ------------------------------------------------------------------------------------------------------------------- */

static void check_microbatch(const digest_t *d, uint32_t i) {
  for (uint32_t s = 0; s < d->shape->stage_count; s++) {
    check_op(d, i, s);
    check_window(d, i, s);
  }
  check_followers(d, i);
  if (has_started(d, i) || d->run->status == 0)
    check_ran(d, i);
  if (d->shape->reports)
    check_report(d, i);
}

void real_check(const real_run_t *run) {
  static digest_t digest;
  digest_t *d = &digest;
  read_log(d, run);
  work_out_ends(d);
  for (uint32_t i = 0; i < run->plan.count; i++)
    d->failed_microbatches += has_failed_op(d, i);
  for (uint32_t i = 0; i < run->plan.count; i++)
    check_microbatch(d, i);
  check_widths(d);
  for (uint32_t l = 0; l < run->shape.lane_count; l++)
    if (run->shape.lanes[l].fixed || run->shape.mode == OVL_SERIAL)
      check_order(d, l);
  check_stopped(d);
  check_failure(d);
  check_told(d);
  check_counts(d);
  check_records(d);
}
