/* One device's process: reads the supervisor's plan, maps the weights, and computes until it is told to stop. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/node/agent.h"
#include "worker/node/gpu.h"
#include "worker/node/outline.h"
#include "worker/node/places.h"
#include "worker/weights/huge.h"

struct device_process {
    uv_loop_t loop;
    uv_signal_t term, intr;
    struct node_plan plan;
    struct br_turn_model *models;  /* [plan.config.n_models] */
    struct br_weight_store *store; /* NULL: no model has weights */
    struct br_huge_job *huge;      /* NULL: none */
    struct br_parcels *parcels;    /* NULL: KV goes to no other device */
    struct br_weight_image **images;
    struct br_tokenizer **tokenizers;
    char (*errors)[512];
};

static struct br_tokenizer *tokenizer_of(const struct br_worker_model *model)
{
    struct br_tokenizer *tokenizer = NULL;
    struct br_err err;
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", model->dir);
    if (br_tokenizer_load(path, &tokenizer, &err) == 0)
        return tokenizer;
    br_log(BR_WARN, "tokenizer_failed", "model=%s why=%s", model->name, BR_Q(err.msg));
    return NULL;
}

static void model_fail(struct device_process *d, uint32_t i, const struct br_err *err)
{
    snprintf(d->errors[i], sizeof d->errors[i], "%s", err->msg);
    d->models[i].error = d->errors[i];
    br_log(BR_ERROR, "model_failed", "model=%s why=%s", d->plan.config.models[i].name, BR_Q(err->msg));
}

/* A model without weights; its answers are made of what its tokenizer prints. */
static void outline_open(struct device_process *d, uint32_t i)
{
    const struct br_model_entry *entry = d->plan.config.models[i].outline;
    struct br_err err;
    if (node_outline_image(entry, d->plan.config.tensor_parallel, &d->images[i], &d->tokenizers[i], &err)) {
        model_fail(d, i, &err);
        return;
    }
    d->models[i].image = d->images[i];
    d->models[i].tokenizer = d->tokenizers[i];
}

static void model_open(struct device_process *d, uint32_t i)
{
    const struct br_worker_model *model = &d->plan.config.models[i];
    const struct node_image *image = &d->plan.images[i];
    struct br_err err;
    d->models[i].name = model->name;
    d->models[i].error = image->error;
    if (model->outline && !image->error)
        outline_open(d, i);
    if (!image->path)
        return;
    if (br_weight_store_attach(d->store, image->path, model->dir, &d->images[i], &err)) {
        model_fail(d, i, &err);
        return;
    }
    d->models[i].image = d->images[i];
    d->models[i].tokenizer = d->tokenizers[i] = tokenizer_of(model);
}

static int store_open(struct device_process *d, struct br_err *err)
{
    const struct br_worker_config *c = &d->plan.config;
    struct br_weight_store_config config;
    br_weight_store_config_init(&config);
    config.dir = c->cache_dir;
    config.staging_bytes = c->host_staging_bytes;
    config.device = (int32_t)d->plan.device;
    config.drop = c->drop_host_copies;
    config.pin = c->pin_host_cache;
    config.recheck_s = c->verify_after_s;
    return c->cache_dir ? br_weight_store_open(&config, &d->store, err) : 0;
}

/* Models whose weights can neither be cached nor staged are not served; others are. */
static int store_ready(struct device_process *d, struct br_err *err)
{
    int rc = d->store ? br_weight_store_ready(d->store, err) : 0;
    struct br_err why;
    for (uint32_t i = 0; i < d->plan.config.n_models && !rc; i++)
        if (d->images[i] && br_weight_image_failed(d->images[i], &why)) {
            d->models[i].image = NULL;
            model_fail(d, i, &why);
        }
    return rc;
}

