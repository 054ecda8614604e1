/* SPDX-License-Identifier: MIT */
/* Reads the command line of overlap_sim by hand-written rules that do not depend on the locale.
 * Numbers are plain decimals: no sign, exponent, hexadecimal, "inf" or "nan", and no white space. */
#include "overlap_sim_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

static const char usage[] =
    "Usage: overlap_sim [OPTION]...\n"
    "Run microbatches of compute and communication one after another, then overlapped, and hold\n"
    "both times against theory.\n"
    "\n"
    "  -n, --microbatches=N  how many microbatches, 0 to 1000000 (8)\n"
    "  -c, --compute-ms=MS   time that each computes, 0 to 3600000 ms (50)\n"
    "  -m, --comm-ms=MS      time that each communicates, 0 to 3600000 ms (30)\n"
    "  -w, --window=W        microbatches in flight, 1 to 65536 (the library's default)\n"
    "      --json            print one JSON object instead of text\n"
    "  -h, --help            print this and exit\n"
    "\n"
    "Times are plain decimals such as 50, 0.25 or .5.\n"
    "Exit status: 0 if all went well; 1 if a run failed or beat its bound, which means that a\n"
    "dependency was broken; 2 if the command line makes no sense.\n";

static int is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Only for explaining: would this be a number in some other notation? */
static int is_negative(const char *text) {
  return text[0] == '-' && (is_digit(text[1]) || text[1] == '.');
}

static const char *shape_fault(const char *text) {
  if (*text == '\0')
    return "is empty";
  return is_negative(text) ? "is negative" : NULL;
}

/* Appends the digits at *text to *number, at most `most` in value. 0, or -1 when it would be more. */
static int read_digits(const char **text, uint64_t most, uint64_t *number) {
  for (; is_digit(**text); ++*text) {
    uint64_t digit = (uint64_t)(**text - '0');
    if (*number > (most - digit) / 10)
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

const char *overlap_sim_read_ms(const char *text, uint64_t *ns) {
  const char *at = text;
  uint64_t ms = 0;
  uint64_t fraction_ns = 0;
  if (shape_fault(text) != NULL)
    return shape_fault(text);
  if (read_digits(&at, OVERLAP_SIM_MAX_MS, &ms) != 0)
    return "is more than 3600000 ms, one hour";
  int digits = at != text;
  if (*at == '.') {
    at++;
    digits = digits || is_digit(*at);
    fraction_ns = read_fraction(&at);
  }
  if (!digits || *at != '\0')
    return "is not a plain decimal number of milliseconds";
  if (ms == OVERLAP_SIM_MAX_MS && fraction_ns > 0)
    return "is more than 3600000 ms, one hour";
  *ns = ms * NS_PER_MS + fraction_ns;
  return NULL;
}

const char *overlap_sim_read_count(const char *text, uint64_t least, uint64_t most, uint64_t *count) {
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

static int refuse(const char *option, const char *value, const char *why) {
  fprintf(stderr, "overlap_sim: %s: '%s' %s\n", option, value, why);
  return -1;
}

static int take_ms(const char *option, const char *value, uint64_t *ns) {
  const char *why = overlap_sim_read_ms(value, ns);
  return why == NULL ? 0 : refuse(option, value, why);
}

static int take_microbatches(const char *value, uint64_t *microbatches) {
  const char *why = overlap_sim_read_count(value, 0, OVERLAP_SIM_MAX_MICROBATCHES, microbatches);
  if (why == NULL)
    return 0;
  return refuse("--microbatches (0 to 1000000)", value, why);
}

static int take_window(const char *value, uint32_t *window) {
  uint64_t count = 0;
  const char *why = overlap_sim_read_count(value, 1, OVERLAP_SIM_MAX_WINDOW, &count);
  if (why != NULL)
    return refuse("--window (1 to 65536)", value, why);
  *window = (uint32_t)count;
  return 0;
}

/* One option that getopt_long recognised. 0, or -1 after a message. */
static int take(overlap_sim_options_t *options, int option, const char *value) {
  switch (option) {
  case 'n':
    return take_microbatches(value, &options->microbatches);
  case 'c':
    return take_ms("--compute-ms", value, &options->compute_ns);
  case 'm':
    return take_ms("--comm-ms", value, &options->comm_ns);
  case 'w':
    return take_window(value, &options->window);
  case 'j':
    options->json = 1;
    return 0;
  default: /* '?': unknown, ambiguous or without its value; getopt_long has said so */
    return -1;
  }
}

static void set_defaults(overlap_sim_options_t *options) {
  memset(options, 0, sizeof *options);
  options->microbatches = 8;
  options->compute_ns = 50 * NS_PER_MS;
  options->comm_ns = 30 * NS_PER_MS;
}

overlap_sim_request_t overlap_sim_options_read(overlap_sim_options_t *options, int argc, char **argv) {
  static const struct option names[] = {
      {"microbatches", required_argument, NULL, 'n'},
      {"compute-ms", required_argument, NULL, 'c'},
      {"comm-ms", required_argument, NULL, 'm'},
      {"window", required_argument, NULL, 'w'},
      {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  set_defaults(options);
  for (int option; (option = getopt_long(argc, argv, "n:c:m:w:h", names, NULL)) != -1;) {
    if (option == 'h')
      return fputs(usage, stdout) < 0 ? OVERLAP_SIM_REFUSED : OVERLAP_SIM_HELPED;
    if (take(options, option, optarg) != 0)
      return OVERLAP_SIM_REFUSED;
  }
  if (optind >= argc)
    return OVERLAP_SIM_RUN;
  fprintf(stderr, "overlap_sim: unexpected argument '%s'\n", argv[optind]);
  return OVERLAP_SIM_REFUSED;
}
