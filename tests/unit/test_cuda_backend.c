/* SPDX-License-Identifier: MIT */
/* Shows that examples/cuda_stream/backend_cuda.c keeps to the rules of CUDA which the stand-in knows: first what
 * ovl_pipeline_enqueue puts on streams through it, then one rule at a time. For each there is a backend that breaks it,
 * and what comes of that. Nothing here has run on a GPU. */
#include "support/cuda_stand_in/rig.h"
#include "support/describe.h"
#include "support/seed.h"

/* ---- whole calls ---- */

static void in_any_order_results_are_those_of_a_serial_run(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(200); round++) {
    seed_round(seed_first() + round);
    rig_start_again(seed_first() + round);
    uint64_t serial = rig_serial_memory(), from = stand_in_time();
    stand_in_clear_memory();
    assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
    assert_int_equal(stand_in_time() - from, ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
    assert_true(stand_in_memory() == serial);
    assert_int_equal(stand_in_races(), 0);
  }
}

/* ---- times ---- */

static ovl_pipeline_t *timed_two_lanes(const ovl_device_t *device) {
  ovl_pipeline_options_t options = pipeline_options(WINDOW);
  options.device_timing = OVL_DEVICE_TIMING_ALL;
  ovl_pipeline_t *p = make_pipeline(&options);
  rig_add(p, device, rig.streams[0], COMPUTE_NS);
  rig_add(p, device, rig.streams[1], COMM_NS);
  return p;
}

static uint64_t total_of(const ovl_pipeline_t *p, uint32_t stage) {
  ovl_stage_stats_t stats;
  ovl_stage_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){stage}, &stats), 0);
  assert_int_equal(stats.timed_ops, MICROBATCHES);
  return stats.total_ns;
}

static void runs_are_timed_by_events(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(20); round++) {
    seed_round(seed_first() + round);
    rig_start_again(seed_first() + round);
    ovl_pipeline_t *p = timed_two_lanes(&rig.cuda[0].device);
    assert_int_equal(ovl_pipeline_run(p, MICROBATCHES), 0);
    assert_int_equal(total_of(p, 1), MICROBATCHES * COMPUTE_NS);
    assert_int_equal(total_of(p, 2), MICROBATCHES * COMM_NS);
    rig_close_pipeline(p);
  }
}

static int create_untimed(void *context, int timing, void **event) {
  (void)timing;
  return rig.cuda[0].device.event_create(context, 0, event);
}

static void events_without_timing_have_no_times(void **state) {
  (void)state;
  rig.broken.event_create = create_untimed;
  ovl_pipeline_t *p = timed_two_lanes(&rig.broken);
  assert_int_equal(ovl_pipeline_run(p, MICROBATCHES), OVL_EBADRESULT);
  assert_int_equal(failure_of(p).native, cudaErrorInvalidResourceHandle);
  rig_close_pipeline(p);
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
  rig.broken.event_record = forget_record;
  assert_int_equal(rig_native_of(&rig.broken), 0);
  assert_true(stand_in_races() > 0);
  rig_start_again(seed_first());
  rig.broken.stream_wait = forget_wait;
  assert_int_equal(rig_native_of(&rig.broken), 0);
  assert_true(stand_in_races() > 0);
}

static void *the_event;

