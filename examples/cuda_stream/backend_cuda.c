/* SPDX-License-Identifier: MIT */
/* Each entry is one call of CUDA's, but for the query, which must not disturb anybody's capture or errors.
 * Codes are passed on as they are: libovl keeps a positive one as ovl_failure_t.native. */
#include "cuda_stream/backend_cuda.h"

#include <stdio.h>

/* One for the process: its address is what counts. */
static const char domain;

static int ordinal_of(const void *context) { return ((const backend_cuda_t *)context)->ordinal; }

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int enter(void *context) { return (int)cudaSetDevice(ordinal_of(context)); }

/* Without timing it is cheaper to record and to wait for. */
static int event_create(void *context, int timing, void **event) {
  cudaEvent_t made = NULL;
  (void)context;
  int code = (int)cudaEventCreateWithFlags(&made, timing ? cudaEventDefault : cudaEventDisableTiming);
  *event = made;
  return code;
}

static void event_destroy(void *context, void *event) {
  (void)context;
  (void)cudaEventDestroy(event); /* there is nobody to tell */
}

static int event_record(void *context, void *event, void *stream) {
  (void)context;
  return backend_cuda_refuses(stream) != NULL ? OVL_EINVAL : (int)cudaEventRecord(event, stream);
}

static int stream_wait(void *context, void *stream, void *event) {
  (void)context;
  return backend_cuda_refuses(stream) != NULL ? OVL_EINVAL : (int)cudaStreamWaitEvent(stream, event, 0);
}

/* A thread that asks is perhaps new and on GPU 0, where asking would make a context that nobody needs (half a GB): so
 * the GPU is set first. While another thread captures in CUDA's global mode asking is forbidden and ends that
 * capture, unless this thread says that it knows what it does. And "not ready" must not be found later by somebody
 * who looks for the error of a kernel launch. */
static int event_query(void *context, void *event) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  int code = enter(context);
  if (code == 0)
    code = (int)cudaThreadExchangeStreamCaptureMode(&mode);
  if (code != 0)
    return code;
  code = (int)cudaEventQuery(event);
  if (code == cudaErrorNotReady)
    (void)cudaGetLastError();
  int restored = (int)cudaThreadExchangeStreamCaptureMode(&mode);
  if (code == cudaErrorNotReady)
    code = OVL_PENDING;
  return restored != 0 ? restored : code;
}

static int is_capturing(void *context, void *stream, int *capturing) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  (void)context;
  int code = (int)cudaStreamIsCapturing(stream, &status);
  *capturing = code == 0 && status == cudaStreamCaptureStatusActive;
  if (code == 0 && status == cudaStreamCaptureStatusInvalidated)
    code = cudaErrorStreamCaptureInvalidated;
  return code;
}

/* In milliseconds, of which it can tell some millionths. What ended before it began is none. */
static int elapsed(void *context, void *start, void *end, uint64_t *ns) {
  float ms = 0;
  (void)context;
  int code = (int)cudaEventElapsedTime(&ms, start, end);
  *ns = code == 0 && ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
  return code;
}

int backend_cuda_init(backend_cuda_t *cuda, int ordinal) {
  cuda->ordinal = ordinal;
  (void)snprintf(cuda->name, sizeof cuda->name, "cuda:%d", ordinal);
  ovl_device_init(&cuda->device);
  cuda->device.name = cuda->name;
  cuda->device.context = cuda;
  cuda->device.sync_domain = &domain;
  cuda->device.enter = enter;
  cuda->device.event_create = event_create;
  cuda->device.event_destroy = event_destroy;
  cuda->device.event_record = event_record;
  cuda->device.stream_wait = stream_wait;
  cuda->device.event_query = event_query;
  cuda->device.is_capturing = is_capturing;
  cuda->device.elapsed = elapsed;
  return enter(cuda);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

int backend_cuda_stream(const backend_cuda_t *cuda, backend_cuda_priority_t priority, cudaStream_t *stream) {
  int least = 0, greatest = 0; /* the greatest is the smaller number */
  int code = (int)cudaSetDevice(cuda->ordinal);
  if (code == 0)
    code = (int)cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (code == 0)
    code = (int)cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking,
                                             priority == BACKEND_CUDA_URGENT ? greatest : least);
  return code;
}

const char *backend_cuda_refuses(cudaStream_t stream) {
  if (stream == NULL)
    return "stream 0 is the legacy stream, or one of each thread: it waits for others and cannot be captured";
  if (stream == cudaStreamLegacy)
    return "cudaStreamLegacy waits for all blocking streams and cannot be captured";
  if (stream == cudaStreamPerThread)
    return "cudaStreamPerThread is another stream in each thread";
  return NULL;
}
