/* SPDX-License-Identifier: MIT */
/* Orders of fixed lanes as the user meets them: given explicitly, checked, prepared for a run, compared. */
#include <string.h>

#include "api/devices.h"
#include "api/pipeline.h"
#include "exec/process.h"

/* ---- cost hints ------------------------------------------------------------------------------------------------ */

static const ovl_stage_cost_t *cost_of(const ovl_pipeline_t *p, uint32_t stage) {
  return &((const ovl_stage_cost_t *)p->stage_costs.items)[stage];
}

uint64_t ovl_pipeline_cost(void *context, const ovl_op_t *op) {
  const ovl_stage_cost_t *cost = cost_of(context, op->stage.id - 1);
  if (cost->call != NULL)
    return cost->call(op);
  return cost->ns != 0 ? cost->ns : 1;
}

bool ovl_pipeline_cost_calls(const ovl_pipeline_t *p) {
  for (uint32_t s = 0; s < p->stage_costs.count; s++)
    if (cost_of(p, s)->call != NULL)
      return true;
  return false;
}

static void *data_of(const void *context, uint32_t stage) {
  const ovl_pipeline_t *p = context;
  return ((const ovl_stage_hooks_t *)p->stage_hooks.items)[stage].data;
}

void ovl_pipeline_bind_core(ovl_pipeline_t *p, ovl_core_t *core) { ovl_core_bind(core, p, data_of, p); }

/* ---- making and checking --------------------------------------------------------------------------------------- */

static ovl_order_list_t *given_of(const ovl_pipeline_t *p, uint32_t lane) {
  return &((ovl_order_list_t *)p->lane_orders.items)[lane];
}

static int refuse_turn(ovl_pipeline_t *p, const char *call, uint32_t lane, ovl_op_ref_t turn) {
  return ovl_refuse(
      p, OVL_EORDER,
      "%s: the order of lane \"%.100s\" cannot be kept: \"%.100s\" of microbatch %llu has its turn "
      "before something that it waits for can run",
      call, ovl_lane_name(p, lane), ovl_stage_name(p, turn.stage), (unsigned long long)turn.microbatch);
}

/* The explicit orders must be for this number of microbatches. */
static int check_counts(ovl_pipeline_t *p, const char *call, const ovl_plan_t *plan, uint64_t microbatches) {
  for (uint32_t l = 0; l < plan->lane_count; l++) {
    uint64_t stages = plan->lane_first[l + 1] - plan->lane_first[l], count = given_of(p, l)->count;
    if (count > 0 && (count / stages != microbatches || count % stages != 0))
      return ovl_refuse(
          p, OVL_EORDER,
          "%s: the order of lane \"%.100s\" has %llu ops, which is not %llu microbatches of %llu", call,
          ovl_lane_name(p, l), (unsigned long long)count, (unsigned long long)microbatches,
          (unsigned long long)stages);
  }
  return 0;
}

static int check_feasible(ovl_pipeline_t *p, const char *call, ovl_orders_t *orders, uint64_t microbatches) {
  uint32_t lane;
  ovl_op_ref_t turn;
  if (!p->orders_checked && !ovl_orders_feasible(orders, microbatches, &lane, &turn))
    return refuse_turn(p, call, lane, turn);
  p->orders_checked = true;
  return 0;
}

static int init_orders(ovl_pipeline_t *p, const ovl_plan_t *plan, const ovl_order_groups_t *groups,
                       ovl_orders_t *orders) {
  int r = ovl_orders_init(orders, plan, p->lane_orders.items, ovl_pipeline_cost, p,
                          ovl_pipeline_cost_calls(p), groups, &p->memory);
  if (r == 0 && orders->simulates)
    ovl_pipeline_bind_core(p, &orders->sim.core);
  return r;
}

static int refuse_set_up(ovl_pipeline_t *p, const char *call, int code) {
  return ovl_refuse(p, code, "%s: the orders of fixed lanes could not be set up: %s", call,
                    ovl_strerror(code));
}

static int begin_orders(ovl_pipeline_t *p, const char *call, ovl_orders_t *orders, uint64_t microbatches) {
  bool before = ovl_callback_enter(); /* cost hints */
  int r = check_counts(p, call, orders->plan, microbatches);
  if (r == 0)
    r = check_feasible(p, call, orders, microbatches);
  if (r == 0) {
    r = ovl_orders_begin(orders, microbatches);
    if (r != 0)
      refuse_set_up(p, call, r);
  }
  ovl_callback_leave(before);
  return r;
}

