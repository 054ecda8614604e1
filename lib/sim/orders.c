/* SPDX-License-Identifier: MIT */
/* Orders of fixed lanes, written down or planned along the way. */
#include "sim/orders.h"

#include <assert.h>
#include <string.h>

#include "ovl/errors.h"

/* Its ops are on another lane of the run. */
static bool is_part(const ovl_orders_t *orders, uint32_t lane) {
  return lane < orders->plan->lane_count && orders->groups[lane] != lane;
}

/* Of all lanes of the plan that make up the lane of the run. */
static uint32_t stages_of(const ovl_orders_t *orders, uint32_t lane) {
  const ovl_plan_t *plan = orders->plan;
  uint32_t count = 0;
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (orders->groups[l] == lane)
      count += plan->lane_first[l + 1] - plan->lane_first[l];
  return count;
}

/* ---- planning along the way ---------------------------------------------------------------------------------- */

static void ring_push(ovl_order_ring_t *ring, ovl_op_ref_t ref) {
  assert(ring->count < ring->capacity);
  uint32_t room = ring->capacity - ring->first;
  ring->refs[ring->count < room ? ring->first + ring->count : ring->count - room] = ref;
  ring->count++;
}

static ovl_op_ref_t ring_pop(ovl_order_ring_t *ring) {
  ovl_op_ref_t ref = ring->refs[ring->first];
  ring->first = ring->first + 1 == ring->capacity ? 0 : ring->first + 1;
  ring->count--;
  return ref;
}

/* The next start in the simulation: its lane and op. False: the simulation is over. */
static bool plan_next(ovl_orders_t *orders, uint32_t *lane, ovl_op_ref_t *ref) {
  uint64_t end;
  const ovl_core_op_t *op = ovl_sim_next(&orders->sim, &end);
  if (op == NULL)
    return false;
  *lane = op->lane;
  *ref = (ovl_op_ref_t){.microbatch = op->pub.microbatch, .stage = op->stage};
  return true;
}

/* Lets the simulation go on until it starts an op on the lane; what it starts on other planned lanes waits in
 * their rings.
 *
 * A ring has room for window' + 2 x window microbatches of its lane's stages, where window' is the run's. Let R be the
 * oldest microbatch that has not retired in the run.
 * From above: all that the asking lane has given out so far was admitted in the run, so is below R + window' (and if
 * the run has stopped, what it still looks for is). The simulation has admitted M only once all up to M - window have
 * retired in it, so have started on the asking lane, which has given them out: M - window < R + window'.
 * From below: a ring begins behind its lane's turn, whose op has not ended in the run, so is of some m >= R. What
 * comes later in the plan had not started in the simulation when m was already admitted there, so is above m - window.
 * (It may have retired in the run: skipped, while the turn waited.) */
static bool plan_until(ovl_orders_t *orders, uint32_t lane) {
  ovl_op_ref_t ref;
  uint32_t on;
  while (orders->lanes[lane].ring.count == 0) {
    if (!plan_next(orders, &on, &ref))
      return false;
    ovl_lane_order_t *to = &orders->lanes[orders->groups[on]];
    if (to->planned)
      ring_push(&to->ring, ref);
  }
  return true;
}

/* ---- giving out ---------------------------------------------------------------------------------------------- */

static bool list_next(const ovl_order_list_t *list, uint64_t *at, ovl_op_ref_t *ref) {
  if (*at == list->count)
    return false;
  *ref = list->refs[(*at)++];
  return true;
}

static bool next_in_run(void *context, ovl_core_t *core, uint32_t index, ovl_op_ref_t *ref) {
  ovl_orders_t *orders = context;
  ovl_lane_order_t *lane = &orders->lanes[index];
  if (lane->given || (lane->planned && orders->from_calls))
    return list_next(&lane->list, &lane->at, ref);
  if (!lane->planned)
    return ovl_core_next_in_microbatch(core, index, ref);
  if (!plan_until(orders, index))
    return false;
  *ref = ring_pop(&lane->ring);
  return true;
}

