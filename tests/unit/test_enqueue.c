/* SPDX-License-Identifier: MIT */
/* Shows what ovl_pipeline_enqueue puts on the streams, on a device on paper: that every dependency holds whatever the ops
 * take, that the schedule is the one which the theory and the simulator promise, with no more events and waits than that
 * needs; that streams fork and join, also when something fails; and that capturing keeps to its own events. */
#include <string.h>

#include <uv.h>

#include "support/describe.h"
#include "support/paper_device.h"
#include "support/random_edges.h"
#include "support/seed.h"

enum { STAGES = 16, MOST_MICROBATCHES = 24 };

static paper_t *paper;
static uint64_t durations[STAGES + 1]; /* by stage id */
static uint32_t fails_at;              /* stage id; 0: none */
static uint64_t fails_in;              /* microbatch */
static int fails_with;
static uint32_t enqueued_from; /* the first work of the last call */

static int put(ovl_op_t *op) {
  paper_put(op, durations[op->stage.id]);
  return op->stage.id == fails_at && op->microbatch == fails_in ? fails_with : 0;
}

static int do_nothing(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int set_up(void **state) {
  (void)state;
  paper = paper_make();
  fails_at = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  paper_free(paper);
  return 0;
}

/* ---- describing ---- */

static ovl_lane_t add_device_lane(ovl_pipeline_t *p, int device) {
  ovl_lane_options_t options = lane_options(NULL, OVL_LANE_DEVICE, 0);
  options.device = &paper->devices[device];
  options.stream = paper_stream(paper, device);
  return add_lane_with(p, &options);
}

static ovl_stage_t add_work(ovl_pipeline_t *p, ovl_lane_t lane, uint64_t duration) {
  ovl_stage_options_t options = stage_options(lane, put, NULL);
  options.cost_ns = duration;
  ovl_stage_t stage = add_stage_with(p, &options);
  durations[stage.id] = duration;
  return stage;
}

/* compute and comm on a stream each. */
static ovl_pipeline_t *two_lanes(uint32_t window, uint64_t compute, uint64_t comm) {
  ovl_pipeline_options_t options = pipeline_options(window);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_work(p, add_device_lane(p, 0), compute);
  add_work(p, add_device_lane(p, 0), comm);
  return p;
}

static int enqueue_on(ovl_pipeline_t *p, uint64_t microbatches, void *origin) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = microbatches;
  call.origin = origin;
  enqueued_from = paper->work_count;
  return ovl_pipeline_enqueue(p, &call);
}

static uint64_t time_of(ovl_pipeline_t *p, uint64_t microbatches) {
  void *origin = paper_stream(paper, 0);
  assert_int_equal(enqueue_on(p, microbatches, origin), 0);
  assert_true(paper_joined(paper, origin));
  for (uint32_t e = 0; e < paper->events_made; e++)
    assert_int_equal(paper->events[e].queries, 0); /* the host has waited for nothing */
  return paper_end(paper, enqueued_from);
}

static const paper_work_t *work_of(uint32_t stage, uint64_t microbatch) {
  return paper_find(paper, enqueued_from, stage, microbatch);
}

static void close_pipeline(ovl_pipeline_t *p) { ovl_pipeline_close(p, NULL); }

/* ---- schedules ---- */

static void two_lanes_overlap_as_theory_says(void **state) {
  (void)state;
  for (int swapped = 0; swapped < 2; swapped++) {
    uint64_t c = swapped ? 30 : 50, m = swapped ? 50 : 30;
    paper_init(paper);
    ovl_pipeline_t *p = two_lanes(0, c, m);
    assert_int_equal(time_of(p, 8), ovl_bound_overlap(8, c, m));
    for (uint64_t i = 0; i < 8; i++) {
      assert_true(paper_after(work_of(2, i), work_of(1, i)));
      assert_true(i == 0 || paper_after(work_of(2, i), work_of(2, i - 1)));
      if (i >= 4)
        assert_true(paper_after(work_of(1, i), work_of(2, i - 4))); /* the slot */
      else
        assert_true(i == 0 || !paper_after(work_of(1, i), work_of(2, i - 1)));
    }
    close_pipeline(p);
  }
}

