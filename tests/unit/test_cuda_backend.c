/* SPDX-License-Identifier: MIT */
/* Shows that examples/cuda_stream/backend_cuda.c keeps to the rules of CUDA which the stand-in knows: first what
 * ovl_pipeline_enqueue puts on streams through it, eager and captured, then one rule at a time. For each there is a
 * backend that breaks it, and what comes of that. Nothing here has run on a GPU. */
#include "cuda_stream/backend_cuda.h"

#include <string.h>
#include <uv.h>

#include "support/cuda_stand_in/stand_in.h"
#include "support/describe.h"
#include "support/seed.h"

enum { MICROBATCHES = 12, WINDOW = 3, COMPUTE_NS = 50, COMM_NS = 30 };

static backend_cuda_t cuda[STAND_IN_DEVICES];
static cudaStream_t streams[4]; /* two of device 0, two of device 1 */
static ovl_device_t broken;     /* a copy of the first table, with an entry or more replaced */
static void (*between)(void);   /* what somebody else does before each compute op; NULL: nothing */

static void begin(uint64_t seed) {
  stand_in_reset(seed);
  between = NULL;
  for (int d = 0; d < STAND_IN_DEVICES; d++)
    assert_int_equal(backend_cuda_init(&cuda[d], d), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(
        backend_cuda_stream(&cuda[i / 2], i % 2 ? BACKEND_CUDA_URGENT : BACKEND_CUDA_NORMAL, &streams[i]), 0);
  assert_int_equal(cudaSetDevice(0), 0);
  broken = cuda[0].device;
}

static void end(void) {
  for (int i = 0; i < 4; i++)
    (void)cudaStreamDestroy(streams[i]);
  assert_int_equal(stand_in_held(), 0);
}

static void start_again(uint64_t seed) {
  end();
  begin(seed);
}

static int set_up(void **state) {
  (void)state;
  begin(seed_first());
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  end();
  return 0;
}

/* ---- a pipeline of two lanes ---- */

/* Compute fills the slot's cell, comm empties it into a cell of the microbatch. */
static int put(ovl_op_t *op) {
  int compute = op->stage.id == 1;
  uint64_t slot = UINT64_C(1) << op->slot, result = UINT64_C(1) << (WINDOW + op->microbatch);
  const stand_in_work_t work = {.label = op->stage.id * 1000 + op->microbatch,
                                .duration = compute ? COMPUTE_NS : COMM_NS,
                                .reads = compute ? 0 : slot,
                                .writes = compute ? slot : result};
  if (compute && between != NULL)
    between();
  return (int)stand_in_launch(op->stream, &work);
}

static void add(ovl_pipeline_t *p, const ovl_device_t *device, cudaStream_t stream, uint64_t cost) {
  ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
  lane.device = device;
  lane.stream = stream;
  ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), put, NULL);
  stage.cost_ns = cost;
  add_stage_with(p, &stage);
}

static ovl_pipeline_t *two_lanes(const ovl_device_t *device) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  ovl_pipeline_t *p = make_pipeline(&options);
  add(p, device, streams[0], COMPUTE_NS);
  add(p, device, streams[1], COMM_NS);
  return p;
}

static int enqueue(ovl_pipeline_t *p, cudaStream_t origin) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = MICROBATCHES;
  call.origin = origin;
  return ovl_pipeline_enqueue(p, &call);
}

static void close_pipeline(ovl_pipeline_t *p) { ovl_pipeline_close(p, NULL); }

/* The code that an eager call by this table ends with, once all has run. */
static int native_of(const ovl_device_t *device) {
  ovl_pipeline_t *p = two_lanes(device);
  int status = enqueue(p, streams[0]), native = failure_of(p).native;
  stand_in_finish();
  close_pipeline(p);
  return native != 0 ? native : status;
}

/* What is in memory after a serial run. */
static uint64_t serial_memory(void) {
  ovl_pipeline_t *p = two_lanes(&cuda[0].device);
  stand_in_clear_memory();
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(enqueue(p, streams[0]), 0);
  stand_in_finish();
  close_pipeline(p);
  return stand_in_memory();
}

/* ---- whole calls ---- */

