/* SPDX-License-Identifier: MIT */
/* A system that can be given the work: libovl, the peers, and the floor below which none can be.
 * Each is in a file of its own; README.md says how each is set up, and why so. */
#ifndef OVL_BENCH_SYSTEM_H
#define OVL_BENCH_SYSTEM_H

#include <stddef.h>

#include "bench_work.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_system {
  const char *name; /* as in the tables and in --system */
  const char *what; /* how it is set up, in a line */
  bool is_peer;     /* neither libovl nor the floor */

  /* Once before any run, and once after the last: threads that outlive a run. Both may be NULL. 0: fine. */
  int (*open)(void);
  void (*close)(void);

  /* Runs the whole work and returns how long that took, in ns; 0: it failed, after a message on stderr.
   * What would not have to be done again for another batch (threads, descriptions) is done before the time
   * counts. */
  uint64_t (*run)(const bench_work_t *work);
} bench_system_t;

extern const bench_system_t bench_system_floor;
extern const bench_system_t bench_system_ovl;
extern const bench_system_t bench_system_tbb;
extern const bench_system_t bench_system_tbb_flow;
extern const bench_system_t bench_system_openmp;
extern const bench_system_t bench_system_starpu;
extern const bench_system_t bench_system_pool;
extern const bench_system_t bench_system_uv;

/* Those of this build, the floor and libovl first. */
extern const bench_system_t *const bench_systems[];
extern const size_t bench_system_count;

/* Those that this build could have had and has not, as "name (Debian package)"; "" for none. */
extern const char bench_systems_missing[];

/* Threads that a system of its own pool takes: one for each lane, as far as there are processors. */
uint32_t bench_threads(const bench_work_t *work);

#ifdef __cplusplus
}
#endif

#endif
