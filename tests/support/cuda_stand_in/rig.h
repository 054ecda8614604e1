/* SPDX-License-Identifier: MIT */
/* What tests of the CUDA backend start from: both devices of the stand-in with two streams each, a pipeline of two
 * lanes, and somebody on another thread who asks for an event. */
#ifndef TEST_SUPPORT_STAND_IN_RIG_H
#define TEST_SUPPORT_STAND_IN_RIG_H

#include "cuda_stream/backend_cuda.h"
#include "support/cuda_stand_in/stand_in.h"

enum { MICROBATCHES = 12, WINDOW = 3, COMPUTE_NS = 50, COMM_NS = 30, USE_NS = COMPUTE_NS + COMM_NS };

typedef struct rig {
  backend_cuda_t cuda[STAND_IN_DEVICES];
  cudaStream_t streams[4]; /* two of device 0, two of device 1 */
  ovl_device_t broken;     /* a copy of the first table, of which the test replaces an entry or more */
  int modules;             /* not 0: each stage has code of its own, which is not loaded */
  void (*between)(void);   /* what somebody else does before each compute op; NULL: nothing */
} rig_t;

extern rig_t rig;

/* For cmocka; device 0 is current. The second fails the test if anything is left. */
int rig_set_up(void **state);
int rig_tear_down(void **state);
void rig_start_again(uint64_t seed);

/* Compute on the first stream, comm on the second; each microbatch's is put where a missing dependency is a race. */
ovl_pipeline_t *rig_two_lanes(const ovl_device_t *device);
void rig_add(ovl_pipeline_t *p, const ovl_device_t *device, cudaStream_t stream, uint64_t cost);
int rig_enqueue(ovl_pipeline_t *p, cudaStream_t origin);
void rig_close_pipeline(ovl_pipeline_t *p);

/* The code that an eager call by this table ends with, once all has run. */
int rig_native_of(const ovl_device_t *device);

/* What is in memory after a serial run. */
uint64_t rig_serial_memory(void);

void rig_launch(cudaStream_t stream, uint64_t duration);

/* Somebody else's memset, say; and streams that it orders. */
void rig_use_the_legacy_stream(void);
void rig_make_blocking(void);

/* ---- asking for events ---- */

typedef struct rig_question {
  int (*query)(void *context, void *event); /* this entry is asked, of device 1 */
  void *event;
  int answer;
  cudaError_t last_error; /* as all below, of the thread that asked, when it had */
  enum cudaStreamCaptureMode mode;
} rig_question_t;

void rig_ask(void *question);
void rig_ask_elsewhere(rig_question_t *question); /* on another thread */

/* An entry that asks without ado. */
int rig_ask_at_once(void *context, void *event);

/* Of device 1, which is current then, behind a work that has not ended until stand_in_finish(). */
void *rig_event_ahead(cudaStream_t stream);

#endif
