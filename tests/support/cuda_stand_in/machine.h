/* SPDX-License-Identifier: MIT */
/* The inside of the stand-in: nodes, each of which waits for earlier ones, and who holds what. All of it is protected
 * by the one mutex that call_begin() takes. */
#ifndef TEST_SUPPORT_STAND_IN_MACHINE_H
#define TEST_SUPPORT_STAND_IN_MACHINE_H

#include <pthread.h>
#include <stdbool.h>

#include "support/cuda_stand_in/stand_in.h"

enum { STREAMS = 24, DEPS = STREAMS + 2, NODES = 16384, WORKS = 2048, GRAPH_NODES = 512, CAPTURES = 64 };

/* A set of earlier nodes. */
typedef struct deps {
  uint32_t at[DEPS];
  uint32_t count;
} deps_t;

/* A work, or where streams meet. */
typedef struct node {
  deps_t deps;
  int device;
  uint32_t work; /* 1 + its index; 0: none */
  uint64_t end;
  bool done;
  uint64_t after[WORKS / 64]; /* works that it comes after, itself included */
} node_t;

typedef struct capture {
  cudaStream_t origin;
  enum cudaStreamCaptureMode mode;
  pthread_t thread;
  bool active, invalid;
  struct CUgraph_st *graph; /* until it ends */
} capture_t;

struct CUstream_st {
  int device;
  bool made, blocking;
  int priority;
  deps_t tail;        /* the last node of it, if any */
  capture_t *capture; /* NULL: it does not capture */
  deps_t captured;    /* what the next node of the graph will depend on */
};

struct CUevent_st {
  int device;
  unsigned flags;
  deps_t snapshot;    /* empty before it is recorded */
  capture_t *capture; /* that it was last recorded in, perhaps ended; NULL: it was not */
};

struct CUgraph_st {
  uint32_t count;
  struct graph_node {
    stand_in_work_t work;
    int device;
    deps_t deps;
  } nodes[GRAPH_NODES];
};

struct CUgraphExec_st {
  struct CUgraph_st graph;
};

typedef struct machine {
  uint64_t random;
  bool held_back;
  node_t nodes[NODES];
  uint32_t node_count, first_left; /* all before first_left are done */
  stand_in_work_t works[WORKS];
  uint32_t work_count;
  uint32_t races, waits_of_host;
  uint64_t time;
  uint64_t cells[STAND_IN_CELLS];
  struct CUstream_st streams[STREAMS];
  struct CUstream_st legacy[STAND_IN_DEVICES];
  capture_t captures[CAPTURES];
  uint32_t capture_count;
  uint32_t queue, queued[STAND_IN_DEVICES];
  int broken[STAND_IN_DEVICES]; /* the error that stopped it */
  bool contexts[STAND_IN_DEVICES];
  uint32_t held; /* streams, events and graphs that somebody has to destroy */
} machine_t;

/* What CUDA keeps for each thread. */
typedef struct thread_state {
  uint64_t epoch;
  int device;
  enum cudaStreamCaptureMode mode;
  cudaError_t last_error;
} thread_state_t;

extern machine_t machine;

/* Ends the process if it does not hold: a test's own failure would leave the mutex locked. */
#define insist(condition) insist_that(condition, #condition)
void insist_that(bool holds, const char *words);

/* Around each call. begin: takes the mutex, lets the device go on a little, and says what stopped the current device,
 * if anything did. end: keeps an error as the thread's last, and returns it. */
cudaError_t call_begin(void);
cudaError_t call_end(cudaError_t code);
thread_state_t *this_thread(void);

/* 0, or what stopped that device. */
cudaError_t health(int device);

/* NULL and cudaStreamLegacy as the legacy stream of the current device; NULL: no stream. */
cudaStream_t stream_of(cudaStream_t handle);
bool is_legacy(const struct CUstream_st *stream);

void deps_add(deps_t *deps, uint32_t node);
void deps_add_all(deps_t *deps, const deps_t *more);
void deps_set(deps_t *deps, uint32_t node);

/* Puts a node down that waits for `deps`; work may be NULL. Its number. */
uint32_t put_node(int device, const deps_t *deps, const stand_in_work_t *work);

/* What comes next on the stream waits for this, legacy rules included. */
deps_t deps_of_next(const struct CUstream_st *stream);

/* Runs one node that can run, chosen by the seed. False: there is none. */
bool run_some(void);

/* ---- capture.c ---- */

/* Work on a stream that captures becomes a node of the graph. */
cudaError_t capture_work(cudaStream_t stream, const stand_in_work_t *work);

/* 906 if the stream is the legacy one while a blocking stream of its device captures, which ends that; 901 if its own
 * capture is invalid. */
cudaError_t check_stream(cudaStream_t stream);

cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event);

/* 900 if this thread may not make calls that a capture cannot see; captures that forbid it are invalid from then on. */
cudaError_t check_unsafe_call(void);

/* Marks it. NULL is fine. */
void invalidate(capture_t *capture);

#endif