static void serial_mode_is_serial(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(0, 50, 30);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  assert_int_equal(time_of(p, 8), 640);
  for (uint64_t i = 1; i < 8; i++)
    assert_true(paper_after(work_of(1, i), work_of(2, i - 1)));
  close_pipeline(p);
}

/* Per microbatch; a fork, a wait of each lane for it, and a join of each come once a call. */
static void no_more_events_than_needed(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 10, 10);
  for (uint64_t n = 1; n <= 20; n++) {
    paper->records = paper->waits = 0;
    assert_int_equal(enqueue_on(p, n, &paper->streams[0]), 0);
    assert_in_range(paper->records, 1, 2 * n + 2); /* a fork, and the end of the call */
    assert_in_range(paper->waits, 1, 2 * n + 3);   /* ... which the next one waits for */
  }
  close_pipeline(p);
}

static void one_stream_needs_no_events(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lane = add_device_lane(p, 0);
  for (int s = 0; s < 3; s++)
    add_work(p, lane, 5);
  assert_int_equal(time_of(p, 10), 150);
  assert_int_equal(paper->records, 3); /* fork and join, and the end of the call */
  assert_int_equal(paper->waits, 2);
  close_pipeline(p);
}

/* Of two ops on one lane the later is enough, and what has been waited for once is not waited for again. */
static void waits_that_others_imply_are_left_out(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t compute = add_device_lane(p, 0), comm = add_device_lane(p, 0);
  ovl_stage_t a = add_work(p, compute, 1), b = add_work(p, compute, 1);
  ovl_stage_t c = add_work(p, comm, 1), d = add_work(p, comm, 1);
  const ovl_stage_t pairs[][2] = {{a, c}, {a, d}, {b, d}};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(ovl_pipeline_add_dependency(p, pairs[i][0], pairs[i][1], 0), 0);
  assert_int_equal(enqueue_on(p, 10, paper_stream(paper, 0)), 0);
  assert_int_equal(paper->waits, 4 + 10 + 8); /* fork and join; c for b; a for the slot */
  close_pipeline(p);
}

/* Layers of compute and comm: issued oldest first they would take one after the other. */
static void layers_ping_pong(void **state) {
  (void)state;
  for (uint64_t k = 1; k <= 3; k++) {
    paper_init(paper);
    ovl_pipeline_options_t options = pipeline_options((uint32_t)k);
    ovl_pipeline_t *p = make_pipeline(&options);
    ovl_lane_t compute = add_device_lane(p, 0), comm = add_device_lane(p, 0);
    for (int layer = 0; layer < 4; layer++) {
      add_work(p, compute, 1);
      add_work(p, comm, 1);
    }
    assert_int_equal(time_of(p, k), k == 1 ? 8 : 4 * k + 1);
    close_pipeline(p);
  }
}

static void a_device_is_entered_before_it_is_used(void **state) { /* asserted by the paper */
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(3);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_work(p, add_device_lane(p, 0), 3);
  add_work(p, add_device_lane(p, 1), 4);
  add_work(p, add_device_lane(p, 0), 5);
  assert_int_equal(time_of(p, 9), 12 + 8 * 5);
  for (uint64_t i = 0; i < 9; i++)
    assert_true(paper_after(work_of(2, i), work_of(1, i)) && paper_after(work_of(3, i), work_of(2, i)));
  close_pipeline(p);
}

/* ---- random pipelines ---- */

static void check_edges(const edge_t *edges, uint32_t count, uint64_t microbatches) {
  for (uint32_t e = 0; e < count; e++)
    for (uint64_t i = edges[e].distance; i < microbatches; i++)
      assert_true(paper_after(work_of(edges[e].after, i), work_of(edges[e].before, i - edges[e].distance)));
}

/* What uses a slot comes after all that used it before. */
static void check_slots(uint32_t stages, uint32_t window, uint64_t microbatches) {
  for (uint64_t i = window; i < microbatches; i++)
    for (uint32_t s = 1; s <= stages; s++)
      for (uint32_t t = 1; t <= stages; t++)
        assert_true(paper_after(work_of(s, i), work_of(t, i - window)));
}

