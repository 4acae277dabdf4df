/* A step that nobody has loaded for: it runs layer by layer behind its load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/bench/transfers.h"
#include "worker/turn/residency.h"

enum { TRIES = 3, ROUNDS_MAX = 99, ROWS_MAX = 8192, ITEM = 256, ITEMS_MAX = ROWS_MAX / ITEM };

static const uint64_t LINK = 1000000000;
static const double RATIO_OFF = .1; /* a load/step further off than this is measured again */

struct rig {
    struct br_device *dev;
    struct br_stream *compute;
    struct br_event *done;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_residency *residency;
    const struct br_model_layout *layout;
    struct br_step_item items[ITEMS_MAX];
    int32_t ids[ITEM];
    br_devptr blocks[ITEMS_MAX][ITEM / BR_KV_BLOCK_TOKENS];
    float *logits;
};

static void die(const struct br_err *err)
{
    fprintf(stderr, "bench_transfers: %s\n", err->msg);
    exit(1);
}

static int32_t no_victim(void *ctx, uint32_t target)
{
    (void)ctx, (void)target;
    return -1;
}

static void unheard(void *ctx, uint32_t slot, uint64_t bytes, uint64_t bytes_all)
{
    (void)ctx, (void)slot, (void)bytes, (void)bytes_all;
}

static void kv_fill(struct rig *rig, br_devptr at)
{
    uint64_t block = br_kv_block_bytes(&rig->layout->shape, rig->layout->numeric);
    for (uint32_t i = 0; i < ITEMS_MAX; i++)
        for (uint32_t k = 0; k < ITEM / BR_KV_BLOCK_TOKENS; k++, at += block)
            rig->blocks[i][k] = at;
    for (uint32_t i = 0; i < ITEM; i++)
        rig->ids[i] = (int32_t)(i * 31 % rig->layout->shape.vocab);
}

static void rig_open(struct rig *rig, const struct transfers *t)
{
    uint64_t block = br_kv_block_bytes(&t->image->layout.shape, t->image->layout.numeric);
    uint64_t weights = (br_layout_total_bytes(&t->image->layout) + 4095) & ~4095ull;
    struct br_device_config device = {.threads = t->threads, .link_bytes_per_s = LINK};
    struct br_engine_limits limits = {ROWS_MAX, ITEMS_MAX, ITEM};
    struct br_residency_cb cb = {.victim = no_victim, .changed = unheard};
    struct br_residency_config config = {.bytes = weights, .max_slots = 1, .max_units = t->image->layout.units};
    struct br_err err;
    device.memory_bytes = weights + ROWS_MAX / BR_KV_BLOCK_TOKENS * block;
    *rig = (struct rig){.layout = &t->image->layout};
    if (br_device_cpu_create(&device, &rig->dev, &err) || rig->dev->ops->stream_create(rig->dev, &rig->compute, &err) ||
        rig->dev->ops->event_create(rig->dev, &rig->done, &err) ||
        br_engine_create(rig->dev, &limits, &rig->engine, &err) ||
        br_engine_model_create(rig->engine, rig->layout, &rig->model, &err))
        die(&err);
    config.memory = rig->dev->memory;
    if (br_residency_create(rig->dev, &config, &cb, &rig->residency, &err) ||
        br_residency_add(rig->residency, 0, rig->model, t->image, &err))
        die(&err);
    kv_fill(rig, rig->dev->memory + weights);
    rig->logits = br_malloc(rig->layout->shape.vocab * sizeof *rig->logits);
}

static void rig_close(struct rig *rig)
{
    rig->dev->ops->stream_destroy(rig->compute);
    br_residency_destroy(rig->residency);
    br_engine_model_destroy(rig->model);
    br_engine_destroy(rig->engine);
    rig->dev->ops->event_destroy(rig->done);
    rig->dev->ops->destroy(rig->dev);
    free(rig->logits);
}

static void step_enqueue(struct rig *rig, uint32_t rows)
{
    struct br_err err;
    uint32_t n = 0;
    for (uint32_t left = rows; left; n++) {
        uint32_t some = left < ITEM ? left : ITEM;
        rig->items[n] = (struct br_step_item){.ids = rig->ids, .n_ids = some, .blocks = rig->blocks[n]};
        left -= some;
    }
    rig->items[n - 1].want_logits = true;
    rig->items[n - 1].logits = rig->logits;
    if (br_engine_step(rig->engine, rig->model, rig->compute, rig->items, n, &err))
        die(&err);
    rig->dev->ops->event_record(rig->done, rig->compute);
}

static double warm_s(struct rig *rig, uint32_t rows)
{
    double start = br_now_s();
    step_enqueue(rig, rows);
    rig->dev->ops->event_sync(rig->done);
    return br_now_s() - start;
}

