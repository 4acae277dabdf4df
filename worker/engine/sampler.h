/* From logits to a token, and the end of a sequence: functions of (parameters, tokens so far, logits) alone.
 *
 * Order (as vLLM's): repetition, frequency, presence penalties; [logprobs are taken from the raw logits, before
 * penalties and temperature]; temperature 0: greedy; else temperature, top-k, top-p, min-p, draw. Ties go to the lower
 * id. Random numbers are keyed by (seed, choice, token index, draw). */
#ifndef BRIAREUS_WORKER_ENGINE_SAMPLER_H
#define BRIAREUS_WORKER_ENGINE_SAMPLER_H

#include "proto/seq.h"
#include "text/detok.h"
#include "text/stop.h"

struct br_sampler; /* scratch for one vocabulary size; one a thread */

int br_sampler_create(uint32_t vocab, struct br_sampler **out, struct br_err *err);
void br_sampler_destroy(struct br_sampler *sampler);

/* history: prompt ids, then output ids (n_prompt of n_history are prompt). index: of the token to draw, n_history -
 * n_prompt. Fills id, logprob and, when spec->sampling.logprobs > 0, the top alternatives. allow_eos false masks ids in
 * eos (min_tokens). Non-finite logits: BR_ECORRUPT. */
int br_sampler_draw(struct br_sampler *sampler, const struct br_seq_spec *spec, const int32_t *history,
                    uint32_t n_history, const float *logits, const int32_t *eos, uint32_t n_eos, struct br_token *out,
                    struct br_err *err);

/* Watches one sequence for its end. */
struct br_end_watch;
int br_end_watch_create(const struct br_seq_spec *spec, const struct br_tokenizer *tokenizer, const int32_t *eos,
                        uint32_t n_eos, uint32_t max_positions, struct br_end_watch **out, struct br_err *err);
void br_end_watch_destroy(struct br_end_watch *watch);
/* Takes the next output token (also those of a resumed sequence, in order); returns BR_END_NONE while it goes on. */
enum br_end br_end_watch_push(struct br_end_watch *watch, int32_t id);

#endif
