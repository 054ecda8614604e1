/* SPDX-License-Identifier: MIT */
/* Case 33: a process that ends, or forks, with work in flight. exit() returns once the ops that are running have
 * ended, not the run; a child that only execs is not disturbed, nor is the run by it.
 *
 * Each scenario is a process of its own, forked while this one has no threads. What it is to show it writes into
 * memory that both share; nothing is asserted in it. */
#define _GNU_SOURCE /* fopencookie */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/probe.h"

enum { WENT_WRONG = 98, RETURNED = 99, EXECUTED = 7, WIDTH = 3 };
#define FOR_EVER (UINT64_MAX - 1) /* microbatches: such a run does not end before the machine does */
#define MINUTE_NS UINT64_C(60000000000)

/* ---- what the processes share ------------------------------------------------------------------------------ */

typedef struct shared {
  atomic_uint started, ended; /* ops whose callback blocks for a while */
  atomic_uint late;           /* of them, those that started after exit() had begun */
  atomic_bool exiting;
  atomic_uint executed; /* children that ended as their command says */
} shared_t;

static shared_t *shared;

static int map_shared(void **state) {
  void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  (void)state;
  shared = memory;
  return memory != MAP_FAILED ? 0 : -1;
}

static int unmap_shared(void **state) {
  (void)state;
  return munmap(shared, sizeof *shared);
}

static void need(bool holds) {
  if (!holds)
    _exit(WENT_WRONG);
}

/* The exit code of a process that does this. */
static int run_process(void (*scenario)(void), const char *pool_size) {
  int status = 0;
  memset(shared, 0, sizeof *shared);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    need(setenv("UV_THREADPOOL_SIZE", pool_size, 1) == 0);
    scenario();
    _exit(RETURNED);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status))
    fail_msg("the process was ended by signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

/* ---- a pipeline in the process; static, so that what it holds is no leak ------------------------------------- */

static uv_loop_t loop;
static ovl_pipeline_t *pipeline;

static int work_for(unsigned ms) {
  atomic_fetch_add(&shared->started, 1);
  if (atomic_load(&shared->exiting))
    atomic_fetch_add(&shared->late, 1);
  uv_sleep(ms);
  atomic_fetch_add(&shared->ended, 1);
  return 0;
}

static int work(ovl_op_t *op) {
  (void)op;
  return work_for(5);
}

static int work_briefly(ovl_op_t *op) {
  (void)op;
  return work_for(1);
}

static int stay_pending(ovl_op_t *op) {
  (void)op;
  atomic_fetch_add(&shared->started, 1);
  atomic_fetch_add(&shared->ended, 1); /* its callback has */
  return OVL_PENDING;
}

static void poll_in_vain(ovl_pipeline_t *p, ovl_lane_t lane, void *data) {
  (void)p;
  (void)lane;
  (void)data;
}

static void add_stage(ovl_lane_kind_t kind, uint32_t width, ovl_poll_cb poll, ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.kind = kind;
  lane.width = width;
  lane.poll = poll;
  stage.run = run;
  need(ovl_pipeline_add_lane(pipeline, &lane, &stage.lane) == 0);
  need(ovl_pipeline_add_stage(pipeline, &stage, NULL) == 0);
}

static void create(ovl_microbatch_cb on_microbatch, uint64_t spin_ns) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.window = 8;
  options.spin_ns = spin_ns;
  options.on_microbatch = on_microbatch;
  need(uv_loop_init(&loop) == 0);
  need(ovl_pipeline_create(&pipeline, &options) == 0);
}

static void start(uint64_t count) { need(ovl_pipeline_start(pipeline, &loop, count, NULL) == 0); }

static void turn_until(atomic_uint *counter, unsigned count) {
  while (atomic_load(counter) < count) {
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_sleep(1);
  }
}

/* ---- exit() ------------------------------------------------------------------------------------------------------ */

/* Registered before the library's own handler, so called after it: from now on no op should start, apart from
 * those that are about to. */
static void note_exit(void) { atomic_store(&shared->exiting, true); }

static void prepare_exit(void) { need(atexit(note_exit) == 0); }

static void exit_between_turns(void) {
  prepare_exit();
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  start(FOR_EVER);
  turn_until(&shared->started, 10);
  exit(EXIT_SUCCESS);
}

/* On lanes on which runners go ahead without the lock. */
static void exit_on_plain_lanes(void) {
  prepare_exit();
  create(NULL, 0);
  for (int i = 0; i < 2; i++)
    add_stage(OVL_LANE_POOL, 1, NULL, work_briefly);
  start(FOR_EVER);
  turn_until(&shared->started, 100);
  exit(EXIT_SUCCESS);
}

static void exit_here(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)item;
  (void)status;
  if (microbatch == 10)
    exit(EXIT_SUCCESS);
}

