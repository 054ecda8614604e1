/* SPDX-License-Identifier: MIT */
/* What the program has on an OpenCL device: queues, buffers, a kernel; and what its two lanes put on their queues.
 * All functions that return int return 0 or what backend_opencl_code makes of OpenCL's code, after one line on stderr. */
#ifndef EXAMPLES_OPENCL_WORK_H
#define EXAMPLES_OPENCL_WORK_H

#include "opencl/backend_opencl.h"

#define PROGRAM "opencl"

#define CL(call) check_cl((call), #call)

/* backend_opencl_code(code), after one line on stderr that names the call unless it is 0. */
int check_cl(cl_int code, const char *call);

typedef struct work_plan {
  uint64_t microbatches;
  uint64_t window;
  uint64_t count;  /* numbers of a microbatch */
  uint64_t rounds; /* of y = a y + x for each of them */
} work_plan_t;

/* The commands of a microbatch, for their times. */
enum { WORK_KERNEL, WORK_READ, WORK_WRITE, WORK_COMMANDS };

typedef struct work {
  work_plan_t plan;
  cl_device_id device;
  cl_context context;
  cl_command_queue compute, comm, origin; /* in order; they note the times of what is on them */
  cl_program program;
  cl_kernel kernel;
  cl_mem inputs;    /* of each microbatch */
  cl_mem slots;     /* what the kernel made of it, for each slot */
  cl_mem results;   /* of each microbatch: that, after it was on the host */
  cl_uint *host;    /* where it was; a microbatch, for the queue is in order */
  cl_uint *fetched; /* of a microbatch, to look at */
  cl_event *marks;  /* [microbatch][WORK_COMMANDS]; NULL: not kept */
  int marking;      /* not 0: what is put is kept in marks, which must be empty */
} work_t;

/* The first device there is. 0; or OpenCL's code: nothing can be used, and no line was printed. */
int work_find(cl_device_id *device);

/* finish is fine after both results. */
int work_init(work_t *work, cl_device_id device, const work_plan_t *plan);
void work_finish(work_t *work);

/* The callbacks' part. Runs the kernel on a microbatch's input, into the slot; and brings the slot to the host and from
 * there to where the result belongs. */
int work_compute(work_t *work, uint64_t microbatch, uint32_t slot);
int work_communicate(work_t *work, uint64_t microbatch, uint32_t slot);

/* What both took on the device, in the mean of all microbatches that were put while marking; empties the marks. */
int work_times(work_t *work, uint64_t *compute_ns, uint64_t *comm_ns);

/* Before a run: no results. After it: how many numbers are not what the processor makes of the inputs. */
int work_clear_results(work_t *work);
int work_check_results(work_t *work, uint64_t *wrong);

#endif
