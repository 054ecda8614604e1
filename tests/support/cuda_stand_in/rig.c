/* SPDX-License-Identifier: MIT */
/* Streams by the backend's own functions, so that what it makes them is tested by all that uses them. */
#include "support/cuda_stand_in/rig.h"

#include <uv.h>

#include "support/describe.h"
#include "support/seed.h"

rig_t rig;

static void begin(uint64_t seed) {
  stand_in_reset(seed);
  rig.between = NULL;
  rig.modules = 0;
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    assert_int_equal(backend_cuda_init(&rig.cuda[d], d), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(backend_cuda_stream(&rig.cuda[i / 2], i % 2 ? BACKEND_CUDA_URGENT : BACKEND_CUDA_NORMAL,
                                         &rig.streams[i]),
                     0);
  assert_int_equal(cudaSetDevice(0), 0);
  rig.broken = rig.cuda[0].device;
}

static void end(void) {
  for (int i = 0; i < 4; i++)
    (void)cudaStreamDestroy(rig.streams[i]);
  assert_int_equal(stand_in_held(), 0);
}

void rig_start_again(uint64_t seed) {
  end();
  begin(seed);
}

int rig_set_up(void **state) {
  (void)state;
  begin(seed_first());
  return 0;
}

int rig_tear_down(void **state) {
  (void)state;
  end();
  return 0;
}

/* ---- a pipeline of two lanes ---- */

/* Compute fills the slot's cell, comm empties it into a cell of the microbatch; a third stage only takes time. */
static int put(ovl_op_t *op) {
  const uint64_t costs[] = {0, COMPUTE_NS, COMM_NS, USE_NS};
  uint64_t slot = UINT64_C(1) << op->slot, result = UINT64_C(1) << (WINDOW + op->microbatch);
  const stand_in_work_t work = {.label = op->stage.id * 1000 + op->microbatch,
                                .duration = costs[op->stage.id],
                                .reads = op->stage.id == 2 ? slot : 0,
                                .writes = op->stage.id == 1   ? slot
                                          : op->stage.id == 2 ? result
                                                              : 0,
                                .units = 1,
                                .module = rig.modules ? op->stage.id : 0};
  if (op->stage.id == 1 && rig.between != NULL)
    rig.between();
  return (int)stand_in_launch(op->stream, &work);
}

void rig_add(ovl_pipeline_t *p, const ovl_device_t *device, cudaStream_t stream, uint64_t cost) {
  ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
  lane.device = device;
  lane.stream = stream;
  ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), put, NULL);
  stage.cost_ns = cost;
  add_stage_with(p, &stage);
}

ovl_pipeline_t *rig_two_lanes(const ovl_device_t *device) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, device, rig.streams[0], COMPUTE_NS);
  rig_add(p, device, rig.streams[1], COMM_NS);
  return p;
}

int rig_enqueue(ovl_pipeline_t *p, cudaStream_t origin) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = MICROBATCHES;
  call.origin = origin;
  return ovl_pipeline_enqueue(p, &call);
}

void rig_close_pipeline(ovl_pipeline_t *p) { ovl_pipeline_close(p, NULL); }

int rig_native_of(const ovl_device_t *device) {
  ovl_pipeline_t *p = rig_two_lanes(device);
  int status = rig_enqueue(p, rig.streams[0]), native = failure_of(p).native;
  stand_in_finish();
  rig_close_pipeline(p);
  return native != 0 ? native : status;
}

uint64_t rig_serial_memory(void) {
  ovl_pipeline_t *p = rig_two_lanes(&rig.cuda[0].device);
  stand_in_clear_memory();
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  stand_in_finish();
  rig_close_pipeline(p);
  return stand_in_memory();
}

/* ---- single calls ---- */

void rig_launch(cudaStream_t stream, uint64_t duration) {
  const stand_in_work_t work = {.duration = duration};
  assert_int_equal(stand_in_launch(stream, &work), 0);
}

void rig_use_the_legacy_stream(void) {
  const stand_in_work_t work = {.duration = COMPUTE_NS};
  (void)stand_in_launch(NULL, &work);
}

void rig_make_blocking(void) {
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cudaStreamDestroy(rig.streams[i]), 0);
    assert_int_equal(cudaStreamCreateWithPriority(&rig.streams[i], cudaStreamDefault, 0), 0);
  }
}

/* ---- asking for events ---- */

void rig_ask(void *data) {
  rig_question_t *question = data;
  question->answer = question->query(&rig.cuda[1], question->event);
  question->last_error = cudaGetLastError();
  (void)cudaThreadExchangeStreamCaptureMode(&question->mode);
}

void rig_ask_elsewhere(rig_question_t *question) {
  uv_thread_t thread;
  question->mode = cudaStreamCaptureModeGlobal;
  assert_int_equal(uv_thread_create(&thread, rig_ask, question), 0);
  assert_int_equal(uv_thread_join(&thread), 0);
}

int rig_ask_at_once(void *context, void *event) {
  return rig.cuda[1].device.enter(context) != 0 ? -1 : (int)cudaEventQuery(event);
}

void *rig_event_ahead(cudaStream_t stream) {
  void *event;
  stand_in_hold(1);
  assert_int_equal(cudaSetDevice(1), 0);
  assert_int_equal(rig.cuda[1].device.event_create(&rig.cuda[1], 0, &event), 0);
  rig_launch(stream, 10);
  assert_int_equal(rig.cuda[1].device.event_record(&rig.cuda[1], event, stream), 0);
  return event;
}
