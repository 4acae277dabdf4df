/* What models cost on this device: a decode step of batch 1 and a whole load. Small models are measured; larger ones,
 * whose loads would delay the start, are told from the rates seen. */
#include "base/log.h"
#include "cost/cost.h"
#include "worker/turn/internal.h"

#define PROFILE_LOAD_BYTES (256ull << 20)

enum { PROFILE_STEPS = 4 };

struct rates {
    double link, decode; /* weight bytes a second */
};

static double load_s(struct br_turn *t, uint32_t slot)
{
    int64_t from = br_now_ns();
    br_residency_require(t->residency, slot);
    br_residency_sync(t->residency);
    return (double)(br_now_ns() - from) / 1e9;
}

/* The first load meets memory that was never touched: the second one counts. */
static void load_measure(struct br_turn *t, uint32_t slot, struct rates *rates)
{
    struct turn_model *m = &t->models[slot];
    load_s(t, slot);
    br_residency_evict(t->residency, slot);
    m->info.load_s = load_s(t, slot);
    rates->link = (double)m->info.weight_bytes / m->info.load_s;
}

/* The KV region is not in use yet: its first block serves. */
static void step_measure(struct br_turn *t, uint32_t slot, struct rates *rates)
{
    struct turn_model *m = &t->models[slot];
    br_devptr block = t->kv_base;
    int32_t id = 0;
    struct br_step_item item = {.ids = &id, .n_ids = 1, .blocks = &block, .want_logits = true, .logits = t->logits};
    struct br_err err;
    double best = 1e9;
    for (int i = 0; i < PROFILE_STEPS; i++) {
        int64_t from = br_now_ns();
        double took;
        if (br_engine_step(t->engine, m->engine, t->compute, &item, 1, &err))
            return;
        t->dev->ops->event_record(t->step_done, t->compute);
        t->dev->ops->event_sync(t->step_done);
        took = (double)(br_now_ns() - from) / 1e9;
        best = took < best ? took : best;
    }
    m->info.step_s = m->step_s[0] = best;
    rates->decode = (double)m->info.weight_bytes / best;
}

static int32_t smallest(const struct br_turn *t)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i].engine && (best < 0 || t->models[i].info.weight_bytes < t->models[best].info.weight_bytes))
            best = (int32_t)i;
    return best;
}

/* A device that does not compute takes the times that cost/ says: nothing is left to measure. */
static void costs_told(struct br_turn *t)
{
    double speed = t->dev->config.speed;
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct turn_model *m = &t->models[i];
        const struct br_cost *cost = m->engine ? br_engine_model_cost(m->engine) : NULL;
        if (!cost)
            continue;
        m->info.step_s = m->step_s[0] = br_cost_decode_s(cost, 1, 1) / speed;
        m->info.load_s = (double)m->info.weight_bytes / (double)t->dev->config.link_bytes_per_s;
    }
}

void turn_profile(struct br_turn *t)
{
    struct rates rates = {.link = 4e9, .decode = 4e9}, seen;
    uint64_t largest = 0;
    int32_t least = smallest(t);
    if (t->dev->ops->timed) {
        costs_told(t);
        return;
    }
    for (uint32_t i = 0; i < t->n_models && !t->config.no_profile; i++) {
        struct turn_model *m = &t->models[i];
        if (!m->engine || (m->info.weight_bytes > PROFILE_LOAD_BYTES && (int32_t)i != least))
            continue;
        seen = rates;
        load_measure(t, i, &seen);
        step_measure(t, i, &seen);
        if (m->info.weight_bytes > largest) {
            largest = m->info.weight_bytes;
            rates = seen;
        }
    }
    if (t->config.device.link_bytes_per_s)
        rates.link = (double)t->config.device.link_bytes_per_s;
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct turn_model *m = &t->models[i];
        if (!m->engine)
            continue;
        m->info.load_s = (double)m->info.weight_bytes / rates.link;
        if (m->info.step_s <= 0)
            m->info.step_s = (double)m->info.weight_bytes / rates.decode;
        br_log(BR_INFO, "model_profile", "model=%s step_s=%.6f load_s=%.6f", m->info.name, m->info.step_s,
               m->info.load_s);
    }
}
