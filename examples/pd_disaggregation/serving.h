/* SPDX-License-Identifier: MIT */
/* The server: requests stream through prefill, the transfer of their keys and values, and decode, each on its lane.
 * They come when a timer says so, wait outside while the pipeline's queue is full, and go in when it has room. */
#ifndef EXAMPLES_PD_DISAGGREGATION_SERVING_H
#define EXAMPLES_PD_DISAGGREGATION_SERVING_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "ovl.h"
#include "parts/flight.h"
#include "parts/op_times.h"
#include "pd_disaggregation/language.h"
#include "pd_disaggregation/requests.h"

/* Stages, in the order of adding. */
enum { SERVING_PREFILL, SERVING_TRANSFER, SERVING_DECODE, SERVING_STAGES };

typedef struct serving {
  const char *program; /* its name, for messages */
  const language_t *language;
  request_t *requests;
  size_t count;
  uint32_t window;
  double pause_ns;    /* between two arrivals, on average */
  double ns_per_byte; /* of the link */

  ovl_pipeline_t *pipeline;
  ovl_stage_t stages[SERVING_STAGES];
  op_times_t times;  /* of the last run */
  uint64_t start_ns; /* of the last run */
  uint64_t elapsed_ns;
  size_t refused; /* how often the queue was full */

  language_block_t *prefilled; /* by slot, in the memory of prefill */
  language_block_t *decoded;   /* by slot, in the memory of decode */
  language_scratch_t prefill_scratch;
  language_scratch_t decode_scratch;
  flight_t link;
  int linked;       /* the link is there */
  ovl_op_t *flying; /* on the link; it has one at a time */

  uv_loop_t loop; /* of the run; the rest is its thread's alone */
  uv_timer_t timer;
  double next_ns;   /* when the next request arrives, after start_ns */
  size_t arrived;   /* requests that have */
  size_t submitted; /* of those; the others wait outside */
  int status;       /* the first thing that went wrong */
} serving_t;

/* Fields above `pipeline` are set before. 0, or an error after a message, as everywhere here; close is due after
 * both. */
int serving_open(serving_t *serving);
void serving_close(serving_t *serving);

/* Serves all requests, and checks that every one was ended once and every rule kept. */
int serving_run(serving_t *serving, ovl_mode_t mode);

/* How long the link takes for the keys and values of a request. */
uint64_t serving_flight(const serving_t *serving, const request_t *request);

#endif
