/* SPDX-License-Identifier: MIT */
/* fork(), before anything of CUDA was called, and a mapping that all processes share. */
#include "cuda_stream/team.h"

#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_stream/checks.h"

static void *share(size_t size) {
  void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    perror(PROGRAM ": mmap");
  return page != MAP_FAILED ? page : NULL;
}

/* What is left to print must not be printed by both. */
static pid_t fork_flushed(void) {
  (void)fflush(NULL);
  pid_t child = fork();
  if (child < 0)
    perror(PROGRAM ": fork");
  return child;
}

static int succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS; }

/* ---- counting ---------------------------------------------------------------------------------------------------- */

int team_count_gpus(unsigned *count) {
  struct {
    int code, count; /* stays 0 without a driver */
  } *answer = share(sizeof *answer);
  int status = -1;
  pid_t child = answer != NULL ? fork_flushed() : -1;
  if (child == 0) {
    answer->code = (int)cudaGetDeviceCount(&answer->count);
    _exit(EXIT_SUCCESS);
  }
  int code = child > 0 && waitpid(child, &status, 0) == child && succeeded(status) ? answer->code : -1;
  *count = code == 0 ? (unsigned)answer->count : 0;
  if (answer != NULL)
    (void)munmap(answer, sizeof *answer);
  return code;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static int make_barrier(team_page_t *page, unsigned size) {
  pthread_barrierattr_t attributes;
  if (pthread_barrierattr_init(&attributes) != 0)
    return -1;
  int code = pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (code == 0)
    code = pthread_barrier_init(&page->barrier, &attributes, size);
  pthread_barrierattr_destroy(&attributes);
  return code == 0 ? 0 : -1;
}

static void end_others(const pid_t *children, unsigned count, pid_t but) {
  for (unsigned i = 0; i < count; i++)
    if (children[i] != but)
      (void)kill(children[i], SIGTERM);
}

/* Members wait for each other, so one that fails takes all with it. */
static int wait_for(pid_t *children, unsigned count) {
  int result = 0;
  for (unsigned left = count; left > 0; left--) {
    int status = -1;
    pid_t ended = wait(&status);
    if (!succeeded(status) && result == 0) {
      end_others(children, count, ended);
      result = -1;
    }
    for (unsigned i = 0; i < count; i++) /* its number may be given to somebody else */
      if (children[i] == ended)
        children[i] = children[--count];
  }
  return result;
}

int team_run(unsigned size, int (*member)(const team_t *team, void *data), void *data) {
  pid_t children[TEAM_MOST];
  team_t team = {.size = size, .page = share(sizeof *team.page)};
  if (team.page == NULL || make_barrier(team.page, size) != 0)
    return -1;
  for (; team.rank < size; team.rank++) {
    children[team.rank] = fork_flushed();
    if (children[team.rank] == 0)
      exit(member(&team, data) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    if (children[team.rank] < 0)
      break;
  }
  if (team.rank < size)
    end_others(children, team.rank, 0);
  int result = wait_for(children, team.rank);
  (void)munmap(team.page, sizeof *team.page);
  return team.rank < size ? -1 : result;
}

void team_meet(const team_t *team) { (void)pthread_barrier_wait(&team->page->barrier); }

uint64_t team_most(const team_t *team, unsigned column) {
  uint64_t most = 0;
  for (unsigned r = 0; r < team->size; r++)
    if (team->page->numbers[r][column] > most)
      most = team->page->numbers[r][column];
  return most;
}

uint64_t team_least(const team_t *team, unsigned column) {
  uint64_t least = UINT64_MAX;
  for (unsigned r = 0; r < team->size; r++)
    if (team->page->numbers[r][column] < least)
      least = team->page->numbers[r][column];
  return least;
}
