/* SPDX-License-Identifier: MIT */
/* The description of a run with device lanes, made from the user's: what the executor is to run.
 *
 * A stage on a device lane ends when its work has been put on the stream; that is all that other stages of its sync domain
 * wait for here, for the device keeps them in order. All of a domain are on one lane, its issuer, of one fixed order. Who has
 * to know on the host that the work is done waits for a stage of its own, its watch, which ends when an event is done:
 *
 *   user's      compute (device) -> comm (device) -> log (pool)
 *   issue plan  compute (issuer) -> comm (issuer) -> watch of comm (observer) -> log (pool)
 *
  * Those that nothing of the microbatch waits for have a watch too, so a microbatch retires when all of it is done. Stages on
 * device lanes run for failed microbatches too: the issuer leaves the user's callback out and keeps the order. Up to
 * `ahead` microbatches may be issued and not known to be done. A slot of the user's is one of fewer: who is first in it waits
 * for those that were last there, on the device where it can.  */
#ifndef OVL_PLAN_ISSUE_H
#define OVL_PLAN_ISSUE_H

#include "plan/plan.h"

#define OVL_NO_DOMAIN UINT32_MAX

typedef struct ovl_issue {
  ovl_description_t description; /* its arrays are held here */
  ovl_lane_desc_t *lanes;        /* the user's, then an issuer for each domain, then the observer */
  ovl_stage_desc_t *stages;      /* the user's, then the watches */
  ovl_dependency_t *dependencies;
  uint32_t *order;   /* the user's, each stage followed by its watch */
  uint32_t *domains; /* by the user's lane: its sync domain; OVL_NO_DOMAIN: it is no device lane */
  uint32_t *watched; /* by watch: the user's stage */
  uint32_t *watches; /* by the user's stage: the stage that is its watch, or OVL_NO_WATCH */
  uint32_t user_stages, user_lanes, domain_count, observer;
} ovl_issue_t;

#define OVL_NO_WATCH UINT32_MAX

/* 0, OVL_ENOMEM or OVL_ETOOBIG; on error nothing is held. plan: made from d. ahead: at least d->window. all: every
 * stage on a device lane has a watch. */
int ovl_issue_init(ovl_issue_t *issue, const ovl_description_t *d, const ovl_plan_t *plan,
                   const uint32_t *domains, uint32_t domain_count, uint32_t ahead, bool all,
                   const ovl_memory_t *memory);
void ovl_issue_finish(ovl_issue_t *issue, const ovl_memory_t *memory);

/* The stage of the user's that a stage of the issue plan belongs to. */
static inline uint32_t ovl_issue_user_stage(const ovl_issue_t *issue, uint32_t stage) {
  return stage < issue->user_stages ? stage : issue->watched[stage - issue->user_stages];
}

#endif
