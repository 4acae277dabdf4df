#include "traffic/market.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "traffic/market_file.h"

static int scale_fill(const char *name, double *value, double max, struct br_err *err)
{
    if (*value == 0)
        *value = 1;
    if (*value >= 1e-6 && *value <= max)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s of %g: must be a number from 1e-6 to %g", name, *value, max);
}

static int options_fill(struct br_market_options *o, struct br_err *err)
{
    int rc = scale_fill("time scale", &o->time_scale, 1e3, err);
    if (!rc)
        rc = scale_fill("rate scale", &o->rate_scale, 1e6, err);
    if (!rc)
        rc = scale_fill("prompt length scale", &o->prompt_scale, 1e3, err);
    if (!rc)
        rc = scale_fill("output length scale", &o->output_scale, 1e3, err);
    if (!rc && !(o->mean_rate >= 0 && o->mean_rate <= 1e5))
        rc = br_err_set(err, BR_EINVAL, "mean rate of %g requests/s: must be a number from 0 to 1e5", o->mean_rate);
    if (!rc && !(o->from_s >= 0 && o->from_s <= 1e9 && o->duration_s >= 0 && o->duration_s <= 1e9))
        rc = br_err_set(err, BR_EINVAL, "from %g s for %g s: must be numbers from 0 to 1e9", o->from_s, o->duration_s);
    return rc;
}

/* Keeps what lies in [from, to), from zero on, in the order of the models. */
static void windows_cut(struct br_market *market, double from_s, double to_s, double time_scale)
{
    struct br_window *windows = br_calloc(market->n_windows, sizeof *windows);
    uint32_t kept = 0;
    for (uint32_t m = 0; m < market->n_models; m++) {
        struct br_market_model *model = &market->models[m];
        const struct br_window *from = market->windows + model->first_window, *end = from + model->n_windows;
        model->n_windows = 0;
        model->first_window = kept;
        for (; from < end; from++) {
            struct br_window w = *from;
            w.start_s = (fmax(w.start_s, from_s) - from_s) * time_scale;
            w.end_s = (fmin(w.end_s, to_s) - from_s) * time_scale;
            if (w.end_s <= w.start_s)
                continue;
            windows[kept++] = w;
            model->n_windows++;
        }
    }
    free(market->windows);
    market->windows = windows;
    market->n_windows = kept;
}

static double last_end(const struct br_market *market)
{
    double end_s = 0;
    for (uint32_t i = 0; i < market->n_windows; i++)
        end_s = fmax(end_s, market->windows[i].end_s);
    return end_s;
}

static void rates_scale(struct br_market *market, double factor)
{
    for (uint32_t i = 0; i < market->n_windows; i++)
        market->windows[i].rate *= factor;
}

/* Mean and peak rate of every model; returns the mean of the means. */
static double rates_sum(struct br_market *market)
{
    double total = 0;
    for (uint32_t m = 0; m < market->n_models; m++) {
        struct br_market_model *model = &market->models[m];
        model->mean_rate = model->peak_rate = 0;
        for (uint32_t i = 0; i < model->n_windows; i++) {
            const struct br_window *w = &market->windows[model->first_window + i];
            model->mean_rate += w->rate * (w->end_s - w->start_s) / market->duration_s;
            model->peak_rate = fmax(model->peak_rate, w->rate);
        }
        total += model->mean_rate;
    }
    return total / market->n_models;
}

static int market_shape(struct br_market *market, const struct br_market_options *o, struct br_err *err)
{
    double to_s = o->duration_s > 0 ? o->from_s + o->duration_s : last_end(market), mean;
    if (to_s <= o->from_s)
        return br_err_set(err, BR_EINVAL, "from %g s on nothing is left: the last window ends at %g s", o->from_s,
                          to_s);
    windows_cut(market, o->from_s, to_s, o->time_scale);
    market->duration_s = (to_s - o->from_s) * o->time_scale;
    mean = rates_sum(market);
    if (o->mean_rate > 0 && mean <= 0)
        return br_err_set(err, BR_EINVAL, "no traffic from %g s to %g s that a mean rate could be made of", o->from_s,
                          to_s);
    rates_scale(market, o->mean_rate > 0 ? o->mean_rate / mean : o->rate_scale);
    rates_sum(market);
    for (uint32_t m = 0; m < market->n_models; m++)
        if (market->models[m].peak_rate > 1e6)
            return br_err_set(err, BR_EINVAL, "model '%s': %g requests/s after scaling; at most 1e6",
                              market->models[m].name, market->models[m].peak_rate);
    return 0;
}

int br_market_read(FILE *rates, const char *rates_file, FILE *models, const char *models_file,
                   const struct br_market_options *options, struct br_market *out, struct br_err *err)
{
    struct br_market_options filled = *options;
    struct lines lines;
    int rc = options_fill(&filled, err);
    *out = (struct br_market){0};
    if (rc)
        return rc;
    lines_init(&lines, models, models_file, BR_MARKET_MAX_BYTES, MARKET_MAX_LINE);
    rc = market_models_read(&lines, &filled, out, err);
    lines_free(&lines);
    lines_init(&lines, rates, rates_file, BR_MARKET_MAX_BYTES, MARKET_MAX_LINE);
    if (!rc)
        rc = market_rates_read(&lines, out, err);
    lines_free(&lines);
    if (!rc)
        rc = market_shape(out, &filled, err);
    if (rc)
        br_market_free(out);
    return rc;
}

static FILE *file_open(const char *path, struct br_err *err)
{
    FILE *stream = br_open_regular(path);
    if (!stream)
        br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%.200s: cannot be read", path);
    return stream;
}

int br_market_load(const char *rates_path, const char *models_path, const struct br_market_options *options,
                   struct br_market *out, struct br_err *err)
{
    FILE *models = file_open(models_path, err), *rates = models ? file_open(rates_path, err) : NULL;
    int rc = rates ? br_market_read(rates, rates_path, models, models_path, options, out, err) : err->code;
    if (!rates)
        *out = (struct br_market){0};
    if (rates)
        fclose(rates);
    if (models)
        fclose(models);
    return rc;
}

void br_market_free(struct br_market *market)
{
    free(market->models);
    free(market->windows);
    *market = (struct br_market){0};
}

void br_market_source(const struct br_market *market, uint32_t model, struct br_source *out)
{
    const struct br_market_model *m = &market->models[model];
    *out = (struct br_source){.name = m->name, .lengths = m->lengths};
    out->process = (struct br_process){
        .kind = BR_PROCESS_WINDOWS, .windows = market->windows + m->first_window, .n_windows = m->n_windows};
}

struct change {
    double at_s, rate;
};

/* At the same time, rates go before they come. */
static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->rate < y->rate ? -1 : x->rate > y->rate;
}

double br_market_peak(const struct br_market *market, double *at_s)
{
    struct change *changes = br_calloc(2 * (size_t)market->n_windows + 1, sizeof *changes);
    double rate = 0, peak = 0;
    for (uint32_t i = 0; i < market->n_windows; i++) {
        changes[2 * i] = (struct change){market->windows[i].start_s, market->windows[i].rate};
        changes[2 * i + 1] = (struct change){market->windows[i].end_s, -market->windows[i].rate};
    }
    qsort(changes, 2 * (size_t)market->n_windows, sizeof *changes, by_time);
    *at_s = 0;
    for (size_t i = 0; i < 2 * (size_t)market->n_windows; i++) {
        rate += changes[i].rate;
        if (rate > peak) {
            peak = rate;
            *at_s = changes[i].at_s;
        }
    }
    free(changes);
    return peak;
}
