/* --find-goodput: the search on real runs. */
#include <math.h>
#include <stdio.h>

#include "loadgen/session.h"

struct finding {
    struct load_session *session;
    double base_rate; /* of the options as they are */
};

static double offered_rate(const struct load_session *s)
{
    const struct br_workload *w = &s->offer.workload;
    double seconds = s->config->duration_s;
    if (w->n && w->requests[w->n - 1].at_s < seconds && s->config->num_prompts == w->n)
        seconds = w->requests[w->n - 1].at_s;
    return seconds > 0 ? (double)w->n / seconds : 0;
}

static int probe(void *ctx, double rate, uint32_t run, double *attainment, double *error, struct br_err *err)
{
    struct finding *f = ctx;
    struct load_session *s = f->session;
    const struct load_slo slo = {s->config->ttft_s, s->config->tbt_s};
    struct load_measure m;
    struct load_bounds none = {0};
    double late;
    char label[64];
    snprintf(label, sizeof label, "load: run %u at %.4g requests/s", run + 1, rate);
    if (load_session_run(s, rate / f->base_rate, s->config->seed + run, label, err))
        return err->code;
    if (s->journal.interrupted)
        return br_err_set(err, BR_EBUSY, "interrupted");
    load_attainment_error(&s->journal, &slo, s->config->warmup_s, attainment, error);
    load_measure_make(&s->journal, s->offer.workload.n_models, s->config->warmup_s, &slo, &none, &m);
    late = load_dist_quantile(&m.all.dispatch, .99);
    load_measure_free(&m);
    printf("run %2u: %10.4g requests/s, attainment %6.2f %% +- %.2f\n", run + 1, rate, 100 * *attainment, 196 * *error);
    fflush(stdout);
    if (late > s->config->max_dispatch_delay_s && !s->config->max_concurrency)
        return br_err_set(err, BR_EBUSY,
                          "the generator fell behind at %.4g requests/s (p99 of the dispatch delay %.1f "
                          "ms): what lies above cannot be measured from here",
                          rate, late * 1e3);
    return 0;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

static json_t *as_json(const struct load_goodput *g, const struct load_config *c)
{
    json_t *probes = json_array();
    for (uint32_t i = 0; i < g->n_probes; i++)
        json_array_append_new(probes, json_pack("{s:f,s:f,s:f,s:i}", "request_rate", g->probes[i].rate, "attainment",
                                                g->probes[i].attainment, "standard_error", g->probes[i].error, "runs",
                                                (int)g->probes[i].runs));
    return json_pack("{s:f,s:f,s:o,s:o,s:b,s:I,s:o,s:{s:f,s:f,s:f,s:I}}", "target", g->target, "goodput", g->rate,
                     "goodput_low", number_or_null(g->low), "goodput_high", number_or_null(g->high), "bracketed",
                     (int)g->bracketed, "runs", (json_int_t)g->runs, "probes", probes, "workload", "duration_s",
                     c->duration_s, "ttft_s", c->ttft_s, "tbt_s", c->tbt_s, "seed", (json_int_t)c->seed);
}

static void print(const struct load_goodput *g)
{
    if (!g->bracketed && g->rate > 0)
        printf("\ngoodput at %.4g %%: above %.4g requests/s (no higher rate was tried)\n", 100 * g->target, g->rate);
    else if (!g->bracketed)
        printf("\ngoodput at %.4g %%: not even the lowest rate tried holds it\n", 100 * g->target);
    else
        printf("\ngoodput at %.4g %%: %.4g requests/s (95 %%: holds at %.4g, breaks at %.4g; %u runs)\n",
               100 * g->target, g->rate, g->low, g->high, g->runs);
}

int load_session_find(struct load_session *s, json_t **out, struct br_err *err)
{
    struct finding f = {.session = s};
    struct load_goodput g;
    int rc = load_offer_make(s->config, 1, s->config->seed, &s->offer, err);
    if (rc)
        return rc;
    f.base_rate = offered_rate(s);
    if (f.base_rate <= 0)
        return br_err_set(err, BR_EINVAL, "find-goodput: the load offers no request (rate x duration too small)");
    rc = load_goodput_find(s->config->find_goodput / 100, f.base_rate, s->config->precision, s->config->max_runs, probe,
                           &f, &g, err);
    if (rc && g.n_probes < 2)
        return rc;
    if (rc)
        fprintf(stderr, "briareus load: %s\n", err->msg);
    print(&g);
    *out = as_json(&g, s->config);
    return 0;
}
