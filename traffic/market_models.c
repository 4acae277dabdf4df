/* The file of models, and what is put in where their statistics are missing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "traffic/market_file.h"

enum column { MODEL, BASE, CLASS, STATS };
enum { N_STATS = 8, HALF = N_STATS / 2 }; /* mean, p50, p90, p99 of prompts, then of outputs */
static const double MAX_MEAN_TOKENS = 1e6;

static const char *const g_columns[] = {"model",  "base",     "class",   "in_mean", "in_p50", "in_p90",
                                        "in_p99", "out_mean", "out_p50", "out_p90", "out_p99"};

struct stats {
    double value[N_STATS];
};

static int name_read(const struct csv *csv, int column, char *out, size_t size, struct br_err *err)
{
    const char *text = csv_field(csv, column);
    size_t len = strlen(text);
    if (len == 0 || len >= size)
        return csv_fail(csv, column, "a name of 1 to 63 bytes", err);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return lines_fail(&csv->lines, err, "column %s: a control character", csv->names[column]);
    memcpy(out, text, len + 1);
    return 0;
}

/* All eight or none. */
static int stats_read(const struct csv *csv, struct stats *stats, bool *known, struct br_err *err)
{
    int empty = 0;
    for (int i = 0; i < N_STATS; i++)
        empty += *csv_field(csv, STATS + i) == '\0';
    *known = empty == 0;
    if (empty == N_STATS)
        return 0;
    for (int i = 0; i < N_STATS; i++) {
        int rc = csv_number(csv, STATS + i, MAX_MEAN_TOKENS, &stats->value[i], err);
        if (!rc && i % HALF > 1 && stats->value[i] < stats->value[i - 1])
            rc = csv_fail(csv, STATS + i, "at least the quantile before it", err);
        if (rc)
            return rc;
    }
    return 0;
}

static int model_read(const struct csv *csv, struct br_market *market, struct stats *stats, struct br_err *err)
{
    struct br_market_model *m = &market->models[market->n_models];
    int rc;
    if (market->n_models == BR_MARKET_MAX_MODELS)
        return lines_fail(&csv->lines, err, "more than %d models", BR_MARKET_MAX_MODELS);
    rc = name_read(csv, MODEL, m->name, sizeof m->name, err);
    if (!rc)
        rc = name_read(csv, BASE, m->base, sizeof m->base, err);
    if (!rc)
        rc = name_read(csv, CLASS, m->class_name, sizeof m->class_name, err);
    for (uint32_t i = 0; !rc && i < market->n_models; i++)
        if (strcmp(market->models[i].name, m->name) == 0)
            rc = lines_fail(&csv->lines, err, "model '%s' is there twice", m->name);
    if (!rc)
        rc = stats_read(csv, &stats[market->n_models], &m->lengths_known, err);
    market->n_models += !rc;
    return rc;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of one statistic over the models that have it, of a class or (NULL) of all; 0 when none has. */
static double median_of(const struct br_market *market, const struct stats *stats, int stat, const char *class_name)
{
    double values[BR_MARKET_MAX_MODELS];
    size_t n = 0;
    for (uint32_t i = 0; i < market->n_models; i++)
        if (market->models[i].lengths_known && (!class_name || strcmp(market->models[i].class_name, class_name) == 0))
            values[n++] = stats[i].value[stat];
    if (!n)
        return 0;
    qsort(values, n, sizeof *values, by_size);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void stats_complete(const struct br_market *market, struct stats *stats, uint32_t model)
{
    const char *class_name = market->models[model].class_name;
    for (int i = 0; i < N_STATS; i++) {
        double value = median_of(market, stats, i, class_name);
        stats[model].value[i] = value > 0 ? value : median_of(market, stats, i, NULL);
    }
}

static void lengths_fill(struct br_length *out, const double *stat, double scale)
{
    double value[HALF];
    for (int i = 0; i < HALF; i++)
        value[i] = fmin(stat[i] * scale, BR_WORKLOAD_MAX_TOKENS);
    br_length_from_stats(out, value[0], value[1], value[2], value[3]);
}

static int lengths_complete(const char *file, const struct br_market_options *o, struct br_market *market,
                            struct stats *stats, struct br_err *err)
{
    bool any = false;
    for (uint32_t i = 0; i < market->n_models; i++)
        any = any || market->models[i].lengths_known;
    if (!any)
        return br_err_set(err, BR_EINVAL, "%.100s: no model has length statistics", file);
    for (uint32_t i = 0; i < market->n_models; i++) {
        struct br_market_model *m = &market->models[i];
        if (!m->lengths_known)
            stats_complete(market, stats, i);
        lengths_fill(&m->lengths.prompt, stats[i].value, o->prompt_scale);
        lengths_fill(&m->lengths.output, stats[i].value + HALF, o->output_scale);
    }
    return 0;
}

static int models_read(struct csv *csv, struct br_market *out, struct stats *stats, struct br_err *err)
{
    int rc = lines_next(&csv->lines, err);
    if (rc != 1)
        return rc ? rc : br_err_set(err, BR_EINVAL, "%.100s: empty", csv->lines.file);
    if (!csv_split(csv))
        return lines_fail(&csv->lines, err, "more than %d columns", CSV_MAX_COLUMNS);
    rc = csv_header(csv, g_columns, STATS + N_STATS, err);
    while (!rc && (rc = csv_next(csv, err)) == 1)
        rc = model_read(csv, out, stats, err);
    return rc;
}

int market_models_read(struct lines *lines, const struct br_market_options *options, struct br_market *out,
                       struct br_err *err)
{
    struct csv csv = {.lines = *lines};
    struct stats *stats = br_calloc(BR_MARKET_MAX_MODELS, sizeof *stats);
    int rc;
    out->models = br_calloc(BR_MARKET_MAX_MODELS + 1, sizeof *out->models); /* and the one being read */
    rc = models_read(&csv, out, stats, err);
    if (!rc)
        rc = lengths_complete(lines->file, options, out, stats, err);
    free(stats);
    *lines = csv.lines;
    return rc;
}
