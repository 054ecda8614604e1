/* SPDX-License-Identifier: MIT */
/* From shapes to pipelines. */
#include "proof/from_shape.h"

#include "support/describe.h"

static uint64_t cost_of(const ovl_op_t *op) {
  return pair_hint(ovl_pipeline_data(op->pipeline), op->microbatch, op->stage.id - 1);
}

static void add_lanes(ovl_pipeline_t *p, const pair_shape_t *shape) {
  for (uint32_t l = 0; l < shape->lane_count; l++) {
    ovl_lane_options_t options = lane_options(NULL, shape->lanes[l].kind, shape->lanes[l].width);
    options.order = shape->lanes[l].fixed ? OVL_ORDER_FIXED : OVL_ORDER_READY;
    options.role = shape->lanes[l].role;
    add_lane_with(p, &options);
  }
}

static void add_stages(ovl_pipeline_t *p, const pair_shape_t *shape, ovl_op_cb run, ovl_op_cb cancel) {
  for (uint32_t s = 0; s < shape->stage_count; s++) {
    ovl_stage_options_t options = stage_options((ovl_lane_t){shape->stages[s].lane + 1}, run, NULL);
    options.cancel = cancel;
    options.unchained = !shape->stages[s].chained;
    options.always = shape->stages[s].always;
    options.cost_ns = shape->hints[s];
    options.cost = shape->from_calls ? cost_of : NULL;
    add_stage_with(p, &options);
  }
}

ovl_pipeline_t *pipeline_from_shape(const pair_shape_t *shape, const ovl_pipeline_options_t *from,
                                    ovl_op_cb run, ovl_op_cb cancel) {
  ovl_pipeline_options_t options = *from;
  options.data = (void *)(uintptr_t)shape;
  options.window = shape->window;
  options.mode = shape->mode;
  options.on_error = shape->options.keep_going ? OVL_ON_ERROR_CONTINUE : OVL_ON_ERROR_STOP;
  ovl_pipeline_t *p = make_pipeline(&options);
  add_lanes(p, shape);
  add_stages(p, shape, run, cancel);
  for (uint32_t k = 0; k < shape->dependency_count; k++) {
    const ovl_dependency_t *d = &shape->dependencies[k];
    assert_int_equal(ovl_pipeline_add_dependency(p, (ovl_stage_t){d->before + 1}, (ovl_stage_t){d->after + 1},
                                                 d->distance),
                     0);
  }
  return p;
}

void give_shape_orders(ovl_pipeline_t *p, const pair_frame_t *frame) {
  ovl_op_id_t order[SPEC_OPS];
  for (uint32_t l = 0; l < frame->shape.lane_count; l++) {
    const ovl_order_list_t *given = &frame->given[l];
    for (uint64_t k = 0; k < given->count; k++)
      order[k] = (ovl_op_id_t){.microbatch = given->refs[k].microbatch, .stage = {given->refs[k].stage + 1}};
    if (given->count > 0)
      assert_int_equal(ovl_pipeline_set_order(p, (ovl_lane_t){l + 1}, order, (size_t)given->count), 0);
  }
}
