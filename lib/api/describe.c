/* SPDX-License-Identifier: MIT */
/* Describing a pipeline: lanes, stages and dependencies are checked, copied and kept until they are frozen. */
#include <stdio.h>
#include <string.h>

#include "api/devices.h"
#include "api/options.h"
#include "api/pipeline.h"

/* ---- memory --------------------------------------------------------------------------------------------- */

void *ovl_vector_next(ovl_vector_t *vector, size_t size, const ovl_memory_t *memory) {
  if (vector->count == vector->capacity) {
    uint32_t capacity = vector->capacity == 0 ? 8 : vector->capacity * 2;
    void *items = capacity > vector->capacity ? ovl_memory_array(memory, capacity, size) : NULL;
    if (items == NULL)
      return NULL;
    if (vector->count > 0)
      memcpy(items, vector->items, vector->count * size);
    ovl_memory_free(memory, vector->items);
    vector->items = items;
    vector->capacity = capacity;
  }
  return (char *)vector->items + vector->count * size;
}

/* Adds a copy of the name, or "<kind> <id>"; false: no memory, and nothing was added. */
static bool add_name(ovl_pipeline_t *p, ovl_vector_t *names, const char *name, const char *kind) {
  char fallback[32];
  if (name == NULL) {
    snprintf(fallback, sizeof fallback, "%s %u", kind, (unsigned)names->count + 1);
    name = fallback;
  }
  size_t bytes = strlen(name) + 1;
  char **entry = ovl_vector_next(names, sizeof *entry, &p->memory);
  char *copy = entry != NULL ? ovl_memory_array(&p->memory, bytes, 1) : NULL;
  if (copy == NULL)
    return false;
  memcpy(copy, name, bytes);
  *entry = copy;
  names->count++;
  return true;
}

/* ---- may it be described any more? ------------------------------------------------------------------------ */

static int may_describe(ovl_pipeline_t *p, const char *call) {
  if (ovl_pipeline_is_busy(p))
    return ovl_refuse(p, OVL_EBUSY, "%s: a run is in flight", call);
  if (atomic_load(&p->frozen))
    return ovl_refuse(p, OVL_EFROZEN, "%s: the description is frozen since the first run or submit", call);
  return 0;
}

/* ---- lanes -------------------------------------------------------------------------------------------------- */

static int check_table(ovl_pipeline_t *p, const char *name, const ovl_device_t *device, ovl_device_t *table) {
  if (ovl_options_read(table, sizeof *table, device, offsetof(ovl_device_t, is_capturing)) != 0)
    return ovl_refuse(
        p, OVL_ESTRUCTSIZE,
        "add_lane: lane \"%.100s\": the device's size is %zu, or it has fields this library lacks", name,
        device->size);
  if (table->event_create == NULL || table->event_destroy == NULL || table->event_record == NULL ||
      table->stream_wait == NULL || table->event_query == NULL)
    return ovl_refuse(
        p, OVL_ECALLBACK,
        "add_lane: lane \"%.100s\": the device \"%.100s\" lacks an event_ function or stream_wait", name,
        table->name != NULL ? table->name : "device");
  if (p->options.device_timing == OVL_DEVICE_TIMING_ALL && table->elapsed == NULL)
    return ovl_refuse(p, OVL_EDEVICE,
                      "add_lane: lane \"%.100s\": device_timing, and the device \"%.100s\" has no elapsed",
                      name, table->name != NULL ? table->name : "device");
  return 0;
}

