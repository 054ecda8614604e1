/* SPDX-License-Identifier: MIT */
/* The two ends of an operation as the watcher sees them; the rest of it is in bench_work.h. */
#ifndef OVL_BENCH_CHECK_H
#define OVL_BENCH_CHECK_H

#include "bench_work.h"

void bench_check_op_begins(bench_check_t *check, uint64_t microbatch, uint32_t stage);
void bench_check_op_ends(bench_check_t *check, uint64_t microbatch, uint32_t stage);

#endif
