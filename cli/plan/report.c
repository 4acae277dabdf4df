#include "cli/plan/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/plan/write.h"

json_t *plan_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static const char *const g_weights[] = {"bf16", "fp8", "int8", "int4"}, *const g_kv[] = {"bf16", "fp8"};

static json_t *model_json(const struct plan_model *m, const uint64_t sums[3], double horizon_s)
{
    double n = (double)sums[0];
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o, s:o, s:f, s:f}", "name", m->name, "base",
                     m->footprint.size.name, "weights", g_weights[m->footprint.weights], "kv", g_kv[m->footprint.kv],
                     "weights_bytes", m->footprint.weight_bytes, "rate", n / horizon_s, "prompt_mean",
                     n > 0 ? json_real((double)sums[1] / n) : json_null(), "output_mean",
                     n > 0 ? json_real((double)sums[2] / n) : json_null(), "ttft_s", m->ttft_s, "tbt_s", m->tbt_s);
}

json_t *plan_json_workload(const struct plan_options *o, const struct plan_material *m, const struct plan_requests *r)
{
    const struct plan_ask *ask = &m->ask;
    json_t *models = json_array();
    uint64_t(*sums)[3] = br_calloc(ask->n_models, sizeof *sums), tokens = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t *s = sums[r->list[i].model];
        s[0]++;
        s[1] += r->list[i].prompt;
        s[2] += r->list[i].output;
        tokens += r->list[i].output;
    }
    for (uint32_t i = 0; i < ask->n_models; i++)
        json_array_append_new(models, model_json(&ask->models[i], (const uint64_t *)sums[i], ask->horizon_s));
    free(sums);
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:f, s:I, s:o}", "scenario",
                     o->scenario ? o->scenario : "", "stands_for", o->stands_for ? o->stands_for : "", "from_s",
                     m->from_s, "horizon_s", ask->horizon_s, "margin_s", ask->margin_s, "seed", (json_int_t)ask->seed,
                     "seeds", (json_int_t)ask->n_seeds, "rate", r->n / ask->horizon_s, "requests", (json_int_t)r->n,
                     "tokens", (json_int_t)tokens, "host_bytes_per_node", ask->host_bytes, "gpus_per_node",
                     (json_int_t)ask->node_gpus, "models", models);
}

json_t *plan_json_targets(const struct plan_options *o)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "attainment", o->target, "ttft_s", o->ttft_s, "tbt_s", o->tbt_s,
                     "redundancy", (json_int_t)o->redundancy);
}

static json_t *time_json(const struct plan_tally *t)
{
    double all = t->device_s > 0 ? t->device_s : 1;
    double busy = t->decode_s + t->prefill_s + t->switch_s + t->stalled_s;
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "decode", t->decode_s / all, "prefill", t->prefill_s / all, "switch",
                     t->switch_s / all, "stalled", t->stalled_s / all, "idle", fmax(0, 1 - busy / all));
}

static json_t *parts_json(const struct plan_result *r)
{
    json_t *out = json_array();
    bool singles = strcmp(r->policy, "dedicated") == 0; /* a pool a model: the workload's list says it all */
    for (uint32_t i = 0; !singles && i < r->n_parts; i++) {
        const struct plan_part *p = &r->parts[i];
        json_array_append_new(out,
                              json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "gpu", p->kind.gpu->name,
                                        "tp", (json_int_t)p->kind.tp, "devices", (json_int_t)p->devices, "redundant",
                                        (json_int_t)p->redundant, "models", (json_int_t)p->n_models, "weights_bytes",
                                        p->weights_bytes, "attainment", p->attainment, "compute_busy", p->compute_busy,
                                        "link_busy", p->link_busy, "fluid_devices", p->fluid_devices));
    }
    return out;
}

static json_t *curve_json(const struct plan_result *r)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < r->n_curve; i++)
        json_array_append_new(
            out, json_pack("{s:I, s:f}", "gpus", (json_int_t)r->curve[i].gpus, "attainment", r->curve[i].attainment));
    return out;
}

static json_t *seeds_json(const struct plan_result *r, uint32_t n)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(out, r->need_by_seed[i] ? json_integer(r->need_by_seed[i]) : json_null());
    return out;
}

