/* SPDX-License-Identifier: MIT */
/* Shows that chains whose runners go ahead keep every promise: the order of a lane, what an op waits for, the window, and
 * what callbacks see; that nothing begins after a cancel or a failure has been told; that ops which fail or are pending
 * bring their runners back; and that statistics, traces and dumps know all, at any time. And that they do go ahead. */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/pipeline.h"
#include "exec/crew.h"
#include "support/describe.h"
#include "support/foreign.h"
#include "support/interrupt.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/seed.h"
#include "support/watchdog.h"

enum { MOST_LANES = 5, MOST_STAGES = 10, ROUNDS = TEST_SANITIZED ? 8 : 24, COUNT = 2000 };

/* ---- a chain that watches itself ---- */

typedef struct chain {
  ovl_pipeline_t *p;
  unsigned lanes, stages, window, most_ns;
  unsigned lane_of[MOST_STAGES];
  unsigned pending_one_in; /* so many ops are left with other threads; 0: none */
  uint64_t seed;
  foreign_t *others;
  int64_t fails;     /* this microbatch does, in stage fails_on; -1: none */
  bool fails_early;  /* its callback says so first, and then returns 0 */
  unsigned fails_on; /* a stage */
  char *items;       /* one for each microbatch, a byte; NULL: a run without */
  uint64_t count;    /* how many microbatches there will be */

  atomic_uint_least64_t begun[MOST_STAGES], ended[MOST_STAGES];
  atomic_bool busy[MOST_LANES];
  atomic_bool told;             /* a cancel has returned */
  atomic_uint late[MOST_LANES]; /* callbacks that were called after that */
  atomic_uint wrong;
} chain_t;

static void expect(chain_t *c, bool holds) {
  if (!holds)
    atomic_fetch_add(&c->wrong, 1);
}

static uint64_t number_of(const chain_t *c, const ovl_op_t *op) {
  random_source_t random = {c->seed ^ (op->microbatch * MOST_STAGES + op->stage.id)};
  return random_next(&random);
}

static void spin(uint64_t ns) {
  uint64_t end = uv_hrtime() + ns;
  while (ns > 0 && uv_hrtime() < end)
    ;
}

static void check_begin(chain_t *c, const ovl_op_t *op, unsigned s) {
  unsigned l = c->lane_of[s];
  expect(c, !atomic_exchange(&c->busy[l], true) && op->lane.id == l + 1);
  expect(c, atomic_load(&c->begun[s]) == op->microbatch && atomic_load(&c->ended[s]) == op->microbatch);
  if (s > 0)
    expect(c, atomic_load(&c->ended[s - 1]) > op->microbatch);
  else if (op->microbatch >= c->window)
    expect(c, atomic_load(&c->ended[c->stages - 1]) > op->microbatch - c->window);
  bool has_failed = (int64_t)op->microbatch == c->fails && s > c->fails_on; /* which an `always` stage sees */
  expect(c, op->slot == op->microbatch % c->window && op->status == (has_failed ? -7 : 0));
  expect(c, op->item == (c->items != NULL ? &c->items[op->microbatch] : NULL));
  atomic_store(&c->begun[s], op->microbatch + 1);
  if (atomic_load(&c->told))
    expect(c, atomic_fetch_add(&c->late[l], 1) == 0); /* one may have been on its way */
}

static int watched_op(ovl_op_t *op) {
  chain_t *c = op->data;
  unsigned s = op->stage.id - 1;
  uint64_t number = number_of(c, op);
  check_begin(c, op, s);
  if (c->most_ns > 0)
    spin(number % c->most_ns);
  bool fails = (int64_t)op->microbatch == c->fails && s == c->fails_on;
  atomic_store(&c->ended[s], op->microbatch + 1);
  atomic_store(&c->busy[c->lane_of[s]], false);
  if (!fails && c->pending_one_in > 0 && (number >> 32) % c->pending_one_in == 0) {
    foreign_give(c->others, op);
    return OVL_PENDING;
  }
  if (fails && c->fails_early) {
    assert_int_equal(ovl_op_complete(op, -7), 0);
    return 0;
  }
  return fails ? -7 : 0;
}

/* The first two stages are on different lanes, the others anywhere. */
static void make_chain(chain_t *c, random_source_t *random, ovl_pipeline_options_t options, bool always) {
  unsigned lanes = 2 + random_below(random, MOST_LANES - 1), window = 1 + random_below(random, 9);
  *c = (chain_t){.lanes = lanes, .stages = lanes, .window = window, .fails = -1};
  if (random_chance(random, 60))
    c->stages = 2 + random_below(random, MOST_STAGES - 1);
  options.window = window;
  c->p = make_pipeline(&options);
  ovl_lane_t lane[MOST_LANES];
  for (unsigned l = 0; l < lanes; l++)
    lane[l] = add_lane(c->p, OVL_LANE_POOL, 1);
  for (unsigned s = 0; s < c->stages; s++) {
    c->lane_of[s] = s < 2 || c->stages == lanes ? s : random_below(random, lanes);
    ovl_stage_options_t stage = stage_options(lane[c->lane_of[s]], watched_op, c);
    stage.always = always;
    add_stage_with(c->p, &stage);
  }
  c->seed = random_next(random);
  c->most_ns = random_chance(random, 30) ? 0 : 1 + random_below(random, 3000);
}

