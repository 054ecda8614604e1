/* SPDX-License-Identifier: MIT */
/* What a run of the server should have been, in virtual time: the arrivals and durations are those of the run.
 * The library predicts counted runs, so arriving is modelled as a lane of its own whose ops are the pauses. */
#ifndef EXAMPLES_PD_DISAGGREGATION_FORECAST_H
#define EXAMPLES_PD_DISAGGREGATION_FORECAST_H

#include <stdint.h>

#include "ovl.h"
#include "pd_disaggregation/serving.h"

/* Fills elapsed, and for each request the time from its arrival to its first token. `window` is 1 for a serial run.
 * 0, or an error after a message. */
int forecast_run(const serving_t *serving, uint32_t window, uint64_t *elapsed_ns, uint64_t *first_token_ns);

#endif