static ovl_pipeline_t *random_pipeline(random_source_t *random, uint32_t window, uint32_t stages) {
  uint32_t lanes = 1 + random_below(random, 4);
  ovl_lane_t lane[4];
  ovl_pipeline_options_t options = pipeline_options(window);
  ovl_pipeline_t *p = make_pipeline(&options);
  paper_init(paper);
  for (uint32_t l = 0; l < lanes; l++)
    lane[l] = add_device_lane(p, (int)random_below(random, 2) * (l > 0));
  for (uint32_t s = 1; s <= stages; s++) {
    ovl_stage_options_t stage = stage_options(lane[random_below(random, lanes)], put, NULL);
    stage.unchained = random_below(random, 3) == 0;
    stage.cost_ns = durations[s] = 1 + random_below(random, 9);
    add_stage_with(p, &stage);
  }
  return p;
}

static void play_random_pipeline(random_source_t *random) {
  edge_t edges[RANDOM_EDGES];
  uint32_t window = 1 + random_below(random, 4), stages = 1 + random_below(random, 7);
  uint64_t microbatches = 1 + random_below(random, 12);
  ovl_pipeline_t *p = random_pipeline(random, window, stages);
  ovl_stats_t stats;
  uint32_t count = add_random_edges(random, p, stages, window, edges);
  for (int call = 0; call < 2; call++) {
    ovl_stats_init(&stats);
    assert_int_equal(ovl_pipeline_simulate(p, microbatches, NULL, &stats), 0);
    uint64_t before = paper_end(paper, 0); /* each call comes after the last */
    assert_int_equal(time_of(p, microbatches) - before, stats.elapsed_ns);
    check_edges(edges, count, microbatches);
    check_slots(stages, window, microbatches);
  }
  close_pipeline(p);
  assert_int_equal(paper->events_made, paper->events_ended);
}

static void random_pipelines_keep_every_dependency(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(400); round++) {
    random_source_t random = {.state = seed_first() + round};
    seed_round(random.state);
    play_random_pipeline(&random);
  }
}

/* ---- calls ---- */

static void a_call_comes_after_the_one_before(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(3, 5, 7);
  void *origins[3] = {paper_stream(paper, 0), paper_stream(paper, 0), NULL};
  origins[2] = origins[1];
  for (int call = 0; call < 3; call++) {
    uint32_t before = paper->work_count;
    assert_int_equal(enqueue_on(p, 5, origins[call]), 0);
    paper_assert_all_after(paper, before);
    assert_true(paper_joined(paper, origins[call]));
  }
  close_pipeline(p);
}

/* Also if a capture on that origin came between, which has ordered nothing; and if the last origin was a lane's own stream. */
static void it_does_so_whatever_the_origins(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(3, 5, 7);
  void *first = paper_stream(paper, 0), *second = paper_stream(paper, 0), *streams[2];
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 5;
  call.lane_streams = streams;
  call.lane_count = 2;
  for (int i = 0; i < 4; i++) {
    uint32_t before = paper->work_count;
    streams[0] = paper_stream(paper, 0);
    streams[1] = paper_stream(paper, 0);
    call.origin = i == 0 ? first : i == 3 ? paper_stream(paper, 0) : second;
    if (i == 2)
      call.origin = streams[0];
    paper->capturing = i == 1;
    assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
    if (i == 1)
      paper->work_count = before; /* captured only: nothing of it has run */
    else
      paper_assert_all_after(paper, before);
  }
  close_pipeline(p);
}

/* One handle may be another stream on another device. */
static void streams_of_two_devices_are_two(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (int d = 0; d < 2; d++) {
    ovl_lane_options_t lane = lane_options(NULL, OVL_LANE_DEVICE, 0);
    lane.device = &paper->devices[d];
    lane.stream = (void *)(uintptr_t)16;
    add_stage(p, add_lane_with(p, &lane), do_nothing, NULL);
  }
  paper->blind = 1;
  assert_int_equal(enqueue_on(p, 4, paper_stream(paper, 0)), 0);
  assert_in_range(paper->waits, 4, 20);
  close_pipeline(p);
}

