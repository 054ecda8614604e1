/* SPDX-License-Identifier: MIT */
/* Shows what examples/opencl/backend_opencl.c makes of OpenCL's events, on whatever device there is. Queues are held up by
 * gates, events that the host completes, so that every order is the test's. Flushes and references are watched (the
 * linker's --wrap), for PoCL does without the former, and tells nobody of the latter. 77: there is no device. */
#include "opencl/backend_opencl.h"

#include <stdatomic.h>
#include <uv.h>

#include "opencl/work.h"
#include "support/cmocka_all.h"

#define HELD_MS 20 /* for what should be held up to get on all the same; nothing fails for being slower */
#define TIMES 10000

static work_t work;
static ovl_device_t device;

/* ---- OpenCL under watch ---- */

static cl_command_queue unflushed; /* has a marker on it; NULL: none has */
static atomic_int held;            /* references to markers */

cl_int __real_clEnqueueMarkerWithWaitList(cl_command_queue, cl_uint, const cl_event *, cl_event *);
cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue, cl_uint, const cl_event *, cl_event *);
cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *list,
                                          cl_event *event) {
  unflushed = queue;
  atomic_fetch_add(&held, 1);
  return __real_clEnqueueMarkerWithWaitList(queue, count, list, event);
}

cl_int __real_clFlush(cl_command_queue);
cl_int __wrap_clFlush(cl_command_queue);
cl_int __wrap_clFlush(cl_command_queue queue) {
  if (queue == unflushed)
    unflushed = NULL;
  return __real_clFlush(queue);
}

cl_int __real_clRetainEvent(cl_event);
cl_int __wrap_clRetainEvent(cl_event);
cl_int __wrap_clRetainEvent(cl_event event) {
  atomic_fetch_add(&held, 1);
  return __real_clRetainEvent(event);
}

cl_int __real_clReleaseEvent(cl_event);
cl_int __wrap_clReleaseEvent(cl_event);
cl_int __wrap_clReleaseEvent(cl_event event) {
  atomic_fetch_sub(&held, 1);
  return __real_clReleaseEvent(event);
}

/* ---- what the tests are made of ---- */

static int set_up(void **state) {
  (void)state;
  cl_device_id id;
  const work_plan_t plan = {.microbatches = 1, .window = 1, .count = 1, .rounds = 1};
  if (work_find(&id) != 0 || work_init(&work, id, &plan) != 0)
    return -1;
  backend_opencl_init(&device, work.context);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  work_finish(&work);
  return 0;
}

static void *new_event(void) {
  void *event;
  assert_int_equal(device.event_create(device.context, 0, &event), 0);
  return event;
}

static void destroy(void *event) { device.event_destroy(device.context, event); }
static int query(void *event) { return device.event_query(device.context, event); }
static int record(void *event, cl_command_queue queue) {
  return device.event_record(device.context, event, queue);
}
static int wait_for(cl_command_queue queue, void *event) {
  return device.stream_wait(device.context, queue, event);
}

/* Nothing behind it on the queue is done before it is opened. */
static cl_event put_gate(cl_command_queue queue) {
  cl_int code;
  cl_event gate = clCreateUserEvent(work.context, &code);
  assert_int_equal(code, CL_SUCCESS);
  assert_int_equal(clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL), CL_SUCCESS);
  return gate;
}

static void open_gate(cl_event gate) {
  assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  assert_int_equal(clReleaseEvent(gate), CL_SUCCESS);
}

static void finish(cl_command_queue queue) { assert_int_equal(clFinish(queue), CL_SUCCESS); }

static void assert_held(void *event) {
  uv_sleep(HELD_MS);
  assert_int_equal(query(event), OVL_PENDING);
}

/* ---- events ---- */

static void an_event_that_was_never_recorded_is_done(void **state) {
  (void)state;
  void *event = new_event();
  assert_int_equal(query(event), 0);
  assert_int_equal(wait_for(work.comm, event), 0);
  finish(work.comm);
  destroy(event);
}

static void an_event_is_done_when_its_queue_has_come_to_it(void **state) {
  (void)state;
  void *event = new_event();
  cl_event gate = put_gate(work.compute);
  assert_int_equal(record(event, work.compute), 0);
  assert_held(event);
  open_gate(gate);
  finish(work.compute);
  assert_int_equal(query(event), 0);
  destroy(event);
}

/* Others could wait for ever for what a queue keeps to itself. */
static void a_record_is_flushed(void **state) {
  (void)state;
  void *event = new_event();
  unflushed = work.compute;
  assert_int_equal(record(event, work.compute), 0);
  assert_null(unflushed);
  finish(work.compute);
  destroy(event);
}

static void an_event_leaves_no_marker_behind(void **state) {
  (void)state;
  void *event = new_event();
  atomic_store(&held, 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(record(event, work.compute), 0);
    assert_int_equal(wait_for(work.comm, event), 0);
    (void)query(event); /* done or not */
    assert_int_equal(atomic_load(&held), 1);
  }
  destroy(event);
  assert_int_equal(atomic_load(&held), 0);
  finish(work.comm);
}

static void a_wait_keeps_to_the_record_that_it_was_given(void **state) {
  (void)state;
  void *event = new_event(), *behind = new_event();
  cl_event first = put_gate(work.compute);
  assert_int_equal(record(event, work.compute), 0);
  assert_int_equal(wait_for(work.comm, event), 0);
  assert_int_equal(record(behind, work.comm), 0);
  cl_event second = put_gate(work.compute);
  assert_int_equal(record(event, work.compute), 0);
  assert_held(behind);
  open_gate(first);
  finish(work.comm);
  assert_int_equal(query(behind), 0);
  assert_held(event);
  open_gate(second);
  finish(work.compute);
  assert_int_equal(query(event), 0);
  destroy(event);
  destroy(behind);
}

