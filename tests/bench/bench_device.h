/* SPDX-License-Identifier: MIT */
/* A device whose entries do nothing, so that all time taken is the library's own. Its events are done at once, or never. */
#ifndef OVL_BENCH_DEVICE_H
#define OVL_BENCH_DEVICE_H

#include <stdatomic.h>

#include "ovl.h"

typedef struct bench_device {
  ovl_device_t table; /* for ovl_lane_options_t.device */
  atomic_int held;    /* not 0: no event is done */
} bench_device_t;

void bench_device_init(bench_device_t *device);

/* A lane on a stream of it; aborts if the pipeline refuses it. */
ovl_lane_t bench_device_lane(bench_device_t *device, ovl_pipeline_t *pipeline);

#endif
