/* SPDX-License-Identifier: MIT */
/* Calls the public API as the bytes of the input say, wrongly as often as rightly. A call that is refused must say why
 * and change nothing; a cycle must be refused, and nothing else as one; and whatever was accepted must run to its end
 * in virtual time, with explicit orders too. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/input.h"
#include "ovl.h"

enum { MOST_LANES = 70, MOST_STAGES = 24, MOST_COUNT = 6, MOST_CALLS = 200, MOST_BYTES = 1 << 20 };

typedef struct sketch {
  fuzz_input_t *input;
  ovl_pipeline_t *pipeline;
  uint32_t lane_count, stage_count;
  uint32_t lane_of[MOST_STAGES];
  bool leads[MOST_STAGES][MOST_STAGES]; /* a way of distance 0 from one stage to another */
} sketch_t;

/* ---- memory has its limits ---------------------------------------------------------------------------------------------- */

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return bytes <= MOST_BYTES ? malloc(bytes) : NULL;
}

static void release(void *context, void *block) {
  (void)context;
  free(block);
}

/* ---- calls -------------------------------------------------------------------------------------------------------------- */

/* Notes what follows from a refusal or none. */
static int heed(sketch_t *sketch, int r) {
  const char *words = ovl_pipeline_error(sketch->pipeline);
  if ((r != 0) != (words[0] != '\0'))
    fuzz_found("a refusal without words, or words without a refusal");
  if (r > 0 || strcmp(ovl_err_name(r), "OVL_UNKNOWN") == 0)
    fuzz_found("a result that is none of the library's");
  return r;
}

/* Options as a newer header could have them. */
typedef union lane_options {
  ovl_lane_options_t options;
  unsigned char bytes[sizeof(ovl_lane_options_t) + 16];
} lane_options_t;

static void call_add_lane(sketch_t *sketch) {
  lane_options_t newer = {.bytes = {0}};
  ovl_lane_options_t *options = &newer.options;
  ovl_lane_t lane = {0};
  ovl_lane_options_init(options);
  uint8_t byte = fuzz_byte(sketch->input);
  options->width = fuzz_number(sketch->input) % 70000;
  options->order = byte & 1 ? OVL_ORDER_FIXED : OVL_ORDER_READY;
  options->kind = byte & 2 ? OVL_LANE_LOOP : OVL_LANE_POOL;
  options->role = (ovl_role_t)(byte >> 2 & 3); /* 3 is none */
  if (byte >> 4 == 15)
    options->size = fuzz_byte(sketch->input) % (sizeof newer + 1);
  if (byte >> 4 == 14)
    newer.bytes[sizeof newer - 1 - fuzz_below(sketch->input, 16)] = fuzz_byte(sketch->input);
  if (byte >> 4 == 14)
    options->size = sizeof newer;
  if (sketch->lane_count == MOST_LANES)
    return;
  if (heed(sketch, ovl_pipeline_add_lane(sketch->pipeline, options, &lane)) == 0 &&
      lane.id != ++sketch->lane_count)
    fuzz_found("a lane has a wrong id");
}

static void join(sketch_t *sketch, uint32_t before, uint32_t after) {
  for (uint32_t a = 0; a < sketch->stage_count; a++)
    for (uint32_t b = 0; b < sketch->stage_count; b++)
      if ((a == before || sketch->leads[a][before]) && (b == after || sketch->leads[after][b]))
        sketch->leads[a][b] = true;
}

static void call_add_stage(sketch_t *sketch) {
  ovl_stage_options_t options;
  ovl_stage_t stage = {0};
  ovl_stage_options_init(&options);
  uint8_t byte = fuzz_byte(sketch->input);
  options.lane.id = byte & 64 ? fuzz_number(sketch->input) : 1 + (byte & 63) % (sketch->lane_count + 1);
  options.unchained = byte & 128;
  options.cost_ns = fuzz_byte(sketch->input);
  if (options.cost_ns == 255)
    options.cost_ns = UINT64_MAX;
  if (sketch->stage_count == MOST_STAGES)
    return;
  if (heed(sketch, ovl_pipeline_add_stage(sketch->pipeline, &options, &stage)) != 0)
    return;
  uint32_t s = sketch->stage_count++;
  sketch->lane_of[s] = options.lane.id;
  if (stage.id != s + 1 || options.lane.id == 0 || options.lane.id > sketch->lane_count)
    fuzz_found("a stage has a wrong id, or none of the lanes");
  if (s > 0 && !options.unchained)
    join(sketch, s - 1, s);
}

