/* SPDX-License-Identifier: MIT */
/* Shows runs with device lanes, on a device on paper: work is issued ahead without the host waiting, in stream order;
 * whoever has to know on the host that it is done waits until an event says so; slots are not reused too early by either; and
 * what fails is told by the user's names. */
#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "api/devices.h"
#include "api/pipeline.h"
#include "support/describe.h"
#include "support/paper_device.h"
#include "support/random_edges.h"
#include "support/seed.h"
#include "support/watchdog.h"

enum { STAGES = 16, MICROBATCHES = 64 };

static paper_t *paper;
static uint64_t durations[STAGES + 1]; /* by stage id */
static ovl_stage_t fails;
static bool unwatched; /* a second run on one paper */
static uint64_t fails_in;
static int fails_with;

/* What happened on the host, by stage id and microbatch: when it began and ended, counted by one clock. */
static atomic_uint clock_now;
static atomic_uint begun; /* microbatches: ops of the first stage */
static unsigned began[STAGES + 1][MICROBATCHES], ended[STAGES + 1][MICROBATCHES];

/* What the device had to keep in order when an op began: with who was in its slot before, and by edge. */
static bool slot_open[STAGES + 1][MICROBATCHES][STAGES + 1], edge_open[3 * STAGES][MICROBATCHES];

static int result_of(const ovl_op_t *op) {
  return op->stage.id == fails.id && op->microbatch == fails_in ? fails_with : 0;
}

static void check_watched(const ovl_op_t *op);

static int put(ovl_op_t *op) {
  began[op->stage.id][op->microbatch] = atomic_fetch_add(&clock_now, 1) + 1;
  atomic_fetch_add(&begun, op->stage.id == 1);
  check_watched(op);
  paper_put(op, durations[op->stage.id]);
  return result_of(op);
}

static int work(ovl_op_t *op) {
  began[op->stage.id][op->microbatch] = atomic_fetch_add(&clock_now, 1) + 1;
  check_watched(op);
  ended[op->stage.id][op->microbatch] = atomic_fetch_add(&clock_now, 1) + 1;
  return result_of(op);
}

static int set_up(void **state) {
  (void)state;
  paper = paper_make();
  paper->patience = 3;
  fails = (ovl_stage_t){0};
  unwatched = false;
  atomic_store(&clock_now, 0);
  memset(slot_open, 0, sizeof slot_open);
  memset(edge_open, 0, sizeof edge_open);
  memset(began, 0, sizeof began);
  memset(ended, 0, sizeof ended);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  paper_free(paper);
  return 0;
}

/* ---- describing, and what each op has to find ---- */

static struct {
  uint32_t stages, window;
  int device[STAGES + 1]; /* by stage id: its device; -1: a host lane */
  edge_t edges[3 * STAGES];
  uint32_t edge_count;
} shape;

static bool in_one_domain(uint32_t a, uint32_t b) {
  return shape.device[a] >= 0 && shape.device[b] >= 0 &&
         (shape.device[a] == shape.device[b] ||
          paper->devices[0].sync_domain == paper->devices[1].sync_domain);
}

/* Before `after` begins, the host knows that `before` is done; else the device keeps them in order, which is looked at when
 * all has been put down: true. */
static bool check_known(uint32_t before, const ovl_op_t *after, uint64_t microbatch) {
  bool known =
      shape.device[before] < 0 ? ended[before][microbatch] != 0 : paper_is_known(paper, before, microbatch);
  assert_true(known || in_one_domain(before, after->stage.id));
  return !known;
}

static void check_watched(const ovl_op_t *op) {
  if (fails.id != 0 || unwatched)
    return;
  for (uint32_t e = 0; e < shape.edge_count; e++)
    if (shape.edges[e].after == op->stage.id && shape.edges[e].distance <= op->microbatch)
      edge_open[e][op->microbatch] =
          check_known(shape.edges[e].before, op, op->microbatch - shape.edges[e].distance);
  for (uint32_t s = 1; op->microbatch >= shape.window && s <= shape.stages; s++)
    slot_open[op->stage.id][op->microbatch][s] = check_known(s, op, op->microbatch - shape.window);
}

static ovl_lane_t add_device_lane(ovl_pipeline_t *p, int device) {
  ovl_lane_options_t options = lane_options(NULL, OVL_LANE_DEVICE, 0);
  options.device = &paper->devices[device];
  options.stream = paper_stream(paper, device);
  return add_lane_with(p, &options);
}

