#include "loadgen/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Aegaeon's artifact: a token within the time allowed since the last late one lengthens it by TBT; a late one adds what
 * was allowed and begins anew, with the allowance as lengthened. */
static void qos_token(struct load_request_sum *s, double arrival, const struct load_slo *slo, double at)
{
    if (s->tokens == 0) {
        s->qos_since = arrival;
        s->qos_allowed = slo->ttft_s;
    }
    if (at - s->qos_since <= s->qos_allowed) {
        s->qos_got = s->qos_allowed;
    } else {
        s->qos_sum += s->qos_got;
        s->qos_since = at;
        s->qos_got = 0;
    }
    s->qos_allowed += slo->tbt_s;
}

double load_request_qos(const struct load_record *record, const struct load_request_sum *s)
{
    double total = s->last_s - record->scheduled_s;
    if (s->tokens == 0 || total <= 0)
        return 1;
    return (s->qos_sum + fmin(s->qos_allowed, s->last_s - s->qos_since)) / total;
}

static void sum_piece(const struct load_record *record, const struct load_slo *slo, const struct load_piece *piece,
                      struct load_request_sum *s)
{
    double gap = s->tokens ? (piece->at_s - s->last_s) / piece->tokens : piece->at_s - record->scheduled_s;
    for (uint32_t i = 0; i < piece->tokens; i++) {
        uint32_t k = s->tokens;
        double due = record->scheduled_s + slo->ttft_s + k * slo->tbt_s;
        s->on_time += piece->at_s <= due + 1e-9;
        s->gaps_on_time += k == 0 ? gap <= slo->ttft_s + 1e-9 : s->first_s < 0 || gap <= slo->tbt_s + 1e-9;
        qos_token(s, record->scheduled_s, slo, piece->at_s);
        s->tokens++;
    }
    if (s->first_s < 0)
        s->first_s = piece->at_s;
    s->last_s = piece->at_s;
}

void load_request_sums(const struct load_journal *j, const struct load_slo *slo, struct load_request_sum *sums)
{
    for (size_t i = 0; i < j->n; i++)
        sums[i] = (struct load_request_sum){.first_s = -1, .last_s = -1};
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *piece = load_journal_piece(j, i);
        sum_piece(&j->records[piece->request], slo, piece, &sums[piece->request]);
    }
}

uint32_t load_request_owed(const struct load_record *record)
{
    if (record->traits & LOAD_SLOW || record->outcome == LOAD_PENDING)
        return 0;
    if (load_outcome_failed(record->outcome) && record->output > record->tokens)
        return record->output;
    return record->tokens;
}

/* ---- groups ---- */

static void add_latencies(struct load_group *g, const struct load_record *r, const struct load_request_sum *s,
                          const struct load_bounds *bounds)
{
    double ttft = s->first_s - r->sent_s, e2e = s->last_s - r->sent_s;
    double tpot = s->tokens > 1 ? (e2e - ttft) / (s->tokens - 1) : 0;
    load_dist_add(&g->ttft, s->first_s - r->scheduled_s);
    load_dist_add(&g->ttft_sent, ttft);
    if (s->tokens > 1)
        load_dist_add(&g->tpot, tpot);
    if (r->outcome != LOAD_OK)
        return;
    load_dist_add(&g->e2e, s->last_s - r->scheduled_s);
    load_dist_add(&g->e2e_sent, e2e);
    g->good += (bounds->ttft_s <= 0 || ttft <= bounds->ttft_s) && (bounds->tpot_s <= 0 || tpot <= bounds->tpot_s) &&
               (bounds->e2el_s <= 0 || e2e <= bounds->e2el_s);
}

static void add_request(struct load_group *g, const struct load_record *r, const struct load_request_sum *s,
                        const struct load_bounds *bounds)
{
    g->requests++;
    g->outcomes[r->outcome]++;
    g->tokens += r->tokens;
    g->prompt_tokens += r->prompt_seen ? r->prompt_seen : r->outcome == LOAD_OK ? r->prompt : 0;
    if (r->sent_s >= 0)
        load_dist_add(&g->dispatch, r->sent_s - r->scheduled_s);
    if (r->traits & LOAD_SLOW) {
        g->slow++;
        return;
    }
    g->owed += load_request_owed(r);
    g->on_time += s->on_time;
    g->gaps_on_time += s->gaps_on_time;
    if (r->outcome == LOAD_OK) {
        g->qos += load_request_qos(r, s);
        g->n_qos++;
    }
    if (s->tokens)
        add_latencies(g, r, s, bounds);
}

