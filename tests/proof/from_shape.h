/* SPDX-License-Identifier: MIT */
/* A pair's shape as a pipeline of the public API, so that the executor and a core driven by hand can be given the
 * same thing. */
#ifndef OVL_TESTS_FROM_SHAPE_H
#define OVL_TESTS_FROM_SHAPE_H

#include "ovl.h"
#include "proof/pair.h"

/* options: mode, window and policy are the shape's; the shape must outlive the pipeline, which keeps it as
 * options.data. All stages run `run` and, if it is not NULL, `cancel`. */
ovl_pipeline_t *pipeline_from_shape(const pair_shape_t *shape, const ovl_pipeline_options_t *options,
                                    ovl_op_cb run, ovl_op_cb cancel);

/* Gives explicitly the orders that the shape says are given. */
void give_shape_orders(ovl_pipeline_t *p, const pair_frame_t *frame);

#endif