static int check_device(ovl_pipeline_t *p, const char *name, const ovl_lane_options_t *o,
                        ovl_device_t *table) {
  memset(table, 0, sizeof *table);
  if (o->kind != OVL_LANE_DEVICE) {
    if (o->device != NULL || o->stream != NULL)
      return ovl_refuse(p, OVL_EDEVICE, "add_lane: lane \"%.100s\" has a %s, but is no device lane", name,
                        o->device != NULL ? "device" : "stream");
    return 0;
  }
  if (o->device == NULL)
    return ovl_refuse(p, OVL_EDEVICE, "add_lane: device lane \"%.100s\" has no device", name);
  if (o->poll != NULL)
    return ovl_refuse(p, OVL_EDEVICE,
                      "add_lane: device lane \"%.100s\" has a poll hook: events are asked instead", name);
  if (o->width > 1)
    return ovl_refuse(p, OVL_EWIDTH, "add_lane: lane \"%.100s\": a stream has width 1, not %u", name,
                      (unsigned)o->width);
  return check_table(p, name, o->device, table);
}

static int check_lane(ovl_pipeline_t *p, const ovl_lane_options_t *options, ovl_lane_options_t *o,
                      ovl_device_t *table) {
  const char *name;
  if (ovl_options_read(o, sizeof *o, options, offsetof(ovl_lane_options_t, role)) != 0)
    return ovl_refuse(p, OVL_ESTRUCTSIZE,
                      "add_lane: the options' size is %zu, or they have fields this library lacks",
                      options->size);
  name = o->name != NULL ? o->name : "(unnamed)";
  if (o->role != OVL_ROLE_OTHER && o->role != OVL_ROLE_COMPUTE && o->role != OVL_ROLE_COMM)
    return ovl_refuse(p, OVL_EOPTION, "add_lane: lane \"%.100s\": no role %d", name, (int)o->role);
  if (o->kind != OVL_LANE_POOL && o->kind != OVL_LANE_LOOP && o->kind != OVL_LANE_DEVICE)
    return ovl_refuse(p, OVL_EOPTION, "add_lane: lane \"%.100s\": no kind %d", name, (int)o->kind);
  if (o->order != OVL_ORDER_READY && o->order != OVL_ORDER_FIXED)
    return ovl_refuse(p, OVL_EOPTION, "add_lane: lane \"%.100s\": no order %d", name, (int)o->order);
  if (o->order == OVL_ORDER_FIXED && o->width > 1)
    return ovl_refuse(p, OVL_EWIDTH, "add_lane: lane \"%.100s\": a fixed order needs width 1, not %u", name,
                      (unsigned)o->width);
  return check_device(p, name, o, table);
}

int ovl_pipeline_add_lane(ovl_pipeline_t *p, const ovl_lane_options_t *options, ovl_lane_t *lane) {
  if (p == NULL)
    return OVL_EINVAL;
  if (options == NULL || lane == NULL)
    return ovl_refuse(p, OVL_EINVAL, "add_lane: %s is NULL", options == NULL ? "options" : "lane");
  ovl_lane_options_t o;
  ovl_device_t table;
  int r = check_lane(p, options, &o, &table);
  if (r == 0)
    r = may_describe(p, "add_lane");
  if (r != 0)
    return r;
  ovl_lane_desc_t *desc = ovl_vector_next(&p->lane_descs, sizeof *desc, &p->memory);
  ovl_lane_hooks_t *hooks = ovl_vector_next(&p->lane_hooks, sizeof *hooks, &p->memory);
  ovl_order_list_t *order = ovl_vector_next(&p->lane_orders, sizeof *order, &p->memory);
  ovl_lane_device_t *device = ovl_vector_next(&p->lane_devices, sizeof *device, &p->memory);
  if (desc == NULL || hooks == NULL || order == NULL || device == NULL ||
      !add_name(p, &p->lane_names, o.name, "lane"))
    return ovl_refuse(p, OVL_ENOMEM, "add_lane: no memory for lane %u", (unsigned)p->lane_names.count + 1);
  *desc = (ovl_lane_desc_t){.width = o.width != 0 ? o.width : 1,
                            .kind = o.kind == OVL_LANE_DEVICE ? OVL_LANE_POOL : o.kind,
                            .role = o.role,
                            .fixed = o.order == OVL_ORDER_FIXED || o.kind == OVL_LANE_DEVICE};
  *device = (ovl_lane_device_t){.given = o.device, .table = table, .stream = o.stream};
  *order = (ovl_order_list_t){0};
  *hooks = (ovl_lane_hooks_t){.poll = o.poll,
                              .abort = o.abort,
                              .data = o.data,
                              .poll_max_ns = o.poll_max_ns != 0 ? o.poll_max_ns : OVL_DEFAULT_POLL_NS};
  p->lane_hooks.count++;
  p->lane_orders.count++;
  p->lane_devices.count++;
  p->device_lanes += o.device != NULL;
  lane->id = ++p->lane_descs.count;
  return ovl_accept(p);
}

