/* SPDX-License-Identifier: MIT */
/* Shows when the crew takes a pool to have threads to spare: when a relief gets one although nobody gave one up. Turns
 * grow then, and stay short on a pool that the crew fills by itself, however long its ops are. And when an idle runner
 * keeps its thread longer: after one that gave it up was called back and had another at once. At the end of a run
 * nobody stays for whom there will be nothing to do; at its start two are called, if it is known that both will have. */
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "api/pipeline.h"
#include "exec/crew.h"
#include "support/describe.h"
#include "support/nap.h"
#include "support/watchdog.h"

enum { THREADS = 4, COUNT = 32, SHORT_OPS = 15 };

#define MS UINT64_C(1000000)

static atomic_uint short_ops; /* that have ended */
static uint64_t first_turn, longest_turn;

/* On one lane of width 1, so one at a time. Looks neither at the start, when runners are yet to come, nor at the end,
 * when lanes have nothing to do any more. */
static int look(ovl_op_t *op) {
  ovl_executor_t *x = &op->pipeline->exec;
  nap_for(MS, MS);
  ovl_exec_lock(x);
  if (op->microbatch == 0 && first_turn == 0)
    first_turn = x->crew.turn_ns;
  if (op->microbatch >= COUNT / 2 && op->microbatch < COUNT * 3 / 4 && x->crew.turn_ns > longest_turn)
    longest_turn = x->crew.turn_ns;
  ovl_exec_unlock(x);
  atomic_fetch_add(&short_ops, 1);
  return 0;
}

/* As long as the short ops of the microbatch: however slow the machine is, all lanes are busy all the time. */
static int take_long(ovl_op_t *op) {
  do
    nap_for(MS, MS);
  while (atomic_load(&short_ops) < SHORT_OPS * (op->microbatch + 1));
  return 0;
}

static ovl_stage_t add_free_stage(ovl_pipeline_t *p, ovl_lane_t lane, ovl_op_cb run) {
  ovl_stage_options_t stage = stage_options(lane, run, NULL);
  stage.unchained = true;
  return add_stage_with(p, &stage);
}

/* Lanes that never wait for one another, busy alike: `longs` with one op a microbatch, one with many. */
static void run_lanes(unsigned longs) {
  ovl_pipeline_options_t options = pipeline_options(COUNT);
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("lanes that are busy alike");
  first_turn = longest_turn = 0;
  atomic_store(&short_ops, 0);
  for (unsigned i = 0; i < longs; i++)
    add_free_stage(p, add_lane(p, OVL_LANE_POOL, 1), take_long);
  ovl_lane_t lane = add_lane(p, OVL_LANE_POOL, 1);
  for (int i = 0; i < SHORT_OPS; i++)
    add_free_stage(p, lane, look);
  assert_int_equal(ovl_pipeline_run(p, COUNT), 0);
  ovl_pipeline_close(p, NULL);
}

static void turns_stay_short_on_a_full_pool(void **state) {
  (void)state;
  run_lanes(THREADS - 1);
  assert_int_equal(longest_turn, 10 * MS);
}

static void turns_grow_where_there_are_threads_to_spare(void **state) {
  (void)state;
  uint64_t longest = 0;
  for (int tries = 0; tries < 20 && longest < 40 * MS; tries++) { /* reliefs may be late on a busy machine */
    run_lanes(1);
    longest = longest_turn;
  }
  assert_in_range(longest, 40 * MS, 80 * MS);
}

/* Another pipeline begins with what was learned of the pool, and learns that it is not so any more. */
static void what_was_learned_of_the_pool_is_for_all(void **state) {
  (void)state;
  first_turn = 0;
  for (int tries = 0; tries < 20 && first_turn <= 10 * MS;
       tries++) { /* it may be forgotten at the end of the run */
    run_lanes(1);
    run_lanes(THREADS - 1);
  }
  assert_in_range(first_turn, 20 * MS, 80 * MS);
  assert_int_equal(longest_turn, 10 * MS);
}

/* ---- the start ---- */

static uint32_t live_at_start; /* runners that were called, when the first op began */
static uint64_t first_spin;    /* how long the second looks for its first op */