int ovl_pipeline_make_orders(ovl_pipeline_t *p, const char *call, const ovl_plan_t *plan,
                             uint64_t microbatches, const ovl_order_groups_t *groups, ovl_orders_t *orders) {
  int r = init_orders(p, plan, groups, orders);
  if (r != 0)
    return refuse_set_up(p, call, r);
  r = begin_orders(p, call, orders, microbatches);
  if (r != 0)
    ovl_orders_finish(orders);
  return r;
}

static bool has_fixed_lane(const ovl_plan_t *plan) {
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (plan->lanes[l].fixed)
      return true;
  return false;
}

void ovl_pipeline_drop_orders(ovl_pipeline_t *p) {
  if (p->orders != NULL)
    ovl_orders_finish(p->orders);
  ovl_memory_free(&p->memory, p->orders);
  p->orders = NULL;
}

/* Kept from run to run, until an explicit order changes. */
static int keep_orders(ovl_pipeline_t *p, const char *call, uint64_t microbatches,
                       const ovl_order_groups_t *groups) {
  if (p->orders_grouped != (groups != NULL))
    ovl_pipeline_drop_orders(p);
  p->orders_grouped = groups != NULL;
  if (p->orders != NULL)
    return begin_orders(p, call, p->orders, microbatches);
  ovl_orders_t *orders = ovl_memory_array(&p->memory, 1, sizeof *orders);
  if (orders == NULL)
    return refuse_set_up(p, call, OVL_ENOMEM);
  int r = ovl_pipeline_make_orders(p, call, p->plan, microbatches, groups, orders);
  if (r == 0)
    p->orders = orders;
  else
    ovl_memory_free(&p->memory, orders);
  return r;
}

int ovl_pipeline_prepare_order(ovl_pipeline_t *p, const char *call, uint64_t microbatches,
                               const ovl_order_groups_t *groups, ovl_order_source_t *source) {
  memset(source, 0, sizeof *source);
  if (p->mode == OVL_SERIAL || microbatches == OVL_STREAMING || !has_fixed_lane(p->plan) ||
      ovl_pipeline_is_busy(p))
    return 0;
  int r = keep_orders(p, call, microbatches, groups);
  if (r == 0)
    *source = ovl_orders_source(p->orders);
  return r;
}

/* ---- giving ---------------------------------------------------------------------------------------------------- */

static uint32_t stages_on(const ovl_pipeline_t *p, uint32_t lane) {
  const ovl_stage_desc_t *stages = p->stage_descs.items;
  uint32_t count = 0;
  for (uint32_t s = 0; s < p->stage_descs.count; s++)
    count += stages[s].lane == lane;
  return count;
}

static int check_op(ovl_pipeline_t *p, uint32_t lane, const ovl_op_id_t *op, uint64_t microbatches) {
  const ovl_stage_desc_t *stages = p->stage_descs.items;
  const char *name = ovl_lane_name(p, lane);
  if (op->stage.id == 0 || op->stage.id > p->stage_descs.count)
    return ovl_refuse(p, OVL_ENOSTAGE, "set_order: lane \"%.100s\": there is no stage %u", name,
                      (unsigned)op->stage.id);
  if (stages[op->stage.id - 1].lane != lane)
    return ovl_refuse(p, OVL_EORDER, "set_order: stage \"%.100s\" is not on lane \"%.100s\"",
                      ovl_stage_name(p, op->stage.id - 1), name);
  if (op->microbatch >= microbatches)
    return ovl_refuse(p, OVL_EORDER, "set_order: lane \"%.100s\": microbatch %llu, in an order of %llu", name,
                      (unsigned long long)op->microbatch, (unsigned long long)microbatches);
  return 0;
}

