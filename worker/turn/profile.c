/* What models cost on this device: a whole load, and a step by its rows and KV (scheduler/core/step_cost.h). Small
 * models are measured; larger ones, whose loads would delay the start, are told from the largest one measured. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "cost/cost.h"
#include "worker/turn/internal.h"

#define PROFILE_LOAD_BYTES (256ull << 20)

enum { PROFILE_STEPS = 4, PROFILE_CHUNKS = 2, PROFILE_CONTEXT = 512, TOLD_ROWS = 2048, TOLD_CONTEXT = 4096 };

/* Seconds by byte of weights of a model that was measured; of those that were not, when nothing was. */
struct rates {
    double link;               /* bytes a second */
    struct br_step_shape unit; /* read_s and row_s by byte of weights */
};

struct probe {
    struct br_turn *t;
    struct turn_model *m;
    uint32_t rows;     /* of the longest step */
    uint32_t context;  /* positions that there are blocks for */
    int32_t *ids;      /* [rows] */
    br_devptr *blocks; /* by position / BR_KV_TOKENS */
};

static double load_s(struct br_turn *t, uint32_t slot)
{
    int64_t from = br_now_ns();
    turn_room_load(t, slot, UINT64_MAX, true);
    br_residency_sync(t->residency);
    return (double)(br_now_ns() - from) / 1e9;
}

/* The first load meets memory that was never touched: the second one counts. */
static double link_measure(struct br_turn *t, uint32_t slot)
{
    struct turn_model *m = &t->models[slot];
    load_s(t, slot);
    br_residency_evict(t->residency, slot, UINT64_MAX);
    m->info.load_s = load_s(t, slot);
    return (double)m->info.weight_bytes / m->info.load_s;
}

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* KV at the far end of the memory, which nothing else uses yet. */
static void probe_init(struct probe *p, struct br_turn *t, struct turn_model *m)
{
    uint64_t block = m->info.kv_block_bytes, room = (t->kv_end - br_residency_top(t->residency)) / block;
    uint32_t most = least(t->config.max_context, m->info.max_context), n;
    *p = (struct probe){.t = t, .m = m, .context = least(room * BR_KV_TOKENS, least(most, PROFILE_CONTEXT))};
    p->rows = least(p->context, least(t->config.prefill_chunk, t->config.max_step_tokens));
    n = (p->context + BR_KV_TOKENS - 1) / BR_KV_TOKENS;
    p->ids = br_calloc(p->rows + 1, sizeof *p->ids);
    p->blocks = br_calloc(n + 1, sizeof *p->blocks);
    for (uint32_t i = 0; i < n; i++)
        p->blocks[i] = (t->dev->memory + t->kv_end - (i + 1) * block) & ~63ull;
}

static void probe_free(struct probe *p)
{
    free(p->ids);
    free(p->blocks);
}

/* Seconds of the quickest of `times` steps of so many rows from position pos on; < 0: it does not run. */
static double step_s(const struct probe *p, uint32_t rows, uint32_t pos, int times)
{
    struct br_turn *t = p->t;
    struct br_step_item item = {
        .ids = p->ids, .n_ids = rows, .pos = pos, .blocks = p->blocks, .want_logits = true, .logits = t->logits};
    struct br_err err;
    double best = 1e9;
    for (int i = 0; i < times; i++) {
        int64_t from = br_now_ns();
        double took;
        if (br_engine_step(t->engine, p->m->engine, t->compute, &item, 1, &err))
            return -1;
        t->dev->ops->event_record(t->step_done, t->compute);
        t->dev->ops->event_sync(t->step_done);
        took = (double)(br_now_ns() - from) / 1e9;
        best = took < best ? took : best;
    }
    return best;
}

/* Rows cost what the second half of a chunk adds to its first half; what a chunk takes beyond that is fixed. A byte of
 * KV takes as long to read as one of weights at least, which of a small context cannot be seen. */
static bool shape_measure(struct br_turn *t, struct turn_model *m)
{
    struct br_step_shape *s = &m->info.shape;
    struct probe p;
    double one, half, all, far;
    uint64_t kv_bytes;
    probe_init(&p, t, m);
    one = step_s(&p, 1, 0, PROFILE_STEPS);
    half = p.rows < 4 ? one : step_s(&p, p.rows / 2, 0, PROFILE_CHUNKS);
    all = p.rows < 4 ? one : step_s(&p, p.rows / 2 * 2, 0, PROFILE_CHUNKS);
    far = step_s(&p, 1, p.context - 1, PROFILE_STEPS);
    kv_bytes = (uint64_t)p.context * m->info.kv_block_bytes / BR_KV_TOKENS;
    probe_free(&p);
    if (!(one > 0) || !(half > 0) || !(all > 0) || !(far > 0))
        return false;
    s->row_s = all > half ? (all - half) / (p.rows / 2) : all / (p.rows ? p.rows : 1);
    s->fixed_s = all - p.rows / 2 * 2 * s->row_s;
    s->fixed_s = s->fixed_s < 0 ? 0 : s->fixed_s > .9 * one ? .9 * one : s->fixed_s;
    s->read_s = one - s->fixed_s;
    s->kv_byte_s = s->read_s / (double)m->info.weight_bytes;
    if ((far - one) / (double)kv_bytes > s->kv_byte_s)
        s->kv_byte_s = (far - one) / (double)kv_bytes;
    m->info.step_s = m->step_s[0] = one;
    return true;
}

