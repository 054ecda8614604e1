/* SPDX-License-Identifier: MIT */
/* What is asked of the server, and what became of it: prompts and times of arrival from a pseudo-random sequence,
 * then tokens and times. The same seed makes the same requests. */
#ifndef EXAMPLES_PD_DISAGGREGATION_REQUESTS_H
#define EXAMPLES_PD_DISAGGREGATION_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "pd_disaggregation/language.h"

#define REQUESTS_PROMPT_LEAST 96
#define REQUESTS_PROMPT_MOST 160
#define REQUESTS_OUTPUT_LEAST 60
#define REQUESTS_OUTPUT_MOST 132

/* Times are on uv_hrtime()'s clock. */
typedef struct request {
  uint8_t prompt[REQUESTS_PROMPT_MOST];
  size_t prompt_count;
  uint8_t output[REQUESTS_OUTPUT_MOST];
  size_t output_count; /* how many tokens are wanted */
  double after;        /* the request before it, in units of the mean pause */
  uint64_t arrived_ns;
  uint64_t first_ns; /* its first token was there */
  unsigned reports;  /* how often the pipeline said that it has ended: 1 in a run without fault */
  int status;        /* as it said */
} request_t;

/* `count` requests, the caller's to free(); NULL: no memory. */
request_t *requests_new(size_t count, uint64_t seed);

/* Forgets what became of them. */
void requests_clear(request_t *requests, size_t count);

/* Makes all of a request's tokens from a block that has its prompt but the last token; notes the time of the first. */
void requests_decode(request_t *request, const language_t *language, language_scratch_t *scratch,
                     language_block_t *block);

/* Of all tokens of all requests. */
uint64_t requests_checksum(const request_t *requests, size_t count);

/* Of all requests, how many tokens were made. */
uint64_t requests_tokens(const request_t *requests, size_t count);

#endif
