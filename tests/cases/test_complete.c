/* SPDX-License-Identifier: MIT */
/* Case 14: an op that is completed twice, before its callback has returned, inline by another thread, or when it
 * is none to be completed: its successor starts once, after the callback has returned, and every call but the
 * first is refused. */
#include <stdatomic.h>
#include <string.h>

#include "support/probe.h"

enum { MOST = 8 }; /* microbatches */

/* ---- two stages, of which the first is completed in odd ways --------------------------------------------- */

typedef struct scene scene_t;

/* What the first stage's callback does with its op, and what that comes to. */
typedef struct way {
  const char *name;
  int (*act)(scene_t *scene, ovl_op_t *op);
  int status;
} way_t;

struct scene {
  const way_t *way;
  uint64_t odd; /* the microbatch that is treated so; the others just end */
  ovl_op_t *first[MOST];
  atomic_bool returned[MOST]; /* its first callback is about to return */
  atomic_int seconds[MOST];   /* how often the second stage ran */
  atomic_int too_early;       /* it started while the first callback was running */
  atomic_int unexpected;      /* a call had another result than it should */
};

static void expect(scene_t *scene, int result, int wanted) {
  if (result != wanted)
    atomic_fetch_add(&scene->unexpected, 1);
}

/* Long enough for a successor that is let go too early to be seen. */
static void dawdle(void) { uv_sleep(2); }

static int run_first(ovl_op_t *op) {
  scene_t *scene = op->data;
  int result = 0;
  scene->first[op->microbatch] = op;
  if (op->microbatch == scene->odd)
    result = scene->way->act(scene, op);
  atomic_store(&scene->returned[op->microbatch], true);
  return result;
}

static int run_second(ovl_op_t *op) {
  scene_t *scene = op->data;
  if (!atomic_load(&scene->returned[op->microbatch]))
    atomic_fetch_add(&scene->too_early, 1);
  atomic_fetch_add(&scene->seconds[op->microbatch], 1);
  expect(scene, ovl_op_complete(scene->first[op->microbatch], 0),
         OVL_EALREADY); /* its slot is not reused yet */
  expect(scene, ovl_op_complete(scene->first[op->microbatch], -1), OVL_EALREADY);
  return 0;
}

/* ---- the odd ways -------------------------------------------------------------------------------------------- */

static int complete_once(scene_t *scene, ovl_op_t *op, int status) {
  expect(scene, ovl_op_complete(op, status), 0);
  dawdle();
  return OVL_PENDING;
}

static int complete_then_pending(scene_t *scene, ovl_op_t *op) { return complete_once(scene, op, 0); }

static int complete_then_zero(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, 0);
  return 0;
}

static int complete_then_error(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, 0);
  return -7;
}

static int error_then_pending(scene_t *scene, ovl_op_t *op) { return complete_once(scene, op, -8); }

static int error_then_zero(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, -8);
  return 0;
}

static int error_then_error(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, -8);
  return -7;
}

static int code_then_error(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, 35);
  return -7;
}

static int complete_twice(scene_t *scene, ovl_op_t *op) {
  complete_once(scene, op, 0);
  expect(scene, ovl_op_complete(op, 0), OVL_EALREADY);
  expect(scene, ovl_op_complete(op, -9), OVL_EALREADY);
  return OVL_PENDING;
}

static int return_alone(scene_t *scene, ovl_op_t *op) {
  (void)scene;
  (void)op;
  return 0;
}

static void complete_on_a_thread(void *op) {
  ovl_op_t *pub = op;
  scene_t *scene = pub->data;
  expect(scene, ovl_op_complete(pub, 0), 0);
  expect(scene, ovl_op_complete(pub, -9), OVL_EALREADY);
}

static int thread_completes_inline(scene_t *scene, ovl_op_t *op) {
  uv_thread_t thread;
  expect(scene, uv_thread_create(&thread, complete_on_a_thread, op), 0);
  expect(scene, uv_thread_join(&thread), 0);
  dawdle();
  return OVL_PENDING;
}

