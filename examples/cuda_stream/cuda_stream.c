/* SPDX-License-Identifier: MIT */
/* Overlaps matrix products with communication on the streams of GPUs: collectives between several, copies to the host
 * and back with one. Runs serially, overlapped, and overlapped in a captured graph; all must end with the same bits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_stream/member.h"
#include "parts/arguments.h"
#include "parts/report.h"

#define EXIT_SKIPPED 77

typedef struct program {
  gpu_plan_t plan;
  uint64_t kind; /* of collective */
  uint64_t gpus; /* 0: all */
  uint64_t repeats;
} program_t;

/* ---- what is printed --------------------------------------------------------------------------------------------- */

static const char *words_of(const team_t *team, collective_kind_t kind) {
  static const char *const collectives[] = {"all-reduce", "reduce-scatter", "all-gather"};
  return team->size > 1 ? collectives[kind] : "copy to the host and back";
}

static uint64_t time_of(const team_t *team, member_run_t run) { return team_most(team, NUMBER_TIME + run); }

static void print_run(const team_t *team, const char *name, member_run_t run, uint64_t bound_ns) {
  uint64_t ns = time_of(team, run);
  printf("  %-20s %12.3f %12.3f %12.3f\n", name, report_ms(ns), report_ratio(ns, bound_ns),
         report_ratio(time_of(team, MEMBER_SERIAL), ns));
}

static void print_report(const member_t *member, const program_t *program) {
  const team_t *team = member->team;
  const gpu_plan_t *plan = &program->plan;
  uint64_t compute_ns = member->costs[0], comm_ns = member->costs[1];
  uint64_t bound_ns = ovl_bound_overlap(plan->microbatches, compute_ns, comm_ns);
  printf("%u GPU%s, %" PRIu64 " microbatches, window %" PRIu64 ", matrices of %" PRIu64 " x %" PRIu64 "\n",
         team->size, team->size > 1 ? "s" : "", plan->microbatches, plan->window, plan->dimension,
         plan->dimension);
  printf("an op alone: compute (products: %" PRIu64 ") %.3f ms, communication (%s) %.3f ms\n", plan->products,
         report_ms(compute_ns), words_of(team, plan->kind), report_ms(comm_ns));
  printf("\n  %-20s %12s %12s %12s\n", "", "measured, ms", "of the bound", "speedup");
  print_run(team, "serial", MEMBER_SERIAL, bound_ns);
  print_run(team, "overlapped", MEMBER_OVERLAP, bound_ns);
  print_run(team, "overlapped, a graph", MEMBER_GRAPH, bound_ns);
  printf("  %-20s %12.3f\n", "the bound", report_ms(bound_ns));
  printf("\n  best of %" PRIu64 " runs each, of the slowest GPU; results equal to the last bit, and right\n",
         program->repeats);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int run_member(const team_t *team, void *data) {
  const program_t *program = data;
  member_t member;
  int code = member_run(&member, team, &program->plan, program->repeats) == 0 ? EXIT_SUCCESS : EXIT_FAULT;
  if (code == EXIT_SUCCESS && team->rank == 0)
    print_report(&member, program);
  member_finish(&member);
  return report_flush(PROGRAM, code);
}

static int skip(int code) {
  printf(PROGRAM ": skipped, there is no GPU to use: %s\n",
         code != 0 ? cudaGetErrorString((cudaError_t)code) : "none was found");
  return report_flush(PROGRAM, EXIT_SKIPPED);
}

/* How many GPUs are used of those that there are; 0: that does not go, and one line on stderr said why. */
static unsigned choose_size(const program_t *program, unsigned there) {
  unsigned most = there < TEAM_MOST ? there : TEAM_MOST;
  unsigned size = program->gpus > 0 ? (unsigned)program->gpus : collective_possible() ? most : 1;
  if (size > most)
    fprintf(stderr, PROGRAM ": --gpus: there are %u\n", there);
  else if (size > 1 && !collective_possible())
    fprintf(stderr, PROGRAM ": --gpus: several need NCCL, which the build did not find\n");
  else if (program->plan.dimension % size != 0)
    fprintf(stderr, PROGRAM ": --dimension: no multiple of %u, the number of GPUs\n", size);
  else
    return size;
  return 0;
}

static int run_program(void *data) {
  program_t *program = data;
  unsigned there;
  int code = team_count_gpus(&there);
  if (code < 0)
    return check(EXIT_FAULT, "its process failed", "cudaGetDeviceCount()");
  if (code > 0 || there == 0)
    return skip(code);
  unsigned size = choose_size(program, there);
  if (size == 0)
    return EXIT_USAGE;
  program->plan.kind = (collective_kind_t)program->kind;
  return team_run(size, run_member, program) == 0 ? EXIT_SUCCESS : EXIT_FAULT;
}

int main(int argc, char **argv) {
  program_t program = {.plan = {.microbatches = 16, .window = 4, .dimension = 2048, .products = 2},
                       .repeats = 10};
  const argument_t list[] = {
      {'n', "microbatches", "N", &program.plan.microbatches, 1, 1024, "microbatches"},
      {'w', "window", "W", &program.plan.window, 1, 64, "microbatches in flight"},
      {'d', "dimension", "D", &program.plan.dimension, 16, 8192, "width and height of the matrices"},
      {'p', "products", "P", &program.plan.products, 1, 1000, "products of a microbatch"},
      {'c', "collective", "C", &program.kind, 0, 2,
       "0: all-reduce, 1: reduce-scatter, 2: all-gather; several GPUs"},
      {'g', "gpus", "G", &program.gpus, 0, TEAM_MOST, "GPUs; 0: all that there are"},
      {'r', "repeat", "R", &program.repeats, 1, 1000, "runs of each kind, of which the fastest counts"},
  };
  const arguments_t arguments = {
      PROGRAM,
      "Matrix products on GPUs overlapped with communication, eager and as a graph. 77: there is no GPU.",
      list, sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, run_program, &program);
}