static void an_event_may_go_before_its_queue_comes_to_it(void **state) {
  (void)state;
  void *event = new_event(), *behind = new_event();
  cl_event gate = put_gate(work.compute);
  assert_int_equal(record(event, work.compute), 0);
  assert_int_equal(wait_for(work.comm, event), 0);
  assert_int_equal(record(behind, work.comm), 0);
  destroy(event);
  assert_held(behind);
  open_gate(gate);
  finish(work.comm);
  assert_int_equal(query(behind), 0);
  destroy(behind);
}

typedef struct asker {
  void *event;
  atomic_int recording;
  atomic_int asked; /* how often */
  int wrong;        /* an answer that is neither done nor pending; 0: none */
} asker_t;

static void ask(void *data) {
  asker_t *asker = data;
  while (atomic_load(&asker->recording)) {
    int result = query(asker->event);
    if (result != 0 && result != OVL_PENDING)
      asker->wrong = result;
    atomic_fetch_add(&asker->asked, 1);
  }
}

static void another_thread_may_ask_while_it_is_recorded(void **state) {
  (void)state;
  asker_t asker = {.event = new_event(), .recording = 1};
  uv_thread_t thread;
  int failed = 0;
  assert_int_equal(uv_thread_create(&thread, ask, &asker), 0);
  for (int i = 0; (i < TIMES || atomic_load(&asker.asked) < TIMES) && failed == 0; i++)
    failed = record(asker.event, work.compute);
  atomic_store(&asker.recording, 0);
  assert_int_equal(uv_thread_join(&thread), 0);
  assert_int_equal(failed, 0);
  assert_int_equal(asker.wrong, 0);
  finish(work.compute);
  assert_int_equal(query(asker.event), 0);
  destroy(asker.event);
}

/* ---- errors ---- */

static void codes_of_opencl_come_out_positive(void **state) {
  (void)state;
  void *event = new_event();
  assert_int_equal(backend_opencl_code(CL_SUCCESS), 0);
  assert_int_equal(backend_opencl_code(CL_MAP_FAILURE), 12);
  assert_int_equal(record(event, NULL), -CL_INVALID_COMMAND_QUEUE);
  assert_int_equal(query(event), 0);
  assert_int_equal(record(event, work.compute), 0);
  assert_int_equal(wait_for(NULL, event), -CL_INVALID_COMMAND_QUEUE);
  finish(work.compute);
  destroy(event);
}

/* By itself, for PoCL 3.1 ends the process when there is anything behind a command that failed. */
static void what_stopped_a_command_is_neither_done_nor_pending(void **state) {
  (void)state;
  assert_int_equal(backend_opencl_status(CL_COMPLETE), 0);
  assert_int_equal(backend_opencl_status(CL_RUNNING), OVL_PENDING);
  assert_int_equal(backend_opencl_status(CL_SUBMITTED), OVL_PENDING);
  assert_int_equal(backend_opencl_status(CL_QUEUED), OVL_PENDING);
  assert_int_equal(backend_opencl_status(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST), 14);
}

static void a_queue_out_of_order_is_refused(void **state) {
  (void)state;
  cl_int code;
  cl_command_queue queue =
      clCreateCommandQueue(work.context, work.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
  if (code != CL_SUCCESS) /* a device need not have them */
    skip();
  void *event = new_event();
  assert_int_equal(record(event, queue), OVL_EINVAL);
  destroy(event);
  assert_int_equal(clReleaseCommandQueue(queue), CL_SUCCESS);
}

/* The buffer has one number. */
static int read_beyond(ovl_op_t *op) {
  static cl_uint numbers[2];
  return backend_opencl_code(
      clEnqueueReadBuffer(op->stream, work.results, CL_FALSE, 0, sizeof numbers, numbers, 0, NULL, NULL));
}

static void a_run_keeps_the_code(void **state) {
  (void)state;
  ovl_pipeline_t *pipeline;
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_failure_t failure;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  ovl_failure_init(&failure);
  lane.kind = OVL_LANE_DEVICE;
  lane.device = &device;
  lane.stream = work.compute;
  stage.run = read_beyond;
  assert_int_equal(ovl_pipeline_create(&pipeline, NULL), 0);
  assert_int_equal(ovl_pipeline_add_lane(pipeline, &lane, &stage.lane), 0);
  assert_int_equal(ovl_pipeline_add_stage(pipeline, &stage, NULL), 0);
  assert_int_equal(ovl_pipeline_run(pipeline, 3), OVL_EBADRESULT);
  assert_int_equal(ovl_pipeline_failure(pipeline, &failure), 0);
  assert_int_equal(failure.native, -CL_INVALID_VALUE);
  ovl_pipeline_close(pipeline, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_event_that_was_never_recorded_is_done, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_event_is_done_when_its_queue_has_come_to_it, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_record_is_flushed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_event_leaves_no_marker_behind, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_wait_keeps_to_the_record_that_it_was_given, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_event_may_go_before_its_queue_comes_to_it, set_up, tear_down),
      cmocka_unit_test_setup_teardown(another_thread_may_ask_while_it_is_recorded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(codes_of_opencl_come_out_positive, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_stopped_a_command_is_neither_done_nor_pending, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_queue_out_of_order_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_run_keeps_the_code, set_up, tear_down),
  };
  cl_device_id id;
  if (work_find(&id) != 0)
    return 77;
  return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