static int run_chain(chain_t *c, uint64_t count) {
  for (unsigned s = 0; s < c->stages; s++) {
    atomic_store(&c->begun[s], 0);
    atomic_store(&c->ended[s], 0);
  }
  for (unsigned l = 0; l < c->lanes; l++) {
    atomic_store(&c->busy[l], false);
    atomic_store(&c->late[l], 0);
  }
  atomic_store(&c->told, false);
  c->count = count;
  return ovl_pipeline_run(c->p, count);
}

static void judge(const chain_t *c, int status, int expected) {
  if (status != expected || atomic_load(&c->wrong) != 0)
    fail_msg("status %d, %u things wrong; %s", status, atomic_load(&c->wrong), seed_words());
}

/* How often somebody has gone on ahead in the last run. */
static uint64_t steps_of(const chain_t *c) {
  uint64_t steps = 0;
  for (unsigned l = 0; l < c->p->exec.ahead_count; l++)
    steps += atomic_load(&c->p->exec.ahead[l].noted);
  return steps;
}

static void choose(chain_t *c, random_source_t *random, uint32_t trace) {
  ovl_pipeline_options_t options = pipeline_options(0);
  options.trace = trace;
  make_chain(c, random, options, false);
}

/* ---- the promises ---- */

/* Plays on until somebody has gone ahead often enough for this to mean something; not for ever: on a machine where only
 * one runner ever has a thread or a processor, nobody does. */
static void chains_keep_their_promises(void **state) {
  (void)state;
  uint64_t steps = 0, rounds = seed_rounds(ROUNDS);
  for (uint64_t round = 0; round < rounds || (round < 3 * rounds && steps < COUNT); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    choose(&c, &random, 0);
    for (unsigned runs = 0; runs < 3; runs++) {
      uint64_t count = random_chance(&random, 20) ? random_below(&random, 40) : COUNT;
      judge(&c, run_chain(&c, count), 0);
      assert_int_equal(stats_of(c.p).ops, count * c.stages);
      steps += steps_of(&c);
    }
    ovl_pipeline_close(c.p, NULL);
  }
  print_message("gone ahead %" PRIu64 " times\n", steps);
}

static void pending_ops_bring_their_runners_back(void **state) {
  (void)state;
  foreign_t others;
  foreign_start(&others, 2, 64, NULL);
  for (uint64_t round = 0; round < seed_rounds(ROUNDS); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    choose(&c, &random, 0);
    c.others = &others;
    c.pending_one_in = 1 + random_below(&random, 60);
    judge(&c, run_chain(&c, COUNT / 4), 0);
    assert_int_equal(stats_of(c.p).ops, COUNT / 4 * c.stages);
    ovl_pipeline_close(c.p, NULL);
  }
  foreign_stop(&others);
}

static void a_failure_ends_all(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(ROUNDS); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    choose(&c, &random, 0);
    c.fails = random_below(&random, COUNT);
    c.fails_on = random_below(&random, c.stages);
    c.fails_early = random_chance(&random, 50);
    judge(&c, run_chain(&c, COUNT), -7);
    ovl_failure_t failure = failure_of(c.p);
    assert_int_equal(failure.microbatch, c.fails);
    assert_int_equal(failure.stage.id, c.fails_on + 1);
    uint64_t begun = 0;
    for (unsigned s = 0; s < c.stages; s++) {
      assert_true(s <= c.fails_on || atomic_load(&c.begun[s]) <= (uint64_t)c.fails);
      begun += atomic_load(&c.begun[s]);
    }
    assert_int_equal(stats_of(c.p).ops, begun); /* each op that was called is known to have ended */
    c.fails = -1;
    judge(&c, run_chain(&c, 100), 0); /* and the next run is as good as any */
    ovl_pipeline_close(c.p, NULL);
  }
}

static void run_serial(chain_t *c) {
  assert_int_equal(ovl_pipeline_set_mode(c->p, OVL_SERIAL), 0);
  judge(c, run_chain(c, 40), 0);
  assert_int_equal(ovl_pipeline_set_mode(c->p, OVL_OVERLAP), 0);
}

static void run_stream(chain_t *c, char *items, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    assert_int_equal(ovl_pipeline_submit(c->p, &items[i]), 0);
  assert_int_equal(ovl_pipeline_finish(c->p), 0);
  c->items = items;
  judge(c, run_chain(c, OVL_STREAMING), 0);
  c->items = NULL;
}

static void run_failing(chain_t *c, random_source_t *random) {
  c->fails = random_below(random, 40);
  c->fails_on = random_below(random, c->stages);
  judge(c, run_chain(c, 40), -7);
  c->fails = -1;
}

