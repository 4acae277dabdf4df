#include "worker/sampler/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "worker/sampler/sampler_adjust.h"
#include "worker/sampler/sampler_math.h"
#include "worker/sampler/sampler_select.h"

/* vLLM's bound: below it a temperature means greedy. */
#define GREEDY_BELOW 1e-5f

struct br_sampler {
    uint32_t vocab, blocks;
    float *work;              /* [vocab] adjusted logits */
    float *max;               /* [blocks] of the row at hand */
    double *sums;             /* [blocks] */
    struct br_candidate *set; /* [vocab] */
    struct br_adjust adjust;
};

/* A row of logits with its block maxima. */
struct row {
    const float *x;
    uint32_t n;
    const float *block_max;
    float max;
};

int br_sampler_create(uint32_t vocab, struct br_sampler **out, struct br_err *err)
{
    struct br_sampler *s = br_calloc(1, sizeof *s);
    if (!vocab || vocab > 1u << 24) {
        free(s);
        return br_err_set(err, BR_EINVAL, "vocabulary of %u ids: must be in 1..%u", vocab, 1u << 24);
    }
    s->vocab = vocab;
    s->blocks = (vocab + BR_ROW_BLOCK - 1) / BR_ROW_BLOCK;
    s->work = br_malloc(vocab * sizeof *s->work);
    s->max = br_malloc(s->blocks * sizeof *s->max);
    s->sums = br_malloc(s->blocks * sizeof *s->sums);
    s->set = br_malloc(vocab * sizeof *s->set);
    s->adjust = (struct br_adjust){vocab, br_calloc(vocab, sizeof(uint32_t)), br_calloc(vocab, 1)};
    *out = s;
    return 0;
}

void br_sampler_destroy(struct br_sampler *s)
{
    if (!s)
        return;
    free(s->work);
    free(s->max);
    free(s->sums);
    free(s->set);
    free(s->adjust.counts);
    free(s->adjust.seen);
    free(s);
}

/* Returns whether all values are finite. */
static bool row_scan(struct br_sampler *s, const float *x, struct row *row)
{
    bool finite = br_row_scan(x, s->vocab, s->max, BR_ROW_BEST);
    *row = (struct row){.x = x, .n = s->vocab, .block_max = s->max, .max = s->max[0]};
    for (uint32_t b = 1; b < s->blocks; b++)
        row->max = s->max[b] > row->max ? s->max[b] : row->max;
    return finite;
}

static int32_t row_argmax(const struct row *row)
{
    uint32_t i = 0;
    while (row->block_max[i] != row->max)
        i++;
    i *= BR_ROW_BLOCK;
    while (row->x[i] != row->max)
        i++;
    return (int32_t)i;
}

static int refuse_row(const float *x, uint32_t n, struct br_err *err)
{
    uint32_t i = 0;
    while (i + 1 < n && isfinite(x[i]))
        i++;
    return br_err_set(err, BR_ECORRUPT, "logit of id %u is %g; the weights or the KV are damaged", i, (double)x[i]);
}

/* The n most likely ids of a row, most likely first: an insertion list that only blocks with a better value reach. */
static void top_alternatives(const struct row *row, uint32_t n, double log_sum, struct br_token *out)
{
    float value[BR_MAX_TOP_LOGPROBS];
    out->n_top = 0;
    for (uint32_t i = 0; i < row->n; i++) {
        uint32_t at = out->n_top;
        if (i % BR_ROW_BLOCK == 0 && at == n && !(row->block_max[i / BR_ROW_BLOCK] > value[n - 1])) {
            i += BR_ROW_BLOCK - 1;
            continue;
        }
        if (at == n && !(row->x[i] > value[n - 1]))
            continue;
        if (at < n)
            out->n_top++;
        else
            at--;
        for (; at > 0 && row->x[i] > value[at - 1]; at--) {
            value[at] = value[at - 1];
            out->top_id[at] = out->top_id[at - 1];
        }
        value[at] = row->x[i];
        out->top_id[at] = (int32_t)i;
    }
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top_logprob[i] = (float)((double)value[i] - log_sum);
}