/* Planned lanes are loose in the simulation, so it asks for the others alone. */
static bool next_in_simulation(void *context, ovl_core_t *core, uint32_t index, ovl_op_ref_t *ref) {
  ovl_orders_t *orders = context;
  ovl_lane_order_t *lane = &orders->lanes[index];
  return lane->given ? list_next(&lane->list, &lane->sim_at, ref)
                     : ovl_core_next_in_microbatch(core, index, ref);
}

ovl_order_source_t ovl_orders_source(ovl_orders_t *orders) {
  return (ovl_order_source_t){.next = next_in_run, .context = orders};
}

/* ---- writing down -------------------------------------------------------------------------------------------- */

static void drop_lists(ovl_orders_t *orders) {
  for (uint32_t l = 0; l < orders->lane_count; l++)
    if (!orders->lanes[l].given) {
      ovl_memory_free(&orders->memory, orders->lanes[l].list.refs);
      orders->lanes[l].list = (ovl_order_list_t){0};
    }
}

static int make_lists(ovl_orders_t *orders, uint64_t count) {
  for (uint32_t l = 0; l < orders->lane_count; l++) {
    ovl_lane_order_t *lane = &orders->lanes[l];
    size_t refs;
    if (!lane->planned || is_part(orders, l))
      continue;
    if (__builtin_mul_overflow(count, stages_of(orders, l), &refs))
      return OVL_ENOMEM;
    lane->list.refs = ovl_memory_array(&orders->memory, refs, sizeof *lane->list.refs);
    if (lane->list.refs == NULL)
      return OVL_ENOMEM;
  }
  return 0;
}

static int write_down(ovl_orders_t *orders, uint64_t count) {
  ovl_op_ref_t ref;
  uint32_t on;
  drop_lists(orders);
  int r = make_lists(orders, count);
  while (r == 0 && plan_next(orders, &on, &ref)) {
    ovl_lane_order_t *to = &orders->lanes[orders->groups[on]];
    if (to->planned)
      to->list.refs[to->list.count++] = ref;
  }
  return r;
}

/* ---- a run --------------------------------------------------------------------------------------------------- */

static void begin_simulation(ovl_orders_t *orders, uint64_t count) {
  const ovl_order_source_t source = {.next = next_in_simulation, .context = orders, .loose = orders->loose};
  for (uint32_t l = 0; l < orders->lane_count; l++) {
    orders->lanes[l].at = orders->lanes[l].sim_at = 0;
    orders->lanes[l].ring.first = orders->lanes[l].ring.count = 0;
  }
  ovl_core_set_order(&orders->sim.core, &source);
  ovl_sim_begin(&orders->sim, OVL_OVERLAP, count);
}

int ovl_orders_begin(ovl_orders_t *orders, uint64_t count) {
  if (!orders->simulates)
    return 0;
  begin_simulation(orders, count);
  return orders->from_calls ? write_down(orders, count) : 0;
}

bool ovl_orders_feasible(ovl_orders_t *orders, uint64_t count, uint32_t *lane, ovl_op_ref_t *turn) {
  ovl_op_ref_t ref;
  if (!orders->simulates)
    return true;
  begin_simulation(orders, count);
  while (plan_next(orders, lane, &ref))
    ;
  const ovl_core_t *core = &orders->sim.core;
  if (ovl_core_over(core))
    return true;
  *lane = 0;
  while (!orders->lanes[*lane].given || core->lanes[*lane].exhausted)
    ++*lane;
  *turn = core->lanes[*lane].turn;
  return false;
}

/* ---- set-up -------------------------------------------------------------------------------------------------- */

static bool any_given(const ovl_plan_t *plan, const ovl_order_list_t *given) {
  for (uint32_t l = 0; l < plan->lane_count; l++)
    if (given[l].count > 0)
      return true;
  return false;
}

