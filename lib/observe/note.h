/* SPDX-License-Identifier: MIT */
/* Text that is written into a buffer of the caller's, as far as it goes. */
#ifndef OVL_OBSERVE_NOTE_H
#define OVL_OBSERVE_NOTE_H

#include <stddef.h>
#include <stdint.h>

typedef struct ovl_note {
  char *buffer;
  size_t bytes;
  size_t length; /* of all that was added, whether or not there was room for it */
} ovl_note_t;

/* A time in words. */
typedef struct ovl_words {
  char text[24];
} ovl_words_t;

/* `bytes` may be 0, and the buffer NULL then. */
void ovl_note_init(ovl_note_t *text, char *buffer, size_t bytes);
void ovl_note_add(ovl_note_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks text that did not fit as cut off. Its whole length, INT_MAX at most. */
int ovl_note_end(ovl_note_t *text);

ovl_words_t ovl_note_time(uint64_t ns);

#endif
