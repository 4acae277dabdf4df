/* From logits to a token: a function of (parameters, tokens so far, logits) alone, the same on every machine.
 *
 * Order (as vLLM's): logprobs are taken from the raw logits; then min_tokens masks, logit_bias, repetition, frequency
 * and presence penalties; temperature 0 (below 1e-5): greedy; else temperature, top-k, top-p (over what top-k left),
 * min-p (relative to the most likely token), draw. Ties go to the lower id: top-k keeps exactly k. Random numbers are
 * keyed by (seed, choice, token index, draw). */
#ifndef BRIAREUS_WORKER_SAMPLER_SAMPLER_H
#define BRIAREUS_WORKER_SAMPLER_SAMPLER_H

#include "proto/seq.h"
#include "worker/sampler/end_watch.h" /* the other half of what a step does with its logits */

struct br_sampler; /* scratch for one vocabulary size, 30 bytes an id; one a thread */

int br_sampler_create(uint32_t vocab, struct br_sampler **out, struct br_err *err);
void br_sampler_destroy(struct br_sampler *sampler);

/* history: prompt ids, then output ids (spec->n_prompt of n_history are prompt). The token to draw has index n_history
 * - n_prompt; below spec->min_tokens the ids in eos and the spec's stop ids are masked. logits: [vocab], left alone.
 * Fills id, logprob (0 when spec->sampling.logprobs is -1: it costs a pass) and, when logprobs > 0, the top
 * alternatives, most likely first. Non-finite logits: BR_ECORRUPT; an id outside the vocabulary in the history:
 * BR_EINVAL. */
int br_sampler_draw(struct br_sampler *sampler, const struct br_seq_spec *spec, const int32_t *history,
                    uint32_t n_history, const float *logits, const int32_t *eos, uint32_t n_eos, struct br_token *out,
                    struct br_err *err);

#endif
