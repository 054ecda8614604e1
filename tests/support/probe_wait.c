/* SPDX-License-Identifier: MIT */
/* Waiting for something to happen: by turning the loop, or while it stands still. */
#include "support/probe.h"

/* False: nothing is left in it. */
static bool turn(probe_t *probe) {
  bool alive = uv_run(probe->loop, UV_RUN_NOWAIT) != 0;
  uv_sleep(1);
  return alive;
}

void probe_turn_until(probe_t *probe, probe_event_type_t type, uint32_t count) {
  while (probe_count(probe, type) < count)
    assert_true(turn(probe) || probe_count(probe, type) >= count);
}

void probe_turn_until_seen(probe_t *probe, probe_event_type_t type, uint32_t stage, uint64_t microbatch) {
  while (!probe_has(probe, type, stage, microbatch))
    assert_true(turn(probe) || probe_has(probe, type, stage, microbatch));
}

void probe_turn_in_vain(probe_t *probe) {
  for (int i = 0; i < 5; i++)
    assert_true(turn(probe));
}

void probe_wait_for(probe_t *probe, probe_event_type_t type, uint32_t count) {
  uv_mutex_lock(&probe->mutex);
  while (probe->counts[type] < count)
    uv_cond_wait(&probe->changed, &probe->mutex);
  uv_mutex_unlock(&probe->mutex);
}

void probe_await_error(probe_t *probe, int status) {
  ovl_failure_t failure;
  ovl_failure_init(&failure);
  for (;; uv_sleep(1)) {
    assert_int_equal(ovl_pipeline_failure(probe->pipeline, &failure), 0);
    if (failure.status == status)
      return;
    assert_int_equal(failure.status, 0);
  }
}

void probe_await_ops(probe_t *probe, uint64_t ops) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  do {
    uv_sleep(1);
    assert_int_equal(ovl_pipeline_stats(probe->pipeline, &stats), 0);
  } while (stats.ops < ops);
}
