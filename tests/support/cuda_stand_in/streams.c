/* SPDX-License-Identifier: MIT */
/* Devices, streams, and what is launched on them, as CUDA's calls. */
#include "support/cuda_stand_in/machine.h"

enum { GREATEST_PRIORITY = -5 };

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Since CUDA 12 it makes the context at once. */
cudaError_t cudaSetDevice(int device) {
  if (device >= 0 && device < STAND_IN_DEVICES && !this_thread()->inside)
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

bool is_legacy(const struct CUstream_st *stream) { return stream == &machine.legacy[stream->place.device]; }

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
    machine.streams[free] =
        (struct CUstream_st){.place = {.device = this_thread()->device, .priority = priority, .stream = free},
                             .made = true,
                             .blocking = flags == cudaStreamDefault};
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
    deps_add_all(&deps, &machine.legacy[stream->place.device].tail);
  for (int s = 0; is_legacy(stream) && s < STREAMS; s++)
    if (machine.streams[s].made && machine.streams[s].blocking &&
        machine.streams[s].place.device == stream->place.device)
      deps_add_all(&deps, &machine.streams[s].tail);
  return deps;
}

static cudaError_t launch(cudaStream_t stream, const stand_in_work_t *work) {
  if (stream == NULL || stream->place.device != this_thread()->device)
    return cudaErrorInvalidResourceHandle;
  cudaError_t code = check_stream(stream);
  if (code == cudaSuccess)
    code = check_collective(work);
  if (code != cudaSuccess || stream->capture != NULL)
    return code != cudaSuccess ? code : capture_work(stream, work);
  deps_t deps = deps_of_next(stream);
  deps_set(&stream->tail, put_node(&stream->place, &deps, work));
  return cudaSuccess;
}

cudaError_t stand_in_launch(cudaStream_t stream, const stand_in_work_t *work) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : launch(stream_of(stream), work));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  const stand_in_work_t work = {.function = function, .data = data, .duration = STAND_IN_FUNCTION_NS};
  return stand_in_launch(stream, &work);
}
