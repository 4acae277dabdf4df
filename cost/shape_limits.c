#include "cost/shape_limits.h"

#include <math.h>

static int size_check(const struct br_model_shape *s, struct br_err *err)
{
    const struct {
        const char *name;
        uint32_t value, max;
    } sizes[] = {
        {"hidden_size", s->hidden, BR_SHAPE_MAX_HIDDEN},
        {"intermediate_size", s->ffn, BR_SHAPE_MAX_FFN},
        {"num_hidden_layers", s->layers, BR_SHAPE_MAX_LAYERS},
        {"num_attention_heads", s->heads, BR_SHAPE_MAX_HEADS},
        {"num_key_value_heads", s->kv_heads, BR_SHAPE_MAX_HEADS},
        {"head_dim", s->head_dim, BR_SHAPE_MAX_HEAD_DIM},
        {"vocab_size", s->vocab, BR_SHAPE_MAX_VOCAB},
        {"max_position_embeddings", s->max_positions, BR_SHAPE_MAX_POSITIONS},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].max)
            return br_err_set(err, BR_EINVAL, "%s = %u: must be in 1..%u", sizes[i].name, sizes[i].value, sizes[i].max);
    return 0;
}

static int ids_check(const struct br_model_shape *s, struct br_err *err)
{
    if (s->bos < -1 || s->bos >= (int64_t)s->vocab)
        return br_err_set(err, BR_EINVAL, "bos_token_id = %d: not in a vocabulary of %u", s->bos, s->vocab);
    if (s->n_eos > BR_MAX_EOS)
        return br_err_set(err, BR_EINVAL, "eos_token_id: %u ids, at most %d are supported", s->n_eos, BR_MAX_EOS);
    for (uint32_t i = 0; i < s->n_eos; i++)
        if (s->eos[i] < 0 || s->eos[i] >= (int64_t)s->vocab)
            return br_err_set(err, BR_EINVAL, "eos_token_id = %d: not in a vocabulary of %u", s->eos[i], s->vocab);
    return 0;
}

static int rope_check(const struct br_rope *r, struct br_err *err)
{
    if ((unsigned)r->kind > BR_ROPE_YARN)
        return br_err_set(err, BR_EINVAL, "rope kind %d is unknown", (int)r->kind);
    if (!(r->theta >= 1 && r->theta <= 1e12))
        return br_err_set(err, BR_EINVAL, "rope_theta = %g: must be in 1..1e12", r->theta);
    if (r->kind == BR_ROPE_DEFAULT)
        return 0;
    if (!(r->factor >= 1 && r->factor <= 4096))
        return br_err_set(err, BR_EINVAL, "rope factor = %g: must be in 1..4096", r->factor);
    if (r->original_max_positions < 1 || r->original_max_positions > BR_SHAPE_MAX_POSITIONS)
        return br_err_set(err, BR_EINVAL, "original_max_position_embeddings = %u: must be in 1..%d",
                          r->original_max_positions, BR_SHAPE_MAX_POSITIONS);
    if (r->kind == BR_ROPE_LLAMA3 &&
        !(r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor && r->high_freq_factor <= 1e6))
        return br_err_set(err, BR_EINVAL, "low_freq_factor = %g, high_freq_factor = %g: need 0 < low < high",
                          r->low_freq_factor, r->high_freq_factor);
    if (r->kind == BR_ROPE_YARN && !(r->beta_slow > 0 && r->beta_fast > r->beta_slow && r->beta_fast <= 1e6))
        return br_err_set(err, BR_EINVAL, "beta_slow = %g, beta_fast = %g: need 0 < slow < fast", r->beta_slow,
                          r->beta_fast);
    if (!(r->attention_factor >= 0 && r->attention_factor <= 1e3))
        return br_err_set(err, BR_EINVAL, "attention_factor = %g: must be in 0..1000", r->attention_factor);
    return 0;
}

int br_model_shape_check(const struct br_model_shape *s, struct br_err *err)
{
    int rc = size_check(s, err);
    if (rc)
        return rc;
    if ((unsigned)s->arch > BR_ARCH_QWEN3 || (unsigned)s->dtype > BR_BF16)
        return br_err_set(err, BR_EINVAL, "architecture %d or dtype %d is unknown", (int)s->arch, (int)s->dtype);
    if (s->heads % s->kv_heads)
        return br_err_set(err, BR_EINVAL, "num_attention_heads = %u is not a multiple of num_key_value_heads = %u",
                          s->heads, s->kv_heads);
    if (s->head_dim % 2)
        return br_err_set(err, BR_EINVAL, "head_dim = %u: must be even", s->head_dim);
    if (!(s->rms_eps > 0 && s->rms_eps <= 1))
        return br_err_set(err, BR_EINVAL, "rms_norm_eps = %g: must be above 0 and at most 1", (double)s->rms_eps);
    rc = ids_check(s, err);
    return rc ? rc : rope_check(&s->rope, err);
}
