/* SPDX-License-Identifier: MIT */
/* Digit by digit, with every overflow seen before it happens.
 * What is wrong with a text is said in words that complete "'TEXT' ...". */
#include "parts/numbers.h"

#include <stddef.h>

#define NS_PER_MS UINT64_C(1000000)

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Only for explaining: would this be a number in some other notation? */
static int is_negative(const char *text) { return text[0] == '-' && (is_digit(text[1]) || text[1] == '.'); }

static const char *shape_fault(const char *text) {
  if (*text == '\0')
    return "is empty";
  return is_negative(text) ? "is negative" : NULL;
}

/* Appends the digits at *text to *number, at most `most` in value. 0, or -1 when it would be more. */
static int read_digits(const char **text, uint64_t most, uint64_t *number) {
  for (; is_digit(**text); ++*text) {
    uint64_t digit = (uint64_t)(**text - '0');
    if (digit > most || *number > (most - digit) / 10)
      return -1;
    *number = *number * 10 + digit;
  }
  return 0;
}

/* The digits after the point as nanoseconds of a millisecond, rounded by the seventh. */
static uint64_t read_fraction(const char **text) {
  uint64_t ns = 0;
  uint64_t unit = NS_PER_MS;
  for (; is_digit(**text); ++*text) {
    uint64_t digit = (uint64_t)(**text - '0');
    if (unit == 1 && digit >= 5)
      ns++;
    unit /= 10;
    ns += digit * unit;
  }
  return ns;
}

const char *numbers_read_ms(const char *text, uint64_t *ns) {
  const char *at = text;
  uint64_t ms = 0;
  uint64_t fraction_ns = 0;
  if (shape_fault(text) != NULL)
    return shape_fault(text);
  if (read_digits(&at, NUMBERS_MAX_MS, &ms) != 0)
    return "is more than 3600000 ms, one hour";
  int digits = at != text;
  if (*at == '.') {
    at++;
    digits = digits || is_digit(*at);
    fraction_ns = read_fraction(&at);
  }
  if (!digits || *at != '\0')
    return "is not a plain decimal number of milliseconds";
  if (ms == NUMBERS_MAX_MS && fraction_ns > 0)
    return "is more than 3600000 ms, one hour";
  *ns = ms * NS_PER_MS + fraction_ns;
  return NULL;
}

const char *numbers_read_count(const char *text, uint64_t least, uint64_t most, uint64_t *count) {
  const char *at = text;
  uint64_t number = 0;
  if (shape_fault(text) != NULL)
    return shape_fault(text);
  if (read_digits(&at, most, &number) != 0)
    return "is too large";
  if (at == text || *at != '\0')
    return "is not a plain whole number";
  if (number < least)
    return "is too small";
  *count = number;
  return NULL;
}