static int same_event(void *context, int timing, void **event) {
  int code = the_event == NULL ? rig.cuda[0].device.event_create(context, timing, &the_event) : 0;
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
  rig.broken.event_create = same_event;
  rig.broken.event_destroy = keep_event;
  assert_int_equal(rig_native_of(&rig.broken), 0);
  assert_true(stand_in_time() > ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
  rig.cuda[0].device.event_destroy(&rig.cuda[0], the_event);
}

static void a_wait_keeps_to_what_was_recorded_then(void **state) {
  (void)state;
  const ovl_device_t *table = &rig.cuda[0].device;
  void *event;
  assert_int_equal(table->event_create(&rig.cuda[0], 0, &event), 0);
  rig_launch(rig.streams[0], 10);
  assert_int_equal(table->event_record(&rig.cuda[0], event, rig.streams[0]), 0);
  assert_int_equal(table->stream_wait(&rig.cuda[0], rig.streams[1], event), 0);
  rig_launch(rig.streams[0], 1000);
  assert_int_equal(table->event_record(&rig.cuda[0], event, rig.streams[0]), 0);
  rig_launch(rig.streams[1], 1000);
  stand_in_finish();
  assert_int_equal(stand_in_time(), 1010);
  assert_int_equal(table->stream_wait(&rig.cuda[0], rig.streams[1], event), 0);
  rig_launch(rig.streams[1], 1);
  stand_in_finish();
  assert_int_equal(stand_in_time(), 1011);
  table->event_destroy(&rig.cuda[0], event);
}

static void an_event_is_done_before_it_is_recorded(void **state) {
  (void)state;
  const ovl_device_t *table = &rig.cuda[0].device;
  void *event;
  stand_in_hold(1);
  assert_int_equal(table->event_create(&rig.cuda[0], 0, &event), 0);
  rig_launch(rig.streams[0], 10);
  assert_int_equal(table->event_query(&rig.cuda[0], event), 0);
  assert_int_equal(table->event_record(&rig.cuda[0], event, rig.streams[0]), 0);
  assert_int_equal(table->event_query(&rig.cuda[0], event), OVL_PENDING);
  table->event_destroy(&rig.cuda[0], event);
}

static void events_take_no_time_unless_asked(void **state) {
  (void)state;
  for (int timing = 0; timing < 2; timing++) {
    void *event;
    assert_int_equal(rig.cuda[0].device.event_create(&rig.cuda[0], timing, &event), 0);
    assert_int_equal(stand_in_event_flags(event), timing ? cudaEventDefault : cudaEventDisableTiming);
    rig.cuda[0].device.event_destroy(&rig.cuda[0], event);
  }
}

/* ---- the current device ---- */

static int stay(void *context) {
  (void)context;
  return 0;
}

static void a_device_is_made_current_or_cuda_refuses(void **state) {
  (void)state;
  ovl_device_t second = rig.cuda[1].device;
  for (int kept = 1; kept >= 0; kept--) {
    ovl_pipeline_options_t options = pipeline_options(WINDOW);
    ovl_pipeline_t *p = make_pipeline(&options);
    rig.broken.enter = kept ? rig.cuda[0].device.enter : stay;
    second.enter = kept ? rig.cuda[1].device.enter : stay;
    rig_add(p, &rig.broken, rig.streams[0], COMPUTE_NS);
    rig_add(p, &second, rig.streams[2], COMM_NS);
    int status = rig_enqueue(p, rig.streams[0]);
    stand_in_finish();
    assert_int_equal(status, kept ? 0 : OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, kept ? 0 : cudaErrorInvalidResourceHandle);
    assert_int_equal(stand_in_races(), 0);
    rig_close_pipeline(p);
    assert_int_equal(cudaSetDevice(0), 0);
  }
}

static void events_and_works_stay_on_their_device(void **state) {
  (void)state;
  const stand_in_work_t work = {.duration = 1};
  void *event;
  assert_int_equal(rig.cuda[0].device.event_create(&rig.cuda[0], 0, &event), 0);
  assert_int_equal(rig.cuda[0].device.event_record(&rig.cuda[0], event, rig.streams[2]),
                   cudaErrorInvalidResourceHandle);
  assert_int_equal(stand_in_launch(rig.streams[2], &work), cudaErrorInvalidResourceHandle);
  assert_int_equal(rig.cuda[0].device.event_record(&rig.cuda[0], event, rig.streams[0]), 0);
  assert_int_equal(rig.cuda[1].device.stream_wait(&rig.cuda[1], rig.streams[2], event), 0); /* that is fine */
  rig.cuda[0].device.event_destroy(&rig.cuda[0], event);
}

/* ---- asking for events ---- */

static int ask_without_device(void *context, void *event) {
  (void)context;
  return cudaEventQuery(event) == cudaErrorNotReady ? OVL_PENDING : 0;
}

static int ask_for_good(void *context, void *event) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)rig.cuda[1].device.enter(context);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  return cudaEventQuery(event) == cudaErrorNotReady ? OVL_PENDING : 0;
}

static void asking_leaves_no_error_and_no_mode_behind(void **state) {
  (void)state;
  rig_question_t question = {.query = rig.cuda[1].device.event_query,
                             .event = rig_event_ahead(rig.streams[2])};
  rig_ask_elsewhere(&question);
  assert_int_equal(question.answer, OVL_PENDING);
  assert_int_equal(question.last_error, cudaSuccess);
  assert_int_equal(question.mode, cudaStreamCaptureModeGlobal);
  stand_in_finish();
  rig_ask_elsewhere(&question);
  assert_int_equal(question.answer, 0);
  rig.cuda[1].device.event_destroy(&rig.cuda[1], question.event);
  question.event = rig_event_ahead(rig.streams[2]);
  question.query = ask_for_good;
  rig_ask_elsewhere(&question);
  assert_int_equal(question.last_error, cudaErrorNotReady); /* the next kernel launch is blamed for it */
  assert_int_equal(question.mode, cudaStreamCaptureModeRelaxed);
  rig.cuda[1].device.event_destroy(&rig.cuda[1], question.event);
}

