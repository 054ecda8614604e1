/* SPDX-License-Identifier: MIT */
/* Cases 1, 2 and 4: work that ends at the wrong moment must not be lost, nor the wake-up that tells of it. */
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

/* ---- case 1: eight foreign threads complete ops while the loop drains [libuv 4584] ----------------------------- */

typedef struct crowd {
  const char *name;
  ovl_lane_kind_t first, second;
  uint32_t width, window;
  bool report;
  uint64_t microbatches;
} crowd_t;

static const crowd_t crowds[] = {
    {"a wide loop lane", LOOP, LOOP, 64, 64, false, 500000},
    {"a wide loop lane, reported", LOOP, LOOP, 8, 8, true, 15000},
    {"narrow loop lanes", LOOP, LOOP, 1, 2, true, 15000},
    {"window 1", LOOP, LOOP, 1, 1, false, 20000},
    {"wide pool lanes", POOL, POOL, 8, 8, false, 15000},
    {"from the pool to the loop", POOL, LOOP, 4, 8, true, 15000},
    {"from the loop to the pool", LOOP, POOL, 4, 8, true, 15000},
};

static foreign_t crowd_threads;
static uint64_t reported;
static bool is_over;

static int give_away(ovl_op_t *op) {
  foreign_give(&crowd_threads, op);
  return OVL_PENDING;
}

static void count_report(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)item;
  expect(status == 0, "%d ended with %s", (int)microbatch, ovl_err_name(status));
  reported++;
}

static void on_over(ovl_pipeline_t *p, int status) {
  (void)p;
  expect(status == 0, "the run ended with %s", ovl_err_name(status));
  expect(!is_over, "done was called twice");
  is_over = true;
}

/* Nothing turns the loop but what has happened: no timer, and no idle handle that keeps it turning. */
static void refuse_rescue(uv_handle_t *handle, void *unused) {
  (void)unused;
  if (handle->type == UV_TIMER || handle->type == UV_IDLE)
    expect(!uv_is_active(handle), "a %s is active", uv_handle_type_name(handle->type));
}

static void look_for_rescue(uv_prepare_t *prepare) {
  if (is_over)
    uv_close((uv_handle_t *)prepare, NULL);
  else
    uv_walk(prepare->loop, refuse_rescue, NULL);
}

static void check_counts(ovl_pipeline_t *p, const char *name, bool report, uint64_t microbatches,
                         uint64_t stages) {
  assert_no_faults(name);
  assert_true(is_over);
  ovl_stats_t stats = stats_of(p);
  assert_int_equal(stats.microbatches, microbatches);
  assert_int_equal(stats.ops, microbatches * stages);
  assert_int_equal(reported, report ? microbatches : 0);
}

