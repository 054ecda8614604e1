/* SPDX-License-Identifier: MIT */
/* A pipeline as a guest on an application's loop: how late does the application's own timer get?
 * Alternates between two bare threads that spin and a pipeline that spins, and compares the delays. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "ovl.h"

#define PERIOD_MS 10 /* of the application's timer */
#define PHASE_MS 500 /* of each phase, roughly */
#define PHASES 6     /* even ones bare, odd ones with the pipeline */
#define SPIN_NS UINT64_C(2000000)
#define MICROBATCHES (PHASE_MS * UINT64_C(1000000) / SPIN_NS)
#define THREADS 2
#define MAX_TICKS 10000 /* of one kind; a slow machine has more, which are then not counted */

typedef struct delays {
  uint64_t ns[MAX_TICKS];
  size_t count;
} delays_t;

typedef struct program {
  uv_loop_t loop;
  uv_timer_t timer;
  uv_async_t thread_ended;
  uv_thread_t threads[THREADS];
  atomic_int threads_ended;
  ovl_pipeline_t *pipeline;
  uint64_t collected; /* microbatches that the loop lane has seen */
  int phase;
  uint64_t last_tick_ns;
  delays_t *current; /* where ticks are counted: one of the two below */
  delays_t bare;
  delays_t piped;
  int failed;
} program_t;

static void next_phase(program_t *program);

static int complain(program_t *program, const char *what, int status) {
  fprintf(stderr, "03_embed: %s: %s\n", what, status < -20000 ? ovl_strerror(status) : uv_strerror(status));
  program->failed = 1;
  return status;
}

static void spin(uint64_t duration_ns) {
  uint64_t end_ns = uv_hrtime() + duration_ns;
  while (uv_hrtime() < end_ns)
    continue;
}

/* ---- the application's timer ---- */

static void on_tick(uv_timer_t *timer) {
  program_t *program = timer->data;
  delays_t *delays = program->current;
  uint64_t now_ns = uv_hrtime();
  uint64_t since_ns = now_ns - program->last_tick_ns;
  uint64_t period_ns = PERIOD_MS * UINT64_C(1000000);
  program->last_tick_ns = now_ns;
  if (delays->count < MAX_TICKS)
    delays->ns[delays->count++] = since_ns > period_ns ? since_ns - period_ns : 0;
}

/* Starts the timer anew, so that no tick counts for two phases. */
static int count_ticks_in(program_t *program, delays_t *delays) {
  program->current = delays;
  uv_update_time(&program->loop);
  program->last_tick_ns = uv_hrtime();
  return uv_timer_start(&program->timer, on_tick, PERIOD_MS, PERIOD_MS);
}

/* ---- two bare threads ---- */

static void spin_bare(void *argument) {
  program_t *program = argument;
  spin(PHASE_MS * UINT64_C(1000000));
  atomic_fetch_add(&program->threads_ended, 1);
  (void)uv_async_send(&program->thread_ended); /* fails only for a handle that is no uv_async_t */
}

static void join_threads(program_t *program, int count) {
  for (int i = 0; i < count; i++) {
    int status = uv_thread_join(&program->threads[i]);
    if (status != 0)
      complain(program, "joining a thread", status);
  }
}

/* One call may stand for several sends, and one send may come after the call that saw its thread. */
static void on_thread_ended(uv_async_t *async) {
  program_t *program = async->data;
  if (atomic_load(&program->threads_ended) < THREADS)
    return;
  atomic_store(&program->threads_ended, 0);
  join_threads(program, THREADS);
  next_phase(program);
}

static int start_bare(program_t *program) {
  for (int i = 0; i < THREADS; i++) {
    int status = uv_thread_create(&program->threads[i], spin_bare, program);
    if (status == 0)
      continue;
    join_threads(program, i);
    return complain(program, "making a thread", status);
  }
  return 0;
}

/* ---- the pipeline ---- */

static int spin_op(ovl_op_t *op) {
  (void)op;
  spin(SPIN_NS);
  return 0;
}

/* On the loop's thread, where the application's data can be touched without a lock. */
static int collect(ovl_op_t *op) {
  program_t *program = op->data;
  program->collected++;
  return 0;
}

static int add_stage(program_t *program, const char *name, ovl_role_t role, ovl_lane_kind_t kind,
                     ovl_op_cb run) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  ovl_stage_options_init(&stage);
  lane.name = stage.name = name;
  lane.role = role;
  lane.kind = kind;
  stage.run = run;
  stage.data = program;
  int status = ovl_pipeline_add_lane(program->pipeline, &lane, &stage.lane);
  return status == 0 ? ovl_pipeline_add_stage(program->pipeline, &stage, NULL) : status;
}

