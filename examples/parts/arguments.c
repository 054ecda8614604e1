/* SPDX-License-Identifier: MIT */
/* From the table come getopt_long's two lists, the text of --help and the refusals.
 * -h, --help is every program's; its letter must not be in the table. */
#include "parts/arguments.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts/numbers.h"
#include "parts/report.h"

/* What the program does next. */
typedef enum request {
  RUN,
  HELPED, /* --help was answered: exit 0 */
  REFUSED /* one line on stderr said why: exit 2 */
} request_t;

/* getopt_long's: "k:l:Jh", and the long names. Both owned. */
typedef struct lists {
  char *letters;
  struct option *names;
} lists_t;

static int make_lists(const arguments_t *arguments, lists_t *lists) {
  size_t count = arguments->count;
  lists->letters = calloc(2 * count + 2, 1);
  lists->names = calloc(count + 2, sizeof *lists->names);
  if (lists->letters == NULL || lists->names == NULL)
    return -1;
  char *letter = lists->letters;
  for (size_t i = 0; i < count; i++) {
    const argument_t *argument = &arguments->list[i];
    int with = argument->unit != NULL ? required_argument : no_argument;
    *letter++ = argument->letter;
    if (with == required_argument)
      *letter++ = ':';
    lists->names[i] = (struct option){argument->name, with, NULL, argument->letter};
  }
  *letter = 'h';
  lists->names[count] = (struct option){"help", no_argument, NULL, 'h'};
  return 0;
}

static void print_words(const char *const *words, const char *before, FILE *to) {
  for (; *words != NULL; words++, before = ", ")
    fprintf(to, "%s%s", before, *words);
}

static void print_argument(const argument_t *argument) {
  int width = printf("  -%c, --%s", argument->letter, argument->name);
  if (argument->unit != NULL)
    width += printf("=%s", argument->unit);
  printf("%*s%s", width < 26 ? 26 - width : 1, "", argument->help);
  if (argument->words != NULL) {
    print_words(argument->words, ": ", stdout);
    printf(" (%s)", argument->words[*argument->value]);
  } else if (argument->unit != NULL && argument->text == NULL) {
    printf(", %" PRIu64 " to %" PRIu64 " (%" PRIu64 ")", argument->least, argument->most, *argument->value);
  }
  printf("\n");
}

static request_t print_help(const arguments_t *arguments) {
  printf("Usage: %s [OPTION]...\n%s\n\n", arguments->program, arguments->summary);
  for (size_t i = 0; i < arguments->count; i++)
    print_argument(&arguments->list[i]);
  printf(
      "  -h, --help              print this and exit\n\n"
      "Exit status: 0 if all went well; 1 if a run failed, if results differ or a rule was broken; 2 if the\n"
      "command line makes no sense.\n");
  return HELPED;
}

static const argument_t *find(const arguments_t *arguments, int letter) {
  for (size_t i = 0; i < arguments->count; i++)
    if (arguments->list[i].letter == letter)
      return &arguments->list[i];
  return NULL; /* '?': unknown, ambiguous or without its value; getopt_long has said so */
}

static int take_word(const arguments_t *arguments, const argument_t *argument, const char *text) {
  for (uint64_t i = 0; argument->words[i] != NULL; i++)
    if (strcmp(argument->words[i], text) == 0) {
      *argument->value = i;
      return 0;
    }
  fprintf(stderr, "%s: --%s: '%s' is none of", arguments->program, argument->name, text);
  print_words(argument->words, " ", stderr);
  fprintf(stderr, "\n");
  return -1;
}

static int take_number(const arguments_t *arguments, const argument_t *argument, const char *text) {
  const char *why = numbers_read_count(text, argument->least, argument->most, argument->value);
  if (why == NULL)
    return 0;
  fprintf(stderr, "%s: --%s (%" PRIu64 " to %" PRIu64 "): '%s' %s\n", arguments->program, argument->name,
          argument->least, argument->most, text, why);
  return -1;
}

static int take(const arguments_t *arguments, int letter, const char *text) {
  const argument_t *argument = find(arguments, letter);
  if (argument == NULL)
    return -1;
  if (argument->words != NULL)
    return take_word(arguments, argument, text);
  if (argument->unit != NULL && argument->text == NULL)
    return take_number(arguments, argument, text);
  if (argument->text != NULL)
    *argument->text = text;
  else
    *argument->value = 1;
  return 0;
}

static request_t read_all(const arguments_t *arguments, const lists_t *lists, int argc, char **argv) {
  for (int letter; (letter = getopt_long(argc, argv, lists->letters, lists->names, NULL)) != -1;) {
    if (letter == 'h')
      return print_help(arguments);
    if (take(arguments, letter, optarg) != 0)
      return REFUSED;
  }
  if (optind >= argc)
    return RUN;
  fprintf(stderr, "%s: unexpected argument '%s'\n", arguments->program, argv[optind]);
  return REFUSED;
}

static request_t read_arguments(const arguments_t *arguments, int argc, char **argv) {
  lists_t lists = {NULL, NULL};
  request_t request = REFUSED;
  if (make_lists(arguments, &lists) == 0)
    request = read_all(arguments, &lists, argc, argv);
  else
    fprintf(stderr, "%s: no memory for reading the command line\n", arguments->program);
  free(lists.letters);
  free(lists.names);
  return request;
}

int arguments_run(const arguments_t *arguments, int argc, char **argv, int (*run)(void *program),
                  void *program) {
  request_t request = read_arguments(arguments, argc, argv);
  if (request == REFUSED)
    return EXIT_USAGE;
  return request == HELPED ? report_flush(arguments->program, EXIT_SUCCESS) : run(program);
}
