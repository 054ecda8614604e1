/* SPDX-License-Identifier: MIT */
/* Shows that what ovl_pipeline_enqueue puts on streams by examples/cuda_stream/backend_cuda.c can be captured and
 * replayed, and what CUDA's rules about captures, which the stand-in knows, do to backends that break them. Nothing
 * here has run on a GPU. */
#include <uv.h>

#include "support/cuda_stand_in/rig.h"
#include "support/describe.h"
#include "support/seed.h"

/* ---- whole calls ---- */

static cudaGraph_t capture(ovl_pipeline_t *p, cudaStream_t origin) {
  cudaGraph_t graph = NULL;
  assert_int_equal(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), 0);
  assert_int_equal(rig_enqueue(p, origin), 0);
  assert_int_equal(cudaStreamEndCapture(origin, &graph), 0);
  assert_int_equal(stand_in_graph_nodes(graph), 2 * MICROBATCHES);
  return graph;
}

static void replay(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t exec;
  uint64_t from = stand_in_time();
  assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 0), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(cudaGraphLaunch(exec, stream), 0);
  stand_in_finish();
  assert_int_equal(stand_in_time() - from, 3 * ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
  assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

static void a_captured_graph_does_what_an_eager_call_does(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(50); round++) {
    seed_round(seed_first() + round);
    rig_start_again(seed_first() + round);
    uint64_t serial = rig_serial_memory();
    ovl_pipeline_t *p = rig_two_lanes(&rig.cuda[0].device);
    uint32_t first = stand_in_works();
    assert_int_equal(rig_enqueue(p, rig.streams[0]), 0); /* makes the events */
    stand_in_finish();
    uint32_t works = stand_in_works();
    cudaGraph_t graph = capture(p, rig.streams[0]), again = capture(p, rig.streams[0]);
    assert_int_equal(stand_in_works(), works); /* capturing runs nothing */
    assert_true(stand_in_graph_shape(graph) == stand_in_graph_shape(again));
    assert_int_equal(stand_in_graph_differs(graph, first), 0);
    stand_in_clear_memory();
    replay(graph, rig.streams[0]);
    assert_true(stand_in_memory() == serial);
    assert_int_equal(rig_enqueue(p, rig.streams[0]), 0); /* eager calls are as good as before */
    stand_in_finish();
    assert_true(stand_in_memory() == serial);
    assert_int_equal(stand_in_races(), 0);
    cudaGraphDestroy(graph);
    cudaGraphDestroy(again);
    rig_close_pipeline(p);
  }
}

static int waits_in_capture;

/* The fourth wait of a captured call is forgotten, or made for the whole of the other stream. */
static int forget_one(void *context, void *stream, void *event) {
  int capturing = 0;
  (void)rig.cuda[0].device.is_capturing(context, rig.streams[0], &capturing);
  waits_in_capture += capturing;
  return capturing && waits_in_capture == 4 ? 0 : rig.cuda[0].device.stream_wait(context, stream, event);
}

static int wait_for_too_much(void *context, void *stream, void *event) {
  int capturing = 0;
  (void)rig.cuda[0].device.is_capturing(context, rig.streams[0], &capturing);
  waits_in_capture += capturing;
  if (capturing && waits_in_capture == 4)
    (void)cudaEventRecord(event, stream == rig.streams[0] ? rig.streams[1] : rig.streams[0]);
  return rig.cuda[0].device.stream_wait(context, stream, event);
}

/* Neither is seen in what a replay computes unless the device happens to take another order. */
static void a_graph_with_other_waits_differs_from_the_eager_call(void **state) {
  int (*const waits[])(void *, void *, void *) = {forget_one, wait_for_too_much};
  (void)state;
  for (int i = 0; i < 2; i++) {
    waits_in_capture = 0;
    rig.broken.stream_wait = waits[i];
    ovl_pipeline_t *p = rig_two_lanes(&rig.broken);
    uint32_t first = stand_in_works();
    assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
    cudaGraph_t graph = capture(p, rig.streams[0]);
    assert_true(stand_in_graph_differs(graph, first) > 0);
    cudaGraphDestroy(graph);
    rig_close_pipeline(p);
  }
}

/* ---- others ---- */

static void end_capture(cudaStream_t stream, int code) {
  cudaGraph_t graph;
  assert_int_equal(cudaStreamEndCapture(stream, &graph), code);
  if (code == 0)
    cudaGraphDestroy(graph);
}