static int note_start(ovl_op_t *op) {
  ovl_executor_t *x = &op->pipeline->exec;
  if (op->microbatch == 0 && op->stage.id == 1) {
    ovl_exec_lock(x);
    live_at_start = ovl_crew_live(&x->crew);
    first_spin = x->crew.first_spin_ns;
    ovl_exec_unlock(x);
  }
  nap_for(MS / 2, 0);
  return 0;
}

static ovl_pipeline_t *make_two_lanes(uint64_t spin_ns) {
  ovl_pipeline_options_t options = pipeline_options(2);
  options.spin_ns = spin_ns;
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int i = 0; i < 2; i++)
    add_stage(p, add_lane(p, OVL_LANE_POOL, 1), note_start, NULL);
  return p;
}

/* Runs again, and looks whether the run began with what is known of the last one: whether two runners had ops at one time,
 * for the second may come too late in a run, and how long first ops took. Returns how many runs began with two. */
static unsigned run_again(ovl_pipeline_t *p, int runs, uint64_t count, bool overlaps, bool spins) {
  const ovl_executor_t *x = &p->exec;
  unsigned two = 0;
  for (int i = 0; i < runs; i++) {
    bool pairs = overlaps && x->crew.two_worked && uv_available_parallelism() >= 2;
    uint64_t mean = pairs ? x->core.tally.stages[0].total / x->core.tally.stages[0].ops : 0;
    assert_int_equal(ovl_pipeline_run(p, count), 0);
    assert_int_equal(x->crew.pairs, pairs);
    assert_int_equal(first_spin, pairs && spins && mean <= 2 * MS ? mean * 3 / 2 : 0);
    assert_in_range(live_at_start, 0, pairs ? 2 : 1);
    two += live_at_start == 2;
  }
  return two;
}

static void begin_with_two(ovl_pipeline_t *p, bool spins) {
  unsigned two = 0;
  for (int tries = 0; tries < 100 && two < 3; tries++)
    two += run_again(p, 1, 3, true, spins);
  assert_true(two == 3 || uv_available_parallelism() < 2);
}

static void two_are_called_where_two_had_ops_before(void **state) {
  (void)state;
  watchdog_expect("runs with two lanes");
  ovl_pipeline_t *p = make_two_lanes(0);
  assert_int_equal(run_again(p, 1, 3, true, true), 0); /* it is not known yet */
  begin_with_two(p, true);
  assert_int_equal(run_again(p, 1, 1, false, true), 0); /* a single microbatch */
  begin_with_two(p, true);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(run_again(p, 3, 3, false, true), 0);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_OVERLAP), 0);
  assert_int_equal(run_again(p, 1, 3, true, true), 0);
  begin_with_two(p, true);
  ovl_pipeline_close(p, NULL);
}

static void who_chooses_how_long_to_spin_gets_that(void **state) {
  (void)state;
  const uint64_t spins[] = {1, 50000};
  watchdog_expect("runs with a spin time");
  for (int i = 0; i < 2; i++) {
    ovl_pipeline_t *p = make_two_lanes(spins[i]);
    begin_with_two(p, false);
    ovl_pipeline_close(p, NULL);
  }
}

/* ---- idle runners ---- */

enum { FLIGHTS = 30, OTHERS = 4 * THREADS, OTHERS_MS = 5 };

static uv_work_t others[OTHERS];
static atomic_bool others_go_on;
static uint64_t longest_stay; /* of an idle runner: its sleep, or, where turns have grown, its turn */

static void be_busy(uv_work_t *work) {
  (void)work;
  nap_for(OTHERS_MS * MS, 0);
}

static void be_busy_again(uv_work_t *work, int status) {
  assert_int_equal(status, 0);
  if (atomic_load(&others_go_on))
    assert_int_equal(uv_queue_work(work->loop, work, be_busy, be_busy_again), 0);
}

static int note_stay(ovl_op_t *op) {
  ovl_executor_t *x = &op->pipeline->exec;
  ovl_exec_lock(x);
  uint64_t stay = x->crew.turns_grew ? x->crew.turn_ns : x->crew.park_ns;
  if (stay > longest_stay)
    longest_stay = stay;
  ovl_exec_unlock(x);
  return 0;
}