static void in_any_order_results_are_those_of_a_serial_run(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(200); round++) {
    seed_round(seed_first() + round);
    start_again(seed_first() + round);
    uint64_t serial = serial_memory(), from = stand_in_time();
    stand_in_clear_memory();
    assert_int_equal(native_of(&cuda[0].device), 0);
    assert_int_equal(stand_in_time() - from, ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
    assert_true(stand_in_memory() == serial);
    assert_int_equal(stand_in_races(), 0);
  }
}

static cudaGraph_t capture(ovl_pipeline_t *p, cudaStream_t origin) {
  cudaGraph_t graph = NULL;
  assert_int_equal(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), 0);
  assert_int_equal(enqueue(p, origin), 0);
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
    start_again(seed_first() + round);
    uint64_t serial = serial_memory();
    ovl_pipeline_t *p = two_lanes(&cuda[0].device);
    assert_int_equal(enqueue(p, streams[0]), 0); /* makes the events */
    stand_in_finish();
    uint32_t works = stand_in_works();
    cudaGraph_t graph = capture(p, streams[0]), again = capture(p, streams[0]);
    assert_int_equal(stand_in_works(), works); /* capturing runs nothing */
    assert_true(stand_in_graph_shape(graph) == stand_in_graph_shape(again));
    stand_in_clear_memory();
    replay(graph, streams[0]);
    assert_true(stand_in_memory() == serial);
    assert_int_equal(enqueue(p, streams[0]), 0); /* eager calls are as good as before */
    stand_in_finish();
    assert_true(stand_in_memory() == serial);
    assert_int_equal(stand_in_races(), 0);
    cudaGraphDestroy(graph);
    cudaGraphDestroy(again);
    close_pipeline(p);
  }
}

/* ---- events ---- */

static int forget_record(void *context, void *event, void *stream) {
  (void)context;
  (void)event;
  (void)stream;
  return 0;
}

static int forget_wait(void *context, void *stream, void *event) {
  (void)context;
  (void)stream;
  (void)event;
  return 0;
}

/* An event that was never recorded is done, so nobody waits. */
static void what_is_not_recorded_or_not_waited_for_is_a_race(void **state) {
  (void)state;
  broken.event_record = forget_record;
  assert_int_equal(native_of(&broken), 0);
  assert_true(stand_in_races() > 0);
  start_again(seed_first());
  broken.stream_wait = forget_wait;
  assert_int_equal(native_of(&broken), 0);
  assert_true(stand_in_races() > 0);
}

static void *the_event;

static int same_event(void *context, int timing, void **event) {
  int code = the_event == NULL ? cuda[0].device.event_create(context, timing, &the_event) : 0;
  *event = the_event;
  return code;
}

static void keep_event(void *context, void *event) {
  (void)context;
  (void)event;
}

