/* SPDX-License-Identifier: MIT */
#include "bench_ratio.h"

#include <string.h>

#include "bench_system.h"

/* NULL: not measured. */
static const bench_result_t *find(const bench_report_t *report, const char *scenario, const char *label,
                                  const bench_system_t *system) {
  for (size_t i = 0; i < report->count; i++) {
    const bench_result_t *result = &report->results[i];
    if (strcmp(result->scenario, scenario) == 0 && strcmp(result->label, label) == 0 &&
        strcmp(result->system, system->name) == 0)
      return result;
  }
  return NULL;
}

/* Of an efficiency there is more, of times less, where something is faster. */
static double speed(const bench_result_t *a, const bench_result_t *b) {
  if (a == NULL || b == NULL || a->summary.median <= 0 || b->summary.median <= 0)
    return 0;
  bool more_is_faster = strcmp(a->unit, "efficiency") == 0;
  return more_is_faster ? a->summary.median / b->summary.median : b->summary.median / a->summary.median;
}

bench_ratios_t bench_ratios(const bench_report_t *report, const char *scenario, const char *label) {
  const bench_result_t *own = find(report, scenario, label, &bench_system_ovl), *best = NULL;
  for (size_t s = 0; s < bench_system_count; s++) {
    const bench_result_t *peer =
        bench_systems[s]->is_peer ? find(report, scenario, label, bench_systems[s]) : NULL;
    if (peer != NULL && (best == NULL || speed(peer, best) > 1))
      best = peer;
  }
  return (bench_ratios_t){.to_floor = speed(own, find(report, scenario, label, &bench_system_floor)),
                          .to_best = speed(own, best),
                          .best = best != NULL ? best->system : NULL};
}