/* Ends when the loop's timer says so: no runner is wanted until then. */
static void land(uv_timer_t *timer) { assert_int_equal(ovl_op_complete(timer->data, 0), 0); }

static int fly(ovl_op_t *op) {
  uv_timer_t *timer = ovl_pipeline_data(op->pipeline);
  timer->data = op;
  assert_int_equal(uv_timer_start(timer, land, 4, 0), 0); /* twice the shortest sleep of a runner */
  return OVL_PENDING;
}

static void flights_are_over(ovl_pipeline_t *p, int status) {
  assert_int_equal(status, 0);
  atomic_store(&others_go_on, false);
  uv_close(ovl_pipeline_data(p), NULL);
}

/* Short ops on a pool lane with a flight between any two, while others fill the pool or nobody does. */
static void fly_often(bool busy) {
  uv_loop_t loop;
  uv_timer_t timer;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_timer_init(&loop, &timer), 0);
  ovl_pipeline_options_t options = pipeline_options(1);
  options.data = &timer;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), note_stay, NULL);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 1), fly, NULL);
  watchdog_expect(busy ? "flights beside others" : "flights");
  longest_stay = 0;
  atomic_store(&others_go_on, busy);
  for (int i = 0; busy && i < OTHERS; i++)
    assert_int_equal(uv_queue_work(&loop, &others[i], be_busy, be_busy_again), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, FLIGHTS, flights_are_over), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void idle_runners_learn_to_stay(void **state) {
  (void)state;
  longest_stay = 0;
  for (int tries = 0; tries < 20 && longest_stay < 8 * MS;
       tries++) /* threads may come late on a busy machine */
    fly_often(false);
  assert_in_range(longest_stay, 8 * MS, 80 * MS);
}

static void idle_runners_leave_where_others_wait(void **state) {
  (void)state;
  longest_stay = 16 * MS;
  for (int tries = 0; tries < 20 && longest_stay > 2 * MS;
       tries++) /* the loop may be late to queue the others */
    fly_often(true);
  assert_int_equal(longest_stay, 2 * MS);
}

/* ---- a runner that has asked for a relief, and begins a long op ---- */

enum { FAR = 1000 };

static bool is_to_ask; /* with the lock */
static atomic_bool is_long, through;
static atomic_uint brief_ops[THREADS + 1]; /* by number of the stage */
static atomic_uint before; /* the most of those of a stage, before others' work came through */
static uv_work_t other;

static ovl_runner_t *runner_on(ovl_executor_t *x, uint32_t lane) {
  ovl_runner_t *r = x->crew.runners;
  while (r->state != OVL_RUNNER_WORKING || r->lane != lane || r->calling == 0)
    r++;
  return r;
}

/* Once all threads are taken, and nobody has asked yet, turns have grown, and this runner's is over: it asks, the others
 * have just begun theirs. Its next op lasts until others' work has come through. */
static bool let_it_ask(ovl_crew_t *crew, ovl_runner_t *r) {
  if (crew->on_thread != THREADS || crew->asking > 0 || crew->leaving > 0)
    return false;
  crew->turn_ns = 80 * MS;
  for (uint32_t i = 0; i < crew->count; i++)
    crew->runners[i].since = ovl_clock_now(&r->executor->clock);
  r->since = 0;
  return true;
}

static int ask_and_last(ovl_op_t *op) {
  ovl_executor_t *x = &op->pipeline->exec;
  ovl_exec_lock(x);
  ovl_runner_t *r = runner_on(x, op->lane.id - 1);
  bool asked = is_to_ask && !atomic_load(&is_long) && (r->asked || r->leave_at != 0);
  if (!asked && !atomic_load(&is_long))
    is_to_ask = let_it_ask(&x->crew, r);
  ovl_exec_unlock(x);
  if (asked)
    atomic_store(&is_long, true);
  do
    nap_for(MS, 0);
  while (asked && !atomic_load(&through));
  return 0;
}

static int be_brief(ovl_op_t *op) {
  atomic_fetch_add(&brief_ops[op->stage.id], 1);
  if (!atomic_load(&through))
    nap_for(MS, 0);
  return 0;
}