static int describe(program_t *program) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.data = program;
  int status = ovl_pipeline_create(&program->pipeline, &options);
  if (status == 0)
    status = add_stage(program, "compute", OVL_ROLE_COMPUTE, OVL_LANE_POOL, spin_op);
  if (status == 0)
    status = add_stage(program, "comm", OVL_ROLE_COMM, OVL_LANE_POOL, spin_op);
  if (status == 0)
    status = add_stage(program, "collect", OVL_ROLE_OTHER, OVL_LANE_LOOP, collect);
  return status == 0 ? 0 : complain(program, "describing the pipeline", status);
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  program_t *program = ovl_pipeline_data(pipeline);
  if (status != 0)
    complain(program, "running the pipeline", status);
  next_phase(program);
}

static int start_pipeline(program_t *program) {
  int status = ovl_pipeline_start(program->pipeline, &program->loop, MICROBATCHES, on_done);
  return status == 0 ? 0 : complain(program, "starting the pipeline", status);
}

/* ---- the course of the program ---- */

static void close_all(program_t *program) {
  uv_close((uv_handle_t *)&program->timer, NULL);
  uv_close((uv_handle_t *)&program->thread_ended, NULL);
  ovl_pipeline_close(program->pipeline, NULL);
  program->pipeline = NULL;
}

static int start_phase(program_t *program, int bare) {
  int status = count_ticks_in(program, bare ? &program->bare : &program->piped);
  if (status != 0)
    return complain(program, "starting the timer", status);
  return bare ? start_bare(program) : start_pipeline(program);
}

/* Called when the last phase has ended: at that moment neither threads nor a run are under way. */
static void next_phase(program_t *program) {
  int phase = program->phase++;
  if (program->failed || phase == PHASES || start_phase(program, phase % 2 == 0) != 0)
    close_all(program);
}

static int set_up(program_t *program) {
  int status = uv_loop_init(&program->loop);
  if (status != 0)
    return complain(program, "making a loop", status);
  status = uv_timer_init(&program->loop, &program->timer);
  if (status != 0)
    return complain(program, "making the timer", status);
  status = uv_async_init(&program->loop, &program->thread_ended, on_thread_ended);
  if (status != 0)
    return complain(program, "making a wake-up", status);
  program->timer.data = program;
  program->thread_ended.data = program;
  if (describe(program) == 0)
    next_phase(program);
  else
    close_all(program);
  return 0;
}

/* ---- what came of it ---- */

static int compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* The delay that `percent` of the ticks did not exceed, in ms; `delays` is sorted. */
static double percentile_ms(const delays_t *delays, size_t percent) {
  if (delays->count == 0)
    return 0.0;
  size_t rank = (delays->count * percent + 99) / 100;
  return (double)delays->ns[rank - 1] / 1e6;
}

static void print_delays(const char *name, delays_t *delays) {
  qsort(delays->ns, delays->count, sizeof delays->ns[0], compare);
  printf("%-12s %6zu %12.3f %12.3f\n", name, delays->count, percentile_ms(delays, 99),
         percentile_ms(delays, 100));
}

static double ratio(double above, double below) { return below > 0.0 ? above / below : 1.0; }

static void print_report(program_t *program) {
  delays_t *bare = &program->bare;
  delays_t *piped = &program->piped;
  printf("delay of a timer of %d ms\n%-12s %6s %12s %12s\n", PERIOD_MS, "beside", "ticks", "99 %, ms",
         "largest, ms");
  print_delays("two threads", bare);
  print_delays("a pipeline", piped);
  printf("%-12s %6s %12.2f %12.2f\n", "ratio", "", ratio(percentile_ms(piped, 99), percentile_ms(bare, 99)),
         ratio(percentile_ms(piped, 100), percentile_ms(bare, 100)));
}

static int run_program(program_t *program) {
  if (set_up(program) != 0)
    return -1;
  (void)uv_run(&program->loop, UV_RUN_DEFAULT); /* until nothing is left; checked by the next call */
  int status = uv_loop_close(&program->loop);
  if (status != 0)
    complain(program, "closing the loop", status);
  if (!program->failed && program->collected != MICROBATCHES * (PHASES / 2)) {
    fprintf(stderr, "03_embed: the loop lane saw %llu microbatches\n",
            (unsigned long long)program->collected);
    program->failed = 1;
  }
  if (program->failed)
    return -1;
  print_report(program);
  return 0;
}

int main(void) {
  program_t *program = calloc(1, sizeof *program);
  if (program == NULL) {
    fputs("03_embed: not enough memory\n", stderr);
    return EXIT_FAILURE;
  }
  int result = run_program(program);
  free(program);
  return result == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