/* Who goes ahead sets up what callbacks see, where runs of other kinds have left what theirs saw. */
static void runs_of_all_kinds_take_turns(void **state) {
  (void)state;
  enum { ITEMS = 40 };
  static char items[ITEMS];
  ovl_pipeline_options_t options = pipeline_options(0);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.queue = ITEMS;
  uint64_t steps = 0, rounds = seed_rounds(ROUNDS / 2);
  for (uint64_t round = 0; round < rounds || (round < 3 * rounds && steps < COUNT); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    make_chain(&c, &random, options, true);
    for (unsigned runs = 0; runs < 4; runs++) {
      switch (random_below(&random, 3)) {
      case 0:
        run_serial(&c);
        break;
      case 1:
        run_stream(&c, items, ITEMS);
        break;
      default:
        run_failing(&c, &random);
        break;
      }
      judge(&c, run_chain(&c, COUNT / 4), 0);
      steps += steps_of(&c);
    }
    ovl_pipeline_close(c.p, NULL);
  }
  print_message("gone ahead %" PRIu64 " times\n", steps);
}

/* ---- at any time ---- */

static void wait_for_begun(chain_t *c, uint64_t count) {
  while (atomic_load(&c->begun[0]) < count)
    sched_yield(); /* the runners have use for the processor */
}

static void cancel_at(void *data) {
  chain_t *c = data;
  wait_for_begun(c, 1 + c->seed % COUNT);
  assert_int_equal(ovl_pipeline_cancel(c->p), 0);
  atomic_store(&c->told, true);
}

/* Runs of chains that the other thread ends. */
static void run_beside(uv_thread_cb beside, uint64_t rounds) {
  for (uint64_t round = 0; round < seed_rounds(rounds); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    choose(&c, &random, 0);
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, beside, &c), 0);
    int status = run_chain(&c, UINT64_C(1) << 40);
    uv_thread_join(&thread);
    judge(&c, status, OVL_ECANCELED);
    ovl_pipeline_close(c.p, NULL);
  }
}

static void nothing_begins_after_a_cancel(void **state) {
  (void)state;
  run_beside(cancel_at, 4 * ROUNDS);
}

/* What the core knows lies between what had ended before the question and what has begun after it. */
static void look_on(void *data) {
  chain_t *c = data;
  char text[4000];
  wait_for_begun(c, 1);
  for (unsigned looks = 0; looks < 300; looks++) {
    uint64_t ended = 0, begun = 0;
    for (unsigned s = 0; s < c->stages; s++)
      ended += atomic_load(&c->ended[s]);
    uint64_t known = stats_of(c->p).ops;
    for (unsigned s = 0; s < c->stages; s++)
      begun += atomic_load(&c->begun[s]);
    expect(c, known <= begun && known + c->lanes >= ended); /* those whose callbacks were yet to return */
    if (looks % 16 == 0)
      ovl_pipeline_dump(c->p, text, sizeof text);
  }
  ovl_pipeline_cancel(c->p);
}

static void who_looks_sees_all(void **state) {
  (void)state;
  run_beside(look_on, ROUNDS / 4);
}

/* ---- times ---- */

static void check_lane_times(const chain_t *c, unsigned l) {
  ovl_lane_stats_t s;
  ovl_lane_stats_init(&s);
  assert_int_equal(ovl_pipeline_lane_stats(c->p, (ovl_lane_t){l + 1}, &s), 0);
  uint64_t idle = s.idle_fill_ns + s.idle_dependency_ns + s.idle_window_ns + s.idle_input_ns +
                  s.idle_fixed_order_ns + s.idle_runner_ns + s.idle_tail_ns;
  uint64_t sum = s.busy_ns + idle, apart = sum > s.elapsed_ns ? sum - s.elapsed_ns : s.elapsed_ns - sum;
  assert_true(apart <= 10); /* each part is rounded by itself */
}

static void check_records(const chain_t *c, const ovl_trace_record_t *records, size_t count) {
  uint64_t end[MOST_LANES] = {0}, number[MOST_STAGES] = {0};
  uint64_t *ends = calloc((size_t)c->count * c->stages, sizeof *ends);
  assert_non_null(ends);
  for (size_t i = 0; i < count; i++) {
    const ovl_trace_record_t *r = &records[i];
    unsigned l = r->lane.id - 1, s = r->stage.id - 1;
    assert_int_equal(l, c->lane_of[s]);
    assert_int_equal(r->microbatch, number[s]++);
    assert_int_equal(r->slot, r->microbatch % c->window);
    assert_true(r->ready_ns <= r->start_ns && r->start_ns <= r->end_ns && r->start_ns >= end[l]);
    if (s > 0)
      assert_true(r->start_ns >= ends[r->microbatch * c->stages + s - 1]);
    else if (r->microbatch >= c->window)
      assert_true(r->start_ns >= ends[(r->microbatch - c->window) * c->stages + c->stages - 1]);
    end[l] = ends[r->microbatch * c->stages + s] = r->end_ns;
  }
  free(ends);
}