static ovl_stage_t add_any(ovl_pipeline_t *p, ovl_lane_t lane, int device, bool chained) {
  ovl_stage_options_t options = stage_options(lane, device >= 0 ? put : work, NULL);
  options.unchained = !chained;
  options.cost_ns = durations[shape.stages + 1] = 1 + shape.stages % 3;
  ovl_stage_t stage = add_stage_with(p, &options);
  shape.device[stage.id] = device;
  if (chained && stage.id > 1)
    shape.edges[shape.edge_count++] = (edge_t){stage.id - 1, stage.id, 0};
  shape.stages = stage.id;
  return stage;
}

static ovl_pipeline_t *begin_shape(uint32_t window, ovl_pipeline_options_t *options) {
  memset(&shape, 0, sizeof shape);
  shape.window = window;
  options->window = window;
  return make_pipeline(options);
}

static ovl_pipeline_t *two_lanes(ovl_pipeline_options_t *options, uint64_t compute, uint64_t comm) {
  ovl_pipeline_t *p = begin_shape(2, options);
  add_any(p, add_device_lane(p, 0), 0, true);
  add_any(p, add_device_lane(p, 0), 0, true);
  durations[1] = compute;
  durations[2] = comm;
  return p;
}

static bool streams_keep(uint32_t after, uint64_t i, uint32_t before, uint64_t j) {
  return paper_after(paper_find(paper, 0, after, i), paper_find(paper, 0, before, j));
}

/* All that the device has to keep in order, whatever ops take. */
static void check_streams(uint64_t microbatches) {
  for (uint64_t i = 0; i < microbatches; i++) {
    for (uint32_t e = 0; e < shape.edge_count; e++)
      if (edge_open[e][i])
        assert_true(
            streams_keep(shape.edges[e].after, i, shape.edges[e].before, i - shape.edges[e].distance));
    for (uint32_t s = 1; i >= shape.window && s <= shape.stages; s++)
      for (uint32_t t = 1; t <= shape.stages; t++)
        if (slot_open[s][i][t])
          assert_true(streams_keep(s, i, t, i - shape.window));
  }
}

static void run(ovl_pipeline_t *p, uint64_t microbatches, int status) {
  watchdog_expect("a run with device lanes");
  assert_int_equal(ovl_pipeline_run(p, microbatches), status);
}

/* ---- streams ---- */

static void device_lanes_overlap_far_beyond_the_window(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 10, 10);
  run(p, 50, 0);
  assert_int_equal(paper_end(paper, 0), 50 * 10 + 10);
  assert_int_equal(paper->work_count, 100);
  assert_in_range(paper->records, 1, 100); /* one an op at most */
  assert_in_range(paper->waits, 1, 100);
  check_streams(50);
  ovl_stats_t stats = stats_of(p);
  assert_int_equal(stats.ops, 100);
  assert_int_equal(stats.microbatches, 50);
  assert_int_equal(stats.window, 2);
  assert_true(stats.bound_ns == 0 && stats.efficiency == 0.0);
  assert_int_equal(stats.work_ns, 0); /* how long works took is not known */
  ovl_pipeline_close(p, NULL);
}

static void serial_mode_is_serial(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 10, 7);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  run(p, 9, 0);
  assert_int_equal(paper_end(paper, 0), 9 * 17);
  ovl_pipeline_close(p, NULL);
}

/* Nothing on the host begins before the device is done with what comes before it, though nothing waits for it. */
static void serial_mode_is_serial_with_host_lanes(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = begin_shape(2, &options);
  ovl_lane_t gpu = add_device_lane(p, 0), host = add_lane(p, OVL_LANE_POOL, 1);
  add_any(p, gpu, 0, true);
  add_any(p, host, -1, false);
  add_any(p, gpu, 0, false);
  assert_int_equal(ovl_pipeline_add_dependency(p, (ovl_stage_t){1}, (ovl_stage_t){3}, 0), 0);
  assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
  shape.edges[shape.edge_count++] = (edge_t){1, 2, 0};
  shape.edges[shape.edge_count++] = (edge_t){2, 3, 0};
  shape.edges[shape.edge_count++] = (edge_t){3, 1, 1};
  run(p, 20, 0);
  check_streams(20);
  ovl_pipeline_close(p, NULL);
}

/* ---- how far ahead ---- */

typedef struct ahead {
  ovl_pipeline_t *p;
  uv_timer_t timer;
  uint32_t expected, seen, ticks;
} ahead_t;

