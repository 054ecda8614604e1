/* SPDX-License-Identifier: MIT */
/* Other work on the machine: as many spinning threads as there are processors. */
#ifndef OVL_BENCH_LOAD_H
#define OVL_BENCH_LOAD_H

void bench_load_begin(void);
void bench_load_end(void);

#endif
