/* SPDX-License-Identifier: MIT */
/* Case 28: ten million microbatches, and the process holds no more memory than it did after the first thousand;
 * nor does the library ask its allocator for any while a run is under way. [PyTorch 147168] */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

enum { SETTLED = 1000, SAMPLES = 64 };

/* The kernel counts a process's pages by processor and thread, so its sum is off by some. */
static const int64_t TOLERANCE = 2 * 1024 * 1024;

/* ---- what the process holds ------------------------------------------------------------------------------------- */

/* Resident bytes; -1: unknown. Allocates nothing. */
static int64_t resident(void) {
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return -1;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0)
    return -1;
  text[length] = '\0';
  char *end;
  strtoll(text, &end, 10); /* the first number is the virtual size */
  return (int64_t)strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}

typedef struct ledger {
  atomic_uint allocated, released;
  atomic_bool running; /* between the first op and the last report */
} ledger_t;

static void *allocate(void *context, size_t bytes) {
  ledger_t *ledger = context;
  expect(!atomic_load(&ledger->running), "%zu bytes were asked for while a run was under way", bytes);
  atomic_fetch_add(&ledger->allocated, 1);
  return malloc(bytes);
}

static void release(void *context, void *memory) {
  ledger_t *ledger = context;
  expect(!atomic_load(&ledger->running), "memory was released while a run was under way");
  atomic_fetch_add(&ledger->released, 1);
  free(memory);
}

/* ---- runs ----------------------------------------------------------------------------------------------------------- */

typedef enum way { AT_ONCE, COMPLETED_FIRST, BY_FOREIGN, BY_POLL, FAILING } way_t;

typedef struct load {
  const char *name;
  ovl_lane_kind_t kinds[2];
  way_t way;
  bool told, streaming;
  uint64_t microbatches;
} load_t;

/* clang-format off */
static const load_t loads[] = {
    {"two pool lanes", {POOL, POOL}, AT_ONCE, false, false, 10000000},
    {"two loop lanes", {LOOP, LOOP}, AT_ONCE, false, false, 2000000},
    {"reported", {POOL, LOOP}, AT_ONCE, true, false, 100000},
    {"completed before the return", {POOL, LOOP}, COMPLETED_FIRST, false, false, 100000},
    {"completed by threads", {POOL, LOOP}, BY_FOREIGN, true, false, 50000},
    {"polled", {POOL, POOL}, BY_POLL, false, false, 100000},
    {"every microbatch fails", {LOOP, LOOP}, FAILING, true, false, 1000000},
    {"streaming", {POOL, POOL}, AT_ONCE, true, true, 150000},
};
/* clang-format on */

static const load_t *load;
static uint64_t count, step; /* microbatches; from sample to sample */
static int64_t settled, most;
static ledger_t ledger;
static foreign_t foreign;
static _Atomic(ovl_op_t *) polled;

static void sample(uint64_t microbatch) {
  if (microbatch < SETTLED || (microbatch - SETTLED) % step != 0)
    return;
  int64_t now = resident();
  if (microbatch == SETTLED)
    settled = now;
  most = now > most ? now : most;
}

static int first_op(ovl_op_t *op) {
  if (op->microbatch == 0)
    atomic_store(&ledger.running, true);
  sample(op->microbatch);
  return load->way == FAILING ? -4711 : 0;
}

static int second_op(ovl_op_t *op) {
  switch (load->way) {
  case AT_ONCE:
  case FAILING:
    return 0;
  case COMPLETED_FIRST:
    expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
    return OVL_PENDING;
  case BY_FOREIGN:
    foreign_give(&foreign, op);
    return OVL_PENDING;
  case BY_POLL:
    atomic_store(&polled, op);
    return OVL_PENDING;
  }
  return OVL_EINVAL;
}

static void poll_op(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
  ovl_op_t *op = atomic_exchange(&polled, NULL);
  if (op != NULL)
    expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
}

static void on_failure(ovl_pipeline_t *p, const ovl_failure_t *failure) {
  (void)p;
  (void)failure;
}

static void on_room(ovl_pipeline_t *p) { (void)p; }

static void submit_rest(void *argument) {
  ovl_pipeline_t *p = argument;
  for (uint64_t i = 1; i < count; i++)
    while (ovl_pipeline_submit(p, NULL) == OVL_EAGAIN)
      sched_yield();
  expect(ovl_pipeline_finish(p) == 0, "finish was refused");
}