static void look(uv_timer_t *timer) {
  ahead_t *ahead = timer->data;
  ahead->seen = (uint32_t)atomic_load(&begun);
  if (ahead->seen >= ahead->expected && ++ahead->ticks > 20) { /* time enough for one too many */
    atomic_store(&paper->hold, 0);
    uv_close((uv_handle_t *)timer, NULL);
  }
}

static void ends_well(ovl_pipeline_t *p, int status) {
  (void)p;
  assert_int_equal(status, 0);
}

static void do_nothing(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
}

/* Nothing is known to be done until so many microbatches have been issued, and some time has passed. */
static uint32_t run_held(ovl_pipeline_t *p, uint32_t expected, uint64_t microbatches) {
  uv_loop_t loop;
  ahead_t ahead = {.p = p, .expected = expected};
  atomic_store(&begun, 0);
  atomic_store(&paper->hold, 1);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_timer_init(&loop, &ahead.timer), 0);
  ahead.timer.data = &ahead;
  assert_int_equal(uv_timer_start(&ahead.timer, look, 1, 1), 0);
  watchdog_expect("as much to be issued as may be");
  assert_int_equal(ovl_pipeline_start(ahead.p, &loop, microbatches, ends_well), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  return ahead.seen;
}

/* With nothing known to be done, so many microbatches are issued and no more. */
static void issue_ahead(uint32_t wanted, bool report, uint32_t expected) {
  set_up(NULL);
  ovl_pipeline_options_t options = pipeline_options(0);
  options.issue_ahead = wanted;
  options.on_microbatch = report ? do_nothing : NULL;
  ovl_pipeline_t *p = two_lanes(&options, 1, 1);
  assert_int_equal(run_held(p, expected, 30), expected);
  ovl_pipeline_close(p, NULL);
  tear_down(NULL);
}

static void so_much_is_issued_ahead(void **state) {
  (void)state;
  issue_ahead(0, false, 4);
  issue_ahead(7, false, 7);
  issue_ahead(1, false, 2); /* the window at least */
  issue_ahead(7, true, 2);  /* who is told of microbatches may look at their slots */
}

/* Layers of compute and comm in turns, c = m, k microbatches: k L max(c, m) + min(c, m), and not the serial 2 k L. While nothing is
 * known to be done all of it is issued: the host waits for nothing between device ops. */
static void layers_ping_pong_without_the_host(void **state) {
  (void)state;
  enum { LAYERS = 4 };
  for (uint64_t k = 2; k <= 6; k++) {
    set_up(NULL);
    ovl_pipeline_options_t options = pipeline_options(0);
    ovl_pipeline_t *p = begin_shape((uint32_t)k, &options);
    ovl_lane_t lanes[2] = {add_device_lane(p, 0), add_device_lane(p, 0)};
    for (uint32_t s = 0; s < 2 * LAYERS; s++) {
      ovl_stage_options_t stage = stage_options(lanes[s % 2], put, NULL);
      stage.cost_ns = 10;
      durations[add_stage_with(p, &stage).id] = 10;
    }
    assert_int_equal(run_held(p, (uint32_t)k, k), k);
    assert_int_equal(paper_end(paper, 0), k * LAYERS * 10 + 10);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

/* Of a stream only what it will come to next is asked for, however long it takes. */
static void only_the_first_open_event_is_asked_for(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.issue_ahead = 4;
  ovl_pipeline_t *p = two_lanes(&options, 1, 1);
  assert_int_equal(run_held(p, 4, 4), 4);
  unsigned watched = 0, first = 0;
  for (uint32_t e = 0; e < paper->events_made; e++) {
    watched += paper->events[e].queries > 0;
    first += paper->events[e].queries > paper->patience + 1;
  }
  assert_int_equal(watched, 4);
  assert_int_equal(first, 1);
  ovl_pipeline_close(p, NULL);
}

/* ---- mixed ---- */

static void host_lanes_wait_for_the_device(void **state) { /* checked by each op */
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = begin_shape(2, &options);
  ovl_lane_t load = add_lane(p, OVL_LANE_POOL, 1), gpu = add_device_lane(p, 0), link = add_device_lane(p, 0);
  ovl_lane_t log = add_lane(p, OVL_LANE_LOOP, 1);
  add_any(p, load, -1, true);
  add_any(p, gpu, 0, true);
  add_any(p, link, 0, true);
  add_any(p, log, -1, true);
  run(p, 40, 0);
  check_streams(40);
  assert_int_equal(stats_of(p).ops, 160);
  ovl_lane_stats_t lane;
  ovl_lane_stats_init(&lane);
  assert_int_equal(ovl_pipeline_lane_stats(p, gpu, &lane), 0);
  assert_int_equal(lane.ops, 40);
  assert_int_equal(lane.busy_ns, 0);
  ovl_pipeline_close(p, NULL);
}

static void check_durations(const ovl_pipeline_t *p, uint64_t microbatches) {
  for (uint32_t s = 1; s <= shape.stages; s++) {
    ovl_stage_stats_t stage;
    ovl_stage_stats_init(&stage);
    assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){s}, &stage), 0);
    assert_int_equal(stage.timed_ops, microbatches);
    if (shape.device[s] >= 0)
      assert_int_equal(stage.total_ns, microbatches * durations[s]);
  }
}

