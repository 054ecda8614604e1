/* SPDX-License-Identifier: MIT */
/* Runs the fuzz target on every file of the directories that it is given, where there is no fuzzer to do it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/input.h"

enum { MOST_BYTES = 1 << 16 };

static int replay_file(const char *path) {
  static uint8_t bytes[MOST_BYTES];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return 1;
  }
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  fprintf(stderr, "%s\n", path); /* the last one is the one that aborts */
  return LLVMFuzzerTestOneInput(bytes, count);
}

/* How many files there are, or -1. */
static int replay_directory(const char *path) {
  char name[4096];
  int count = 0;
  DIR *directory = opendir(path);
  if (directory == NULL) {
    perror(path);
    return -1;
  }
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (replay_file(name) != 0)
      return -1;
    count++;
  }
  closedir(directory);
  return count;
}

int main(int argc, char **argv) {
  int total = 0;
  for (int k = 1; k < argc; k++) {
    int count = replay_directory(argv[k]);
    if (count < 0)
      return EXIT_FAILURE;
    total += count;
  }
  printf("%d inputs\n", total);
  return total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