static int nested_results[6];

/* What a callback of an enqueue asks of its own pipeline has to wait. */
static int call_back_in(ovl_op_t *op) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 1;
  call.origin = op->stream;
  nested_results[0] = ovl_pipeline_enqueue(op->pipeline, &call);
  nested_results[1] = ovl_pipeline_set_order(op->pipeline, op->lane, NULL, 0);
  nested_results[2] = ovl_pipeline_set_mode(op->pipeline, OVL_SERIAL);
  nested_results[3] = ovl_pipeline_simulate(op->pipeline, 1, NULL, NULL);
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  nested_results[4] = ovl_pipeline_start(op->pipeline, &loop, 1, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
  nested_results[5] = ovl_pipeline_run(op->pipeline, 1);
  return put(op);
}

static void calls_from_inside_are_refused(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lane = add_device_lane(p, 0);
  add_stage(p, lane, call_back_in, NULL);
  add_stage(p, lane, put, NULL);
  assert_int_equal(enqueue_on(p, 5, paper_stream(paper, 0)), 0);
  assert_int_equal(paper->work_count, 10);
  for (int i = 0; i < 5; i++)
    assert_int_equal(nested_results[i], OVL_EBUSY);
  assert_int_equal(nested_results[5], OVL_EDEADLK);
  close_pipeline(p);
}

/* A callback may enqueue another pipeline, on another device. */
static ovl_pipeline_t *inner;

static int enqueue_inner(ovl_op_t *op) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 1;
  call.origin = &paper->streams[0];
  assert_int_equal(ovl_pipeline_enqueue(inner, &call), 0);
  assert_int_equal(paper->devices[0].enter(paper->devices[0].context), 0);
  return put(op);
}

static void a_callback_may_enter_another_device(void **state) { /* the paper looks */
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  inner = make_pipeline(&options);
  add_work(inner, add_device_lane(inner, 1), 3);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_device_lane(p, 0), enqueue_inner, NULL);
  add_work(p, add_device_lane(p, 0), 3);
  assert_int_equal(enqueue_on(p, 4, paper_stream(paper, 0)), 0);
  close_pipeline(p);
  close_pipeline(inner);
}

/* What the origin has to do before, and a lane that is the origin. */
static void all_comes_after_the_origin(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  paper_stream_t *origin = &paper->streams[0]; /* of the first lane */
  ovl_op_t earlier = {.stream = origin, .stage = {9}, .microbatch = 99};
  assert_int_equal(paper->devices[0].enter(paper->devices[0].context), 0);
  paper_put(&earlier, 11);
  assert_int_equal(enqueue_on(p, 4, origin), 0);
  for (uint32_t i = 1; i < paper->work_count; i++)
    assert_true(paper_after(&paper->works[i], &paper->works[0]));
  assert_true(paper_joined(paper, origin));
  close_pipeline(p);
}

static void streams_may_change_with_each_call(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  void *streams[2] = {NULL, paper_stream(paper, 0)}; /* NULL: the lane's own */
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 3;
  call.origin = paper_stream(paper, 0);
  call.lane_streams = streams;
  call.lane_count = 2;
  assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
  for (uint32_t i = 0; i < paper->work_count; i++)
    assert_int_equal(paper->works[i].stream, paper->works[i].stage == 1 ? 0 : 2);
  close_pipeline(p);
}

static void *seen_items[4];

static int see_item(ovl_op_t *op) {
  seen_items[op->microbatch] = op->item;
  assert_int_equal(op->slot, op->microbatch % 2);
  return 0;
}

static void items_and_slots_are_handed_on(void **state) {
  (void)state;
  int things[4];
  void *items[4] = {&things[0], &things[1], &things[2], &things[3]};
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_device_lane(p, 0), see_item, NULL);
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 4;
  call.items = items;
  call.origin = paper_stream(paper, 0);
  assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
  assert_memory_equal(seen_items, items, sizeof items);
  close_pipeline(p);
}

