/* SPDX-License-Identifier: MIT */
#ifndef OVL_BENCH_LINE_H
#define OVL_BENCH_LINE_H

/* Nanoseconds in which a store of one processor is seen by another one, at best; 0 where there is one processor. */
double bench_line_ns(void);

#endif
