/* SPDX-License-Identifier: MIT */
/* Buffering, UTF-8, and the escapes of JSON (RFC 8259) and XML (1.0, fifth edition). */
#include "observe/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define REPLACEMENT 0xfffdu
#define ELLIPSIS "\xe2\x80\xa6"

/* ---- buffering ----------------------------------------------------------------------------------------------- */

void ovl_text_begin(ovl_text_t *text, ovl_write_cb write, void *context) {
  text->write = write;
  text->context = context;
  text->error = 0;
  text->used = 0;
}

static void flush(ovl_text_t *text) {
  if (text->error == 0 && text->used > 0)
    text->error = text->write(text->context, text->buffer, text->used);
  text->used = 0;
}

int ovl_text_end(ovl_text_t *text) {
  flush(text);
  return text->error;
}

static void put(ovl_text_t *text, const char *bytes, size_t count) {
  if (count > sizeof text->buffer - text->used)
    flush(text);
  memcpy(text->buffer + text->used, bytes, count);
  text->used += count;
}

void ovl_text_put(ovl_text_t *text, const char *string) { put(text, string, strlen(string)); }

void ovl_text_print(ovl_text_t *text, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  put(text, line, (size_t)length);
}

int ovl_write_to_file(void *file, const char *bytes, size_t count) {
  errno = 0;
  if (fwrite(bytes, 1, count, file) == count)
    return 0;
  return errno != 0 ? -errno : -EIO;
}

/* ---- UTF-8 (RFC 3629) ---------------------------------------------------------------------------------------- */

/* How many bytes follow the first; 4: it is not the first of any. */
static unsigned bytes_after(unsigned char first) {
  if (first < 0x80)
    return 0;
  if (first < 0xc2 || first > 0xf4)
    return 4;
  return first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

/* The character at *at, and on to the next. A byte that belongs to none is U+FFFD. */
static uint32_t next_character(const char **at) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  const unsigned char *bytes = (const unsigned char *)*at;
  unsigned more = bytes_after(bytes[0]);
  ++*at;
  if (more == 0)
    return bytes[0];
  if (more == 4)
    return REPLACEMENT;
  uint32_t c = bytes[0] & (0x3fu >> more);
  for (unsigned k = 1; k <= more; k++) {
    if ((bytes[k] & 0xc0) != 0x80)
      return REPLACEMENT;
    c = c << 6 | (bytes[k] & 0x3fu);
  }
  if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return REPLACEMENT;
  *at += more;
  return c;
}

static void put_character(ovl_text_t *text, uint32_t c) {
  static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
  char bytes[4];
  unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  for (unsigned k = more; k > 0; k--) {
    bytes[k] = (char)(0x80 | (c & 0x3f));
    c >>= 6;
  }
  bytes[0] = (char)(marks[more] | c);
  put(text, bytes, more + 1);
}

/* ---- escapes ------------------------------------------------------------------------------------------------- */

/* A backslash by number: Perfetto's reader takes a quote for the end of a string if the character before is none. */
static void put_in_json(ovl_text_t *text, uint32_t c) {
  if (c < 0x20 || c == '\\')
    ovl_text_print(text, "\\u%04x", (unsigned)c);
  else if (c == '"')
    ovl_text_put(text, "\\\"");
  else
    put_character(text, c);
}

void ovl_text_json(ovl_text_t *text, const char *string) {
  ovl_text_put(text, "\"");
  while (*string != '\0')
    put_in_json(text, next_character(&string));
  ovl_text_put(text, "\"");
}

static void put_in_xml(ovl_text_t *text, uint32_t c) {
  if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'' || c == '\t' || c == '\n' || c == '\r')
    ovl_text_print(text, "&#%u;", (unsigned)c);
  else
    put_character(text, c < 0x20 || c == 0xfffe || c == 0xffff ? REPLACEMENT : c);
}

static bool is_longer(const char *string, size_t most) {
  while (most > 0 && *string != '\0') {
    next_character(&string);
    most--;
  }
  return *string != '\0';
}

void ovl_text_xml(ovl_text_t *text, const char *string, size_t most) {
  bool cut = most > 0 && is_longer(string, most);
  for (size_t n = 1; *string != '\0' && !(cut && n == most); n++)
    put_in_xml(text, next_character(&string));
  if (cut)
    ovl_text_put(text, ELLIPSIS);
}

/* ---- times --------------------------------------------------------------------------------------------------- */

void ovl_text_time(ovl_text_t *text, uint64_t ns) {
  static const struct {
    uint64_t ns;
    const char *name;
  } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
  unsigned u = 0;
  while (units[u].ns > 1 && ns < units[u].ns)
    u++;
  uint64_t whole = ns / units[u].ns;
  unsigned part = units[u].ns > 1 ? (unsigned)(ns % units[u].ns / (units[u].ns / 1000)) : 0;
  ovl_text_print(text, "%llu", (unsigned long long)whole);
  int digits = 3;
  for (; digits > 0 && part % 10 == 0; digits--)
    part /= 10;
  if (digits > 0)
    ovl_text_print(text, ".%0*u", digits, part);
  ovl_text_print(text, " %s", units[u].name);
}
