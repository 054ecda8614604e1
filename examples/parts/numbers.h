/* SPDX-License-Identifier: MIT */
/* Reads numbers by hand-written rules that do not depend on the locale.
 * They are plain decimals: no sign, exponent, hexadecimal, "inf" or "nan", and no white space. */
#ifndef EXAMPLES_PARTS_NUMBERS_H
#define EXAMPLES_PARTS_NUMBERS_H

#include <stdint.h>

#define NUMBERS_MAX_MS UINT64_C(3600000) /* one hour */

/* Reads a time in milliseconds, as "50", "0.25" or ".5": digits and at most one point, nothing else, rounded
 * to whole nanoseconds. NULL, or what is wrong with the text. */
const char *numbers_read_ms(const char *text, uint64_t *ns);

/* Reads a whole number from `least` to `most`. NULL, or what is wrong with the text. */
const char *numbers_read_count(const char *text, uint64_t least, uint64_t most, uint64_t *count);

#endif
