/* SPDX-License-Identifier: MIT */
/* Case 32 with device lanes: every allocation of a run and of an enqueue may fail, and every event may fail to be made; the
 * call says so, nothing leaks, and the same call works afterwards. Once under way neither allocates anything. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/counting_allocator.h"
#include "support/describe.h"
#include "support/paper_device.h"
#include "support/watchdog.h"

enum { MICROBATCHES = 6 };

static counting_allocator_t allocator;
static paper_t *paper;
static unsigned long allocations_seen; /* when the first op was issued */

static int put(ovl_op_t *op) {
  if (op->microbatch == 0 && op->stage.id == 1)
    allocations_seen = atomic_load(&allocator.allocations);
  paper_put(op, 5);
  return 0;
}

static int work(ovl_op_t *op) {
  (void)op;
  return 0;
}

static ovl_pipeline_t *describe(bool host, ovl_device_timing_t timing) {
  static ovl_allocator_t hook;
  ovl_allocator_init(&hook);
  hook.allocate = counting_allocate;
  hook.release = counting_release;
  hook.context = &allocator;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.allocator = &hook;
  options.trace = 4;
  options.device_timing = timing;
  paper_init(paper);
  if (host)
    paper->devices[1].sync_domain = NULL; /* two issuers */
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int s = 0; s < 3; s++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
    lane.device = &paper->devices[s % 2];
    lane.stream = paper_stream(paper, s % 2);
    add_stage(p, add_lane_with(p, &lane), put, NULL);
  }
  if (host)
    add_stage(p, add_lane(p, OVL_LANE_POOL, 1), work, NULL);
  return p;
}

static int run(ovl_pipeline_t *p) {
  watchdog_expect("a run on paper");
  return ovl_pipeline_run(p, MICROBATCHES);
}

static int enqueue(ovl_pipeline_t *p) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = MICROBATCHES;
  call.origin = &paper->streams[0];
  return ovl_pipeline_enqueue(p, &call);
}

static int fingerprint(ovl_pipeline_t *p) {
  return ovl_pipeline_fingerprint(p, MICROBATCHES) != 0 ? 0 : OVL_ENOMEM;
}

/* A way to fail the n-th time, and whether it did. */
static void fail_memory(long n) { atomic_store(&allocator.fail_at, n); }

static bool memory_failed(void) { return atomic_exchange(&allocator.fail_at, 0) == 0; }

static void fail_events(long n) { paper->events_left = n; }

static bool events_failed(void) { return paper->events_left-- == 0; }

typedef struct fault {
  void (*set)(long n);
  bool (*happened)(void);
  int status;
} fault_t;

/* False: the call has no n-th. */
static bool fail_nth(int (*call)(ovl_pipeline_t *), ovl_pipeline_t *p, const fault_t *fault, long n) {
  fault->set(n);
  int r = call(p);
  bool failed = fault->happened();
  assert_int_equal(r, failed ? fault->status : 0);
  assert_true((strlen(ovl_pipeline_error(p)) > 0) == failed);
  paper->events_left = -1;
  if (failed)
    assert_int_equal(call(p), 0);
  ovl_pipeline_close(p, NULL);
  assert_int_equal(paper->events_made, paper->events_ended);
  assert_int_equal(counting_held(&allocator), 0);
  return failed;
}

static void fail_each(int (*call)(ovl_pipeline_t *), const fault_t *fault, long at_least) {
  for (int timing = OVL_DEVICE_TIMING_OFF; timing <= OVL_DEVICE_TIMING_ALL; timing++) {
    long n = 1;
    while (fail_nth(call, describe(call != enqueue, (ovl_device_timing_t)timing), fault, n))
      n++;
    assert_true(n > at_least); /* it did allocate */
  }
}

static void each_allocation_may_fail(void **state) {
  (void)state;
  const fault_t fault = {fail_memory, memory_failed, OVL_ENOMEM};
  fail_each(run, &fault, 40);
  fail_each(enqueue, &fault, 30);
  fail_each(fingerprint, &fault, 5);
}

static void each_event_may_fail_to_be_made(void **state) {
  (void)state;
  const fault_t fault = {fail_events, events_failed, OVL_EBADRESULT};
  fail_each(run, &fault, 5);
  fail_each(enqueue, &fault, 5);
}

static void once_under_way_nothing_is_allocated(void **state) {
  (void)state;
  int (*const calls[])(ovl_pipeline_t *) = {run, enqueue};
  for (int c = 0; c < 2; c++) {
    ovl_pipeline_t *p = describe(c == 0, c == 0 ? OVL_DEVICE_TIMING_ALL : OVL_DEVICE_TIMING_OFF);
    assert_int_equal(calls[c](p), 0);
    assert_int_equal(atomic_load(&allocator.allocations), allocations_seen);
    uint32_t events = paper->events_made;
    assert_int_equal(calls[c](p), 0); /* nor for the next */
    assert_int_equal(atomic_load(&allocator.allocations), allocations_seen);
    assert_int_equal(paper->events_made, events);
    ovl_pipeline_close(p, NULL);
  }
}

int main(void) {
  paper = malloc(sizeof *paper);
  if (paper == NULL)
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_allocation_may_fail),
      cmocka_unit_test(each_event_may_fail_to_be_made),
      cmocka_unit_test(once_under_way_nothing_is_allocated),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL) != 0;
  free(paper);
  return failed;
}
