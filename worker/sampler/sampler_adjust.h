/* What changes logits before sampling: biases, penalties and masks. */
#ifndef BRIAREUS_WORKER_SAMPLER_SAMPLER_ADJUST_H
#define BRIAREUS_WORKER_SAMPLER_SAMPLER_ADJUST_H

#include "proto/seq.h"

/* Scratch: counts and seen are [vocab], all zero between calls. */
struct br_adjust {
    uint32_t vocab;
    uint32_t *counts;    /* of an id in the output */
    unsigned char *seen; /* in prompt or output */
};

/* Whether anything changes at all. */
bool br_adjust_needed(const struct br_seq_spec *spec, uint32_t n_history, uint32_t n_eos);
/* Applies logit_bias, then repetition, frequency and presence penalties, then the min_tokens mask (-infinity), in
 * place. */
int br_adjust_apply(struct br_adjust *adjust, const struct br_seq_spec *spec, const int32_t *history,
                    uint32_t n_history, const int32_t *eos, uint32_t n_eos, float *logits, struct br_err *err);

#endif