static void run_crowd(const crowd_t *crowd) {
  uint64_t n = test_count(crowd->microbatches);
  uv_loop_t loop;
  uv_prepare_t prepare;
  ovl_pipeline_options_t options = pipeline_options(crowd->window);
  if (crowd->report)
    options.on_microbatch = count_report;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, crowd->first, crowd->width), give_away, NULL);
  add_stage(p, add_lane(p, crowd->second, crowd->width), give_away, NULL);
  reported = 0;
  is_over = false;
  watchdog_expect(crowd->name);
  foreign_start(&crowd_threads, 8, 2 * crowd->window, NULL);
  assert_int_equal(uv_loop_init(&loop), 0);
  uv_prepare_init(&loop, &prepare);
  uv_prepare_start(&prepare, look_for_rescue);
  uv_unref((uv_handle_t *)&prepare);
  assert_int_equal(ovl_pipeline_start(p, &loop, n, on_over), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  if (!uv_is_closing((uv_handle_t *)&prepare))
    uv_close((uv_handle_t *)&prepare, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  foreign_stop(&crowd_threads);
  check_counts(p, crowd->name, crowd->report, n, 2);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void case_01_foreign_threads_complete_while_the_loop_drains(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++)
    run_crowd(&crowds[i]);
}

/* ---- case 2: a thousand completions before the loop turns once [libuv 1460] ------------------------------------- */

enum {
  HELD = TEST_CHECKED && TEST_SANITIZED ? 200 : 1000
}; /* each event walks them all where it is checked */

typedef struct hold {
  const char *name;
  ovl_lane_kind_t kind, next;
  bool report;
  bool inside;    /* while the loop is in a callback of this run, not in one of the application */
  size_t threads; /* that complete */
} hold_t;

static const hold_t holds[] = {
    {"loop lane, one thread", LOOP, LOOP, false, false, 1},
    {"loop lane, reported, eight threads", LOOP, LOOP, true, false, 8},
    {"loop lane, one thread, inside a callback", LOOP, LOOP, true, true, 1},
    {"loop lane, eight threads, inside a callback", LOOP, LOOP, false, true, 8},
    {"pool lane, one thread", POOL, LOOP, true, false, 1},
    {"pool lane, eight threads", POOL, POOL, true, false, 8},
    {"pool lane, unreported", POOL, POOL, false, false, 8},
    {"pool lane, eight threads, inside a callback", POOL, LOOP, true, true, 8},
};

static ovl_op_t *held[HELD];
static atomic_uint held_count;
static foreign_t hold_threads;
static const hold_t *holding;

static int hold_op(ovl_op_t *op) {
  held[op->microbatch] = op;
  atomic_fetch_add(&held_count, 1);
  return OVL_PENDING;
}

/* Lets threads complete all that is held, and waits for them, so the loop does not turn meanwhile. */
static void complete_held(void) {
  foreign_start(&hold_threads, holding->threads, HELD, NULL);
  for (int i = 0; i < HELD; i++)
    foreign_give(&hold_threads, held[i]);
  foreign_stop(&hold_threads);
}

static void all_held(uv_timer_t *timer) {
  if (atomic_load(&held_count) < HELD)
    return;
  uv_close((uv_handle_t *)timer, NULL);
  complete_held();
}

/* Of the first microbatch: called on the loop's thread when all the others are held. */
static int complete_inside(ovl_op_t *op) {
  if (op->microbatch == 0) {
    while (atomic_load(&held_count) < HELD)
      uv_sleep(1);
    complete_held();
  }
  return 0;
}

static int end_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void describe_hold(ovl_pipeline_t *p, const hold_t *hold) {
  add_stage(p, add_lane(p, hold->kind, HELD), hold_op, NULL);
  add_stage(p, add_lane(p, hold->next, 1), end_op, NULL);
  if (hold->inside) {
    ovl_stage_options_t stage = stage_options(add_lane(p, LOOP, 1), complete_inside, NULL);
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
}

static void run_hold(const hold_t *hold) {
  uv_loop_t loop;
  uv_timer_t timer;
  ovl_pipeline_options_t options = pipeline_options(HELD);
  if (hold->report)
    options.on_microbatch = count_report;
  ovl_pipeline_t *p = make_pipeline(&options);
  describe_hold(p, hold);
  holding = hold;
  atomic_store(&held_count, 0);
  reported = 0;
  is_over = false;
  watchdog_expect(hold->name);
  assert_int_equal(uv_loop_init(&loop), 0);
  if (!hold->inside) {
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, all_held, 1, 1);
  }
  assert_int_equal(ovl_pipeline_start(p, &loop, HELD, on_over), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  check_counts(p, hold->name, hold->report, HELD, hold->inside ? 3 : 2);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void case_02_a_thousand_completions_before_the_loop_turns(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
    run_hold(&holds[i]);
}

/* ---- case 4: a request that finishes between a poll and the sleep after it [ucx 934, 1102] ---------------------- */

enum { REQUESTS = 8 };

typedef struct request {
  ovl_op_t *op; /* NULL: none */
  int polls;    /* that find it unfinished, before it finishes right behind the last of them */
} request_t;

typedef struct poller {
  const char *name;
  ovl_lane_kind_t kind;
  uint32_t width, window;
  uint64_t poll_max_ns, spin_ns;
  int most_polls;
  uint64_t run_ns, poll_ns; /* how long callbacks take */
  bool by_thread;           /* finished by a thread at some time, and not behind a poll */
  bool busy;                /* another lane keeps a thread busy */
  uint64_t microbatches;
  atomic_int runs, polls;       /* on their way */
  request_t requests[REQUESTS]; /* by slot; no lock: `run` and poll of a lane never overlap */
  atomic_bool finished[REQUESTS];
} poller_t;

static void spin(uint64_t ns) {
  uint64_t until = uv_hrtime() + ns;
  while (ns > 0 && uv_hrtime() < until)
    ;
}

static int begin_request(ovl_op_t *op) {
  poller_t *poller = op->data;
  atomic_fetch_add(&poller->runs, 1);
  spin(poller->run_ns);
  expect(atomic_load(&poller->polls) == 0, "an op runs while its lane is polled");
  request_t *request = &poller->requests[op->slot];
  int polls = (int)(op->microbatch % (uint64_t)(poller->most_polls + 1));
  atomic_store(&poller->finished[op->slot], !poller->by_thread && polls == 0);
  *request = (request_t){.op = op, .polls = polls};
  atomic_fetch_sub(&poller->runs, 1);
  if (poller->by_thread)
    foreign_give(&crowd_threads, op);
  return OVL_PENDING;
}

/* Looks at each request, and lets it finish right after it was found unfinished for the last time. */
static void poll_requests(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  poller_t *poller = data;
  (void)p;
  (void)lane;
  expect(atomic_fetch_add(&poller->polls, 1) == 0, "a lane is polled twice at the same time");
  spin(poller->poll_ns);
  expect(atomic_load(&poller->runs) == 0, "a lane is polled while an op of it runs");
  for (int i = 0; i < REQUESTS; i++) {
    request_t *request = &poller->requests[i];
    if (request->op == NULL)
      continue;
    if (atomic_load(&poller->finished[i])) {
      ovl_op_t *op = request->op;
      request->op = NULL;
      expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
    } else if (!poller->by_thread && --request->polls <= 0) {
      atomic_store(&poller->finished[i], true);
    }
  }
  spin(poller->poll_ns); /* what was completed makes room for the next one */
  expect(atomic_load(&poller->runs) == 0, "an op starts while its lane is polled");
  atomic_fetch_sub(&poller->polls, 1);
}

static int spin_op(ovl_op_t *op) {
  (void)op;
  spin(20000);
  return 0;
}

/* In place of a completion: the request finishes, after some time, and only a poll can tell. */
static void finish_request(ovl_op_t *op) {
  static atomic_uint number;
  poller_t *poller = op->data;
  unsigned turns = 37 * (atomic_fetch_add(&number, 1) % 101);
  while (turns-- > 0)
    atomic_thread_fence(memory_order_seq_cst);
  atomic_store(&poller->finished[op->slot], true);
}

static void run_poller(poller_t *poller) {
  poller->microbatches = test_count(poller->microbatches);
  ovl_pipeline_options_t options = pipeline_options(poller->window);
  options.spin_ns = poller->spin_ns;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_options_t lane = lane_options("polled", poller->kind, poller->width);
  lane.poll = poll_requests;
  lane.poll_max_ns = poller->poll_max_ns;
  lane.data = poller;
  add_stage(p, add_lane_with(p, &lane), begin_request, poller);
  if (poller->busy) {
    ovl_stage_options_t stage = stage_options(add_lane(p, poller->kind, 1), spin_op, NULL);
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
  watchdog_expect(poller->name);
  foreign_start(&crowd_threads, poller->by_thread ? 2 : 0, REQUESTS, finish_request);
  assert_int_equal(ovl_pipeline_run(p, poller->microbatches), 0);
  foreign_stop(&crowd_threads);
  assert_no_faults(poller->name);
  assert_int_equal(stats_of(p).microbatches, poller->microbatches);
  ovl_pipeline_close(p, NULL);
}

/* clang-format off */
static poller_t pollers[] = {
    {.name = "polled pool lane", .kind = POOL, .width = 1, .window = 1, .most_polls = 24, .microbatches = 1000},
    {.name = "polled pool lane, no spinning", .kind = POOL, .width = 1, .window = 1, .spin_ns = 1, .most_polls = 24,
     .microbatches = 500},
    {.name = "polled pool lane, short pauses", .kind = POOL, .width = 1, .window = 2, .poll_max_ns = 1,
     .most_polls = 100, .microbatches = 5000},
    {.name = "polled pool lane, long pauses", .kind = POOL, .width = 1, .window = 1, .poll_max_ns = 5000000,
     .most_polls = 16, .microbatches = 200},
    {.name = "polled pool lane, long ops", .kind = POOL, .width = 3, .window = 8, .most_polls = 4,
     .run_ns = 150000, .poll_ns = 30000, .microbatches = 1000},
    {.name = "polled pool lane, long polls", .kind = POOL, .width = 3, .window = 8, .most_polls = 4,
     .run_ns = 30000, .poll_ns = 150000, .microbatches = 1000},
    {.name = "polled loop lane, long callbacks", .kind = LOOP, .width = 3, .window = 8, .most_polls = 4,
     .run_ns = 30000, .poll_ns = 30000, .microbatches = 500},
    {.name = "wide polled pool lane", .kind = POOL, .width = 4, .window = 8, .most_polls = 24, .microbatches = 5000},
    {.name = "polled pool lane beside a busy one", .kind = POOL, .width = 1, .window = 4, .most_polls = 10,
     .busy = true, .microbatches = 500},
    {.name = "polled loop lane", .kind = LOOP, .width = 1, .window = 1, .most_polls = 16, .microbatches = 200},
    {.name = "polled loop lane, no spinning", .kind = LOOP, .width = 1, .window = 1, .spin_ns = 1, .most_polls = 4,
     .microbatches = 200},
    {.name = "polled loop lane, long pauses", .kind = LOOP, .width = 2, .window = 2, .poll_max_ns = 5000000,
     .spin_ns = 1, .most_polls = 8, .microbatches = 100},
    {.name = "wide polled loop lane", .kind = LOOP, .width = 8, .window = 8, .most_polls = 24, .microbatches = 2000},
    {.name = "polled loop lane beside a busy one", .kind = LOOP, .width = 1, .window = 4, .most_polls = 10,
     .busy = true, .microbatches = 500},
    {.name = "pool lane, finished by a thread", .kind = POOL, .width = 1, .window = 1, .by_thread = true,
     .microbatches = 5000},
    {.name = "pool lane, finished by a thread, no spinning", .kind = POOL, .width = 1, .window = 2, .spin_ns = 1,
     .by_thread = true, .microbatches = 3000},
    {.name = "loop lane, finished by a thread", .kind = LOOP, .width = 8, .window = 8, .by_thread = true,
     .microbatches = 5000},
};
/* clang-format on */

static void case_04_a_request_finishes_right_behind_a_poll(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof pollers / sizeof *pollers; i++)
    run_poller(&pollers[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_01_foreign_threads_complete_while_the_loop_drains),
      cmocka_unit_test(case_02_a_thousand_completions_before_the_loop_turns),
      cmocka_unit_test(case_04_a_request_finishes_right_behind_a_poll),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