static void play_random_shape(random_source_t *random) {
  ovl_lane_t lanes[5];
  int devices[5];
  uint32_t window = 1 + random_below(random, 4), stages = 1 + random_below(random, 8), lane_count;
  uint64_t microbatches = 1 + random_below(random, 14);
  ovl_pipeline_options_t options = pipeline_options(0);
  options.issue_ahead = random_below(random, 9);
  options.device_timing = random_chance(random, 30) ? OVL_DEVICE_TIMING_ALL : OVL_DEVICE_TIMING_OFF;
  set_up(NULL);
  if (random_chance(random, 40))
    paper->devices[1].sync_domain = &paper->devices[1]; /* else both are in one domain */
  paper->patience = random_below(random, 4);
  ovl_pipeline_t *p = begin_shape(window, &options);
  lane_count = 1 + random_below(random, 5);
  for (uint32_t l = 0; l < lane_count; l++) {
    devices[l] = (int)random_below(random, 4) - 1;
    if (devices[l] == 2)
      devices[l] = 0;
    lanes[l] = devices[l] >= 0 ? add_device_lane(p, devices[l])
                               : add_lane(p, random_chance(random, 50) ? OVL_LANE_POOL : OVL_LANE_LOOP,
                                          1 + random_below(random, 2));
  }
  for (uint32_t s = 1; s <= stages; s++) {
    uint32_t lane = random_below(random, lane_count);
    add_any(p, lanes[lane], devices[lane], random_chance(random, 70));
  }
  shape.edge_count += add_random_edges(random, p, stages, window, &shape.edges[shape.edge_count]);
  assert_int_equal(ovl_pipeline_set_mode(p, random_chance(random, 15) ? OVL_SERIAL : OVL_OVERLAP), 0);
  run(p, microbatches, 0);
  check_streams(microbatches);
  assert_int_equal(stats_of(p).ops, microbatches * stages);
  if (options.device_timing == OVL_DEVICE_TIMING_ALL)
    check_durations(p, microbatches);
  ovl_pipeline_close(p, NULL);
  tear_down(NULL);
}

static void random_mixtures_keep_every_dependency(void **state) {
  (void)state;
  for (uint64_t round = 0; round < seed_rounds(200); round++) {
    random_source_t random = {.state = seed_first() + round};
    seed_round(random.state);
    play_random_shape(&random);
  }
}

/* ---- streaming ---- */

static void items_stream_through_devices(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.queue = 30;
  ovl_pipeline_t *p = two_lanes(&options, 3, 3);
  for (int i = 0; i < 20; i++)
    assert_int_equal(ovl_pipeline_submit(p, p), 0);
  assert_int_equal(ovl_pipeline_finish(p), 0);
  run(p, OVL_STREAMING, 0);
  assert_int_equal(paper->work_count, 40);
  check_streams(20);
  ovl_pipeline_close(p, NULL);
}

/* ---- what a callback sees ---- */

static int thing;

static int see(ovl_op_t *op) {
  assert_int_equal(op->slot, op->microbatch % 2);
  assert_int_equal(op->stage.id, 1);
  assert_int_equal(op->lane.id, 2);
  assert_ptr_equal(op->data, &thing);
  assert_ptr_equal(op->stream, &paper->streams[0]);
  assert_int_equal(ovl_op_complete(op, 0),
                   OVL_EINVAL); /* it ends in stream order, and not because somebody says so */
  return 0;
}

