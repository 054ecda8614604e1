/* SPDX-License-Identifier: MIT */
/* A bounded snprintf, one piece after the other. */
#include "observe/note.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char cut_off[] = "...\n";

void ovl_note_init(ovl_note_t *text, char *buffer, size_t bytes) {
  *text = (ovl_note_t){.buffer = buffer, .bytes = bytes};
  if (bytes > 0)
    buffer[0] = '\0';
}

void ovl_note_add(ovl_note_t *text, const char *format, ...) {
  size_t room = text->length < text->bytes ? text->bytes - text->length : 0;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(room > 0 ? text->buffer + text->length : NULL, room, format, arguments);
  va_end(arguments);
  text->length += length > 0 ? (size_t)length : 0;
}

int ovl_note_end(ovl_note_t *text) {
  if (text->length >= text->bytes && text->bytes >= sizeof cut_off)
    memcpy(text->buffer + text->bytes - sizeof cut_off, cut_off, sizeof cut_off);
  return text->length < INT_MAX ? (int)text->length : INT_MAX;
}

ovl_words_t ovl_note_time(uint64_t ns) {
  static const struct {
    uint64_t ns;
    const char *name;
  } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};
  ovl_words_t words;
  size_t u = 0;
  while (u < 3 && ns < units[u].ns)
    u++;
  if (u == 3)
    snprintf(words.text, sizeof words.text, "%u ns", (unsigned)ns);
  else
    snprintf(words.text, sizeof words.text, "%.4g %s", (double)ns / (double)units[u].ns, units[u].name);
  return words;
}
