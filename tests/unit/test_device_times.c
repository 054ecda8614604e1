/* SPDX-License-Identifier: MIT */
/* Shows that what a device says of when its ops ran is added up right: by the sweep alone, for random lanes whose ops are
 * heard of in any order, and in runs on a device on paper, where all durations are known. */
#include <string.h>

#include "device/times.h"
#include "support/counting_allocator.h"
#include "support/describe.h"
#include "support/paper_device.h"
#include "support/random.h"
#include "support/seed.h"
#include "support/watchdog.h"

/* ---- the sweep ---- */

enum { LANES = 5, OPS = 24, END = 512 };

typedef struct lanes {
  ovl_lane_desc_t descs[LANES];
  ovl_stage_desc_t stages[LANES];
  uint32_t first[LANES + 1], on[LANES];
  ovl_plan_t plan;
  ovl_track_lane_t on_device[LANES];
  ovl_span_t spans[LANES][OPS];
  uint32_t added[LANES];
} lanes_t;

static const ovl_device_t devices[2];

/* A stage on each lane, but for the last, which has none. */
static void make_lanes(lanes_t *l, random_source_t *random) {
  memset(l, 0, sizeof *l);
  for (uint32_t i = 0; i < LANES; i++) {
    l->descs[i] = (ovl_lane_desc_t){.width = 1, .role = (ovl_role_t)random_below(random, 3)};
    l->first[i + 1] = i + 1 < LANES ? i + 1 : i;
    l->on[i] = l->stages[i].lane = i;
    l->on_device[i].device = &devices[i % 2];
  }
  l->plan = (ovl_plan_t){.lane_count = LANES,
                         .stage_count = LANES - 1,
                         .lanes = l->descs,
                         .stages = l->stages,
                         .lane_first = l->first,
                         .lane_stages = l->on};
  for (uint32_t i = 0; i + 1 < LANES; i++)
    for (uint32_t k = 0, now = 0; k < OPS; k++) {
      uint32_t start = now + random_below(random, 6);
      now = start + random_below(random, 8);
      l->spans[i][k] = (ovl_span_t){.start = start, .end = now};
    }
}

/* By the nanosecond. */
static uint64_t with_compute(const lanes_t *l, bool compute) {
  uint64_t sum = 0;
  for (uint64_t t = 0; t < END; t++) {
    bool on[3] = {false};
    for (uint32_t i = 0; i + 1 < LANES; i++)
      for (uint32_t k = 0; k < OPS; k++)
        on[l->descs[i].role] |= l->spans[i][k].start <= t && t < l->spans[i][k].end;
    sum += on[OVL_ROLE_COMM] && on[OVL_ROLE_COMPUTE] == compute;
  }
  return sum;
}

static void hear_in_any_order(ovl_times_t *times, lanes_t *l, random_source_t *random) {
  memset(l->added, 0, sizeof l->added);
  for (uint32_t left = (LANES - 1) * OPS; left > 0;) {
    uint32_t lane = random_below(random, LANES - 1);
    if (l->added[lane] == OPS)
      continue;
    const ovl_span_t *span = &l->spans[lane][l->added[lane]++];
    ovl_times_add(times, lane, span->start, span->end);
    left--;
  }
  ovl_times_flush(times);
}

static void check_stages(const ovl_times_t *times, const lanes_t *l) {
  for (uint32_t s = 0; s + 1 < LANES; s++) {
    uint64_t total = 0, most = 0, least = UINT64_MAX;
    for (uint32_t k = 0; k < OPS; k++) {
      uint64_t duration = l->spans[s][k].end - l->spans[s][k].start;
      total += duration;
      most = duration > most ? duration : most;
      least = duration < least ? duration : least;
    }
    assert_int_equal(times->stages[s].ops, OPS);
    assert_int_equal(times->stages[s].total, total);
    assert_int_equal(times->stages[s].min, least);
    assert_int_equal(times->stages[s].max, most);
  }
}

static void times_add_up_in_any_order(void **state) {
  (void)state;
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  for (uint64_t round = 0; round < seed_rounds(300); round++) {
    random_source_t random = {.state = seed_first() + round};
    lanes_t l;
    ovl_times_t times;
    seed_round(random.state);
    make_lanes(&l, &random);
    assert_int_equal(ovl_times_init(&times, &l.plan, l.on_device, OPS / 2, &memory), 0);
    for (int again = 0; again < 2; again++) {
      ovl_times_reset(&times);
      hear_in_any_order(&times, &l, &random);
      assert_int_equal(times.roles.hidden, with_compute(&l, true));
      assert_int_equal(times.roles.exposed, with_compute(&l, false));
      check_stages(&times, &l);
    }
    ovl_times_finish(&times, &memory);
  }
  assert_int_equal(counting_held(&allocator), 0);
}