static void nothing_is_put_down_for_no_microbatches(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  assert_int_equal(enqueue_on(p, 0, paper_stream(paper, 0)), 0);
  assert_int_equal(paper->records + paper->waits + paper->work_count, 0);
  close_pipeline(p);
}

/* ---- capture ---- */

static void captured_calls_have_one_shape_and_events_of_their_own(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  void *origin = paper_stream(paper, 0);
  uint64_t shape = 0;
  for (int call = 0; call < 6; call++) {
    paper->capturing = call % 2 == 1 || call == 4; /* mixed events fail the test */
    paper->shape = 0;
    assert_int_equal(enqueue_on(p, 5, origin), 0);
    if (call == 1)
      shape = paper->shape;
    if (paper->capturing)
      assert_true(paper->shape == shape);
  }
  close_pipeline(p);
}

static int invalidate(ovl_op_t *op) {
  paper_put(op, 1);
  paper->invalid = 1;
  return 0;
}

/* Events for captures are made where there can be any. */
static void devices_that_cannot_capture_need_fewer_events(void **state) {
  (void)state;
  uint32_t made[2];
  for (int i = 0; i < 2; i++) {
    paper_init(paper);
    if (i == 1)
      paper->devices[0].is_capturing = NULL;
    ovl_pipeline_t *p = two_lanes(2, 10, 10);
    (void)time_of(p, 5);
    made[i] = paper->events_made;
    close_pipeline(p);
    assert_int_equal(paper->events_made, paper->events_ended);
  }
  assert_int_equal(made[0], 2 * made[1] - 1); /* the end of the eager call has no counterpart */
}

static void an_invalid_capture_is_told(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_device_lane(p, 0), invalidate, NULL);
  paper->capturing = 1;
  assert_int_equal(enqueue_on(p, 2, paper_stream(paper, 0)), OVL_ECAPTURE);
  assert_int_equal(enqueue_on(p, 2, paper_stream(paper, 0)), OVL_ECAPTURE); /* it is so from the beginning */
  paper->invalid = paper->capturing = 0;
  close_pipeline(p);
}

/* ---- failing ---- */

static int count_works(uint32_t stage) {
  int count = 0;
  for (uint32_t i = enqueued_from; i < paper->work_count; i++)
    count += paper->works[i].stage == stage;
  return count;
}

static ovl_pipeline_t *failing(ovl_on_error_t policy) {
  ovl_pipeline_options_t options = pipeline_options(2);
  options.on_error = policy;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t compute = add_device_lane(p, 0), comm = add_device_lane(p, 0), last = add_device_lane(p, 0);
  add_work(p, compute, 10);
  add_work(p, comm, 10);
  ovl_stage_options_t always = stage_options(last, put, NULL);
  always.always = 1;
  durations[add_stage_with(p, &always).id] = 10;
  fails_at = 1;
  fails_in = 3;
  fails_with = -77;
  return p;
}

static void streams_join_when_a_callback_fails(void **state) {
  (void)state;
  ovl_pipeline_t *p = failing(OVL_ON_ERROR_STOP);
  void *origin = paper_stream(paper, 0);
  assert_int_equal(enqueue_on(p, 10, origin), -77);
  assert_true(paper_joined(paper, origin));
  ovl_failure_t failure = failure_of(p);
  assert_int_equal(failure.status, -77);
  assert_int_equal(failure.stage.id, 1);
  assert_int_equal(failure.microbatch, 3);
  assert_non_null(strstr(ovl_pipeline_error(p), "of microbatch 3"));
  assert_int_equal(count_works(1), 4); /* nothing is begun any more */
  assert_int_equal(count_works(3), 4); /* but `always` stages are not left out */
  assert_true(paper_after(work_of(3, 3), work_of(1, 3)));
  fails_at = 0;
  assert_int_equal(enqueue_on(p, 10, origin), 0); /* and the next call is as good as any */
  assert_int_equal(failure_of(p).status, 0);
  assert_int_equal(count_works(2), 10);
  close_pipeline(p);
}

