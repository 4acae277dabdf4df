#include "worker/node/plan.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/node/kv_file.h"
#include "worker/node/outline.h"

enum { PLAN_MAX_BYTES = 16 << 20 };

static json_t *models_pack(const struct node_plan *plan)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < plan->config.n_models; i++) {
        if (plan->config.dedicated && i % plan->config.devices != plan->device)
            continue;
        const struct br_worker_model *m = &plan->config.models[i];
        json_array_append_new(list, json_pack("{s:s, s:s*, s:o*, s:s*, s:s*}", "name", m->name, "dir", m->dir,
                                              "outline", m->outline ? node_outline_pack(m->outline) : NULL, "image",
                                              plan->images[i].path, "error", plan->images[i].error));
    }
    return list;
}

static json_t *spent_pack(const struct br_transfers *spent)
{
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    json_t *object = json_object();
    for (uint32_t i = 0; i < n; i++)
        if (br_transfer_value(spent, &counters[i]) != 0)
            json_object_set_new(object, counters[i].name, json_real(br_transfer_value(spent, &counters[i])));
    return object;
}

static void spent_unpack(const json_t *object, struct br_transfers *spent)
{
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    for (uint32_t i = 0; i < n; i++)
        br_transfer_set(spent, &counters[i], json_number_value(json_object_get(object, counters[i].name)));
}

static json_t *plan_pack(const struct node_plan *plan)
{
    const struct br_worker_config *c = &plan->config;
    return json_pack(
        "{s:I, s:I, s:s, s:s, s:s*, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:s, s:f, "
        "s:b, s:i, s:I, s:f, s:s*, s:I, s:b, s:b, s:f, s:o, s:s*, s:I, s:f, s:I}",
        "device", (json_int_t)plan->device, "parent", (json_int_t)plan->parent, "node", c->node, "scheduler",
        c->scheduler, "token", c->token, "models", models_pack(plan), "device_kind", c->device_kind, "memory_bytes",
        (json_int_t)c->memory_bytes, "kv_bytes", (json_int_t)c->kv_bytes, "host_kv_bytes", (json_int_t)c->host_kv_bytes,
        "link_bytes_per_s", (json_int_t)c->link_bytes_per_s, "threads", (json_int_t)c->threads, "numeric",
        (int)c->numeric, "prefill_chunk", (json_int_t)c->prefill_chunk, "max_batch", (json_int_t)c->max_batch,
        "max_context", (json_int_t)c->max_context, "max_seqs", (json_int_t)c->max_seqs, "policy", c->policy,
        "quota_max_s", c->quota_max_s, "switch_every_step", c->switch_every_step, "log_level", (int)c->log_level,
        "tensor_parallel", (json_int_t)c->tensor_parallel, "speed", c->speed, "cache_dir", c->cache_dir, "host_staging",
        (json_int_t)c->host_staging_bytes, "drop", c->drop_host_copies, "pin", c->pin_host_cache, "verify_after_s",
        c->verify_after_s, "spent", spent_pack(&plan->spent), "trace", c->trace, "trace_bytes",
        (json_int_t)c->trace_bytes, "hysteresis", c->hysteresis, "load_chunk", (json_int_t)c->load_chunk_bytes);
}

static json_t *kv_pack(const struct node_plan *plan)
{
    const struct br_worker_config *c = &plan->config;
    return json_pack("{s:b, s:s*, s:I, s:I}", "prefix_cache", c->prefix_cache, "disk", c->kv_disk, "disk_bytes",
                     (json_int_t)node_kv_file_bytes(c), "disk_offset",
                     (json_int_t)node_kv_file_offset(c, plan->device));
}

static int kv_unpack(json_t *json, struct node_plan *p, struct br_err *err)
{
    json_int_t disk_bytes, disk_offset;
    int prefix_cache;
    if (json_unpack(json, "{s:{s:b, s?s, s:I, s:I}}", "kv", "prefix_cache", &prefix_cache, "disk", &p->config.kv_disk,
                    "disk_bytes", &disk_bytes, "disk_offset", &disk_offset))
        return br_err_set(err, BR_ECORRUPT, "what the supervisor's plan says of KV is damaged");
    p->config.prefix_cache = prefix_cache;
    p->kv_disk_bytes = (uint64_t)disk_bytes;
    p->kv_disk_offset = (uint64_t)disk_offset;
    return 0;
}

static int write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

int node_plan_write(const struct node_plan *plan, int *fd, struct br_err *err)
{
    json_t *json = plan_pack(plan);
    bool whole = json && json_object_set_new(json, "huge_pages", json_boolean(plan->config.huge_pages)) == 0 &&
                 json_object_set_new(json, "parcels", json_boolean(plan->parcels)) == 0 &&
                 json_object_set_new(json, "kv", kv_pack(plan)) == 0;
    char *text = whole ? json_dumps(json, JSON_COMPACT) : NULL;
    int rc = 0;
    json_decref(json);
    if (!text)
        return br_err_set(err, BR_EINVAL, "a name or path of the configuration is not UTF-8");
    *fd = memfd_create("briareus-plan", MFD_CLOEXEC);
    if (*fd < 0)
        rc = br_err_errno(err, BR_EIO, "memory file for the configuration");
    else if (write_all(*fd, text, strlen(text))) {
        rc = br_err_errno(err, BR_EIO, "writing the configuration");
        close(*fd);
    }
    free(text);
    return rc;
}