/* ---- stages ------------------------------------------------------------------------------------------------- */

static int check_stage(ovl_pipeline_t *p, const ovl_stage_options_t *options, ovl_stage_options_t *o) {
  if (ovl_options_read(o, sizeof *o, options, offsetof(ovl_stage_options_t, run)) != 0)
    return ovl_refuse(p, OVL_ESTRUCTSIZE,
                      "add_stage: the options' size is %zu, or they have fields this library lacks",
                      options->size);
  const char *name = o->name != NULL ? o->name : "(unnamed)";
  if (o->lane.id == 0)
    return ovl_refuse(p, OVL_ENOLANE, "add_stage: stage \"%.100s\" names no lane", name);
  if (o->lane.id > p->lane_descs.count)
    return ovl_refuse(p, OVL_ENOLANE, "add_stage: stage \"%.100s\": there is no lane %u, only %u", name,
                      (unsigned)o->lane.id, (unsigned)p->lane_descs.count);
  if (o->cancel != NULL && ovl_pipeline_lane_device(p, o->lane.id - 1)->given != NULL)
    return ovl_refuse(p, OVL_EDEVICE,
                      "add_stage: stage \"%.100s\" is on a device lane, whose work cannot be cancelled",
                      name);
  return 0;
}

int ovl_pipeline_add_stage(ovl_pipeline_t *p, const ovl_stage_options_t *options, ovl_stage_t *stage) {
  if (p == NULL)
    return OVL_EINVAL;
  if (options == NULL)
    return ovl_refuse(p, OVL_EINVAL, "add_stage: options is NULL");
  ovl_stage_options_t o;
  int r = check_stage(p, options, &o);
  if (r == 0)
    r = may_describe(p, "add_stage");
  if (r != 0)
    return r;
  ovl_stage_desc_t *desc = ovl_vector_next(&p->stage_descs, sizeof *desc, &p->memory);
  ovl_stage_hooks_t *hooks = ovl_vector_next(&p->stage_hooks, sizeof *hooks, &p->memory);
  ovl_stage_cost_t *cost = ovl_vector_next(&p->stage_costs, sizeof *cost, &p->memory);
  if (desc == NULL || hooks == NULL || cost == NULL || !add_name(p, &p->stage_names, o.name, "stage"))
    return ovl_refuse(p, OVL_ENOMEM, "add_stage: no memory for stage %u", (unsigned)p->stage_names.count + 1);
  *desc = (ovl_stage_desc_t){
      .lane = o.lane.id - 1, .chained = !o.unchained, .always = o.always != 0, .deadline = o.timeout_ns != 0};
  *hooks = (ovl_stage_hooks_t){.run = o.run, .cancel = o.cancel, .data = o.data, .timeout_ns = o.timeout_ns};
  *cost = (ovl_stage_cost_t){.ns = o.cost_ns, .call = o.cost};
  p->stage_hooks.count++;
  p->stage_costs.count++;
  p->orders_checked = false;
  p->stage_descs.count++;
  if (stage != NULL)
    stage->id = p->stage_descs.count;
  return ovl_accept(p);
}

/* ---- dependencies ------------------------------------------------------------------------------------------- */