static ovl_pipeline_t *describe(void) {
  ovl_allocator_t allocator;
  ovl_allocator_init(&allocator);
  allocator.allocate = allocate;
  allocator.release = release;
  allocator.context = &ledger;
  ovl_pipeline_options_t options = pipeline_options(8);
  options.allocator = &allocator;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  if (load->told) {
    options.on_microbatch = on_microbatch;
    options.on_failure = on_failure;
    options.on_room = on_room;
  }
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, load->kinds[0], 1), first_op, NULL);
  ovl_lane_options_t second = lane_options("second", load->kinds[1], 1);
  second.poll = load->way == BY_POLL ? poll_op : NULL;
  add_stage(p, add_lane_with(p, &second), second_op, NULL);
  return p;
}

static int run(ovl_pipeline_t *p) {
  uv_thread_t submitter;
  if (!load->streaming)
    return ovl_pipeline_run(p, count);
  assert_int_equal(ovl_pipeline_submit(p, NULL), 0); /* freezes the description before others come */
  assert_int_equal(uv_thread_create(&submitter, submit_rest, p), 0);
  int r = ovl_pipeline_run(p, OVL_STREAMING);
  uv_thread_join(&submitter);
  return r;
}

static void check_growth(const char *name) {
  print_message("%s: %.1f MB after the first thousand, at most %.1f MB from there to number %llu\n", name,
                (double)settled / 1e6, (double)most / 1e6, (unsigned long long)count);
  assert_true(settled > 0 || resident() < 0);
  if (!TEST_SANITIZED) /* whose own bookkeeping grows */
    assert_true(most - settled < TOLERANCE);
}

static void prepare_samples(uint64_t microbatches) {
  count = microbatches;
  step = (count - SETTLED) / SAMPLES + 1;
  settled = most = 0;
}

static void carry(const load_t *l) {
  load = l;
  prepare_samples(2 * SETTLED + test_count(l->microbatches));
  ledger = (ledger_t){0};
  watchdog_expect(l->name);
  foreign_start(&foreign, l->way == BY_FOREIGN ? 2 : 0, 8, NULL);
  ovl_pipeline_t *p = describe();
  int r = run(p);
  atomic_store(&ledger.running, false);
  foreign_stop(&foreign);
  assert_no_faults(l->name);
  assert_int_equal(r, l->way == FAILING ? -4711 : 0);
  assert_int_equal(stats_of(p).microbatches, count);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(atomic_load(&ledger.allocated), atomic_load(&ledger.released));
  check_growth(l->name);
}

static void case_28_microbatches_leave_nothing_behind(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
    carry(&loads[i]);
}

/* ---- many runs -------------------------------------------------------------------------------------------------------- */

static uv_loop_t loop;
static uint64_t runs;

static int short_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

static void on_done(ovl_pipeline_t *p, int status) {
  expect(status == 0, "a run ended with %s", ovl_err_name(status));
  sample(++runs);
  if (runs < count)
    expect(ovl_pipeline_start(p, &loop, 3, on_done) == 0, "start inside done was refused");
}

static ovl_pipeline_t *short_pipeline(void) {
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, POOL, 1), short_op, NULL);
  add_stage(p, add_lane(p, LOOP, 1), short_op, NULL);
  return p;
}

static void case_28_runs_leave_nothing_behind(void **state) {
  (void)state;
  ovl_pipeline_t *p = short_pipeline();
  watchdog_expect("many runs");
  prepare_samples(SETTLED + test_count(8000));
  runs = 0;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, 3, on_done), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_no_faults("many runs");
  assert_int_equal(runs, count);
  assert_int_equal(uv_loop_close(&loop), 0);
  check_growth("many runs");
  prepare_samples(SETTLED + test_count(2000));
  for (uint64_t i = 1; i <= count; i++) {
    assert_int_equal(ovl_pipeline_run(p, 3), 0);
    sample(i);
  }
  check_growth("many blocking runs");
  ovl_pipeline_close(p, NULL);
}

static void case_28_pipelines_leave_nothing_behind(void **state) {
  (void)state;
  watchdog_expect("many pipelines");
  prepare_samples(SETTLED + test_count(2000));
  for (uint64_t i = 1; i <= count; i++) {
    ovl_pipeline_t *p = short_pipeline();
    assert_int_equal(ovl_pipeline_run(p, 3), 0);
    ovl_pipeline_close(p, NULL);
    sample(i);
  }
  check_growth("many pipelines");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_28_microbatches_leave_nothing_behind),
      cmocka_unit_test(case_28_runs_leave_nothing_behind),
      cmocka_unit_test(case_28_pipelines_leave_nothing_behind),
  };
  if (resident() < 0)
    printf("/proc/self/statm cannot be read: only the allocator is watched\n");
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
