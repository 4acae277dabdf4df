/* `briareus plan --max models|rate`: what a fleet holds. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/plan/commands.h"
#include "cli/plan/html.h"
#include "cli/plan/most.h"
#include "cli/plan/write.h"

static json_t *most_json(const struct plan_most *m, bool rate)
{
    const struct plan_tally *t = &m->tally;
    double all = t->device_s > 0 ? t->device_s : 1;
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "policy", m->policy,
                          "gpu", m->kind.gpu->name, "tp", (json_int_t)m->kind.tp, "gpus", (json_int_t)m->gpus, "nodes",
                          (json_int_t)m->nodes, "host_models", (json_int_t)m->host_models, "attainment",
                          plan_tally_attainment(t), "ttft_p50_s", (double)br_hist_quantile(t->ttft_us, .5) / 1e6,
                          "ttft_p99_s", (double)br_hist_quantile(t->ttft_us, .99) / 1e6, "tbt_p99_s",
                          (double)br_hist_quantile(t->tbt_us, .99) / 1e6, "switches_per_gpu_s", t->switches / all,
                          "link_busy", t->link_s / all, "compute_busy", t->compute_s / all);
    json_object_set_new(j, rate ? "rate_90" : "models_90", rate ? json_real(m->rate[0]) : json_integer(m->models[0]));
    json_object_set_new(j, rate ? "rate_99" : "models_99", rate ? json_real(m->rate[1]) : json_integer(m->models[1]));
    json_object_set_new(j, "cost_per_hour", json_real(m->gpus * m->kind.gpu->price_usd_per_hour));
    return j;
}

static void print_head(const struct plan_options *o, const struct plan_material *m, bool rate)
{
    if (o->stands_for)
        printf("%s\n", o->stands_for);
    printf(
        "What %u GPUs hold: %s, mean of %u seed%s; TTFT %g s, TBT %g ms\n\n"
        "| policy        | GPU      | TP | %s at 90 %% | at 99 %% | host memory holds | TTFT p50 | p99, s | compute | "
        "link |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        o->fleet, rate ? "requests/s of these models" : "models like these", m->ask.n_seeds,
        m->ask.n_seeds == 1 ? "" : "s", o->ttft_s, 1e3 * o->tbt_s, rate ? "requests/s" : "models");
}

static void print_row(const struct plan_most *m, bool rate)
{
    double all = m->tally.device_s > 0 ? m->tally.device_s : 1;
    printf("| %-13s | %-8s | %2u | ", m->policy, m->kind.gpu->name, m->kind.tp);
    if (rate)
        printf("%6.2f | %6.2f |", m->rate[0], m->rate[1]);
    else
        printf("%6u | %6u |", m->models[0], m->models[1]);
    printf(" %5u | %6.2f | %6.2f | %4.2f | %4.2f |%s\n", m->host_models,
           (double)br_hist_quantile(m->tally.ttft_us, .5) / 1e6, (double)br_hist_quantile(m->tally.ttft_us, .99) / 1e6,
           m->tally.compute_s / all, m->tally.link_s / all,
           !rate && m->models[1] > m->host_models ? " more than host memory holds" : "");
}

static int most_all(const struct plan_options *o, struct plan_material *m, bool rate, struct plan_most *list,
                    struct br_err *err)
{
    uint32_t n = 0;
    int rc = 0;
    for (uint32_t p = 0; rc == 0 && p < m->ask.n_policies; p++)
        for (uint32_t g = 0; rc == 0 && g < m->ask.n_gpus; g++) {
            const char *policy = m->ask.policies[p];
            rc = (rate ? plan_most_rate : plan_most_models)(&m->ask, m->ask.gpus[g], o->fleet, policy, &list[n++], err);
        }
    return rc;
}

/* The caller owns the result; NULL: *err. */
static json_t *root_make(const struct plan_options *o, const struct plan_material *m, const struct plan_most *list,
                         uint32_t n, bool rate, struct br_err *err)
{
    struct plan_requests requests = {0};
    struct sim_request *drawn = NULL;
    if (plan_requests(&m->ask, m->ask.seed, &drawn, &requests.n, err) < 0)
        return NULL;
    requests.list = drawn;
    json_t *results = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(results, most_json(&list[i], rate));
    json_t *root = json_pack("{s:o, s:o, s:o}", "workload", plan_json_workload(o, m, &requests), "targets",
                             plan_json_targets(o), "results", results);
    free(drawn);
    return root;
}

static int files_write(const struct plan_options *o, const struct plan_material *m, const struct plan_most *list,
                       uint32_t n, bool rate, struct br_err *err)
{
    struct br_buf page = {0};
    json_t *root = root_make(o, m, list, n, rate, err);
    int rc = root ? 0 : err->code;
    if (rc == 0 && o->json)
        rc = plan_json_write(root, o->json, err);
    if (rc == 0 && o->html) {
        plan_html(root, &m->ask, NULL, &page);
        rc = plan_write(o->html, page.data, page.len, err);
    }
    br_buf_free(&page);
    json_decref(root);
    return rc;
}

int plan_most_command(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    bool rate = strcmp(o->max, "rate") == 0;
    if (!rate && strcmp(o->max, "models") != 0)
        return br_err_set(err, BR_EINVAL, "max '%.40s' must be models or rate", o->max);
    if (o->trace)
        return br_err_set(err, BR_EINVAL, "--trace shows a plan's pool; --max has none (leave one of them out)");
    uint32_t n = m->ask.n_policies * m->ask.n_gpus;
    struct plan_most *list = br_calloc(n, sizeof *list);
    int rc = most_all(o, m, rate, list, err);
    if (rc == 0 && (o->json || o->html))
        rc = files_write(o, m, list, n, rate, err);
    if (rc == 0 && (!o->json || strcmp(o->json, "-") != 0)) {
        print_head(o, m, rate);
        for (uint32_t i = 0; i < n; i++)
            print_row(&list[i], rate);
    }
    for (uint32_t i = 0; i < n; i++)
        plan_tally_free(&list[i].tally);
    free(list);
    return rc;
}
