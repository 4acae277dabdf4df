#include "cli/plan/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Quantile u of a Pareto law of index a, bounded to [min, max]; a = 0 is its limit, uniform in the logarithm. */
static double pareto(double min, double max, double a, double u)
{
    if (fabs(a) < 1e-9)
        return min * pow(max / min, u);
    return min * pow(1 - u + u * pow(max / min, -a), -1 / a);
}

static double spread_mean(double min, double max, double a, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += pareto(min, max, a, (double)i / (n - 1));
    return sum / n;
}

int rates_spread(double min, double mean, double max, double *rates, uint32_t n, struct br_err *err)
{
    double lo = -20, hi = 20; /* the mean falls with the index */
    if (n < 2 || !(min > 0 && min < mean && mean < max) || spread_mean(min, max, hi, n) > mean ||
        spread_mean(min, max, lo, n) < mean)
        return br_err_set(
            err, BR_EINVAL,
            "rates %g:%g:%g: no spread over %u models has them; the mean must lie between (%g is the least "
            "with this maximum)",
            min, mean, max, n, n < 2 || !(min > 0 && max > min) ? min : spread_mean(min, max, hi, n));
    for (int i = 0; i < 200; i++) {
        double a = (lo + hi) / 2;
        *(spread_mean(min, max, a, n) > mean ? &lo : &hi) = a;
    }
    for (uint32_t i = 0; i < n; i++)
        rates[i] = pareto(min, max, lo, (double)(n - 1 - i) / (n - 1));
    return 0;
}

static int spread_fill(const char *text, double *rates, uint32_t n, struct br_err *err)
{
    double min, mean, max;
    int end = 0;
    if (sscanf(text, "%lf:%lf:%lf%n", &min, &mean, &max, &end) != 3 || text[end] || !isfinite(min + mean + max) ||
        max > 1e4)
        return br_err_set(err, BR_EINVAL, "rates '%.60s' must be MIN:MEAN:MAX in requests/s", text);
    return rates_spread(min, mean, max, rates, n, err);
}

int rates_fill(const struct plan_options *o, struct plan_ask *ask, struct br_err *err)
{
    double *rates = br_calloc(ask->n_models, sizeof *rates);
    int rc = 0;
    for (uint32_t i = 0; i < ask->n_models; i++)
        rates[i] = ask->models[i].source.process.rate;
    if (o->rates)
        rc = spread_fill(o->rates, rates, ask->n_models, err);
    else if (o->total_rate > 0 && (rc = br_popularity_zipf(rates, ask->n_models, o->zipf, err)) == 0)
        for (uint32_t i = 0; i < ask->n_models; i++)
            rates[i] *= o->total_rate;
    for (uint32_t i = 0; rc == 0 && i < ask->n_models; i++)
        ask->models[i].source.process.rate = rates[i] * o->rate_scale;
    free(rates);
    return rc;
}

static double span_requests(const struct br_market *m, double from_s, double span_s)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->n_windows; i++) {
        double from = fmax(m->windows[i].start_s, from_s), to = fmin(m->windows[i].end_s, from_s + span_s);
        sum += to > from ? (to - from) * m->windows[i].rate : 0;
    }
    return sum;
}

static double busiest(const struct br_market *m, double span_s)
{
    double best = 0, most = -1;
    for (double at = 0; at == 0 || at + span_s <= m->duration_s; at += BR_MARKET_WINDOW_S) {
        double n = span_requests(m, at, span_s);
        if (n > most) {
            most = n;
            best = at;
        }
    }
    return best;
}

static int from_parse(const char *text, const struct br_market *whole, double span_s, double *from_s,
                      struct br_err *err)
{
    char *end;
    if (strcmp(text, "busiest") == 0) {
        *from_s = busiest(whole, span_s);
        return 0;
    }
    *from_s = strtod(text, &end);
    if (end == text || *end || !(*from_s >= 0) || !(*from_s < whole->duration_s))
        return br_err_set(err, BR_EINVAL, "from '%.40s' must be 'busiest' or seconds from 0 to %g", text,
                          whole->duration_s);
    return 0;
}

int market_span(const struct plan_options *o, struct br_market *out, double *from_s, struct br_err *err)
{
    struct br_market whole;
    double mean = 0;
    int rc = br_market_load(o->market, o->market_models, &(struct br_market_options){0}, &whole, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < whole.n_models; i++)
        mean += whole.models[i].mean_rate / whole.n_models;
    rc = from_parse(o->from, &whole, o->horizon_s, from_s, err);
    br_market_free(&whole);
    struct br_market_options cut = {.from_s = *from_s,
                                    .duration_s = o->horizon_s,
                                    .rate_scale = o->rate_scale * (o->mean_rate > 0 ? o->mean_rate / mean : 1)};
    return rc < 0 ? rc : br_market_load(o->market, o->market_models, &cut, out, err);
}
