/* SPDX-License-Identifier: MIT */
/* A command line described by a table: options that are whole numbers, or one of some words, or text, or just there.
 * Reading it has no effect but messages on stdout (--help) and stderr (errors). */
#ifndef EXAMPLES_PARTS_ARGUMENTS_H
#define EXAMPLES_PARTS_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

/* One option: -k 2, --microbatches=2. */
typedef struct argument {
  char letter;
  const char *name;
  const char *
      unit; /* what stands for the number in --help: "N", "US"; NULL: none is given, and the value becomes 1 */
  uint64_t *value; /* holds the default before, and what was asked for after */
  uint64_t least;
  uint64_t most;
  const char *help; /* without the range and the default, which are added */
  const char *const
      *words;        /* up to NULL: it is one of these, and the value its index. NULL: it is a number */
  const char **text; /* it is any text, which is kept here in place of the value; NULL: it is not */
} argument_t;

typedef struct arguments {
  const char *program;
  const char *summary; /* what the program does, a line or more */
  const argument_t *list;
  size_t count;
} arguments_t;

/* The end of a main(): reads them and returns what run(program) does; but 0 if --help was answered, and 2 if one line on
 * stderr said why they make no sense. */
int arguments_run(const arguments_t *arguments, int argc, char **argv, int (*run)(void *program),
                  void *program);

#endif
