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

static double or_else(double x, double otherwise)
{
    return x > 0 ? x : otherwise;
}

static int models_fill(struct devices_predict *p, const struct load_config *load, const struct br_workload *w,
                       struct br_err *err)
{
    struct plan_model *models = br_calloc(w->n_models + 1, sizeof *models);
    p->ask.models = models;
    p->ask.n_models = p->pool.n_models = w->n_models;
    p->pool.models = br_calloc(w->n_models + 1, sizeof *p->pool.models);
    for (uint32_t i = 0; i < w->n_models; i++) {
        int32_t at = served_index(p, w->names[i]);
        if (at < 0)
            return br_err_set(err, BR_EINVAL, "model %s of the load is not among those of serve", w->names[i]);
        const struct br_model_entry *e = p->worker.models[at].outline;
        if (!e)
            return br_err_set(err, BR_ENOTSUP, "nothing is known of what %s costs on this device", w->names[i]);
        models[i] = (struct plan_model){.footprint = e->footprint,
                                        .ttft_s = or_else(e->ttft_s, load->ttft_s),
                                        .tbt_s = or_else(e->tbt_s, load->tbt_s)};
        snprintf(models[i].name, sizeof models[i].name, "%.60s", w->names[i]);
        p->pool.models[i] = i;
    }
    return 0;
}

static void requests_fill(struct devices_predict *p, const struct br_workload *w)
{
    struct sim_request *list = br_calloc(w->n + 1, sizeof *list);
    for (size_t i = 0; i < w->n; i++) {
        const struct br_request *r = &w->requests[i];
        list[i] = (struct sim_request){.at_s = r->at_s, .model = r->model, .prompt = r->prompt, .output = r->output};
    }
    p->requests = (struct plan_requests){list, (uint32_t)w->n};
}

static int kind_fill(struct devices_predict *p, struct br_err *err)
{
    const struct br_worker_config *c = &p->worker;
    if (strncmp(c->device_kind, "sim:", 4) != 0)
        return br_err_set(err, BR_ENOTSUP, "steps of device %s were not measured", c->device_kind);
    if (c->speed < 1 || c->speed > 1)
        return br_err_set(err, BR_ENOTSUP, "the planner knows no --speed");
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
    *p = (struct devices_predict){.ask = {.margin_s = load->warmup_s,
                                          .horizon_s = load->duration_s + load->warmup_s,
                                          .run_on_s = RUN_ON_S,
                                          .memory_use = .9,
                                          .hysteresis = BR_PL_HYSTERESIS}};
    int rc = cli_worker_config(serve, &p->worker, &p->served, err);
    if (rc)
        return rc;
    rc = kind_fill(p, err);
    if (rc == 0)
        rc = models_fill(p, load, w, err);
    if (rc) {
        devices_predict_close(p);
        return rc;
    }
    requests_fill(p, w);
    return 0;
}

void devices_predict_close(struct devices_predict *p)
{
    if (p->served)
        cli_worker_models_free(p->served, p->worker.n_models);
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

double devices_predict_attainment(struct devices_predict *p, const char *policy, uint32_t n, struct br_err *err)
{
    struct plan_trial trial = trial_of(p, policy);
    trial.n_devices = n;
    return plan_trial_run(&trial, NULL, err);
}
