/* SPDX-License-Identifier: MIT */
/* Shows that a trace has a record of every op that ran, true to what it did, that it keeps the newest ones and says how
 * many it does not, and that it can be read at any time. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "observe/trace.h"
#include "ovl.h"
#include "support/cmocka_all.h"
#include "support/describe.h"

enum { MOST = 512 };

static ovl_trace_record_t records[MOST];

static ovl_trace_t read_trace(const ovl_pipeline_t *p, size_t capacity) {
  ovl_trace_t trace;
  memset(records, 0x5a, sizeof records);
  ovl_trace_init(&trace, records, capacity);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  return trace;
}

static ovl_pipeline_options_t traced(uint32_t window, size_t trace) {
  ovl_pipeline_options_t options = pipeline_options(window);
  options.trace = trace;
  return options;
}

static int no_op(ovl_op_t *op) {
  (void)op;
  return 0;
}

/* One stage on each of two lanes of that kind. */
static ovl_pipeline_t *two_lanes(ovl_pipeline_options_t options, ovl_lane_kind_t kind, ovl_op_cb run) {
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, kind, 1), run, NULL);
  add_stage(p, add_lane(p, kind, 1), run, NULL);
  return p;
}

static const ovl_trace_record_t *find(const ovl_trace_t *trace, uint64_t microbatch, uint32_t stage) {
  const ovl_trace_record_t *found = NULL;
  for (size_t i = 0; i < trace->count; i++)
    if (records[i].microbatch == microbatch && records[i].stage.id == stage) {
      assert_null(found); /* once */
      found = &records[i];
    }
  return found;
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

/* Every op once; an op after those it waits for, microbatches within the window, lanes one op at a time. */
static void check_rules(const ovl_trace_t *trace, uint64_t microbatches, uint32_t window) {
  assert_int_equal(trace->count, 2 * microbatches);
  for (uint64_t i = 0; i < microbatches; i++) {
    const ovl_trace_record_t *ops[2] = {find(trace, i, 1), find(trace, i, 2)};
    for (int s = 0; s < 2; s++) {
      assert_non_null(ops[s]);
      assert_true(ops[s]->ready_ns <= ops[s]->start_ns && ops[s]->start_ns <= ops[s]->end_ns);
      assert_true(ops[s]->end_ns <= trace->elapsed_ns);
      assert_int_equal(ops[s]->lane.id, s + 1);
      assert_int_equal(ops[s]->slot, i % window);
      assert_int_equal(ops[s]->place, 0);
      assert_int_equal(ops[s]->status, 0);
      assert_true(i == 0 || find(trace, i - 1, (uint32_t)s + 1)->end_ns <= ops[s]->start_ns);
    }
    assert_true(ops[0]->end_ns <= ops[1]->ready_ns);
    assert_true(i < window || find(trace, i - window, 2)->end_ns <= ops[0]->ready_ns);
  }
}

/* The same times as in the statistics, each of which is rounded by itself. */
static void check_sums(const ovl_pipeline_t *p, const ovl_trace_t *trace) {
  for (uint32_t s = 1; s <= 2; s++) {
    ovl_stage_stats_t stats;
    uint64_t sum = 0;
    ovl_stage_stats_init(&stats);
    assert_int_equal(ovl_pipeline_stage_stats(p, (ovl_stage_t){s}, &stats), 0);
    for (size_t i = 0; i < trace->count; i++)
      if (records[i].stage.id == s)
        sum += records[i].end_ns - records[i].start_ns;
    assert_true(sum + stats.ops >= stats.total_ns && sum <= stats.total_ns + stats.ops);
  }
  assert_int_equal(trace->elapsed_ns, stats_of(p).elapsed_ns);
}

static int turn_a_little(ovl_op_t *op) {
  uint64_t began = uv_hrtime();
  while (uv_hrtime() - began < 20000 * (1 + op->microbatch % 3))
    ;
  return 0;
}

static void every_op_has_a_record_that_keeps_the_rules(void **state) {
  (void)state;
  for (int serial = 0; serial < 2; serial++) {
    ovl_pipeline_t *p = two_lanes(traced(3, MOST), OVL_LANE_POOL, turn_a_little);
    ovl_pipeline_set_mode(p, serial ? OVL_SERIAL : OVL_OVERLAP);
    uint64_t before = uv_hrtime();
    assert_int_equal(ovl_pipeline_run(p, 100), 0);
    ovl_trace_t trace = read_trace(p, MOST);
    check_rules(&trace, 100, 3);
    check_sums(p, &trace);
    assert_int_equal(trace.kept, 200);
    assert_int_equal(trace.dropped, 0);
    assert_true(trace.start_ns >= before);
    ovl_pipeline_close(p, NULL);
  }
}

static void the_loops_thread_is_0_and_those_of_the_pool_are_not(void **state) {
  (void)state;
  for (ovl_lane_kind_t kind = OVL_LANE_POOL; kind <= OVL_LANE_LOOP; kind++) {
    ovl_pipeline_t *p = two_lanes(traced(2, MOST), kind, no_op);
    assert_int_equal(ovl_pipeline_run(p, 20), 0);
    ovl_trace_t trace = read_trace(p, MOST);
    assert_int_equal(trace.count, 40);
    for (size_t i = 0; i < trace.count; i++)
      assert_int_equal(records[i].thread > 0, kind == OVL_LANE_POOL);
    ovl_pipeline_close(p, NULL);
  }
}

static uv_thread_t threads[100];

static int note_thread(ovl_op_t *op) {
  threads[op->microbatch] = uv_thread_self();
  return 0;
}

static void ops_of_one_thread_have_one_number_and_no_others_have_it(void **state) {
  (void)state;
  ovl_pipeline_options_t options = traced(8, MOST);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_POOL, 3), note_thread, NULL);
  assert_int_equal(ovl_pipeline_run(p, 100), 0);
  ovl_trace_t trace = read_trace(p, MOST);
  for (size_t i = 0; i < trace.count; i++)
    for (size_t k = 0; k < i; k++) {
      bool same = uv_thread_equal(&threads[records[i].microbatch], &threads[records[k].microbatch]);
      assert_int_equal(records[i].thread == records[k].thread, same);
    }
  ovl_pipeline_close(p, NULL);
}