static bool counts(const struct load_measure *m, const struct load_record *r)
{
    return r->scheduled_s >= m->from_s && r->outcome != LOAD_PENDING;
}

/* Tokens that came together share their gap. */
static void add_gaps(const struct load_journal *j, struct load_measure *out)
{
    double *last = br_malloc((j->n + 1) * sizeof *last);
    for (size_t i = 0; i < j->n; i++)
        last[i] = -1;
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        const struct load_record *r = &j->records[p->request];
        double before = last[p->request];
        last[p->request] = p->at_s;
        if (before < 0 || !counts(out, r) || r->traits & LOAD_SLOW)
            continue;
        for (uint32_t k = 0; k < p->tokens; k++) {
            load_dist_add(&out->all.itl, (p->at_s - before) / p->tokens);
            load_dist_add(&out->models[r->model].itl, (p->at_s - before) / p->tokens);
        }
    }
    free(last);
}

/* By whole seconds, as vLLM has it. */
static void find_peaks(const struct load_journal *j, struct load_measure *out)
{
    size_t n = (size_t)(j->wall_s > 0 ? j->wall_s : 0) + 2;
    uint64_t *tokens = br_calloc(n, sizeof *tokens);
    int64_t *open = br_calloc(n + 1, sizeof *open), now = 0;
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        if (p->at_s < (double)n)
            tokens[(size_t)p->at_s] += p->tokens;
    }
    for (size_t i = 0; i < j->n; i++) {
        const struct load_record *r = &j->records[i];
        if (r->sent_s < 0 || r->sent_s >= (double)n || r->end_s < r->sent_s)
            continue;
        open[(size_t)r->sent_s]++;
        open[r->end_s < (double)n - 1 ? (size_t)r->end_s + 1 : n]--;
    }
    for (size_t i = 0; i < n; i++) {
        now += open[i];
        out->peak_tokens_per_s = fmax(out->peak_tokens_per_s, (double)tokens[i]);
        out->peak_concurrency = now > out->peak_concurrency ? (uint32_t)now : out->peak_concurrency;
    }
    free(tokens);
    free(open);
}

void load_measure_make(const struct load_journal *j, uint32_t n_models, double warmup_s, const struct load_slo *slo,
                       const struct load_bounds *bounds, struct load_measure *out)
{
    struct load_request_sum *sums = br_malloc((j->n + 1) * sizeof *sums);
    memset(out, 0, sizeof *out);
    out->n_models = n_models;
    out->models = br_calloc(n_models + 1, sizeof *out->models);
    out->from_s = warmup_s;
    out->to_s = j->interrupted || j->hopeless > 0 ? j->wall_s : j->sending_s;
    load_request_sums(j, slo, sums);
    for (size_t i = 0; i < j->n; i++) {
        if (!counts(out, &j->records[i]))
            continue;
        add_request(&out->all, &j->records[i], &sums[i], bounds);
        add_request(&out->models[j->records[i].model], &j->records[i], &sums[i], bounds);
    }
    free(sums);
    add_gaps(j, out);
    find_peaks(j, out);
}

static void group_free(struct load_group *g)
{
    struct load_dist *dists[] = {&g->ttft, &g->e2e, &g->ttft_sent, &g->e2e_sent, &g->tpot, &g->itl, &g->dispatch};
    for (size_t i = 0; i < sizeof dists / sizeof *dists; i++)
        load_dist_free(dists[i]);
}

void load_measure_free(struct load_measure *measure)
{
    group_free(&measure->all);
    for (uint32_t i = 0; i < measure->n_models; i++)
        group_free(&measure->models[i]);
    free(measure->models);
    memset(measure, 0, sizeof *measure);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 1;
}

double load_attainment(const struct load_group *g)
{
    return share(g->on_time, g->owed);
}

double load_gap_attainment(const struct load_group *g)
{
    return share(g->gaps_on_time, g->owed);
}

double load_qos(const struct load_group *g)
{
    return g->n_qos ? g->qos / (double)g->n_qos : 1;
}

uint64_t load_failed(const struct load_group *g)
{
    uint64_t n = 0;
    for (int i = 0; i < LOAD_OUTCOMES; i++)
        n += load_outcome_failed(i) ? g->outcomes[i] : 0;
    return n;
}
