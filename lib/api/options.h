/* SPDX-License-Identifier: MIT */
/* Structs that callers of another version may have given another size. */
#ifndef OVL_API_OPTIONS_H
#define OVL_API_OPTIONS_H

#include <stddef.h>

/* Copies what the caller's struct has into `into`, which has `known` bytes, and fills up with zeros; sets its
 * size. 0; OVL_ESTRUCTSIZE when its size is below `least`, or it has non-zero bytes beyond `known`. */
int ovl_options_read(void *into, size_t known, const void *from, size_t least);

/* Copies as much of `from` as the caller's struct has room for, and keeps the size there. The same codes. */
int ovl_options_write(void *into, const void *from, size_t known, size_t least);

#endif
