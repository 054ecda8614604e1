/* SPDX-License-Identifier: MIT */
/* How libovl does beside the others in one case of a scenario. */
#ifndef OVL_BENCH_RATIO_H
#define OVL_BENCH_RATIO_H

#include "bench_report.h"

/* Times as fast, by medians; above 1: libovl is faster. */
typedef struct bench_ratios {
  double to_floor;  /* 0: one of the two was not measured */
  double to_best;   /* of the peers */
  const char *best; /* its name; NULL: no peer was measured */
} bench_ratios_t;

/* From what the report has by now of that scenario and case. */
bench_ratios_t bench_ratios(const bench_report_t *report, const char *scenario, const char *label);

#endif
