/* SPDX-License-Identifier: MIT */
/* The inside of the stand-in: nodes, each of which waits for earlier ones, and who holds what. All of it is protected
 * by the one mutex that call_begin() takes.
 *
 *   calls.c        threads, and what is around each call
 *   nodes.c        what is put down, what it comes after, and races
 *   hosts.c        how far each host has come: full queues, and modules that are loaded
 *   progress.c     what begins and ends next: hardware queues, priorities, room on a device
 *   collectives.c  communicators, and where their ranks meet
 *   deadlock.c     who waits for whom for ever
 *   streams.c, events.c, capture.c, graphs.c    CUDA's calls */
#ifndef TEST_SUPPORT_STAND_IN_MACHINE_H
#define TEST_SUPPORT_STAND_IN_MACHINE_H

#include <pthread.h>
#include <stdbool.h>

#include "support/cuda_stand_in/stand_in.h"

enum {
  STREAMS = 24,
  DEPS = STREAMS + 2,
  NODES = 16384,
  WORKS = 2048,
  GRAPH_NODES = 512,
  CAPTURES = 64,
  UNITS = 16,
  COMMUNICATORS = 8,
  MEETINGS = 1024,
  WORDS = 2048
};

/* A set of earlier nodes. */
typedef struct deps {
  uint32_t at[DEPS];
  uint32_t count;
} deps_t;

/* What a node has of the stream that it was put on. */
typedef struct place {
  int device, priority;
  uint32_t stream;
} place_t;

/* CALLED: its host is still on its way there. */
typedef enum node_state { NODE_CALLED, NODE_ISSUED, NODE_RUNNING, NODE_DONE } node_state_t;

/* A work, or where streams meet. */
typedef struct node {
  deps_t deps;
  place_t place;
  int host;
  uint32_t work;    /* 1 + its index; 0: none */
  uint32_t meeting; /* 1 + its index, if it is a part of a collective; else 0 */
  node_state_t state;
  bool has_turn;     /* in its hardware queue; said by progress.c */
  uint64_t units;    /* of its device that it holds or held last, a bit each */
  uint64_t earliest; /* when its host came there */
  uint64_t start, end;
  uint64_t after[WORKS / 64]; /* works that it comes after, itself included */
} node_t;

typedef struct communicator {
  uint32_t ranks;
  uint32_t calls[STAND_IN_RANKS]; /* of each rank */
  deps_t
      tails[STAND_IN_RANKS]; /* the last part of each rank: one follows the other, whatever their streams */
  bool lost[STAND_IN_RANKS], aborted[STAND_IN_RANKS];
} communicator_t;

/* The n-th call of each rank of a communicator. */
typedef struct meeting {
  uint32_t communicator, number;
  uint32_t parts[STAND_IN_RANKS]; /* 1 + the node; 0: that rank has not called */
  bool complete;                  /* all have come; that stays so */
  uint64_t start, value;          /* when it is complete: since when, and what its parts write */
} meeting_t;

/* A thread that calls. */
typedef struct host {
  uint32_t next;         /* all its nodes before this one have been issued */
  uint32_t waited;       /* 1 + the last node that it waited at */
  uint64_t time;         /* when the last load of it ended */
  const char *waits_for; /* NULL: nothing */
} host_t;

typedef struct hardware_queue {
  bool taken;    /* by one that has its turn */
  uint64_t time; /* when the last one began */
} hardware_queue_t;

typedef struct capture {
  cudaStream_t origin;
  enum cudaStreamCaptureMode mode;
  pthread_t thread;
  bool active, invalid;
  struct CUgraph_st *graph; /* until it ends */
} capture_t;

struct CUstream_st {
  place_t place;
  bool made, blocking;
  deps_t tail;        /* the last node of it, if any */
  capture_t *capture; /* NULL: it does not capture */
  deps_t captured;    /* what the next node of the graph will depend on */
};

struct CUevent_st {
  int device;
  unsigned flags;
  deps_t snapshot; /* empty before it is recorded */
  bool recorded;
  uint64_t at;        /* when it was recorded, in the device's time so far */
  capture_t *capture; /* that it was last recorded in, perhaps ended; NULL: it was not */
};

struct CUgraph_st {
  uint32_t count;
  struct graph_node {
    stand_in_work_t work;
    place_t place;
    deps_t deps;
  } nodes[GRAPH_NODES];
};

struct CUgraphExec_st {
  bool own_priorities;
  struct CUgraph_st graph;
};

