/* SPDX-License-Identifier: MIT */
/* Text on its way to an ovl_write_cb: gathered in a buffer, with names escaped for where they stand. Knows no locale:
 * numbers are whole. */
#ifndef OVL_OBSERVE_TEXT_H
#define OVL_OBSERVE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "ovl/trace.h"

typedef struct ovl_text {
  ovl_write_cb write;
  void *context;
  int error; /* the first that `write` returned: nothing is written any more */
  size_t used;
  char buffer[4096];
} ovl_text_t;

void ovl_text_begin(ovl_text_t *text, ovl_write_cb write, void *context);

/* Writes what is left in the buffer: 0, or the first error. */
int ovl_text_end(ovl_text_t *text);

/* For what this library says itself: shorter than the buffer, and what print makes shorter than 512 bytes. */
void ovl_text_put(ovl_text_t *text, const char *string);
void ovl_text_print(ovl_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A string of any bytes as a JSON string, with its quotes. What is not UTF-8 becomes U+FFFD. */
void ovl_text_json(ovl_text_t *text, const char *string);

/* The same as XML text or the value of an attribute, without quotes; what XML cannot hold becomes U+FFFD too. Strings
 * of more than `most` characters are cut, and end in an ellipsis; 0: none is. */
void ovl_text_xml(ovl_text_t *text, const char *string, size_t most);

/* A time as people read it: three digits after the point at most, "12.5 us", "430 ms". */
void ovl_text_time(ovl_text_t *text, uint64_t ns);

#endif
