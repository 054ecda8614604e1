/* SPDX-License-Identifier: MIT */
/* StarPU: a task for each operation, with explicit dependencies on the stage before, on the microbatch
 * that had the slot before, and on the lane. The caller submits as far ahead as the table allows; one
 * worker for each processor. */
#define _GNU_SOURCE /* nftw */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <starpu.h>

#include "bench_clock.h"
#include "bench_system.h"

enum { AHEAD = 16 * BENCH_MOST_WINDOW }; /* microbatches in the table */

typedef struct operation {
  const bench_work_t *work;
  uint64_t microbatch;
  uint32_t stage;
} operation_t;

/* What was submitted and not yet waited for, by microbatch. */
static struct starpu_task *tasks[AHEAD][BENCH_MOST_STAGES];
static operation_t operations[AHEAD][BENCH_MOST_STAGES];

static char home[] = "/tmp/libovl-bench-XXXXXX";

static void run_operation(void *buffers[], void *argument) {
  const operation_t *operation = argument;
  (void)buffers;
  bench_op(operation->work, operation->microbatch, operation->stage);
}

static struct starpu_codelet codelet = {.cpu_funcs = {run_operation}, .cpu_funcs_name = {"run_operation"}};

/* ---- submitting ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static struct starpu_task *task_at(uint64_t microbatch, uint32_t stage) {
  return tasks[microbatch % AHEAD][stage];
}

/* The task that was made before this one for the same lane; NULL: none. By stage within a window of
 * microbatches, see submit_all(); with one stage on the lane it is that of the microbatch before. */
static struct starpu_task *before_on_lane(const bench_work_t *work, uint64_t microbatch, uint32_t stage) {
  uint64_t first = microbatch - microbatch % work->window;
  if (work->stages <= work->lanes || microbatch > first)
    return microbatch > 0 ? task_at(microbatch - 1, stage) : NULL;
  if (stage >= work->lanes) /* the window's last microbatch in the lane's stage before */
    return task_at(least(first + work->window, work->microbatches) - 1, stage - work->lanes);
  return first > 0 ? task_at(first - 1, work->stages - work->lanes + stage) : NULL;
}

static int submit(const bench_work_t *work, uint64_t microbatch, uint32_t stage) {
  struct starpu_task *before[3], *task = starpu_task_create();
  operation_t *operation = &operations[microbatch % AHEAD][stage];
  unsigned count = 0;
  *operation = (operation_t){.work = work, .microbatch = microbatch, .stage = stage};
  task->cl = &codelet;
  task->cl_arg = operation;
  task->detach = 0;
  if ((before[count] = before_on_lane(work, microbatch, stage)) != NULL)
    count++;
  if (stage > 0)
    before[count++] = task_at(microbatch, stage - 1);
  else if (microbatch >= work->window)
    before[count++] = task_at(microbatch - work->window, work->stages - 1);
  starpu_task_declare_deps_array(task, count, before);
  tasks[microbatch % AHEAD][stage] = task;
  return starpu_task_submit(task);
}

/* Waiting frees a task. The last one is waited for first: the others are over by then. */
static int wait_for(const bench_work_t *work, uint64_t first, uint64_t end) {
  int status = 0;
  for (uint64_t i = end; i-- > first;)
    for (uint32_t s = work->stages; s-- > 0 && status == 0;)
      status = starpu_task_wait(task_at(i, s));
  return status;
}

/* A window of microbatches, stage by stage. */
static int submit_window(const bench_work_t *work, uint64_t first, uint64_t end) {
  int status = 0;
  for (uint32_t s = 0; s < work->stages; s++)
    for (uint64_t i = first; i < end && status == 0; i++)
      status = submit(work, i, s);
  return status;
}

/* When the table is full, its older half is waited for. */
static int submit_all(const bench_work_t *work) {
  uint64_t n = work->microbatches, waited = 0, window = work->window;
  int status = 0;
  for (uint64_t first = 0; first < n && status == 0; first += window) {
    if (first + window > waited + AHEAD) {
      status = wait_for(work, waited, waited + AHEAD / 2);
      waited += AHEAD / 2;
    }
    if (status == 0)
      status = submit_window(work, first, least(first + window, n));
  }
  return status == 0 ? wait_for(work, waited, n) : status;
}

static uint64_t run_starpu(const bench_work_t *work) {
  starpu_resume();
  uint64_t begun_ns = bench_now_ns();
  int status = submit_all(work);
  uint64_t elapsed_ns = bench_now_ns() - begun_ns;
  starpu_pause();
  if (status == 0)
    return elapsed_ns;
  fprintf(stderr, "bench: starpu: submitting a task gives %d\n", status);
  return 0;
}

/* ---- workers ---- */

/* StarPU writes what it measures of the machine into its home, which should not be the user's. */
static int remove_one(const char *path, const struct stat *info, int type, struct FTW *position) {
  (void)info;
  (void)type;
  (void)position;
  return remove(path);
}

static void close_starpu(void) {
  starpu_resume();
  starpu_shutdown();
  nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int open_starpu(void) {
  struct starpu_conf conf;
  unsigned processors = uv_available_parallelism();
  memcpy(home + sizeof home - 7, "XXXXXX", 6);
  if (mkdtemp(home) == NULL)
    return -1;
  setenv("STARPU_HOME", home, 1);
  setenv("STARPU_SILENT", "1", 0);
  starpu_conf_init(&conf);
  conf.ncpus = (int)(processors < BENCH_MOST_LANES ? processors : BENCH_MOST_LANES);
  conf.ncuda = conf.nopencl = 0;
  conf.sched_policy_name = "eager"; /* with two workers faster than the default */
  int status = starpu_init(&conf);
  if (status != 0)
    return status;
  starpu_pause();
  return 0;
}

const bench_system_t bench_system_starpu = {
    .name = "starpu",
    .what = "StarPU tasks with explicit dependencies, scheduler eager, one worker for each processor",
    .is_peer = true,
    .open = open_starpu,
    .close = close_starpu,
    .run = run_starpu,
};