static double load_s(struct rig *rig)
{
    double start;
    br_residency_evict(rig->residency, 0, UINT64_MAX);
    start = br_now_s();
    br_residency_load(rig->residency, 0, UINT64_MAX, false);
    br_residency_sync(rig->residency);
    return br_now_s() - start;
}

/* From the order to load until the step's end. */
static double streamed_s(struct rig *rig, uint32_t rows)
{
    double start;
    br_residency_evict(rig->residency, 0, UINT64_MAX);
    start = br_now_s();
    br_residency_load(rig->residency, 0, UINT64_MAX, false);
    step_enqueue(rig, rows);
    rig->dev->ops->event_sync(rig->done);
    return br_now_s() - start;
}

/* Load first, then the step: what the bar is beside. */
static double naive_s(struct rig *rig, uint32_t rows)
{
    double start;
    br_residency_evict(rig->residency, 0, UINT64_MAX);
    start = br_now_s();
    br_residency_load(rig->residency, 0, UINT64_MAX, false);
    br_residency_sync(rig->residency);
    step_enqueue(rig, rows);
    rig->dev->ops->event_sync(rig->done);
    return br_now_s() - start;
}

static double warm_median_s(struct rig *rig, uint32_t rows)
{
    double took[TRIES];
    for (int i = 0; i < TRIES; i++)
        took[i] = warm_s(rig, rows);
    return median(took, TRIES);
}

/* How many rows take so long with all weights there: a step takes longer the more rows it has. */
static uint32_t rows_for(struct rig *rig, double seconds)
{
    uint32_t low = 1, high = 32;
    while (high < ROWS_MAX && warm_median_s(rig, high) < seconds) {
        low = high;
        high *= 2;
    }
    while (high - low > 1 + low / 32) {
        uint32_t rows = (uint32_t)sqrt((double)low * high) + 1;
        if (rows >= high)
            break;
        *(warm_median_s(rig, rows) < seconds ? &low : &high) = rows;
    }
    return low;
}

struct times {
    double load[ROUNDS_MAX], step[ROUNDS_MAX], end[ROUNDS_MAX], naive[ROUNDS_MAX], ratio[ROUNDS_MAX];
};

/* The kinds alternate, so that all of them see the same machine. */
static void measure(struct rig *rig, int rounds, uint32_t rows, struct times *m)
{
    double embed_s = (double)br_layout_unit_bytes(rig->layout, 0) / (double)LINK;
    double load_layer_s = (double)br_layout_unit_bytes(rig->layout, 1) / (double)LINK;
    for (int i = 0; i < rounds; i++) {
        m->load[i] = load_s(rig);
        m->step[i] = warm_s(rig, rows);
        m->end[i] = streamed_s(rig, rows);
        m->naive[i] = naive_s(rig, rows);
        double step_layer_s = m->step[i] / rig->layout->shape.layers;
        double longer_s = m->load[i] > m->step[i] ? m->load[i] : m->step[i];
        m->ratio[i] = m->end[i] / (longer_s + embed_s + (step_layer_s > load_layer_s ? step_layer_s : load_layer_s));
    }
}

static int one(const struct transfers *t, struct rig *rig, double load_by_step)
{
    static struct times m;
    uint32_t rows = 0;
    double l = 0, s = 1, end;
    char what[128];
    for (int i = 0; i < TRIES && (i == 0 || fabs(l / s / load_by_step - 1) > RATIO_OFF); i++) {
        rows = rows_for(rig, (double)br_layout_total_bytes(rig->layout) / (double)LINK / load_by_step);
        measure(rig, t->rounds, rows, &m);
        l = median(m.load, t->rounds);
        s = median(m.step, t->rounds);
    }
    end = median(m.end, t->rounds);
    printf("unplanned, load/step %.2f: load %.0f ms, step of %u rows %.0f ms; first step's end %.0f ms, in naive order "
           "%.0f ms\n",
           l / s, 1e3 * l, rows, 1e3 * s, 1e3 * end, 1e3 * median(m.naive, t->rounds));
    snprintf(what, sizeof what, "end / (max(load, step) + embedding + one layer) at %.2f", l / s);
    return bar(what, median(m.ratio, t->rounds), 1.10, false);
}

int transfers_unplanned(const struct transfers *t)
{
    static const double load_by_step[] = {.3, 1, 3};
    static struct rig rig;
    int missed = 0;
    rig_open(&rig, t);
    load_s(&rig);
    for (int i = 0; i < 3; i++)
        missed += one(t, &rig, load_by_step[i]);
    rig_close(&rig);
    return missed;
}