static int models_unpack(json_t *list, struct node_plan *p, struct br_err *err)
{
    uint32_t n = (uint32_t)json_array_size(list);
    struct br_worker_model *models = br_calloc(n + 1, sizeof *models);
    p->images = br_calloc(n + 1, sizeof *p->images);
    p->outlines = br_calloc(n + 1, sizeof *p->outlines);
    p->config.models = models;
    p->config.n_models = n;
    for (uint32_t i = 0; i < n; i++) {
        json_t *outline = NULL;
        if (json_unpack(json_array_get(list, i), "{s:s, s?s, s?o, s?s, s?s}", "name", &models[i].name, "dir",
                        &models[i].dir, "outline", &outline, "image", &p->images[i].path, "error",
                        &p->images[i].error) ||
            (outline && node_outline_unpack(outline, models[i].name, &p->outlines[i])))
            return br_err_set(err, BR_ECORRUPT, "model %u of the supervisor's plan is damaged", i);
        models[i].outline = outline ? &p->outlines[i] : NULL;
    }
    return 0;
}

/* Integers come out of JSON as json_int_t: all of them pass through this struct. */
struct plan_ints {
    json_int_t device, parent, memory, kv, host_kv, link, threads, chunk, batch, context, seqs, tensor_parallel,
        host_staging, trace_bytes, load_chunk;
    int numeric, every_step, level, drop, pin;
};

static void plan_take(struct node_plan *p, const struct plan_ints *v)
{
    struct br_worker_config *c = &p->config;
    p->device = (uint32_t)v->device;
    p->parent = v->parent;
    c->memory_bytes = (uint64_t)v->memory;
    c->kv_bytes = (uint64_t)v->kv;
    c->host_kv_bytes = (uint64_t)v->host_kv;
    c->link_bytes_per_s = (uint64_t)v->link;
    c->threads = (uint32_t)v->threads;
    c->prefill_chunk = (uint32_t)v->chunk;
    c->max_batch = (uint32_t)v->batch;
    c->max_context = (uint32_t)v->context;
    c->max_seqs = (uint32_t)v->seqs;
    c->tensor_parallel = (uint32_t)v->tensor_parallel;
    c->host_staging_bytes = (uint64_t)v->host_staging;
    c->trace_bytes = (uint64_t)v->trace_bytes;
    c->load_chunk_bytes = (uint64_t)v->load_chunk;
    c->drop_host_copies = v->drop;
    c->pin_host_cache = v->pin;
    c->numeric = (enum br_numeric)v->numeric;
    c->switch_every_step = v->every_step;
    c->log_level = (enum br_log_level)v->level;
}

static int plan_unpack(json_t *json, struct node_plan *p, struct br_err *err)
{
    struct br_worker_config *c = &p->config;
    struct plan_ints v;
    json_t *models, *spent;
    json_error_t why;
    if (json_unpack_ex(json, &why, 0,
                       "{s:I, s:I, s:s, s:s, s?s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:s, "
                       "s:F, s:b, s:i, s:I, s:F, s?s, s:I, s:b, s:b, s:F, s:o, s?s, s:I, s:F, s:I}",
                       "device", &v.device, "parent", &v.parent, "node", &c->node, "scheduler", &c->scheduler, "token",
                       &c->token, "models", &models, "device_kind", &c->device_kind, "memory_bytes", &v.memory,
                       "kv_bytes", &v.kv, "host_kv_bytes", &v.host_kv, "link_bytes_per_s", &v.link, "threads",
                       &v.threads, "numeric", &v.numeric, "prefill_chunk", &v.chunk, "max_batch", &v.batch,
                       "max_context", &v.context, "max_seqs", &v.seqs, "policy", &c->policy, "quota_max_s",
                       &c->quota_max_s, "switch_every_step", &v.every_step, "log_level", &v.level, "tensor_parallel",
                       &v.tensor_parallel, "speed", &c->speed, "cache_dir", &c->cache_dir, "host_staging",
                       &v.host_staging, "drop", &v.drop, "pin", &v.pin, "verify_after_s", &c->verify_after_s, "spent",
                       &spent, "trace", &c->trace, "trace_bytes", &v.trace_bytes, "hysteresis", &c->hysteresis,
                       "load_chunk", &v.load_chunk))
        return br_err_set(err, BR_ECORRUPT, "the supervisor's plan is damaged: %s", why.text);
    plan_take(p, &v);
    spent_unpack(spent, &p->spent);
    if (kv_unpack(json, p, err))
        return err->code;
    c->huge_pages = json_is_true(json_object_get(json, "huge_pages"));
    p->parcels = json_is_true(json_object_get(json, "parcels"));
    return models_unpack(models, p, err);
}

int node_plan_read(int fd, struct node_plan *out, struct br_err *err)
{
    struct br_buf text = {0};
    char path[64];
    json_error_t why;
    int rc;
    *out = (struct node_plan){0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (br_buf_read_file(&text, path, PLAN_MAX_BYTES))
        return br_buf_read_error(err, BR_EIO, "reading the supervisor's plan from descriptor %d", fd);
    out->json = json_loadb(text.data, text.len, 0, &why);
    br_buf_free(&text);
    if (!out->json)
        return br_err_set(err, BR_ECORRUPT, "the supervisor's plan is damaged: %s", why.text);
    rc = plan_unpack(out->json, out, err);
    if (rc)
        node_plan_free(out);
    return rc;
}

void node_plan_free(struct node_plan *plan)
{
    free((void *)plan->config.models);
    free(plan->images);
    free(plan->outlines);
    json_decref(plan->json);
    *plan = (struct node_plan){0};
}
