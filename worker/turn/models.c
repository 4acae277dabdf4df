/* The models of a device: their sizes, which of them can be served, what the core is told of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/turn/internal.h"

#define TTFT_DEFAULT_S 10.
#define TBT_DEFAULT_S .1
#define SLAB_MIN_BYTES (1ull << 20)

static void model_describe(struct br_turn *t, const struct br_turn_model *from, struct turn_model *m)
{
    snprintf(m->info.name, sizeof m->info.name, "%s", from->name);
    m->image = from->image;
    m->tokenizer = from->tokenizer;
    if (!from->image) {
        snprintf(m->info.error, sizeof m->info.error, "%s", from->error ? from->error : "no weights");
        return;
    }
    const struct br_model_layout *layout = &from->image->layout;
    m->info.weight_bytes = br_layout_total_bytes(layout);
    m->info.kv_block_bytes = layout->kv_block_bytes;
    m->info.vocab = layout->shape.vocab;
    m->max_positions = layout->shape.max_positions;
    if (m->max_positions > t->config.max_context)
        m->max_positions = t->config.max_context;
}

void turn_models_describe(struct br_turn *t, const struct br_turn_model *models, uint32_t n)
{
    t->models = br_calloc(n, sizeof *t->models);
    t->n_models = n;
    for (uint32_t i = 0; i < n; i++)
        model_describe(t, &models[i], &t->models[i]);
}

/* Small pieces waste little memory (of each KV shape one piece may be part-filled), large ones make long copies. */
uint64_t turn_slab_choose(const struct br_turn *t)
{
    uint64_t most = t->config.kv_bytes ? t->config.kv_bytes : t->config.device.memory_bytes / 2;
    uint64_t largest = 0, slab = most / 64;
    if (t->config.slab_bytes)
        return t->config.slab_bytes;
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].info.kv_block_bytes > largest && t->models[i].info.kv_block_bytes <= most)
            largest = t->models[i].info.kv_block_bytes;
    slab = slab < SLAB_MIN_BYTES ? SLAB_MIN_BYTES : slab;
    slab = slab > 4 * largest ? 4 * largest : slab;
    slab = slab < largest ? largest : slab;
    slab = slab > most ? most : slab;
    return slab & ~63ull;
}

uint64_t turn_smallest_block(const struct br_turn *t)
{
    uint64_t smallest = 0;
    bool spare = false;
    for (uint32_t i = 0; i < t->n_models; i++) {
        spare = spare || !t->models[i].image;
        if (t->models[i].image && (!smallest || t->models[i].info.kv_block_bytes < smallest))
            smallest = t->models[i].info.kv_block_bytes;
    }
    return spare ? smallest / 4 : smallest; /* smaller ones may come */
}

/* What of the memory a policy may plan with. Each KV shape may have one slab that is filled in part and that merging
 * cannot empty; everything else that is free can be brought into one piece. Where that would be much of a small memory
 * a plan may fail now and then, which costs time alone. */
uint64_t turn_memory_planned(const struct br_turn *t)
{
    uint64_t parts = 0;
    for (uint32_t i = 0; i < t->n_models; i++) {
        bool seen = !t->models[i].image;
        for (uint32_t k = 0; k < i; k++)
            seen = seen || t->models[k].info.kv_block_bytes == t->models[i].info.kv_block_bytes;
        parts += seen ? 0 : t->config.slab_bytes;
    }
    return t->kv_end - (parts < t->kv_end / 16 ? parts : t->kv_end / 16);
}

/* What KV may take at most. A policy that plans memory sees to it that weights fit beside KV; otherwise the largest
 * model must always fit, whatever KV there is. */
static uint64_t kv_most(const struct br_turn *t)
{
    uint64_t largest = 0, most;
    if (t->plans_memory)
        return t->kv_end;
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].engine && t->models[i].info.weight_bytes > largest)
            largest = t->models[i].info.weight_bytes;
    most = t->kv_end - largest;
    most = t->config.kv_bytes && t->config.kv_bytes < most ? t->config.kv_bytes : most;
    return most / t->config.slab_bytes * t->config.slab_bytes;
}

/* Tokens of one sequence that is alone on the device. */
static void model_kv_most(struct br_turn *t, struct turn_model *m)
{
    uint64_t room = t->planned - m->info.weight_bytes, most = t->kv_most < room ? t->kv_most : room;
    m->kv_blocks_most = most / t->config.slab_bytes * (t->config.slab_bytes / m->info.kv_block_bytes);
    most = m->kv_blocks_most * BR_KV_TOKENS;
    m->info.max_context = (uint32_t)(most < m->max_positions ? most : m->max_positions);
}

/* KV of one token as it fills slabs: what is left over in a slab behind its last whole block counts too. */
static uint64_t kv_token_bytes(const struct br_turn *t, const struct turn_model *m)
{
    uint64_t tokens = t->config.slab_bytes / m->info.kv_block_bytes * BR_KV_TOKENS;
    return (t->config.slab_bytes + tokens - 1) / tokens;
}

/* A policy that plans memory serves no model beside which a sequence could not grow. */
static int model_fits(const struct br_turn *t, const struct turn_model *m, struct br_err *err)
{
    uint64_t kv = TURN_LEAST_TOKENS * m->info.kv_token_bytes;
    if (!t->plans_memory || m->info.weight_bytes + kv <= t->planned)
        return 0;
    return br_err_set(err, BR_ENOMEM,
                      "weights need %" PRIu64 " bytes and KV of %d tokens %" PRIu64 ", the device has %" PRIu64
                      ": give it "
                      "more memory",
                      m->info.weight_bytes, TURN_LEAST_TOKENS, kv, t->planned);
}