static int refused_then_complete(scene_t *scene, ovl_op_t *op) {
  expect(scene, ovl_op_complete(op, OVL_PENDING), OVL_EINVAL);
  expect(scene, ovl_op_complete(NULL, 0), OVL_EINVAL);
  return complete_once(scene, op, 0);
}

static const way_t ways[] = {
    {"complete, PENDING", complete_then_pending, 0},
    {"complete, 0", complete_then_zero, 0},
    {"complete, error", complete_then_error, -7},
    {"error, PENDING", error_then_pending, -8},
    {"error, 0", error_then_zero, -8},
    {"error, error", error_then_error, -8},
    {"code, error", code_then_error, OVL_EBADRESULT},
    {"twice", complete_twice, 0},
    {"returned", return_alone, 0},
    {"another thread, inline", thread_completes_inline, 0},
    {"refused, complete", refused_then_complete, 0},
};

/* ---- running them ------------------------------------------------------------------------------------------------ */

static void add(ovl_pipeline_t *p, scene_t *scene, ovl_lane_kind_t kind, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.kind = kind;
  lane.width = 2;
  stage.run = run;
  stage.data = scene;
  assert_int_equal(ovl_pipeline_add_lane(p, &lane, &stage.lane), 0);
  assert_int_equal(ovl_pipeline_add_stage(p, &stage, NULL), 0);
}

static ovl_pipeline_t *describe(scene_t *scene, uint32_t kinds, uint32_t window) {
  ovl_pipeline_options_t options;
  ovl_pipeline_t *p;
  ovl_pipeline_options_init(&options);
  options.window = window;
  assert_int_equal(ovl_pipeline_create(&p, &options), 0);
  add(p, scene, (kinds & 1) != 0 ? OVL_LANE_LOOP : OVL_LANE_POOL, run_first);
  add(p, scene, (kinds & 2) != 0 ? OVL_LANE_LOOP : OVL_LANE_POOL, run_second);
  return p;
}

static void run_way(const way_t *way, uint32_t kinds, uint64_t odd) {
  static scene_t scene;
  memset(&scene, 0, sizeof scene);
  scene.way = way;
  scene.odd = odd;
  ovl_pipeline_t *p = describe(&scene, kinds, 1 + (uint32_t)odd);
  int status = ovl_pipeline_run(p, 3);
  if (status != way->status || atomic_load(&scene.unexpected) != 0 || atomic_load(&scene.too_early) != 0)
    fail_msg("%s, kinds %u, microbatch %u: status %d, %d unexpected results, %d successors too early",
             way->name, (unsigned)kinds, (unsigned)odd, status, scene.unexpected, scene.too_early);
  for (uint64_t i = 0; i < 3; i++)
    assert_true(scene.seconds[i] == (i == odd && way->status != 0 ? 0 : 1) || (way->status != 0 && i != odd));
  ovl_pipeline_close(p, NULL);
}

static void case_14_completed_in_the_callback(void **state) {
  (void)state;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
    for (uint32_t kinds = 0; kinds < 4; kinds++)
      run_way(&ways[way], kinds, (way + kinds) % 3);
}

/* ---- many threads, one op ------------------------------------------------------------------------------------------- */

enum { RACERS = 4, RACES = 30 };

typedef struct racer {
  uv_barrier_t *barrier;
  ovl_op_t *op;
  int status, result;
  uv_thread_t thread;
} racer_t;

static void race(void *argument) {
  racer_t *racer = argument;
  uv_barrier_wait(racer->barrier);
  racer->result = ovl_op_complete(racer->op, racer->status);
}