/* The end of a capture during which somebody asked. */
static int capture_while_asked(rig_question_t *question, enum cudaStreamCaptureMode mode, int elsewhere) {
  cudaGraph_t graph;
  assert_int_equal(cudaSetDevice(0), 0);
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], mode), 0);
  if (elsewhere)
    rig_ask_elsewhere(question);
  else
    rig_ask(question);
  int code = (int)cudaStreamEndCapture(rig.streams[0], &graph);
  if (code == 0)
    cudaGraphDestroy(graph);
  return code;
}

/* Who asks without ado ends global captures of all threads and thread-local ones of its own. */
static void asking_does_not_disturb_a_capture(void **state) {
  (void)state;
  rig_question_t question = {.event = rig_event_ahead(rig.streams[2])};
  for (int i = 0; i < 6; i++) {
    enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)(i / 2);
    int elsewhere = i % 2;
    int ends =
        mode == cudaStreamCaptureModeGlobal || (mode == cudaStreamCaptureModeThreadLocal && !elsewhere);
    question.query = rig.cuda[1].device.event_query;
    assert_int_equal(capture_while_asked(&question, mode, elsewhere), 0);
    assert_int_equal(question.answer, OVL_PENDING);
    question.query = rig_ask_at_once;
    assert_int_equal(capture_while_asked(&question, mode, elsewhere),
                     ends ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    assert_int_equal(question.answer, ends ? cudaErrorStreamCaptureUnsupported : cudaErrorNotReady);
  }
  rig.cuda[1].device.event_destroy(&rig.cuda[1], question.event);
}

/* How a captured call and the capture end. */
static void captured(const ovl_device_t *device, int *status, int *ended) {
  cudaGraph_t graph;
  ovl_pipeline_t *p = rig_two_lanes(device);
  rig.between = NULL;
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  rig.between = rig_use_the_legacy_stream;
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeThreadLocal), 0);
  *status = rig_enqueue(p, rig.streams[0]);
  *ended = (int)cudaStreamEndCapture(rig.streams[0], &graph);
  if (*ended == 0)
    cudaGraphDestroy(graph);
  rig_close_pipeline(p);
}

static void others_on_the_legacy_stream_do_not_end_our_capture(void **state) {
  (void)state;
  int status, ended;
  captured(&rig.cuda[0].device, &status, &ended);
  assert_int_equal(status, 0);
  assert_int_equal(ended, 0);
  rig_make_blocking();
  captured(&rig.cuda[0].device, &status, &ended);
  assert_int_equal(status, OVL_ECAPTURE);
  assert_int_equal(ended, cudaErrorStreamCaptureInvalidated);
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeRelaxed), 0);
  assert_int_equal(stand_in_launch(NULL, &(stand_in_work_t){.duration = 1}), cudaErrorStreamCaptureImplicit);
  end_capture(rig.streams[0], cudaErrorStreamCaptureInvalidated);
}

/* ---- captures ---- */

static int never_capturing(void *context, void *stream, int *capturing) {
  (void)context;
  (void)stream;
  *capturing = 0;
  return 0;
}

/* Events of eager calls get into a graph, or into the next eager call from one. */
static void who_overlooks_a_capture_mixes_events(void **state) {
  (void)state;
  int status[2], ended[2];
  rig.broken.is_capturing = never_capturing;
  for (int kept = 1; kept >= 0; kept--) {
    cudaGraph_t graph = NULL;
    ovl_pipeline_t *p = rig_two_lanes(kept ? &rig.cuda[0].device : &rig.broken);
    assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
    assert_int_equal(cudaStreamBeginCapture(rig.streams[1], cudaStreamCaptureModeGlobal), 0);
    status[kept] = rig_enqueue(p, rig.streams[1]);
    ended[kept] = (int)cudaStreamEndCapture(rig.streams[1], &graph);
    if (graph != NULL)
      cudaGraphDestroy(graph);
    rig_close_pipeline(p);
  }
  assert_int_equal(status[1], 0);
  assert_int_equal(ended[1], 0);
  assert_int_equal(status[0], OVL_EBADRESULT); /* waiting for the last call: 905 */
  assert_int_equal(ended[0], cudaErrorStreamCaptureInvalidated);
}

static int lenient_capturing(void *context, void *stream, int *capturing) {
  int code = rig.cuda[0].device.is_capturing(context, stream, capturing);
  return code == cudaErrorStreamCaptureInvalidated ? 0 : code;
}