static void exit_in_on_microbatch(void) {
  prepare_exit();
  create(exit_here, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  start(FOR_EVER);
  uv_run(&loop, UV_RUN_DEFAULT);
}

static void exit_in_a_blocking_run(void) {
  prepare_exit();
  create(exit_here, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  ovl_pipeline_run(pipeline, FOR_EVER);
}

static int exit_now(ovl_op_t *op) {
  if (op->microbatch == 5)
    exit(EXIT_SUCCESS);
  return 0;
}

static void exit_in_an_op_on_the_loop(void) {
  prepare_exit();
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  add_stage(OVL_LANE_LOOP, 1, NULL, exit_now);
  start(FOR_EVER);
  uv_run(&loop, UV_RUN_DEFAULT);
}

/* exit() writes out what is left in streams at the very last, when libuv has long ended its threads. Here that takes
 * a while, in which the loop's thread goes on as if nothing had happened. */
#ifdef __GLIBC__
static ssize_t write_slowly(void *cookie, const char *bytes, size_t count) {
  (void)cookie;
  (void)bytes;
  uv_sleep(100);
  return (ssize_t)count;
}

static void exit_slowly(void) {
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_slowly});
  need(stream != NULL && fputs("at last", stream) >= 0);
}
#else
static void exit_slowly(void) {}
#endif

static void exit_soon(void *unused) {
  (void)unused;
  while (atomic_load(&shared->started) < 10)
    uv_sleep(1);
  exit(EXIT_SUCCESS);
}

/* The loop is slow to see that its helpers are gone, and then has work for them. */
static void nap(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)microbatch;
  (void)item;
  (void)status;
  uv_sleep(5);
}

static void exit_in_another_thread(void) {
  uv_thread_t thread;
  prepare_exit();
  exit_slowly();
  create(nap, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  need(uv_thread_create(&thread, exit_soon, NULL) == 0);
  ovl_pipeline_run(pipeline, FOR_EVER);
}

/* The pool's threads have nothing to do, and look for work for a minute if they are let. */
static void exit_while_runners_spin(void) {
  prepare_exit();
  create(NULL, MINUTE_NS);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  start(OVL_STREAMING);
  for (int i = 0; i < 4; i++)
    need(ovl_pipeline_submit(pipeline, NULL) == 0);
  turn_until(&shared->ended, 4);
  exit(EXIT_SUCCESS);
}

static void exit_with_ops_pending(void) {
  prepare_exit();
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, stay_pending);
  start(FOR_EVER);
  turn_until(&shared->started, WIDTH);
  exit(EXIT_SUCCESS);
}

static void exit_while_lanes_are_polled(void) {
  prepare_exit();
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, poll_in_vain, stay_pending);
  add_stage(OVL_LANE_LOOP, WIDTH, poll_in_vain, stay_pending);
  start(FOR_EVER);
  turn_until(&shared->started, WIDTH);
  uv_sleep(5);
  exit(EXIT_SUCCESS);
}

static void exit_after_cancel(void) {
  prepare_exit();
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  start(FOR_EVER);
  turn_until(&shared->started, 10);
  need(ovl_pipeline_cancel(pipeline) == 0);
  exit(EXIT_SUCCESS);
}

/* width: of its lanes. */
static void assert_exits_of(void (*scenario)(void), unsigned width) {
  const char *const pool_sizes[] = {"1", "2", "8"};
  for (int i = 0; i < 3; i++) {
    uint64_t before = uv_hrtime();
    assert_int_equal(run_process(scenario, pool_sizes[i]), EXIT_SUCCESS);
    assert_true(uv_hrtime() - before < MINUTE_NS / 2);
    assert_int_equal(shared->ended, shared->started);
    assert_in_range(shared->late, 0, 2 * width); /* one for each runner, which may have a relief */
  }
}

static void assert_exits(void (*scenario)(void)) { assert_exits_of(scenario, WIDTH); }

static void case_33_exit_between_turns(void **state) {
  (void)state;
  assert_exits(exit_between_turns);
  assert_exits(exit_after_cancel);
  for (int i = 0; i < 4; i++)
    assert_exits_of(exit_on_plain_lanes, 2);
}

static void case_33_exit_in_callbacks(void **state) {
  (void)state;
  assert_exits(exit_in_on_microbatch);
  assert_exits(exit_in_a_blocking_run);
  assert_exits(exit_in_an_op_on_the_loop);
}

/* libuv's destructor destroys what its thread pool is made of, and the loop's thread is still there: it must not ask
 * that pool for anything any more. */
static void case_33_exit_in_another_thread(void **state) {
  (void)state;
  assert_exits(exit_in_another_thread);
}

