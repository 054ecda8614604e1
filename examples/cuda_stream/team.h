/* SPDX-License-Identifier: MIT */
/* A process for each GPU, which is what NCCL recommends with CUDA Graphs, and a page of memory that they share. */
#ifndef EXAMPLES_CUDA_STREAM_TEAM_H
#define EXAMPLES_CUDA_STREAM_TEAM_H

#include <pthread.h>
#include <stdint.h>

#define TEAM_MOST 16     /* GPUs */
#define TEAM_NUMBERS 8   /* that each member can tell the others */
#define TEAM_LETTER 1024 /* bytes that one member can tell all others */

typedef struct team_page {
  pthread_barrier_t barrier;
  uint64_t numbers[TEAM_MOST][TEAM_NUMBERS]; /* each member writes its own row; read after team_meet() */
  char letter[TEAM_LETTER];                  /* member 0 writes it */
} team_page_t;

typedef struct team {
  unsigned rank; /* which GPU, too */
  unsigned size;
  team_page_t *page;
} team_t;

/* How many GPUs there are. Asks in a process of its own: who has called CUDA must not fork. 0, CUDA's code,
 * or -1: that process failed. */
int team_count_gpus(unsigned *count);

/* Runs `member` in a process for each of `size` GPUs. When one does not return 0, the others are ended. 0, or -1. */
int team_run(unsigned size, int (*member)(const team_t *team, void *data), void *data);

/* Waits until all members are here. */
void team_meet(const team_t *team);

/* The greatest and the least of all members' numbers in that column. */
uint64_t team_most(const team_t *team, unsigned column);
uint64_t team_least(const team_t *team, unsigned column);

#endif
