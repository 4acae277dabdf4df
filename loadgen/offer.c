#include "loadgen/offer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "traffic/generate.h"
#include "traffic/market.h"
#include "traffic/popularity.h"

struct mix { /* models and their rates */
    uint32_t n;
    char **names;
    double *rate, total; /* rate[i] adds up to total */
    bool own_rates;
};

static void mix_free(struct mix *mix)
{
    for (uint32_t i = 0; i < mix->n; i++)
        free(mix->names[i]);
    free(mix->names);
    free(mix->rate);
}

static int mix_weights(const struct load_config *c, struct mix *mix, struct br_err *err)
{
    uint32_t with = 0;
    for (uint32_t i = 0; i < mix->n; i++) {
        const char *arg = c->models.items[i], *equals = strrchr(arg, '=');
        char *end = NULL;
        mix->rate[i] = equals ? strtod(equals + 1, &end) : 1;
        mix->names[i] = equals ? strndup(arg, (size_t)(equals - arg)) : br_strdup(arg);
        if ((equals && (end == equals + 1 || *end)) || !(mix->rate[i] >= 0 && mix->rate[i] <= 1e6))
            return br_err_set(err, BR_EINVAL, "model: '%s' is not NAME or NAME=RATE with a rate from 0 to 1e6", arg);
        with += equals != NULL;
        mix->total += mix->rate[i];
    }
    mix->own_rates = with > 0;
    if (with && c->popularity)
        return br_err_set(err, BR_EINVAL, "popularity: the models have rates of their own (NAME=RATE)");
    return 0;
}

static int mix_popularity(const struct load_config *c, struct mix *mix, struct br_err *err)
{
    char *end = NULL;
    double s = 0;
    if (!c->popularity)
        return 0;
    if (strncmp(c->popularity, "zipf:", 5) == 0)
        s = strtod(c->popularity + 5, &end);
    if (end ? end == c->popularity + 5 || *end : strcmp(c->popularity, "equal") != 0)
        return br_err_set(err, BR_EINVAL, "popularity: '%s' is not equal or zipf:S", c->popularity);
    return br_popularity_zipf(mix->rate, mix->n, s, err);
}

/* rate[] := shares of the total rate, in requests/s. */
static int mix_read(const struct load_config *c, struct mix *mix, struct br_err *err)
{
    double sum = 0;
    mix->n = c->models.n;
    mix->names = br_calloc(mix->n + 1, sizeof *mix->names);
    mix->rate = br_calloc(mix->n + 1, sizeof *mix->rate);
    if (mix_weights(c, mix, err) || (mix->n && mix_popularity(c, mix, err)))
        return err->code;
    if (c->request_rate > 0)
        mix->total = c->request_rate;
    for (uint32_t i = 0; i < mix->n; i++)
        sum += mix->rate[i];
    for (uint32_t i = 0; i < mix->n && sum > 0; i++)
        mix->rate[i] *= mix->total / sum;
    return 0;
}

/* ---- drawn workloads ---- */

static int process_make(const struct load_config *c, double rate, double share, double factor, struct br_process *out,
                        struct br_err *err)
{
    const char *kind = c->arrivals ? c->arrivals : c->ramp_strategy ? "ramp" : c->burstiness != 1 ? "gamma" : "poisson";
    memset(out, 0, sizeof *out);
    if (br_process_kind_parse(kind, &out->kind, err))
        return br_err_wrap(err, "arrivals");
    if (out->kind == BR_PROCESS_WINDOWS)
        return br_err_set(err, BR_EINVAL, "arrivals: rate windows come with --dataset-name servegen");
    out->rate = out->kind == BR_PROCESS_RAMP ? c->ramp_start * share : rate;
    out->shape = c->burstiness;
    out->end_rate = c->ramp_end * share;
    out->ramp_s = c->duration_s;
    out->peak = c->mmpp_peak;
    out->burst_s = c->mmpp_burst_s;
    out->calm_s = c->mmpp_calm_s;
    br_process_scale(out, factor);
    return 0;
}

static int draw(const struct load_config *c, const struct br_lengths *lengths, double factor, uint64_t seed,
                struct br_workload *out, struct br_err *err)
{
    struct mix mix = {0};
    struct br_source *sources = NULL;
    int rc = mix_read(c, &mix, err);
    if (rc == 0 && mix.n == 0)
        rc = br_err_set(err, BR_EINVAL, "no --model given");
    if (rc == 0)
        sources = br_calloc(mix.n, sizeof *sources);
    for (uint32_t i = 0; rc == 0 && i < mix.n; i++) {
        sources[i] = (struct br_source){.name = mix.names[i], .lengths = *lengths};
        rc =
            process_make(c, mix.rate[i], mix.total > 0 ? mix.rate[i] / mix.total : 0, factor, &sources[i].process, err);
    }
    if (rc == 0)
        rc = br_workload_generate(sources, mix.n, c->duration_s, seed, out, err);
    free(sources);
    mix_free(&mix);
    return rc;
}

static int draw_by_laws(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out,
                        struct br_err *err)
{
    struct br_lengths lengths = {0};
    if (load_length_parse("input-len", c->input_len, &lengths.prompt, err) ||
        load_length_parse("output-len", c->output_len, &lengths.output, err) || br_lengths_check(&lengths, err))
        return err->code;
    return draw(c, &lengths, factor, seed, &out->workload, err);
}

