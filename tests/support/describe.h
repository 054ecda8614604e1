/* SPDX-License-Identifier: MIT */
/* Pipelines described in few words; what is refused fails the test. */
#ifndef TEST_SUPPORT_DESCRIBE_H
#define TEST_SUPPORT_DESCRIBE_H

#include "ovl.h"
#include "support/cmocka_all.h"

static inline ovl_pipeline_options_t pipeline_options(uint32_t window) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.window = window;
  return options;
}

static inline ovl_pipeline_t *make_pipeline(const ovl_pipeline_options_t *options) {
  ovl_pipeline_t *p = NULL;
  assert_int_equal(ovl_pipeline_create(&p, options), 0);
  return p;
}

static inline ovl_lane_options_t lane_options(const char *name, ovl_lane_kind_t kind, uint32_t width) {
  ovl_lane_options_t options;
  ovl_lane_options_init(&options);
  options.name = name;
  options.kind = kind;
  options.width = width;
  return options;
}

static inline ovl_lane_t add_lane_with(ovl_pipeline_t *p, const ovl_lane_options_t *options) {
  ovl_lane_t lane = {0};
  assert_int_equal(ovl_pipeline_add_lane(p, options, &lane), 0);
  return lane;
}

static inline ovl_lane_t add_lane(ovl_pipeline_t *p, ovl_lane_kind_t kind, uint32_t width) {
  ovl_lane_options_t options = lane_options(NULL, kind, width);
  return add_lane_with(p, &options);
}

static inline ovl_stage_options_t stage_options(ovl_lane_t lane, ovl_op_cb run, void *data) {
  ovl_stage_options_t options;
  ovl_stage_options_init(&options);
  options.lane = lane;
  options.run = run;
  options.data = data;
  return options;
}

static inline ovl_stage_t add_stage_with(ovl_pipeline_t *p, const ovl_stage_options_t *options) {
  ovl_stage_t stage = {0};
  assert_int_equal(ovl_pipeline_add_stage(p, options, &stage), 0);
  return stage;
}

static inline ovl_stage_t add_stage(ovl_pipeline_t *p, ovl_lane_t lane, ovl_op_cb run, void *data) {
  ovl_stage_options_t options = stage_options(lane, run, data);
  return add_stage_with(p, &options);
}

static inline ovl_stats_t stats_of(const ovl_pipeline_t *p) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  assert_int_equal(ovl_pipeline_stats(p, &stats), 0);
  return stats;
}

static inline ovl_failure_t failure_of(const ovl_pipeline_t *p) {
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  assert_int_equal(ovl_pipeline_failure(p, &failure), 0);
  return failure;
}

#endif