static void come_through(uv_work_t *work) {
  (void)work;
  for (int i = 0; i <= THREADS; i++)
    if (atomic_load(&brief_ops[i]) > atomic_load(&before))
      atomic_store(&before, atomic_load(&brief_ops[i]));
  atomic_store(&through, true);
}

static void note_through(uv_work_t *work, int status) {
  (void)work;
  assert_int_equal(status, 0);
}

static void queue_other(uv_timer_t *timer) {
  if (!atomic_load(&is_long))
    return;
  assert_int_equal(uv_queue_work(timer->loop, &other, come_through, note_through), 0);
  uv_close((uv_handle_t *)timer, NULL);
}

static void close_timer(ovl_pipeline_t *p, int status) {
  uv_handle_t *timer = ovl_pipeline_data(p);
  assert_int_equal(status, 0);
  if (!uv_is_closing(timer))
    uv_close(timer, NULL);
}

static void who_asked_and_stays_keeps_nobody_from_asking(void **state) {
  (void)state;
  uv_loop_t loop;
  uv_timer_t timer;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_timer_init(&loop, &timer), 0);
  ovl_pipeline_options_t options = pipeline_options(FAR);
  options.data = &timer;
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("others' work beside a long op");
  is_to_ask = false;
  atomic_store(&is_long, false);
  atomic_store(&through, false);
  atomic_store(&before, 0);
  for (int i = 0; i <= THREADS; i++)
    atomic_store(&brief_ops[i], 0);
  for (int i = 0; i < THREADS; i++)
    add_free_stage(p, add_lane(p, OVL_LANE_POOL, 1), i == 0 ? ask_and_last : be_brief);
  assert_int_equal(uv_timer_start(&timer, queue_other, 1, 1), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, FAR, close_timer), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_true(atomic_load(&through));
  assert_true(atomic_load(&before) < FAR - 1); /* nobody had run out of ops */
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- the end of a run ---- */

enum { FEW = 4 };

static atomic_bool last_began, stayed;

static bool is_alone(ovl_pipeline_t *p) {
  ovl_executor_t *x = &p->exec;
  ovl_exec_lock(x);
  bool alone = x->crew.on_thread == 1;
  if (x->crew.by_state[OVL_RUNNER_PARKED] > 0)
    atomic_store(&stayed, true);
  ovl_exec_unlock(x);
  return alone;
}

/* The last op of all waits until its runner is alone. */
static int outlast(ovl_op_t *op) {
  if (op->microbatch < FEW - 1)
    return 0;
  atomic_store(&last_began, true);
  while (!is_alone(op->pipeline))
    nap_for(MS, 0);
  return 0;
}

/* The last one of the other lane ends when that has begun. */
static int end_before(ovl_op_t *op) {
  while (op->microbatch == FEW - 1 && !atomic_load(&last_began))
    nap_for(MS, 0);
  return 0;
}

static void who_is_not_needed_any_more_leaves_at_once(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(FEW);
  ovl_pipeline_t *p = make_pipeline(&options);
  watchdog_expect("a runner that leaves during the last op");
  add_free_stage(p, add_lane(p, OVL_LANE_POOL, 1), end_before);
  add_free_stage(p, add_lane(p, OVL_LANE_POOL, 1), outlast);
  assert_int_equal(ovl_pipeline_run(p, FEW), 0);
  assert_true(atomic_load(&last_began));
  assert_false(atomic_load(&stayed));
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  setenv("UV_THREADPOOL_SIZE", "4", 1); /* THREADS; before libuv makes them */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_are_called_where_two_had_ops_before),
      cmocka_unit_test(who_chooses_how_long_to_spin_gets_that),
      cmocka_unit_test(turns_stay_short_on_a_full_pool),
      cmocka_unit_test(turns_grow_where_there_are_threads_to_spare),
      cmocka_unit_test(what_was_learned_of_the_pool_is_for_all),
      cmocka_unit_test(idle_runners_learn_to_stay),
      cmocka_unit_test(idle_runners_leave_where_others_wait),
      cmocka_unit_test(who_asked_and_stays_keeps_nobody_from_asking),
      cmocka_unit_test(who_is_not_needed_any_more_leaves_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