static void call_add_dependency(sketch_t *sketch) {
  uint32_t bound = sketch->stage_count + 1;
  ovl_stage_t before = {fuzz_byte(sketch->input) % bound + 1}, after = {fuzz_byte(sketch->input) % bound + 1};
  uint32_t distance = fuzz_number(sketch->input);
  bool exist = before.id < bound && after.id < bound;
  bool cycle =
      exist && distance == 0 && (before.id == after.id || sketch->leads[after.id - 1][before.id - 1]);
  int r = heed(sketch, ovl_pipeline_add_dependency(sketch->pipeline, before, after, distance));
  if (r == OVL_ENOMEM)
    return;
  if (r != (!exist ? OVL_ENOSTAGE : cycle ? OVL_ECYCLE : 0))
    fuzz_found("a cycle is accepted, or what is none is refused");
  if (r == 0 && distance == 0)
    join(sketch, before.id - 1, after.id - 1);
}

/* An order for some microbatches: as it should be, or shuffled by the input, or with anything in it. */
static void call_set_order(sketch_t *sketch) {
  ovl_op_id_t order[MOST_COUNT * MOST_STAGES];
  uint8_t byte = fuzz_byte(sketch->input);
  uint32_t lane = 1 + fuzz_byte(sketch->input) % (sketch->lane_count + 1),
           microbatches = byte % (MOST_COUNT + 1);
  size_t count = 0;
  for (uint32_t i = 0; i < microbatches; i++)
    for (uint32_t s = 0; s < sketch->stage_count; s++)
      if (sketch->lane_of[s] == lane)
        order[count++] = (ovl_op_id_t){.microbatch = i, .stage = {s + 1}};
  for (uint32_t swaps = count > 1 ? byte >> 4 : 0; swaps > 0; swaps--) {
    size_t a = fuzz_byte(sketch->input) % count, b = fuzz_byte(sketch->input) % count;
    ovl_op_id_t kept = order[a];
    order[a] = order[b];
    order[b] = kept;
  }
  if (count > 0 && byte == 255)
    order[fuzz_byte(sketch->input) % count] =
        (ovl_op_id_t){.microbatch = fuzz_number(sketch->input), .stage = {fuzz_byte(sketch->input)}};
  heed(sketch, ovl_pipeline_set_order(sketch->pipeline, (ovl_lane_t){lane}, order, count));
}

static void call_simulate(sketch_t *sketch) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  uint32_t count = fuzz_below(sketch->input, MOST_COUNT + 1);
  int r = heed(sketch, ovl_pipeline_simulate(sketch->pipeline, count, NULL, &stats));
  if (r != 0 && r != OVL_EORDER && r != OVL_ENOMEM && r != OVL_ETOOBIG)
    fuzz_found("a simulation is refused for no reason");
  if (r == 0 && (stats.microbatches != count || stats.ops != (uint64_t)count * sketch->stage_count))
    fuzz_found("a simulation does not come to its end");
  if (r == 0 && stats.bound_ns > stats.elapsed_ns)
    fuzz_found("a simulation is faster than its bound");
}

static void call_fingerprint(sketch_t *sketch) {
  uint8_t byte = fuzz_byte(sketch->input);
  uint64_t count = byte == 255 ? OVL_STREAMING : byte % (MOST_COUNT + 1);
  uint64_t once = ovl_pipeline_fingerprint(sketch->pipeline, count);
  heed(sketch, once != 0 ? 0 : OVL_EINVAL);
  if (ovl_pipeline_fingerprint(sketch->pipeline, count) != once)
    fuzz_found("two fingerprints of one description differ");
}

static void call_set_mode(sketch_t *sketch) {
  heed(sketch, ovl_pipeline_set_mode(sketch->pipeline, (ovl_mode_t)fuzz_below(sketch->input, 3)));
}

static void call(sketch_t *sketch) {
  static void (*const calls[])(sketch_t *) = {call_add_lane,    call_add_stage, call_add_dependency,
                                              call_add_stage,   call_set_order, call_simulate,
                                              call_fingerprint, call_set_mode};
  calls[fuzz_below(sketch->input, sizeof calls / sizeof *calls)](sketch);
}

void fuzz_describe(fuzz_input_t *input) {
  static sketch_t sketch;
  ovl_pipeline_options_t options;
  ovl_allocator_t allocator;
  memset(&sketch, 0, sizeof sketch);
  sketch.input = input;
  ovl_allocator_init(&allocator);
  allocator.allocate = allocate;
  allocator.release = release;
  ovl_pipeline_options_init(&options);
  options.window = fuzz_number(input);
  options.allocator = &allocator;
  if (ovl_pipeline_create(&sketch.pipeline, &options) != 0)
    fuzz_found("no pipeline");
  for (int calls = 0; input->left > 0 && calls < MOST_CALLS; calls++)
    call(&sketch);
  ovl_pipeline_close(sketch.pipeline, NULL);
}
