/* Where the lexicons of prompts come from: a tokenizer on disk, else the server's /tokenize. */
#ifndef BRIAREUS_LOADGEN_TOKENS_H
#define BRIAREUS_LOADGEN_TOKENS_H

#include "loadgen/config.h"
#include "loadgen/prompt.h"
#include "loadgen/target.h"

/* Fills out[n], one for each model name. Without any tokenizer the lengths are taken on trust (exact is false and
 * `note`, 200 bytes, says why); a tokenizer that was given and cannot be used is an error. */
int load_lexicons_make(const struct load_config *config, const struct load_target *target, char *const *names,
                       uint32_t n, struct load_lexicon *out, char note[200], struct br_err *err);

#endif
