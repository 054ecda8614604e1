/* SPDX-License-Identifier: MIT */
/* First an eager run to warm up: it makes the pipeline's events, and cuBLAS and NCCL set up what no capture allows.
 * Then serial ones with timing events around each op, whose means become the cost hints; then those that count. */
#include "cuda_stream/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_stream/ranges.h"
#include "parts/report.h"

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static cudaEvent_t *marks_of(const member_t *member, uint64_t microbatch, int communicates) {
  return &member->marks[4 * microbatch + (communicates ? 2 : 0)];
}

static int put(member_t *member, const ovl_op_t *op, int communicates) {
  const cudaEvent_t *marks = marks_of(member, op->microbatch, communicates);
  int code = member->marking ? CUDA(cudaEventRecord(marks[0], op->stream)) : 0;
  if (code == 0)
    code = communicates ? gpu_communicate(&member->gpu, op->microbatch, op->slot)
                        : gpu_multiply(&member->gpu, op->microbatch, op->slot);
  return code == 0 && member->marking ? CUDA(cudaEventRecord(marks[1], op->stream)) : code;
}

static int run_multiply(ovl_op_t *op) {
  ranges_begin(op, "multiply");
  int code = put(op->data, op, 0);
  ranges_end();
  return code;
}

static int run_communicate(ovl_op_t *op) {
  ranges_begin(op, "communicate");
  int code = put(op->data, op, 1);
  ranges_end();
  return code;
}

static uint64_t cost_of(const ovl_op_t *op) {
  const member_t *member = op->data;
  return member->costs[op->stage.id == member->communicate.id];
}

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

static int add_lane(member_t *member, const char *name, ovl_role_t role, cudaStream_t stream,
                    ovl_lane_t *lane) {
  ovl_lane_options_t options;
  ovl_lane_options_init(&options);
  options.name = name;
  options.role = role;
  options.kind = OVL_LANE_DEVICE;
  options.device = &member->gpu.cuda.device;
  options.stream = stream;
  int status = ovl_pipeline_add_lane(member->pipeline, &options, lane);
  if (status == 0)
    ranges_name_lane(*lane, name);
  return status;
}

static int add_stage(member_t *member, const char *name, ovl_lane_t lane, ovl_op_cb run, ovl_stage_t *stage) {
  ovl_stage_options_t options;
  ovl_stage_options_init(&options);
  options.name = name;
  options.lane = lane;
  options.run = run;
  options.cost = cost_of;
  options.data = member;
  return ovl_pipeline_add_stage(member->pipeline, &options, stage);
}

static int describe(member_t *member) {
  ovl_pipeline_options_t options;
  ovl_lane_t compute, comm;
  ovl_pipeline_options_init(&options);
  options.window = (uint32_t)member->gpu.plan.window;
  int status = ovl_pipeline_create(&member->pipeline, &options);
  if (status != 0)
    return report_failure(PROGRAM, "a pipeline", status);
  status = add_lane(member, "compute", OVL_ROLE_COMPUTE, member->gpu.compute, &compute);
  if (status == 0)
    status = add_lane(member, "comm", OVL_ROLE_COMM, member->gpu.comm, &comm);
  if (status == 0)
    status = add_stage(member, "multiply", compute, run_multiply, &member->multiply);
  if (status == 0)
    status = add_stage(member, "communicate", comm, run_communicate, &member->communicate);
  return status == 0 ? 0 : report_refusal(PROGRAM, "the pipeline", member->pipeline, status);
}