/* Every op of the lane once: with as many entries as ops, none twice. */
static int check_complete(ovl_pipeline_t *p, uint32_t lane, const ovl_op_id_t *order, size_t count) {
  uint32_t stages = stages_on(p, lane);
  if (stages == 0 || count % stages != 0)
    return ovl_refuse(p, OVL_EORDER, "set_order: lane \"%.100s\": %zu ops are not whole microbatches of %u",
                      ovl_lane_name(p, lane), count, (unsigned)stages);
  uint64_t microbatches = count / stages;
  size_t slots;
  bool *seen = __builtin_mul_overflow(microbatches, p->stage_descs.count, &slots)
                   ? NULL
                   : ovl_memory_array(&p->memory, slots, sizeof *seen);
  int r = seen != NULL ? 0 : ovl_refuse(p, OVL_ENOMEM, "set_order: no memory to check the order");
  for (size_t i = 0; r == 0 && i < count; i++) {
    r = check_op(p, lane, &order[i], microbatches);
    if (r != 0)
      break;
    bool *mark = &seen[order[i].microbatch * p->stage_descs.count + order[i].stage.id - 1];
    if (*mark)
      r = ovl_refuse(p, OVL_EORDER, "set_order: lane \"%.100s\": \"%.100s\" of microbatch %llu stands twice",
                     ovl_lane_name(p, lane), ovl_stage_name(p, order[i].stage.id - 1),
                     (unsigned long long)order[i].microbatch);
    *mark = true;
  }
  ovl_memory_free(&p->memory, seen);
  return r;
}

static int copy_order(ovl_pipeline_t *p, const ovl_op_id_t *order, size_t count, ovl_order_list_t *list) {
  *list = (ovl_order_list_t){0};
  if (count == 0)
    return 0;
  list->refs = ovl_memory_array(&p->memory, count, sizeof *list->refs);
  if (list->refs == NULL)
    return ovl_refuse(p, OVL_ENOMEM, "set_order: no memory for an order of %zu ops", count);
  for (size_t i = 0; i < count; i++)
    list->refs[i] = (ovl_op_ref_t){.microbatch = order[i].microbatch, .stage = order[i].stage.id - 1};
  list->count = count;
  return 0;
}

/* Do all explicit orders speak of `microbatches`? Then they can be checked together. */
static bool all_for(const ovl_pipeline_t *p, uint64_t microbatches) {
  for (uint32_t l = 0; l < p->lane_orders.count; l++)
    if (given_of(p, l)->count > 0 && given_of(p, l)->count / stages_on(p, l) != microbatches)
      return false;
  return true;
}

static int check_together(ovl_pipeline_t *p, uint64_t microbatches) {
  ovl_plan_t own;
  const ovl_plan_t *plan;
  ovl_orders_t orders;
  p->orders_checked = false;
  if (!all_for(p, microbatches))
    return 0;
  int r = ovl_pipeline_get_plan(p, &own, &plan);
  if (r != 0)
    return refuse_set_up(p, "set_order", r);
  r = ovl_pipeline_make_orders(p, "set_order", plan, microbatches, NULL, &orders);
  if (r == 0)
    ovl_orders_finish(&orders);
  ovl_pipeline_put_plan(p, &own);
  return r;
}

static int check_lane(ovl_pipeline_t *p, ovl_lane_t lane, const ovl_op_id_t *order, size_t count) {
  if (order == NULL && count > 0)
    return ovl_refuse(p, OVL_EINVAL, "set_order: order is NULL");
  if (lane.id == 0 || lane.id > p->lane_descs.count)
    return ovl_refuse(p, OVL_ENOLANE, "set_order: there is no lane %u, only %u", (unsigned)lane.id,
                      (unsigned)p->lane_descs.count);
  if (!((const ovl_lane_desc_t *)p->lane_descs.items)[lane.id - 1].fixed)
    return ovl_refuse(p, OVL_EINVAL, "set_order: the order of lane \"%.100s\" is not OVL_ORDER_FIXED",
                      ovl_lane_name(p, lane.id - 1));
  if (ovl_pipeline_is_busy(p))
    return ovl_refuse(p, OVL_EBUSY, "set_order: a run is in flight");
  return count > 0 ? check_complete(p, lane.id - 1, order, count) : 0;
}

