/* SPDX-License-Identifier: MIT */
/* Device lanes: work that is put on streams and runs there in stream order. A lane of kind OVL_LANE_DEVICE has a
 * device and a stream; its callbacks only put work on op->stream and return. What one lane's op waits for on another
 * lane of the same sync domain, the device waits for: an event is recorded behind the one, and the other's stream
 * waits for it. The host does not wait.
 *
 * A device is a table of functions, written once for each kind (CUDA, OpenCL, ...). */
#ifndef OVL_DEVICE_H
#define OVL_DEVICE_H

#include <string.h>

#include "ovl/types.h"

OVL_BEGIN_DECLS

/* The table. Entries return 0, a negative error, or the native API's own positive code, which fails the run or the
 * call with OVL_EBADRESULT and is kept as ovl_failure_t.native. `context` is handed to each of them. Streams and events
 * are whatever the device takes them for; libovl passes them on.
 *
 * event_record and stream_wait are called by the one thread that issues the device's work at that time, after `enter` on the
 * same thread: for ovl_pipeline_enqueue the caller's, in a run one of libuv's pool, each op perhaps another (and, as it starts, its own). So a stream must
 * mean the same on every thread. `enter`, event_create, event_destroy and is_capturing are called also by the threads that
 * start, enqueue and close. No lock is held, and none may wait for work on a stream. What device is current afterwards is not
 * restored.
 *
 * The table and what it points to belong to the caller and must live until the pipelines that use them are closed. Lanes
 * with one table are lanes of one device. */
typedef struct ovl_device {
  size_t size;
  const char *name; /* for messages, such as "cuda:0"; NULL: "device" */
  void *context;

  /* Devices of one domain can wait for each other's events (all of one process that CUDA knows of, say). NULL: only the
   * lanes of this device. Lanes of different domains meet on the host. */
  const void *sync_domain;

  /* Makes the device current for this thread. cudaSetDevice; nothing for OpenCL. NULL: there is nothing to do. */
  int (*enter)(void *context);

  /* Makes an event that has not been recorded. timing: not 0 if `elapsed` may be asked of it. Called by the first run and the first enqueue, after
   * `enter`. cudaEventCreateWithFlags; OpenCL: memory for a cl_event. Required. */
  int (*event_create)(void *context, int timing, void **event);

  /* Called once for each event, by ovl_pipeline_close, after `enter`; streams may still be on their way to it if the
   * pipeline was enqueued. cudaEventDestroy. Required. */
  void (*event_destroy)(void *context, void *event);

  /* The event is done when all that is on the stream by now is. Recording again is fine as soon as every wait for the
   * last time has been put on its stream. cudaEventRecord; clEnqueueMarkerWithWaitList, then clFlush. Required. */
  int (*event_record)(void *context, void *event, void *stream);

  /* What is put on the stream from now on waits for the event as last recorded, perhaps on another device of the domain.
   * cudaStreamWaitEvent; clEnqueueBarrierWithWaitList. Required. */
  int (*stream_wait)(void *context, void *stream, void *event);

  /* Is the event, as last recorded, done? 0: yes; OVL_PENDING: not yet; else the error that stopped the stream.
   * cudaEventQuery (which must not leave cudaErrorNotReady behind); clGetEventInfo. Required. Any thread. */
  int (*event_query)(void *context, void *event);

  /* *capturing: not 0 while what is put on the stream goes into a graph. cudaStreamIsCapturing. An error says that the
   * capture was invalidated. NULL: the device cannot capture. */
  int (*is_capturing)(void *context, void *stream, int *capturing);

  /* *ns: from when the stream came to `start` to when it, or another stream of the device, came to `end`, in nanoseconds; 0 if it
   * was the other way round. Both were made with timing, and are done. An error fails the op, though its work is done; there is no
   * OVL_PENDING. cudaEventElapsedTime; clGetEventProfilingInfo. Called by a thread of libuv's pool, after `enter`. NULL: the
   * device cannot tell, and OVL_DEVICE_TIMING_ALL is refused. */
  int (*elapsed)(void *context, void *start, void *end, uint64_t *ns);
} ovl_device_t;

static inline void ovl_device_init(ovl_device_t *device) {
  memset(device, 0, sizeof *device);
  device->size = sizeof *device;
}

/* What ovl_pipeline_enqueue is to put on the streams. */
typedef struct ovl_enqueue {
  size_t size;
  uint64_t microbatches; /* 0 is fine: nothing happens */
  void *const *items;    /* op->item of microbatch i is items[i]; NULL: all are NULL */
  void *
      origin; /* the stream that all of it comes after, and that comes after all of it: one of the first lane's device,
                   perhaps that lane's own. Required */
  void *const *
      lane_streams; /* by lane id - 1, for this call, instead of the lanes' own; NULL: theirs. An entry NULL: its own */
  size_t lane_count; /* of lane_streams: that of the pipeline's lanes; 0 if lane_streams is NULL */
} ovl_enqueue_t;

static inline void ovl_enqueue_init(ovl_enqueue_t *enqueue) {
  memset(enqueue, 0, sizeof *enqueue);
  enqueue->size = sizeof *enqueue;
}

/* Puts a counted run on the streams and returns, as a kernel launch does: no threads, no loop, and the host waits for
 * nothing. All lanes must be device lanes of one sync domain. The streams fork from `origin` and join it again, also when
 * a callback fails half-way. Ops are issued in the order in which ovl_pipeline_simulate starts them on the cost hints, so
 * the same call gives the same order, on every rank. Slots are reused on the device: an op that uses a slot first waits
 * for those that used it last, and all of an eager call for the eager one before it; so does a run for the eager call before it.
 *
 * While `origin` is capturing, all becomes part of the graph, always with the same shape for the same call. Events of
 * captured and of eager calls are not mixed. The first call makes the events: let it be an eager one.
 *
 * on_microbatch, on_failure, deadlines, cancel hooks and statistics have no part in it: when it returns nothing has ended.
 * The first error is kept for ovl_pipeline_failure.
 *
 * Thread: any, one call at a time, and none while a run is in flight. The first call freezes the description. A callback of it
 * may not close the pipeline, and all that changes or starts it is OVL_EBUSY there.
 * Errors: OVL_EINVAL p or enqueue is NULL, origin is NULL, a lane has no stream; OVL_ESTRUCTSIZE; OVL_EDEVICE a lane is no
 *         device lane, or they are of several domains; OVL_EBUSY; OVL_ETOOBIG; OVL_ENOMEM; OVL_EORDER as for start;
 *         OVL_ECAPTURE the capture was invalidated; what a callback or an entry of the table returned. */
OVL_EXTERN int ovl_pipeline_enqueue(ovl_pipeline_t *p, const ovl_enqueue_t *enqueue);

/* For an allocator that hands a slot's buffers on: *event is done when all is that enqueue has put down for the microbatches of
 * that slot; of its last eager call, and so of all before. Streams of the pipeline's sync domain can wait for it, and its
 * device can be asked; it is the library's, and as said until the next enqueue, run or close. It may come later than the
 * slot's own work where that ends on several lanes, or failed: then it is the end of the whole call. NULL: nothing was
 * enqueued eagerly. For runs on_microbatch says the same; what was captured has no events outside its graph.
 *
 * Thread: as for ovl_pipeline_enqueue. Errors: OVL_EINVAL p or event is NULL, or there is no such slot; OVL_EBUSY a run or an
 * enqueue is under way; OVL_EPOISONED. */
OVL_EXTERN int ovl_pipeline_slot_event(ovl_pipeline_t *p, uint32_t slot, void **event);

OVL_END_DECLS

#endif
