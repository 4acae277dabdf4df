/* Rotary embedding (Su et al., "RoFormer", arXiv:2104.09864): pair i of a head turns by pos * f_i, f_i = theta^(-2i/d).
 * The scalings change f_i alone, so an angle is a function of the position:
 *   linear   f_i / factor
 *   llama3   long waves / factor, short ones as they are, a ramp between (Llama 3.1's rope_scaling)
 *   yarn     the same idea, ramp over the pair index (Peng et al., "YaRN", arXiv:2309.00071, 3.2), result scaled
 *   dynamic  stretches theta with the length of the sequence, beyond the original maximum; that would change the past
 * of a growing sequence, so it runs up to the original maximum, where it is the plain embedding. */
#include <math.h>

#include "worker/engine/model.h"

static const double PI = 3.14159265358979323846;

static double or_default(double value, double fallback)
{
    return value > 0 ? value : fallback;
}

static double original_positions(const struct br_model_shape *s)
{
    return s->rope.original_max_positions ? s->rope.original_max_positions : s->max_positions;
}

uint64_t engine_rope_positions(const struct br_model_shape *s)
{
    double most = s->max_positions;
    if (s->rope.kind == BR_ROPE_LINEAR || s->rope.kind == BR_ROPE_YARN)
        most = fmax(most, original_positions(s) * s->rope.factor);
    return (uint64_t)most;
}

static double llama3_frequency(const struct br_model_shape *s, double f)
{
    const struct br_rope *r = &s->rope;
    double wave = 2 * PI / f, original = original_positions(s);
    if (wave < original / r->high_freq_factor)
        return f;
    if (wave > original / r->low_freq_factor)
        return f / r->factor;
    double smooth = (original / wave - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * f / r->factor + smooth * f;
}

/* The pair index whose wave makes `turns` turns over the original maximum. */
static double yarn_pair(const struct br_model_shape *s, double turns)
{
    return s->head_dim * log(original_positions(s) / (turns * 2 * PI)) / (2 * log(s->rope.theta));
}

static double yarn_frequency(const struct br_model_shape *s, double f, uint32_t i)
{
    double low = fmax(0, floor(yarn_pair(s, or_default(s->rope.beta_fast, 32))));
    double high = fmin(s->head_dim - 1, ceil(yarn_pair(s, or_default(s->rope.beta_slow, 1))));
    if (high == low)
        high += 0.001;
    double ramp = fmin(1, fmax(0, (i - low) / (high - low)));
    return f / s->rope.factor * ramp + f * (1 - ramp);
}

static double frequency(const struct br_model_shape *s, uint32_t i)
{
    double f = pow(s->rope.theta, -2.0 * i / s->head_dim);
    switch (s->rope.kind) {
    case BR_ROPE_LINEAR:
        return f / s->rope.factor;
    case BR_ROPE_LLAMA3:
        return llama3_frequency(s, f);
    case BR_ROPE_YARN:
        return yarn_frequency(s, f, i);
    default:
        return f;
    }
}

/* yarn scales q and k alike, so its factor goes into both tables. */
static double amplitude(const struct br_model_shape *s)
{
    if (s->rope.kind != BR_ROPE_YARN)
        return 1;
    return or_default(s->rope.attention_factor, s->rope.factor > 1 ? 0.1 * log(s->rope.factor) + 1 : 1);
}

void engine_rope_table(const struct br_model_shape *s, uint32_t positions, float *out)
{
    uint32_t half = s->head_dim / 2;
    double scale = amplitude(s);
    for (uint32_t i = 0; i < half; i++) {
        double f = frequency(s, i);
        for (uint32_t pos = 0; pos < positions; pos++) {
            float *row = out + (size_t)pos * s->head_dim;
            row[i] = (float)(scale * cos(pos * f));
            row[half + i] = (float)(scale * sin(pos * f));
        }
    }
}