ovl_description_t ovl_pipeline_describe(const ovl_pipeline_t *p) {
  return (ovl_description_t){.lanes = p->lane_descs.items,
                             .stages = p->stage_descs.items,
                             .dependencies = p->dependencies.items,
                             .lane_count = p->lane_descs.count,
                             .stage_count = p->stage_descs.count,
                             .dependency_count = p->dependencies.count,
                             .window = ovl_pipeline_effective_window(p)};
}

/* Names the stages of a cycle: a -> b -> a. */
static int refuse_cycle(ovl_pipeline_t *p, const uint32_t *path, uint32_t length) {
  char text[sizeof p->error];
  size_t at = (size_t)snprintf(text, sizeof text, "add_dependency: cycle of distance 0: ");
  for (uint32_t i = 0; i <= length && at < sizeof text - 40; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%.30s\"", i == 0 ? "" : " -> ",
                           ovl_stage_name(p, path[i % length]));
  return ovl_refuse(p, OVL_ECYCLE, "%s%s", text, at < sizeof text - 40 ? "" : " ...");
}

/* A dependency of distance 0 closes a cycle if there is a way from `after` back to `before`. While all lead
 * forward there is none. */
static int check_cycle(ovl_pipeline_t *p, uint32_t before, uint32_t after) {
  if (before < after && !p->goes_back)
    return 0;
  const ovl_description_t d = ovl_pipeline_describe(p);
  uint32_t length = 0, *path = ovl_memory_array(&p->memory, d.stage_count, sizeof *path);
  int r = path != NULL ? ovl_plan_find_path(&d, after, before, &p->memory, path, &length) : OVL_ENOMEM;
  if (r != 0)
    ovl_refuse(p, r, "add_dependency: no memory to look for cycles");
  else if (length > 0)
    r = refuse_cycle(p, path, length);
  ovl_memory_free(&p->memory, path);
  return r;
}

static int check_ends(ovl_pipeline_t *p, ovl_stage_t before, ovl_stage_t after) {
  const ovl_stage_t ends[2] = {before, after};
  for (int i = 0; i < 2; i++)
    if (ends[i].id == 0 || ends[i].id > p->stage_descs.count)
      return ovl_refuse(p, OVL_ENOSTAGE, "add_dependency: `%s`: there is no stage %u, only %u",
                        i == 0 ? "before" : "after", (unsigned)ends[i].id, (unsigned)p->stage_descs.count);
  return 0;
}

int ovl_pipeline_add_dependency(ovl_pipeline_t *p, ovl_stage_t before, ovl_stage_t after, uint32_t distance) {
  if (p == NULL)
    return OVL_EINVAL;
  int r = check_ends(p, before, after);
  if (r == 0)
    r = may_describe(p, "add_dependency");
  if (r == 0 && distance == 0)
    r = check_cycle(p, before.id - 1, after.id - 1);
  if (r != 0)
    return r;
  ovl_dependency_t *next = ovl_vector_next(&p->dependencies, sizeof *next, &p->memory);
  if (next == NULL)
    return ovl_refuse(p, OVL_ENOMEM, "add_dependency: no memory");
  *next = (ovl_dependency_t){.before = before.id - 1, .after = after.id - 1, .distance = distance};
  p->dependencies.count++;
  p->orders_checked = false;
  p->goes_back |= distance == 0 && before.id >= after.id;
  return ovl_accept(p);
}

/* ---- freezing ------------------------------------------------------------------------------------------------- */

uint32_t ovl_pipeline_effective_window(const ovl_pipeline_t *p) {
  if (p->options.window != 0)
    return p->options.window;
  uint32_t lanes = p->lane_descs.count;
  return lanes == 0 ? 1 : lanes <= UINT32_MAX / 2 ? 2 * lanes : UINT32_MAX;
}

/* What freezing makes. */
typedef struct ovl_frozen {
  ovl_plan_t *plan;
  ovl_devices_t *devices;
  ovl_executor_t executor;
} ovl_frozen_t;