static int make_events(member_t *member) {
  size_t count = 4 * (size_t)member->gpu.plan.microbatches;
  int code = CUDA(cudaEventCreate(&member->begin));
  if (code == 0)
    code = CUDA(cudaEventCreate(&member->end));
  member->marks = calloc(count, sizeof(cudaEvent_t));
  if (member->marks == NULL)
    code = check(-1, "no memory", "calloc()");
  for (size_t i = 0; i < count && code == 0; i++)
    code = CUDA(cudaEventCreate(&member->marks[i]));
  return code;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static int enqueue(member_t *member, ovl_mode_t mode) {
  ovl_enqueue_t call;
  ovl_enqueue_init(&call);
  call.microbatches = member->gpu.plan.microbatches;
  call.origin = member->gpu.origin;
  int status = ovl_pipeline_set_mode(member->pipeline, mode);
  if (status == 0)
    status = ovl_pipeline_enqueue(member->pipeline, &call);
  return status == 0 ? 0 : report_refusal(PROGRAM, "enqueueing", member->pipeline, status);
}

static int put_run(member_t *member, member_run_t run) {
  if (run == MEMBER_GRAPH)
    return CUDA(cudaGraphLaunch(member->exec, member->gpu.origin));
  return enqueue(member, run == MEMBER_SERIAL ? OVL_SERIAL : OVL_OVERLAP);
}

static uint64_t ns_between(cudaEvent_t begin, cudaEvent_t end, int *code) {
  float ms = 0;
  if (*code == 0)
    *code = CUDA(cudaEventElapsedTime(&ms, begin, end));
  return (uint64_t)((double)ms * 1e6);
}

/* All members begin it together. *ns: from when its origin begins to when it ends, on this GPU. */
static int run_once(member_t *member, member_run_t run, uint64_t *ns) {
  int code = gpu_clear_results(&member->gpu);
  *ns = 0;
  if (code != 0)
    return code;
  team_meet(member->team);
  code = CUDA(cudaEventRecord(member->begin, member->gpu.origin));
  if (code == 0)
    code = put_run(member, run);
  if (code == 0)
    code = CUDA(cudaEventRecord(member->end, member->gpu.origin));
  if (code == 0)
    code = gpu_wait(&member->gpu, member->end);
  *ns = ns_between(member->begin, member->end, &code);
  return code;
}

static uint64_t *number_of(const member_t *member, unsigned column) {
  return &member->team->page->numbers[member->team->rank][column];
}

static void keep_least(uint64_t *least, uint64_t ns) {
  if (*least == 0 || ns < *least)
    *least = ns;
}

static int run_timed(member_t *member, member_run_t run) {
  uint64_t ns;
  int code = run_once(member, run, &ns);
  keep_least(number_of(member, NUMBER_TIME + run), ns);
  return code == 0 ? gpu_hash_results(&member->gpu, &member->hashes[run]) : code;
}

/* ---- what an op takes -------------------------------------------------------------------------------------------- */

static uint64_t mean_of(const member_t *member, int communicates, int *code) {
  uint64_t sum_ns = 0;
  for (uint64_t i = 0; i < member->gpu.plan.microbatches; i++) {
    const cudaEvent_t *marks = marks_of(member, i, communicates);
    sum_ns += ns_between(marks[0], marks[1], code);
  }
  return sum_ns / member->gpu.plan.microbatches;
}

/* One after another, with nothing beside them. */
static int measure_ops(member_t *member) {
  int code = 0;
  member->marking = 1;
  for (uint64_t i = 0; i < member->repeats && code == 0; i++) {
    uint64_t ns;
    code = run_once(member, MEMBER_SERIAL, &ns);
    keep_least(number_of(member, NUMBER_COMPUTE), mean_of(member, 0, &code));
    keep_least(number_of(member, NUMBER_COMM), mean_of(member, 1, &code));
  }
  member->marking = 0;
  return code;
}

/* The members' orders must be one, so their hints are: what the slowest takes to compute, and what the last one to come
 * takes to communicate, as for the others a collective begins earlier. */
static int measure_costs(member_t *member) {
  int code = measure_ops(member);
  if (code != 0)
    return code;
  team_meet(member->team);
  member->costs[0] = team_most(member->team, NUMBER_COMPUTE);
  member->costs[1] = team_least(member->team, NUMBER_COMM);
  return 0;
}

/* Members whose orders differ would wait for each other for ever. */
static int compare_orders(member_t *member) {
  uint64_t own = ovl_pipeline_fingerprint(member->pipeline, member->gpu.plan.microbatches);
  if (own == 0)
    return report_refusal(PROGRAM, "the fingerprint", member->pipeline, -1);
  *number_of(member, NUMBER_FINGERPRINT) = own;
  team_meet(member->team);
  for (unsigned r = 0; r < member->team->size; r++)
    if (member->team->page->numbers[r][NUMBER_FINGERPRINT] != own)
      return check(-1, "members would communicate in different orders", "ovl_pipeline_fingerprint()");
  return 0;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

/* Other threads may do as they like meanwhile. The capture is ended whatever happened in it. */
static int capture(member_t *member) {
  int code = CUDA(cudaStreamBeginCapture(member->gpu.origin, cudaStreamCaptureModeThreadLocal));
  if (code != 0)
    return code;
  int status = enqueue(member, OVL_OVERLAP);
  code = CUDA(cudaStreamEndCapture(member->gpu.origin, &member->graph));
  if (status != 0 || code != 0)
    return status != 0 ? status : code;
  /* Else all of it would have the priority of the stream that it is launched on. */
  return CUDA(
      cudaGraphInstantiateWithFlags(&member->exec, member->graph, cudaGraphInstantiateFlagUseNodePriority));
}

/* ---- the member -------------------------------------------------------------------------------------------------- */

static int set_up(member_t *member, const gpu_plan_t *plan) {
  int code = gpu_init(&member->gpu, member->team, plan);
  if (code == 0)
    code = describe(member);
  return code == 0 ? make_events(member) : code;
}

static int warm_up(member_t *member) {
  uint64_t ns;
  int code = run_once(member, MEMBER_OVERLAP, &ns);
  return code == 0 ? measure_costs(member) : code;
}

static int run_all(member_t *member) {
  int code = compare_orders(member);
  for (uint64_t i = 0; i < member->repeats && code == 0; i++) {
    code = run_timed(member, MEMBER_SERIAL);
    if (code == 0)
      code = run_timed(member, MEMBER_OVERLAP);
  }
  if (code == 0)
    code = capture(member);
  for (uint64_t i = 0; i < member->repeats && code == 0; i++)
    code = run_timed(member, MEMBER_GRAPH);
  return code;
}

/* Those of the last replay are on the GPU. */
static int check_results(member_t *member) {
  uint64_t wrong;
  int code = gpu_check_results(&member->gpu, &wrong);
  if (code == 0 && wrong > 0) {
    fprintf(stderr, PROGRAM ": %llu columns of results are wrong\n", (unsigned long long)wrong);
    code = -1;
  }
  for (int run = 0; run < MEMBER_RUNS && code == 0; run++)
    if (member->hashes[run] != member->hashes[MEMBER_GRAPH])
      code = check(-1, "its results differ from the graph's",
                   run == MEMBER_SERIAL ? "the serial run" : "the overlapped run");
  return code;
}

int member_run(member_t *member, const team_t *team, const gpu_plan_t *plan, uint64_t repeats) {
  memset(member, 0, sizeof *member);
  member->team = team;
  member->repeats = repeats;
  member->costs[0] = member->costs[1] = 1;
  int code = set_up(member, plan);
  if (code == 0)
    code = warm_up(member);
  if (code == 0)
    code = run_all(member);
  if (code == 0)
    code = check_results(member);
  if (code != 0)
    return -1;
  team_meet(team);
  return 0;
}

static void destroy(cudaEvent_t event) {
  if (event != NULL)
    (void)CUDA(cudaEventDestroy(event));
}

void member_finish(member_t *member) {
  if (member->exec != NULL)
    (void)CUDA(cudaGraphExecDestroy(member->exec));
  if (member->graph != NULL)
    (void)CUDA(cudaGraphDestroy(member->graph));
  ovl_pipeline_close(member->pipeline, NULL);
  for (uint64_t i = 0; member->marks != NULL && i < 4 * member->gpu.plan.microbatches; i++)
    destroy(member->marks[i]);
  free(member->marks);
  destroy(member->begin);
  destroy(member->end);
  gpu_finish(&member->gpu);
}