/* Who waits for it waits for what was recorded last, whatever it wanted to wait for. */
static void one_event_for_all_makes_followers_wait_too_long(void **state) {
  (void)state;
  the_event = NULL;
  broken.event_create = same_event;
  broken.event_destroy = keep_event;
  assert_int_equal(native_of(&broken), 0);
  assert_true(stand_in_time() > ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
  cuda[0].device.event_destroy(&cuda[0], the_event);
}

static void launch(cudaStream_t stream, uint64_t duration) {
  const stand_in_work_t work = {.duration = duration};
  assert_int_equal(stand_in_launch(stream, &work), 0);
}

static void a_wait_keeps_to_what_was_recorded_then(void **state) {
  (void)state;
  const ovl_device_t *table = &cuda[0].device;
  void *event;
  assert_int_equal(table->event_create(&cuda[0], 0, &event), 0);
  launch(streams[0], 10);
  assert_int_equal(table->event_record(&cuda[0], event, streams[0]), 0);
  assert_int_equal(table->stream_wait(&cuda[0], streams[1], event), 0);
  launch(streams[0], 1000);
  assert_int_equal(table->event_record(&cuda[0], event, streams[0]), 0);
  launch(streams[1], 1000);
  assert_int_equal(stand_in_time(), 1010);
  assert_int_equal(table->stream_wait(&cuda[0], streams[1], event), 0);
  launch(streams[1], 1);
  assert_int_equal(stand_in_time(), 1011);
  table->event_destroy(&cuda[0], event);
}

static void events_take_no_time_unless_asked(void **state) {
  (void)state;
  for (int timing = 0; timing < 2; timing++) {
    void *event;
    assert_int_equal(cuda[0].device.event_create(&cuda[0], timing, &event), 0);
    assert_int_equal(stand_in_event_flags(event), timing ? cudaEventDefault : cudaEventDisableTiming);
    cuda[0].device.event_destroy(&cuda[0], event);
  }
}

/* ---- the current device ---- */

static int stay(void *context) {
  (void)context;
  return 0;
}

static void a_device_is_made_current_or_cuda_refuses(void **state) {
  (void)state;
  ovl_device_t second = cuda[1].device;
  for (int kept = 1; kept >= 0; kept--) {
    ovl_pipeline_options_t options = pipeline_options(WINDOW);
    ovl_pipeline_t *p = make_pipeline(&options);
    broken.enter = kept ? cuda[0].device.enter : stay;
    second.enter = kept ? cuda[1].device.enter : stay;
    add(p, &broken, streams[0], COMPUTE_NS);
    add(p, &second, streams[2], COMM_NS);
    int status = enqueue(p, streams[0]);
    stand_in_finish();
    assert_int_equal(status, kept ? 0 : OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, kept ? 0 : cudaErrorInvalidResourceHandle);
    assert_int_equal(stand_in_races(), 0);
    close_pipeline(p);
    assert_int_equal(cudaSetDevice(0), 0);
  }
}

/* ---- asking for events ---- */

/* Asks by this entry, on another thread, for an event that is not done. */
typedef struct question {
  int (*query)(void *context, void *event);
  void *event;
  int answer;
  cudaError_t last_error;
  enum cudaStreamCaptureMode mode;
} question_t;

static void ask(void *data) {
  question_t *question = data;
  question->answer = question->query(&cuda[1], question->event);
  question->last_error = cudaGetLastError();
  (void)cudaThreadExchangeStreamCaptureMode(&question->mode);
}

static void ask_elsewhere(question_t *question) {
  uv_thread_t thread;
  question->mode = cudaStreamCaptureModeGlobal;
  assert_int_equal(uv_thread_create(&thread, ask, question), 0);
  assert_int_equal(uv_thread_join(&thread), 0);
}

static int ask_at_once(void *context, void *event) {
  return cuda[1].device.enter(context) != 0 ? -1 : (int)cudaEventQuery(event);
}

static int ask_without_device(void *context, void *event) {
  (void)context;
  return cudaEventQuery(event) == cudaErrorNotReady ? OVL_PENDING : 0;
}

static int ask_for_good(void *context, void *event) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cuda[1].device.enter(context);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  return cudaEventQuery(event) == cudaErrorNotReady ? OVL_PENDING : 0;
}

/* Of device 1, behind a work that has not ended until the test lets it. */
static void *event_ahead(cudaStream_t stream) {
  void *event;
  stand_in_hold(1);
  assert_int_equal(cudaSetDevice(1), 0);
  assert_int_equal(cuda[1].device.event_create(&cuda[1], 0, &event), 0);
  launch(stream, 10);
  assert_int_equal(cuda[1].device.event_record(&cuda[1], event, stream), 0);
  return event;
}

static void asking_leaves_no_error_and_no_mode_behind(void **state) {
  (void)state;
  question_t question = {.query = cuda[1].device.event_query, .event = event_ahead(streams[2])};
  ask_elsewhere(&question);
  assert_int_equal(question.answer, OVL_PENDING);
  assert_int_equal(question.last_error, cudaSuccess);
  assert_int_equal(question.mode, cudaStreamCaptureModeGlobal);
  stand_in_finish();
  ask_elsewhere(&question);
  assert_int_equal(question.answer, 0);
  cuda[1].device.event_destroy(&cuda[1], question.event);
  question.event = event_ahead(streams[2]);
  question.query = ask_for_good;
  ask_elsewhere(&question);
  assert_int_equal(question.last_error, cudaErrorNotReady); /* the next kernel launch is blamed for it */
  assert_int_equal(question.mode, cudaStreamCaptureModeRelaxed);
  cuda[1].device.event_destroy(&cuda[1], question.event);
}

