/* SPDX-License-Identifier: MIT */
/* Captures, and what they forbid. */
#include <stdlib.h>

#include "support/cuda_stand_in/machine.h"

void invalidate(capture_t *capture) {
  if (capture != NULL && capture->active)
    capture->invalid = true;
}

/* ---- what is forbidden ------------------------------------------------------------------------------------------- */

/* Of its own captures a thread minds all but relaxed ones, of others' the global ones, if it is in global mode
 * itself. */
static bool forbids(const capture_t *capture, const thread_state_t *thread) {
  if (!capture->active || thread->mode == cudaStreamCaptureModeRelaxed)
    return false;
  if (pthread_equal(capture->thread, pthread_self()))
    return capture->mode != cudaStreamCaptureModeRelaxed;
  return capture->mode == cudaStreamCaptureModeGlobal && thread->mode == cudaStreamCaptureModeGlobal;
}

cudaError_t check_unsafe_call(void) {
  cudaError_t code = cudaSuccess;
  for (uint32_t c = 0; c < machine.capture_count; c++)
    if (forbids(&machine.captures[c], this_thread())) {
      invalidate(&machine.captures[c]);
      code = cudaErrorStreamCaptureUnsupported;
    }
  return code;
}

static cudaError_t check_legacy(const struct CUstream_st *legacy) {
  cudaError_t code = cudaSuccess;
  for (int s = 0; s < STREAMS; s++) {
    const struct CUstream_st *stream = &machine.streams[s];
    if (stream->made && stream->blocking && stream->capture != NULL &&
        stream->place.device == legacy->place.device) {
      invalidate(stream->capture);
      code = cudaErrorStreamCaptureImplicit;
    }
  }
  return code;
}

cudaError_t check_stream(cudaStream_t stream) {
  if (is_legacy(stream))
    return check_legacy(stream);
  return stream->capture != NULL && stream->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                                             : cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  cudaError_t code = call_begin();
  enum cudaStreamCaptureMode before = this_thread()->mode;
  if (code == cudaSuccess) {
    this_thread()->mode = *mode;
    *mode = before;
  }
  return call_end(code);
}

/* ---- capturing --------------------------------------------------------------------------------------------------- */

static cudaError_t begin(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  if (stream == NULL)
    return cudaErrorInvalidResourceHandle;
  if (is_legacy(stream))
    return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != NULL)
    return cudaErrorIllegalState;
  insist(machine.capture_count < CAPTURES);
  capture_t *capture = &machine.captures[machine.capture_count++];
  *capture = (capture_t){.origin = stream,
                         .mode = mode,
                         .thread = pthread_self(),
                         .active = true,
                         .graph = calloc(1, sizeof *capture->graph)};
  insist(capture->graph != NULL);
  machine.held++;
  stream->capture = capture;
  stream->captured.count = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : begin(stream_of(stream), mode));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  cudaError_t code = call_begin();
  const struct CUstream_st *on = stream_of(stream);
  if (code == cudaSuccess && on == NULL)
    code = cudaErrorInvalidResourceHandle;
  if (code == cudaSuccess)
    *status = on->capture == NULL    ? cudaStreamCaptureStatusNone
              : on->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
  return call_end(code);
}

cudaError_t capture_work(cudaStream_t stream, const stand_in_work_t *work) {
  struct CUgraph_st *graph = stream->capture->graph;
  insist(graph->count < GRAPH_NODES);
  graph->nodes[graph->count].work = *work;
  graph->nodes[graph->count].place = stream->place;
  graph->nodes[graph->count].deps = stream->captured;
  deps_set(&stream->captured, graph->count++);
  return cudaSuccess;
}

/* The event, the stream, or both are of a capture. A stream that waits for a captured event joins the capture. */
cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event) {
  if (event->capture == NULL) {
    invalidate(stream->capture);
    return cudaErrorStreamCaptureIsolation;
  }
  if (stream->capture != NULL && stream->capture != event->capture) {
    invalidate(stream->capture);
    invalidate(event->capture);
    return cudaErrorStreamCaptureMerge;
  }
  if (!event->capture->active)
    return cudaErrorCapturedEvent;
  if (event->capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (is_legacy(stream)) {
    invalidate(event->capture);
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream->capture == NULL)
    stream->captured.count = 0;
  stream->capture = event->capture;
  deps_add_all(&stream->captured, &event->snapshot);
  return cudaSuccess;
}

/* Does all that the capture's streams did come before what its origin does next? */
static bool joined(const capture_t *capture) {
  bool before[GRAPH_NODES] = {false};
  for (uint32_t i = 0; i < capture->origin->captured.count; i++)
    before[capture->origin->captured.at[i]] = true;
  for (uint32_t n = capture->graph->count; n-- > 0;)
    for (uint32_t d = 0; before[n] && d < capture->graph->nodes[n].deps.count; d++)
      before[capture->graph->nodes[n].deps.at[d]] = true;
  for (uint32_t n = 0; n < capture->graph->count; n++)
    if (!before[n])
      return false;
  return true;
}

static cudaError_t end(cudaStream_t stream, cudaGraph_t *graph) {
  capture_t *capture = stream != NULL ? stream->capture : NULL;
  *graph = NULL;
  if (capture == NULL)
    return cudaErrorIllegalState;
  if (capture->origin != stream) {
    invalidate(capture);
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
    return cudaErrorStreamCaptureWrongThread;
  cudaError_t code = capture->invalid   ? cudaErrorStreamCaptureInvalidated
                     : !joined(capture) ? cudaErrorStreamCaptureUnjoined
                                        : cudaSuccess;
  if (code == cudaSuccess) {
    *graph = capture->graph;
  } else {
    free(capture->graph);
    machine.held--;
  }
  capture->active = false;
  capture->graph = NULL;
  for (int s = 0; s < STREAMS; s++)
    if (machine.streams[s].capture == capture)
      machine.streams[s].capture = NULL;
  return code;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : end(stream_of(stream), graph));
}
