/* SPDX-License-Identifier: MIT */
/* Text that is written into a buffer of the caller's, as far as it goes. */
#ifndef OVL_OBSERVE_TEXT_H
#define OVL_OBSERVE_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct ovl_text {
  char *buffer;
  size_t bytes;
  size_t length; /* of all that was added, whether or not there was room for it */
} ovl_text_t;

/* A time in words. */
typedef struct ovl_words {
  char text[24];
} ovl_words_t;

/* `bytes` may be 0, and the buffer NULL then. */
void ovl_text_init(ovl_text_t *text, char *buffer, size_t bytes);
void ovl_text_add(ovl_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks text that did not fit as cut off. Its whole length, INT_MAX at most. */
int ovl_text_end(ovl_text_t *text);

ovl_words_t ovl_text_time(uint64_t ns);

#endif