/* One that never says anything, while another says more than there is room for: nothing is lost but exactness. */
static void a_lane_that_is_silent_holds_up_nothing(void **state) {
  (void)state;
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  random_source_t random = {.state = 1};
  lanes_t l;
  ovl_times_t times;
  make_lanes(&l, &random);
  l.descs[0].role = OVL_ROLE_COMM;
  l.descs[1].role = OVL_ROLE_COMPUTE;
  assert_int_equal(ovl_times_init(&times, &l.plan, l.on_device, 1, &memory), 0);
  for (uint64_t k = 0; k < 100; k++)
    ovl_times_add(&times, 0, 10 * k, 10 * k + 5);
  ovl_times_add(&times, 1, 0, 5); /* long ago */
  ovl_times_flush(&times);
  assert_int_equal(times.stages[0].ops, 100);
  assert_int_equal(times.roles.hidden + times.roles.exposed, 500);
  ovl_times_finish(&times, &memory);
}

/* Compute on one device, communication on another. */
static void make_two_lanes(lanes_t *l) {
  random_source_t random = {.state = 1};
  make_lanes(l, &random);
  for (uint32_t i = 0; i < LANES; i++)
    l->descs[i].role = i == 0 ? OVL_ROLE_COMPUTE : i == 1 ? OVL_ROLE_COMM : OVL_ROLE_OTHER;
}

enum { MANY = 100, LATE = 10, TICK = 64 };

/* It is put forward, and stays so. */
static void a_clock_that_began_late_loses_nothing(void **state) {
  (void)state;
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  lanes_t l;
  ovl_times_t times;
  make_two_lanes(&l);
  assert_int_equal(ovl_times_init(&times, &l.plan, l.on_device, 2, &memory), 0);
  for (uint64_t k = 0; k < MANY; k++) {
    ovl_times_add(&times, 0, 10 * k, 10 * k + 10);
    if (k >= LATE)
      ovl_times_add(&times, 1, 10 * (k - LATE), 10 * (k - LATE) + 7);
  }
  ovl_times_flush(&times);
  assert_int_equal(times.roles.hidden + times.roles.exposed, 7 * (MANY - LATE));
  assert_true(times.roles.hidden >= 7 * (MANY - 2 * LATE));
  ovl_times_finish(&times, &memory);
}

/* It is never heard of, so the others do not wait for it: what they say adds up to the nanosecond, however much it is. */
static void a_lane_of_the_host_holds_up_nothing(void **state) {
  (void)state;
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  lanes_t l;
  ovl_times_t times;
  make_two_lanes(&l);
  l.descs[2].role = OVL_ROLE_COMPUTE;
  l.on_device[2].device = NULL;
  assert_int_equal(ovl_times_init(&times, &l.plan, l.on_device, 4, &memory), 0);
  for (uint64_t k = 0; k < MANY; k++) {
    ovl_times_add(&times, 0, 10 * k, 10 * k + 5);
    if (k >= 3)
      ovl_times_add(&times, 1, 10 * (k - 3), 10 * (k - 3) + 7);
  }
  ovl_times_flush(&times);
  assert_int_equal(times.roles.hidden, 5 * (MANY - 3));
  assert_int_equal(times.roles.exposed, 2 * (MANY - 3));
  ovl_times_finish(&times, &memory);
}

/* Starts are told by a clock that ticks once in a few ops; how long each took is known better. */
static void a_coarse_clock_loses_nothing(void **state) {
  (void)state;
  counting_allocator_t allocator = {0};
  const ovl_memory_t memory = counting_memory(&allocator);
  lanes_t l;
  ovl_times_t times;
  make_two_lanes(&l);
  assert_int_equal(ovl_times_init(&times, &l.plan, l.on_device, OPS, &memory), 0);
  for (uint64_t k = 0; k < MANY; k++)
    for (uint32_t lane = 0; lane < 2; lane++) {
      uint64_t start = 10 * k - 10 * k % TICK;
      ovl_times_add(&times, lane, start, start + (lane == 0 ? 10 : 7));
    }
  ovl_times_flush(&times);
  assert_int_equal(times.roles.hidden + times.roles.exposed, 7 * MANY);
  ovl_times_finish(&times, &memory);
}

/* ---- runs ---- */

enum { N = 12, COMPUTE = 10000, COMM = 7000 };

static paper_t *paper;
static ovl_stage_t fails;

static int put(ovl_op_t *op) {
  paper_put(op, op->stage.id == 1 ? COMPUTE : COMM);
  return op->stage.id == fails.id && op->microbatch == N / 2 ? -77 : 0;
}

static int work(ovl_op_t *op) {
  (void)op;
  return 0;
}

static int set_up(void **state) {
  (void)state;
  paper = paper_make();
  paper->patience = 2;
  fails = (ovl_stage_t){0};
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  paper_free(paper);
  return 0;
}

