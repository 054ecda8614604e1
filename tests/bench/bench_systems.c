/* SPDX-License-Identifier: MIT */
/* The table of systems in this build. BENCH_TBB and the like are defined by Meson, 1 for what it found. */
#include <uv.h>

#include "bench_system.h"

const bench_system_t *const bench_systems[] = {
    &bench_system_floor,  &bench_system_ovl,
#if BENCH_TBB
    &bench_system_tbb,    &bench_system_tbb_flow,
#endif
#if BENCH_OPENMP
    &bench_system_openmp,
#endif
#if BENCH_STARPU
    &bench_system_starpu,
#endif
    &bench_system_pool,   &bench_system_uv,
};

const size_t bench_system_count = sizeof bench_systems / sizeof bench_systems[0];

const char bench_systems_missing[] = ""
#if !BENCH_TBB
                                     " tbb, tbb-flow (libtbb-dev)"
#endif
#if !BENCH_OPENMP
                                     " openmp (libgomp1)"
#endif
#if !BENCH_STARPU
                                     " starpu (libstarpu-dev)"
#endif
    ;

uint32_t bench_threads(const bench_work_t *work) {
  uint32_t processors = uv_available_parallelism();
  return work->lanes < processors ? work->lanes : processors;
}
