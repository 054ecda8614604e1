/* SPDX-License-Identifier: MIT */
#include "bench_ratio.h"

#include <string.h>

#include "bench_system.h"

/* NULL: not measured, or slower than was looked for. */
static const bench_result_t *find(const bench_report_t *report, const char *scenario, const char *label,
                                  const bench_system_t *system) {
  for (size_t i = 0; i < report->count; i++) {
    const bench_result_t *r = &report->results[i];
    if (strcmp(r->scenario, scenario) == 0 && strcmp(r->system, system->name) == 0 &&
        strncmp(r->label, label, sizeof r->label - 1) == 0)
      return r->summary.median > 0 && r->limit != BENCH_MORE_THAN ? r : NULL;
  }
  return NULL;
}

/* How many times as fast a was as b. Of an efficiency there is more, of times less, where something is faster; 0: of other
 * units nothing is known. */
static double speed(const bench_result_t *a, const bench_result_t *b) {
  if (strcmp(a->unit, "efficiency") == 0)
    return a->summary.median / b->summary.median;
  return strncmp(a->unit, "ns", 2) == 0 ? b->summary.median / a->summary.median : 0;
}

/* 0 also where one of them was not measured, or is not known but for a limit. */
static double ratio(const bench_result_t *a, const bench_result_t *b) {
  bool exact = a != NULL && b != NULL && a->limit == BENCH_NO_LIMIT && b->limit == BENCH_NO_LIMIT;
  return exact ? speed(a, b) : 0;
}

bench_ratios_t bench_ratios(const bench_report_t *report, const char *scenario, const char *label) {
  const bench_result_t *own = find(report, scenario, label, &bench_system_ovl), *best = NULL;
  for (size_t s = 0; s < bench_system_count; s++) {
    const bench_result_t *peer =
        bench_systems[s]->is_peer ? find(report, scenario, label, bench_systems[s]) : NULL;
    if (peer != NULL && (best == NULL || speed(peer, best) > 1))
      best = peer;
  }
  double to_best = ratio(own, best);
  return (bench_ratios_t){.to_floor = ratio(own, find(report, scenario, label, &bench_system_floor)),
                          .to_best = to_best,
                          .best = to_best > 0 ? best->system : NULL};
}
