/* Puts a turn together, and takes it apart. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/pages.h"
#include "worker/turn/internal.h"

enum { INDEX_MOST = 1 << 18 };

void br_turn_config_init(struct br_turn_config *config)
{
    *config = (struct br_turn_config){
        .device = {.threads = 1},
        .max_seqs = 8192,
        .max_batch = 32,
        .prefill_chunk = 256,
        .max_context = 32768,
        .policy = "slack",
        .quota_max_s = 4,
        .prefix_cache = true,
    };
}

static int config_check(struct br_turn_config *c, struct br_err *err)
{
    if (c->max_batch == 0 || c->max_batch > BR_DEV_MAX_ITEMS)
        return br_err_set(err, BR_EINVAL, "max batch %u: 1..%d", c->max_batch, BR_DEV_MAX_ITEMS);
    if (c->prefill_chunk == 0 || c->max_context == 0 || c->max_seqs == 0)
        return br_err_set(err, BR_EINVAL, "prefill chunk %u, max context %u, max sequences %u: none may be 0",
                          c->prefill_chunk, c->max_context, c->max_seqs);
    if (c->kv_bytes >= c->device.memory_bytes)
        return br_err_set(err, BR_EINVAL,
                          "%" PRIu64 " bytes for KV of %" PRIu64 " bytes of device memory leave none for weights",
                          c->kv_bytes, c->device.memory_bytes);
    if (c->max_step_tokens == 0)
        c->max_step_tokens = c->prefill_chunk + c->max_batch;
    return 0;
}

static int device_start(struct br_turn *t, struct br_err *err)
{
    const struct br_device_ops *ops;
    int rc = (t->config.device_create ? t->config.device_create : br_device_create)(&t->config.device, &t->dev, err);
    if (rc)
        return rc;
    ops = t->dev->ops;
    rc = ops->stream_create(t->dev, &t->compute, err);
    if (rc == 0)
        rc = ops->stream_create(t->dev, &t->kv_in, err);
    if (rc == 0)
        rc = ops->stream_create(t->dev, &t->kv_out, err);
    if (rc == 0)
        rc = ops->event_create(t->dev, &t->step_done, err);
    if (rc == 0)
        rc = ops->event_create(t->dev, &t->moved, err);
    if (rc == 0)
        rc = ops->event_create(t->dev, &t->handed, err);
    for (uint32_t i = 0; rc == 0 && i < TURN_MAX_SWAPS; i++)
        rc = ops->event_create(t->dev, &t->swaps[i].done, err);
    return rc;
}

/* Of the index of prefixes: every block there can be, but for very many small ones. */
static uint32_t index_size(const struct br_turn *t)
{
    uint64_t bytes = t->config.device.memory_bytes + t->config.host_kv_bytes + t->config.kv_disk_bytes,
             block = turn_smallest_block(t);
    uint64_t blocks = block ? bytes / block : 0;
    return (uint32_t)(blocks < INDEX_MOST ? blocks : INDEX_MOST);
}

/* A device that only takes time has addresses of it, and nothing behind them. */
static int host_kv_reserve(struct br_turn *t, uint64_t bytes, struct br_err *err)
{
    enum br_pages pages;
    if (t->dev->ops->timed) {
        t->host_kv = br_pages_space(0, bytes);
        return t->host_kv ? 0 : br_err_errno(err, BR_ENOMEM, "%" PRIu64 " addresses for KV", bytes);
    }
    t->host_kv = br_pages_alloc(bytes, &pages);
    if (!t->host_kv)
        return br_err_errno(err, BR_ENOMEM, "%" PRIu64 " bytes of host memory for KV: lower host-kv-memory", bytes);
    br_log(BR_INFO, "host_kv_pages", "bytes=%" PRIu64 " pages=%s", bytes, br_pages_name(pages));
    return 0;
}

