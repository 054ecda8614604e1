/* SPDX-License-Identifier: MIT */
/* OpenCL for device lanes: an ovl_device_t for the queues of one context.
 * Plain C on OpenCL 1.2 or later; copy this pair of files into your project.
 *
 * A stream is a cl_command_queue: in order, the default of clCreateCommandQueue. One out of order would let a lane's ops
 * overtake each other, so it is refused with OVL_EINVAL. All devices of the context are of one sync domain: their queues
 * wait for each other's events, and the host waits for none. An event that was never recorded is done. There is nothing
 * to capture: queues have no graphs.
 *
 * OpenCL's errors are negative and small, as are errno's and so libovl's: -12 is CL_MAP_FAILURE, and OVL_ENOMEM. So they
 * come out positive, as libovl has it for a native API: the run fails with OVL_EBADRESULT, and ovl_failure_t.native is
 * -code, 12 for CL_MAP_FAILURE. Callbacks do well to return backend_opencl_code(clEnqueue...). What becomes of the commands
 * behind one that failed is the implementation's to say, and the state of the marker behind them is what is passed on. */
#ifndef EXAMPLES_OPENCL_BACKEND_OPENCL_H
#define EXAMPLES_OPENCL_BACKEND_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "ovl.h"

/* The table for lanes and origins whose streams are queues of that context, which it neither retains nor releases. It
 * holds nothing. Cannot fail. */
void backend_opencl_init(ovl_device_t *device, cl_context context);

/* What a callback or an entry returns for a code of OpenCL's: 0 for CL_SUCCESS, else -code, which is positive. */
static inline int backend_opencl_code(cl_int code) { return -code; }

/* What event_query makes of a command's execution status: OVL_PENDING while it is queued, submitted or running, 0 when it
 * is complete, else what stopped it. */
static inline int backend_opencl_status(cl_int status) {
  return status > CL_COMPLETE ? OVL_PENDING : backend_opencl_code(status);
}

#endif