static void set_latency(json_t *j, const struct plan_tally *t, double devices_s)
{
    json_object_set_new(j, "attainment", json_real(plan_tally_attainment(t)));
    json_object_set_new(j, "ttft_p50_s", json_real((double)br_hist_quantile(t->ttft_us, .5) / 1e6));
    json_object_set_new(j, "ttft_p99_s", json_real((double)br_hist_quantile(t->ttft_us, .99) / 1e6));
    json_object_set_new(j, "tbt_p99_s", json_real((double)br_hist_quantile(t->tbt_us, .99) / 1e6));
    json_object_set_new(j, "switches_per_gpu_s", json_real(devices_s > 0 ? t->switches / devices_s : 0));
    json_object_set_new(j, "link_busy", json_real(devices_s > 0 ? t->link_s / devices_s : 0));
    json_object_set_new(j, "compute_busy", json_real(devices_s > 0 ? t->compute_s / devices_s : 0));
}

json_t *plan_json_result(const struct plan_result *r, uint32_t n_seeds)
{
    json_t *j = json_pack("{s:s, s:s, s:I}", "policy", r->policy, "gpu", r->gpu, "tp", (json_int_t)r->tp);
    json_object_set_new(j, "gpus", r->gpus ? json_integer(r->gpus) : json_null());
    json_object_set_new(j, "gpus_ci95",
                        r->gpus && isfinite(r->ci95[0]) ? json_pack("[f, f]", r->ci95[0], r->ci95[1]) : json_null());
    if (*r->why)
        json_object_set_new(j, "why", json_string(r->why));
    set_latency(j, &r->tally, r->tally.device_s);
    json_object_set_new(j, "host_bytes_per_node", json_real(r->host_bytes_per_node));
    json_object_set_new(j, "cost_per_hour", json_real(r->cost_per_hour));
    json_object_set_new(j, "reduction_vs_dedicated",
                        r->gpus && r->dedicated_gpus ? json_real(1 - (double)r->gpus / r->dedicated_gpus)
                                                     : json_null());
    json_object_set_new(j, "fluid_bound_gpus", json_real(r->fluid_gpus));
    json_object_set_new(j, "dedicated_gpus", json_integer(r->dedicated_gpus));
    json_object_set_new(j, "host_floor_gpus", json_integer(r->host_floor_gpus));
    json_object_set_new(j, "nodes", json_integer(r->nodes));
    json_object_set_new(j, "redundant_gpus", json_integer(r->redundant_gpus));
    json_object_set_new(j, "memory_gpus", json_integer(r->memory_gpus));
    json_object_set_new(j, "disk_bytes", json_real(r->disk_bytes));
    json_object_set_new(j, "need_by_seed", seeds_json(r, n_seeds));
    json_object_set_new(j, "time", time_json(&r->tally));
    json_object_set_new(j, "pools", parts_json(r));
    json_object_set_new(j, "curve", curve_json(r));
    return j;
}

static json_t *mix_search_json(const struct plan_mixed *mix)
{
    return json_pack("{s:I, s:b, s:o, s:s, s:f}", "tried", (json_int_t)mix->tried, "found", (int)mix->found,
                     "cost_per_hour", mix->cost_per_hour > 0 ? json_real(mix->cost_per_hour) : json_null(),
                     "cheapest_alone", mix->alone_gpu, "alone_per_hour", mix->alone_per_hour);
}

json_t *plan_json(const struct plan_options *o, const struct plan_material *m, const struct plan_answer *a)
{
    json_t *results = json_array();
    for (uint32_t i = 0; i < a->n; i++)
        json_array_append_new(results, plan_json_result(&a->results[i], a->n_seeds));
    json_t *root = json_pack("{s:o, s:o, s:o}", "workload", plan_json_workload(o, m, &a->requests[0]), "targets",
                             plan_json_targets(o), "results", results);
    if (a->mix.tried)
        json_object_set_new(root, "mix_search", mix_search_json(&a->mix));
    return root;
}

int plan_json_write(const json_t *root, const char *path, struct br_err *err)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    struct br_buf out = {0};
    br_buf_puts(&out, text);
    br_buf_puts(&out, "\n");
    int rc = plan_write(path, out.data, out.len, err);
    br_buf_free(&out);
    free(text);
    return rc;
}
