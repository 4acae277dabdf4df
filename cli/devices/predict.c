#include "cli/devices/predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const double RUN_ON_S = 30, OWN_BYTES = 1e9; /* of a GPU, that the planner leaves to the engine */

static int32_t served_index(const struct devices_predict *p, const char *name)
{
    for (uint32_t i = 0; i < p->worker.n_models; i++)
        if (strcmp(p->worker.models[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

double devices_predict_speed(const struct devices_predict *p)
{
    return p->ask.measured ? 1 : p->worker.speed;
}

static double or_else(double x, double otherwise)
{
    return x > 0 ? x : otherwise;
}

/* Sizes from the list of models; of a folder, as they were measured. */
static int footprint_of(const struct devices_predict *p, const struct br_worker_model *m, struct br_footprint *out,
                        struct br_err *err)
{
    const struct br_measured_model *points;
    struct br_model_size size;
    if (m->outline) {
        *out = m->outline->footprint;
        return 0;
    }
    if (br_model_size_load(m->dir, &size, err))
        return err->code;
    if (!(points = br_measured_find(&p->measured, size.name)))
        return br_err_set(err, BR_ENOTSUP, "steps of %s were not measured (briareus model bench DIR --json FILE)",
                          size.name);
    br_footprint_init(out, &size, BR_WEIGHTS_BF16, BR_KV_BF16);
    out->weight_bytes = points->weight_bytes;
    out->kv_bytes_per_token = points->kv_bytes_per_token;
    return 0;
}

static int model_fill(const struct devices_predict *p, const struct load_config *load, const char *name,
                      struct plan_model *out, struct br_err *err)
{
    int32_t at = served_index(p, name);
    if (at < 0)
        return br_err_set(err, BR_EINVAL, "model %s of the load is not among those of serve", name);
    const struct br_model_entry *e = p->worker.models[at].outline;
    *out = (struct plan_model){.ttft_s = devices_predict_speed(p) * or_else(e ? e->ttft_s : 0, load->ttft_s),
                               .tbt_s = devices_predict_speed(p) * or_else(e ? e->tbt_s : 0, load->tbt_s)};
    snprintf(out->name, sizeof out->name, "%.60s", name);
    return footprint_of(p, &p->worker.models[at], &out->footprint, err);
}

static int models_fill(struct devices_predict *p, const struct load_config *load, const struct br_workload *w,
                       struct br_err *err)
{
    int rc = 0;
    p->ask.models = br_calloc(w->n_models + 1, sizeof *p->ask.models);
    p->ask.n_models = p->pool.n_models = w->n_models;
    p->pool.models = br_calloc(w->n_models + 1, sizeof *p->pool.models);
    for (uint32_t i = 0; rc == 0 && i < w->n_models; i++) {
        rc = model_fill(p, load, w->names[i], &p->ask.models[i], err);
        p->pool.models[i] = i;
    }
    return rc;
}

static void requests_fill(struct devices_predict *p, const struct br_workload *w)
{
    struct sim_request *list = br_calloc(w->n + 1, sizeof *list);
    for (size_t i = 0; i < w->n; i++) {
        const struct br_request *r = &w->requests[i];
        list[i] = (struct sim_request){
            .at_s = devices_predict_speed(p) * r->at_s, .model = r->model, .prompt = r->prompt, .output = r->output};
    }
    p->requests = (struct plan_requests){list, (uint32_t)w->n};
}

static int cpu_fill(struct devices_predict *p, const char *costs, struct br_err *err)
{
    const struct br_worker_config *c = &p->worker;
    if (!costs)
        return br_err_set(err, BR_ENOTSUP, "steps of device %s are not known without --costs", c->device_kind);
    if (br_measured_read(costs, &p->measured, err))
        return err->code;
    if (c->memory_bytes)
        p->measured.memory_bytes = (double)c->memory_bytes;
    if (c->link_bytes_per_s)
        p->measured.link_bytes_per_s = (double)c->link_bytes_per_s;
    p->device = (struct br_gpu){.name = p->measured.device,
                                .memory_bytes = p->measured.memory_bytes,
                                .link_bytes_per_s = p->measured.link_bytes_per_s,
                                .link_effective_bytes_per_s = p->measured.link_bytes_per_s};
    p->ask.measured = &p->measured;
    p->ask.measured_gpu = p->pool.kind.gpu = &p->device;
    p->pool.kind.tp = 1;
    return 0;
}

static int kind_fill(struct devices_predict *p, const char *costs, struct br_err *err)
{
    const struct br_worker_config *c = &p->worker;
    if (strncmp(c->device_kind, "sim:", 4) != 0)
        return cpu_fill(p, costs, err);
    if (!(p->pool.kind.gpu = br_gpu_find(c->device_kind + 4, err)))
        return err->code;
    p->pool.kind.tp = c->tensor_parallel;
    if (c->memory_bytes)
        p->ask.memory_use = ((double)c->memory_bytes / c->tensor_parallel + OWN_BYTES) / p->pool.kind.gpu->memory_bytes;
    return 0;
}

/* The simulator leaves out as much at a run's end as at its beginning: the span is longer by that. */
int devices_predict_open(struct devices_predict *p, const struct cli_config *serve, const struct load_config *load,
                         const struct br_workload *w, struct br_err *err)
{
    *p = (struct devices_predict){.ask = {.run_on_s = RUN_ON_S, .memory_use = .9, .hysteresis = BR_PL_HYSTERESIS}};
    int rc = cli_worker_config(serve, &p->worker, &p->served, err);
    if (rc)
        return rc;
    rc = kind_fill(p, load->costs, err);
    if (rc == 0)
        rc = models_fill(p, load, w, err);
    if (rc) {
        devices_predict_close(p);
        return rc;
    }
    p->ask.margin_s = devices_predict_speed(p) * load->warmup_s;
    p->ask.horizon_s = devices_predict_speed(p) * (load->duration_s + load->warmup_s);
    requests_fill(p, w);
    return 0;
}

void devices_predict_close(struct devices_predict *p)
{
    if (p->served)
        cli_worker_models_free(p->served, p->worker.n_models);
    br_measured_free(&p->measured);
    free(p->ask.models);
    free(p->pool.models);
    free((void *)p->requests.list);
    *p = (struct devices_predict){0};
}

static struct plan_trial trial_of(const struct devices_predict *p, const char *policy)
{
    return (struct plan_trial){.ask = &p->ask, .pool = &p->pool, .policy = policy, .requests = p->requests};
}

int32_t devices_predict_need(struct devices_predict *p, const char *policy, double target, uint32_t least,
                             uint32_t most, struct br_err *err)
{
    struct plan_trial trial = trial_of(p, policy);
    trial.target = target;
    return plan_pool_need(&trial, (least + most) / 2, least, most, err);
}

double devices_predict_run(struct devices_predict *p, const char *policy, uint32_t n, struct plan_tally *tally,
                           const struct sim_observer *observer, struct br_err *err)
{
    struct plan_trial trial = trial_of(p, policy);
    trial.observer = observer;
    trial.n_devices = n;
    return plan_trial_run(&trial, tally, err);
}