/* Room for what the comment on plan_until() counts. */
static int ring_init(ovl_orders_t *orders, uint32_t index, uint32_t run_window) {
  ovl_order_ring_t *ring = &orders->lanes[index].ring;
  if (orders->from_calls)
    return 0;
  if (__builtin_mul_overflow(orders->plan->window, 2u, &ring->capacity) ||
      __builtin_add_overflow(ring->capacity, run_window, &ring->capacity) ||
      __builtin_mul_overflow(ring->capacity, stages_of(orders, index), &ring->capacity))
    return OVL_ETOOBIG;
  ring->refs = ovl_memory_array(&orders->memory, ring->capacity, sizeof *ring->refs);
  return ring->refs != NULL ? 0 : OVL_ENOMEM;
}

static int lane_init(ovl_orders_t *orders, uint32_t index, const ovl_order_list_t *given, bool plan_all,
                     uint32_t run_window) {
  ovl_lane_order_t *lane = &orders->lanes[index];
  uint32_t stages = orders->plan->lane_first[index + 1] - orders->plan->lane_first[index];
  bool fixed = orders->plan->lanes[index].fixed && stages > 0;
  lane->given = fixed && given->count > 0;
  lane->planned = fixed && !lane->given && (plan_all || stages > 1);
  orders->loose[index] = lane->planned;
  orders->simulates |= lane->planned || lane->given;
  if (lane->given)
    lane->list = *given;
  return lane->planned && !is_part(orders, index) ? ring_init(orders, index, run_window) : 0;
}

/* Lanes that only the run has are planned all the same. */
static int group_init(ovl_orders_t *orders, uint32_t index, uint32_t run_window) {
  orders->lanes[index].planned = stages_of(orders, index) > 0;
  orders->simulates |= orders->lanes[index].planned;
  return orders->lanes[index].planned ? ring_init(orders, index, run_window) : 0;
}

static int tables_init(ovl_orders_t *orders, const ovl_order_groups_t *groups) {
  uint32_t count = orders->plan->lane_count;
  orders->lane_count = groups != NULL ? groups->lane_count : count;
  orders->lanes = ovl_memory_array(&orders->memory, orders->lane_count, sizeof *orders->lanes);
  orders->loose = ovl_memory_array(&orders->memory, count, sizeof *orders->loose);
  orders->groups = ovl_memory_array(&orders->memory, count, sizeof *orders->groups);
  if (orders->lanes == NULL || orders->loose == NULL || orders->groups == NULL)
    return OVL_ENOMEM;
  for (uint32_t l = 0; l < count; l++)
    orders->groups[l] = groups != NULL ? groups->lane_of[l] : l;
  return 0;
}

int ovl_orders_init(ovl_orders_t *orders, const ovl_plan_t *plan, const ovl_order_list_t *given,
                    ovl_duration_fn duration, void *context, bool from_calls,
                    const ovl_order_groups_t *groups, const ovl_memory_t *memory) {
  memset(orders, 0, sizeof *orders);
  orders->plan = plan;
  orders->memory = *memory;
  orders->from_calls = from_calls;
  uint32_t window = groups != NULL ? groups->window : plan->window;
  bool plan_all = groups != NULL || from_calls || any_given(plan, given);
  int r = tables_init(orders, groups);
  for (uint32_t l = 0; r == 0 && l < plan->lane_count; l++)
    r = lane_init(orders, l, &given[l], plan_all, window);
  for (uint32_t l = plan->lane_count; r == 0 && l < orders->lane_count; l++)
    r = group_init(orders, l, window);
  if (r == 0 && orders->simulates)
    r = ovl_sim_init(&orders->sim, plan, duration, context, &(ovl_core_options_t){0}, memory);
  if (r != 0)
    ovl_orders_finish(orders);
  return r;
}

void ovl_orders_finish(ovl_orders_t *orders) {
  if (orders->lanes != NULL)
    drop_lists(orders);
  for (uint32_t l = 0; orders->lanes != NULL && l < orders->lane_count; l++)
    ovl_memory_free(&orders->memory, orders->lanes[l].ring.refs);
  ovl_memory_free(&orders->memory, orders->groups);
  orders->groups = NULL;
  ovl_memory_free(&orders->memory, orders->lanes);
  ovl_memory_free(&orders->memory, orders->loose);
  orders->lanes = NULL;
  orders->loose = NULL;
  ovl_sim_finish(&orders->sim);
}
