#include "cli/plan/model_words.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

struct words {
    uint32_t count, tp, dedicated_tp;
    double ttft_s, tbt_s, rate, cv;
    char *weights, *kv, *gpu, *prompt, *output, *name;
};

#define AT(field) offsetof(struct words, field)
static const struct br_option g_words[] = {
    {"count", BR_OPT_UINT, AT(count), "1", 1, PLAN_MAX_MODELS, "N: so many alike"},
    {"weights", BR_OPT_STRING, AT(weights), NULL, 0, 0, "FORMAT: bf16, fp8, int8, int4"},
    {"kv", BR_OPT_STRING, AT(kv), NULL, 0, 0, "FORMAT: bf16, fp8"},
    {"rate", BR_OPT_NUMBER, AT(rate), NULL, 0, 1e4, "R: requests/s of each"},
    {"cv", BR_OPT_NUMBER, AT(cv), NULL, .05, 20, "CV: of the gaps between requests"},
    {"ttft", BR_OPT_SECONDS, AT(ttft_s), NULL, 1e-3, 3600, "S: SLO"},
    {"tbt", BR_OPT_SECONDS, AT(tbt_s), NULL, 1e-4, 60, "S: SLO"},
    {"tp", BR_OPT_UINT, AT(tp), NULL, 1, 8, "N: tensor-parallel degree"},
    {"dedicated-tp", BR_OPT_UINT, AT(dedicated_tp), NULL, 1, 8, "N: of its replicas in the dedicated baseline"},
    {"gpu", BR_OPT_STRING, AT(gpu), NULL, 0, 0, "NAME: the only kind that it may run on"},
    {"prompt", BR_OPT_STRING, AT(prompt), "540:.78:16:4096", 0, 0, "LAW: tokens"},
    {"output", BR_OPT_STRING, AT(output), "242:.6:16:2048", 0, 0, "LAW: tokens"},
    {"name", BR_OPT_STRING, AT(name), NULL, 0, 0, "NAME: in results"},
};
enum { N_WORDS = sizeof g_words / sizeof *g_words, MAX_LINE = 4096 };

int plan_model_base(const char *base, struct br_model_size *out, struct br_err *err)
{
    char path[MAX_LINE + 16];
    snprintf(path, sizeof path, "%s/config.json", base);
    return access(path, R_OK) == 0 ? br_model_size_load(base, out, err) : br_catalogue_find(base, out, err);
}

int plan_length_parse(const char *text, uint32_t most, struct br_length *out, struct br_err *err)
{
    double v[4] = {0, 0, 1, most};
    const char *at = text;
    int n = 0;
    for (; n < 4; n++) {
        char *end;
        v[n] = strtod(at, &end);
        if (end == at || !isfinite(v[n]))
            return br_err_set(err, BR_EINVAL, "lengths '%.40s' must be a number of tokens or MEDIAN:SIGMA[:MIN:MAX]",
                              text);
        at = end;
        if (*at != ':')
            break;
        at++;
    }
    if (*at || n == 4 || v[0] < 1 || v[0] > most || v[1] < 0 || v[1] > 5 || v[2] < 1 || v[2] > v[3] || v[3] > 1e7)
        return br_err_set(err, BR_EINVAL,
                          "lengths '%.40s' must be tokens from 1 to %u, or MEDIAN:SIGMA[:MIN:MAX] with sigma 0 to 5",
                          text, most);
    *out = (struct br_length){.kind = n == 0 || v[1] == 0 ? BR_LENGTH_FIXED : BR_LENGTH_LOGNORMAL,
                              .min = (uint32_t)v[2],
                              .max = (uint32_t)v[3],
                              .median = v[0],
                              .sigma = v[1]};
    return 0;
}

static void process_fill(struct br_process *p, double rate, double cv)
{
    *p = (struct br_process){.kind = BR_PROCESS_POISSON, .rate = rate};
    if (cv != 1) {
        p->kind = BR_PROCESS_GAMMA;
        p->shape = 1 / (cv * cv);
    }
}

static int degree_check(const char *word, uint32_t tp, struct br_err *err)
{
    if (tp & (tp - 1))
        return br_err_set(err, BR_EINVAL, "%s=%u: must be 1, 2, 4 or 8", word, tp);
    return 0;
}