int ovl_pipeline_set_order(ovl_pipeline_t *p, ovl_lane_t lane, const ovl_op_id_t *order, size_t count) {
  if (p == NULL)
    return OVL_EINVAL;
  ovl_order_list_t fresh, before;
  int r = check_lane(p, lane, order, count);
  if (r == 0)
    r = copy_order(p, order, count, &fresh);
  if (r != 0)
    return r;
  ovl_order_list_t *kept = given_of(p, lane.id - 1);
  before = *kept;
  *kept = fresh;
  if (count > 0)
    r = check_together(p, count / stages_on(p, lane.id - 1));
  if (r != 0)
    *kept = before;
  ovl_memory_free(&p->memory, r != 0 ? fresh.refs : before.refs);
  p->orders_checked = false;
  ovl_pipeline_drop_orders(p); /* made from what was given before */
  return r != 0 ? r : ovl_accept(p);
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

/* FNV-1a over the bytes of a number (Fowler, Noll, Vo; 64 bits). */
static void mix(uint64_t *hash, uint64_t number) {
  for (int byte = 0; byte < 8; byte++) {
    *hash = (*hash ^ (number & 0xff)) * UINT64_C(0x100000001b3);
    number >>= 8;
  }
}

static void mix_lanes(const ovl_pipeline_t *p, const ovl_order_groups_t *groups, uint64_t *hash) {
  const ovl_lane_desc_t *lanes = p->lane_descs.items;
  mix(hash, p->lane_descs.count);
  for (uint32_t l = 0; l < p->lane_descs.count; l++) {
    mix(hash, lanes[l].width);
    mix(hash, lanes[l].fixed);
    mix(hash, groups->lane_of[l]);
  }
}

static void mix_stages(const ovl_pipeline_t *p, uint64_t *hash) {
  const ovl_stage_desc_t *stages = p->stage_descs.items;
  const ovl_dependency_t *d = p->dependencies.items;
  mix(hash, p->stage_descs.count);
  for (uint32_t s = 0; s < p->stage_descs.count; s++) {
    mix(hash, stages[s].lane);
    mix(hash, (uint64_t)stages[s].chained * 2 + stages[s].always);
    mix(hash, cost_of(p, s)->ns);
  }
  mix(hash, p->dependencies.count);
  for (uint32_t i = 0; i < p->dependencies.count; i++) {
    mix(hash, d[i].before);
    mix(hash, d[i].after);
    mix(hash, d[i].distance);
  }
}

static void mix_list(uint64_t *hash, const ovl_order_list_t *list) {
  mix(hash, list->count);
  for (uint64_t i = 0; i < list->count; i++) {
    mix(hash, list->refs[i].microbatch);
    mix(hash, list->refs[i].stage);
  }
}

/* Hints from callbacks are no part of the description: the orders that follow from them are compared, those of device lanes
 * across all of a sync domain. */
static int mix_orders(ovl_pipeline_t *p, uint64_t microbatches, const ovl_order_groups_t *groups,
                      uint64_t *hash) {
  ovl_plan_t own;
  const ovl_plan_t *plan;
  ovl_orders_t orders;
  int r = ovl_pipeline_get_plan(p, &own, &plan);
  if (r != 0)
    return refuse_set_up(p, "fingerprint", r);
  r = ovl_pipeline_make_orders(p, "fingerprint", plan, microbatches, groups, &orders);
  for (uint32_t l = 0; r == 0 && l < orders.lane_count; l++)
    mix_list(hash, &orders.lanes[l].list);
  if (r == 0)
    ovl_orders_finish(&orders);
  ovl_pipeline_put_plan(p, &own);
  return r;
}

uint64_t ovl_pipeline_fingerprint(ovl_pipeline_t *p, uint64_t microbatches) {
  if (p == NULL)
    return 0;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  bool counted = p->mode == OVL_OVERLAP && microbatches != OVL_STREAMING;
  ovl_order_groups_t groups;
  int r = ovl_devices_group(p, &groups);
  if (r != 0) {
    refuse_set_up(p, "fingerprint", r);
    return 0;
  }
  mix(&hash, microbatches);
  mix(&hash, (uint64_t)p->mode);
  mix(&hash, ovl_pipeline_effective_window(p));
  mix_lanes(p, &groups, &hash);
  mix_stages(p, &hash);
  if (counted)
    r = mix_orders(p, microbatches, p->device_lanes > 0 ? &groups : NULL, &hash);
  ovl_memory_free(&p->memory, (void *)(uintptr_t)groups.lane_of);
  if (r != 0)
    return 0;
  ovl_accept(p);
  return hash != 0 ? hash : 1;
}