static void times_are_those_of_a_run(void **state) {
  (void)state;
  ovl_trace_record_t *records = calloc(COUNT * MOST_STAGES, sizeof *records);
  assert_non_null(records);
  for (uint64_t round = 0; round < seed_rounds(ROUNDS / 4); round++) {
    seed_round(seed_first() + round);
    random_source_t random = {seed_first() + round};
    chain_t c;
    choose(&c, &random, COUNT * MOST_STAGES);
    judge(&c, run_chain(&c, COUNT), 0);
    ovl_trace_t trace;
    ovl_trace_init(&trace, records, COUNT * MOST_STAGES);
    assert_int_equal(ovl_pipeline_trace(c.p, &trace), 0);
    assert_int_equal(trace.count, COUNT * c.stages);
    check_records(&c, records, trace.count);
    for (unsigned l = 0; l < c.lanes; l++)
      check_lane_times(&c, l);
    ovl_stats_t s = stats_of(c.p);
    assert_true(s.bound_ns <= s.elapsed_ns);
    ovl_pipeline_close(c.p, NULL);
  }
  free(records);
}

/* ---- step by step: two runners, played by one thread ---- */

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int fail_one(ovl_op_t *op) {
  const chain_t *c = op->data;
  return op->stage.id == 1 && (int64_t)op->microbatch == c->fails ? -7 : 0;
}

typedef struct play {
  ovl_pipeline_t *p;
  ovl_executor_t *x;
  ovl_runner_t *one, *two;
  uint64_t now;
} play_t;

/* Stages in turns on the lanes. */
static play_t begin_play_on(unsigned lanes, uint32_t window, unsigned stages) {
  ovl_pipeline_options_t options = pipeline_options(window);
  play_t y = {.p = make_pipeline(&options), .now = 1000};
  ovl_lane_t lane[MOST_LANES];
  for (unsigned l = 0; l < lanes; l++)
    lane[l] = add_lane(y.p, OVL_LANE_POOL, 1);
  for (unsigned s = 0; s < stages; s++)
    add_stage(y.p, lane[s % lanes], no_op, NULL);
  assert_int_equal(ovl_pipeline_run(y.p, 0), 0);
  y.x = &y.p->exec;
  y.one = &y.x->crew.runners[0];
  y.two = &y.x->crew.runners[1];
  y.x->crew.by_state[OVL_RUNNER_FREE] -= 2;
  y.x->crew.by_state[OVL_RUNNER_WORKING] += 2;
  y.x->called = 0;
  y.x->crew.dismissed = false;
  ovl_ahead_begin(y.x);
  ovl_core_begin(&y.x->core, OVL_OVERLAP, 10, y.now);
  return y;
}

static play_t begin_play(uint32_t window, unsigned stages) { return begin_play_on(2, window, stages); }

static void end_play(play_t *y) {
  ovl_core_cancel(&y->x->core, y->now);
  ovl_core_leave(&y->x->core);
  y->x->crew.by_state[OVL_RUNNER_FREE] += 2;
  y->x->crew.by_state[OVL_RUNNER_WORKING] -= 2;
  ovl_pipeline_close(y->p, NULL);
}

static ovl_core_op_t *begin_locked(play_t *y, uint32_t lane) {
  return ovl_exec_start_next(y->x, lane, 1, ++y->now);
}

static void end_locked(play_t *y, ovl_core_op_t *op) { ovl_exec_call_returned(y->x, op, 0, ++y->now); }

static uint64_t known_ops(const play_t *y, uint32_t stage) { return y->x->core.tally.stages[stage].ops; }

/* It goes from its op to the next, which is NULL where it has to wait. */
static ovl_core_op_t *pass(play_t *y, ovl_runner_t *r) {
  ovl_core_op_t *next = NULL;
  assert_true(ovl_ahead_pass(y->x, &r->trip, ++y->now, &next));
  return next;
}

static ovl_core_op_t *find(play_t *y, ovl_runner_t *r) { return ovl_ahead_find(y->x, &r->trip, ++y->now); }

static void assert_op(const ovl_core_op_t *op, uint64_t microbatch, uint32_t stage) {
  assert_non_null(op);
  assert_int_equal(op->pub.microbatch, microbatch);
  assert_int_equal(op->pub.stage.id, stage);
}

/* From microbatch 0 of the stage. */
static void pass_up_to(play_t *y, ovl_runner_t *r, uint64_t microbatch, uint32_t stage) {
  for (uint64_t i = 1; i <= microbatch; i++)
    assert_op(pass(y, r), i, stage);
}