static void an_invalid_capture_is_told_before_anything_is_put_down(void **state) {
  (void)state;
  rig.broken.is_capturing = lenient_capturing;
  for (int kept = 1; kept >= 0; kept--) {
    cudaGraph_t graph;
    ovl_pipeline_t *p = rig_two_lanes(kept ? &rig.cuda[0].device : &rig.broken);
    assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
    rig_question_t question = {.query = rig_ask_at_once, .event = rig_event_ahead(rig.streams[2])};
    assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeGlobal), 0);
    rig_ask(&question);
    assert_int_equal(rig_enqueue(p, rig.streams[0]), kept ? OVL_ECAPTURE : OVL_EBADRESULT);
    assert_int_equal(cudaStreamEndCapture(rig.streams[0], &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    rig_close_pipeline(p);
    rig.cuda[1].device.event_destroy(&rig.cuda[1], question.event);
  }
}

static int no_join(void *context, void *stream, void *event) {
  return stream == rig.streams[0] ? 0 : rig.cuda[0].device.stream_wait(context, stream, event);
}

static void streams_that_do_not_join_end_the_capture(void **state) {
  (void)state;
  cudaGraph_t graph;
  rig.broken.stream_wait = no_join;
  ovl_pipeline_t *p = rig_two_lanes(&rig.broken);
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeGlobal), 0);
  assert_int_equal(rig_enqueue(p, rig.streams[0]), 0);
  assert_int_equal(cudaStreamEndCapture(rig.streams[0], &graph), cudaErrorStreamCaptureUnjoined);
  rig_close_pipeline(p);
}

static void wait_for(cudaStream_t stream, void *event, int code) {
  assert_int_equal(rig.cuda[0].device.stream_wait(&rig.cuda[0], stream, event), code);
}

static void *recorded_on(cudaStream_t stream) {
  void *event;
  assert_int_equal(rig.cuda[0].device.event_create(&rig.cuda[0], 0, &event), 0);
  assert_int_equal(rig.cuda[0].device.event_record(&rig.cuda[0], event, stream), 0);
  return event;
}

static void captures_do_not_mix(void **state) {
  (void)state;
  void *outside = recorded_on(rig.streams[0]);
  for (int i = 0; i < 2; i++)
    assert_int_equal(cudaStreamBeginCapture(rig.streams[i], cudaStreamCaptureModeGlobal), 0);
  void *inside = recorded_on(rig.streams[0]);
  wait_for(rig.streams[1], inside, cudaErrorStreamCaptureMerge);
  assert_int_equal(rig.cuda[0].device.event_record(&rig.cuda[0], inside, rig.streams[0]),
                   cudaErrorStreamCaptureInvalidated);
  for (int i = 0; i < 2; i++)
    end_capture(rig.streams[i], cudaErrorStreamCaptureInvalidated);
  wait_for(rig.streams[1], inside, cudaErrorCapturedEvent); /* what was captured never happens */
  assert_int_equal(rig.cuda[0].device.event_query(&rig.cuda[0], inside), cudaErrorCapturedEvent);
  assert_int_equal(cudaStreamBeginCapture(rig.streams[1], cudaStreamCaptureModeGlobal), 0);
  wait_for(rig.streams[1], outside, cudaErrorStreamCaptureIsolation);
  end_capture(rig.streams[1], cudaErrorStreamCaptureInvalidated);
  rig.cuda[0].device.event_destroy(&rig.cuda[0], outside);
  rig.cuda[0].device.event_destroy(&rig.cuda[0], inside);
}

static void end_elsewhere(void *code) {
  cudaGraph_t graph;
  *(cudaError_t *)code = cudaStreamEndCapture(rig.streams[0], &graph);
}

static void captures_end_where_they_began(void **state) {
  (void)state;
  cudaError_t code;
  uv_thread_t thread;
  assert_int_equal(cudaStreamBeginCapture(rig.streams[0], cudaStreamCaptureModeThreadLocal), 0);
  assert_int_equal(uv_thread_create(&thread, end_elsewhere, &code), 0);
  assert_int_equal(uv_thread_join(&thread), 0);
  assert_int_equal(code, cudaErrorStreamCaptureWrongThread);
  void *fork = recorded_on(rig.streams[0]);
  wait_for(rig.streams[1], fork, 0);
  end_capture(rig.streams[1], cudaErrorStreamCaptureUnmatched);
  end_capture(rig.streams[0], cudaErrorStreamCaptureInvalidated);
  rig.cuda[0].device.event_destroy(&rig.cuda[0], fork);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      CASE(a_captured_graph_does_what_an_eager_call_does),
      CASE(a_graph_with_other_waits_differs_from_the_eager_call),
      CASE(asking_does_not_disturb_a_capture),
      CASE(others_on_the_legacy_stream_do_not_end_our_capture),
      CASE(who_overlooks_a_capture_mixes_events),
      CASE(an_invalid_capture_is_told_before_anything_is_put_down),
      CASE(streams_that_do_not_join_end_the_capture),
      CASE(captures_do_not_mix),
      CASE(captures_end_where_they_began),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