/* On a device that nobody else uses it would take memory for nothing. */
static void asking_makes_no_context_elsewhere(void **state) {
  (void)state;
  for (int kept = 1; kept >= 0; kept--) {
    cudaStream_t stream;
    stand_in_reset(1);
    assert_int_equal(backend_cuda_init(&rig.cuda[1], 1), 0);
    assert_int_equal(backend_cuda_stream(&rig.cuda[1], BACKEND_CUDA_NORMAL, &stream), 0);
    rig_question_t question = {.query = kept ? rig.cuda[1].device.event_query : ask_without_device,
                               .event = rig_event_ahead(stream)};
    rig_ask_elsewhere(&question);
    assert_int_equal(stand_in_has_context(0), !kept);
    rig.cuda[1].device.event_destroy(&rig.cuda[1], question.event);
    cudaStreamDestroy(stream);
  }
}

static int pending_whatever_it_is(void *context, void *event) {
  return rig.cuda[1].device.event_query(context, event) != 0 ? OVL_PENDING : 0;
}

static void what_stopped_the_device_is_told(void **state) {
  (void)state;
  const stand_in_work_t bad = {.duration = 10, .fault = cudaErrorIllegalAddress};
  void *event;
  stand_in_hold(1);
  assert_int_equal(cudaSetDevice(1), 0);
  assert_int_equal(stand_in_launch(rig.streams[2], &bad), 0);
  event = rig_event_ahead(rig.streams[3]);
  stand_in_finish();
  rig_question_t question = {.query = rig.cuda[1].device.event_query, .event = event};
  rig_ask_elsewhere(&question);
  assert_int_equal(question.answer, cudaErrorIllegalAddress);
  question.query = pending_whatever_it_is;
  rig_ask_elsewhere(&question);
  assert_int_equal(question.answer, OVL_PENDING); /* for ever */
  assert_int_equal(cudaSetDevice(0), 0);          /* another device goes on */
  assert_int_equal(cudaEventQuery(event), cudaErrorIllegalAddress);
  assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
  rig.cuda[1].device.event_destroy(&rig.cuda[1], event);
}

/* ---- streams ---- */

static void urgent_streams_go_first(void **state) {
  (void)state;
  assert_true(stand_in_priority(rig.streams[1]) < stand_in_priority(rig.streams[0]));
}

static void others_on_the_legacy_stream_do_not_order_ours(void **state) {
  (void)state;
  const uint64_t bound = ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS);
  rig.between = rig_use_the_legacy_stream;
  assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
  assert_int_equal(stand_in_time(), bound);
  rig_make_blocking(); /* all of theirs comes before ours, then one of each in turn */
  assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
  assert_int_equal(stand_in_time(), 3 * MICROBATCHES * COMPUTE_NS + COMM_NS);
}

static void unfit_streams_are_refused(void **state) {
  (void)state;
  cudaStream_t unfit[] = {NULL, cudaStreamLegacy, cudaStreamPerThread};
  void *event;
  assert_int_equal(rig.cuda[0].device.event_create(&rig.cuda[0], 0, &event), 0);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(rig.cuda[0].device.event_record(&rig.cuda[0], event, unfit[i]), OVL_EINVAL);
    assert_int_equal(rig.cuda[0].device.stream_wait(&rig.cuda[0], unfit[i], event), OVL_EINVAL);
    assert_non_null(backend_cuda_refuses(unfit[i]));
  }
  assert_null(backend_cuda_refuses(rig.streams[0]));
  rig.cuda[0].device.event_destroy(&rig.cuda[0], event);
}

static void a_full_queue_makes_the_host_wait_and_nothing_else(void **state) {
  (void)state;
  uint64_t serial = rig_serial_memory(), from = stand_in_time();
  assert_int_equal(stand_in_waits_of_host(), 0);
  stand_in_set_queue(4);
  stand_in_hold(1);
  stand_in_clear_memory();
  assert_int_equal(rig_native_of(&rig.cuda[0].device), 0);
  assert_true(stand_in_waits_of_host() > 0);
  assert_true(stand_in_memory() == serial);
  assert_int_equal(stand_in_time() - from, ovl_bound_overlap(MICROBATCHES, COMPUTE_NS, COMM_NS));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      CASE(runs_are_timed_by_events),
      CASE(events_without_timing_have_no_times),
      CASE(in_any_order_results_are_those_of_a_serial_run),
      CASE(what_is_not_recorded_or_not_waited_for_is_a_race),
      CASE(one_event_for_all_makes_followers_wait_too_long),
      CASE(a_wait_keeps_to_what_was_recorded_then),
      CASE(an_event_is_done_before_it_is_recorded),
      CASE(events_take_no_time_unless_asked),
      CASE(a_device_is_made_current_or_cuda_refuses),
      CASE(events_and_works_stay_on_their_device),
      CASE(asking_leaves_no_error_and_no_mode_behind),
      cmocka_unit_test(asking_makes_no_context_elsewhere),
      CASE(what_stopped_the_device_is_told),
      CASE(urgent_streams_go_first),
      CASE(others_on_the_legacy_stream_do_not_order_ours),
      CASE(unfit_streams_are_refused),
      CASE(a_full_queue_makes_the_host_wait_and_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