static int models_open(struct device_process *d, struct br_err *err)
{
    uint32_t n = d->plan.config.n_models;
    int rc;
    d->models = br_calloc(n + NODE_SPARE_MODELS, sizeof *d->models);
    for (uint32_t i = 0; i < NODE_SPARE_MODELS; i++)
        d->models[n + i] = (struct br_turn_model){.name = "", .error = "no such model"};
    d->images = br_calloc(n, sizeof *d->images);
    d->tokenizers = br_calloc(n, sizeof *d->tokenizers);
    d->errors = br_calloc(n, sizeof *d->errors);
    rc = store_open(d, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        model_open(d, i);
    return rc ? rc : store_ready(d, err);
}

static void models_close(struct device_process *d)
{
    br_huge_end(d->huge, true);
    for (uint32_t i = 0; i < d->plan.config.n_models; i++) {
        if (d->images[i])
            br_weight_image_close(d->images[i]);
        if (d->tokenizers[i])
            br_tokenizer_free(d->tokenizers[i]);
    }
    br_weight_store_close(d->store);
    free(d->models);
    free(d->images);
    free(d->tokenizers);
    free(d->errors);
}

static void on_end(void *ctx)
{
    uv_stop(&((struct device_process *)ctx)->loop);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    on_end(handle->data);
}

static void signals_init(struct device_process *d)
{
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->intr);
    d->term.data = d->intr.data = d;
    uv_signal_start(&d->term, on_signal, SIGTERM);
    uv_signal_start(&d->intr, on_signal, SIGINT);
}

static int device_run(struct device_process *d, struct br_err *err)
{
    struct agent_with with = {d->store, d->parcels};
    struct agent *agent;
    int rc;
    uv_loop_init(&d->loop);
    signals_init(d);
    rc = agent_start(&d->loop, &d->plan, d->models, &with, on_end, d, &agent, err);
    if (rc == 0 && d->store && d->plan.config.huge_pages && d->plan.device == 0)
        d->huge = br_huge_start(d->store);
    if (rc == 0)
        uv_run(&d->loop, UV_RUN_DEFAULT);
    agent_stop(agent);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->intr, NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
    agent_free(agent);
    return rc;
}

/* Without it sequences that move are computed again: no reason not to start. */
static void parcels_open(struct device_process *d)
{
    struct br_err err;
    if (!d->plan.parcels)
        return;
    if (br_parcels_open(NODE_PARCELS_FD, d->plan.device, &d->parcels, &err))
        br_log(BR_WARN, "kv_parcels_failed", "why=%s", BR_Q(err.msg));
    close(NODE_PARCELS_FD);
}

static int process_init(struct device_process *d, int fd, struct br_err *err)
{
    char comp[32];
    int rc = node_plan_read(fd, &d->plan, err);
    if (rc)
        return rc;
    close(fd);
    snprintf(comp, sizeof comp, "device%u", d->plan.device);
    node_gpu_kind(d->plan.config.device_kind, d->plan.device, d->plan.device_kind, sizeof d->plan.device_kind);
    br_log_init(comp, d->plan.config.log_level);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    parcels_open(d);
    if (getppid() == (pid_t)d->plan.parent)
        return 0;
    node_plan_free(&d->plan);
    return br_err_set(err, BR_EIO, "the supervisor is gone");
}

int br_worker_device_process(int argc, char **argv)
{
    struct device_process d = {0};
    struct br_err err;
    int rc;
    br_log_init("device", BR_INFO);
    rc = argc == 3 ? process_init(&d, atoi(argv[2]), &err)
                   : br_err_set(&err, BR_EINVAL, "usage: %s %s FD; started by the worker only", argv[0],
                                BR_WORKER_DEVICE_PROCESS);
    if (rc == 0) {
        rc = models_open(&d, &err);
        if (rc == 0)
            rc = device_run(&d, &err);
        models_close(&d);
        br_parcels_close(d.parcels);
        node_plan_free(&d.plan);
    }
    if (rc)
        br_log(BR_ERROR, "device_failed", "why=%s", BR_Q(err.msg));
    return rc ? 1 : 0;
}
