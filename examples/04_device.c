/* SPDX-License-Identifier: MIT */
/* Device lanes: work is put on two streams, and the device keeps it in order; here on a device made of threads.
 * Serial, overlapped, and enqueued like a kernel launch: a call that returns before anything is done. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "device_threads.h"
#include "ovl.h"

#define MICROBATCHES 8
#define COMPUTE_MS 20
#define COMM_MS 12
#define WINDOW 2

/* What a microbatch works on: one place for each slot, so a slot that is reused too early is seen. */
typedef struct program {
  device_threads_t device;
  device_threads_stream_t *compute, *comm, *origin;
  ovl_pipeline_t *pipeline;
  uint64_t computing[WINDOW]; /* the microbatch that compute left there, plus 1; comm takes it */
  uint64_t sent;              /* in order, without a gap */
  int wrong;
} program_t;

/* Handed to the stream: what the op said may be gone by the time that the stream comes to it. */
typedef struct piece {
  program_t *program;
  uint64_t microbatch;
  uint32_t slot;
} piece_t;

static piece_t compute_pieces[MICROBATCHES];
static piece_t comm_pieces[MICROBATCHES];

/* ---- on the streams ---- */

static void compute(void *data) {
  const piece_t *piece = data;
  program_t *program = piece->program;
  uv_sleep(COMPUTE_MS);
  program->wrong |= program->computing[piece->slot] != 0;
  program->computing[piece->slot] = piece->microbatch + 1;
}

static void comm(void *data) {
  const piece_t *piece = data;
  program_t *program = piece->program;
  uv_sleep(COMM_MS);
  program->wrong |=
      program->computing[piece->slot] != piece->microbatch + 1 || program->sent != piece->microbatch;
  program->computing[piece->slot] = 0;
  program->sent++;
}

/* ---- callbacks: they only put work on op->stream ---- */

static int launch(ovl_op_t *op, piece_t *pieces, device_threads_work_cb work) {
  pieces[op->microbatch] = (piece_t){.program = op->data, .microbatch = op->microbatch, .slot = op->slot};
  return device_threads_launch(op->stream, work, &pieces[op->microbatch]);
}

static int run_compute(ovl_op_t *op) { return launch(op, compute_pieces, compute); }
static int run_comm(ovl_op_t *op) { return launch(op, comm_pieces, comm); }

/* ---- describing ---- */

static int add(program_t *program, const char *name, ovl_role_t role, void *stream, ovl_op_cb run,
               uint64_t cost_ns) {
  ovl_lane_options_t lane;
  ovl_stage_options_t stage;
  ovl_lane_options_init(&lane);
  lane.name = name;
  lane.role = role;
  lane.kind = OVL_LANE_DEVICE;
  lane.device = &program->device.table;
  lane.stream = stream;
  ovl_stage_options_init(&stage);
  stage.name = name;
  stage.run = run;
  stage.data = program;
  stage.cost_ns = cost_ns;
  int status = ovl_pipeline_add_lane(program->pipeline, &lane, &stage.lane);
  return status == 0 ? ovl_pipeline_add_stage(program->pipeline, &stage, NULL) : status;
}

static int describe(program_t *program) {
  ovl_pipeline_options_t options;
  ovl_pipeline_options_init(&options);
  options.window = WINDOW;
  options.device_timing = OVL_DEVICE_TIMING_ALL;
  int status = ovl_pipeline_create(&program->pipeline, &options);
  if (status == 0)
    status = add(program, "compute", OVL_ROLE_COMPUTE, program->compute, run_compute,
                 COMPUTE_MS * UINT64_C(1000000));
  if (status == 0)
    status = add(program, "comm", OVL_ROLE_COMM, program->comm, run_comm, COMM_MS * UINT64_C(1000000));
  return status;
}

/* ---- three ways ---- */

static int finish_way(program_t *program, const char *way, int status, uint64_t began_ns,
                      uint64_t theory_ms) {
  double ms = (double)(uv_hrtime() - began_ns) / 1e6;
  if (status == 0 && (program->wrong || program->sent != MICROBATCHES))
    status = OVL_EINVAL; /* the device did not keep the order */
  program->sent = 0;
  printf("  %-11s %8.1f ms   (theory %llu ms)\n", way, ms, (unsigned long long)theory_ms);
  return status;
}

/* By the device's own clock. */
static int tell_hidden(const program_t *program) {
  ovl_stats_t stats;
  ovl_stats_init(&stats);
  int status = ovl_pipeline_stats(program->pipeline, &stats);
  printf("  %-11s %8.1f ms of communication hidden, %.1f ms exposed\n", "", (double)stats.hidden_ns / 1e6,
         (double)stats.exposed_ns / 1e6);
  return status;
}

static int run(program_t *program, ovl_mode_t mode, const char *way, uint64_t theory_ms) {
  int status = ovl_pipeline_set_mode(program->pipeline, mode);
  uint64_t began_ns = uv_hrtime();
  if (status == 0)
    status = ovl_pipeline_run(program->pipeline, MICROBATCHES);
  status = finish_way(program, way, status, began_ns, theory_ms);
  return status == 0 ? tell_hidden(program) : status;
}

static int enqueue(program_t *program, uint64_t theory_ms) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = MICROBATCHES;
  call.origin = program->origin;
  uint64_t began_ns = uv_hrtime();
  int status = ovl_pipeline_enqueue(program->pipeline, &call);
  printf("  the call    %8.1f ms\n", (double)(uv_hrtime() - began_ns) / 1e6);
  device_threads_wait(program->origin);
  return finish_way(program, "enqueued", status, began_ns, theory_ms);
}

static int run_all(program_t *program) {
  uint64_t serial = ovl_bound_serial(MICROBATCHES, COMPUTE_MS, COMM_MS);
  uint64_t overlap = ovl_bound_overlap(MICROBATCHES, COMPUTE_MS, COMM_MS);
  printf("%d microbatches, %d ms of compute and %d ms of communication each, on two streams\n", MICROBATCHES,
         COMPUTE_MS, COMM_MS);
  int status = run(program, OVL_SERIAL, "serial", serial);
  if (status == 0)
    status = run(program, OVL_OVERLAP, "overlapped", overlap);
  return status == 0 ? enqueue(program, overlap) : status;
}

static int set_up(program_t *program) {
  int status = device_threads_stream(&program->device, &program->compute);
  if (status == 0)
    status = device_threads_stream(&program->device, &program->comm);
  if (status == 0)
    status = device_threads_stream(&program->device, &program->origin);
  return status == 0 ? describe(program) : status;
}

int main(void) {
  static program_t program;
  int status = device_threads_init(&program.device);
  if (status != 0) {
    fprintf(stderr, "04_device: no device: %s\n", uv_strerror(status));
    return EXIT_FAILURE;
  }
  status = set_up(&program);
  if (status == 0)
    status = run_all(&program);
  if (status != 0)
    fprintf(stderr, "04_device: %s %s\n", ovl_strerror(status), ovl_pipeline_error(program.pipeline));
  ovl_pipeline_close(program.pipeline, NULL);
  device_threads_finish(&program.device);
  return status == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