static void callbacks_see_the_users_lane_and_slot(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = begin_shape(2, &options);
  add_lane(p, OVL_LANE_POOL, 1);
  add_stage(p, add_device_lane(p, 0), see, &thing);
  run(p, 9, 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- failing ---- */

static void assert_failure(const ovl_pipeline_t *p, int status, int native, uint32_t stage,
                           uint64_t microbatch) {
  ovl_failure_t failure = failure_of(p);
  assert_int_equal(failure.status, status);
  assert_int_equal(failure.native, native);
  assert_int_equal(failure.stage.id, stage);
  assert_int_equal(failure.lane.id, stage); /* as these pipelines are made */
  assert_int_equal(failure.microbatch, microbatch);
}

/* When a run is over, all that it put down is done. */
static void assert_all_known(void) {
  for (uint32_t s = 0; s < paper->stream_count; s++)
    assert_int_equal(paper->known[s], paper->streams[s].seen[s]);
}

static ovl_pipeline_t *failing(ovl_on_error_t policy, int code) {
  ovl_pipeline_options_t options = pipeline_options(0);
  options.on_error = policy;
  ovl_pipeline_t *p = two_lanes(&options, 5, 5);
  ovl_stage_options_t always = stage_options(add_device_lane(p, 0), put, NULL);
  always.always = 1;
  add_stage_with(p, &always);
  unwatched = false;
  fails = (ovl_stage_t){2};
  fails_in = 4;
  fails_with = code;
  return p;
}

static void a_callback_that_fails_is_named(void **state) {
  (void)state;
  const int codes[][3] = {{-77, -77, 0}, {700, OVL_EBADRESULT, 700}, {OVL_PENDING, OVL_EBADRESULT, 0}};
  for (size_t i = 0; i < 3; i++) {
    set_up(NULL);
    ovl_pipeline_t *p = failing(OVL_ON_ERROR_STOP, codes[i][0]);
    run(p, 20, codes[i][1]);
    assert_all_known();
    ovl_stats_t stats = stats_of(p);
    assert_int_equal(stats.ops, paper->work_count);
    assert_int_equal(stats.ops + stats.skipped, 3 * stats.microbatches);
    assert_failure(p, codes[i][1], codes[i][2], 2, 4);
    fails = (ovl_stage_t){0};
    unwatched = true;
    run(p, 20, 0); /* and nothing of it is left */
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

/* Also by an op after which everything is skipped. */
static void what_failed_microbatches_put_down_is_waited_for(void **state) {
  (void)state;
  for (int policy = OVL_ON_ERROR_STOP; policy <= OVL_ON_ERROR_CONTINUE; policy++) {
    set_up(NULL);
    ovl_pipeline_options_t options = pipeline_options(0);
    options.on_error = (ovl_on_error_t)policy;
    ovl_pipeline_t *p = two_lanes(&options, 5, 5);
    fails = (ovl_stage_t){1};
    fails_in = 19;
    fails_with = -77;
    run(p, 20, -77);
    assert_all_known();
    ovl_stats_t stats = stats_of(p);
    assert_int_equal(stats.ops, paper->work_count);
    assert_int_equal(stats.ops + stats.skipped, 40);
    assert_in_range(stats.skipped, 1, policy == OVL_ON_ERROR_STOP ? 2 : 1);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

static void with_continue_the_others_go_on(void **state) {
  (void)state;
  ovl_pipeline_t *p = failing(OVL_ON_ERROR_CONTINUE, -77);
  run(p, 20, -77);
  assert_int_equal(paper->work_count, 60); /* `always` for the failed one too */
  assert_int_equal(stats_of(p).failed, 1);
  assert_all_known();
  ovl_pipeline_close(p, NULL);
}

/* What the device itself finds is told of the oldest that is not known to be done. */
static void a_device_that_fails_is_told(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 5, 5);
  paper->query_error = 719;
  run(p, 20, OVL_EBADRESULT);
  assert_failure(p, OVL_EBADRESULT, 719, 2, 0);
  ovl_stage_stats_t stage;
  ovl_stage_stats_init(&stage);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){2}, &stage), 0);
  assert_int_equal(stage.failed, stage.ops); /* none was done */
  ovl_pipeline_close(p, NULL);
}

static void a_device_that_refuses_is_told(void **state) {
  (void)state;
  for (int after = 0; after < 30; after++) {
    set_up(NULL);
    ovl_pipeline_options_t options = pipeline_options(0);
    ovl_pipeline_t *p = two_lanes(&options, 5, 5);
    fails = (ovl_stage_t){99};
    paper->fail_after = after;
    paper->fail_with = 719;
    run(p, 20, OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, 719);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

/* ---- in words ---- */

static char text[8192];

static void look_inside(uv_timer_t *timer) {
  ahead_t *ahead = timer->data;
  if (atomic_load(&begun) < ahead->expected || ++ahead->ticks < 10)
    return;
  assert_true(ovl_pipeline_dump(ahead->p, text, sizeof text) > 0);
  atomic_store(&paper->hold, 0);
  uv_close((uv_handle_t *)timer, NULL);
}

/* The texts name the user's stages and lanes, whatever the executor runs in their place. */
static void dumps_and_findings_name_the_users_stages(void **state) {
  (void)state;
  uv_loop_t loop;
  ovl_pipeline_options_t options = pipeline_options(0);
  ahead_t ahead = {.p = begin_shape(2, &options), .expected = 2};
  add_any(ahead.p, add_device_lane(ahead.p, 0), 0, true);
  add_any(ahead.p, add_device_lane(ahead.p, 0), 0, true);
  add_any(ahead.p, add_lane(ahead.p, OVL_LANE_POOL, 1), -1, true);
  atomic_store(&begun, 0);
  atomic_store(&paper->hold, 1);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_timer_init(&loop, &ahead.timer), 0);
  ahead.timer.data = &ahead;
  assert_int_equal(uv_timer_start(&ahead.timer, look_inside, 1, 1), 0);
  watchdog_expect("a run that is looked into");
  assert_int_equal(ovl_pipeline_start(ahead.p, &loop, 30, ends_well), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_non_null(strstr(text, "\"stage 2\" of microbatch 0"));
  assert_non_null(strstr(text, "lane \"(what devices have done)\""));
  assert_true(ovl_pipeline_explain(ahead.p, text, sizeof text) > 0);
  assert_non_null(strstr(text, "lane \"lane 3\""));
  ovl_lane_stats_t lane;
  ovl_lane_stats_init(&lane);
  assert_int_equal(ovl_pipeline_lane_stats(ahead.p, (ovl_lane_t){3}, &lane), 0);
  assert_in_range(lane.awaited.id, 1, 3);
  ovl_pipeline_close(ahead.p, NULL);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- after something else ---- */

/* What was enqueued before may still be on the streams, in the same slots. */
static void a_run_comes_after_what_was_enqueued(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 5, 7);
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = 4;
  call.origin = paper_stream(paper, 0);
  unwatched = true;
  assert_int_equal(ovl_pipeline_enqueue(p, &call), 0);
  uint32_t before = paper->work_count;
  run(p, 4, 0);
  paper_assert_all_after(paper, before);
  ovl_pipeline_close(p, NULL);
}

static void a_refused_start_leaves_the_statistics_alone(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 5, 5);
  fails = (ovl_stage_t){1};
  fails_in = 2;
  fails_with = -77;
  run(p, 3, -77);
  ovl_stats_t first = stats_of(p);
  assert_in_range(first.skipped, 1, 6);
  assert_int_equal(ovl_pipeline_submit(p, NULL), 0);
  run(p, 3, OVL_EITEMS);
  ovl_stats_t second = stats_of(p);
  assert_int_equal(second.ops, first.ops);
  assert_int_equal(second.skipped, first.skipped);
  ovl_pipeline_close(p, NULL);
}

/* Nobody would ever complete what an entry says is pending. */
static void an_entry_cannot_be_pending(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 5, 5);
  fails = (ovl_stage_t){99};
  paper->fail_after = 3;
  paper->fail_with = OVL_PENDING;
  run(p, 5, OVL_EBADRESULT);
  ovl_pipeline_close(p, NULL);
}

/* ---- when the device never answers ---- */

static unsigned aborts;

static void count_abort(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  assert_ptr_equal(data, &aborts);
  assert_int_equal(lane.id, 2);
  aborts++;
}

static void cancel_run(uv_timer_t *timer) {
  assert_int_equal(ovl_pipeline_cancel(timer->data), 0);
  uv_close((uv_handle_t *)timer, NULL);
}

static int ended_with;

static void note_end(ovl_pipeline_t *p, int status) {
  (void)p;
  ended_with = status;
}

/* Nothing is ever done. It is cancelled after 10 ms, or ops of a stage (by its id) have a deadline of 5 ms. */
static ovl_pipeline_t *run_in_vain(uint32_t deadline) {
  uv_loop_t loop;
  uv_timer_t timer;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.abandon_ns = 20000000;
  ovl_pipeline_t *p = begin_shape(2, &options);
  ovl_stage_options_t first = stage_options(add_device_lane(p, 0), put, NULL);
  first.timeout_ns = deadline == 1 ? 5000000 : 0;
  add_stage_with(p, &first);
  ovl_lane_options_t lane = lane_options("link", OVL_LANE_DEVICE, 0);
  lane.device = &paper->devices[0];
  lane.stream = paper_stream(paper, 0);
  lane.abort = count_abort;
  lane.data = &aborts;
  ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), put, NULL);
  stage.timeout_ns = deadline == 2 ? 5000000 : 0;
  add_stage_with(p, &stage);
  aborts = 0;
  atomic_store(&paper->hold, 1);
  watchdog_expect("a run whose device never answers");
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(ovl_pipeline_start(p, &loop, 10, note_end), 0);
  assert_int_equal(uv_timer_init(&loop, &timer), 0);
  timer.data = p;
  if (!deadline)
    assert_int_equal(uv_timer_start(&timer, cancel_run, 10, 0), 0);
  else
    uv_close((uv_handle_t *)&timer, NULL);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  return p;
}