static ovl_lane_t add_stream(ovl_pipeline_t *p, ovl_role_t role) {
  ovl_lane_options_t options = lane_options(NULL, OVL_LANE_DEVICE, 0);
  options.role = role;
  options.device = &paper->devices[0];
  options.stream = paper_stream(paper, 0);
  return add_lane_with(p, &options);
}

static ovl_pipeline_t *make(ovl_device_timing_t timing, ovl_on_error_t on_error) {
  ovl_pipeline_options_t options = pipeline_options(2);
  options.device_timing = timing;
  options.on_error = on_error;
  options.trace = 100;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_stream(p, OVL_ROLE_COMPUTE), put, NULL);
  add_stage(p, add_stream(p, OVL_ROLE_COMM), put, NULL);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 1), work, NULL);
  (void)add_stream(p, OVL_ROLE_OTHER); /* with nothing to do */
  return p;
}

static ovl_lane_stats_t lane_of(const ovl_pipeline_t *p, uint32_t lane) {
  ovl_lane_stats_t s;
  ovl_lane_stats_init(&s);
  assert_int_equal(ovl_pipeline_lane_stats(p, (ovl_lane_t){lane}, &s), 0);
  return s;
}

static ovl_stage_stats_t stage_of(const ovl_pipeline_t *p, uint32_t stage) {
  ovl_stage_stats_t s;
  ovl_stage_stats_init(&s);
  assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){stage}, &s), 0);
  return s;
}

static ovl_stats_t run(ovl_pipeline_t *p, int status) {
  ovl_stats_t s;
  ovl_stats_init(&s);
  watchdog_expect("a run on paper");
  assert_int_equal(ovl_pipeline_run(p, N), status);
  assert_int_equal(ovl_pipeline_stats(p, &s), 0);
  return s;
}

/* As theory has it: all communication but the last is hidden. Host lanes are counted as ever. */
static void the_device_says_how_long(void **state) {
  (void)state;
  ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_ALL, OVL_ON_ERROR_STOP);
  for (int again = 0; again < 2; again++) {
    ovl_stats_t s = run(p, 0);
    assert_int_equal(s.hidden_ns, (N - 1) * COMM);
    assert_int_equal(s.exposed_ns, COMM);
    assert_int_equal(s.work_ns, N * (COMPUTE + COMM) + stage_of(p, 3).total_ns);
    assert_int_equal(lane_of(p, 1).busy_ns, N * COMPUTE);
    assert_int_equal(lane_of(p, 2).busy_ns, N * COMM);
    assert_int_equal(lane_of(p, 2).timed_ops, N);
    assert_int_equal(lane_of(p, 3).timed_ops, N);
    ovl_stage_stats_t stage = stage_of(p, 1);
    assert_int_equal(stage.timed_ops, N);
    assert_true(stage.min_ns == COMPUTE && stage.max_ns == COMPUTE && stage.mean_ns == COMPUTE);
    assert_int_equal(stage_of(p, 3).timed_ops, N);
  }
  ovl_pipeline_close(p, NULL);
}

static void without_timing_it_is_not_known(void **state) {
  (void)state;
  ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_OFF, OVL_ON_ERROR_STOP);
  ovl_stats_t s = run(p, 0);
  assert_int_equal(s.hidden_ns + s.exposed_ns, 0);
  assert_int_equal(lane_of(p, 1).ops, N);
  assert_int_equal(lane_of(p, 1).busy_ns + lane_of(p, 1).timed_ops, 0);
  assert_int_equal(stage_of(p, 2).ops, N);
  assert_int_equal(stage_of(p, 2).timed_ops + stage_of(p, 2).total_ns, 0);
  assert_int_equal(paper->timing_events, 0);
  ovl_trace_record_t records[3 * N];
  ovl_trace_t trace;
  ovl_trace_init(&trace, records, 3 * N);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  assert_int_equal(trace.count, N); /* the host's */
  ovl_pipeline_close(p, NULL);
}

/* Times of the host's clock are corrected by some parts in a million. */
static void assert_about(uint64_t a, uint64_t b) { assert_in_range(a + 20, b, b + 40); }

static void traces_hold_the_times_of_the_device(void **state) {
  (void)state;
  ovl_trace_record_t records[3 * N];
  ovl_trace_t trace;
  ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_ALL, OVL_ON_ERROR_STOP);
  (void)run(p, 0);
  ovl_trace_init(&trace, records, 3 * N);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  assert_int_equal(trace.count, 3 * N);
  unsigned seen = 0;
  for (size_t i = 0; i < trace.count; i++) {
    const ovl_trace_record_t *r = &records[i];
    if (r->stage.id == 3)
      continue;
    const paper_work_t *found = paper_find(paper, 0, r->stage.id, r->microbatch);
    assert_about(r->start_ns, found->start);
    assert_about(r->end_ns, found->end);
    assert_int_equal(r->ready_ns, r->start_ns);
    assert_int_equal(r->lane.id, r->stage.id);
    assert_int_equal(r->slot, r->microbatch % 2);
    seen++;
  }
  assert_int_equal(seen, 2 * N);
  ovl_pipeline_close(p, NULL);
}

