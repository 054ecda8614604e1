/* SPDX-License-Identifier: MIT */
/* A device made of threads: each stream is one, which does what was put on it in order; events are real. It is what a GPU
 * is for libovl, on any machine: to try device lanes, and to see how a device is written (backend_cuda.h is one for CUDA).
 *
 * As with CUDA an event is a snapshot: a wait keeps to what was recorded when it was put on its stream, and an event that
 * was never recorded is done. Delays and a failure can be injected. */
#ifndef EXAMPLES_DEVICE_THREADS_H
#define EXAMPLES_DEVICE_THREADS_H

#include <stdint.h>
#include <uv.h>

#include "ovl.h"

typedef struct device_threads_stream device_threads_stream_t;

/* On the stream's thread, without a lock. */
typedef void (*device_threads_work_cb)(void *data);

/* All fields but the first are the device's own. */
typedef struct device_threads {
  ovl_device_t table; /* for ovl_lane_options_t.device */
  uv_mutex_t mutex;   /* protects all below, and what streams and events hold */
  uv_cond_t changed;
  device_threads_stream_t *streams;
  uint64_t delay_ns; /* before each thing that a stream does */
  uint64_t works;    /* left until the device fails */
  int code;          /* with which it fails; 0: it does not */
  int failed;        /* not 0: it has, with this code */
} device_threads_t;

/* 0, or libuv's error; then nothing is held. */
int device_threads_init(device_threads_t *device);

/* Ends all streams when they have done what is on them. No pipeline may use the device any more. */
void device_threads_finish(device_threads_t *device);

/* A new stream, which lives as long as the device. 0, or libuv's error. */
int device_threads_stream(device_threads_t *device, device_threads_stream_t **stream);

/* Puts work on the stream, as a kernel launch does. 0, OVL_ENOMEM, or what the device has failed with. Any thread. */
int device_threads_launch(device_threads_stream_t *stream, device_threads_work_cb work, void *data);

/* Waits until all that is on the stream is done. */
void device_threads_wait(device_threads_stream_t *stream);

/* From now on a stream waits for so long before each thing that it does; 0: not at all. Any thread. */
void device_threads_delay(device_threads_t *device, uint64_t delay_ns);

/* After so many more works the device fails with that code, above 0: later works are not done, and whoever asks for an
 * event is told the code. Any thread. */
void device_threads_fail(device_threads_t *device, uint64_t works, int code);

#endif