static double weights_total(const struct br_sampler *s)
{
    double total = 0;
    for (uint32_t b = 0; b < s->blocks; b++)
        total += s->sums[b];
    return total;
}

/* log_softmax of the raw row; the token's own logprob is filled in once it is known. */
static double logprobs_prepare(struct br_sampler *s, const struct row *row, uint32_t n_top, struct br_token *out)
{
    double log_sum;
    br_row_exp_sums(row->x, row->n, row->max, 1, s->sums, BR_ROW_BEST);
    log_sum = (double)row->max + br_ln(weights_total(s));
    if (n_top)
        top_alternatives(row, n_top < row->n ? n_top : row->n, log_sum, out);
    return log_sum;
}

/* Candidates: the ids with x >= least whose weight is above zero. */
static size_t gather(struct br_sampler *s, const struct row *row, double least, double scale)
{
    size_t n = 0;
    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t end = (b + 1) * BR_ROW_BLOCK < row->n ? (b + 1) * BR_ROW_BLOCK : row->n;
        if (!((double)row->block_max[b] >= least))
            continue;
        for (uint32_t i = b * BR_ROW_BLOCK; i < end; i++) {
            double weight = (double)row->x[i] >= least ? br_exp(((double)row->x[i] - (double)row->max) * scale) : 0;
            if (weight > 0)
                s->set[n++] = (struct br_candidate){.weight = weight, .value = row->x[i], .id = (int32_t)i};
        }
    }
    return n;
}

/* The k-th largest block maximum: k ids are at least that large, so the top k are among those that are. */
static double top_k_bound(struct br_sampler *s, const struct row *row, uint32_t k)
{
    float least;
    if (k > s->blocks / 2)
        return -INFINITY;
    for (uint32_t b = 0; b < s->blocks; b++)
        s->set[b] = (struct br_candidate){.value = row->block_max[b], .id = (int32_t)b};
    br_select_count(s->set, s->blocks, k);
    least = s->set[0].value;
    for (uint32_t i = 1; i < k; i++)
        least = s->set[i].value < least ? s->set[i].value : least;
    return (double)least;
}

static size_t keep_top_k(struct br_sampler *s, const struct row *row, uint32_t k, double scale)
{
    size_t n = gather(s, row, top_k_bound(s, row, k), scale);
    if (n <= k)
        return n;
    br_select_count(s->set, n, k);
    return k;
}

static double set_mass(const struct br_candidate *set, size_t n)
{
    double mass = 0;
    for (size_t i = 0; i < n; i++)
        mass += set[i].weight;
    return mass;
}

/* Without top-k first. Ids lighter than (1 - p) total / vocab weigh less than (1 - p) total together, so none of them
 * is in the top p; the bound is taken a little lower for its rounding. */
static size_t keep_top_p(struct br_sampler *s, const struct row *row, double p, double scale)
{
    double total, light;
    size_t n;
    br_row_exp_sums(row->x, row->n, row->max, scale, s->sums, BR_ROW_BEST);
    total = weights_total(s);
    light = (1 - p) * total / row->n;
    n = gather(s, row, light > 0 ? (double)row->max + (br_ln(light) - 1e-3) / scale : -INFINITY, scale);
    return br_select_mass(s->set, n, p * total);
}

static size_t keep_min_p(struct br_candidate *set, size_t n, double min_p)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (set[i].weight >= min_p)
            set[kept++] = set[i];
    return kept;
}

