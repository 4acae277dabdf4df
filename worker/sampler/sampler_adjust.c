#include "worker/sampler/sampler_adjust.h"

#include <float.h>
#include <math.h>

static bool penalised(const struct br_sampling *s)
{
    return s->repetition_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
}

static bool masked(const struct br_seq_spec *spec, uint32_t n_history)
{
    return n_history - spec->n_prompt < spec->min_tokens;
}

bool br_adjust_needed(const struct br_seq_spec *spec, uint32_t n_history, uint32_t n_eos)
{
    return spec->n_bias > 0 || penalised(&spec->sampling) || (masked(spec, n_history) && n_eos + spec->n_stop_ids > 0);
}

static float clamp(float logit)
{
    return logit > FLT_MAX ? FLT_MAX : logit < -FLT_MAX ? -FLT_MAX : logit;
}

/* An id outside the vocabulary has no logit to change. */
static void apply_bias(const struct br_seq_spec *spec, uint32_t vocab, float *logits)
{
    for (uint32_t i = 0; i < spec->n_bias; i++) {
        int32_t id = spec->bias_ids[i];
        if (id >= 0 && (uint32_t)id < vocab)
            logits[id] = clamp(logits[id] + spec->bias[i]);
    }
}

static float penalise(const struct br_sampling *s, float logit, uint32_t count)
{
    if (s->repetition_penalty != 1)
        logit = logit > 0 ? logit / s->repetition_penalty : logit * s->repetition_penalty;
    logit -= s->frequency_penalty * (float)count;
    logit -= count ? s->presence_penalty : 0;
    return clamp(logit);
}

static void mask_ids(const int32_t *ids, uint32_t n, uint32_t vocab, float *logits)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < vocab)
            logits[ids[i]] = -INFINITY;
}

static int check_history(const int32_t *history, uint32_t n, uint32_t vocab, struct br_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (history[i] < 0 || (uint32_t)history[i] >= vocab)
            return br_err_set(err, BR_EINVAL, "token %u of the sequence is id %d, the vocabulary has %u", i, history[i],
                              vocab);
    return 0;
}

static void apply_penalties(struct br_adjust *a, const struct br_seq_spec *spec, const int32_t *history, uint32_t n,
                            float *logits)
{
    for (uint32_t i = spec->n_prompt; i < n; i++)
        a->counts[history[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = history[i];
        if (a->seen[id])
            continue;
        a->seen[id] = 1;
        logits[id] = penalise(&spec->sampling, logits[id], a->counts[id]);
    }
    for (uint32_t i = 0; i < n; i++) {
        a->counts[history[i]] = 0;
        a->seen[history[i]] = 0;
    }
}

int br_adjust_apply(struct br_adjust *a, const struct br_seq_spec *spec, const int32_t *history, uint32_t n_history,
                    const int32_t *eos, uint32_t n_eos, float *logits, struct br_err *err)
{
    apply_bias(spec, a->vocab, logits);
    if (penalised(&spec->sampling)) {
        int rc = check_history(history, n_history, a->vocab, err);
        if (rc)
            return rc;
        apply_penalties(a, spec, history, n_history, logits);
    }
    if (masked(spec, n_history)) {
        mask_ids(eos, n_eos, a->vocab, logits);
        mask_ids(spec->stop_ids, spec->n_stop_ids, a->vocab, logits);
    }
    return 0;
}
