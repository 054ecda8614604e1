/* SPDX-License-Identifier: MIT */
/* Serving a language model with prefill and decode apart: while one request's keys and values travel and another
 * is decoded, the next one's prompt is read. Serves the same requests serially and overlapped, compares all tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ovl.h"
#include "parts/arguments.h"
#include "parts/matrix.h"
#include "parts/report.h"
#include "pd_disaggregation/forecast.h"
#include "pd_disaggregation/language.h"
#include "pd_disaggregation/requests.h"
#include "pd_disaggregation/serving.h"

#define PROGRAM "pd_disaggregation"
#define LOAD 0.8 /* how busy the slowest stage is when the rate is not given */

/* Of the times to first token of one run. */
typedef struct latencies {
  uint64_t mean_ns;
  uint64_t p50_ns;
  uint64_t p99_ns;
} latencies_t;

typedef struct outcome {
  run_times_t times;
  latencies_t predicted;
  latencies_t measured;
  size_t refused;
  uint64_t checksum;
} outcome_t;

typedef struct program {
  uint64_t count;
  uint64_t window;
  uint64_t rate; /* requests a second */
  uint64_t seed;
  uint64_t link_mbs; /* megabytes a second */
  uint64_t width;
  language_t language;
  serving_t serving;
  uint64_t prefill_ns; /* on average, without a pipeline, as the next two */
  uint64_t transfer_ns;
  uint64_t decode_ns;
  uint64_t expected; /* checksum */
  uint64_t *waits;   /* a time for each request */
  outcome_t outcomes[2];
} program_t;

/* ---- set-up ---- */

static int set_up(program_t *program) {
  serving_t *serving = &program->serving;
  size_t count = (size_t)program->count;
  int status =
      language_init(&program->language, (size_t)program->width, REQUESTS_PROMPT_MOST + REQUESTS_OUTPUT_MOST);
  serving->program = PROGRAM;
  serving->language = &program->language;
  serving->requests = requests_new(count, program->seed);
  serving->count = count;
  serving->window = (uint32_t)program->window;
  serving->ns_per_byte = 1e3 / (double)program->link_mbs;
  program->waits = calloc(count, sizeof *program->waits);
  if (status != 0 || serving->requests == NULL || program->waits == NULL)
    return report_failure(PROGRAM, "memory for the model and its requests", OVL_ENOMEM);
  return 0;
}

static void tear_down(program_t *program) {
  free(program->waits);
  free(program->serving.requests);
  language_finish(&program->language);
}

/* ---- without a pipeline: what must come out, and how long each stage takes ---- */

static void serve_alone(program_t *program, request_t *request, language_scratch_t *scratch,
                        language_block_t *block) {
  uint64_t start_ns = uv_hrtime();
  language_prefill(&program->language, scratch, request->prompt, request->prompt_count - 1, block);
  uint64_t filled_ns = uv_hrtime();
  requests_decode(request, &program->language, scratch, block);
  program->prefill_ns += filled_ns - start_ns;
  program->decode_ns += uv_hrtime() - filled_ns;
  program->transfer_ns += serving_flight(&program->serving, request);
}

static void choose_rate(program_t *program) {
  uint64_t slowest_ns = program->prefill_ns > program->decode_ns ? program->prefill_ns : program->decode_ns;
  if (program->transfer_ns > slowest_ns)
    slowest_ns = program->transfer_ns;
  program->serving.pause_ns = program->rate > 0 ? 1e9 / (double)program->rate : (double)slowest_ns / LOAD;
}

static int serve_all_alone(program_t *program) {
  const serving_t *serving = &program->serving;
  language_scratch_t scratch = {.x = NULL};
  language_block_t block = {.tokens = 0};
  int status = language_scratch_init(&scratch, &program->language);
  if (status == 0)
    status = language_block_init(&block, &program->language);
  for (size_t i = 0; i < serving->count && status == 0; i++)
    serve_alone(program, &serving->requests[i], &scratch, &block);
  language_block_finish(&block);
  language_scratch_finish(&scratch);
  program->prefill_ns /= serving->count;
  program->transfer_ns /= serving->count;
  program->decode_ns /= serving->count;
  program->expected = requests_checksum(serving->requests, serving->count);
  choose_rate(program);
  return status == 0 ? 0 : report_failure(PROGRAM, "memory for a request", status);
}

/* ---- a run ---- */

static int compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* Sorts the waits. */
static latencies_t summarise(program_t *program) {
  size_t count = program->serving.count;
  latencies_t latencies = {.mean_ns = 0};
  qsort(program->waits, count, sizeof *program->waits, compare);
  for (size_t i = 0; i < count; i++)
    latencies.mean_ns += program->waits[i] / count;
  latencies.p50_ns = program->waits[(count - 1) * 50 / 100];
  latencies.p99_ns = program->waits[(count - 1) * 99 / 100];
  return latencies;
}

static int run_once(program_t *program, ovl_mode_t mode) {
  serving_t *serving = &program->serving;
  outcome_t *outcome = &program->outcomes[mode];
  if (serving_run(serving, mode) != 0)
    return -1;
  outcome->times.measured_ns = serving->elapsed_ns;
  outcome->refused = serving->refused;
  outcome->checksum = requests_checksum(serving->requests, serving->count);
  for (size_t i = 0; i < serving->count; i++)
    program->waits[i] = serving->requests[i].first_ns - serving->requests[i].arrived_ns;
  outcome->measured = summarise(program);
  if (forecast_run(serving, mode == OVL_SERIAL ? 1 : serving->window, &outcome->times.predicted_ns,
                   program->waits) != 0)
    return -1;
  outcome->predicted = summarise(program);
  if (outcome->checksum == program->expected)
    return 0;
  fprintf(stderr, PROGRAM ": the tokens of the %s run differ from those without a pipeline\n",
          mode == OVL_SERIAL ? "serial" : "overlapped");
  return -1;
}

