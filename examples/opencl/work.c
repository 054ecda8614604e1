/* SPDX-License-Identifier: MIT */
/* Whole numbers that wrap around: the processor gets the same bits, whatever the device is. */
#include "opencl/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR 1664525u
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const char source[] = "kernel void grow(global const uint *inputs, global uint *slots, ulong input, "
                             "ulong slot, ulong rounds) {\n"
                             "  size_t i = get_global_id(0);\n"
                             "  uint x = inputs[input + i], y = 0;\n"
                             "  for (ulong r = 0; r < rounds; r++)\n"
                             "    y = y * " TEXT(FACTOR) " + x;\n"
                                                         "  slots[slot + i] = y;\n"
                                                         "}\n";

static cl_uint input_of(uint64_t microbatch, size_t i) { return (cl_uint)(microbatch * 7919 + i + 1); }

static cl_uint grown(cl_uint x, uint64_t rounds) {
  cl_uint y = 0;
  for (uint64_t r = 0; r < rounds; r++)
    y = y * FACTOR + x;
  return y;
}

static size_t count_of(const work_t *work) { return (size_t)work->plan.count; }

/* Of a microbatch, or a slot. */
static size_t bytes_of(const work_t *work) { return count_of(work) * sizeof(cl_uint); }

/* A call is quoted up to its first parenthesis: what follows are names of variables. */
int check_cl(cl_int code, const char *call) {
  if (code != CL_SUCCESS)
    fprintf(stderr, PROGRAM ": %.*s: OpenCL's error %d\n", (int)strcspn(call, "("), call, (int)code);
  return backend_opencl_code(code);
}

/* ---- set-up ---- */

int work_find(cl_device_id *device) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  cl_int code = clGetPlatformIDs(sizeof platforms / sizeof platforms[0], platforms, &count);
  if (code != CL_SUCCESS)
    return backend_opencl_code(code);
  code = CL_DEVICE_NOT_FOUND;
  for (cl_uint i = 0; i < count && i < sizeof platforms / sizeof platforms[0] && code != CL_SUCCESS; i++)
    code = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, device, NULL);
  return backend_opencl_code(code);
}

static int make_queue(work_t *work, cl_command_queue *queue) {
  cl_int code;
  *queue = clCreateCommandQueue(work->context, work->device, CL_QUEUE_PROFILING_ENABLE, &code);
  return check_cl(code, "clCreateCommandQueue");
}

static int make_queues(work_t *work) {
  cl_int code;
  work->context = clCreateContext(NULL, 1, &work->device, NULL, NULL, &code);
  int result = check_cl(code, "clCreateContext");
  if (result == 0)
    result = make_queue(work, &work->compute);
  if (result == 0)
    result = make_queue(work, &work->comm);
  return result == 0 ? make_queue(work, &work->origin) : result;
}

static int make_kernel(work_t *work) {
  cl_int code;
  const char *text = source;
  work->program = clCreateProgramWithSource(work->context, 1, &text, NULL, &code);
  int result = check_cl(code, "clCreateProgramWithSource");
  if (result == 0)
    result = CL(clBuildProgram(work->program, 1, &work->device, "", NULL, NULL));
  if (result != 0)
    return result;
  work->kernel = clCreateKernel(work->program, "grow", &code);
  return check_cl(code, "clCreateKernel");
}

static int make_buffer(work_t *work, uint64_t count, cl_mem *buffer) {
  cl_int code;
  *buffer = clCreateBuffer(work->context, CL_MEM_READ_WRITE, (size_t)count * bytes_of(work), NULL, &code);
  return check_cl(code, "clCreateBuffer");
}

static int make_memory(work_t *work) {
  size_t microbatches = (size_t)work->plan.microbatches, window = (size_t)work->plan.window;
  work->host = calloc(1, bytes_of(work));
  work->fetched = calloc(1, bytes_of(work));
  work->marks = calloc(microbatches * WORK_COMMANDS, sizeof(cl_event));
  if (work->host == NULL || work->fetched == NULL || work->marks == NULL)
    return check_cl(CL_OUT_OF_HOST_MEMORY, "calloc");
  int result = make_buffer(work, microbatches, &work->inputs);
  if (result == 0)
    result = make_buffer(work, window, &work->slots);
  return result == 0 ? make_buffer(work, microbatches, &work->results) : result;
}

static int upload_inputs(work_t *work) {
  int result = 0;
  for (uint64_t m = 0; m < work->plan.microbatches && result == 0; m++) {
    for (size_t i = 0; i < count_of(work); i++)
      work->fetched[i] = input_of(m, i);
    result = CL(clEnqueueWriteBuffer(work->comm, work->inputs, CL_TRUE, (size_t)m * bytes_of(work),
                                     bytes_of(work), work->fetched, 0, NULL, NULL));
  }
  return result;
}

int work_init(work_t *work, cl_device_id device, const work_plan_t *plan) {
  *work = (work_t){.plan = *plan, .device = device};
  int result = make_queues(work);
  if (result == 0)
    result = make_kernel(work);
  if (result == 0)
    result = make_memory(work);
  return result == 0 ? upload_inputs(work) : result;
}

