#include "worker/node/outline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "cost/cost.h"
#include "text/byte_tokenizer.h"
#include "worker/device/cuda/plugin.h"

/* What CUDA, activations and fragmentation leave of a GPU's memory (the policies' comparison assumes the same). */
#define USABLE_FRACTION .9
#define RESERVED_BYTES 1e9
/* The least that KV gets of the memory. */
#define KV_LEAST_FRACTION .025
/* Ids that answers are made of: printable ASCII, or as many neighbouring ones of another tokenizer. */
enum { FIRST_PRINTABLE = 32, N_PRINTABLE = 95, N_ANSWER_IDS = 64 };

/* ---- sizes ---- */

static uint64_t weight_bytes(const struct br_worker_config *c, uint32_t model)
{
    struct br_weight_image *image;
    uint64_t bytes;
    br_weight_image_outline(c->models[model].outline, c->tensor_parallel, 1, 0, 1, &image);
    bytes = br_layout_total_bytes(&image->layout);
    br_weight_image_close(image);
    return bytes;
}

static uint64_t device_bytes(const struct br_worker_config *c, const struct br_gpu *gpu)
{
    if (c->memory_bytes)
        return c->memory_bytes & ~4095ull;
    return (uint64_t)(c->tensor_parallel * (USABLE_FRACTION * gpu->memory_bytes - RESERVED_BYTES)) & ~4095ull;
}

/* Bytes for weights when they get as much as they can use. */
static uint64_t arena_most(const struct br_worker_config *c, const struct br_gpu *gpu)
{
    uint64_t all = device_bytes(c, gpu);
    return c->kv_bytes ? (c->kv_bytes < all ? all - c->kv_bytes : 0)
                       : all - (uint64_t)(KV_LEAST_FRACTION * (double)all);
}

static int model_fits(const struct br_worker_config *c, const struct br_gpu *gpu, uint32_t model, struct br_err *err)
{
    const struct br_footprint *f = &c->models[model].outline->footprint;
    uint64_t bytes = weight_bytes(c, model), room = arena_most(c, gpu);
    struct br_cost cost;
    if (br_cost_init(&cost, f, gpu, c->tensor_parallel, br_calibration_for(gpu), err))
        return err->code;
    if (bytes <= room)
        return 0;
    return br_err_set(err, BR_ENOMEM,
                      "%s has %.1f GB of weights, %u x %s has room for %.1f GB of them (%.1f GB in all, without KV): "
                      "more GPUs a device (--tensor-parallel-size), fewer bits a weight or a larger GPU are needed",
                      c->models[model].name, (double)bytes / 1e9, c->tensor_parallel, gpu->name, (double)room / 1e9,
                      (double)device_bytes(c, gpu) / 1e9);
}

/* ---- the configuration ---- */

static int devices_check(const struct br_worker_config *c, bool sim, struct br_err *err)
{
    uint32_t tp = c->tensor_parallel;
    if (tp != 1 && tp != 2 && tp != 4 && tp != 8)
        return br_err_set(err, BR_EINVAL, "tensor-parallel-size: %u is none of 1, 2, 4, 8", tp);
    if (!(c->speed >= .01 && c->speed <= 1000))
        return br_err_set(err, BR_EINVAL, "speed: %g is not from 0.01 to 1000", c->speed);
    if (!sim && (tp != 1 || c->speed != 1))
        return br_err_set(err, BR_EINVAL, "%s: only with --device sim:GPU", tp != 1 ? "tensor-parallel-size" : "speed");
    for (uint32_t i = 0; i < c->n_models; i++)
        if (!sim && c->models[i].outline)
            return br_err_set(err, BR_EINVAL, "model %s has a shape but no weights: it needs --device sim:GPU",
                              c->models[i].name);
        else if (sim && !c->models[i].outline)
            return br_err_set(err, BR_EINVAL, "model %s: a sim device takes models by their shape", c->models[i].name);
    return 0;
}

bool node_outlines(const struct br_worker_config *c)
{
    uint32_t index;
    return strcmp(c->device_kind, "cpu") != 0 && !br_cuda_kind(c->device_kind, &index);
}

int node_outlines_check(const struct br_worker_config *c, struct br_err *err)
{
    bool sim = node_outlines(c);
    const struct br_gpu *gpu = NULL;
    int rc;
    if (sim && !(gpu = br_device_sim_gpu(c->device_kind, err)))
        return err->code = BR_EINVAL;
    rc = devices_check(c, sim, err);
    if (rc || !sim)
        return rc;
    for (uint32_t i = c->n_models; i-- > 0;)
        if (model_fits(c, gpu, i, err) == 0)
            return 0;
    err->code = BR_EINVAL;
    return c->n_models > 1 ? br_err_wrap(err, "none of %u models can be served; the first", c->n_models) : err->code;
}

