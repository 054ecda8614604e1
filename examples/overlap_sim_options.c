/* SPDX-License-Identifier: MIT */
/* Reads the command line of overlap_sim.
 * What a number may look like is said in parts/numbers.h. */
#include "overlap_sim_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "parts/numbers.h"

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
    "      --virtual         simulate in virtual time: nobody sleeps, and the times are exact\n"
    "      --json            print one JSON object instead of text\n"
    "      --timeline        draw both runs as text: the default, with --json on stderr\n"
    "      --svg=FILE        draw both runs into FILE, as SVG\n"
    "      --trace=FILE      write both runs into FILE, for ui.perfetto.dev or chrome://tracing\n"
    "      --explain         say what bounds the overlapped run, and what to change; with --json on stderr\n"
    "  -h, --help            print this and exit\n"
    "\n"
    "Times are plain decimals such as 50, 0.25 or .5.\n"
    "Exit status: 0 if all went well; 1 if a run failed or beat its bound, which means that a\n"
    "dependency was broken; 2 if the command line makes no sense.\n";

static int refuse(const char *option, const char *value, const char *why) {
  fprintf(stderr, "overlap_sim: %s: '%s' %s\n", option, value, why);
  return -1;
}

static int take_ms(const char *option, const char *value, uint64_t *ns) {
  const char *why = numbers_read_ms(value, ns);
  return why == NULL ? 0 : refuse(option, value, why);
}

static int take_microbatches(const char *value, uint64_t *microbatches) {
  const char *why = numbers_read_count(value, 0, OVERLAP_SIM_MAX_MICROBATCHES, microbatches);
  if (why == NULL)
    return 0;
  return refuse("--microbatches (0 to 1000000)", value, why);
}

static int take_window(const char *value, uint32_t *window) {
  uint64_t count = 0;
  const char *why = numbers_read_count(value, 1, OVERLAP_SIM_MAX_WINDOW, &count);
  if (why != NULL)
    return refuse("--window (1 to 65536)", value, why);
  *window = (uint32_t)count;
  return 0;
}

static int take_file(const char *option, const char *value, const char **name) {
  if (*value == '\0')
    return refuse(option, value, "is no file name");
  *name = value;
  return 0;
}

/* One file would be written over the other; and a simulation has nothing to be explained. */
static int check_together(const overlap_sim_options_t *options) {
  if (options->explain && options->virtual_time) {
    fputs("overlap_sim: --explain tells of a run, and with --virtual there is none\n", stderr);
    return -1;
  }
  if (options->svg == NULL || options->trace == NULL || strcmp(options->svg, options->trace) != 0)
    return 0;
  return refuse("--trace", options->trace, "is what --svg names too");
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
  case 's':
    return take_file("--svg", value, &options->svg);
  case 't':
    return take_file("--trace", value, &options->trace);
  case 'l':
    options->timeline = 1;
    return 0;
  case 'e':
    options->explain = 1;
    return 0;
  case 'j':
    options->json = 1;
    return 0;
  case 'v':
    options->virtual_time = 1;
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
      {"virtual", no_argument, NULL, 'v'},
      {"json", no_argument, NULL, 'j'},
      {"timeline", no_argument, NULL, 'l'},
      {"explain", no_argument, NULL, 'e'},
      {"svg", required_argument, NULL, 's'},
      {"trace", required_argument, NULL, 't'},
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
  if (optind < argc) {
    fprintf(stderr, "overlap_sim: unexpected argument '%s'\n", argv[optind]);
    return OVERLAP_SIM_REFUSED;
  }
  return check_together(options) == 0 ? OVERLAP_SIM_RUN : OVERLAP_SIM_REFUSED;
}