/* Empties the marks. */
static void drop_marks(work_t *work) {
  for (size_t i = 0; work->marks != NULL && i < (size_t)work->plan.microbatches * WORK_COMMANDS; i++)
    if (work->marks[i] != NULL) {
      (void)CL(clReleaseEvent(work->marks[i]));
      work->marks[i] = NULL;
    }
}

/* A run that failed may have left something on a queue, which still uses the host's memory. */
static void finish_queue(cl_command_queue queue) {
  if (queue == NULL)
    return;
  (void)CL(clFinish(queue));
  (void)CL(clReleaseCommandQueue(queue));
}

static void finish_buffer(cl_mem buffer) {
  if (buffer != NULL)
    (void)CL(clReleaseMemObject(buffer));
}

void work_finish(work_t *work) {
  finish_queue(work->compute);
  finish_queue(work->comm);
  finish_queue(work->origin);
  drop_marks(work);
  finish_buffer(work->inputs);
  finish_buffer(work->slots);
  finish_buffer(work->results);
  if (work->kernel != NULL)
    (void)CL(clReleaseKernel(work->kernel));
  if (work->program != NULL)
    (void)CL(clReleaseProgram(work->program));
  if (work->context != NULL)
    (void)CL(clReleaseContext(work->context));
  free(work->host);
  free(work->fetched);
  free(work->marks);
}

/* ---- what the lanes do ---- */

/* Where OpenCL is to leave the command's event; NULL: nobody will ask. */
static cl_event *mark_of(work_t *work, uint64_t microbatch, int command) {
  return work->marking ? &work->marks[microbatch * WORK_COMMANDS + (unsigned)command] : NULL;
}

static int set_arguments(work_t *work, uint64_t microbatch, uint32_t slot) {
  const cl_ulong numbers[] = {microbatch * work->plan.count, slot * work->plan.count, work->plan.rounds};
  int result = CL(clSetKernelArg(work->kernel, 0, sizeof(cl_mem), &work->inputs));
  if (result == 0)
    result = CL(clSetKernelArg(work->kernel, 1, sizeof(cl_mem), &work->slots));
  for (cl_uint i = 0; i < 3 && result == 0; i++)
    result = CL(clSetKernelArg(work->kernel, 2 + i, sizeof(cl_ulong), &numbers[i]));
  return result;
}

int work_compute(work_t *work, uint64_t microbatch, uint32_t slot) {
  size_t count = count_of(work);
  int result = set_arguments(work, microbatch, slot);
  if (result != 0)
    return result;
  return CL(clEnqueueNDRangeKernel(work->compute, work->kernel, 1, NULL, &count, NULL, 0, NULL,
                                   mark_of(work, microbatch, WORK_KERNEL)));
}

int work_communicate(work_t *work, uint64_t microbatch, uint32_t slot) {
  size_t bytes = bytes_of(work);
  int result = CL(clEnqueueReadBuffer(work->comm, work->slots, CL_FALSE, slot * bytes, bytes, work->host, 0,
                                      NULL, mark_of(work, microbatch, WORK_READ)));
  if (result != 0)
    return result;
  return CL(clEnqueueWriteBuffer(work->comm, work->results, CL_FALSE, (size_t)microbatch * bytes, bytes,
                                 work->host, 0, NULL, mark_of(work, microbatch, WORK_WRITE)));
}

/* ---- what they took ---- */

/* From when one command of the microbatch began to when another ended. */
static int time_of(const work_t *work, uint64_t microbatch, int from, int to, uint64_t *ns) {
  const cl_event *marks = &work->marks[microbatch * WORK_COMMANDS];
  cl_ulong begin, end;
  int result =
      CL(clGetEventProfilingInfo(marks[from], CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL));
  if (result == 0)
    result = CL(clGetEventProfilingInfo(marks[to], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
  if (result == 0)
    *ns += end > begin ? end - begin : 0;
  return result;
}

int work_times(work_t *work, uint64_t *compute_ns, uint64_t *comm_ns) {
  int result = 0;
  *compute_ns = *comm_ns = 0;
  for (uint64_t m = 0; m < work->plan.microbatches && result == 0; m++) {
    result = time_of(work, m, WORK_KERNEL, WORK_KERNEL, compute_ns);
    if (result == 0)
      result = time_of(work, m, WORK_READ, WORK_WRITE, comm_ns);
  }
  *compute_ns /= work->plan.microbatches;
  *comm_ns /= work->plan.microbatches;
  drop_marks(work);
  return result;
}

/* ---- results ---- */

int work_clear_results(work_t *work) {
  const cl_uint nothing = UINT32_MAX;
  int result = CL(clEnqueueFillBuffer(work->comm, work->results, &nothing, sizeof nothing, 0,
                                      (size_t)work->plan.microbatches * bytes_of(work), 0, NULL, NULL));
  return result == 0 ? CL(clFinish(work->comm)) : result;
}

int work_check_results(work_t *work, uint64_t *wrong) {
  int result = 0;
  *wrong = 0;
  for (uint64_t m = 0; m < work->plan.microbatches && result == 0; m++) {
    result = CL(clEnqueueReadBuffer(work->comm, work->results, CL_TRUE, (size_t)m * bytes_of(work),
                                    bytes_of(work), work->fetched, 0, NULL, NULL));
    for (size_t i = 0; i < count_of(work) && result == 0; i++)
      *wrong += work->fetched[i] != grown(input_of(m, i), work->plan.rounds);
  }
  return result;
}