static int kv_start(struct br_turn *t, struct br_err *err)
{
    struct br_kv_config c = {.device_bytes = t->config.device.memory_bytes,
                             .host_bytes = t->config.host_kv_bytes,
                             .disk_bytes = t->config.kv_disk_bytes,
                             .max_shapes = t->n_models ? t->n_models : 1,
                             .max_seqs = t->config.max_seqs + TURN_MAX_SWAPS,
                             .max_blocks_per_seq = t->config.max_context / BR_KV_TOKENS + 1,
                             .max_moves = TURN_MAX_MOVES,
                             .min_block_bytes = turn_smallest_block(t)};
    int rc;
    c.max_cached = t->config.prefix_cache ? index_size(t) : 0;
    c.slab_bytes = t->config.slab_bytes = turn_slab_choose(t);
    if (c.min_block_bytes > c.slab_bytes)
        c.min_block_bytes = 0; /* such a model is refused by br_kv_shape_add, with the numbers */
    if (c.host_bytes && host_kv_reserve(t, c.host_bytes, err))
        return err->code;
    rc = br_kv_create(&c, &t->kv, err);
    if (rc == 0)
        rc = turn_disk_open(t, c.min_block_bytes > BR_KV_TOKENS ? c.min_block_bytes : BR_KV_TOKENS, err);
    if (rc)
        return rc;
    t->kv_end = br_kv_device_end(t->kv);
    t->planned = t->plans_memory ? turn_memory_planned(t) : t->kv_end;
    return 0;
}

static int engine_start(struct br_turn *t, struct br_err *err)
{
    struct br_engine_limits limits = {
        .max_rows = t->config.max_step_tokens, .max_items = t->config.max_batch, .max_context = t->config.max_context};
    return br_engine_create(t->dev, &limits, &t->engine, err);
}

static int core_start(struct br_turn *t, struct br_err *err)
{
    struct br_dev_config core = {.policy = t->config.policy,
                                 .memory_bytes = (int64_t)t->planned,
                                 .link_bytes_per_s = t->link_bytes_per_s,
                                 .chunk_bytes = (int64_t)t->config.chunk_bytes,
                                 .hysteresis = t->config.hysteresis,
                                 .max_slots = t->n_models ? t->n_models : 1,
                                 .max_seqs = t->config.max_seqs,
                                 .max_batch = t->config.max_batch,
                                 .max_step_tokens = t->config.max_step_tokens,
                                 .prefill_chunk = t->config.prefill_chunk,
                                 .quota_max_s = t->config.quota_max_s,
                                 .switch_every_step = t->config.switch_every_step};
    return br_dev_create(&core, &t->core, err);
}

/* While costs are measured the core knows no slots yet: whatever is there may go. */
static int32_t any_resident(const struct br_turn *t, uint32_t target)
{
    for (uint32_t i = 0; i < t->n_models; i++)
        if (i != target && br_residency_bytes(t->residency, i))
            return (int32_t)i;
    return -1;
}

static int32_t weights_victim(void *ctx, uint32_t target)
{
    struct br_turn *t = ctx;
    int32_t victim = t->profiling ? any_resident(t, target) : br_dev_weights_victim(t->core, target);
    return t->ordered && victim >= 0 && turn_slot_seqs(t, (uint32_t)victim) ? -1 : victim;
}

static void on_weights(void *ctx, uint32_t slot, uint64_t bytes, uint64_t bytes_all)
{
    struct br_turn *t = ctx;
    if (!t->profiling)
        turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_WEIGHTS,
                                            .slot = slot,
                                            .bytes = bytes,
                                            .bytes_all = bytes_all,
                                            .bytes_next = br_residency_next_bytes(t->residency, slot)});
}

static void weights_arrived(void *ctx)
{
    inbox_poke(&((struct br_turn *)ctx)->inbox);
}

static int residency_start(struct br_turn *t, struct br_err *err)
{
    struct br_residency_cb cb = {t, weights_victim, on_weights, weights_arrived};
    struct br_residency_config c = {
        .memory = t->dev->memory, .max_slots = t->n_models, .tell_at_once = !t->plans_memory};
    for (uint32_t i = 0; i < t->n_models; i++)
        c.max_units += t->models[i].image ? t->models[i].image->layout.units : TURN_SPARE_UNITS;
    c.bytes = t->planned - t->config.slab_bytes; /* a model needs some KV beside it */
    return br_residency_create(t->dev, &c, &cb, &t->residency, err);
}