/* Each says something else; the one that was accepted is the one that counts. 0 when all are as they should be. */
static int race_for(ovl_op_t *op, int *winner) {
  uv_barrier_t barrier;
  racer_t racers[RACERS];
  int accepted = 0, refused = 0;
  assert_int_equal(uv_barrier_init(&barrier, RACERS), 0);
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (racer_t){.barrier = &barrier, .op = op, .status = -100 - i};
    assert_int_equal(uv_thread_create(&racers[i].thread, race, &racers[i]), 0);
  }
  for (int i = 0; i < RACERS; i++) {
    assert_int_equal(uv_thread_join(&racers[i].thread), 0);
    accepted += racers[i].result == 0;
    refused += racers[i].result == OVL_EALREADY;
    if (racers[i].result == 0)
      *winner = racers[i].status;
  }
  uv_barrier_destroy(&barrier);
  assert_int_equal(accepted, 1);
  return refused - (RACERS - 1);
}

static void race_in_each_run(probe_way_t way) {
  const probe_options_t options = {.stage_count = 2,
                                   .stages = {{.way = way}, {.way = PROBE_POOL, .always = true}},
                                   .window = 2,
                                   .no_on_microbatch = true};
  probe_t *probe = probe_open(&options);
  for (int i = 0; i < RACES; i++) {
    int winner = 0;
    probe_start(probe, 1);
    probe_turn_until(probe, PROBE_STARTS, 1);
    assert_int_equal(race_for(probe_take(probe, 0, 0), &winner), 0);
    assert_int_equal(uv_run(probe->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(probe_nth(probe, PROBE_DONE, 0)->status, winner);
    assert_int_equal(probe->counts[PROBE_STARTS], 2);
    assert_int_equal(probe_find(probe, PROBE_STARTS, 1, 0)->status, winner);
  }
  probe_close(probe);
}

static void case_14_completed_by_several_threads_at_once(void **state) {
  (void)state;
  race_in_each_run(PROBE_POOL_HELD);
  race_in_each_run(PROBE_LOOP_HELD);
}

/* ---- ops that are not on their way ------------------------------------------------------------------------------------ */

/* Keeps the second stage's op of the first microbatch; with a window of 1 the next has its op in the same place. */
typedef struct keeper {
  ovl_op_t *kept;
  int results[MOST];
  int seconds;
} keeper_t;

static int complete_kept(ovl_op_t *op) {
  keeper_t *keeper = op->data;
  if (keeper->kept != NULL)
    keeper->results[op->microbatch] = ovl_op_complete(keeper->kept, -6);
  return 0;
}

static int keep(ovl_op_t *op) {
  keeper_t *keeper = op->data;
  keeper->kept = op;
  keeper->seconds++;
  return 0;
}

/* The second stage's op waits for the first's (chained), or is ready behind it in the lane (unchained). */
static void complete_what_has_not_started(ovl_lane_kind_t kind, int unchained) {
  keeper_t keeper = {0};
  ovl_pipeline_options_t options;
  ovl_pipeline_t *p;
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_pipeline_options_init(&options);
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  options.window = 1;
  lane.kind = kind;
  stage.data = &keeper;
  stage.run = complete_kept;
  assert_int_equal(ovl_pipeline_create(&p, &options), 0);
  assert_int_equal(ovl_pipeline_add_lane(p, &lane, &stage.lane), 0);
  assert_int_equal(ovl_pipeline_add_stage(p, &stage, NULL), 0);
  stage.run = keep;
  stage.unchained = unchained;
  assert_int_equal(ovl_pipeline_add_stage(p, &stage, NULL), 0);
  assert_int_equal(ovl_pipeline_run(p, 4), 0);
  for (int i = 1; i < 4; i++)
    assert_int_equal(keeper.results[i], OVL_EINVAL);
  assert_int_equal(keeper.seconds, 4);
  ovl_pipeline_close(p, NULL);
}

static void case_14_an_op_that_has_not_started_cannot_be_completed(void **state) {
  (void)state;
  for (int unchained = 0; unchained < 2; unchained++) {
    complete_what_has_not_started(OVL_LANE_POOL, unchained);
    complete_what_has_not_started(OVL_LANE_LOOP, unchained);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_14_completed_in_the_callback),
      cmocka_unit_test(case_14_completed_by_several_threads_at_once),
      cmocka_unit_test(case_14_an_op_that_has_not_started_cannot_be_completed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