static int32_t smallest(const struct br_turn *t)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].engine && (best < 0 || t->models[i].info.weight_bytes < t->models[best].info.weight_bytes))
            best = (int32_t)i;
    return best;
}

/* A device that does not compute takes the times that cost/ says: nothing is left to measure. Rows and KV cost what a
 * chunk, a context of some length adds. */
static void shape_told(const struct br_cost *cost, double speed, uint64_t kv_block_bytes, struct br_step_shape *out)
{
    double half = br_cost_prefill_s(cost, 1, TOLD_ROWS / 2, 0), all = br_cost_prefill_s(cost, 1, TOLD_ROWS, 0);
    double one = br_cost_decode_s(cost, 1, 1), far = br_cost_decode_s(cost, 1, TOLD_CONTEXT);
    double row_s = (all - half) / (TOLD_ROWS / 2), fixed_s = all - TOLD_ROWS * row_s;
    fixed_s = fixed_s < 0 ? 0 : fixed_s > .9 * one ? .9 * one : fixed_s;
    out->fixed_s = fixed_s / speed;
    out->read_s = (one - fixed_s) / speed;
    out->row_s = row_s / speed;
    out->kv_byte_s = (far - one) / TOLD_CONTEXT * BR_KV_TOKENS / (double)kv_block_bytes / speed;
}

static void costs_told(struct br_turn *t)
{
    t->link_bytes_per_s = (double)t->dev->config.link_bytes_per_s;
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct turn_model *m = &t->models[i];
        const struct br_cost *cost = m->engine ? br_engine_model_cost(m->engine) : NULL;
        if (!cost)
            continue;
        shape_told(cost, t->dev->config.speed, m->info.kv_block_bytes, &m->info.shape);
        m->info.step_s = m->step_s[0] = br_cost_decode_s(cost, 1, 1) / t->dev->config.speed;
        m->info.load_s = (double)m->info.weight_bytes / t->link_bytes_per_s;
    }
}

/* The largest of those that are measured says what the others cost. */
static struct rates models_measure(struct br_turn *t)
{
    struct rates rates = {.link = 4e9, .unit = {.read_s = .25e-9, .row_s = .02e-9, .kv_byte_s = .25e-9}};
    uint64_t largest = 0;
    int32_t small = smallest(t);
    for (uint32_t i = 0; i < t->n_models && !t->config.no_profile; i++) {
        struct turn_model *m = &t->models[i];
        double link, bytes = (double)m->info.weight_bytes;
        if (!m->engine || (m->info.weight_bytes > PROFILE_LOAD_BYTES && (int32_t)i != small))
            continue;
        link = link_measure(t, i);
        if (!shape_measure(t, m) || m->info.weight_bytes <= largest)
            continue;
        largest = m->info.weight_bytes;
        rates = (struct rates){link, m->info.shape};
        rates.unit.read_s /= bytes;
        rates.unit.row_s /= bytes;
    }
    return rates;
}

static void model_estimate(struct turn_model *m, const struct rates *rates)
{
    double bytes = (double)m->info.weight_bytes;
    m->info.load_s = bytes / rates->link;
    if (m->info.step_s <= 0) {
        m->info.shape = rates->unit;
        m->info.shape.read_s *= bytes;
        m->info.shape.row_s *= bytes;
        m->info.step_s = m->info.shape.fixed_s +
                         (m->info.shape.read_s > m->info.shape.row_s ? m->info.shape.read_s : m->info.shape.row_s);
    }
    br_log(BR_INFO, "model_profile", "model=%s load_s=%.6f step_s=%.6f row_s=%.9f kv_byte_s=%.3e fixed_s=%.6f",
           m->info.name, m->info.load_s, m->info.step_s, m->info.shape.row_s, m->info.shape.kv_byte_s,
           m->info.shape.fixed_s);
}

/* The largest of the others says what it costs, by byte of weights. */
void turn_profile_one(struct br_turn *t, uint32_t slot)
{
    struct rates rates = {.link = t->link_bytes_per_s,
                          .unit = {.read_s = .25e-9, .row_s = .02e-9, .kv_byte_s = .25e-9}};
    uint64_t largest = 0;
    if (t->dev->ops->timed) {
        costs_told(t);
        return;
    }
    for (uint32_t i = 0; i < t->n_models; i++) {
        const struct br_turn_model_info *info = &t->models[i].info;
        if (i == slot || !t->models[i].engine || info->weight_bytes <= largest)
            continue;
        largest = info->weight_bytes;
        rates.unit = info->shape;
        rates.unit.read_s /= (double)largest;
        rates.unit.row_s /= (double)largest;
    }
    model_estimate(&t->models[slot], &rates);
}

void turn_profile(struct br_turn *t)
{
    struct rates rates;
    if (t->dev->ops->timed) {
        costs_told(t);
        return;
    }
    rates = models_measure(t);
    if (t->config.device.link_bytes_per_s)
        rates.link = (double)t->config.device.link_bytes_per_s;
    t->link_bytes_per_s = rates.link;
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].engine)
            model_estimate(&t->models[i], &rates);
    br_residency_sync(t->residency);
    br_residency_poll(t->residency);
}