static int model_fill(const struct words *w, const char *base, struct plan_model *m, struct br_err *err)
{
    struct br_model_size size;
    enum br_weight_format weights;
    enum br_kv_format kv;
    int rc = plan_model_base(base, &size, err);
    if (rc == 0)
        rc = br_weight_format_parse(w->weights, &weights, err);
    if (rc == 0)
        rc = br_kv_format_parse(w->kv, &kv, err);
    if (rc == 0 && w->gpu && !(m->gpu = br_gpu_find(w->gpu, err)))
        rc = err->code;
    if (rc == 0 && (rc = degree_check("tp", w->tp, err)) == 0)
        rc = degree_check("dedicated-tp", w->dedicated_tp, err);
    if (rc == 0 && (rc = plan_length_parse(w->prompt, 1000000, &m->source.lengths.prompt, err)) == 0)
        rc = plan_length_parse(w->output, 100000, &m->source.lengths.output, err);
    if (rc < 0)
        return rc;
    br_footprint_init(&m->footprint, &size, weights, kv);
    m->tp = w->tp;
    m->dedicated_tp = w->dedicated_tp;
    m->ttft_s = w->ttft_s;
    m->tbt_s = w->tbt_s;
    process_fill(&m->source.process, w->rate, w->cv);
    return 0;
}

/* Splits in place; the first word is the base. */
static int words_read(char *line, struct words *w, char **base, struct br_err *err)
{
    char *rest = NULL;
    *base = strtok_r(line, " \t", &rest);
    if (!*base)
        return br_err_set(err, BR_EINVAL, "a model needs a name of the catalogue or a folder");
    for (char *word; (word = strtok_r(NULL, " \t", &rest));) {
        char *equals = strchr(word, '=');
        if (!equals)
            return br_err_set(err, BR_EINVAL, "'%.60s' must be KEY=VALUE (count, weights, kv, rate, tp ...)", word);
        *equals = 0;
        if (br_options_set(g_words, N_WORDS, w, word, equals + 1, err) < 0)
            return err->code;
    }
    return 0;
}

static void defaults_fill(struct words *w, const struct plan_defaults *d)
{
    *w = (struct words){.ttft_s = d->ttft_s,
                        .tbt_s = d->tbt_s,
                        .rate = d->rate,
                        .cv = d->cv,
                        .weights = br_strdup(d->weights),
                        .kv = br_strdup(d->kv)};
    struct br_err ignored;
    for (uint32_t i = 0; i < N_WORDS; i++)
        if (g_words[i].fallback)
            br_options_set(g_words, N_WORDS, w, g_words[i].name, g_words[i].fallback, &ignored);
}

/* The names of alike models count on from how many models there are. */
static int models_add(const struct words *w, const char *base, struct plan_model **models, uint32_t *n,
                      struct br_err *err)
{
    struct plan_model m = {0};
    int rc = model_fill(w, base, &m, err);
    if (rc < 0)
        return rc;
    if (*n + w->count > PLAN_MAX_MODELS)
        return br_err_set(err, BR_EINVAL, "more than %d models", PLAN_MAX_MODELS);
    *models = br_realloc(*models, (*n + w->count) * sizeof **models);
    for (uint32_t i = 0; i < w->count; i++) {
        const char *name = w->name ? w->name : m.footprint.size.name;
        snprintf(m.name, sizeof m.name, "%.50s#%u", name, *n + 1);
        (*models)[(*n)++] = m;
    }
    return 0;
}

int plan_model_words(const char *line, const struct plan_defaults *defaults, struct plan_model **models, uint32_t *n,
                     struct br_err *err)
{
    struct words w;
    char *base, *copy;
    if (strlen(line) > MAX_LINE)
        return br_err_set(err, BR_EINVAL, "a model's line is longer than %d bytes", MAX_LINE);
    defaults_fill(&w, defaults);
    copy = br_strdup(line);
    int rc = words_read(copy, &w, &base, err);
    if (rc == 0)
        rc = models_add(&w, base, models, n, err);
    if (rc < 0)
        br_err_wrap(err, "model '%.60s'", line);
    br_options_free(g_words, N_WORDS, &w);
    free(copy);
    return rc;
}
