/* SPDX-License-Identifier: MIT */
/* OpenCL has no event that can be recorded anew: each marker comes with a new cl_event. So the table's event is a place
 * for the last one, and a wait keeps to the one that was there when it was put on its queue. */
#include "opencl/backend_opencl.h"

#include <stdlib.h>
#include <uv.h>

typedef struct event {
  uv_mutex_t mutex; /* protects `last`: it may be replaced while another thread asks for it */
  cl_event last;    /* owned; NULL: never recorded */
} event_t;

static int event_create(void *context, int timing, void **event) {
  (void)context;
  (void)timing; /* the queue's property decides, not the event */
  event_t *made = calloc(1, sizeof *made);
  if (made == NULL)
    return OVL_ENOMEM;
  int status = uv_mutex_init(&made->mutex);
  if (status != 0) {
    free(made);
    return status;
  }
  *event = made;
  return 0;
}

/* Queues hold the marker and what waits for it themselves, for as long as they need it. */
static void event_destroy(void *context, void *event) {
  (void)context;
  event_t *gone = event;
  if (gone->last != NULL)
    (void)clReleaseEvent(gone->last); /* there is nobody to tell */
  uv_mutex_destroy(&gone->mutex);
  free(gone);
}

/* The new record becomes the event's own, and the one before is let go. */
static cl_int replace(event_t *event, cl_event made) {
  uv_mutex_lock(&event->mutex);
  cl_event before = event->last;
  event->last = made;
  uv_mutex_unlock(&event->mutex);
  return before != NULL ? clReleaseEvent(before) : CL_SUCCESS;
}

/* The last record, for the caller to release; *last NULL: there is none. */
static cl_int retain(event_t *event, cl_event *last) {
  uv_mutex_lock(&event->mutex);
  *last = event->last;
  cl_int code = *last != NULL ? clRetainEvent(*last) : CL_SUCCESS;
  uv_mutex_unlock(&event->mutex);
  return code;
}

/* 0; OVL_EINVAL: ops of its lane could overtake each other; or OpenCL's code. */
static int check_order(cl_command_queue queue) {
  cl_command_queue_properties properties;
  cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (code != CL_SUCCESS)
    return backend_opencl_code(code);
  return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0 ? OVL_EINVAL : 0;
}

/* Another queue, or the host, may wait for it from now on: so it must be on its way to the device, which nothing but a
 * flush promises. */
static int event_record(void *context, void *event, void *stream) {
  (void)context;
  cl_event made;
  int result = check_order(stream);
  if (result != 0)
    return result;
  cl_int code = clEnqueueMarkerWithWaitList(stream, 0, NULL, &made);
  if (code != CL_SUCCESS)
    return backend_opencl_code(code);
  code = clFlush(stream);
  cl_int replaced = replace(event, made);
  return backend_opencl_code(code != CL_SUCCESS ? code : replaced);
}

static int stream_wait(void *context, void *stream, void *event) {
  (void)context;
  cl_event last;
  cl_int code = retain(event, &last);
  if (code != CL_SUCCESS || last == NULL)
    return backend_opencl_code(code);
  code = clEnqueueBarrierWithWaitList(stream, 1, &last, NULL);
  cl_int released = clReleaseEvent(last);
  return backend_opencl_code(code != CL_SUCCESS ? code : released);
}

static int event_query(void *context, void *event) {
  (void)context;
  cl_event last;
  cl_int status = CL_COMPLETE, code = retain(event, &last);
  if (code != CL_SUCCESS || last == NULL)
    return backend_opencl_code(code);
  code = clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
  cl_int released = clReleaseEvent(last);
  if (code != CL_SUCCESS || released != CL_SUCCESS)
    return backend_opencl_code(code != CL_SUCCESS ? code : released);
  return backend_opencl_status(status);
}

void backend_opencl_init(ovl_device_t *device, cl_context context) {
  ovl_device_init(device);
  device->name = "opencl";
  device->sync_domain = context;
  device->event_create = event_create;
  device->event_destroy = event_destroy;
  device->event_record = event_record;
  device->stream_wait = stream_wait;
  device->event_query = event_query;
}
