/* SPDX-License-Identifier: MIT */
/* Case 26: a slot's buffer is poisoned when its microbatch retires, and checked by every stage of the next one: no
 * stage ever sees another microbatch's data. No lock protects the buffers, so a sanitizer sees it, too, if two ops
 * of a slot are not ordered. [SGLang 26380] */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/scale.h"
#include "support/watchdog.h"

#define POOL OVL_LANE_POOL
#define LOOP OVL_LANE_LOOP

enum { STAGES = 4, WORDS = 32, WINDOW_MOST = 16 };

static const uint64_t POISON = UINT64_C(0xdeadbeefdeadbeef);

typedef enum way { INLINE, EARLY, FOREIGN, POLLED } way_t;

typedef struct shape {
  const char *name;
  ovl_lane_kind_t kinds[STAGES];
  way_t ways[STAGES];
  uint32_t width;
  ovl_mode_t mode;
  bool reported;       /* poisoned by on_microbatch, else by the last stage */
  uint64_t fail_every; /* microbatches; 0: none fails */
  uint64_t cancel_at;  /* 0: not cancelled */
} shape_t;

typedef struct slots {
  const shape_t *shape;
  uint64_t words[WINDOW_MOST][WORDS]; /* by slot */
  foreign_t foreign;
  struct {
    ovl_op_t *ops[WINDOW_MOST]; /* by slot; no lock: `run` and poll of a lane never overlap */
  } polled[STAGES];
} slots_t;

static slots_t slots; /* one run at a time */

/* What a stage leaves in its slot. Stage 0 is the state before the first. */
static uint64_t word_of(uint64_t microbatch, uint32_t stages, uint32_t word) {
  return stages == 0 ? POISON : (microbatch << 16) + (stages << 8) + word;
}

static void check_words(uint32_t slot, uint64_t microbatch, uint32_t stages) {
  for (uint32_t w = 0; w < WORDS; w++)
    expect(slots.words[slot][w] == word_of(microbatch, stages, w),
           "slot %u: microbatch %d finds %llx where stage %u left %llx", (unsigned)slot, (int)microbatch,
           (unsigned long long)slots.words[slot][w], (unsigned)stages,
           (unsigned long long)word_of(microbatch, stages, w));
}

static void write_words(uint32_t slot, uint64_t microbatch, uint32_t stages) {
  for (uint32_t w = 0; w < WORDS; w++)
    slots.words[slot][w] = word_of(microbatch, stages, w);
}

/* The work of an op, wherever it is done. */
static void do_stage(const ovl_op_t *op) {
  uint32_t stage = op->stage.id;
  check_words(op->slot, op->microbatch, stage - 1);
  if (stage == STAGES && !slots.shape->reported)
    write_words(op->slot, 0, 0);
  else
    write_words(op->slot, op->microbatch, stage);
}

static void end_foreign(ovl_op_t *op) {
  do_stage(op);
  expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
}

static bool fails(const ovl_op_t *op) {
  uint64_t every = slots.shape->fail_every;
  return every != 0 && op->microbatch % every == 0 && op->microbatch / every % STAGES == op->stage.id - 1;
}

static int run_stage(ovl_op_t *op) {
  uint32_t stage = op->stage.id - 1;
  if (slots.shape->cancel_at != 0 && op->microbatch == slots.shape->cancel_at && stage == STAGES / 2)
    expect(ovl_pipeline_cancel(op->pipeline) == 0, "cancel was refused");
  if (fails(op))
    return -4711;
  switch (slots.shape->ways[stage]) {
  case INLINE:
    do_stage(op);
    return 0;
  case EARLY: /* completed, and not yet done with its slot */
    expect(ovl_op_complete(op, 0) == 0, "a completion was refused");
    do_stage(op);
    return OVL_PENDING;
  case FOREIGN:
    foreign_give(&slots.foreign, op);
    return OVL_PENDING;
  case POLLED:
    slots.polled[stage].ops[op->slot] = op;
    return OVL_PENDING;
  }
  return OVL_EINVAL;
}

static void poll_stage(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)data;
  for (uint32_t slot = 0; slot < WINDOW_MOST; slot++) {
    ovl_op_t *op = slots.polled[lane.id - 1].ops[slot];
    slots.polled[lane.id - 1].ops[slot] = NULL;
    if (op != NULL)
      end_foreign(op);
  }
}

