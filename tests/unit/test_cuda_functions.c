/* SPDX-License-Identifier: MIT */
/* Shows what host functions do to streams in the stand-in for CUDA, that a device which stopped never calls them, and
 * that libovl needs none to know what has ended. Nothing here has run on a GPU. */
#include <stdatomic.h>
#include <string.h>

#include "support/cuda_stand_in/rig.h"
#include "support/describe.h"
#include "support/seed.h"

/* ---- host functions ---- */

/* A backend that is told of ends by host functions instead of asking. Its events are never freed: a pipeline that was
 * given up does not destroy them. */
typedef struct told_event {
  void *event;
  atomic_uint recorded, called;
} told_event_t;

static told_event_t told_events[128];
static uint32_t told_count;

static int told_create(void *context, int timing, void **event) {
  assert_true(told_count < 128);
  told_event_t *told = &told_events[told_count++];
  *event = told;
  return rig.cuda[0].device.event_create(context, timing, &told->event);
}

static void told_destroy(void *context, void *event) {
  rig.cuda[0].device.event_destroy(context, ((told_event_t *)event)->event);
}

static void tell(void *event) { atomic_fetch_add(&((told_event_t *)event)->called, 1); }

/* How its host functions do it. */
static cudaHostFn_t telling = tell;

static int told_record(void *context, void *event, void *stream) {
  told_event_t *told = event;
  int code = (int)cudaLaunchHostFunc(stream, telling, told);
  if (code != 0)
    return code;
  atomic_fetch_add(&told->recorded, 1);
  return rig.cuda[0].device.event_record(context, told->event, stream);
}

static int told_wait(void *context, void *stream, void *event) {
  return rig.cuda[0].device.stream_wait(context, stream, ((told_event_t *)event)->event);
}

static int told_query(void *context, void *event) {
  const told_event_t *told = event;
  (void)context;
  (void)cudaGetLastError(); /* a call, so that the device goes on */
  return atomic_load(&told->called) == atomic_load(&told->recorded) ? 0 : OVL_PENDING;
}

static const ovl_device_t *told_device(void) {
  memset(told_events, 0, sizeof told_events);
  told_count = 0;
  rig.broken.event_create = told_create;
  rig.broken.event_destroy = told_destroy;
  rig.broken.event_record = told_record;
  rig.broken.stream_wait = told_wait;
  rig.broken.event_query = told_query;
  return &rig.broken;
}

static void host_functions_hold_their_stream_up(void **state) {
  (void)state;
  stand_in_set_in_time();
  assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
  assert_int_equal(stand_in_time(), ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
  rig_start_again(seed_first());
  stand_in_set_in_time();
  assert_int_equal(rig_native_of(told_device()), 0);
  assert_true(stand_in_time() >= ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS) +
                                     (MICROBATCHES - 1) * STAND_IN_FUNCTION_NS);
}

static void ask_and_tell(void *event) {
  told_event_t *told = event;
  if (rig.cuda[0].device.event_query(&rig.cuda[0], told->event) == 0)
    tell(told);
}

static void host_functions_may_not_call(void **state) {
  (void)state;
  int told = 0;
  telling = ask_and_tell;
  assert_int_equal(rig_native_of(told_device()), 0);
  telling = tell;
  assert_true(stand_in_calls_inside() > 0);
  for (uint32_t e = 0; e < told_count; e++)
    told += atomic_load(&told_events[e].called) > 0;
  assert_int_equal(told, 0);
}

/* ---- errors that stay ---- */

/* What is on its way then, and what comes later. */
static void nothing_ends_on_a_device_that_stopped(void **state) {
  const stand_in_work_t bad = {.duration = 5, .fault = cudaErrorIllegalAddress};
  const stand_in_work_t other = {.duration = 10, .writes = 1};
  told_event_t told = {.event = NULL};
  (void)state;
  stand_in_set_in_time();
  assert_int_equal(stand_in_launch(rig.streams[0], &bad), 0);
  assert_int_equal(cudaLaunchHostFunc(rig.streams[0], tell, &told), 0);
  assert_int_equal(stand_in_launch(rig.streams[1], &other), 0);
  stand_in_finish();
  assert_int_equal(atomic_load(&told.called), 0);
  assert_true(stand_in_cell(0) == 0);
  assert_int_equal(stand_in_launch(rig.streams[1], &other), cudaErrorIllegalAddress);
}

static uint32_t computes;

/* The device stops before the compute of microbatch 3, and that is when the comm of it has been put down, too. */
static void stop_the_device(void) {
  const stand_in_work_t bad = {.fault = cudaErrorIllegalAddress};
  computes++;
  if (computes == 4)
    assert_int_equal(stand_in_launch(rig.streams[0], &bad), 0);
  if (computes == 6)
    stand_in_hold(0);
}

/* How a run ends whose device stops; what a start says after it. */
static int run_that_stops(const ovl_device_t *device, uint64_t abandon_ns, int *native) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.abandon_ns = abandon_ns;
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, device, rig.streams[0], COMPUTE_NS);
  rig_add(p, device, rig.streams[1], COMM_NS);
  rig.between = stop_the_device;
  computes = 0;
  stand_in_hold(1);
  assert_true(ovl_pipeline_run(p, MICROBATCHES) < 0);
  *native = failure_of(p).native;
  int again = ovl_pipeline_run(p, 0);
  rig_close_pipeline(p);
  return again;
}

/* Who asks is told; who waits to be told is never called. */
static void after_an_error_host_functions_are_not_called(void **state) {
  (void)state;
  int native;
  assert_int_equal(run_that_stops(&rig.cuda[0].device, 0, &native), 0);
  assert_int_equal(native, cudaErrorIllegalAddress);
}

static void who_waits_to_be_told_waits_for_ever(void **state) {
  (void)state;
  int native;
  assert_int_equal(run_that_stops(told_device(), 1, &native), OVL_EPOISONED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      CASE(host_functions_hold_their_stream_up),
      CASE(host_functions_may_not_call),
      CASE(nothing_ends_on_a_device_that_stopped),
      CASE(after_an_error_host_functions_are_not_called),
      cmocka_unit_test_setup(who_waits_to_be_told_waits_for_ever, rig_set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