static void tables_start(struct br_turn *t)
{
    t->seqs = br_calloc(t->config.max_seqs, sizeof *t->seqs);
    t->seq_ids = br_calloc(t->config.max_seqs, sizeof *t->seq_ids);
    for (uint32_t i = 0; i < t->config.max_seqs; i++)
        t->seqs[i].kv = BR_KV_NONE;
    t->published_slots = br_calloc(t->n_models ? t->n_models : 1, sizeof *t->published_slots);
    t->logits = br_malloc(sizeof(float) * t->config.max_batch * (t->vocab_max ? t->vocab_max : 1));
}

int br_turn_create(const struct br_turn_config *config, const struct br_turn_model *models, uint32_t n_models,
                   const struct br_turn_cb *cb, struct br_turn **out, struct br_err *err)
{
    struct br_turn *t = br_calloc(1, sizeof *t);
    int rc;
    t->config = *config;
    t->cb = *cb;
    t->last_slot = -1;
    t->wake_ns = t->retry_ns = -1;
    t->plans_memory = !config->policy || strcmp(config->policy, "quota-rr") != 0;
    inbox_init(&t->inbox);
    pthread_mutex_init(&t->published_mutex, NULL);
    rc = config_check(&t->config, err);
    if (rc == 0)
        rc = device_start(t, err);
    turn_models_describe(t, models, n_models);
    if (rc == 0)
        rc = kv_start(t, err);
    if (rc == 0)
        rc = engine_start(t, err);
    if (rc == 0)
        rc = residency_start(t, err);
    if (rc == 0)
        rc = turn_models_add(t, err);
    if (rc == 0) {
        turn_models_kv(t);
        tables_start(t);
        t->profiling = true;
        turn_profile(t);
        t->profiling = false;
        rc = core_start(t, err);
    }
    if (rc == 0) {
        for (uint32_t i = 0; i < t->n_models; i++)
            if (t->models[i].engine)
                turn_slot_tell(t, i);
        rc = turn_start(t, err);
    }
    if (rc) {
        turn_release(t);
        return rc;
    }
    *out = t;
    return 0;
}

static void seqs_release(struct br_turn *t)
{
    for (uint32_t i = 0; t->seqs && i < t->config.max_seqs; i++) {
        struct turn_seq *s = &t->seqs[i];
        if (s->watch)
            br_end_watch_destroy(s->watch);
        br_seq_spec_free(&s->spec);
        free(s->ids);
        free(s->keys);
        free(s->blocks);
    }
    free(t->seqs);
    free(t->seq_ids);
}

static void device_release(struct br_turn *t)
{
    const struct br_device_ops *ops = t->dev->ops;
    struct br_stream *streams[] = {t->kv_out, t->kv_in, t->compute};
    for (uint32_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            ops->stream_destroy(streams[i]);
    for (uint32_t i = 0; i < TURN_MAX_SWAPS; i++)
        if (t->swaps[i].done)
            ops->event_destroy(t->swaps[i].done);
    if (t->step_done)
        ops->event_destroy(t->step_done);
    if (t->moved)
        ops->event_destroy(t->moved);
    if (t->handed)
        ops->event_destroy(t->handed);
    ops->destroy(t->dev);
}

void turn_release(struct br_turn *t)
{
    turn_hand_release(t);
    seqs_release(t);
    br_residency_destroy(t->residency);
    turn_models_release(t);
    if (t->engine)
        br_engine_destroy(t->engine);
    if (t->core)
        br_dev_destroy(t->core);
    kv_disk_close(t->disk); /* it borrows from the books, and reads and writes host_kv */
    if (t->kv)
        br_kv_destroy(t->kv);
    if (t->dev)
        device_release(t);
    br_pages_free(t->host_kv, t->config.host_kv_bytes);
    free(t->logits);
    free(t->published_slots);
    pthread_mutex_destroy(&t->published_mutex);
    inbox_free(&t->inbox);
    free(t);
}

const struct br_turn_model_info *br_turn_model_info(const struct br_turn *t, uint32_t model)
{
    return &t->models[model].info;
}

const struct br_device *br_turn_device(const struct br_turn *t)
{
    return t->dev;
}