static void work_that_never_ends_is_abandoned(void **state) {
  (void)state;
  for (uint32_t deadline = 0; deadline <= 2; deadline++) {
    set_up(NULL);
    ovl_pipeline_t *p = run_in_vain(deadline);
    assert_int_equal(ended_with, deadline ? OVL_ETIMEDOUT : OVL_ECANCELED);
    if (deadline != 0)
      assert_int_equal(failure_of(p).stage.id, deadline);
    assert_int_equal(aborts, 1);
    assert_int_equal(ovl_pipeline_run(p, 1), OVL_EPOISONED);
    ovl_enqueue_t call;
    ovl_enqueue_init(&call);
    call.origin = &paper->streams[0];
    assert_int_equal(ovl_pipeline_enqueue(p, &call), OVL_EPOISONED);
    ovl_pipeline_close(p, NULL);
    assert_true(paper->events_made > 0);
    assert_int_equal(paper->events_ended, 0); /* the device may still come to them */
    paper->events_ended = paper->events_made;
    tear_down(NULL);
  }
}

/* What is in front of an op may never end, and nobody said how long it may take: the op's own deadline counts. */
static void deadlines_count_behind_what_has_none(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  options.abandon_ns = 20000000;
  options.device_timing = OVL_DEVICE_TIMING_ALL; /* so that the host asks for all of them */
  ovl_pipeline_t *p = begin_shape(2, &options);
  ovl_lane_t lane = add_device_lane(p, 0);
  add_stage(p, lane, put, NULL);
  ovl_stage_options_t stage = stage_options(lane, put, NULL);
  stage.timeout_ns = 5000000;
  add_stage_with(p, &stage);
  unwatched = true;
  atomic_store(&paper->hold, 1);
  run(p, 10, OVL_ETIMEDOUT);
  assert_int_equal(failure_of(p).stage.id, 2);
  ovl_pipeline_close(p, NULL);
  paper->events_ended = paper->events_made; /* they are left to the device */
}