static int model_sampler(struct br_turn *t, uint32_t slot, struct br_err *err)
{
    for (uint32_t i = 0; i < slot; i++)
        if (t->models[i].sampler && t->models[i].info.vocab == t->models[slot].info.vocab) {
            t->models[slot].sampler = t->models[i].sampler;
            return 0;
        }
    return br_sampler_create(t->models[slot].info.vocab, &t->models[slot].sampler, err);
}

static int model_add(struct br_turn *t, uint32_t slot, struct br_err *err)
{
    struct turn_model *m = &t->models[slot];
    struct br_engine_model *engine;
    int rc = br_kv_shape_add(t->kv, m->info.kv_block_bytes, &m->kv_shape, err);
    if (rc == 0) {
        m->info.kv_token_bytes = kv_token_bytes(t, m);
        rc = model_fits(t, m, err);
    }
    if (rc == 0)
        rc = model_sampler(t, slot, err);
    if (rc == 0)
        rc = br_engine_model_create(t->engine, &m->image->layout, &engine, err);
    if (rc)
        return rc;
    rc = br_residency_add(t->residency, slot, engine, m->image, err);
    if (rc) {
        br_engine_model_destroy(engine);
        return rc;
    }
    m->engine = engine;
    m->number = ++t->n_numbers;
    if (m->info.vocab > t->vocab_max)
        t->vocab_max = m->info.vocab;
    return 0;
}

/* A device that could serve none of the models it has is not set up as its owner meant it. */
int turn_models_add(struct br_turn *t, struct br_err *err)
{
    uint32_t images = 0, served = 0;
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct turn_model *m = &t->models[i];
        if (m->image && model_add(t, i, err))
            snprintf(m->info.error, sizeof m->info.error, "%s", err->msg);
        if (!m->engine && m->info.name[0]) /* the others are places for models that may come */
            br_log(BR_ERROR, "model_not_served", "model=%s why=%s", m->info.name, BR_Q(m->info.error));
        images += m->image != NULL;
        served += m->engine != NULL;
    }
    return images && !served ? br_err_wrap(err, "none of %u models can be served; the last", images) : 0;
}

void turn_models_kv(struct br_turn *t)
{
    t->kv_most = kv_most(t);
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].engine)
            model_kv_most(t, &t->models[i]);
    turn_room_meet(t);
}

void turn_slot_tell(struct br_turn *t, uint32_t slot)
{
    const struct turn_model *m = &t->models[slot];
    const struct br_turn_terms *terms = &m->terms;
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SLOT_ADD,
                                        .slot = slot,
                                        .step_s = m->info.step_s,
                                        .load_s = m->info.load_s,
                                        .ttft_s = terms->ttft_s > 0 ? terms->ttft_s : TTFT_DEFAULT_S,
                                        .tbt_s = terms->tbt_s > 0 ? terms->tbt_s : TBT_DEFAULT_S,
                                        .rate = terms->rate,
                                        .weight = terms->weight,
                                        .pinned = terms->pinned,
                                        .bytes_all = m->info.weight_bytes,
                                        .kv_token_bytes = m->info.kv_token_bytes,
                                        .shape = m->info.shape});
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_WEIGHTS,
                                        .slot = slot,
                                        .bytes = br_residency_told(t->residency, slot),
                                        .bytes_all = m->info.weight_bytes});
}

void turn_models_release(struct br_turn *t)
{
    for (uint32_t i = t->n_models; i-- > 0;) {
        struct turn_model *m = &t->models[i];
        bool shared = false;
        for (uint32_t k = 0; k < i; k++)
            shared = shared || t->models[k].sampler == m->sampler;
        if (m->sampler && !shared)
            br_sampler_destroy(m->sampler);
        if (m->engine)
            br_engine_model_destroy(m->engine);
    }
    free(t->models);
}

int turn_model_enter(struct br_turn *t, uint32_t slot, const struct br_turn_model *model, struct br_err *err)
{
    struct turn_model *m = &t->models[slot];
    uint32_t vocab = t->vocab_max;
    *m = (struct turn_model){0};
    model_describe(t, model, m);
    if (!m->image || model_add(t, slot, err)) {
        if (!m->image)
            br_err_set(err, BR_ENOENT, "%s", m->info.error);
        turn_model_leave(t, slot);
        return err->code;
    }
    if (t->vocab_max > vocab)
        t->logits = br_realloc(t->logits, sizeof(float) * t->config.max_batch * t->vocab_max);
    model_kv_most(t, m);
    turn_profile_one(t, slot);
    turn_slot_tell(t, slot);
    t->changed = true;
    return 0;
}

void turn_model_leave(struct br_turn *t, uint32_t slot)
{
    struct turn_model *m = &t->models[slot];
    bool shared = false;
    for (uint32_t i = 0; i < t->n_models; i++)
        shared = shared || (i != slot && t->models[i].sampler == m->sampler);
    if (m->engine) {
        turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SLOT_REMOVE, .slot = slot});
        br_residency_remove(t->residency, slot);
        br_engine_model_destroy(m->engine);
    }
    if (m->sampler && !shared)
        br_sampler_destroy(m->sampler);
    t->last_slot = t->last_slot == (int32_t)slot ? -1 : t->last_slot;
    *m = (struct turn_model){0};
    snprintf(m->info.error, sizeof m->info.error, "no such model");
}