static void the_core_hears_in_order(void **state) {
  (void)state;
  play_t y = begin_play(3, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  assert_ptr_equal(y.one->trip.on, &y.x->ahead[0]);
  pass_up_to(&y, y.one, 2, 1);
  assert_int_equal(known_ops(&y, 0), 0); /* nobody has looked */
  assert_null(pass(&y, y.one));          /* the window */
  assert_int_equal(ovl_ahead_ended(y.x), 3);
  assert_true(ovl_ahead_catch_up(y.x));
  assert_false(ovl_ahead_catch_up(y.x));
  assert_int_equal(known_ops(&y, 0), 3);
  ovl_ahead_leave_vacant(y.x);
  ovl_core_op_t *op = begin_locked(&y, 1);
  assert_op(op, 0, 2);
  ovl_ahead_go(y.x, y.two, op);
  assert_op(pass(&y, y.two), 1, 2);
  assert_op(find(&y, y.one), 3, 1); /* its lane is open again, and it is its turn */
  assert_true(ovl_ahead_catch_up(y.x));
  assert_int_equal(known_ops(&y, 1), 1);
  assert_int_equal(y.x->core.running, 2);
  ovl_ahead_call_back(y.x);
  assert_false(ovl_ahead_pass(y.x, &y.one->trip, ++y.now, &op));
  assert_false(ovl_ahead_pass(y.x, &y.two->trip, ++y.now, &op));
  end_play(&y);
}

/* Or who looks for ops would take it for news all the time. */
static void what_was_skipped_is_known(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(3);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  chain_t c = {
      .p = make_pipeline(&options), .lanes = 2, .stages = 2, .window = 3, .fails = 7, .lane_of = {0, 1}};
  for (unsigned s = 0; s < 2; s++)
    add_stage(c.p, add_lane(c.p, OVL_LANE_POOL, 1), fail_one, &c);
  assert_int_equal(ovl_pipeline_run(c.p, 30), -7);
  assert_int_equal(stats_of(c.p).ops, 59);
  assert_int_equal(ovl_ahead_ended(&c.p->exec), c.p->exec.ahead_known);
  ovl_pipeline_close(c.p, NULL);
}

/* Its runner is put aside right then: what others have built on that is not to be missed for as long. */
static void an_op_that_others_see_ended_is_known(void **state) {
  (void)state;
  play_t y = begin_play(3, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  assert_op(pass(&y, y.one), 1, 1);
  ovl_ahead_catch_up(y.x);
  ovl_ahead_go(y.x, y.two, begin_locked(&y, 1));
  assert_null(pass(&y, y.two));
  ovl_ahead_note_at(&y.x->ahead[0], 1)->ended = ++y.now;
  ovl_ahead_stage_ended(&y.x->ahead_stages[0], 1, y.x->core.plan->rows, y.now);
  assert_op(find(&y, y.two), 1, 2);
  assert_null(pass(&y, y.two));
  ovl_ahead_catch_up(y.x);
  assert_int_equal(known_ops(&y, 0), 2);
  assert_int_equal(known_ops(&y, 1), 2);
  ovl_ahead_call_back(y.x);
  end_play(&y);
}

/* Another runner is on the lane by now. */
static void who_was_called_back_takes_no_step(void **state) {
  (void)state;
  play_t y = begin_play(1, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  assert_null(pass(&y, y.one));
  ovl_ahead_call_back(y.x);
  end_locked(&y, begin_locked(&y, 1));
  ovl_ahead_go(y.x, y.two, begin_locked(&y, 0));
  assert_ptr_equal(y.two->trip.on, y.one->trip.on);
  assert_null(find(&y, y.one));
  ovl_ahead_stop(y.x, y.one); /* is back, and takes nothing from the other */
  assert_null(pass(&y, y.two));
  ovl_ahead_call_back(y.x);
  assert_int_equal(known_ops(&y, 0), 2);
  end_play(&y);
}

static void who_has_to_wait_takes_another_lane(void **state) {
  (void)state;
  play_t y = begin_play(1, 2);
  ovl_core_op_t *op = begin_locked(&y, 0);
  ovl_ahead_go(y.x, y.one, op);
  for (uint64_t i = 0; i < 9; i++) {
    assert_null(pass(&y, y.one));
    assert_op(find(&y, y.one), i, 2);
    assert_null(pass(&y, y.one));
    op = find(&y, y.one);
    assert_op(op, i + 1, 1);
    assert_true(ovl_ahead_may_wait(y.x, &y.one->trip));
    ovl_ahead_keep(y.x, y.one);
  }
  assert_int_equal(known_ops(&y, 0), 9);
  assert_int_equal(known_ops(&y, 1), 9);
  ovl_ahead_stop(y.x, y.one); /* with an op that is running: its lane is closed, the other is vacant still */
  ovl_ahead_leave_vacant(y.x);
  assert_false(ovl_ahead_may_wait(y.x, &(ovl_trip_t){.on = y.x->ahead, .count = 10}));
  end_locked(&y, op);
  assert_int_equal(known_ops(&y, 0), 10);
  end_play(&y);
}

/* Who had kept before goes on with its ops. */
static void who_has_to_wait_becomes_the_keeper(void **state) {
  (void)state;
  play_t y = begin_play(9, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  pass_up_to(&y, y.one, 6, 1);
  ovl_ahead_catch_up(y.x);
  ovl_ahead_go(y.x, y.two, begin_locked(&y, 1));
  pass_up_to(&y, y.two, 5, 2);
  assert_null(pass(&y, y.two)); /* microbatch 6 is under way */
  assert_false(ovl_ahead_has_to_keep(y.x, &y.two->trip, UINT64_MAX));
  y.two->trip.told = y.one->trip.told = OVL_AHEAD_OFTEN; /* so many since the core was told */
  assert_false(ovl_ahead_has_to_keep(y.x, &y.two->trip, 0));
  assert_true(ovl_ahead_has_to_keep(y.x, &y.one->trip, 0));
  assert_true(ovl_ahead_has_to_keep(y.x, &y.two->trip, UINT64_MAX));
  ovl_ahead_keep(y.x, y.two);
  assert_int_equal(known_ops(&y, 1), 6);
  assert_false(ovl_ahead_has_to_keep(y.x, &y.one->trip, 0));
  assert_false(ovl_ahead_has_to_keep(y.x, &y.two->trip, UINT64_MAX)); /* it has */
  assert_op(pass(&y, y.one), 7, 1);
  ovl_ahead_call_back(y.x);
  ovl_ahead_stop(y.x, y.one);
  y.two->trip.told = OVL_AHEAD_OFTEN;
  assert_true(ovl_ahead_has_to_keep(y.x, &y.two->trip, 0)); /* still */
  end_play(&y);
}

/* Some op could begin if the core knew more: of the others' ops, and it keeps again when there are more of those. */
static void a_keeper_that_is_stuck_tells_the_core(void **state) {
  (void)state;
  play_t y = begin_play(9, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  pass_up_to(&y, y.one, 8, 1);
  y.one->trip.told = 1;
  assert_false(ovl_ahead_has_to_keep(y.x, &y.one->trip, UINT64_MAX));
  y.one->trip.stuck = true;
  assert_false(ovl_ahead_has_to_keep(y.x, &y.one->trip, 0)); /* not waiting */
  assert_true(ovl_ahead_has_to_keep(y.x, &y.one->trip, UINT64_MAX));
  ovl_ahead_keep(y.x, y.one);
  assert_int_equal(known_ops(&y, 0), 8);
  assert_false(ovl_ahead_has_to_keep(y.x, &y.one->trip, UINT64_MAX)); /* nothing new */
  ovl_ahead_go(y.x, y.two, begin_locked(&y, 1));
  pass_up_to(&y, y.two, 7, 2);
  assert_null(pass(&y, y.two));
  assert_true(ovl_ahead_has_to_keep(y.x, &y.one->trip, UINT64_MAX));
  ovl_ahead_keep(y.x, y.one);
  assert_int_equal(known_ops(&y, 1), 8);
  ovl_ahead_call_back(y.x);
  assert_false(ovl_ahead_pass(y.x, &y.one->trip, ++y.now, &(ovl_core_op_t *){NULL}));
  end_play(&y);
}

/* Whatever its stage, and its microbatch. In comments: (microbatch, stage) of the ops that may begin, in the order in
 * which they became ready. */
static void who_has_been_ready_longest_comes_first(void **state) {
  (void)state;
  play_t y = begin_play(3, 4);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  assert_op(pass(&y, y.one), 1, 1);
  assert_op(pass(&y, y.one), 2, 1);
  ovl_ahead_catch_up(y.x);
  ovl_core_op_t *op = begin_locked(&y, 1);
  assert_op(op, 0, 2);
  ovl_ahead_go(y.x, y.two, op);
  assert_op(pass(&y, y.two), 1, 2);
  assert_null(pass(&y, y.two));
  assert_op(pass(&y, y.one), 0, 3); /* of (0, 3) and (1, 3) */
  assert_op(pass(&y, y.one), 1, 3);
  assert_op(find(&y, y.two), 2, 2); /* of (2, 2) and (0, 4) */
  assert_op(pass(&y, y.two), 0, 4);
  assert_null(pass(&y, y.two));
  assert_op(pass(&y, y.one), 2, 3); /* of (2, 3) and (3, 1) */
  assert_op(pass(&y, y.one), 3, 1);
  assert_true(ovl_ahead_catch_up(y.x));
  assert_int_equal(y.x->core.running, 1);
  assert_int_equal(known_ops(&y, 2), 3);
  ovl_ahead_call_back(y.x);
  end_play(&y);
}

/* The core would have begun another op, had it been asked before it was told of the last that ended. */
static void the_core_is_told_which_op_it_was(void **state) {
  (void)state;
  play_t y = begin_play(2, 4);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  assert_op(pass(&y, y.one), 1, 1);
  ovl_ahead_catch_up(y.x);
  ovl_core_op_t *op = begin_locked(&y, 1);
  ovl_ahead_go(y.x, y.two, op);
  y.now = 5000;
  assert_null(pass(&y, y.two)); /* ended at 5001; the other did so before, but is slow to say so */
  y.now = 4000;
  op = NULL;
  assert_true(ovl_ahead_pass(y.x, &y.one->trip, ++y.now, &op));
  assert_op(op, 0, 3); /* before it could be ready, as clocks of two processors go */
  y.now = 6000;
  assert_op(find(&y, y.two), 1, 2);
  assert_true(ovl_ahead_catch_up(y.x));
  assert_int_equal(known_ops(&y, 0), 2);
  assert_int_equal(known_ops(&y, 1), 1);
  assert_int_equal(y.x->core.running, 2);
  ovl_ahead_call_back(y.x);
  end_play(&y);
}

/* Who stands by is to see it all the same: perhaps it waits for what another op would do. */
static void an_op_whose_runner_was_called_back_may_take_long(void **state) {
  (void)state;
  play_t y = begin_play(2, 2);
  ovl_ahead_go(y.x, y.one, begin_locked(&y, 0));
  ovl_core_op_t *op = pass(&y, y.one);
  assert_op(op, 1, 1);
  ovl_ahead_catch_up(y.x);
  for (unsigned called_back = 0; called_back < 2; called_back++) {
    assert_false(ovl_ahead_takes_long(y.x, y.now + 1000, 1000));
    assert_true(ovl_ahead_takes_long(y.x, y.now + 2000, 1000));
    ovl_ahead_call_back(y.x);
  }
  ovl_exec_call_returned(y.x, op, OVL_PENDING, ++y.now);
  assert_false(ovl_ahead_takes_long(y.x, y.now + 2000, 1000)); /* others see to that */
  assert_int_equal(ovl_op_complete(&op->pub, 0), 0);
  end_play(&y);
}

static bool goes_ahead(play_t *y, ovl_runner_t *r, const ovl_core_op_t *op) {
  ovl_ahead_go(y->x, r, op);
  bool ahead = r->trip.on != NULL;
  ovl_ahead_call_back(y->x);
  return ahead;
}

/* More lanes than processors: one more is to stand by. Who is busy goes ahead while that one is on his way, and leaves it
 * to the loop to call him, who sees nothing to do: the lanes are theirs. */
static void who_is_to_stand_by_is_not_waited_for(void **state) {
  (void)state;
  play_t y = begin_play_on(3, 3, 3);
  ovl_crew_t *crew = &y.x->crew;
  const ovl_core_op_t *op = begin_locked(&y, 0);
  assert_false(goes_ahead(&y, y.one, op)); /* he may be wanted for an op */
  crew->crowd.processors = 2;
  for (unsigned i = 0; i < 100; i++)
    ovl_crowd_note(&crew->crowd, 1, 1, 1);
  assert_false(goes_ahead(&y, y.one, op)); /* nobody has called him */
  crew->short_handed = true;
  assert_true(goes_ahead(&y, y.one, op));
  crew->short_handed = false;
  assert_int_equal(ovl_crew_wanted(y.x), 1);
  ovl_crew_set_state(crew, &crew->runners[2], OVL_RUNNER_QUEUED);
  assert_true(goes_ahead(&y, y.one, op));
  assert_int_equal(ovl_crew_wanted(y.x), 0);
  crew->runners[2].relief_of = y.one;
  crew->leaving = 1;
  assert_false(goes_ahead(&y, y.one, op)); /* he comes for another, and may be long in coming */
  assert_int_equal(ovl_crew_wanted(y.x), 1);
  crew->runners[2].relief_of = NULL;
  crew->leaving = 0;
  ovl_crew_set_state(crew, &crew->runners[2], OVL_RUNNER_PARKED);
  crew->parked = &crew->runners[2];
  assert_false(goes_ahead(&y, y.one, op)); /* he can be called at once */
  assert_int_equal(ovl_crew_wanted(y.x), 0);
  crew->crowd.stands_by = true;
  assert_true(goes_ahead(&y, y.one, op));
  assert_int_equal(ovl_crew_wanted(y.x), 0);
  crew->dismissed = true;
  crew->crowd.stands_by = false;
  crew->parked = NULL;
  assert_int_equal(ovl_crew_wanted(y.x), 0);
  crew->dismissed = false;
  crew->crowd.processors = 3;
  crew->parked = &crew->runners[2];
  assert_false(goes_ahead(&y, y.one, op));
  crew->parked = NULL;
  ovl_crew_set_state(crew, &crew->runners[2], OVL_RUNNER_FREE);
  end_play(&y);
}

/* ---- ops that wait for each other ---- */

enum { MEETINGS = TEST_SANITIZED ? 5000 : 200000 };

static atomic_uint_least64_t arrived;

/* An op of the second lane waits for the next one of the first. */
static int meet(ovl_op_t *op) {
  if (op->stage.id == 1)
    atomic_store(&arrived, op->microbatch + 1);
  while (op->stage.id == 2 && op->microbatch + 1 < MEETINGS && atomic_load(&arrived) < op->microbatch + 2)
    sched_yield();
  return 0;
}

static void ops_that_wait_for_each_other_go_on(void **state) {
  (void)state;
  if (strcmp(getenv("UV_THREADPOOL_SIZE"), "1") == 0)
    return; /* one thread cannot */
  ovl_pipeline_options_t options = pipeline_options(8);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (unsigned l = 0; l < 2; l++)
    add_stage(p, add_lane(p, OVL_LANE_POOL, 1), meet, NULL);
  atomic_store(&arrived, 0);
  assert_int_equal(ovl_pipeline_run(p, MEETINGS), 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- what a callback sees ---- */

/* Of each microbatch, how many stages have written; plain memory. */
static uint64_t written[8];

static int write_on(ovl_op_t *op) {
  chain_t *c = op->data;
  uint64_t *slot = &written[op->slot];
  if (op->stage.id == 1)
    *slot = 0;
  expect(c, *slot == op->stage.id - 1);
  *slot = op->stage.id;
  return 0;
}

/* Four stages on two lanes: whoever takes a lane has seen what its op waited for, or somebody else has. */
static void who_begins_sees_what_was_written_before(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(8);
  chain_t c = {.p = make_pipeline(&options)};
  ovl_lane_t lanes[] = {add_lane(c.p, OVL_LANE_POOL, 1), add_lane(c.p, OVL_LANE_POOL, 1)};
  for (unsigned s = 0; s < 4; s++)
    add_stage(c.p, lanes[s % 2], write_on, &c);
  assert_int_equal(ovl_pipeline_run(c.p, TEST_SANITIZED ? 100000 : 300000), 0);
  assert_int_equal(atomic_load(&c.wrong), 0);
  ovl_pipeline_close(c.p, NULL);
}

/* ---- which chains can ---- */

static void no_report(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p, (void)microbatch, (void)item, (void)status;
}

typedef struct kind {
  const char *name;
  bool can, report, shared_lane, third_stage, wide, loop, fixed, hook, deadline, unchained, dependency;
} kind_t;

static void only_plain_chains_can(void **state) {
  (void)state;
  const kind_t kinds[] = {{.name = "a chain", .can = true},
                          {.name = "three stages on two lanes", .can = true, .third_stage = true},
                          {.name = "with reports", .report = true},
                          {.name = "all stages on a lane", .shared_lane = true, .third_stage = true},
                          {.name = "a wide lane", .wide = true},
                          {.name = "a loop lane", .loop = true},
                          {.name = "a lane of fixed order", .fixed = true},
                          {.name = "a cancel hook", .hook = true},
                          {.name = "a deadline", .deadline = true},
                          {.name = "an unchained stage", .unchained = true},
                          {.name = "a dependency", .dependency = true}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kind_t *k = &kinds[i];
    ovl_pipeline_options_t options = pipeline_options(4);
    options.on_microbatch = k->report ? no_report : NULL;
    ovl_pipeline_t *p = make_pipeline(&options);
    ovl_lane_options_t l = lane_options(NULL, k->loop ? OVL_LANE_LOOP : OVL_LANE_POOL, k->wide ? 2 : 1);
    l.order = k->fixed ? OVL_ORDER_FIXED : OVL_ORDER_READY;
    ovl_lane_t first = add_lane(p, OVL_LANE_POOL, 1), second = add_lane_with(p, &l);
    ovl_stage_t a = add_stage(p, first, no_op, NULL);
    ovl_stage_options_t s = stage_options(k->shared_lane ? first : second, no_op, NULL);
    s.cancel = k->hook ? no_op : NULL;
    s.timeout_ns = k->deadline ? UINT64_C(60000000000) : 0;
    s.unchained = k->unchained;
    ovl_stage_t b = add_stage_with(p, &s);
    if (k->third_stage)
      add_stage(p, first, no_op, NULL);
    if (k->dependency)
      assert_int_equal(ovl_pipeline_add_dependency(p, b, a, 2), 0);
    assert_int_equal(ovl_pipeline_run(p, 20), 0);
    if (p->exec.ahead_count != (k->can ? 2 : 0))
      fail_msg("%s: %u", k->name, (unsigned)p->exec.ahead_count);
    ovl_pipeline_close(p, NULL);
  }
}

#ifdef TEST_INTERRUPTED
static void threads_were_put_aside(void **state) {
  (void)state;
  assert_int_not_equal(interrupt_count(), 0);
}
#endif

int main(void) {
  seed_init();
  setenv("UV_THREADPOOL_SIZE", "6", 0);
  watchdog_expect("a chain whose runners go ahead");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_keep_their_promises),
      cmocka_unit_test(pending_ops_bring_their_runners_back),
      cmocka_unit_test(a_failure_ends_all),
      cmocka_unit_test(runs_of_all_kinds_take_turns),
      cmocka_unit_test(nothing_begins_after_a_cancel),
      cmocka_unit_test(who_looks_sees_all),
      cmocka_unit_test(times_are_those_of_a_run),
      cmocka_unit_test(the_core_hears_in_order),
      cmocka_unit_test(what_was_skipped_is_known),
      cmocka_unit_test(an_op_that_others_see_ended_is_known),
      cmocka_unit_test(who_was_called_back_takes_no_step),
      cmocka_unit_test(who_has_to_wait_takes_another_lane),
      cmocka_unit_test(who_has_to_wait_becomes_the_keeper),
      cmocka_unit_test(a_keeper_that_is_stuck_tells_the_core),
      cmocka_unit_test(who_has_been_ready_longest_comes_first),
      cmocka_unit_test(the_core_is_told_which_op_it_was),
      cmocka_unit_test(an_op_whose_runner_was_called_back_may_take_long),
      cmocka_unit_test(who_is_to_stand_by_is_not_waited_for),
      cmocka_unit_test(ops_that_wait_for_each_other_go_on),
      cmocka_unit_test(who_begins_sees_what_was_written_before),
      cmocka_unit_test(only_plain_chains_can),
#ifdef TEST_INTERRUPTED
      cmocka_unit_test(threads_were_put_aside),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
