/* SPDX-License-Identifier: MIT */
/* Reads the command line, and says what it refuses and why. */
#include "bench_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "bench_system.h"

static const char usage[] =
    "Usage: bench [OPTION]...\n"
    "Measure libovl beside other ways of doing the same.\n"
    "\n"
    "      --quick             seconds instead of minutes: fewer cases, shorter repetitions\n"
    "      --smoke             show that everything works; the figures mean nothing\n"
    "  -r, --repetitions=N     1 to 99 (5; 3 with --quick, 1 with --smoke)\n"
    "  -s, --scenario=NAME     only this scenario; may be given several times\n"
    "  -y, --system=NAME       only this system; may be given several times\n"
    "  -j, --json=FILE         write the results to FILE as JSON too\n"
    "  -l, --list              list scenarios and systems and exit\n"
    "  -h, --help              print this and exit\n"
    "\n"
    "Progress is shown on stderr. Exit status: 0 if all went well; 1 if a system failed or broke a\n"
    "rule, or FILE cannot be written; 2 if the command line makes no sense.\n";

static const struct option long_options[] = {
    {"quick", no_argument, NULL, 'q'},
    {"smoke", no_argument, NULL, 'k'},
    {"repetitions", required_argument, NULL, 'r'},
    {"scenario", required_argument, NULL, 's'},
    {"system", required_argument, NULL, 'y'},
    {"json", required_argument, NULL, 'j'},
    {"list", no_argument, NULL, 'l'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void print_list(void) {
  puts("scenarios");
  for (size_t s = 0; s < bench_scenario_count; s++)
    printf("  %-16s %s\n", bench_scenarios[s].name, bench_scenarios[s].what);
  puts("systems");
  for (size_t s = 0; s < bench_system_count; s++)
    printf("  %-16s %s\n", bench_systems[s]->name, bench_systems[s]->what);
  if (*bench_systems_missing != '\0')
    printf("not in this build:%s\n", bench_systems_missing);
}

static int refuse(const char *option, const char *value, const char *why) {
  fprintf(stderr, "bench: %s: '%s' %s\n", option, value, why);
  return -1;
}

static int take_scenario(bench_options_t *options, const char *name) {
  for (size_t s = 0; s < bench_scenario_count; s++)
    if (strcmp(bench_scenarios[s].name, name) == 0) {
      options->scenarios[s] = true;
      return 0;
    }
  return refuse("--scenario", name, "is none of those that --list shows");
}

static int take_system(bench_options_t *options, const char *name) {
  for (size_t s = 0; s < bench_system_count; s++)
    if (strcmp(bench_systems[s]->name, name) == 0) {
      options->systems[s] = true;
      return 0;
    }
  return refuse("--system", name, "is none of those that --list shows");
}

static int take_repetitions(bench_options_t *options, const char *text) {
  unsigned number = 0;
  const char *at = text;
  while (*at >= '0' && *at <= '9' && number <= BENCH_MOST_REPETITIONS)
    number = number * 10 + (unsigned)(*at++ - '0');
  if (at == text || *at != '\0' || number == 0 || number > BENCH_MOST_REPETITIONS)
    return refuse("--repetitions", text, "is not a whole number from 1 to 99");
  options->repetitions = number;
  return 0;
}

static int take_json(bench_options_t *options, const char *name) {
  if (*name == '\0')
    return refuse("--json", name, "is not a file's name");
  options->json = name;
  return 0;
}

/* One option that getopt_long recognised. 0, or -1 after a message. */
static int take(bench_options_t *options, int option, const char *value) {
  switch (option) {
  case 'q':
    options->effort = BENCH_QUICK;
    return 0;
  case 'k':
    options->effort = BENCH_SMOKE;
    return 0;
  case 'r':
    return take_repetitions(options, value);
  case 's':
    return take_scenario(options, value);
  case 'y':
    return take_system(options, value);
  case 'j':
    return take_json(options, value);
  default: /* '?': unknown, ambiguous or without its value; getopt_long has said so */
    return -1;
  }
}

/* Nothing chosen: everything. */
static void choose_all(bool *chosen, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (chosen[i])
      return;
  for (size_t i = 0; i < count; i++)
    chosen[i] = true;
}

static void fill_in(bench_options_t *options) {
  static const unsigned repetitions[] = {[BENCH_FULL] = 5, [BENCH_QUICK] = 3, [BENCH_SMOKE] = 1};
  if (options->repetitions == 0)
    options->repetitions = repetitions[options->effort];
  choose_all(options->systems, bench_system_count);
  choose_all(options->scenarios, bench_scenario_count);
}

static bench_wish_t wrong(void) {
  fputs("Try 'bench --help'.\n", stderr);
  return BENCH_WISH_WRONG;
}

bench_wish_t bench_options_read(bench_options_t *options, int argc, char **argv) {
  int option;
  *options = (bench_options_t){.effort = BENCH_FULL};
  while ((option = getopt_long(argc, argv, "r:s:y:j:lh", long_options, NULL)) != -1) {
    if (option == 'h') {
      fputs(usage, stdout);
      return BENCH_WISH_HELP;
    }
    if (option == 'l') {
      print_list();
      return BENCH_WISH_LIST;
    }
    if (take(options, option, optarg) != 0)
      return wrong();
  }
  if (optind < argc) {
    refuse("argument", argv[optind], "is not expected");
    return wrong();
  }
  fill_in(options);
  return BENCH_WISH_RUN;
}