/* The end of a capture during which somebody asked. */
static int capture_while_asked(question_t *question, int elsewhere) {
  cudaGraph_t graph;
  assert_int_equal(cudaSetDevice(0), 0);
  assert_int_equal(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal), 0);
  if (elsewhere)
    ask_elsewhere(question);
  else
    ask(question);
  int code = (int)cudaStreamEndCapture(streams[0], &graph);
  if (code == 0)
    cudaGraphDestroy(graph);
  return code;
}

static void asking_does_not_disturb_a_capture(void **state) {
  (void)state;
  question_t question = {.event = event_ahead(streams[2])};
  for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
    question.query = cuda[1].device.event_query;
    assert_int_equal(capture_while_asked(&question, elsewhere), 0);
    assert_int_equal(question.answer, OVL_PENDING);
    question.query = ask_at_once;
    assert_int_equal(capture_while_asked(&question, elsewhere), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(question.answer, cudaErrorStreamCaptureUnsupported);
  }
  cuda[1].device.event_destroy(&cuda[1], question.event);
}

/* On a device that nobody else uses it would take memory for nothing. */
static void asking_makes_no_context_elsewhere(void **state) {
  (void)state;
  for (int kept = 1; kept >= 0; kept--) {
    cudaStream_t stream;
    stand_in_reset(1);
    assert_int_equal(backend_cuda_init(&cuda[1], 1), 0);
    assert_int_equal(backend_cuda_stream(&cuda[1], BACKEND_CUDA_NORMAL, &stream), 0);
    question_t question = {.query = kept ? cuda[1].device.event_query : ask_without_device,
                           .event = event_ahead(stream)};
    ask_elsewhere(&question);
    assert_int_equal(stand_in_has_context(0), !kept);
    cuda[1].device.event_destroy(&cuda[1], question.event);
    cudaStreamDestroy(stream);
  }
}

static int pending_whatever_it_is(void *context, void *event) {
  return cuda[1].device.event_query(context, event) != 0 ? OVL_PENDING : 0;
}

static void what_stopped_the_device_is_told(void **state) {
  (void)state;
  const stand_in_work_t bad = {.duration = 10, .fault = cudaErrorIllegalAddress};
  void *event;
  stand_in_hold(1);
  assert_int_equal(cudaSetDevice(1), 0);
  assert_int_equal(stand_in_launch(streams[2], &bad), 0);
  event = event_ahead(streams[3]);
  stand_in_finish();
  question_t question = {.query = cuda[1].device.event_query, .event = event};
  ask_elsewhere(&question);
  assert_int_equal(question.answer, cudaErrorIllegalAddress);
  question.query = pending_whatever_it_is;
  ask_elsewhere(&question);
  assert_int_equal(question.answer, OVL_PENDING); /* for ever */
  assert_int_equal(cudaSetDevice(0), 0);          /* another device goes on */
  assert_int_equal(native_of(&cuda[0].device), 0);
  cuda[1].device.event_destroy(&cuda[1], event);
}

/* ---- streams ---- */

static void urgent_streams_go_first(void **state) {
  (void)state;
  assert_true(stand_in_priority(streams[1]) < stand_in_priority(streams[0]));
}

/* Somebody else's memset, say. */
static void use_the_legacy_stream(void) {
  const stand_in_work_t work = {.duration = COMPUTE_NS};
  (void)stand_in_launch(NULL, &work);
}

static void make_blocking(void) {
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cudaStreamDestroy(streams[i]), 0);
    assert_int_equal(cudaStreamCreateWithPriority(&streams[i], cudaStreamDefault, 0), 0);
  }
}

static void others_on_the_legacy_stream_do_not_order_ours(void **state) {
  (void)state;
  const uint64_t bound = ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS);
  between = use_the_legacy_stream;
  assert_int_equal(native_of(&cuda[0].device), 0);
  assert_int_equal(stand_in_time(), bound);
  make_blocking(); /* all of theirs comes before ours, then one of each in turn */
  assert_int_equal(native_of(&cuda[0].device), 0);
  assert_int_equal(stand_in_time(), 3 * MICROBATCHES * COMPUTE_NS + COMM_NS);
}

/* How a captured call and the capture end. */
static void captured(const ovl_device_t *device, int *status, int *ended) {
  cudaGraph_t graph;
  ovl_pipeline_t *p = two_lanes(device);
  between = NULL;
  assert_int_equal(enqueue(p, streams[0]), 0);
  between = use_the_legacy_stream;
  assert_int_equal(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), 0);
  *status = enqueue(p, streams[0]);
  *ended = (int)cudaStreamEndCapture(streams[0], &graph);
  if (*ended == 0)
    cudaGraphDestroy(graph);
  close_pipeline(p);
}