static void with_continue_only_the_failed_microbatch_is_left_out(void **state) {
  (void)state;
  ovl_pipeline_t *p = failing(OVL_ON_ERROR_CONTINUE);
  void *origin = paper_stream(paper, 0);
  assert_int_equal(enqueue_on(p, 10, origin), -77);
  assert_true(paper_joined(paper, origin));
  assert_int_equal(count_works(1), 10);
  assert_int_equal(count_works(2), 9);
  assert_int_equal(count_works(3), 10);
  for (uint64_t i = 2; i < 10; i++) /* slots are waited for, whatever was left out */
    assert_true(paper_after(work_of(1, i), work_of(3, i - 2)));
  close_pipeline(p);
}

static void foreign_codes_are_kept(void **state) {
  (void)state;
  const int codes[] = {700, OVL_PENDING};
  for (size_t i = 0; i < 2; i++) {
    ovl_pipeline_t *p = failing(OVL_ON_ERROR_STOP);
    fails_with = codes[i];
    assert_int_equal(enqueue_on(p, 10, paper_stream(paper, 0)), OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, codes[i]);
    close_pipeline(p);
  }
}

/* Whichever of its calls the device refuses. */
static void a_device_that_fails_is_told(void **state) {
  (void)state;
  for (int after = 0; after < 25; after++) {
    paper_init(paper);
    ovl_pipeline_t *p = two_lanes(2, 5, 7);
    paper->fail_after = after;
    paper->fail_with = 719;
    assert_int_equal(enqueue_on(p, 8, paper_stream(paper, 0)), OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, 719);
    close_pipeline(p);
    assert_int_equal(paper->events_made, paper->events_ended);
  }
}

/* ---- refusing ---- */

static void assert_refused(ovl_pipeline_t *p, const ovl_enqueue_t *call, int code, const char *words) {
  assert_int_equal(ovl_pipeline_enqueue(p, call), code);
  assert_non_null(strstr(ovl_pipeline_error(p), words));
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  void *streams[2] = {NULL, NULL};
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  assert_int_equal(ovl_pipeline_enqueue(NULL, &call), OVL_EINVAL);
  assert_refused(p, NULL, OVL_EINVAL, "enqueue is NULL");
  assert_refused(p, &call, OVL_EINVAL, "origin is NULL");
  call.origin = paper_stream(paper, 0);
  call.microbatches = OVL_STREAMING;
  assert_refused(p, &call, OVL_EINVAL, "OVL_STREAMING");
  call.microbatches = 1;
  call.lane_streams = streams;
  call.lane_count = 3;
  assert_refused(p, &call, OVL_EINVAL, "3 lanes");
  call.size = 0;
  assert_refused(p, &call, OVL_ESTRUCTSIZE, "size is 0");
  assert_int_equal(paper->records, 0);
  close_pipeline(p);
}

static void other_lanes_are_refused(void **state) {
  (void)state;
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 1;
  call.origin = paper_stream(paper, 0);
  ovl_pipeline_t *p = two_lanes(2, 5, 7);
  ovl_lane_options_t options = lane_options("net", OVL_LANE_POOL, 1);
  add_lane_with(p, &options);
  assert_refused(p, &call, OVL_EDEVICE, "\"net\"");
  close_pipeline(p);
  p = two_lanes(2, 5, 7);
  paper->devices[1].sync_domain = NULL;
  add_device_lane(p, 1);
  assert_refused(p, &call, OVL_EDEVICE, "different sync domains");
  close_pipeline(p);
  p = two_lanes(2, 5, 7);
  options = lane_options("bare", OVL_LANE_DEVICE, 1);
  options.device = &paper->devices[0];
  add_lane_with(p, &options);
  assert_refused(p, &call, OVL_EINVAL, "\"bare\" has no stream");
  close_pipeline(p);
}

static void pretend_poll(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
}

