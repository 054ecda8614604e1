/* SPDX-License-Identifier: MIT */
#include "bench_device.h"

#include <stdlib.h>

static int event_create(void *context, int timing, void **event) {
  (void)timing;
  *event = context;
  return 0;
}

static void event_destroy(void *context, void *event) {
  (void)context;
  (void)event;
}

static int do_nothing(void *context, void *one, void *other) {
  (void)context;
  (void)one;
  (void)other;
  return 0;
}

static int event_query(void *context, void *event) {
  const bench_device_t *device = context;
  (void)event;
  return atomic_load_explicit(&device->held, memory_order_relaxed) != 0 ? OVL_PENDING : 0;
}

static int elapsed(void *context, void *start, void *end, uint64_t *ns) {
  (void)context;
  (void)start;
  (void)end;
  *ns = 0;
  return 0;
}

void bench_device_init(bench_device_t *device) {
  ovl_device_init(&device->table);
  device->table.name = "nothing";
  device->table.context = device;
  device->table.event_create = event_create;
  device->table.event_destroy = event_destroy;
  device->table.event_record = do_nothing;
  device->table.stream_wait = do_nothing;
  device->table.event_query = event_query;
  device->table.elapsed = elapsed;
  atomic_init(&device->held, 0);
}

ovl_lane_t bench_device_lane(bench_device_t *device, ovl_pipeline_t *pipeline) {
  static char streams[64]; /* one is as good as the other, but lanes of one stream wait for nothing */
  static unsigned next;
  ovl_lane_options_t options;
  ovl_lane_t lane;
  ovl_lane_options_init(&options);
  options.kind = OVL_LANE_DEVICE;
  options.device = &device->table;
  options.stream = &streams[next++ % sizeof streams];
  if (ovl_pipeline_add_lane(pipeline, &options, &lane) != 0)
    abort();
  return lane;
}
