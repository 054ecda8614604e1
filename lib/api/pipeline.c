/* SPDX-License-Identifier: MIT */
/* A pipeline as a thing: made, asked, freed. */
#include "api/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "api/devices.h"
#include "api/options.h"

static void *default_allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void default_release(void *context, void *memory) {
  (void)context;
  free(memory);
}

/* ---- create ------------------------------------------------------------------------------------------------ */

static int check_allocator(const ovl_allocator_t *from, ovl_memory_t *memory) {
  *memory = (ovl_memory_t){.allocate = default_allocate, .release = default_release};
  if (from == NULL)
    return 0;
  ovl_allocator_t a;
  if (ovl_options_read(&a, sizeof a, from, sizeof a) != 0)
    return ovl_refuse(NULL, OVL_ESTRUCTSIZE, "create: the allocator's size is %zu", from->size);
  if (a.allocate == NULL || a.release == NULL)
    return ovl_refuse(NULL, OVL_ECALLBACK, "create: the allocator has no %s",
                      a.allocate == NULL ? "allocate" : "release");
  *memory = (ovl_memory_t){.allocate = a.allocate, .release = a.release, .context = a.context};
  return 0;
}

static int check_options(const ovl_pipeline_options_t *from, ovl_pipeline_options_t *o) {
  ovl_pipeline_options_init(o);
  if (from == NULL)
    return 0;
  if (ovl_options_read(o, sizeof *o, from, offsetof(ovl_pipeline_options_t, compute)) != 0)
    return ovl_refuse(NULL, OVL_ESTRUCTSIZE,
                      "create: the options' size is %zu, or they have fields this library lacks", from->size);
  if (o->mode != OVL_OVERLAP && o->mode != OVL_SERIAL)
    return ovl_refuse(NULL, OVL_EOPTION, "create: no mode %d", (int)o->mode);
  if (o->on_error != OVL_ON_ERROR_STOP && o->on_error != OVL_ON_ERROR_CONTINUE)
    return ovl_refuse(NULL, OVL_EOPTION, "create: no on_error %d", (int)o->on_error);
  if (o->device_timing != OVL_DEVICE_TIMING_OFF && o->device_timing != OVL_DEVICE_TIMING_ALL)
    return ovl_refuse(NULL, OVL_EOPTION, "create: no device_timing %d", (int)o->device_timing);
  if ((o->compute == NULL) != (o->comm == NULL))
    return ovl_refuse(NULL, OVL_ECALLBACK, "create: %s is given without %s",
                      o->compute != NULL ? "compute" : "comm", o->compute != NULL ? "comm" : "compute");
  if (o->stall_ns != 0 && o->on_stall == NULL)
    return ovl_refuse(NULL, OVL_ECALLBACK, "create: stall_ns is given without on_stall");
  return 0;
}

static int add_pair(ovl_pipeline_t *p, const char *name, ovl_role_t role, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.name = stage.name = name;
  lane.role = role;
  stage.run = run;
  stage.data = p->options.data;
  int r = ovl_pipeline_add_lane(p, &lane, &stage.lane);
  return r != 0 ? r : ovl_pipeline_add_stage(p, &stage, NULL);
}

static int add_two_lanes(ovl_pipeline_t *p) {
  if (p->options.compute == NULL)
    return 0;
  int r = add_pair(p, "compute", OVL_ROLE_COMPUTE, p->options.compute);
  return r != 0 ? r : add_pair(p, "comm", OVL_ROLE_COMM, p->options.comm);
}

static int add_stall_text(ovl_pipeline_t *p) {
  if (p->options.stall_ns != 0)
    p->stall_text = ovl_memory_array(&p->memory, OVL_STALL_BYTES, 1);
  return p->options.stall_ns == 0 || p->stall_text != NULL ? 0 : OVL_ENOMEM;
}

static int refuse_memory(void) { return ovl_refuse(NULL, OVL_ENOMEM, "create: no memory"); }

int ovl_pipeline_create(ovl_pipeline_t **out, const ovl_pipeline_options_t *options) {
  ovl_memory_t memory;
  ovl_pipeline_options_t o;
  if (out == NULL)
    return ovl_refuse(NULL, OVL_EINVAL, "create: p is NULL");
  *out = NULL;
  int r = check_options(options, &o);
  if (r == 0)
    r = check_allocator(o.allocator, &memory);
  if (r != 0)
    return r;
  ovl_pipeline_t *p = ovl_memory_array(&memory, 1, sizeof *p);
  if (p == NULL)
    return refuse_memory();
  p->memory = memory;
  p->options = o;
  p->options.allocator = NULL;
  p->mode = o.mode;
  if (add_two_lanes(p) != 0 || add_stall_text(p) != 0) {
    ovl_pipeline_free(p);
    return refuse_memory();
  }
  *out = p;
  return ovl_accept(NULL);
}

/* ---- free ---------------------------------------------------------------------------------------------------- */

static void free_vector(ovl_pipeline_t *p, ovl_vector_t *vector) {
  ovl_memory_free(&p->memory, vector->items);
}

static void free_orders(ovl_pipeline_t *p) {
  ovl_order_list_t *lists = p->lane_orders.items;
  for (uint32_t l = 0; l < p->lane_orders.count; l++)
    ovl_memory_free(&p->memory, lists[l].refs);
  free_vector(p, &p->lane_orders);
}

static void free_names(ovl_pipeline_t *p, ovl_vector_t *names) {
  for (uint32_t i = 0; i < names->count; i++)
    ovl_memory_free(&p->memory, ((char **)names->items)[i]);
  free_vector(p, names);
}

void ovl_pipeline_free(ovl_pipeline_t *p) {
  const ovl_memory_t memory = p->memory;
  ovl_pipeline_drop_enqueuer(p);
  ovl_pipeline_drop_orders(p);
  if (atomic_load(&p->frozen)) {
    ovl_executor_finish(&p->exec);
    if (p->devices != NULL)
      ovl_devices_free(p->devices, &memory);
    ovl_plan_finish(p->plan, &memory);
    ovl_memory_free(&memory, p->plan);
  }
  free_vector(p, &p->lane_descs);
  free_vector(p, &p->lane_hooks);
  free_names(p, &p->lane_names);
  free_orders(p);
  free_vector(p, &p->lane_devices);
  free_vector(p, &p->stage_descs);
  free_vector(p, &p->stage_hooks);
  free_names(p, &p->stage_names);
  free_vector(p, &p->stage_costs);
  free_vector(p, &p->dependencies);
  ovl_memory_free(&memory, p->stall_text);
  ovl_memory_free(&memory, p);
}

/* ---- ask and set ------------------------------------------------------------------------------------------- */

int ovl_pipeline_set_mode(ovl_pipeline_t *p, ovl_mode_t mode) {
  if (p == NULL)
    return OVL_EINVAL;
  if (mode != OVL_OVERLAP && mode != OVL_SERIAL)
    return ovl_refuse(p, OVL_EOPTION, "set_mode: no mode %d", (int)mode);
  if (ovl_pipeline_is_busy(p))
    return ovl_refuse(p, OVL_EBUSY, "set_mode: a run is in flight");
  p->mode = mode;
  return ovl_accept(p);
}

void *ovl_pipeline_data(const ovl_pipeline_t *p) { return p != NULL ? p->options.data : NULL; }

uint32_t ovl_pipeline_window(const ovl_pipeline_t *p) {
  return p != NULL ? ovl_pipeline_effective_window(p) : 0;
}