static ovl_op_t *staying[3];

static int stay_all(ovl_op_t *op) {
  staying[op->microbatch] = op;
  for (int i = 0; op->microbatch == 2 && i < 3; i++)
    ovl_op_complete(staying[i], 0);
  return OVL_PENDING;
}

static void ops_that_run_together_have_different_places(void **state) {
  (void)state;
  ovl_pipeline_options_t options = traced(3, MOST);
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 3), stay_all, NULL);
  assert_int_equal(ovl_pipeline_run(p, 3), 0);
  ovl_trace_t trace = read_trace(p, MOST);
  assert_int_equal(trace.count, 3);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(find(&trace, i, 1)->place, i);
  ovl_pipeline_close(p, NULL);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static int fail_the_third(ovl_op_t *op) { return op->microbatch == 2 ? -77 : 0; }

static void a_failed_op_says_why_and_a_skipped_one_is_not_there(void **state) {
  (void)state;
  ovl_pipeline_options_t options = traced(2, MOST);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  ovl_pipeline_t *p = two_lanes(options, OVL_LANE_POOL, fail_the_third);
  assert_int_equal(ovl_pipeline_run(p, 5), -77);
  ovl_trace_t trace = read_trace(p, MOST);
  assert_int_equal(trace.count, 9);
  for (size_t i = 0; i < trace.count; i++)
    assert_int_equal(records[i].status, records[i].microbatch == 2 ? -77 : 0);
  assert_null(find(&trace, 2, 2));
  ovl_pipeline_close(p, NULL);
}

static int stay_at_first(ovl_op_t *op) { return op->microbatch == 0 ? OVL_PENDING : 0; }

static int complete(ovl_op_t *op) { return ovl_op_complete(op, 0); }