static int32_t draw_from_set(struct br_sampler *s, const struct row *row, const struct br_sampling *p, double scale,
                             double u)
{
    bool top_k = p->top_k > 0 && (uint32_t)p->top_k < s->vocab, top_p = p->top_p < 1;
    double share = p->top_p > 0 ? (double)p->top_p : 0, min_p = p->min_p < 1 ? (double)p->min_p : 1;
    size_t n;
    if (top_k) {
        n = keep_top_k(s, row, (uint32_t)p->top_k, scale);
        n = top_p ? br_select_mass(s->set, n, share * set_mass(s->set, n)) : n;
    } else if (top_p) {
        n = keep_top_p(s, row, share, scale);
    } else {
        n = gather(s, row, (double)row->max + (br_ln(min_p) - 1e-3) / scale, scale);
    }
    if (min_p > 0)
        n = keep_min_p(s->set, n, min_p);
    return s->set[br_select_mass(s->set, n, u * set_mass(s->set, n)) - 1].id;
}

/* No filter: ids in order, by blocks, then inside the block. */
static int32_t draw_from_row(struct br_sampler *s, const struct row *row, double scale, double u)
{
    double at, sum = 0;
    uint32_t b = 0, i, end, last = 0;
    br_row_exp_sums(row->x, row->n, row->max, scale, s->sums, BR_ROW_BEST);
    at = u * weights_total(s);
    while (b + 1 < s->blocks && sum + s->sums[b] <= at)
        sum += s->sums[b++];
    while (s->sums[b] <= 0) /* rounding at the very end of the row */
        b--;
    end = (b + 1) * BR_ROW_BLOCK < row->n ? (b + 1) * BR_ROW_BLOCK : row->n;
    for (i = b * BR_ROW_BLOCK; i < end; i++) {
        double weight = br_exp(((double)row->x[i] - (double)row->max) * scale);
        sum += weight;
        if (weight > 0)
            last = i;
        if (weight > 0 && sum > at)
            break;
    }
    return (int32_t)last;
}

static int32_t choose(struct br_sampler *s, const struct row *row, const struct br_seq_spec *spec, uint32_t index)
{
    const struct br_sampling *p = &spec->sampling;
    double u, scale;
    if (!(p->temperature >= GREEDY_BELOW))
        return row_argmax(row);
    u = br_rng_unit(p->seed, spec->choice, index, 0);
    scale = 1 / (double)p->temperature;
    if ((p->top_k > 0 && (uint32_t)p->top_k < s->vocab) || p->top_p < 1 || p->min_p > 0)
        return draw_from_set(s, row, p, scale, u);
    return draw_from_row(s, row, scale, u);
}

int br_sampler_draw(struct br_sampler *s, const struct br_seq_spec *spec, const int32_t *history, uint32_t n_history,
                    const float *logits, const int32_t *eos, uint32_t n_eos, struct br_token *out, struct br_err *err)
{
    int32_t n_logprobs = spec->sampling.logprobs;
    double log_sum = 0;
    struct row row;
    int rc;
    if (n_history < spec->n_prompt)
        return br_err_set(err, BR_EINVAL, "history of %u tokens is shorter than the prompt's %u", n_history,
                          spec->n_prompt);
    *out = (struct br_token){0};
    if (!row_scan(s, logits, &row))
        return refuse_row(logits, s->vocab, err);
    if (n_logprobs >= 0)
        log_sum = logprobs_prepare(s, &row,
                                   n_logprobs < BR_MAX_TOP_LOGPROBS ? (uint32_t)n_logprobs : BR_MAX_TOP_LOGPROBS, out);
    if (br_adjust_needed(spec, n_history, n_eos)) {
        memcpy(s->work, logits, s->vocab * sizeof *s->work);
        if ((rc = br_adjust_apply(&s->adjust, spec, history, n_history, eos, n_eos, s->work, err)))
            return rc;
        row_scan(s, s->work, &row);
        if (row.max == -INFINITY)
            return br_err_set(err, BR_EINVAL, "every id is masked: min_tokens with a vocabulary of ends only");
    }
    out->id = choose(s, &row, spec, n_history - spec->n_prompt);
    if (n_logprobs >= 0)
        out->logprob = (float)((double)logits[out->id] - log_sum);
    return 0;
}
