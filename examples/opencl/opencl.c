/* SPDX-License-Identifier: MIT */
/* Overlaps a kernel with copies to the host and back on the queues of an OpenCL device: serially, overlapped, and
 * enqueued like a kernel launch. Each must end with the numbers that the processor gets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "opencl/work.h"
#include "parts/arguments.h"
#include "parts/report.h"

#define EXIT_SKIPPED 77

typedef enum way { WAY_SERIAL, WAY_OVERLAP, WAY_ENQUEUE, WAYS } way_t;

typedef struct program {
  work_plan_t plan;
  uint64_t repeats;
  work_t work;
  ovl_device_t device;
  ovl_pipeline_t *pipeline;
  uint64_t ns[WAYS];            /* the fastest of all repeats; 0: none yet */
  uint64_t compute_ns, comm_ns; /* of an op of the serial run, in the mean; of the fastest such mean */
} program_t;

/* ---- callbacks: they only put work on a queue ---- */

static int run_compute(ovl_op_t *op) {
  program_t *program = op->data;
  return work_compute(&program->work, op->microbatch, op->slot);
}

static int run_communicate(ovl_op_t *op) {
  program_t *program = op->data;
  return work_communicate(&program->work, op->microbatch, op->slot);
}

/* ---- describing ---- */

static int add(program_t *program, const char *name, ovl_role_t role, cl_command_queue queue, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  lane.name = name;
  lane.role = role;
  lane.kind = OVL_LANE_DEVICE;
  lane.device = &program->device;
  lane.stream = queue;
  ovl_stage_options_init(&stage);
  stage.name = name;
  stage.run = run;
  stage.data = program;
  int status = ovl_pipeline_add_lane(program->pipeline, &lane, &stage.lane);
  return status == 0 ? ovl_pipeline_add_stage(program->pipeline, &stage, NULL) : status;
}

static int describe(program_t *program) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.window = (uint32_t)program->plan.window;
  int status = ovl_pipeline_create(&program->pipeline, &options);
  if (status != 0)
    return report_failure(PROGRAM, "a pipeline", status);
  status = add(program, "compute", OVL_ROLE_COMPUTE, program->work.compute, run_compute);
  if (status == 0)
    status = add(program, "comm", OVL_ROLE_COMM, program->work.comm, run_communicate);
  return status == 0 ? 0 : report_refusal(PROGRAM, "the pipeline", program->pipeline, status);
}

/* ---- three ways ---- */

static int run(program_t *program) {
  int status = ovl_pipeline_run(program->pipeline, program->plan.microbatches);
  return status == 0 ? 0 : report_failed_run(PROGRAM, program->pipeline, status);
}

/* The call returns at once; it is the origin that comes after all of it. */
static int enqueue(program_t *program) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = program->plan.microbatches;
  call.origin = program->work.origin;
  int status = ovl_pipeline_enqueue(program->pipeline, &call);
  if (status != 0)
    return report_refusal(PROGRAM, "enqueueing", program->pipeline, status);
  return CL(clFinish(program->work.origin));
}

static int check_results(program_t *program) {
  uint64_t wrong;
  int status = work_check_results(&program->work, &wrong);
  if (status == 0 && wrong > 0) {
    fprintf(stderr, PROGRAM ": %" PRIu64 " numbers are wrong\n", wrong);
    status = -1;
  }
  return status;
}

static void keep_least(uint64_t *least, uint64_t ns) {
  if (*least == 0 || ns < *least)
    *least = ns;
}

static int go(program_t *program, way_t way) {
  int status = ovl_pipeline_set_mode(program->pipeline, way == WAY_SERIAL ? OVL_SERIAL : OVL_OVERLAP);
  if (status != 0)
    return report_refusal(PROGRAM, "the mode", program->pipeline, status);
  status = work_clear_results(&program->work);
  if (status != 0)
    return status;
  uint64_t began_ns = uv_hrtime();
  status = way == WAY_ENQUEUE ? enqueue(program) : run(program);
  keep_least(&program->ns[way], uv_hrtime() - began_ns);
  return status == 0 ? check_results(program) : status;
}

/* As any serial run, but the device keeps the times of what is put on it. */
static int go_serially(program_t *program) {
  uint64_t compute_ns = 0, comm_ns = 0;
  program->work.marking = 1;
  int status = go(program, WAY_SERIAL);
  program->work.marking = 0;
  if (status == 0)
    status = work_times(&program->work, &compute_ns, &comm_ns);
  keep_least(&program->compute_ns, compute_ns);
  keep_least(&program->comm_ns, comm_ns);
  return status;
}

