/* SPDX-License-Identifier: MIT */
/* NVTX: what Nsight shows above the kernels. Each lane is a category, each stage's turn a range in it. */
#ifndef EXAMPLES_CUDA_STREAM_RANGES_H
#define EXAMPLES_CUDA_STREAM_RANGES_H

#include "ovl.h"

void ranges_name_lane(ovl_lane_t lane, const char *name);

/* Around the enqueueing of an op; the end is that of the range begun last on this thread. */
void ranges_begin(const ovl_op_t *op, const char *stage);
void ranges_end(void);

#endif
