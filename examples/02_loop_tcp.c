/* SPDX-License-Identifier: MIT */
/* Communication that is real: bytes through TCP on the program's own loop, while a pool thread computes.
 * Runs the same work serially and overlapped, and checks every message's sum against the peer's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "backend_tcp.h"
#include "ovl.h"

#define MICROBATCHES 24
#define WINDOW 3
#define WORDS ((size_t)512 * 1024) /* 4 MiB a message */
#define PASSES 6

typedef struct program {
  uv_loop_t loop;
  backend_tcp_t tcp;
  ovl_pipeline_t *pipeline;
  ovl_mode_t mode;                   /* of the run in flight; indexes the two arrays below */
  uint64_t answers[2][MICROBATCHES]; /* from the peer */
  uint64_t elapsed_ns[2];
  uint64_t *buffers[WINDOW]; /* by op->slot: a slot is free again once its message was answered */
  int runs;                  /* that ended without error */
} program_t;

static void complain(const char *what, int status) {
  /* libovl passes libuv's codes on, so a code that is not its own is one of those */
  fprintf(stderr, "02_loop_tcp: %s: %s\n", what,
          status < -20000 ? ovl_strerror(status) : uv_strerror(status));
}

/* ---- the two stages ---- */

/* Fills a message; what it holds depends on the microbatch alone, not on what the buffer held before. */
static void fill(uint64_t *words, uint64_t microbatch) {
  uint64_t state = (microbatch + 1) * UINT64_C(0x9e3779b97f4a7c15);
  for (int pass = 0; pass < PASSES; pass++) {
    for (size_t i = 0; i < WORDS; i++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      words[i] = pass == 0 ? state : words[i] + state;
    }
  }
}

/* On a pool thread, so it may take its time. */
static int compute(ovl_op_t *op) {
  program_t *program = op->data;
  fill(program->buffers[op->slot], op->microbatch);
  return 0;
}

/* On the loop's thread, so it only begins: the op ends when the peer has answered. */
static int send_message(ovl_op_t *op) {
  program_t *program = op->data;
  uint64_t *answer = &program->answers[program->mode][op->microbatch];
  return backend_tcp_send(&program->tcp, op, program->buffers[op->slot], answer);
}

/* ---- the course of the program: opened, serial run, overlapped run, closed ---- */

static void on_done(ovl_pipeline_t *pipeline, int status);

static void close_all(program_t *program) {
  backend_tcp_close(&program->tcp);
  ovl_pipeline_close(program->pipeline, NULL);
  program->pipeline = NULL;
}

static void start(program_t *program, ovl_mode_t mode) {
  program->mode = mode;
  int status = ovl_pipeline_set_mode(program->pipeline, mode);
  if (status == 0)
    status = ovl_pipeline_start(program->pipeline, &program->loop, MICROBATCHES, on_done);
  if (status == 0)
    return;
  complain("starting a run", status);
  close_all(program);
}

static void on_done(ovl_pipeline_t *pipeline, int status) {
  program_t *program = ovl_pipeline_data(pipeline);
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  if (status == 0)
    status = ovl_pipeline_stats(pipeline, &stats);
  if (status != 0) {
    complain(program->mode == OVL_SERIAL ? "serial run" : "overlapped run", status);
    close_all(program);
    return;
  }
  program->elapsed_ns[program->mode] = stats.elapsed_ns;
  program->runs++;
  if (program->mode == OVL_SERIAL)
    start(program, OVL_OVERLAP);
  else
    close_all(program);
}

static void on_opened(backend_tcp_t *tcp, int status) {
  program_t *program = tcp->data;
  if (status == 0) {
    start(program, OVL_SERIAL);
  } else {
    complain("connecting to 127.0.0.1", status);
    close_all(program);
  }
}

/* ---- setting up ---- */

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
  options.window = WINDOW;
  int status = ovl_pipeline_create(&program->pipeline, &options);
  if (status == 0)
    status = add_stage(program, "compute", OVL_ROLE_COMPUTE, OVL_LANE_POOL, compute);
  if (status == 0)
    status = add_stage(program, "link", OVL_ROLE_COMM, OVL_LANE_LOOP, send_message);
  if (status != 0)
    complain("describing the pipeline", status);
  return status;
}

static int allocate(program_t *program) {
  for (size_t slot = 0; slot < WINDOW; slot++) {
    program->buffers[slot] = calloc(WORDS, sizeof *program->buffers[slot]);
    if (program->buffers[slot] == NULL) {
      complain("memory for the messages", OVL_ENOMEM);
      return OVL_ENOMEM;
    }
  }
  return 0;
}

static void connect_ends(program_t *program) {
  int status = backend_tcp_open(&program->tcp, &program->loop, WORDS * sizeof(uint64_t), on_opened);
  program->tcp.data = program;
  if (status == 0)
    return;
  complain("opening a connection on 127.0.0.1", status);
  close_all(program);
}

/* ---- what came of it ---- */

/* Both runs and a computation without any pipeline must agree. */
static int check_answers(const program_t *program) {
  for (uint64_t i = 0; i < MICROBATCHES; i++) {
    backend_tcp_sum_t sum = {0, 0};
    fill(program->buffers[0], i);
    backend_tcp_sum_add(&sum, program->buffers[0], WORDS * sizeof(uint64_t));
    uint64_t expected = backend_tcp_sum_value(&sum);
    if (program->answers[OVL_SERIAL][i] == expected && program->answers[OVL_OVERLAP][i] == expected)
      continue;
    fprintf(stderr, "02_loop_tcp: microbatch %" PRIu64 ": the peer's sums differ from the message's\n", i);
    return -1;
  }
  return 0;
}

static void print_times(const program_t *program) {
  double serial_ms = (double)program->elapsed_ns[OVL_SERIAL] / 1e6;
  double overlap_ms = (double)program->elapsed_ns[OVL_OVERLAP] / 1e6;
  printf("%d messages of %zu KiB, all sums right\n", MICROBATCHES, WORDS * sizeof(uint64_t) / 1024);
  printf("serial     %8.1f ms\noverlapped %8.1f ms\nspeedup    %8.2f\n", serial_ms, overlap_ms,
         overlap_ms > 0 ? serial_ms / overlap_ms : 1.0);
}

static int run_program(program_t *program) {
  int status = uv_loop_init(&program->loop);
  if (status != 0) {
    complain("making a loop", status);
    return -1;
  }
  if (allocate(program) == 0 && describe(program) == 0)
    connect_ends(program);
  (void)uv_run(&program->loop, UV_RUN_DEFAULT); /* until nothing is left; checked by the next call */
  ovl_pipeline_close(program->pipeline, NULL);
  status = uv_loop_close(&program->loop);
  if (status != 0)
    complain("closing the loop", status);
  if (status != 0 || program->runs != 2 || check_answers(program) != 0)
    return -1;
  print_times(program);
  return 0;
}

int main(void) {
  program_t *program = calloc(1, sizeof *program);
  if (program == NULL) {
    complain("memory for the program", OVL_ENOMEM);
    return EXIT_FAILURE;
  }
  int result = run_program(program);
  for (size_t slot = 0; slot < WINDOW; slot++)
    free(program->buffers[slot]);
  free(program);
  return result == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