typedef struct machine {
  uint64_t random;
  bool held_back, in_time;
  node_t nodes[NODES];
  uint32_t node_count, first_left; /* all before first_left are done */
  stand_in_work_t works[WORKS];
  uint32_t work_count;
  host_t hosts[STAND_IN_HOSTS];
  communicator_t communicators[COMMUNICATORS];
  uint32_t communicator_count;
  meeting_t meetings[MEETINGS];
  uint32_t meeting_count;
  uint32_t races, mismatches, waits_of_host, calls_inside;
  uint64_t time;
  uint64_t cells[STAND_IN_CELLS];
  struct CUstream_st streams[STREAMS];
  struct CUstream_st legacy[STAND_IN_DEVICES];
  capture_t captures[CAPTURES];
  uint32_t capture_count;
  uint32_t queue;                    /* works that a device takes */
  uint32_t queued[STAND_IN_DEVICES]; /* issued and not done */
  uint32_t connections;              /* hardware queues of a device; 0: one for each stream */
  hardware_queue_t queues[STAND_IN_DEVICES][STREAMS];
  uint32_t room;                         /* units of a device; 0: as many as wanted */
  uint64_t held_units[STAND_IN_DEVICES]; /* a bit each */
  uint64_t free_at[STAND_IN_DEVICES][UNITS];
  uint64_t idle_at[STAND_IN_DEVICES]; /* the end of the last node so far */
  uint64_t loaded[STAND_IN_DEVICES];  /* modules, a bit each */
  int broken[STAND_IN_DEVICES];       /* the error that stopped it */
  bool contexts[STAND_IN_DEVICES];
  uint32_t held; /* streams, events and graphs that somebody has to destroy */
  char words[WORDS];
} machine_t;

/* What CUDA keeps for each thread. */
typedef struct thread_state {
  uint64_t epoch;
  int device;
  enum cudaStreamCaptureMode mode;
  cudaError_t last_error;
  int host;    /* whose calls it makes */
  bool inside; /* a host function, where no call is allowed */
} thread_state_t;

extern machine_t machine;

/* Ends the process if it does not hold: a test's own failure would leave the mutex locked. */
#define insist(condition) insist_that(condition, #condition)
void insist_that(bool holds, const char *words);

/* ---- calls.c ---- */

void machine_lock(void);
void machine_unlock(void);

/* Around each call. begin: takes the mutex, lets the device go on a little, and says what stopped the current device,
 * if anything did. end: keeps an error as the thread's last, and returns it. */
cudaError_t call_begin(void);
cudaError_t call_end(cudaError_t code);
thread_state_t *this_thread(void);

/* 0, or what stopped that device. */
cudaError_t health(int device);

uint64_t next_random(void);
uint64_t mix(uint64_t sum, uint64_t number);

/* ---- nodes.c ---- */

void deps_add(deps_t *deps, uint32_t node);
void deps_add_all(deps_t *deps, const deps_t *more);
void deps_set(deps_t *deps, uint32_t node);

/* Puts a node down that waits for `deps`; work may be NULL. Its number. */
uint32_t put_node(const place_t *place, const deps_t *deps, const stand_in_work_t *work);

bool comes_after(const node_t *node, uint32_t work);
const stand_in_work_t *work_of(const node_t *node); /* NULL: none */

/* ---- hosts.c ---- */

/* Each issues what it can. */
void hosts_go_on(void);

/* ---- progress.c ---- */

/* Begins or ends one node that can, chosen by the seed. False: there is none. */
bool run_some(void);

/* The same as run_some would find, and nothing happens. */
bool can_go_on(void);

bool deps_are_done(const node_t *node);

/* ---- collectives.c ---- */

/* 0, or why the work cannot be launched. */
cudaError_t check_collective(const stand_in_work_t *work);

/* The node is a part of a collective: where it meets others, and the part of its rank that it follows. */
void collective_order(const stand_in_work_t *work, deps_t *deps);
void collective_join(node_t *node, const stand_in_work_t *work);

/* It is complete, or this rank was aborted; true of other nodes. */
bool collective_can_end(const node_t *node);
bool collective_is_lost(const node_t *node);
bool collective_is_aborted(const node_t *node);

/* The part has begun. */
void collective_arrive(const node_t *node);

/* The rank's part runs, or ran, as one of the collective. */
bool collective_has(const meeting_t *meeting, uint32_t rank);

/* ---- streams.c ---- */

/* NULL and cudaStreamLegacy as the legacy stream of the current device; NULL: no stream. */
cudaStream_t stream_of(cudaStream_t handle);
bool is_legacy(const struct CUstream_st *stream);

/* What comes next on the stream waits for this, legacy rules included. */
deps_t deps_of_next(const struct CUstream_st *stream);

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