static void an_op_that_outlived_its_deadline_says_so_once(void **state) {
  (void)state;
  ovl_pipeline_options_t options = traced(1, MOST);
  options.on_error = OVL_ON_ERROR_CONTINUE;
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_lane_t lane = add_lane(p, OVL_LANE_LOOP, 1);
  ovl_stage_options_t stage = stage_options(lane, stay_at_first, NULL);
  stage.cancel = complete;
  stage.timeout_ns = 1000000;
  add_stage_with(p, &stage);
  stage = stage_options(lane, no_op, NULL);
  stage.always = 1;
  add_stage_with(p, &stage);
  assert_int_equal(ovl_pipeline_run(p, 2), OVL_ETIMEDOUT);
  ovl_trace_t trace = read_trace(p, MOST);
  assert_int_equal(trace.count, 4);
  for (size_t i = 0; i < trace.count; i++)
    assert_int_equal(records[i].status,
                     records[i].stage.id == 1 && records[i].microbatch == 0 ? OVL_ETIMEDOUT : 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- how many ---------------------------------------------------------------------------------------------------- */

static ovl_pipeline_t *one_lane(ovl_pipeline_options_t options, ovl_op_cb run) {
  ovl_pipeline_t *p = make_pipeline(&options);
  add_stage(p, add_lane(p, OVL_LANE_LOOP, 1), run, NULL);
  return p;
}

/* The last `count` of those up to `microbatches`, in their order. */
static void assert_newest(const ovl_trace_t *trace, size_t count, uint64_t microbatches) {
  assert_int_equal(trace->count, count);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(records[i].microbatch, microbatches - count + i);
}

static void the_newest_are_kept_and_the_others_counted(void **state) {
  (void)state;
  for (size_t kept = 1; kept <= 7; kept++) {
    ovl_pipeline_t *p = one_lane(traced(2, kept), no_op);
    for (uint64_t n = 0; n <= 16; n++) {
      size_t expected = n < kept ? (size_t)n : kept;
      assert_int_equal(ovl_pipeline_run(p, n), 0);
      for (size_t room = 0; room <= 8; room++) {
        ovl_trace_t trace = read_trace(p, room);
        assert_newest(&trace, room < expected ? room : expected, n);
        assert_int_equal(trace.kept, expected);
        assert_int_equal(trace.dropped, n - expected);
      }
    }
    ovl_pipeline_close(p, NULL);
  }
}

static void without_a_wish_there_is_none(void **state) {
  (void)state;
  ovl_pipeline_t *p = one_lane(pipeline_options(2), no_op);
  assert_int_equal(ovl_pipeline_run(p, 5), 0);
  ovl_trace_t trace = read_trace(p, MOST);
  assert_int_equal(trace.count + trace.kept, 0);
  ovl_pipeline_close(p, NULL);
}

static void before_the_first_run_there_is_none(void **state) {
  (void)state;
  ovl_pipeline_t *p = one_lane(traced(2, 5), no_op);
  ovl_trace_t trace = read_trace(p, MOST);
  assert_int_equal(trace.count + trace.kept + trace.dropped + trace.start_ns + trace.elapsed_ns, 0);
  ovl_pipeline_close(p, NULL);
}

/* ---- while a run goes on ----------------------------------------------------------------------------------------- */

/* Ops of one lane, one at a time: each sees those before it. */
static int read_from_inside(ovl_op_t *op) {
  ovl_trace_t trace = read_trace(op->pipeline, MOST);
  uint64_t kept = op->microbatch < 100 ? op->microbatch : 100;
  bool right = trace.count == kept && trace.kept == kept && trace.dropped == op->microbatch - kept;
  for (size_t i = 0; right && i < trace.count; i++)
    right = records[i].microbatch == op->microbatch - kept + i;
  return right ? 0 : -1;
}

static void an_op_sees_those_before_it(void **state) {
  (void)state;
  ovl_pipeline_t *p = one_lane(traced(2, 100), read_from_inside);
  assert_int_equal(ovl_pipeline_run(p, 300), 0);
  ovl_pipeline_close(p, NULL);
}

typedef struct reader {
  ovl_pipeline_t *p;
  atomic_int stop, wrong, looks;
} reader_t;

static reader_t reader;

static int wait_for_the_reader(ovl_op_t *op) {
  while (op->microbatch == 0 && atomic_load(&reader.looks) == 0)
    uv_sleep(1);
  return 0;
}

/* Runs follow on each other meanwhile: what is read is of one of them, without a gap but where it was overtaken. */
static void read_again_and_again(void *argument) {
  reader_t *r = argument;
  static ovl_trace_record_t read[MOST];
  while (!atomic_load(&r->stop)) {
    ovl_trace_t trace;
    ovl_trace_init(&trace, read, MOST);
    bool right = ovl_pipeline_trace(r->p, &trace) == 0 && trace.count <= trace.kept && trace.kept <= 200;
    for (size_t i = 1; right && i < trace.count; i++)
      right = read[i].microbatch > read[i - 1].microbatch && read[i].start_ns >= read[i - 1].end_ns;
    if (!right)
      atomic_fetch_add(&r->wrong, 1);
    atomic_fetch_add(&r->looks, 1);
  }
}

static void another_thread_may_read_at_any_time(void **state) {
  (void)state;
  uv_thread_t thread;
  ovl_pipeline_options_t options = traced(4, 200);
  reader.p = make_pipeline(&options);
  add_stage(reader.p, add_lane(reader.p, OVL_LANE_POOL, 1), wait_for_the_reader, NULL);
  assert_int_equal(uv_thread_create(&thread, read_again_and_again, &reader), 0);
  for (uint64_t n = 100; n <= 3000; n += 100)
    assert_int_equal(ovl_pipeline_run(reader.p, n), 0);
  atomic_store(&reader.stop, 1);
  uv_thread_join(&thread);
  assert_int_equal(atomic_load(&reader.wrong), 0);
  ovl_pipeline_close(reader.p, NULL);
}

/* A ring that goes on while it is copied; records say their number as microbatch. */
static void go_on(ovl_core_t *core, uint64_t count) {
  for (; count > 0; count--) {
    uint64_t number = core->trace.written;
    *ovl_trace_ring_next(&core->trace) = (ovl_trace_record_t){.microbatch = number};
  }
}

enum { IN_RING = 200 };

static size_t copy_while(uint64_t more, bool next_run) {
  static ovl_trace_record_t ring[IN_RING];
  ovl_core_t core = {.trace = {.records = ring, .capacity = IN_RING}};
  ovl_trace_t trace;
  ovl_trace_copy_t copy;
  ovl_trace_init(&trace, records, MOST);
  go_on(&core, 300);
  ovl_trace_copy_begin(&copy, &core, 0, 1.0, &trace);
  assert_true(ovl_trace_copy_some(&copy, &core, &trace));
  if (next_run)
    core.trace.first = core.trace.written;
  go_on(&core, more);
  while (ovl_trace_copy_some(&copy, &core, &trace))
    ;
  assert_int_equal(trace.kept, IN_RING);
  assert_int_equal(trace.dropped, 100);
  return trace.count;
}

static void a_copy_that_is_overtaken_leaves_out_what_is_gone(void **state) {
  (void)state;
  assert_int_equal(copy_while(0, false), IN_RING);
  size_t part = copy_while(IN_RING, false); /* all but what was copied first is gone */
  assert_true(part > 0 && part < IN_RING);
  assert_int_equal(copy_while(part, false), IN_RING);
  assert_int_equal(copy_while(part + 1, false), IN_RING - 1);
  assert_int_equal(records[part - 1].microbatch, 100 + part - 1);
  assert_int_equal(records[part].microbatch, 100 + part + 1);
}

static void a_copy_ends_with_its_run(void **state) {
  (void)state;
  size_t part = copy_while(IN_RING, false);
  assert_int_equal(copy_while(0, true), part);
  assert_int_equal(copy_while(10, true), part);
}

/* ---- simulations ------------------------------------------------------------------------------------------------- */

static ovl_pipeline_t *hinted(uint64_t first, uint64_t second) {
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_pipeline_t *p = make_pipeline(&options);
  ovl_stage_options_t stage = stage_options(add_lane(p, OVL_LANE_POOL, 1), no_op, NULL);
  stage.cost_ns = first;
  add_stage_with(p, &stage);
  stage.lane = add_lane(p, OVL_LANE_POOL, 1);
  stage.cost_ns = second;
  add_stage_with(p, &stage);
  return p;
}

static ovl_trace_t simulate(ovl_pipeline_t *p, uint64_t microbatches, size_t capacity) {
  ovl_trace_t trace;
  ovl_simulation_t simulation;
  ovl_trace_init(&trace, records, capacity);
  ovl_simulation_init(&simulation);
  simulation.trace = &trace;
  assert_int_equal(ovl_pipeline_simulate(p, microbatches, &simulation, NULL), 0);
  return trace;
}

static void a_simulation_is_traced_to_the_nanosecond(void **state) {
  (void)state;
  ovl_pipeline_t *p = hinted(5, 3);
  ovl_trace_t trace = simulate(p, 4, MOST);
  assert_int_equal(trace.elapsed_ns, 23);
  assert_int_equal(trace.start_ns, 0);
  check_rules(&trace, 4, 4);
  for (uint64_t i = 0; i < 4; i++) {
    const ovl_trace_record_t *a = find(&trace, i, 1), *b = find(&trace, i, 2);
    assert_true(a->ready_ns == 0 && a->start_ns == 5 * i && a->end_ns == 5 * i + 5);
    assert_true(b->ready_ns == a->end_ns && b->start_ns == a->end_ns && b->end_ns == a->end_ns + 3);
    assert_int_equal(a->thread + b->thread, 0);
  }
  for (size_t i = 1; i < trace.count; i++)
    assert_true(records[i - 1].end_ns <= records[i].end_ns);
  assert_int_equal(read_trace(p, MOST).kept, 0); /* of the pipeline's own there is nothing */
  ovl_pipeline_close(p, NULL);
}

static void of_a_long_simulation_the_newest_are_kept(void **state) {
  (void)state;
  ovl_pipeline_t *p = hinted(1, 1);
  ovl_trace_t trace = simulate(p, 1000, 3);
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.kept, 3);
  assert_int_equal(trace.dropped, 1997);
  assert_int_equal(records[2].microbatch, 999);
  assert_int_equal(records[2].end_ns, 1001);
  assert_int_equal(simulate(p, 0, 3).kept, 0);
  assert_int_equal(simulate(p, 2, MOST).kept, 4);
  ovl_pipeline_close(p, NULL);
}

/* ---- what callers may hand over ---------------------------------------------------------------------------------- */

typedef struct longer_record {
  ovl_trace_record_t record;
  uint64_t unknown[2];
} longer_record_t;

static void longer_records_of_a_later_caller_are_filled_up_with_zeros(void **state) {
  (void)state;
  longer_record_t longer[4];
  ovl_trace_t trace;
  memset(longer, 0x5a, sizeof longer);
  ovl_trace_init(&trace, &longer[0].record, 3);
  trace.record_size = sizeof longer[0];
  ovl_pipeline_t *p = one_lane(traced(2, 100), no_op);
  assert_int_equal(ovl_pipeline_run(p, 5), 0);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  for (uint64_t i = 0; i < 3; i++) {
    assert_int_equal(longer[i].record.microbatch, 2 + i);
    assert_int_equal(longer[i].unknown[0] | longer[i].unknown[1], 0);
  }
  assert_int_equal(longer[3].unknown[0], UINT64_C(0x5a5a5a5a5a5a5a5a));
  ovl_pipeline_close(p, NULL);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = one_lane(traced(2, 5), no_op);
  ovl_trace_t trace;
  ovl_trace_init(&trace, records, 5);
  assert_int_equal(ovl_pipeline_trace(NULL, &trace), OVL_EINVAL);
  assert_int_equal(ovl_pipeline_trace(p, NULL), OVL_EINVAL);
  ovl_trace_init(&trace, NULL, 5);
  assert_int_equal(ovl_pipeline_trace(p, &trace), OVL_EINVAL);
  ovl_simulation_t simulation;
  ovl_simulation_init(&simulation);
  simulation.trace = &trace;
  assert_int_equal(ovl_pipeline_simulate(p, 2, &simulation, NULL), OVL_EINVAL);
  assert_non_null(strstr(ovl_pipeline_error(p), "trace"));
  ovl_trace_init(&trace, NULL, 0);
  assert_int_equal(ovl_pipeline_trace(p, &trace), 0);
  static const size_t sizes[] = {0, sizeof(ovl_trace_record_t) - 8, sizeof(ovl_trace_record_t) + 1, 4104};
  for (int i = 0; i < 4; i++) {
    ovl_trace_init(&trace, records, 5);
    trace.record_size = sizes[i];
    assert_int_equal(ovl_pipeline_trace(p, &trace), OVL_ESTRUCTSIZE);
  }
  ovl_trace_init(&trace, records, 5);
  trace.size = 0;
  assert_int_equal(ovl_pipeline_trace(p, &trace), OVL_ESTRUCTSIZE);
  ovl_pipeline_close(p, NULL);
}

/* More than any machine has. */
static void a_trace_that_memory_does_not_suffice_for_is_refused_at_the_start(void **state) {
  (void)state;
  ovl_pipeline_t *p = one_lane(traced(2, SIZE_MAX / 2), no_op);
  assert_int_equal(ovl_pipeline_run(p, 2), OVL_ENOMEM);
  ovl_pipeline_close(p, NULL);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef int (*writer_t)(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count,
                        ovl_write_cb write, void *context);

static const writer_t writers[] = {ovl_pipeline_trace_write, ovl_pipeline_trace_svg};

typedef struct sink {
  size_t calls, fail_at; /* the n-th call fails; 0: none does */
} sink_t;

static int count_write(void *context, const char *bytes, size_t count) {
  sink_t *sink = context;
  assert_true(bytes != NULL && count > 0);
  return ++sink->calls == sink->fail_at ? -55 : 0;
}

static void a_write_that_fails_is_the_last_one(void **state) {
  (void)state;
  ovl_pipeline_t *p = hinted(5, 3);
  const ovl_trace_t trace = simulate(p, 50, MOST);
  ovl_trace_view_t view;
  ovl_trace_view_init(&view);
  view.trace = &trace;
  for (int w = 0; w < 2; w++) {
    sink_t all = {0};
    assert_int_equal(writers[w](p, &view, 1, count_write, &all), 0);
    assert_true(all.calls > 1);
    for (size_t n = 1; n <= all.calls; n++) {
      sink_t sink = {.fail_at = n};
      assert_int_equal(writers[w](p, &view, 1, count_write, &sink), -55);
      assert_int_equal(sink.calls, n);
    }
  }
  ovl_pipeline_close(p, NULL);
}

static void a_file_that_is_full_says_so(void **state) {
  (void)state;
  FILE *full = fopen("/dev/full", "w");
  if (full == NULL)
    skip();
  setvbuf(full, NULL, _IONBF, 0);
  assert_int_equal(ovl_write_to_file(full, "text", 4), -ENOSPC);
  fclose(full);
}

static void assert_refused(const ovl_pipeline_t *p, const ovl_trace_view_t *views, size_t count, int status) {
  sink_t sink = {0};
  for (int w = 0; w < 2; w++)
    assert_int_equal(writers[w](p, views, count, count_write, &sink), status);
  assert_int_equal(sink.calls, 0);
}

static void what_cannot_be_written_is_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = hinted(5, 3);
  ovl_trace_t trace = simulate(p, 4, MOST);
  ovl_trace_view_t views[2];
  for (int i = 0; i < 2; i++) {
    ovl_trace_view_init(&views[i]);
    views[i].trace = &trace;
  }
  for (int w = 0; w < 2; w++)
    assert_int_equal(writers[w](p, views, 2, NULL, NULL), OVL_EINVAL);
  assert_refused(NULL, views, 2, OVL_EINVAL);
  assert_refused(p, NULL, 1, OVL_EINVAL);
  trace.record_size = 3;
  assert_refused(p, views, 2, OVL_ESTRUCTSIZE);
  trace.record_size = sizeof records[0];
  trace.count = MOST + 1;
  assert_refused(p, views, 2, OVL_EINVAL);
  trace.count = 8;
  views[1].size = 0;
  assert_refused(p, views, 2, OVL_ESTRUCTSIZE);
  ovl_pipeline_close(p, NULL);
}

/* Records of another pipeline, or of none. */
static void records_that_do_not_fit_are_refused(void **state) {
  (void)state;
  ovl_pipeline_t *p = hinted(5, 3);
  ovl_trace_view_t view;
  const ovl_trace_t trace = simulate(p, 4, MOST);
  const ovl_trace_record_t right = records[7];
  ovl_trace_view_init(&view);
  view.trace = &trace;
  ovl_trace_record_t wrong[6] = {right, right, right, right, right, right};
  wrong[0].stage.id = 0;
  wrong[1].stage.id = 3;
  wrong[2].lane.id = 1;
  wrong[3].lane.id = 0;
  wrong[4].place = 1;
  wrong[5].start_ns = right.end_ns + 1;
  for (int i = 0; i < 6; i++) {
    records[7] = wrong[i];
    assert_refused(p, &view, 1, OVL_EINVAL);
  }
  ovl_pipeline_close(p, NULL);
}

/* ---- percentiles ------------------------------------------------------------------------------------------------- */

static uint64_t percentile(const ovl_trace_t *trace, double percent) {
  uint64_t ns = 0;
  assert_int_equal(ovl_trace_percentile(trace, (ovl_stage_t){1}, percent, &ns), 0);
  return ns;
}

/* Durations of 1 to `count`, not in order, among those of another stage. */
static ovl_trace_t made_up(size_t count) {
  ovl_trace_t trace;
  ovl_trace_init(&trace, records, MOST);
  for (size_t i = 0; i < count; i++) {
    records[2 * i] = (ovl_trace_record_t){.stage = {2}, .start_ns = 3, .end_ns = 1000000};
    records[2 * i + 1] =
        (ovl_trace_record_t){.stage = {1}, .start_ns = 7 * i, .end_ns = 7 * i + 1 + (i * 37) % count};
  }
  trace.count = 2 * count;
  return trace;
}

static void a_percentile_is_the_least_that_so_many_do_not_exceed(void **state) {
  (void)state;
  ovl_trace_t trace = made_up(100);
  for (int percent = 1; percent <= 100; percent++)
    assert_int_equal(percentile(&trace, percent), percent);
  assert_int_equal(percentile(&trace, 0), 1);
  assert_int_equal(percentile(&trace, 0.001), 1);
  assert_int_equal(percentile(&trace, 49.5), 50);
  assert_int_equal(percentile(&trace, 99.9), 100);
  trace = made_up(10);
  assert_int_equal(percentile(&trace, 50), 5);
  assert_int_equal(percentile(&trace, 51), 6);
  assert_int_equal(percentile(&trace, 99), 10);
  trace = made_up(1);
  for (int percent = 0; percent <= 100; percent += 25)
    assert_int_equal(percentile(&trace, percent), 1);
}

static void a_percentile_of_nothing_is_refused(void **state) {
  (void)state;
  ovl_trace_t trace = made_up(3);
  uint64_t ns;
  const ovl_stage_t stage = {1};
  assert_int_equal(ovl_trace_percentile(NULL, stage, 50, &ns), OVL_EINVAL);
  assert_int_equal(ovl_trace_percentile(&trace, stage, 50, NULL), OVL_EINVAL);
  assert_int_equal(ovl_trace_percentile(&trace, stage, -0.5, &ns), OVL_EINVAL);
  assert_int_equal(ovl_trace_percentile(&trace, stage, 100.5, &ns), OVL_EINVAL);
  assert_int_equal(ovl_trace_percentile(&trace, stage, (double)NAN, &ns), OVL_EINVAL);
  assert_int_equal(ovl_trace_percentile(&trace, (ovl_stage_t){3}, 50, &ns), OVL_ENOSTAGE);
  trace.count = MOST + 1;
  assert_int_equal(ovl_trace_percentile(&trace, stage, 50, &ns), OVL_EINVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_has_a_record_that_keeps_the_rules),
      cmocka_unit_test(the_loops_thread_is_0_and_those_of_the_pool_are_not),
      cmocka_unit_test(ops_of_one_thread_have_one_number_and_no_others_have_it),
      cmocka_unit_test(ops_that_run_together_have_different_places),
      cmocka_unit_test(a_failed_op_says_why_and_a_skipped_one_is_not_there),
      cmocka_unit_test(an_op_that_outlived_its_deadline_says_so_once),
      cmocka_unit_test(the_newest_are_kept_and_the_others_counted),
      cmocka_unit_test(without_a_wish_there_is_none),
      cmocka_unit_test(before_the_first_run_there_is_none),
      cmocka_unit_test(an_op_sees_those_before_it),
      cmocka_unit_test(another_thread_may_read_at_any_time),
      cmocka_unit_test(a_copy_that_is_overtaken_leaves_out_what_is_gone),
      cmocka_unit_test(a_copy_ends_with_its_run),
      cmocka_unit_test(a_simulation_is_traced_to_the_nanosecond),
      cmocka_unit_test(of_a_long_simulation_the_newest_are_kept),
      cmocka_unit_test(longer_records_of_a_later_caller_are_filled_up_with_zeros),
      cmocka_unit_test(what_makes_no_sense_is_refused),
      cmocka_unit_test(a_trace_that_memory_does_not_suffice_for_is_refused_at_the_start),
      cmocka_unit_test(a_write_that_fails_is_the_last_one),
      cmocka_unit_test(a_file_that_is_full_says_so),
      cmocka_unit_test(what_cannot_be_written_is_refused),
      cmocka_unit_test(records_that_do_not_fit_are_refused),
      cmocka_unit_test(a_percentile_is_the_least_that_so_many_do_not_exceed),
      cmocka_unit_test(a_percentile_of_nothing_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
