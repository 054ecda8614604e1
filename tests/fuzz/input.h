/* SPDX-License-Identifier: MIT */
/* A fuzzer's bytes, taken one by one; after the last there are only zeros. */
#ifndef OVL_TESTS_FUZZ_INPUT_H
#define OVL_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_input {
  const uint8_t *bytes;
  size_t left;
} fuzz_input_t;

static inline uint8_t fuzz_byte(fuzz_input_t *input) {
  if (input->left == 0)
    return 0;
  input->left--;
  return *input->bytes++;
}

/* 0 .. bound - 1 */
static inline uint32_t fuzz_below(fuzz_input_t *input, uint32_t bound) { return fuzz_byte(input) % bound; }

/* Any number, small ones and those at the ends of what there is more often. */
static inline uint32_t fuzz_number(fuzz_input_t *input) {
  static const uint32_t special[] = {0, 1, 2, 63, 64, 65, 255, UINT32_MAX / 2, UINT32_MAX - 1, UINT32_MAX};
  uint8_t byte = fuzz_byte(input);
  return byte < 10 ? special[byte] : byte % 16;
}

/* Says what is wrong, and aborts. */
_Noreturn void fuzz_found(const char *what);

/* fuzz_core.c: a core and its spec, driven as the bytes say. fuzz_describe.c: the public API, described as they say. */
void fuzz_core(fuzz_input_t *input);
void fuzz_describe(fuzz_input_t *input);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
