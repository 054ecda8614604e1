/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef OVL_BENCH_OPTIONS_H
#define OVL_BENCH_OPTIONS_H

#include "bench.h"

typedef enum bench_wish {
  BENCH_WISH_RUN,
  BENCH_WISH_HELP, /* was printed */
  BENCH_WISH_LIST, /* of systems and scenarios, was printed */
  BENCH_WISH_WRONG /* was explained on stderr */
} bench_wish_t;

bench_wish_t bench_options_read(bench_options_t *options, int argc, char **argv);

#endif
