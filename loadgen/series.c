#include "loadgen/series.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

struct bucket {
    struct load_dist ttft, gap;
    uint64_t owed, on_time, failed, tokens;
};

struct buckets {
    struct bucket *b; /* [LOAD_SERIES_POINTS] */
    double width_s;
    uint32_t n;
};

static struct bucket *bucket_at(const struct buckets *all, double at_s)
{
    double i = at_s / all->width_s;
    return i >= 0 && i < all->n ? &all->b[(uint32_t)i] : NULL;
}

static void fill_requests(struct buckets *all, const struct load_outcome_of_run *run)
{
    const struct load_journal *j = run->journal;
    const struct load_slo slo = {run->config->ttft_s, run->config->tbt_s};
    struct load_request_sum *sums = br_malloc((j->n + 1) * sizeof *sums);
    load_request_sums(j, &slo, sums);
    for (size_t i = 0; i < j->n; i++) {
        const struct load_record *r = &j->records[i];
        struct bucket *b = bucket_at(all, r->scheduled_s);
        if (!b || r->outcome == LOAD_PENDING || r->traits & LOAD_SLOW)
            continue;
        b->owed += load_request_owed(r);
        b->on_time += sums[i].on_time;
        b->failed += load_outcome_failed(r->outcome);
        if (sums[i].tokens)
            load_dist_add(&b->ttft, sums[i].first_s - r->scheduled_s);
    }
    free(sums);
}

static void fill_tokens(struct buckets *all, const struct load_journal *j)
{
    double *last = br_malloc((j->n + 1) * sizeof *last);
    for (size_t i = 0; i < j->n; i++)
        last[i] = -1;
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        struct bucket *b = bucket_at(all, p->at_s);
        if (b) {
            b->tokens += p->tokens;
            if (last[p->request] >= 0)
                load_dist_add(&b->gap, (p->at_s - last[p->request]) / p->tokens);
        }
        last[p->request] = p->at_s;
    }
    free(last);
}

static void append(json_t *object, const char *key, double value)
{
    json_t *list = json_object_get(object, key);
    if (!list)
        json_object_set_new(object, key, list = json_array());
    json_array_append_new(list, isfinite(value) ? json_real(value) : json_null());
}

static double quantile_ms(struct load_dist *dist, double p)
{
    return dist->n ? load_dist_quantile(dist, p) * 1e3 : NAN;
}

static json_t *over_time(const struct load_outcome_of_run *run)
{
    struct buckets all = {.n = LOAD_SERIES_POINTS};
    json_t *out = json_object();
    all.width_s = run->journal->wall_s > 0 ? run->journal->wall_s / all.n : 1;
    all.b = br_calloc(all.n, sizeof *all.b);
    fill_requests(&all, run);
    fill_tokens(&all, run->journal);
    for (uint32_t i = 0; i < all.n; i++) {
        struct bucket *b = &all.b[i];
        append(out, "t_s", (i + .5) * all.width_s);
        append(out, "ttft_p50_ms", quantile_ms(&b->ttft, .5));
        append(out, "ttft_p99_ms", quantile_ms(&b->ttft, .99));
        append(out, "itl_p50_ms", quantile_ms(&b->gap, .5));
        append(out, "itl_p99_ms", quantile_ms(&b->gap, .99));
        append(out, "tokens_per_s", (double)b->tokens / all.width_s);
        append(out, "failed", (double)b->failed);
        append(out, "attainment", b->owed ? (double)b->on_time / (double)b->owed : NAN);
        load_dist_free(&b->ttft);
        load_dist_free(&b->gap);
    }
    free(all.b);
    return out;
}

void load_series_put(json_t *result, const struct load_outcome_of_run *run, struct load_measure *m)
{
    json_t *cdf = json_object();
    for (uint32_t i = 0; i <= LOAD_CDF_POINTS; i++) {
        double p = (double)i / LOAD_CDF_POINTS;
        append(cdf, "share", p);
        for (uint32_t k = 0; k < load_n_metrics; k++) {
            char key[64];
            snprintf(key, sizeof key, "%s_ms", load_metrics[k].key);
            append(cdf, key, quantile_ms((struct load_dist *)((char *)&m->all + load_metrics[k].offset), p));
        }
    }
    json_object_set_new(result, "series", over_time(run));
    json_object_set_new(result, "cdf", cdf);
}

static void append_new(json_t *object, const char *key, json_t *value)
{
    json_t *list = json_object_get(object, key);
    if (!list)
        json_object_set_new(object, key, list = json_array());
    json_array_append_new(list, value);
}

void load_details_put(json_t *result, const struct load_outcome_of_run *run)
{
    const struct load_journal *j = run->journal;
    json_t **gaps = br_calloc(j->n + 1, sizeof(json_t *));
    double *first = br_calloc(j->n + 1, sizeof *first), *last = br_calloc(j->n + 1, sizeof *last);
    for (size_t i = 0; i < j->n; i++)
        gaps[i] = json_array();
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        uint32_t r = p->request;
        if (last[r] > 0)
            json_array_append_new(gaps[r], json_real(p->at_s - last[r]));
        else
            first[r] = p->at_s;
        last[r] = p->at_s;
    }
    for (size_t i = 0; i < j->n; i++) {
        const struct load_record *r = &j->records[i];
        if (r->scheduled_s < run->config->warmup_s || r->outcome == LOAD_PENDING) {
            json_decref(gaps[i]);
            continue;
        }
        append_new(result, "input_lens", json_integer(r->prompt_seen ? r->prompt_seen : r->prompt));
        append_new(result, "output_lens", json_integer(r->tokens));
        append_new(result, "ttfts", json_real(first[i] > 0 ? first[i] - r->sent_s : 0));
        append_new(result, "itls", gaps[i]);
        append_new(result, "errors", json_string(r->outcome == LOAD_OK ? "" : load_outcome_name(r->outcome)));
    }
    free(gaps);
    free(first);
    free(last);
}
