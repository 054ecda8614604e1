/* SPDX-License-Identifier: MIT */
/* How libovl does beside the others in one case of a scenario. */
#ifndef OVL_BENCH_RATIO_H
#define OVL_BENCH_RATIO_H

#include "bench_report.h"

/* How many times as fast it was, or as small its METG, by medians; above 1: libovl is ahead. */
typedef struct bench_ratios {
  double to_floor;  /* 0: one of the two was not measured, or is not known but for a limit */
  double to_best;   /* of the peers; 0: the same */
  const char *best; /* its name; NULL where to_best is 0 */
} bench_ratios_t;

/* From what the report has by now of that scenario and case. */
bench_ratios_t bench_ratios(const bench_report_t *report, const char *scenario, const char *label);

#endif
