#include "loadgen/goodput.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

static const double Z95 = 1.96;

/* ---- the error of one run ---- */

static void batch_sums(const struct load_journal *j, const struct load_slo *slo, double warmup_s, double *on_time,
                       double *owed)
{
    struct load_request_sum *sums = br_malloc((j->n + 1) * sizeof *sums);
    double end = j->interrupted || j->hopeless > 0 ? j->wall_s : j->sending_s, width = (end - warmup_s) / LOAD_BATCHES;
    load_request_sums(j, slo, sums);
    for (size_t i = 0; i < j->n; i++) {
        const struct load_record *r = &j->records[i];
        double at = width > 0 ? (r->scheduled_s - warmup_s) / width : 0;
        int b = at < LOAD_BATCHES - 1 ? (int)at : LOAD_BATCHES - 1;
        if (r->scheduled_s < warmup_s || !load_request_owed(r))
            continue;
        on_time[b] += sums[i].on_time;
        owed[b] += load_request_owed(r);
    }
    free(sums);
}

void load_attainment_error(const struct load_journal *j, const struct load_slo *slo, double warmup_s,
                           double *attainment, double *error)
{
    double on_time[LOAD_BATCHES] = {0}, owed[LOAD_BATCHES] = {0}, x = 0, y = 0, squares = 0;
    int n = 0;
    batch_sums(j, slo, warmup_s, on_time, owed);
    for (int b = 0; b < LOAD_BATCHES; b++) {
        x += on_time[b];
        y += owed[b];
        n += owed[b] > 0;
    }
    *attainment = y > 0 ? x / y : 1;
    for (int b = 0; b < LOAD_BATCHES; b++) {
        double d = on_time[b] - *attainment * owed[b];
        squares += d * d;
    }
    *error = n > 1 ? sqrt(squares * n / (n - 1)) / y : 1;
}

/* ---- the search ---- */

struct search {
    struct load_goodput *out;
    uint32_t max_runs;
    load_probe_fn probe;
    void *ctx;
};

/* Runs at one rate until it is told from the target. 1: holds, 0: breaks; negative: an error. */
static int try_rate(struct search *s, double rate, struct br_err *err)
{
    struct load_goodput *g = s->out;
    struct load_probe *p = &g->probes[g->n_probes++];
    double sum = 0, squares = 0;
    *p = (struct load_probe){.rate = rate};
    do {
        double attainment, error;
        if (s->probe(s->ctx, rate, g->runs, &attainment, &error, err))
            return err->code;
        g->runs++;
        p->runs++;
        sum += attainment;
        squares += error * error;
        p->attainment = sum / p->runs;
        p->error = sqrt(squares) / p->runs;
    } while (fabs(p->attainment - g->target) <= Z95 * p->error && p->runs < LOAD_GOODPUT_REPEATS &&
             g->runs < s->max_runs);
    if (p->attainment - g->target > Z95 * p->error && rate > g->low)
        g->low = rate;
    if (g->target - p->attainment > Z95 * p->error && rate < g->high)
        g->high = rate;
    return p->attainment >= g->target;
}

static bool may_go_on(const struct search *s)
{
    return s->out->runs < s->max_runs && s->out->n_probes < LOAD_GOODPUT_RATES;
}

/* Doubles or halves until one end holds and the other breaks. */
static int find_bracket(struct search *s, double start, double *holds, double *breaks, struct br_err *err)
{
    double rate = start;
    while (may_go_on(s) && (*holds <= 0 || isinf(*breaks)) && rate > start / 4096 && rate < start * 4096) {
        int rc = try_rate(s, rate, err);
        if (rc < 0)
            return rc;
        if (rc)
            *holds = rate;
        else
            *breaks = rate;
        rate = rc ? rate * 2 : rate / 2;
    }
    return 0;
}

int load_goodput_find(double target, double start_rate, double precision, uint32_t max_runs, load_probe_fn probe,
                      void *ctx, struct load_goodput *out, struct br_err *err)
{
    struct search s = {.out = out, .max_runs = max_runs, .probe = probe, .ctx = ctx};
    double holds = 0, breaks = INFINITY;
    *out = (struct load_goodput){.target = target, .high = INFINITY};
    if (find_bracket(&s, start_rate, &holds, &breaks, err))
        return err->code;
    out->bracketed = holds > 0 && !isinf(breaks);
    while (out->bracketed && may_go_on(&s) && breaks > holds * (1 + precision)) {
        double middle = sqrt(holds * breaks);
        int rc = try_rate(&s, middle, err);
        if (rc < 0)
            return rc;
        *(rc ? &holds : &breaks) = middle;
    }
    out->rate = out->bracketed ? sqrt(holds * breaks) : holds;
    if (out->low > out->high) { /* noise: the runs contradict each other by more than chance allows */
        double low = out->high;
        out->high = out->low;
        out->low = low;
    }
    return 0;
}
