#include "worker/node/added.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/node/cache.h"
#include "worker/node/outline.h"
#include "worker/weights/store.h"

enum { SIZES = 9, MOST = 1 << 24 };

struct added {
    const struct node_plan *plan;
    struct br_turn_model model;
    char *name, *dir; /* owned */
    bool shared;
    struct br_model_entry outline; /* of sim devices */
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_tokenizer *tokenizer;
};

static bool is_sim(const struct node_plan *plan)
{
    return strcmp(plan->config.device_kind, "cpu") != 0;
}

static int outline_read(const char *name, const Briareus__ModelSource *source, struct br_model_entry *out,
                        struct br_err *err)
{
    struct br_model_size s = {0};
    uint32_t *fields[] = {&s.layers,   &s.hidden, &s.ffn,     &s.heads,         &s.kv_heads,
                          &s.head_dim, &s.vocab,  &s.experts, &s.experts_active};
    if (source->n_size != SIZES + 1 || source->weights > BR_WEIGHTS_INT4 || source->kv > BR_KV_FP8)
        return br_err_set(err, BR_EINVAL, "model %.64s: a sim device needs its sizes", name);
    for (int i = 0; i < SIZES; i++) {
        if (source->size[i] > MOST || (i < 7 && source->size[i] == 0))
            return br_err_set(err, BR_EINVAL, "model %.64s: a size of %u cannot be", name, source->size[i]);
        *fields[i] = source->size[i];
    }
    s.tied = source->size[SIZES] & 1;
    s.qkv_bias = source->size[SIZES] & 2;
    s.qk_norm = source->size[SIZES] & 4;
    snprintf(s.name, sizeof s.name, "%s", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->context = source->context;
    out->tokenizer = source->tokenizer[0] ? br_strdup(source->tokenizer) : NULL;
    br_footprint_init(&out->footprint, &s, (enum br_weight_format)source->weights, (enum br_kv_format)source->kv);
    return 0;
}

int added_ask(const struct node_plan *plan, const char *name, const Briareus__ModelSource *source, struct added **out,
              struct br_err *err)
{
    struct added *a;
    int rc = 0;
    if (!source || !name[0] || strlen(name) >= BR_MAX_MODEL_NAME || (!is_sim(plan) && !source->dir[0]))
        return br_err_set(err, BR_EINVAL, "model '%.64s': nothing says where it comes from", name);
    a = br_calloc(1, sizeof *a);
    a->plan = plan;
    a->name = br_strdup(name);
    a->dir = br_strdup(source->dir);
    a->shared = source->shared;
    if (is_sim(plan))
        rc = outline_read(name, source, &a->outline, err);
    if (rc)
        added_free(a);
    else
        *out = a;
    return rc;
}

static int store_open(struct added *a, struct br_err *err)
{
    const struct br_worker_config *c = &a->plan->config;
    struct br_weight_store_config config;
    br_weight_store_config_init(&config);
    config.dir = c->cache_dir;
    config.staging_bytes = c->host_staging_bytes;
    config.device = (int32_t)a->plan->device;
    config.drop = c->drop_host_copies;
    config.pin = c->pin_host_cache;
    config.recheck_s = c->verify_after_s;
    return br_weight_store_open(&config, &a->store, err);
}

/* Built once a node; whoever comes later shares what is there, unless that is gone. */
static int image_open(struct added *a, struct br_err *err)
{
    char file[200], path[512];
    int rc = store_open(a, err);
    if (rc)
        return rc;
    node_cache_file_name(a->name, file, sizeof file);
    snprintf(path, sizeof path, "%s/%s.weights", a->plan->config.cache_dir, file);
    if (a->shared && access(path, R_OK) == 0)
        rc = br_weight_store_attach(a->store, path, a->dir, &a->image, err);
    else
        rc = br_weight_store_build(a->store, a->dir, file, a->plan->config.numeric, &a->image, err);
    if (rc == 0)
        rc = br_weight_store_ready(a->store, err);
    if (rc == 0 && br_weight_image_failed(a->image, err))
        rc = err->code;
    return rc;
}

static void tokenizer_open(struct added *a)
{
    struct br_err err;
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", a->dir);
    if (br_tokenizer_load(path, &a->tokenizer, &err))
        br_log(BR_WARN, "tokenizer_failed", "model=%s why=%s", a->name, BR_Q(err.msg));
}

int added_make(struct added *a, struct br_err *err)
{
    int rc;
    if (is_sim(a->plan))
        rc = node_outline_image(&a->outline, a->plan->config.tensor_parallel, &a->image, &a->tokenizer, err);
    else if ((rc = image_open(a, err)) == 0)
        tokenizer_open(a);
    a->model = (struct br_turn_model){.name = a->name, .image = a->image, .tokenizer = a->tokenizer};
    return rc;
}

const struct br_turn_model *added_model(const struct added *a)
{
    return &a->model;
}

void added_free(struct added *a)
{
    if (!a)
        return;
    if (a->image)
        br_weight_image_close(a->image);
    if (a->store)
        br_weight_store_close(a->store);
    if (a->tokenizer)
        br_tokenizer_free(a->tokenizer);
    free(a->outline.tokenizer);
    free(a->name);
    free(a->dir);
    free(a);
}
