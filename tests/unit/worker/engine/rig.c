// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include "tests/unit/worker/engine/rig.h"
#include "tests/unit/worker/engine/device_any.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { SLOTS = RIG_SEQS * RIG_BLOCKS + RIG_BLOCKS };

static uint64_t weights_bytes(const struct rig *rig)
{
    return (br_layout_total_bytes(&rig->toy->layout) + 4095) / 4096 * 4096;
}

static void load_unit(struct rig *rig, uint32_t unit, br_devptr at)
{
    const struct br_model_layout *m = &rig->toy->layout;
    rig->dev->ops->copy(rig->copies, BR_COPY_H2D, (void *)(uintptr_t)at, rig->toy->unit[unit],
                        br_layout_unit_bytes(m, unit));
    rig->dev->ops->event_record(rig->copied, rig->copies);
    br_engine_model_place(rig->model, unit, at, rig->copied);
}

void rig_move_weights(struct rig *rig)
{
    rig->dev->ops->event_sync(rig->copied); /* of an earlier move that no step has waited for */
    rig->weights_high = !rig->weights_high;
    br_devptr old = rig->dev->memory + (rig->weights_high ? 0 : weights_bytes(rig));
    br_devptr at = rig->dev->memory + (rig->weights_high ? weights_bytes(rig) : 0);
    memset((void *)(uintptr_t)old, 0xff, weights_bytes(rig));
    for (uint32_t u = 0; u < rig->toy->layout.units; u++) {
        load_unit(rig, u, at);
        at += br_layout_unit_bytes(&rig->toy->layout, u);
    }
}

static void open_engine(struct rig *rig)
{
    struct br_err err;
    struct br_engine_limits limits = {RIG_MAX_TOKENS + 8 * RIG_SEQS, RIG_SEQS, RIG_MAX_TOKENS};
    if (br_engine_create(rig->dev, &limits, &rig->engine, &err) ||
        br_engine_model_create(rig->engine, &rig->toy->layout, &rig->model, &err))
        fail_msg("%s", err.msg);
    rig_move_weights(rig);
}

/* Slots in a random order, so that neighbours in a sequence are not neighbours in memory. */
static void open_slots(struct rig *rig)
{
    br_devptr base = rig->dev->memory + 2 * weights_bytes(rig);
    memset((void *)(uintptr_t)base, 0xff, SLOTS * rig->block_bytes);
    rig->slot = br_malloc(SLOTS * sizeof *rig->slot);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t j = (uint32_t)(br_rng_next(&rig->rng) * (i + 1));
        rig->slot[i] = rig->slot[j];
        rig->slot[j] = base + i * rig->block_bytes;
    }
    rig->n_slots = SLOTS;
}

void rig_open(struct rig *rig, const struct toy *toy, const char *isa, uint32_t threads)
{
    struct br_err err;
    const struct br_model_shape *s = &toy->layout.shape;
    *rig = (struct rig){.toy = toy, .rng = {.seed = 7}};
    rig->block_bytes = 2ull * BR_KV_BLOCK_TOKENS * s->layers * s->kv_heads * s->head_dim *
                       (toy->layout.numeric == BR_NUMERIC_BF16 ? 2 : 4);
    struct br_device_config config = {.threads = threads, .isa = isa};
    config.memory_bytes = 2 * weights_bytes(rig) + SLOTS * rig->block_bytes;
    if (device_any(&config, &rig->dev, &err) || rig->dev->ops->stream_create(rig->dev, &rig->compute, &err) ||
        rig->dev->ops->stream_create(rig->dev, &rig->copies, &err) ||
        rig->dev->ops->event_create(rig->dev, &rig->copied, &err) ||
        rig->dev->ops->event_create(rig->dev, &rig->stepped, &err))
        fail_msg("%s", err.msg);
    open_slots(rig);
    open_engine(rig);
    for (int i = 0; i < RIG_SEQS; i++)
        rig->seq[i].logits = br_malloc(s->vocab * sizeof(float));
}

void rig_close(struct rig *rig)
{
    rig->dev->ops->stream_destroy(rig->copies);
    rig->dev->ops->stream_destroy(rig->compute);
    rig->dev->ops->event_destroy(rig->copied);
    rig->dev->ops->event_destroy(rig->stepped);
    br_engine_model_destroy(rig->model);
    br_engine_destroy(rig->engine);
    rig->dev->ops->destroy(rig->dev);
    for (int i = 0; i < RIG_SEQS; i++)
        free(rig->seq[i].logits);
    free(rig->slot);
}

void rig_start(struct rig *rig, uint32_t index, uint64_t seed, uint32_t n)
{
    struct rig_seq *seq = &rig->seq[index];
    struct br_rng rng = {.seed = seed};
    for (uint32_t b = 0; b < RIG_BLOCKS; b++)
        if (seq->blocks[b])
            rig->slot[rig->n_slots++] = seq->blocks[b];
    memset(seq->blocks, 0, sizeof seq->blocks);
    seq->pos = 0;
    seq->n = n;
    for (uint32_t i = 0; i < n; i++)
        seq->ids[i] = (int32_t)(br_rng_next(&rng) * rig->toy->layout.shape.vocab);
}

static void grow(struct rig *rig, struct rig_seq *seq, uint32_t positions)
{
    for (uint32_t b = 0; b * BR_KV_BLOCK_TOKENS < positions; b++)
        if (!seq->blocks[b])
            seq->blocks[b] = rig->slot[--rig->n_slots];
}

void rig_step(struct rig *rig, const uint32_t n[RIG_SEQS])
{
    struct br_step_item items[RIG_SEQS];
    uint32_t n_items = 0;
    struct br_err err;
    for (int i = 0; i < RIG_SEQS; i++) {
        struct rig_seq *seq = &rig->seq[i];
        if (!n[i])
            continue;
        grow(rig, seq, seq->pos + n[i]);
        items[n_items++] = (struct br_step_item){seq->ids + seq->pos, n[i], seq->pos, seq->blocks, true, seq->logits};
        seq->pos += n[i];
    }
    if (br_engine_step(rig->engine, rig->model, rig->compute, items, n_items, &err))
        fail_msg("%s", err.msg);
    rig->dev->ops->event_record(rig->stepped, rig->compute);
    rig->dev->ops->event_sync(rig->stepped);
}

void rig_move_blocks(struct rig *rig, uint32_t index)
{
    struct rig_seq *seq = &rig->seq[index];
    for (uint32_t b = 0; b < RIG_BLOCKS && seq->blocks[b]; b++) {
        uint32_t pick = (uint32_t)(br_rng_next(&rig->rng) * rig->n_slots);
        br_devptr from = seq->blocks[b], to = rig->slot[pick];
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, rig->block_bytes);
        memset((void *)(uintptr_t)from, 0xff, rig->block_bytes);
        seq->blocks[b] = to;
        rig->slot[pick] = from;
    }
}