static int make_executor(ovl_pipeline_t *p, ovl_frozen_t *f) {
  const ovl_pipeline_options_t *o = &p->options;
  const ovl_executor_options_t options = {
      .pipeline = p,
      .stages = f->devices != NULL ? f->devices->stage_hooks : p->stage_hooks.items,
      .lanes = f->devices != NULL ? f->devices->lane_hooks : p->lane_hooks.items,
      .hooks = {.on_microbatch = o->on_microbatch,
                .on_room = o->on_room,
                .on_fault = ovl_pipeline_on_fault,
                .on_over = ovl_pipeline_on_over,
                .on_stall = ovl_pipeline_on_stall},
      .core = {.queue = o->queue != 0 ? o->queue : f->plan->window,
               .keep_going = o->on_error == OVL_ON_ERROR_CONTINUE,
               .report = o->on_microbatch != NULL,
               .tell = o->on_failure != NULL,
               .statistics = !o->no_stats,
               .trace = o->trace},
      .spin_ns = o->spin_ns,
      .stall_ns = o->stall_ns,
      .memory = &p->memory};
  return ovl_executor_init(&f->executor, f->devices != NULL ? &f->devices->plan : f->plan, &options);
}

static void throw_plans_away(ovl_pipeline_t *p, ovl_frozen_t *f) {
  if (f->devices != NULL)
    ovl_devices_free(f->devices, &p->memory);
  ovl_plan_finish(f->plan, &p->memory);
}

static int build(ovl_pipeline_t *p, ovl_frozen_t *f) {
  ovl_description_t d = ovl_pipeline_describe(p);
  if (p->device_lanes == 0 && p->options.on_microbatch == NULL)
    d.rows = ovl_ahead_rows(&d, p->stage_hooks.items, p->lane_hooks.items);
  int r = ovl_plan_init(f->plan, &d, &p->memory);
  if (r != 0)
    return r;
  if (p->device_lanes > 0)
    f->devices = ovl_devices_make(p, f->plan, &r);
  if (r == 0)
    r = make_executor(p, f);
  if (r != 0)
    throw_plans_away(p, f);
  return r;
}

static void throw_away(ovl_pipeline_t *p, ovl_frozen_t *f) {
  ovl_executor_finish(&f->executor);
  throw_plans_away(p, f);
  ovl_memory_free(&p->memory, f->plan);
}

/* False: somebody else was first. */
static bool install(ovl_pipeline_t *p, const ovl_frozen_t *f) {
  ovl_exec_lock(&p->exec);
  bool first = !atomic_load(&p->frozen);
  if (first) {
    p->plan = f->plan;
    p->devices = f->devices;
    ovl_executor_install(&p->exec, &f->executor);
    atomic_store(&p->frozen, true);
  }
  ovl_exec_unlock(&p->exec);
  return first;
}

int ovl_pipeline_freeze(ovl_pipeline_t *p) {
  if (atomic_load(&p->frozen))
    return 0;
  ovl_frozen_t f = {.plan = ovl_memory_array(&p->memory, 1, sizeof *f.plan)};
  int r = f.plan != NULL ? build(p, &f) : OVL_ENOMEM;
  if (r != 0) {
    ovl_memory_free(&p->memory, f.plan);
    return ovl_refuse(p, r, "the pipeline could not be set up: window %u, %u stages: %s",
                      (unsigned)ovl_pipeline_effective_window(p), (unsigned)p->stage_descs.count,
                      ovl_strerror(r));
  }
  if (!install(p, &f))
    throw_away(p, &f);
  return 0;
}

int ovl_pipeline_get_plan(const ovl_pipeline_t *p, ovl_plan_t *own, const ovl_plan_t **plan) {
  memset(own, 0, sizeof *own);
  *plan = atomic_load(&p->frozen) ? p->plan : own;
  if (*plan != own)
    return 0;
  const ovl_description_t d = ovl_pipeline_describe(p);
  return ovl_plan_init(own, &d, &p->memory);
}

void ovl_pipeline_put_plan(const ovl_pipeline_t *p, ovl_plan_t *own) { ovl_plan_finish(own, &p->memory); }