static void assert_lane_refused(ovl_pipeline_t *p, const ovl_lane_options_t *options, int code,
                                const char *words) {
  ovl_lane_t lane;
  assert_int_equal(ovl_pipeline_add_lane(p, options, &lane), code);
  assert_non_null(strstr(ovl_pipeline_error(p), words));
}

static void bad_device_lanes_are_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = make_pipeline(NULL);
  ovl_device_t half = paper->devices[0];
  ovl_lane_options_t options = lane_options("gpu", OVL_LANE_DEVICE, 0);
  assert_lane_refused(p, &options, OVL_EDEVICE, "\"gpu\" has no device");
  options.device = &half;
  options.poll = pretend_poll;
  assert_lane_refused(p, &options, OVL_EDEVICE, "poll hook");
  options.poll = NULL;
  options.width = 2;
  assert_lane_refused(p, &options, OVL_EWIDTH, "\"gpu\"");
  options.width = 1;
  half.stream_wait = NULL;
  assert_lane_refused(p, &options, OVL_ECALLBACK, "paper:0");
  half.size = 0;
  assert_lane_refused(p, &options, OVL_ESTRUCTSIZE, "the device's size is 0");
  options.kind = OVL_LANE_POOL;
  assert_lane_refused(p, &options, OVL_EDEVICE, "\"gpu\" has a device, but is no device lane");
  close_pipeline(p);
}

/* ---- slots ---- */

static bool covers(const paper_event_t *event, const paper_work_t *work) {
  return event->seen[work->stream] >= work->position;
}

static const paper_event_t *slot_event(ovl_pipeline_t *p, uint32_t slot) {
  void *event = p;
  assert_int_equal(ovl_pipeline_slot_event(p, slot, &event), 0);
  return event;
}

/* Behind all of the slot's work, and before that of other slots where it can be. */
static void slots_have_events(void **state) {
  (void)state;
  ovl_pipeline_t *p = two_lanes(3, 10, 10);
  assert_null(slot_event(p, 0));
  for (uint64_t n = 1; n <= 14; n++) {
    (void)time_of(p, n);
    for (uint32_t slot = 0; slot < 3; slot++)
      for (uint64_t i = 0; i < n; i++) {
        const paper_event_t *event = slot_event(p, slot);
        uint64_t last = n - 1 - (n - 1 - slot) % 3;
        assert_true(i % 3 != slot || (covers(event, work_of(1, i)) && covers(event, work_of(2, i))));
        assert_true(n < 3 || i <= last || !covers(event, work_of(2, i)));
      }
  }
  close_pipeline(p);
}

/* Whatever the shape, also when something failed or a capture came in between. */
static void slot_events_cover_all_of_a_slot(random_source_t *random) {
  edge_t edges[RANDOM_EDGES];
  uint32_t window = 1 + random_below(random, 4), stages = 1 + random_below(random, 7);
  uint64_t microbatches = 1 + random_below(random, 12);
  ovl_pipeline_t *p = random_pipeline(random, window, stages);
  (void)add_random_edges(random, p, stages, window, edges);
  fails_with = -77;
  fails_at = random_chance(random, 30) ? 1 : 0;
  fails_in = random_below(random, 5);
  (void)enqueue_on(p, microbatches, paper_stream(paper, 0));
  uint32_t from = enqueued_from, to = paper->work_count;
  fails_at = 0;
  if (random_chance(random, 30)) {
    paper->capturing = 1;
    assert_int_equal(enqueue_on(p, 2, paper_stream(paper, 0)), 0);
    paper->capturing = 0;
  }
  for (uint32_t slot = 0; slot < window; slot++)
    for (uint32_t w = from; w < to; w++)
      assert_true(paper->works[w].slot != slot || covers(slot_event(p, slot), &paper->works[w]));
  close_pipeline(p);
}

static void random_slots_have_events(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(200); round++) {
    random_source_t random = {.state = seed_first() + round};
    seed_round(random.state);
    slot_events_cover_all_of_a_slot(&random);
  }
}

static uint64_t calls_of(ovl_pipeline_t *p, uint64_t microbatches) {
  uint64_t before = paper->records + paper->waits;
  (void)enqueue_on(p, microbatches, paper_stream(paper, 0));
  return paper->records + paper->waits - before;
}