void node_outlines_settle(struct br_worker_config *c, struct node_image *images)
{
    const struct br_gpu *gpu;
    uint64_t largest = 0, sum = 0, room;
    struct br_err err;
    gpu = br_device_sim_gpu(c->device_kind, &err);
    for (uint32_t i = 0; i < c->n_models; i++) {
        uint64_t bytes = weight_bytes(c, i);
        if (model_fits(c, gpu, i, &err)) {
            images[i].error = br_strdup(err.msg);
            br_log(BR_ERROR, "model_failed", "model=%s why=%s", c->models[i].name, BR_Q(err.msg));
            continue;
        }
        sum += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    room = arena_most(c, gpu);
    c->memory_bytes = device_bytes(c, gpu);
    room = sum <= room ? sum : room / largest * largest;
    room = (room + 4095) & ~4095ull;
    if (c->kv_bytes == 0)
        c->kv_bytes = c->memory_bytes - room;
    br_log(BR_INFO, "device_memory", "gpu=%s gpus=%u bytes=%" PRIu64 " weights_bytes=%" PRIu64 " kv_bytes=%" PRIu64,
           BR_Q(gpu->name), c->tensor_parallel, c->memory_bytes, room, c->kv_bytes);
}

/* ---- the plan ---- */

json_t *node_outline_pack(const struct br_model_entry *e)
{
    const struct br_model_size *s = &e->footprint.size;
    return json_pack("{s:[iiiiiiiiibbb], s:i, s:i, s:i, s:s*}", "size", s->layers, s->hidden, s->ffn, s->heads,
                     s->kv_heads, s->head_dim, s->vocab, s->experts, s->experts_active, s->tied, s->qkv_bias,
                     s->qk_norm, "weights", e->footprint.weights, "kv", e->footprint.kv, "context", e->context,
                     "tokenizer", e->tokenizer);
}

int node_outline_unpack(json_t *json, const char *name, struct br_model_entry *out)
{
    struct br_model_size s = {0};
    int v[9], weights, kv, context, tied, qkv_bias, qk_norm;
    *out = (struct br_model_entry){0};
    if (json_unpack(json, "{s:[iiiiiiiiibbb], s:i, s:i, s:i, s?s}", "size", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
                    &v[6], &v[7], &v[8], &tied, &qkv_bias, &qk_norm, "weights", &weights, "kv", &kv, "context",
                    &context, "tokenizer", &out->tokenizer))
        return -1;
    uint32_t *fields[] = {&s.layers,   &s.hidden, &s.ffn,     &s.heads,         &s.kv_heads,
                          &s.head_dim, &s.vocab,  &s.experts, &s.experts_active};
    for (int i = 0; i < 9; i++)
        *fields[i] = (uint32_t)v[i];
    s.tied = tied, s.qkv_bias = qkv_bias, s.qk_norm = qk_norm;
    snprintf(s.name, sizeof s.name, "%s", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->context = (uint32_t)context;
    br_footprint_init(&out->footprint, &s, (enum br_weight_format)weights, (enum br_kv_format)kv);
    return 0;
}

/* ---- in a device process ---- */

/* The first neighbouring ids that print something; where there are none, the first ones. */
static void answer_ids(const struct br_tokenizer *tokenizer, int32_t *first, uint32_t *n)
{
    int32_t vocab = br_tokenizer_vocab_size(tokenizer), run = 0;
    for (int32_t id = 0; id < vocab && run < N_ANSWER_IDS; id++) {
        size_t len = 0;
        br_tokenizer_piece(tokenizer, id, &len);
        run = len && !br_tokenizer_is_special(tokenizer, id) ? run + 1 : 0;
        *first = id + 1 - run;
    }
    *n = (uint32_t)run;
    if (run == 0)
        *first = 0, *n = 1;
}

int node_outline_image(const struct br_model_entry *entry, uint32_t tensor_parallel, struct br_weight_image **image,
                       struct br_tokenizer **tokenizer, struct br_err *err)
{
    int32_t first = FIRST_PRINTABLE;
    uint32_t n = N_PRINTABLE;
    int rc = entry->tokenizer ? br_tokenizer_load(entry->tokenizer, tokenizer, err)
                              : br_byte_tokenizer_create(tokenizer, err);
    if (rc)
        return rc;
    if (entry->tokenizer)
        answer_ids(*tokenizer, &first, &n);
    br_weight_image_outline(entry, tensor_parallel, (uint32_t)br_tokenizer_vocab_size(*tokenizer), first, n, image);
    return 0;
}
