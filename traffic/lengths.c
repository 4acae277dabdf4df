#include "traffic/lengths.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/rng.h"
#include "traffic/draws.h"

static const double Z90 = 1.2815515655446004, Z99 = 2.3263478740408408; /* standard normal quantiles */
static const double MIN_BEND = .02, MAX_BEND = 50;

static int span_check(const struct br_length *l, double median, struct br_err *err)
{
    if (!l->min || l->min > l->max || l->max > BR_WORKLOAD_MAX_TOKENS)
        return br_err_set(err, BR_EINVAL, "%u to %u tokens: must be a span within 1 to %d", l->min, l->max,
                          BR_WORKLOAD_MAX_TOKENS);
    if (!(median >= 1 && median <= BR_WORKLOAD_MAX_TOKENS))
        return br_err_set(err, BR_EINVAL, "median %g: must be a number from 1 to %d", median, BR_WORKLOAD_MAX_TOKENS);
    return 0;
}

static int length_check(const struct br_length *l, struct br_err *err)
{
    switch (l->kind) {
    case BR_LENGTH_FIXED:
        return l->median >= 1 && l->median <= BR_WORKLOAD_MAX_TOKENS
                   ? 0
                   : br_err_set(err, BR_EINVAL, "%g tokens: must be 1 to %d", l->median, BR_WORKLOAD_MAX_TOKENS);
    case BR_LENGTH_UNIFORM:
        return span_check(l, 1, err);
    case BR_LENGTH_LOGNORMAL:
        if (!(l->sigma >= 0 && l->sigma <= 10))
            return br_err_set(err, BR_EINVAL, "sigma %g: must be a number from 0 to 10", l->sigma);
        return span_check(l, l->median, err);
    case BR_LENGTH_QUANTILES:
        if (!(l->min <= l->median && l->median <= l->p90 && l->p90 <= l->p99 && l->p99 <= l->max))
            return br_err_set(err, BR_EINVAL, "min %u, median %g, p90 %g, p99 %g, max %u: must not descend", l->min,
                              l->median, l->p90, l->p99, l->max);
        if (!(l->bend >= 0 && l->bend <= MAX_BEND))
            return br_err_set(err, BR_EINVAL, "bend %g: must be a number from 0 to %g", l->bend, MAX_BEND);
        return span_check(l, l->median, err);
    }
    return br_err_set(err, BR_EINVAL, "unknown kind of length");
}

int br_lengths_check(const struct br_lengths *lengths, struct br_err *err)
{
    if (lengths->sample)
        return lengths->sample->n ? 0 : br_err_set(err, BR_EINVAL, "an empty sample of lengths");
    if (length_check(&lengths->prompt, err))
        return br_err_wrap(err, "prompt length");
    return length_check(&lengths->output, err) ? br_err_wrap(err, "output length") : 0;
}

static double bend_of(const struct br_length *l)
{
    return l->bend > 0 ? l->bend : 1;
}

static double quantile(const struct br_length *l, double u)
{
    const double at[] = {0, .5, .9, .99, 1}, value[] = {l->min, l->median, l->p90, l->p99, l->max};
    int i = u < .5 ? 0 : u < .9 ? 1 : u < .99 ? 2 : 3;
    return value[i] + (value[i + 1] - value[i]) * pow((u - at[i]) / (at[i + 1] - at[i]), bend_of(l));
}

static uint32_t length_draw(const struct br_length *l, double u, double v)
{
    double x = l->median;
    if (l->kind == BR_LENGTH_UNIFORM)
        return l->min + (uint32_t)(u * ((double)l->max - l->min + 1));
    if (l->kind == BR_LENGTH_QUANTILES)
        x = quantile(l, u);
    if (l->kind == BR_LENGTH_LOGNORMAL) {
        x *= exp(l->sigma * sqrt(-2 * log1p(-u)) * cos(2 * M_PI * v));
        x = fmin(fmax(x, l->min), l->max);
    }
    return (uint32_t)(x + .5);
}