/* ---- what came of it ---- */

static void print_requests(const program_t *program) {
  printf("%" PRIu64 " requests of seed %" PRIu64 ", one every %.3f ms on average; window %" PRIu64
         ", width %" PRIu64 ", products by %s\n",
         program->count, program->seed, program->serving.pause_ns / 1e6, program->window, program->width,
         matrix_method());
  printf("on average and alone: prefill %.3f ms, transfer %.3f ms, decode %.3f ms\n",
         report_ms(program->prefill_ns), report_ms(program->transfer_ns), report_ms(program->decode_ns));
  report_processors(2);
}

static void print_latency(const char *name, uint64_t serial_predicted, uint64_t serial_measured,
                          uint64_t overlap_predicted, uint64_t overlap_measured) {
  printf("  %-24s %12.3f %12.3f %12.3f %12.3f %9.2f\n", name, report_ms(serial_predicted),
         report_ms(serial_measured), report_ms(overlap_predicted), report_ms(overlap_measured),
         report_ratio(serial_measured, overlap_measured));
}

static double per_second(uint64_t count, uint64_t ns) {
  return ns == 0 ? 0 : (double)count * 1e9 / (double)ns;
}

static void print_throughput(const char *name, uint64_t count, const run_times_t *serial,
                             const run_times_t *overlap) {
  printf("  %-24s %12.1f %12.1f %12.1f %12.1f %9.2f\n", name, per_second(count, serial->predicted_ns),
         per_second(count, serial->measured_ns), per_second(count, overlap->predicted_ns),
         per_second(count, overlap->measured_ns), report_ratio(serial->measured_ns, overlap->measured_ns));
}

static void print_outcomes(const program_t *program) {
  const outcome_t *serial = &program->outcomes[OVL_SERIAL];
  const outcome_t *overlap = &program->outcomes[OVL_OVERLAP];
  uint64_t tokens = requests_tokens(program->serving.requests, program->serving.count);
  report_runs(&serial->times, &overlap->times);
  printf("\n  %-24s %12s %12s %12s %12s %9s\n", "", "serial", "serial", "overlapped", "overlapped",
         "better by");
  printf("  %-24s %12s %12s %12s %12s\n", "", "predicted", "measured", "predicted", "measured");
  print_latency("first token, mean, ms", serial->predicted.mean_ns, serial->measured.mean_ns,
                overlap->predicted.mean_ns, overlap->measured.mean_ns);
  print_latency("first token, p50, ms", serial->predicted.p50_ns, serial->measured.p50_ns,
                overlap->predicted.p50_ns, overlap->measured.p50_ns);
  print_latency("first token, p99, ms", serial->predicted.p99_ns, serial->measured.p99_ns,
                overlap->predicted.p99_ns, overlap->measured.p99_ns);
  print_throughput("requests a second", program->count, &serial->times, &overlap->times);
  print_throughput("tokens a second", tokens, &serial->times, &overlap->times);
  printf("\n  the queue was full %zu times in the serial run, %zu times in the overlapped one\n",
         serial->refused, overlap->refused);
  printf("  checksum of all tokens %016" PRIx64 ", in both runs and without a pipeline\n", program->expected);
}

/* ---- the program ---- */

static int serve(program_t *program) {
  int opened = serving_open(&program->serving);
  int result = opened;
  if (result == 0)
    result = run_once(program, OVL_SERIAL);
  if (result == 0)
    result = run_once(program, OVL_OVERLAP);
  if (result == 0) {
    print_requests(program);
    print_outcomes(program);
  }
  serving_close(&program->serving);
  return result;
}

static int run_program(void *data) {
  program_t *program = data;
  int code = EXIT_FAULT;
  if (set_up(program) == 0 && serve_all_alone(program) == 0 && serve(program) == 0)
    code = EXIT_SUCCESS;
  tear_down(program);
  return report_flush(PROGRAM, code);
}

int main(int argc, char **argv) {
  program_t program = {.count = 50, .window = 4, .seed = 1, .link_mbs = 50, .width = 80};
  const argument_t list[] = {
      {'n', "requests", "N", &program.count, 1, 100000, "requests"},
      {'w', "window", "W", &program.window, 1, 256, "requests in the pipeline"},
      {'r', "rate", "RATE", &program.rate, 0, 1000000,
       "requests a second; 0: 4/5 of what the slowest stage can"},
      {'s', "seed", "SEED", &program.seed, 0, UINT64_MAX, "of prompts, lengths and arrivals"},
      {'m', "link-mbs", "MB", &program.link_mbs, 1, 100000, "megabytes a second on the link"},
      {'d', "dimension", "D", &program.width, 8, 512, "width of the model"},
  };
  const arguments_t arguments = {
      PROGRAM, "Prefill, the transfer of keys and values, and decode of streaming requests, on three lanes.",
      list, sizeof list / sizeof list[0]};
  return arguments_run(&arguments, argc, argv, run_program, &program);
}