static int go_all(program_t *program) {
  int status = go(program, WAY_OVERLAP); /* a device may compile its kernels when they are first used */
  program->ns[WAY_OVERLAP] = 0;
  for (uint64_t i = 0; i < program->repeats && status == 0; i++) {
    status = go_serially(program);
    if (status == 0)
      status = go(program, WAY_OVERLAP);
    if (status == 0)
      status = go(program, WAY_ENQUEUE);
  }
  return status;
}

/* ---- what is printed ---- */

static int print_device(cl_device_id device) {
  char name[256];
  cl_uint units;
  int status = CL(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
  if (status == 0)
    status = CL(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
  if (status == 0)
    printf("%s, %u compute unit%s\n", name, units,
           units == 1 ? ": if it does the copies, too, nothing overlaps" : "s");
  return status;
}

static void print_way(const program_t *program, const char *name, way_t way, uint64_t bound_ns) {
  printf("  %-12s %12.3f %12.3f %12.3f\n", name, report_ms(program->ns[way]),
         report_ratio(program->ns[way], bound_ns), report_ratio(program->ns[WAY_SERIAL], program->ns[way]));
}

static void print_report(const program_t *program) {
  const work_plan_t *plan = &program->plan;
  uint64_t bound_ns = ovl_bound_overlap(plan->microbatches, program->compute_ns, program->comm_ns);
  printf("%" PRIu64 " microbatches of %" PRIu64 " numbers, window %" PRIu64 "\n", plan->microbatches,
         plan->count, plan->window);
  printf("an op of the serial run: compute (rounds: %" PRIu64 ") %.3f ms, to the host and back %.3f ms\n",
         plan->rounds, report_ms(program->compute_ns), report_ms(program->comm_ns));
  printf("\n  %-12s %12s %12s %12s\n", "", "measured, ms", "of the bound", "speedup");
  print_way(program, "serial", WAY_SERIAL, bound_ns);
  print_way(program, "overlapped", WAY_OVERLAP, bound_ns);
  print_way(program, "enqueued", WAY_ENQUEUE, bound_ns);
  printf("  %-12s %12.3f\n", "the bound", report_ms(bound_ns));
  printf("\n  best of %" PRIu64 " runs each; all results are those of the processor\n", program->repeats);
}

/* ---- the program ---- */

static int run_on(program_t *program, cl_device_id device) {
  int status = work_init(&program->work, device, &program->plan);
  if (status == 0)
    status = print_device(device);
  if (status == 0) {
    backend_opencl_init(&program->device, program->work.context);
    status = describe(program);
  }
  if (status == 0)
    status = go_all(program);
  if (status == 0)
    print_report(program);
  ovl_pipeline_close(program->pipeline, NULL);
  work_finish(&program->work);
  return report_flush(PROGRAM, status == 0 ? EXIT_SUCCESS : EXIT_FAULT);
}

static int run_program(void *data) {
  program_t *program = data;
  cl_device_id device;
  int code = work_find(&device);
  if (code == 0)
    return run_on(program, device);
  printf(PROGRAM ": skipped, there is no OpenCL device to use (%d)\n", -code);
  return report_flush(PROGRAM, EXIT_SKIPPED);
}

int main(int argc, char **argv) {
  static program_t program = {.plan = {.microbatches = 8, .window = 3, .count = 1 << 20, .rounds = 3},
                              .repeats = 5};
  const argument_t list[] = {
      {'n', "microbatches", "N", &program.plan.microbatches, 1, 1024, "microbatches"},
      {'w', "window", "W", &program.plan.window, 1, 64, "microbatches in flight"},
      {'c', "count", "C", &program.plan.count, 1, 1 << 24, "numbers of a microbatch"},
      {'k', "rounds", "K", &program.plan.rounds, 1, 1000000, "of arithmetic for each number"},
      {'r', "repeat", "R", &program.repeats, 1, 1000, "runs of each kind, of which the fastest counts"},
  };
  const arguments_t arguments = {
      PROGRAM, "A kernel overlapped with copies on an OpenCL device. 77: there is no device.", list,
      sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, run_program, &program);
}