void br_lengths_draw(const struct br_lengths *lengths, uint64_t seed, uint32_t model, uint64_t number, uint32_t *prompt,
                     uint32_t *output)
{
    double u[4];
    for (uint32_t i = 0; i < 4; i++)
        u[i] = br_rng_unit(seed, model, number, BR_DRAW_LENGTH | i << 8);
    if (lengths->sample) {
        const uint32_t *pair = lengths->sample->pairs[(size_t)(u[0] * (double)lengths->sample->n)];
        *prompt = pair[0];
        *output = pair[1];
        return;
    }
    *prompt = length_draw(&lengths->prompt, u[0], u[1]);
    *output = length_draw(&lengths->output, u[2], u[3]);
}

static double normal_below(double x)
{
    return erfc(-x / M_SQRT2) / 2;
}

/* E[min(max(X, a), b)] for X = exp(N(mu, sigma)): the clamped ends by their probability, the middle by
 * E[X; X < x] = exp(mu + sigma^2 / 2) Phi((ln x - mu - sigma^2) / sigma). */
static double lognormal_mean(const struct br_length *l)
{
    double s = l->sigma, a = log(l->min / l->median) / s, b = log(l->max / l->median) / s;
    if (s <= 0)
        return fmin(fmax(l->median, l->min), l->max);
    return l->min * normal_below(a) + l->max * normal_below(-b) +
           l->median * exp(s * s / 2) * (normal_below(b - s) - normal_below(a - s));
}

/* Between two quantiles the mean is the lower one plus 1 / (bend + 1) of the difference: *low is the mean if all were
 * at the lower ends, *rise what it would be more at the upper ends. */
static void quantiles_ends(const struct br_length *l, double *low, double *rise)
{
    *low = .5 * l->min + .4 * l->median + .09 * l->p90 + .01 * l->p99;
    *rise = .5 * l->median + .4 * l->p90 + .09 * l->p99 + .01 * l->max - *low;
}

static double quantiles_mean(const struct br_length *l)
{
    double low, rise;
    quantiles_ends(l, &low, &rise);
    return low + rise / (bend_of(l) + 1);
}

double br_length_mean(const struct br_length *l)
{
    switch (l->kind) {
    case BR_LENGTH_UNIFORM:
        return ((double)l->min + l->max) / 2;
    case BR_LENGTH_LOGNORMAL:
        return lognormal_mean(l);
    case BR_LENGTH_QUANTILES:
        return quantiles_mean(l);
    default:
        return l->median;
    }
}

void br_length_from_stats(struct br_length *out, double mean, double p50, double p90, double p99)
{
    double sigma = p90 > p50 ? log(p90 / p50) / Z90 : mean > p50 ? sqrt(2 * log(mean / p50)) : 0;
    double low, rise;
    *out = (struct br_length){.kind = BR_LENGTH_QUANTILES, .min = 1, .median = fmax(p50, 1), .bend = 1};
    out->p90 = fmax(p90 > 0 ? p90 : p50 * exp(sigma * Z90), out->median);
    out->p99 = fmax(p99 > 0 ? p99 : p50 * exp(sigma * Z99), out->p90);
    out->max = (uint32_t)fmin(ceil(out->p99), BR_WORKLOAD_MAX_TOKENS);
    quantiles_ends(out, &low, &rise);
    if (mean > 0 && rise > 0)
        out->bend = fmin(fmax(rise / fmax(mean - low, 1e-9) - 1, MIN_BEND), MAX_BEND);
}

int br_length_sample_workload(struct br_length_sample *out, const struct br_workload *workload, struct br_err *err)
{
    *out = (struct br_length_sample){0};
    if (!workload->n)
        return br_err_set(err, BR_EINVAL, "a workload without requests has no lengths to draw from");
    out->pairs = br_calloc(workload->n, sizeof *out->pairs);
    out->n = workload->n;
    for (size_t i = 0; i < workload->n; i++) {
        out->pairs[i][0] = workload->requests[i].prompt;
        out->pairs[i][1] = workload->requests[i].output;
    }
    return 0;
}

void br_length_sample_free(struct br_length_sample *sample)
{
    free(sample->pairs);
    *sample = (struct br_length_sample){0};
}