/* ---- recorded ones ---- */

static int read_trace(const struct load_config *c, double factor, bool cut, struct load_offer *out, struct br_err *err)
{
    struct br_trace_options options = {.skip_bad = c->skip_bad,
                                       .sort = c->sort,
                                       .from_s = c->from_s,
                                       .time_scale = c->time_scale / factor,
                                       .prompt_scale = c->prompt_scale,
                                       .output_scale = c->output_scale};
    if (c->dataset_name && br_trace_format_parse(c->dataset_name, &options.format, err))
        return br_err_wrap(err, "dataset-name");
    options.duration_s = cut ? c->duration_s / options.time_scale : 0;
    return br_trace_load(c->dataset_path, &options, &out->workload, &out->trace, err);
}

static int draw_by_sample(const struct load_config *c, double factor, uint64_t seed, struct br_length_sample *sample,
                          struct load_offer *out, struct br_err *err)
{
    struct br_lengths lengths = {.sample = sample};
    int rc = draw(c, &lengths, factor, seed, &out->workload, err);
    br_length_sample_free(sample);
    return rc;
}

static int draw_like_trace(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out,
                           struct br_err *err)
{
    struct load_offer trace = {0};
    struct br_length_sample sample;
    int rc = read_trace(c, 1, false, &trace, err);
    if (rc)
        return rc;
    rc = br_length_sample_workload(&sample, &trace.workload, err);
    load_offer_free(&trace);
    return rc ? rc : draw_by_sample(c, factor, seed, &sample, out, err);
}

static int draw_sharegpt(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out,
                         struct br_err *err)
{
    struct br_length_sample sample;
    struct br_sharegpt_options options = {.max_pairs = 100000};
    int rc = br_length_sample_sharegpt(&sample, c->dataset_path, &options, err);
    return rc ? rc : draw_by_sample(c, factor, seed, &sample, out, err);
}

/* The trace's own times; its names, or the given models drawn by their shares. */
static int replay(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out, struct br_err *err)
{
    struct mix mix = {0};
    int rc = read_trace(c, factor, true, out, err);
    if (rc || c->models.n == 0)
        return rc;
    rc = mix_read(c, &mix, err);
    for (uint32_t i = 0; rc == 0 && i < mix.n; i++)
        mix.rate[i] /= mix.total > 0 ? mix.total : 1;
    if (rc == 0)
        rc = br_workload_assign(&out->workload, (const char *const *)mix.names, mix.rate, mix.n, seed, err);
    mix_free(&mix);
    return rc;
}

static int draw_market(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out,
                       struct br_err *err)
{
    struct br_market market;
    struct br_market_options options = {.from_s = c->from_s,
                                        .time_scale = c->time_scale,
                                        .duration_s = c->duration_s / c->time_scale,
                                        .rate_scale = factor,
                                        .prompt_scale = c->prompt_scale,
                                        .output_scale = c->output_scale};
    struct br_source *sources;
    int rc;
    if (!c->market_models)
        return br_err_set(err, BR_EINVAL, "dataset-name: servegen needs --market-models FILE too");
    if (br_market_load(c->dataset_path, c->market_models, &options, &market, err))
        return err->code;
    sources = br_calloc(market.n_models, sizeof *sources);
    for (uint32_t i = 0; i < market.n_models; i++) {
        br_market_source(&market, i, &sources[i]);
        if (c->models.n == market.n_models)
            sources[i].name = c->models.items[i];
    }
    rc = br_workload_generate(sources, market.n_models, c->duration_s, seed, &out->workload, err);
    free(sources);
    br_market_free(&market);
    return rc;
}

/* ---- which of them ---- */

static bool is_sharegpt(const struct load_config *c)
{
    FILE *f;
    int first;
    if (c->dataset_name)
        return strcmp(c->dataset_name, "sharegpt") == 0;
    f = br_open_regular(c->dataset_path);
    if (!f)
        return false; /* the trace reader says why */
    do
        first = getc(f);
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t');
    fclose(f);
    return first == '[';
}

static bool is_market(const struct load_config *c)
{
    enum br_trace_format format = BR_TRACE_AUTO;
    struct br_err ignored;
    if (c->dataset_name)
        return strcmp(c->dataset_name, "servegen") == 0;
    return br_trace_detect(c->dataset_path, &format, &ignored) == 0 && format == BR_TRACE_SERVEGEN;
}

int load_offer_make(const struct load_config *c, double factor, uint64_t seed, struct load_offer *out,
                    struct br_err *err)
{
    int rc;
    memset(out, 0, sizeof *out);
    if (!c->dataset_path)
        rc = draw_by_laws(c, factor, seed, out, err);
    else if (is_sharegpt(c))
        rc = draw_sharegpt(c, factor, seed, out, err);
    else if (is_market(c))
        rc = draw_market(c, factor, seed, out, err);
    else if (c->arrivals)
        rc = draw_like_trace(c, factor, seed, out, err);
    else
        rc = replay(c, factor, seed, out, err);
    if (rc)
        load_offer_free(out);
    else if (c->num_prompts && out->workload.n > c->num_prompts)
        out->workload.n = c->num_prompts;
    return rc;
}

void load_offer_free(struct load_offer *offer)
{
    br_workload_free(&offer->workload);
    memset(offer, 0, sizeof *offer);
}