/* Of a microbatch that failed: whatever its stages left. */
static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  uint32_t slot = (uint32_t)(microbatch % ovl_pipeline_window(p));
  (void)item;
  expect(status == 0 || slots.shape->fail_every != 0 || slots.shape->cancel_at != 0, "a report of %s",
         ovl_err_name(status));
  if (status == 0)
    check_words(slot, microbatch, STAGES);
  write_words(slot, 0, 0);
}

static ovl_pipeline_t *describe(const shape_t *shape, uint32_t window) {
  ovl_pipeline_options_t options = pipeline_options(window);
  options.mode = shape->mode;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.on_microbatch = shape->reported ? on_microbatch : NULL;
  ovl_pipeline_t *p = make_pipeline(&options);
  for (uint32_t s = 0; s < STAGES; s++) {
    ovl_lane_options_t lane = lane_options(NULL, shape->kinds[s], shape->width);
    lane.poll = shape->ways[s] == POLLED ? poll_stage : NULL;
    add_stage(p, add_lane_with(p, &lane), run_stage, NULL);
  }
  return p;
}

static void run_shape(const shape_t *shape, uint32_t window) {
  uint64_t count = TEST_SANITIZED ? 60 : 300;
  int expected = shape->cancel_at != 0 ? OVL_ECANCELED : shape->fail_every != 0 ? -4711 : 0;
  memset(&slots, 0, sizeof slots);
  slots.shape = shape;
  for (uint32_t slot = 0; slot < WINDOW_MOST; slot++)
    write_words(slot, 0, 0);
  watchdog_expect(shape->name);
  foreign_start(&slots.foreign, 3, WINDOW_MOST * STAGES, end_foreign);
  ovl_pipeline_t *p = describe(shape, window);
  for (int run = 0; run < 3; run++) { /* the next run finds all slots free */
    int r = ovl_pipeline_run(p, count);
    expect(r == expected, "run %d ended with %s", run, ovl_err_name(r));
    for (uint32_t slot = 0; slot < window; slot++)
      check_words(slot, 0, 0);
  }
  foreign_stop(&slots.foreign);
  ovl_pipeline_close(p, NULL);
  assert_no_faults(shape->name);
}

/* clang-format off */
static const shape_t shapes[] = {
    {.name = "pool lanes", .width = 1, .reported = true},
    {.name = "pool lanes, not reported", .width = 1},
    {.name = "wide pool lanes", .width = 4, .reported = true},
    {.name = "wide pool lanes, not reported", .width = 4},
    {.name = "loop lanes", .kinds = {LOOP, LOOP, LOOP, LOOP}, .width = 2, .reported = true},
    {.name = "from pool to loop and back", .kinds = {POOL, LOOP, POOL, LOOP}, .width = 2, .reported = true},
    {.name = "completed before the return", .kinds = {POOL, LOOP, POOL, POOL}, .ways = {EARLY, EARLY, EARLY, EARLY},
     .width = 2, .reported = true},
    {.name = "completed by threads", .kinds = {LOOP, POOL, LOOP, POOL}, .ways = {FOREIGN, FOREIGN, FOREIGN, FOREIGN},
     .width = 3, .reported = true},
    {.name = "completed by threads, not reported", .kinds = {POOL, POOL, LOOP, POOL},
     .ways = {INLINE, FOREIGN, FOREIGN, FOREIGN}, .width = 3},
    {.name = "polled", .kinds = {POOL, POOL, LOOP, POOL}, .ways = {INLINE, POLLED, POLLED, INLINE}, .width = 2,
     .reported = true},
    {.name = "serial", .kinds = {POOL, LOOP, POOL, LOOP}, .ways = {INLINE, FOREIGN, EARLY, POLLED}, .width = 2,
     .mode = OVL_SERIAL, .reported = true},
    {.name = "some fail", .kinds = {POOL, LOOP, POOL, LOOP}, .ways = {INLINE, FOREIGN, EARLY, INLINE}, .width = 2,
     .reported = true, .fail_every = 3},
    {.name = "all fail", .kinds = {POOL, POOL, POOL, POOL}, .width = 4, .reported = true, .fail_every = 1},
    {.name = "cancelled", .kinds = {POOL, LOOP, POOL, POOL}, .ways = {INLINE, FOREIGN, INLINE, FOREIGN}, .width = 3,
     .reported = true, .cancel_at = 23},
};
/* clang-format on */

static void case_26_no_stage_sees_another_microbatchs_data(void **state) {
  static const uint32_t windows[] = {1, 2, 3, 5, 8, 16};
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
      run_shape(&shapes[i], windows[w]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(case_26_no_stage_sees_another_microbatchs_data)};
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