static void case_33_exit_while_nothing_runs(void **state) {
  (void)state;
  assert_exits(exit_while_runners_spin);
  assert_exits(exit_with_ops_pending);
  assert_exits(exit_while_lanes_are_polled);
}

/* ---- fork() --------------------------------------------------------------------------------------------------------- */

enum { FORKS = 5 };

static void execute(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(WENT_WRONG);
  }
  if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
      WEXITSTATUS(status) == EXECUTED)
    atomic_fetch_add(&shared->executed, 1);
}

static void end_well(void) {
  ovl_pipeline_close(pipeline, NULL);
  need(uv_loop_close(&loop) == 0);
  exit(EXIT_SUCCESS);
}

static void fork_between_runs(void) {
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  for (int i = 0; i < FORKS; i++) {
    need(ovl_pipeline_run(pipeline, 6) == 0);
    execute();
  }
  need(ovl_pipeline_run(pipeline, 6) == 0);
  end_well();
}

static void fork_between_turns(void) {
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  add_stage(OVL_LANE_LOOP, 1, NULL, NULL);
  start(30);
  for (unsigned i = 0; i < FORKS; i++) {
    turn_until(&shared->started, 1 + 3 * i);
    execute();
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  need(atomic_load(&shared->ended) == 30);
  end_well();
}

static int execute_now(ovl_op_t *op) {
  if (op->microbatch % 2 == 0)
    execute();
  return 0;
}

static void fork_in_ops(void) {
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, execute_now);
  need(ovl_pipeline_run(pipeline, 2 * FORKS) == 0);
  end_well();
}

static void fork_in_callback(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  (void)p;
  (void)item;
  (void)status;
  if (microbatch % 2 == 0)
    execute();
}

static void fork_in_on_microbatch(void) {
  create(fork_in_callback, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  need(ovl_pipeline_run(pipeline, 2 * FORKS) == 0);
  end_well();
}

static void execute_beside(void *unused) {
  (void)unused;
  for (unsigned i = 0; i < FORKS; i++) {
    while (atomic_load(&shared->started) < 1 + 3 * i)
      uv_sleep(1);
    execute();
  }
}

static void fork_in_another_thread(void) {
  uv_thread_t thread;
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  need(uv_thread_create(&thread, execute_beside, NULL) == 0);
  need(ovl_pipeline_run(pipeline, 30) == 0);
  need(uv_thread_join(&thread) == 0);
  end_well();
}

/* libuv's own way, on the loop that the run is on. */
static void on_child_exit(uv_process_t *process, int64_t status, int signal) {
  if (status == EXECUTED && signal == 0)
    atomic_fetch_add(&shared->executed, 1);
  uv_close((uv_handle_t *)process, NULL);
}

static void spawn_on_the_loop(void) {
  char shell[] = "/bin/sh", name[] = "sh", flag[] = "-c", command[] = "exit 7";
  char *arguments[] = {name, flag, command, NULL};
  const uv_process_options_t options = {.file = shell, .args = arguments, .exit_cb = on_child_exit};
  uv_process_t processes[FORKS];
  create(NULL, 0);
  add_stage(OVL_LANE_POOL, WIDTH, NULL, work);
  start(30);
  for (unsigned i = 0; i < FORKS; i++) {
    turn_until(&shared->started, 1 + 3 * i);
    need(uv_spawn(&loop, &processes[i], &options) == 0);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  end_well();
}

static void assert_forks(void (*scenario)(void)) {
  const char *const pool_sizes[] = {"1", "4"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(run_process(scenario, pool_sizes[i]), EXIT_SUCCESS);
    assert_int_equal(shared->executed, FORKS);
    assert_int_equal(shared->ended, shared->started);
  }
}

static void case_33_fork_and_exec_between_runs(void **state) {
  (void)state;
  assert_forks(fork_between_runs);
}

static void case_33_fork_and_exec_during_a_run(void **state) {
  (void)state;
  assert_forks(fork_between_turns);
  assert_forks(fork_in_another_thread);
  assert_forks(spawn_on_the_loop);
}

static void case_33_fork_and_exec_in_callbacks(void **state) {
  (void)state;
  assert_forks(fork_in_ops);
  assert_forks(fork_in_on_microbatch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(case_33_exit_between_turns),
      cmocka_unit_test(case_33_exit_in_callbacks),
      cmocka_unit_test(case_33_exit_in_another_thread),
      cmocka_unit_test(case_33_exit_while_nothing_runs),
      cmocka_unit_test(case_33_fork_and_exec_between_runs),
      cmocka_unit_test(case_33_fork_and_exec_during_a_run),
      cmocka_unit_test(case_33_fork_and_exec_in_callbacks),
  };
  return cmocka_run_group_tests(tests, map_shared, unmap_shared) != 0;
}