static void others_on_the_legacy_stream_do_not_end_our_capture(void **state) {
  (void)state;
  int status, ended;
  captured(&cuda[0].device, &status, &ended);
  assert_int_equal(status, 0);
  assert_int_equal(ended, 0);
  make_blocking();
  captured(&cuda[0].device, &status, &ended);
  assert_int_equal(status, OVL_ECAPTURE);
  assert_int_equal(ended, cudaErrorStreamCaptureInvalidated);
}

static void unfit_streams_are_refused(void **state) {
  (void)state;
  cudaStream_t unfit[] = {NULL, cudaStreamLegacy, cudaStreamPerThread};
  void *event;
  assert_int_equal(cuda[0].device.event_create(&cuda[0], 0, &event), 0);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(cuda[0].device.event_record(&cuda[0], event, unfit[i]), OVL_EINVAL);
    assert_int_equal(cuda[0].device.stream_wait(&cuda[0], unfit[i], event), OVL_EINVAL);
    assert_non_null(backend_cuda_refuses(unfit[i]));
  }
  assert_null(backend_cuda_refuses(streams[0]));
  cuda[0].device.event_destroy(&cuda[0], event);
}

static void a_full_queue_makes_the_host_wait_and_nothing_else(void **state) {
  (void)state;
  uint64_t serial = serial_memory(), from = stand_in_time();
  assert_int_equal(stand_in_waits_of_host(), 0);
  stand_in_set_queue(4);
  stand_in_hold(1);
  stand_in_clear_memory();
  assert_int_equal(native_of(&cuda[0].device), 0);
  assert_true(stand_in_waits_of_host() > 0);
  assert_true(stand_in_memory() == serial);
  assert_int_equal(stand_in_time() - from, ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
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
  broken.is_capturing = never_capturing;
  for (int kept = 1; kept >= 0; kept--) {
    cudaGraph_t graph = NULL;
    ovl_pipeline_t *p = two_lanes(kept ? &cuda[0].device : &broken);
    assert_int_equal(enqueue(p, streams[0]), 0);
    assert_int_equal(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeGlobal), 0);
    status[kept] = enqueue(p, streams[1]);
    ended[kept] = (int)cudaStreamEndCapture(streams[1], &graph);
    if (graph != NULL)
      cudaGraphDestroy(graph);
    close_pipeline(p);
  }
  assert_int_equal(status[1], 0);
  assert_int_equal(ended[1], 0);
  assert_int_equal(status[0], OVL_EBADRESULT); /* waiting for the last call: 905 */
  assert_int_equal(ended[0], cudaErrorStreamCaptureInvalidated);
}

static int lenient_capturing(void *context, void *stream, int *capturing) {
  int code = cuda[0].device.is_capturing(context, stream, capturing);
  return code == cudaErrorStreamCaptureInvalidated ? 0 : code;
}

static void an_invalid_capture_is_told_before_anything_is_put_down(void **state) {
  (void)state;
  broken.is_capturing = lenient_capturing;
  for (int kept = 1; kept >= 0; kept--) {
    cudaGraph_t graph;
    ovl_pipeline_t *p = two_lanes(kept ? &cuda[0].device : &broken);
    assert_int_equal(enqueue(p, streams[0]), 0);
    question_t question = {.query = ask_at_once, .event = event_ahead(streams[2])};
    assert_int_equal(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal), 0);
    ask(&question);
    assert_int_equal(enqueue(p, streams[0]), kept ? OVL_ECAPTURE : OVL_EBADRESULT);
    assert_int_equal(cudaStreamEndCapture(streams[0], &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    close_pipeline(p);
    cuda[1].device.event_destroy(&cuda[1], question.event);
  }
}

static int no_join(void *context, void *stream, void *event) {
  return stream == streams[0] ? 0 : cuda[0].device.stream_wait(context, stream, event);
}

static void streams_that_do_not_join_end_the_capture(void **state) {
  (void)state;
  cudaGraph_t graph;
  broken.stream_wait = no_join;
  ovl_pipeline_t *p = two_lanes(&broken);
  assert_int_equal(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal), 0);
  assert_int_equal(enqueue(p, streams[0]), 0);
  assert_int_equal(cudaStreamEndCapture(streams[0], &graph), cudaErrorStreamCaptureUnjoined);
  close_pipeline(p);
}

