/* llama.cpp for comparison, through its shared library as npm delivers it: one context, timed like ours. */
#ifndef BRIAREUS_TESTS_BENCH_LLAMA_H
#define BRIAREUS_TESTS_BENCH_LLAMA_H

#include "base/err.h"

#include <stdint.h>

struct llama;
/* lib_dir: holds libllama*.so and libggml*.so. gguf: the model. */
int llama_open(const char *lib_dir, const char *gguf, int32_t threads, uint32_t context, struct llama **out,
               struct br_err *err);
void llama_close(struct llama *llama);
/* Forgets the sequence, then runs `tokens` in one batch; tokens per second. */
int llama_prefill(struct llama *llama, const int32_t *ids, int32_t tokens, double *tokens_per_s, struct br_err *err);
/* Runs tokens one by one behind what has run, reading the logits of each. */
int llama_decode_each(struct llama *llama, const int32_t *ids, int32_t tokens, double *tokens_per_s,
                      struct br_err *err);

#endif
