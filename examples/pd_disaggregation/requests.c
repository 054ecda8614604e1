/* SPDX-License-Identifier: MIT */
/* Requests arrive with pauses as independent visitors leave them: short ones often, long ones now and then.
 * Lengths are spread evenly between their limits. */
#include "pd_disaggregation/requests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "parts/matrix.h"

static size_t between(uint64_t *state, size_t least, size_t most) {
  return least + (size_t)(matrix_random(state) % (most - least + 1));
}

/* Above 0, up to 1. */
static double fraction(uint64_t *state) {
  return ((double)(matrix_random(state) >> 11) + 1) / 9007199254740992.0;
}

request_t *requests_new(size_t count, uint64_t seed) {
  request_t *requests = calloc(count, sizeof *requests);
  for (size_t i = 0; i < count && requests != NULL; i++) {
    request_t *request = &requests[i];
    request->after = -log(fraction(&seed));
    request->prompt_count = between(&seed, REQUESTS_PROMPT_LEAST, REQUESTS_PROMPT_MOST);
    request->output_count = between(&seed, REQUESTS_OUTPUT_LEAST, REQUESTS_OUTPUT_MOST);
    for (size_t t = 0; t < request->prompt_count; t++)
      request->prompt[t] = (uint8_t)(matrix_random(&seed) % LANGUAGE_TOKENS);
  }
  return requests;
}

void requests_clear(request_t *requests, size_t count) {
  for (size_t i = 0; i < count; i++) {
    request_t *request = &requests[i];
    memset(request->output, 0, sizeof request->output);
    request->arrived_ns = request->first_ns = 0;
    request->reports = 0;
    request->status = 0;
  }
}

void requests_decode(request_t *request, const language_t *language, language_scratch_t *scratch,
                     language_block_t *block) {
  uint8_t token = request->prompt[request->prompt_count - 1];
  for (size_t t = 0; t < request->output_count; t++) {
    token = request->output[t] = language_decode(language, scratch, token, block);
    if (t == 0)
      request->first_ns = uv_hrtime();
  }
}

/* FNV-1a: Fowler, Noll, Vo. */
uint64_t requests_checksum(const request_t *requests, size_t count) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < count; i++)
    for (size_t t = 0; t < requests[i].output_count; t++)
      sum = (sum ^ requests[i].output[t]) * UINT64_C(0x100000001b3);
  return sum;
}

uint64_t requests_tokens(const request_t *requests, size_t count) {
  uint64_t tokens = 0;
  for (size_t i = 0; i < count; i++)
    tokens += requests[i].output_count;
  return tokens;
}