static ovl_op_t watched[2];
static bool counts[2], overtakes_late;

/* Perhaps by a thread that is late: the one in front begins before it has said this. */
static void note_count(ovl_op_t *op, bool now) {
  if (overtakes_late && now) {
    overtakes_late = false;
    assert_int_equal(ovl_issuer_watch(&watched[0]), OVL_PENDING);
  }
  counts[op->microbatch] = now;
}

/* Watches that begin in another order than their stages: only the first of the stream counts. */
static void one_deadline_counts_whoever_began_first(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    set_up(NULL);
    ovl_pipeline_options_t options = pipeline_options(0);
    ovl_pipeline_t *p = begin_shape(2, &options);
    ovl_stage_options_t stage = stage_options(add_device_lane(p, 0), put, NULL);
    stage.timeout_ns = 1000000000;
    add_stage_with(p, &stage);
    unwatched = true;
    run(p, 2, 0); /* whose marks are still there */
    ovl_issuer_t *issuer = &p->devices->issuer;
    issuer->count_deadline = note_count;
    for (uint32_t i = 0; i < 2; i++) {
      watched[i] = (ovl_op_t){.microbatch = i, .data = &issuer->stages[0]};
      watched[i].stage.id = issuer->issue->watches[0] + 1;
    }
    overtakes_late = late != 0;
    assert_int_equal(ovl_issuer_watch(&watched[1]), OVL_PENDING);
    if (!late)
      assert_int_equal(ovl_issuer_watch(&watched[0]), OVL_PENDING);
    assert_true(counts[0] && !counts[1]);
    paper->patience = 0;
    ovl_issuer_poll(p, (ovl_lane_t){1}, issuer);
    assert_true(counts[1]); /* since the first has ended */
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

/* The hook is called for what fails, and not for what goes well. */
static void only_runs_that_are_stopped_are_aborted(void **state) {
  (void)state;
  for (int fails_now = 0; fails_now < 2; fails_now++) {
    set_up(NULL);
    ovl_pipeline_options_t options = pipeline_options(0);
    ovl_pipeline_t *p = begin_shape(2, &options);
    add_any(p, add_lane(p, OVL_LANE_POOL, 1), -1, true);
    ovl_lane_options_t lane = lane_options("net", OVL_LANE_POOL, 1);
    lane.abort = count_abort;
    lane.data = &aborts;
    add_any(p, add_lane_with(p, &lane), -1, true);
    fails = (ovl_stage_t){fails_now ? 1 : 99};
    fails_in = 3;
    fails_with = -77;
    aborts = 0;
    run(p, 10, fails_now ? -77 : 0);
    assert_int_equal(aborts, fails_now);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

/* ---- refusing ---- */

static void runs_that_cannot_be_are_refused(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(0);
  ovl_pipeline_t *p = two_lanes(&options, 5, 5);
  paper->capturing = 1;
  assert_int_equal(ovl_pipeline_run(p, 3), OVL_ECAPTURE);
  assert_non_null(strstr(ovl_pipeline_error(p), "\"lane 1\" is capturing"));
  paper->capturing = 0;
  run(p, 3, 0);
  ovl_pipeline_close(p, NULL);
  p = begin_shape(2, &options);
  ovl_lane_options_t lane = lane_options("bare", OVL_LANE_DEVICE, 0);
  lane.device = &paper->devices[0];
  ovl_stage_options_t stage = stage_options(add_lane_with(p, &lane), put, NULL);
  stage.cancel = put;
  assert_int_equal(ovl_pipeline_add_stage(p, &stage, NULL), OVL_EDEVICE);
  assert_int_equal(ovl_pipeline_run(p, 3), OVL_EINVAL);
  assert_non_null(strstr(ovl_pipeline_error(p), "\"bare\" has no stream"));
  ovl_pipeline_close(p, NULL);
}

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(device_lanes_overlap_far_beyond_the_window, set_up, tear_down),
      cmocka_unit_test_setup_teardown(serial_mode_is_serial, set_up, tear_down),
      cmocka_unit_test(layers_ping_pong_without_the_host),
      cmocka_unit_test_setup_teardown(serial_mode_is_serial_with_host_lanes, set_up, tear_down),
      cmocka_unit_test(so_much_is_issued_ahead),
      cmocka_unit_test_setup_teardown(only_the_first_open_event_is_asked_for, set_up, tear_down),
      cmocka_unit_test_setup_teardown(host_lanes_wait_for_the_device, set_up, tear_down),
      cmocka_unit_test(random_mixtures_keep_every_dependency),
      cmocka_unit_test_setup_teardown(items_stream_through_devices, set_up, tear_down),
      cmocka_unit_test_setup_teardown(callbacks_see_the_users_lane_and_slot, set_up, tear_down),
      cmocka_unit_test(a_callback_that_fails_is_named),
      cmocka_unit_test(what_failed_microbatches_put_down_is_waited_for),
      cmocka_unit_test_setup_teardown(with_continue_the_others_go_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_device_that_fails_is_told, set_up, tear_down),
      cmocka_unit_test(a_device_that_refuses_is_told),
      cmocka_unit_test_setup_teardown(a_run_comes_after_what_was_enqueued, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_refused_start_leaves_the_statistics_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_entry_cannot_be_pending, set_up, tear_down),
      cmocka_unit_test(work_that_never_ends_is_abandoned),
      cmocka_unit_test_setup_teardown(deadlines_count_behind_what_has_none, set_up, tear_down),
      cmocka_unit_test(one_deadline_counts_whoever_began_first),
      cmocka_unit_test(only_runs_that_are_stopped_are_aborted),
      cmocka_unit_test_setup_teardown(dumps_and_findings_name_the_users_stages, set_up, tear_down),
      cmocka_unit_test_setup_teardown(runs_that_cannot_be_are_refused, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
