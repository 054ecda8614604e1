/* SPDX-License-Identifier: MIT */
/* Devices, streams and events, as CUDA's calls. */
#include <stdlib.h>

#include "support/cuda_stand_in/machine.h"

enum { GREATEST_PRIORITY = -5 };

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Since CUDA 12 it makes the context at once. */
cudaError_t cudaSetDevice(int device) {
  if (device >= 0 && device < STAND_IN_DEVICES)
    this_thread()->device = device;
  cudaError_t code = call_begin();
  return call_end(device == this_thread()->device ? code : cudaErrorInvalidDevice);
}

cudaError_t cudaGetLastError(void) {
  cudaError_t stopped = call_begin(), last = this_thread()->last_error;
  this_thread()->last_error = cudaSuccess;
  return call_end(stopped) != cudaSuccess ? stopped : last;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

bool is_legacy(const struct CUstream_st *stream) { return stream == &machine.legacy[stream->device]; }

cudaStream_t stream_of(cudaStream_t handle) {
  if (handle == NULL || handle == cudaStreamLegacy)
    return &machine.legacy[this_thread()->device];
  return handle->made ? handle : NULL;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = GREATEST_PRIORITY;
  return call_end(call_begin());
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
  cudaError_t code = call_begin();
  uint32_t free = 0;
  while (free < STREAMS && machine.streams[free].made)
    free++;
  insist(free < STREAMS);
  if (code == cudaSuccess) {
    machine.streams[free] = (struct CUstream_st){.device = this_thread()->device,
                                                 .made = true,
                                                 .blocking = flags == cudaStreamDefault,
                                                 .priority = priority};
    *stream = &machine.streams[free];
    machine.held++;
  }
  return call_end(code);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaError_t code = call_begin();
  insist(stream->made);
  stream->made = false;
  machine.held--;
  return call_end(code);
}

/* The legacy stream and the blocking ones wait for each other. */
deps_t deps_of_next(const struct CUstream_st *stream) {
  deps_t deps = stream->tail;
  if (stream->blocking)
    deps_add_all(&deps, &machine.legacy[stream->device].tail);
  for (int s = 0; is_legacy(stream) && s < STREAMS; s++)
    if (machine.streams[s].made && machine.streams[s].blocking && machine.streams[s].device == stream->device)
      deps_add_all(&deps, &machine.streams[s].tail);
  return deps;
}

static cudaError_t launch(cudaStream_t stream, const stand_in_work_t *work) {
  if (stream == NULL || stream->device != this_thread()->device)
    return cudaErrorInvalidResourceHandle;
  cudaError_t code = check_stream(stream);
  if (code != cudaSuccess || stream->capture != NULL)
    return code != cudaSuccess ? code : capture_work(stream, work);
  deps_t deps = deps_of_next(stream);
  deps_set(&stream->tail, put_node(stream->device, &deps, work));
  return cudaSuccess;
}

cudaError_t stand_in_launch(cudaStream_t stream, const stand_in_work_t *work) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : launch(stream_of(stream), work));
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  cudaError_t code = call_begin();
  if (code == cudaSuccess) {
    *event = malloc(sizeof **event);
    insist(*event != NULL);
    **event = (struct CUevent_st){.device = this_thread()->device, .flags = flags};
    machine.held++;
  }
  return call_end(code);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaError_t code = call_begin();
  free(event);
  machine.held--;
  return call_end(code);
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  if (stream == NULL || stream->device != event->device)
    return cudaErrorInvalidResourceHandle;
  cudaError_t code = check_stream(stream);
  if (code == cudaSuccess)
    code = health(stream->device);
  if (code != cudaSuccess)
    return code;
  event->capture = stream->capture;
  event->snapshot = stream->capture != NULL ? stream->captured : deps_of_next(stream);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : record(event, stream_of(stream)));
}

static cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
  if (stream == NULL)
    return cudaErrorInvalidResourceHandle;
  cudaError_t code = check_stream(stream);
  if (code == cudaSuccess)
    code = health(stream->device);
  if (code != cudaSuccess)
    return code;
  if (stream->capture != NULL || event->capture != NULL)
    return capture_wait(stream, event);
  deps_t deps = deps_of_next(stream);
  deps_add_all(&deps, &event->snapshot);
  deps_set(&stream->tail, put_node(stream->device, &deps, NULL));
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  cudaError_t code = call_begin();
  (void)flags;
  return call_end(code != cudaSuccess ? code : wait(stream_of(stream), event));
}

static cudaError_t query(cudaEvent_t event) {
  if (event->capture != NULL) {
    invalidate(event->capture);
    return cudaErrorCapturedEvent;
  }
  cudaError_t code = check_unsafe_call();
  if (code == cudaSuccess)
    code = health(event->device);
  for (uint32_t i = 0; code == cudaSuccess && i < event->snapshot.count; i++)
    if (!machine.nodes[event->snapshot.at[i]].done)
      code = cudaErrorNotReady;
  return code;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : query(event));
}