static void explanations_know_what_the_device_said(void **state) {
  (void)state;
  char text[4096];
  const char *const said[] = {"on a device, so for how long it works is not known", "as its device says"};
  for (int timing = OVL_DEVICE_TIMING_OFF; timing <= OVL_DEVICE_TIMING_ALL; timing++) {
    set_up(NULL);
    ovl_pipeline_t *p = make((ovl_device_timing_t)timing, OVL_ON_ERROR_STOP);
    assert_int_equal(ovl_pipeline_set_mode(p, OVL_SERIAL), 0);
    (void)run(p, 0);
    assert_true(ovl_pipeline_explain(p, text, sizeof text) > 0);
    assert_non_null(strstr(text, said[timing]));
    assert_null(strstr(text, said[1 - timing]));
    /* of host work so short the simulated 17 us become 10 */
    assert_true((strstr(text, "what if: OVL_OVERLAP would bring 1.") != NULL) == (timing != 0));
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

static void a_refused_start_leaves_the_times_alone(void **state) {
  (void)state;
  ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_ALL, OVL_ON_ERROR_STOP);
  (void)run(p, 0);
  paper->fail_after = 0; /* the event that times count from */
  paper->fail_with = 719;
  ovl_stats_t s = run(p, OVL_EBADRESULT);
  assert_int_equal(s.hidden_ns, (N - 1) * COMM);
  assert_int_equal(lane_of(p, 1).busy_ns, N * COMPUTE);
  ovl_pipeline_close(p, NULL);
}

/* What was skipped took no time, and is not counted. */
static void skipped_ops_are_not_timed(void **state) {
  (void)state;
  fails = (ovl_stage_t){1};
  ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_ALL, OVL_ON_ERROR_CONTINUE);
  (void)run(p, -77);
  assert_int_equal(stage_of(p, 2).timed_ops, N - 1);
  assert_int_equal(stage_of(p, 2).min_ns, COMM);
  assert_int_equal(stage_of(p, 2).skipped, 1);
  ovl_pipeline_close(p, NULL);
}

static void a_device_that_cannot_say_is_told(void **state) {
  (void)state;
  const int codes[] = {719, OVL_PENDING}; /* of what is done nothing is pending */
  for (int i = 0; i < 2; i++) {
    set_up(NULL);
    ovl_pipeline_t *p = make(OVL_DEVICE_TIMING_ALL, OVL_ON_ERROR_STOP);
    paper->elapsed_error = codes[i];
    (void)run(p, OVL_EBADRESULT);
    assert_int_equal(failure_of(p).native, i == 0 ? 719 : 0);
    ovl_pipeline_close(p, NULL);
    tear_down(NULL);
  }
}

static void timing_needs_devices_that_can(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(2);
  options.device_timing = OVL_DEVICE_TIMING_ALL;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_device_t bare = paper->devices[0];
  bare.elapsed = NULL;
  ovl_lane_options_t lane = lane_options("gpu", OVL_LANE_DEVICE, 0);
  lane.device = &bare;
  ovl_lane_t id;
  assert_int_equal(ovl_pipeline_add_lane(p, &lane, &id), OVL_EDEVICE);
  assert_non_null(strstr(ovl_pipeline_error(p), "\"gpu\""));
  ovl_pipeline_close(p, NULL);
  options.device_timing = (ovl_device_timing_t)7;
  assert_int_equal(ovl_pipeline_create(&p, &options), OVL_EOPTION);
}

int main(void) {
  seed_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_add_up_in_any_order),
      cmocka_unit_test(a_lane_that_is_silent_holds_up_nothing),
      cmocka_unit_test(a_clock_that_began_late_loses_nothing),
      cmocka_unit_test(a_lane_of_the_host_holds_up_nothing),
      cmocka_unit_test(a_coarse_clock_loses_nothing),
      cmocka_unit_test_setup_teardown(the_device_says_how_long, set_up, tear_down),
      cmocka_unit_test_setup_teardown(without_timing_it_is_not_known, set_up, tear_down),
      cmocka_unit_test_setup_teardown(traces_hold_the_times_of_the_device, set_up, tear_down),
      cmocka_unit_test(explanations_know_what_the_device_said),
      cmocka_unit_test_setup_teardown(a_refused_start_leaves_the_times_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(skipped_ops_are_not_timed, set_up, tear_down),
      cmocka_unit_test(a_device_that_cannot_say_is_told),
      cmocka_unit_test_setup_teardown(timing_needs_devices_that_can, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
