/* SPDX-License-Identifier: MIT */
/* What a pipeline with device lanes has in addition: the issue plan that its executor runs instead of the user's, the issuer,
 * and the hooks of both. */
#ifndef OVL_API_DEVICES_H
#define OVL_API_DEVICES_H

#include "device/issuer.h"
#include "exec/executor.h"
#include "ovl/stats.h"
#include "sim/orders.h"

typedef struct ovl_devices {
  ovl_issue_t issue;
  ovl_plan_t plan; /* of the issue's description */
  ovl_issuer_t issuer;
  ovl_stage_hooks_t *stage_hooks; /* by stage of that plan */
  ovl_lane_hooks_t *lane_hooks;
  ovl_track_lane_t *lanes; /* the user's */
  uint32_t *run_lanes;     /* by the user's lane: the lane of that plan which its ops are on */
} ovl_devices_t;

/* NULL: no memory, or too large (*result). plan is the user's and must outlive it. */
ovl_devices_t *ovl_devices_make(const ovl_pipeline_t *p, const ovl_plan_t *plan, int *result);
void ovl_devices_free(ovl_devices_t *devices, const ovl_memory_t *memory);

/* Ops of a stage that count as run in the core, and were skipped: their callback was left out. With the lock. */
uint64_t ovl_devices_skipped(const ovl_pipeline_t *p, uint32_t stage);

/* Ops of a stage that failed once they had been issued. With the lock. */
uint64_t ovl_devices_failed(const ovl_pipeline_t *p, uint32_t stage);

/* Adds what the devices have said of when their ops ran. With the lock. */
void ovl_devices_correct(const ovl_pipeline_t *p, ovl_stats_t *s); /* and takes away what is not known */
void ovl_devices_add_lane_times(const ovl_pipeline_t *p, uint32_t lane, ovl_lane_stats_t *s);
void ovl_devices_add_stage_times(const ovl_pipeline_t *p, uint32_t stage, ovl_stage_stats_t *s);

/* What a callback or an entry returned, as the library's code for it. */
static inline int ovl_code_of(int result) { return result > 0 ? OVL_EBADRESULT : result; }

/* An entry of a device returned this while events were made. */
int ovl_devices_refuse_events(ovl_pipeline_t *p, const char *call, int result);

/* Work has been given up: nothing but close may follow. Any thread. */
bool ovl_devices_poisoned(const ovl_pipeline_t *p);

/* How a run's lanes would be grouped, also before there is one: 0 or OVL_ENOMEM. groups->lane_of is to be released. */
int ovl_devices_group(const ovl_pipeline_t *p, ovl_order_groups_t *groups);

/* For a run that is to start; refuses in words. */
int ovl_devices_begin(ovl_pipeline_t *p, const char *call, uint64_t microbatches);

#endif
