/* SPDX-License-Identifier: MIT */
/* Events, as CUDA's calls. */
#include <stdlib.h>

#include "support/cuda_stand_in/machine.h"

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
  if (stream == NULL || stream->place.device != event->device)
    return cudaErrorInvalidResourceHandle;
  cudaError_t code = check_stream(stream);
  if (code == cudaSuccess)
    code = health(stream->place.device);
  if (code != cudaSuccess)
    return code;
  event->recorded = true;
  event->at = machine.time;
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
    code = health(stream->place.device);
  if (code != cudaSuccess)
    return code;
  if (stream->capture != NULL || event->capture != NULL)
    return capture_wait(stream, event);
  deps_t deps = deps_of_next(stream);
  deps_add_all(&deps, &event->snapshot);
  deps_set(&stream->tail, put_node(&stream->place, &deps, NULL));
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
    if (machine.nodes[event->snapshot.at[i]].state != NODE_DONE)
      code = cudaErrorNotReady;
  return code;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : query(event));
}

/* When its stream came to it. */
static uint64_t time_of(const struct CUevent_st *event) {
  uint64_t time = event->snapshot.count == 0 ? event->at : 0;
  for (uint32_t i = 0; i < event->snapshot.count; i++)
    if (machine.nodes[event->snapshot.at[i]].end > time)
      time = machine.nodes[event->snapshot.at[i]].end;
  return time;
}

static cudaError_t elapsed(float *ms, cudaEvent_t start, cudaEvent_t end) {
  const struct CUevent_st *both[] = {start, end};
  for (int i = 0; i < 2; i++)
    if (!both[i]->recorded || (both[i]->flags & cudaEventDisableTiming) || both[i]->capture != NULL ||
        both[i]->device != start->device)
      return cudaErrorInvalidResourceHandle;
  cudaError_t code = query(start);
  if (code == cudaSuccess)
    code = query(end);
  if (code == cudaSuccess)
    *ms = (float)(((double)time_of(end) - (double)time_of(start)) / 1e6);
  return code;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : elapsed(ms, start, end));
}