/* Whichever call for an op fails: if it is the record behind one, what was the last in its slot before is not any more. */
static void slot_events_cover_what_has_no_event(void **state) {
  enum { JOIN = 3 }; /* two streams and the end */
  (void)state;
  for (uint64_t after = 0, calls = 1 + JOIN; after + JOIN < calls; after++) {
    set_up(NULL);
    ovl_pipeline_t *p = two_lanes(2, 10, 10);
    (void)calls_of(p, 6);
    calls = calls_of(p, 6);
    paper->fail_after = (int)after;
    paper->fail_with = 719;
    paper->fail_once = 1;
    assert_int_equal(enqueue_on(p, 6, paper_stream(paper, 0)), OVL_EBADRESULT);
    for (uint32_t w = enqueued_from; w < paper->work_count; w++)
      assert_true(covers(slot_event(p, paper->works[w].slot), &paper->works[w]));
    close_pipeline(p);
    tear_down(NULL);
  }
}

static ovl_pipeline_t *asked;

static int ask_inside(ovl_op_t *op) {
  void *event;
  assert_int_equal(ovl_pipeline_slot_event(asked, op->slot, &event), OVL_EBUSY);
  return 0;
}

static void slot_events_are_refused(void **state) {
  (void)state;
  void *event;
  ovl_pipeline_options_t options = pipeline_options(2);
  asked = make_pipeline(&options);
  add_stage(asked, add_device_lane(asked, 0), ask_inside, NULL);
  assert_int_equal(enqueue_on(asked, 3, paper_stream(paper, 0)), 0);
  assert_int_equal(ovl_pipeline_run(asked, 3), 0);
  assert_int_equal(ovl_pipeline_slot_event(asked, 2, &event), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_slot_event(asked, 0, NULL), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_slot_event(NULL, 0, &event), OVL_EINVAL);
  close_pipeline(asked);
}

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(two_lanes_overlap_as_theory_says, set_up, tear_down),
      cmocka_unit_test_setup_teardown(serial_mode_is_serial, set_up, tear_down),
      cmocka_unit_test_setup_teardown(no_more_events_than_needed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(one_stream_needs_no_events, set_up, tear_down),
      cmocka_unit_test_setup_teardown(waits_that_others_imply_are_left_out, set_up, tear_down),
      cmocka_unit_test_setup_teardown(layers_ping_pong, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_device_is_entered_before_it_is_used, set_up, tear_down),
      cmocka_unit_test_setup_teardown(random_pipelines_keep_every_dependency, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_call_comes_after_the_one_before, set_up, tear_down),
      cmocka_unit_test_setup_teardown(it_does_so_whatever_the_origins, set_up, tear_down),
      cmocka_unit_test_setup_teardown(streams_of_two_devices_are_two, set_up, tear_down),
      cmocka_unit_test_setup_teardown(calls_from_inside_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_callback_may_enter_another_device, set_up, tear_down),
      cmocka_unit_test_setup_teardown(all_comes_after_the_origin, set_up, tear_down),
      cmocka_unit_test_setup_teardown(streams_may_change_with_each_call, set_up, tear_down),
      cmocka_unit_test_setup_teardown(items_and_slots_are_handed_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nothing_is_put_down_for_no_microbatches, set_up, tear_down),
      cmocka_unit_test_setup_teardown(captured_calls_have_one_shape_and_events_of_their_own, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(devices_that_cannot_capture_need_fewer_events, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_invalid_capture_is_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(streams_join_when_a_callback_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(with_continue_only_the_failed_microbatch_is_left_out, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(foreign_codes_are_kept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_device_that_fails_is_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_calls_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(other_lanes_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_device_lanes_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(slots_have_events, set_up, tear_down),
      cmocka_unit_test_setup_teardown(random_slots_have_events, set_up, tear_down),
      cmocka_unit_test(slot_events_cover_what_has_no_event),
      cmocka_unit_test_setup_teardown(slot_events_are_refused, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
