/* SPDX-License-Identifier: MIT */
/* Drives a core as the bytes of the input say: a pipeline, then what happens to it. The core is held against the spec
 * after every event (tests/proof/pair.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/input.h"
#include "ovl/errors.h"
#include "proof/pair.h"

enum { MOST_WINDOW = 8, MOST_COUNT = 40, MOST_STEPS = 4000 };

_Noreturn void fuzz_found(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

/* ---- the pipeline ---------------------------------------------------------------------------------------------------- */

static void read_lanes(fuzz_input_t *input, pair_shape_t *shape) {
  shape->lane_count = 1 + fuzz_below(input, SPEC_LANES);
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    uint8_t byte = fuzz_byte(input);
    bool fixed = byte & 1;
    shape->lanes[l] = (ovl_lane_desc_t){.width = fixed ? 1 : 1 + (byte >> 4),
                                        .kind = byte & 2 ? OVL_LANE_LOOP : OVL_LANE_POOL,
                                        .role = (ovl_role_t)(byte % 3),
                                        .fixed = fixed};
    shape->given[l] = byte & 4;
  }
}

static void read_stages(fuzz_input_t *input, pair_shape_t *shape) {
  shape->stage_count = fuzz_below(input, SPEC_STAGES + 1);
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    uint8_t byte = fuzz_byte(input);
    shape->stages[s] = (ovl_stage_desc_t){
        .lane = byte % shape->lane_count, .chained = byte & 16, .always = (byte >> 5) == 7};
    shape->hints[s] = fuzz_byte(input);
  }
  for (uint32_t k = shape->stage_count == 0 ? 0 : fuzz_below(input, 8); k > 0; k--) {
    uint8_t byte = fuzz_byte(input);
    shape->dependencies[shape->dependency_count++] =
        (ovl_dependency_t){.before = (byte & 15) % shape->stage_count,
                           .after = (byte >> 4) % shape->stage_count,
                           .distance = fuzz_below(input, MOST_WINDOW + 2)};
  }
}

static void read_shape(fuzz_input_t *input, pair_shape_t *shape) {
  uint8_t byte = fuzz_byte(input);
  memset(shape, 0, sizeof *shape);
  shape->options = (ovl_core_options_t){
      .keep_going = byte & 1, .report = byte & 2, .tell = byte & 4, .statistics = !(byte & 8)};
  shape->mode = (byte >> 4) == 15 ? OVL_SERIAL : OVL_OVERLAP;
  shape->from_calls = (byte >> 4) == 7;
  shape->window = 1 + fuzz_below(input, MOST_WINDOW);
  shape->count = fuzz_below(input, MOST_COUNT + 1);
  read_lanes(input, shape);
  read_stages(input, shape);
}

/* ---- what happens ---------------------------------------------------------------------------------------------------- */

/* The nth op that runs, counted round and round; false: none does. */
static bool find_running(const pair_t *pair, uint32_t nth, spec_op_t *op) {
  const spec_t *spec = &pair->spec;
  uint32_t running = 0;
  for (uint32_t l = 0; l < pair->frame->run.lane_count; l++)
    running += spec->running[l];
  nth = running > 0 ? nth % running : 0;
  for (uint32_t i = spec->oldest; i < spec->admitted; i++)
    for (uint32_t s = 0; s < pair->frame->run.stage_count; s++)
      if (spec->microbatches[i].ops[s] == SPEC_RUNNING && nth-- == 0) {
        *op = (spec_op_t){.microbatch = (uint8_t)i, .stage = (uint8_t)s};
        return true;
      }
  return false;
}

static bool end(pair_t *pair, uint32_t nth, int status) {
  spec_op_t op;
  return find_running(pair, nth, &op) && pair_end(pair, op, status);
}

static bool anything(pair_t *pair, uint32_t lane) {
  for (uint32_t k = 0; k < pair->frame->run.lane_count; k++)
    if (pair_take(pair, (lane + k) % pair->frame->run.lane_count, NULL))
      return true;
  return pair_tell(pair) || pair_retire(pair) || end(pair, lane, 0);
}

static bool step(pair_t *pair, uint8_t byte) {
  spec_op_t op;
  uint32_t nth = byte >> 3;
  switch (byte & 7) {
  case 0:
  case 1:
    return pair_take(pair, nth % pair->frame->run.lane_count, NULL) || anything(pair, nth);
  case 2:
  case 3:
    return end(pair, nth, 0) || anything(pair, nth);
  case 4:
    return end(pair, nth, -5) || anything(pair, nth);
  case 5:
    return pair_tell(pair) || pair_retire(pair) || anything(pair, nth);
  case 6:
    return (nth < 4 && find_running(pair, nth, &op) && pair_expire(pair, op)) || anything(pair, nth);
  default:
    return (nth == 31 && pair_cancel(pair)) || anything(pair, nth);
  }
}

static void play(fuzz_input_t *input, pair_t *pair) {
  pair_begin(pair);
  for (uint32_t steps = 0; pair->wrong == NULL && !pair_is_over(pair); steps++)
    if (!step(pair, fuzz_byte(input)) || steps == MOST_STEPS)
      fuzz_found("the run does not end");
  if (pair->wrong != NULL)
    fuzz_found(pair->wrong);
  ovl_core_leave(&pair->core);
}

void fuzz_core(fuzz_input_t *input) {
  static pair_frame_t frame;
  static pair_t pair;
  pair_shape_t shape;
  read_shape(input, &shape);
  int r = pair_frame_init(&frame, &shape, PAIR_INTACT);
  if (r != (pair_frame_has_cycle(&frame) ? OVL_ECYCLE : 0))
    fuzz_found("a cycle is not refused, or what is none is");
  if (r != 0)
    return;
  if (pair_init(&pair, &frame, &pair_heap) != 0)
    fuzz_found("no memory");
  play(input, &pair);
  if (input->left > 0)
    play(input, &pair);
  pair_finish(&pair);
  pair_frame_finish(&frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  fuzz_input_t input = {.bytes = bytes, .left = count};
  if (fuzz_byte(&input) % 2 == 0)
    fuzz_core(&input);
  else
    fuzz_describe(&input);
  return 0;
}
