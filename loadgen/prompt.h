/* Prompts of an exact number of tokens, as text or token ids; equal prefix blocks give equal text. */
#ifndef BRIAREUS_LOADGEN_PROMPT_H
#define BRIAREUS_LOADGEN_PROMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "traffic/workload.h"

enum { LOAD_WORDS = 96 };

/* Words that each add exactly one token to a text: n of them after the opening word make `opening` + n tokens. */
struct load_lexicon {
    const char *words[LOAD_WORDS];
    uint32_t n_words;
    uint32_t opening;        /* tokens of the opening word with what the tokenizer puts before a text (BOS) */
    bool exact;              /* false: no tokenizer could be asked; a word is taken for a token */
    int32_t first_id, n_ids; /* ids to draw from, for prompts of ids */
};

/* Tokens of a text, special ones that open it included; negative: an error. */
typedef int (*load_count_fn)(void *ctx, const char *text, size_t len, uint32_t *tokens, struct br_err *err);

/* Finds the words, by asking for a few texts (some more if the vocabulary is small), and checks them on random texts.
 * Errors: those of `count`; BR_ENOTSUP when no set of words adds up. */
int load_lexicon_find(struct load_lexicon *out, load_count_fn count, void *ctx, struct br_err *err);
/* All words, lengths taken on trust. */
void load_lexicon_assume(struct load_lexicon *out);

/* Appends the text of a request's prompt (plain words: nothing that JSON escapes). A pure function of seed, request and
 * its blocks. A prompt shorter than the opening is the opening word. */
void load_prompt_text(const struct load_lexicon *lexicon, const struct br_workload *workload,
                      const struct br_request *request, uint64_t seed, struct br_buf *out);
/* Appends "[id,id,...]". */
void load_prompt_ids(const struct load_lexicon *lexicon, const struct br_workload *workload,
                     const struct br_request *request, uint64_t seed, struct br_buf *out);

#endif
