/* SPDX-License-Identifier: MIT */
/* A language model so small that it fits in a page, with the two phases of large ones: prefill reads a prompt and
 * leaves keys and values of its tokens, decode makes one token after another from them and adds their own. */
#ifndef EXAMPLES_PD_DISAGGREGATION_LANGUAGE_H
#define EXAMPLES_PD_DISAGGREGATION_LANGUAGE_H

#include <stddef.h>
#include <stdint.h>

#define LANGUAGE_TOKENS 64 /* how many different ones there are */
#define LANGUAGE_LAYERS 2

/* Constant once it is made, so any thread may use it. */
typedef struct language {
  size_t width;
  size_t longest;                /* tokens of a prompt with what is made from it, at most */
  float *embedding;              /* tokens x width */
  float *query[LANGUAGE_LAYERS]; /* width x width, as the next three */
  float *key[LANGUAGE_LAYERS];
  float *value[LANGUAGE_LAYERS];
  float *out[LANGUAGE_LAYERS];
} language_t;

/* The keys and values of a request, in the memory of one side. */
typedef struct language_block {
  size_t tokens;
  float *keys[LANGUAGE_LAYERS]; /* longest x width */
  float *values[LANGUAGE_LAYERS];
} language_block_t;

/* Memory to compute in, for one lane. */
typedef struct language_scratch {
  float *x; /* longest x width, as the next four */
  float *query;
  float *mixed;
  float *out;
  float *scores; /* longest x longest */
} language_scratch_t;

/* 0 or OVL_ENOMEM; finish is fine after both, for all three. */
int language_init(language_t *language, size_t width, size_t longest);
void language_finish(language_t *language);
int language_block_init(language_block_t *block, const language_t *language);
void language_block_finish(language_block_t *block);
int language_scratch_init(language_scratch_t *scratch, const language_t *language);
void language_scratch_finish(language_scratch_t *scratch);

/* Fills the block with the keys and values of `count` tokens. */
void language_prefill(const language_t *language, language_scratch_t *scratch, const uint8_t *prompt,
                      size_t count, language_block_t *block);

/* Adds a token to the block, and returns the one that follows it. */
uint8_t language_decode(const language_t *language, language_scratch_t *scratch, uint8_t token,
                        language_block_t *block);

/* What a transfer of a block is: how many bytes, and the copying. */
size_t language_block_bytes(const language_t *language, size_t tokens);
void language_block_copy(const language_t *language, language_block_t *to, const language_block_t *from);

#endif
