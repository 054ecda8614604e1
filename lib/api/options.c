/* SPDX-License-Identifier: MIT */
/* Reading and writing structs by the size that their owner gave them. */
#include "api/options.h"

#include <string.h>

#include "ovl/errors.h"

static size_t size_of(const void *options) {
  size_t size;
  memcpy(&size, options, sizeof size);
  return size;
}

#define MOST_SIZE 4096 /* no struct will ever be that large: the size was never set */

/* Fields that this library does not know are fine as long as nothing is asked of them. */
static int check_size(const void *options, size_t known, size_t least) {
  size_t size = size_of(options);
  if (size < least || size > MOST_SIZE)
    return OVL_ESTRUCTSIZE;
  for (size_t i = known; i < size; i++)
    if (((const unsigned char *)options)[i] != 0)
      return OVL_ESTRUCTSIZE;
  return 0;
}

int ovl_options_read(void *into, size_t known, const void *from, size_t least) {
  if (check_size(from, known, least) != 0)
    return OVL_ESTRUCTSIZE;
  size_t size = size_of(from);
  memset(into, 0, known);
  memcpy(into, from, size < known ? size : known);
  memcpy(into, &known, sizeof known);
  return 0;
}

int ovl_options_write(void *into, const void *from, size_t known, size_t least) {
  if (check_size(into, known, least) != 0)
    return OVL_ESTRUCTSIZE;
  size_t size = size_of(into), copied = size < known ? size : known;
  memcpy((char *)into + sizeof size, (const char *)from + sizeof size, copied - sizeof size);
  return 0;
}