static void wait_for(cudaStream_t stream, void *event, int code) {
  assert_int_equal(cuda[0].device.stream_wait(&cuda[0], stream, event), code);
}

static void *recorded_on(cudaStream_t stream) {
  void *event;
  assert_int_equal(cuda[0].device.event_create(&cuda[0], 0, &event), 0);
  assert_int_equal(cuda[0].device.event_record(&cuda[0], event, stream), 0);
  return event;
}

static void end_capture(cudaStream_t stream, int code) {
  cudaGraph_t graph;
  assert_int_equal(cudaStreamEndCapture(stream, &graph), code);
  if (code == 0)
    cudaGraphDestroy(graph);
}

static void captures_do_not_mix(void **state) {
  (void)state;
  void *outside = recorded_on(streams[0]);
  for (int i = 0; i < 2; i++)
    assert_int_equal(cudaStreamBeginCapture(streams[i], cudaStreamCaptureModeGlobal), 0);
  void *inside = recorded_on(streams[0]);
  wait_for(streams[1], inside, cudaErrorStreamCaptureMerge);
  for (int i = 0; i < 2; i++)
    end_capture(streams[i], cudaErrorStreamCaptureInvalidated);
  wait_for(streams[1], inside, cudaErrorCapturedEvent); /* what was captured never happens */
  assert_int_equal(cuda[0].device.event_query(&cuda[0], inside), cudaErrorCapturedEvent);
  assert_int_equal(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeGlobal), 0);
  wait_for(streams[1], outside, cudaErrorStreamCaptureIsolation);
  end_capture(streams[1], cudaErrorStreamCaptureInvalidated);
  cuda[0].device.event_destroy(&cuda[0], outside);
  cuda[0].device.event_destroy(&cuda[0], inside);
}

static void end_elsewhere(void *code) {
  cudaGraph_t graph;
  *(cudaError_t *)code = cudaStreamEndCapture(streams[0], &graph);
}

static void captures_end_where_they_began(void **state) {
  (void)state;
  cudaError_t code;
  uv_thread_t thread;
  assert_int_equal(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), 0);
  assert_int_equal(uv_thread_create(&thread, end_elsewhere, &code), 0);
  assert_int_equal(uv_thread_join(&thread), 0);
  assert_int_equal(code, cudaErrorStreamCaptureWrongThread);
  void *fork = recorded_on(streams[0]);
  wait_for(streams[1], fork, 0);
  end_capture(streams[1], cudaErrorStreamCaptureUnmatched);
  end_capture(streams[0], cudaErrorStreamCaptureInvalidated);
  cuda[0].device.event_destroy(&cuda[0], fork);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      CASE(in_any_order_results_are_those_of_a_serial_run),
      CASE(a_captured_graph_does_what_an_eager_call_does),
      CASE(what_is_not_recorded_or_not_waited_for_is_a_race),
      CASE(one_event_for_all_makes_followers_wait_too_long),
      CASE(a_wait_keeps_to_what_was_recorded_then),
      CASE(events_take_no_time_unless_asked),
      CASE(a_device_is_made_current_or_cuda_refuses),
      CASE(asking_leaves_no_error_and_no_mode_behind),
      CASE(asking_does_not_disturb_a_capture),
      cmocka_unit_test(asking_makes_no_context_elsewhere),
      CASE(what_stopped_the_device_is_told),
      CASE(urgent_streams_go_first),
      CASE(others_on_the_legacy_stream_do_not_order_ours),
      CASE(others_on_the_legacy_stream_do_not_end_our_capture),
      CASE(unfit_streams_are_refused),
      CASE(a_full_queue_makes_the_host_wait_and_nothing_else),
      CASE(who_overlooks_a_capture_mixes_events),
      CASE(an_invalid_capture_is_told_before_anything_is_put_down),
      CASE(streams_that_do_not_join_end_the_capture),
      CASE(captures_do_not_mix),
      CASE(captures_end_where_they_began),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
