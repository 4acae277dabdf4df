#include "worker/engine/bench.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"

struct br_engine_bench {
    struct br_device *dev;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_stream *stream;
    struct br_event *done;
    uint32_t batch, context, blocks_each, vocab;
    int32_t *ids;               /* [context]: the same for every sequence */
    br_devptr *blocks;          /* [batch][blocks_each] */
    float *logits;              /* [batch][vocab] */
    struct br_step_item *items; /* [batch] */
};

static uint64_t blocks_for(uint32_t context)
{
    return (context + BR_KV_BLOCK_TOKENS - 1) / BR_KV_BLOCK_TOKENS;
}

uint64_t br_engine_bench_kv_bytes(const struct br_model_layout *layout, uint32_t batch, uint32_t context)
{
    return batch * blocks_for(context) * br_kv_block_bytes(&layout->shape, layout->numeric);
}

static void bench_fill(struct br_engine_bench *b, const struct br_model_layout *layout, br_devptr kv)
{
    struct br_rng rng = {.seed = 1};
    uint64_t block_bytes = br_kv_block_bytes(&layout->shape, layout->numeric);
    b->blocks_each = (uint32_t)blocks_for(b->context);
    b->vocab = layout->shape.vocab;
    b->ids = br_malloc(b->context * sizeof *b->ids);
    b->blocks = br_malloc((size_t)b->batch * b->blocks_each * sizeof *b->blocks);
    b->logits = br_malloc((size_t)b->batch * b->vocab * sizeof *b->logits);
    b->items = br_calloc(b->batch, sizeof *b->items);
    for (uint32_t i = 0; i < b->context; i++)
        b->ids[i] = (int32_t)(br_rng_next(&rng) * b->vocab);
    for (uint32_t i = 0; i < b->batch * b->blocks_each; i++)
        b->blocks[i] = kv + i * block_bytes;
}

int br_engine_bench_create(struct br_device *dev, struct br_engine *engine, struct br_engine_model *model,
                           const struct br_model_layout *layout, br_devptr kv, uint64_t kv_bytes, uint32_t batch,
                           uint32_t context, struct br_engine_bench **out, struct br_err *err)
{
    uint64_t need = br_engine_bench_kv_bytes(layout, batch, context);
    if (need > kv_bytes)
        return br_err_set(err, BR_ENOMEM, "bench: %u sequences of %u tokens need %llu bytes of KV, there are %llu",
                          batch, context, (unsigned long long)need, (unsigned long long)kv_bytes);
    struct br_engine_bench *b = br_calloc(1, sizeof *b);
    *b = (struct br_engine_bench){.dev = dev, .engine = engine, .model = model, .batch = batch, .context = context};
    if (dev->ops->stream_create(dev, &b->stream, err))
        goto fail_stream;
    if (dev->ops->event_create(dev, &b->done, err))
        goto fail_event;
    bench_fill(b, layout, kv);
    *out = b;
    return 0;

fail_event:
    dev->ops->stream_destroy(b->stream);
fail_stream:
    free(b);
    return err->code;
}

void br_engine_bench_destroy(struct br_engine_bench *b)
{
    b->dev->ops->stream_destroy(b->stream);
    b->dev->ops->event_destroy(b->done);
    free(b->ids);
    free(b->blocks);
    free(b->logits);
    free(b->items);
    free(b);
}

/* n tokens each of the first `batch` sequences from position pos, to the end. */
static int bench_step(struct br_engine_bench *b, uint32_t batch, uint32_t pos, uint32_t n, struct br_err *err)
{
    for (uint32_t i = 0; i < batch; i++) {
        struct br_step_item *item = &b->items[i];
        *item = (struct br_step_item){.ids = b->ids + pos, .n_ids = n, .pos = pos, .want_logits = true};
        item->blocks = b->blocks + (size_t)i * b->blocks_each;
        item->logits = b->logits + (size_t)i * b->vocab;
    }
    if (br_engine_step(b->engine, b->model, b->stream, b->items, batch, err))
        return err->code;
    b->dev->ops->event_record(b->done, b->stream);
    b->dev->ops->event_sync(b->done);
    return 0;
}

int br_engine_bench_prefill(struct br_engine_bench *b, uint32_t tokens, double *tokens_per_s, struct br_err *err)
{
    if (tokens > b->context)
        return br_err_set(err, BR_EINVAL, "bench: %u tokens, there is room for %u", tokens, b->context);
    double start = br_now_s();
    if (bench_step(b, 1, 0, tokens, err))
        return err->code;
    *tokens_per_s = tokens / (br_now_s() - start);
    return 0;
}

int br_engine_bench_decode(struct br_engine_bench *b, uint32_t batch, uint32_t context, uint32_t steps,
                           double *tokens_per_s, struct br_err *err)
{
    if (batch > b->batch || context + steps > b->context)
        return br_err_set(err, BR_EINVAL, "bench: %u x %u tokens, there is room for %u x %u", batch, context + steps,
                          b->batch, b->context);
    double start = br_now_s();
    for (uint32_t i = 0; i < steps; i++)
        if (bench_step(b, batch, context + i, 1, err))
            return err->code;
    *tokens_per_s = batch * steps / (br_now_s() - start);
    return 0;
}
