/* How long a live decision of the scheduler takes. bench_decide [DEVICES MODELS SEQUENCES]; exit 1 if a p99 is above
 * 50 us.
 *   leader: a mirror of all devices; arrivals, ticks, and what the devices tell (progress, ends)
 *   worker: one device with its share of slots, and with all sequences on it; token boundaries and what a step tells */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/rng.h"
#include "scheduler/core/device.h"
#include "scheduler/core/policies/pool.h"

enum { ROUNDS = 200000 };

static const double LIMIT_US = 50;

struct times {
    const char *what;
    struct br_hist ns;
};

static struct times times_of(const char *what)
{
    struct times t = {.what = what};
    br_hist_init(&t.ns);
    return t;
}

static int times_print(const struct times *t, const char *half)
{
    double p99 = (double)br_hist_quantile(&t->ns, .99) * 1e-3;
    printf("%-7s %-9s %8lu times  p50 %6.1f us  p99 %6.1f us  worst %8.1f us%s\n", half, t->what, t->ns.total,
           (double)br_hist_quantile(&t->ns, .5) * 1e-3, p99, (double)t->ns.max * 1e-3,
           p99 > LIMIT_US ? "  ABOVE 50 us" : "");
    return p99 > LIMIT_US;
}

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    static const struct br_step_shape shape = {.fixed_s = .002, .read_s = .006, .kv_byte_s = 4e-13, .row_s = 2e-5};
    struct br_step_cost cost;
    (void)ctx, (void)device, (void)model;
    br_step_cost_init(&cost, &shape);
    return br_step_cost_s(&cost, decodes, kv_bytes, prefill);
}

/* ---- leader ---- */

struct leader {
    struct br_pool *pool;
    struct br_pl_actions did;
    struct br_rng rng;
    uint32_t n_devices, n_models, n_seqs;
    double now_s;
    struct times arrive, tick, told;
};

static void leader_tell(struct leader *l, struct times *t, struct br_pl_event event)
{
    int64_t begin = br_now_ns();
    br_pl_tell(l->pool, l->now_s, &event, &l->did);
    br_hist_add(&t->ns, (uint64_t)(br_now_ns() - begin));
}

static int leader_create(struct leader *l)
{
    struct br_pl_model *models = calloc(l->n_models, sizeof *models);
    struct br_pl_hardware *hw = calloc(l->n_devices, sizeof *hw);
    struct br_err err;
    if (!models || !hw)
        return -1;
    for (uint32_t i = 0; i < l->n_models; i++)
        models[i] = (struct br_pl_model){
            .weights_bytes = 15200000000, .kv_token_bytes = 57344, .ttft_s = 10, .tbt_s = .1, .rate = .1};
    for (uint32_t i = 0; i < l->n_devices; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = 71000000000, .link_bytes_per_s = 5e10};
    struct br_pl_config config = {.n_models = l->n_models,
                                  .n_devices = l->n_devices,
                                  .max_seqs = l->n_seqs,
                                  .models = models,
                                  .hardware = hw,
                                  .cost = {NULL, step_s},
                                  .options = {.policy = "slack", .hysteresis = .35, .mirror = true}};
    int rc = br_pl_create(&config, &l->pool, &err);
    free(models);
    free(hw);
    return rc;
}

static uint32_t leader_draw(struct leader *l, uint32_t n)
{
    return (uint32_t)(br_rng_next(&l->rng) * n);
}

/* A sequence ends and another arrives; devices tell of some tokens; a tick every 25 arrivals. */
static void leader_round(struct leader *l, uint32_t round)
{
    uint32_t seq = leader_draw(l, l->n_seqs), model = leader_draw(l, l->n_models);
    l->now_s += .01;
    leader_tell(l, &l->told, (struct br_pl_event){.kind = BR_PL_END, .seq = seq});
    leader_tell(l, &l->arrive, (struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = seq, .model = model, .prompt = 540});
    for (int i = 0; i < 20; i++) {
        uint32_t other = leader_draw(l, l->n_seqs);
        uint32_t delivered = l->pool->seqs[other].delivered + 1;
        leader_tell(l, &l->told, (struct br_pl_event){.kind = BR_PL_PROGRESS, .seq = other, .delivered = delivered});
    }
    if (round % 25 == 0)
        leader_tell(l, &l->tick, (struct br_pl_event){.kind = BR_PL_TICK});
}

static int leader_bench(uint32_t n_devices, uint32_t n_models, uint32_t n_seqs)
{
    static struct leader l;
    l = (struct leader){.n_devices = n_devices, .n_models = n_models, .n_seqs = n_seqs, .rng = {.seed = 1}};
    if (leader_create(&l) < 0)
        return 1;
    for (uint32_t i = 0; i < n_seqs; i++)
        leader_tell(&l, &l.arrive,
                    (struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = i, .model = i % n_models, .prompt = 540});
    l.arrive = times_of("arrival");
    l.tick = times_of("tick");
    l.told = times_of("told");
    for (uint32_t i = 0; i < ROUNDS / 4; i++)
        leader_round(&l, i);
    br_pl_destroy(l.pool);
    return times_print(&l.arrive, "leader") + times_print(&l.tick, "leader") + times_print(&l.told, "leader");
}

/* ---- worker ---- */

struct worker {
    struct br_dev *dev;
    struct br_dev_actions did;
    struct br_rng rng;
    uint32_t n_slots, n_seqs;
    uint32_t *slot_of; /* [n_seqs] */
    double now_s;
    struct times decide, told;
};

static void worker_tell(struct worker *w, struct times *t, struct br_dev_event event)
{
    int64_t begin = br_now_ns();
    br_dev_step(w->dev, w->now_s, &event, &w->did);
    br_hist_add(&t->ns, (uint64_t)(br_now_ns() - begin));
}

static int worker_create(struct worker *w)
{
    struct br_err err;
    struct br_dev_config config = {.policy = "slack",
                                   .memory_bytes = (int64_t)w->n_slots * 1000000000 + 70000000000,
                                   .link_bytes_per_s = 5e10,
                                   .max_slots = w->n_slots,
                                   .max_seqs = w->n_seqs,
                                   .max_batch = 128,
                                   .max_step_tokens = 2048,
                                   .prefill_chunk = 512,
                                   .quota_max_s = 4};
    w->slot_of = calloc(w->n_seqs, sizeof *w->slot_of);
    if (!w->slot_of || br_dev_create(&config, &w->dev, &err) < 0)
        return -1;
    for (uint32_t i = 0; i < w->n_slots; i++) {
        struct br_dev_event e = {BR_DEV_SLOT_ADD, .slot = i, .ttft_s = 10, .tbt_s = .1, .rate = .1};
        e.bytes_all = 1000000000;
        e.kv_token_bytes = 57344;
        e.shape = (struct br_step_shape){.fixed_s = .002, .read_s = .006, .kv_byte_s = 4e-13, .row_s = 2e-5};
        worker_tell(w, &w->told, e);
        worker_tell(w, &w->told,
                    (struct br_dev_event){BR_DEV_WEIGHTS, .slot = i, .bytes = 1000000000, .bytes_all = 1000000000});
    }
    return 0;
}

static void worker_arrive(struct worker *w, uint32_t seq)
{
    w->slot_of[seq] = (uint32_t)(br_rng_next(&w->rng) * w->n_slots);
    worker_tell(w, &w->told, (struct br_dev_event){BR_DEV_SEQ_ADD, .slot = w->slot_of[seq], .seq = seq, .tokens = 40});
}

/* What was asked for happens at once: loads, moves, the step; one in 50 tokens is a last one. */
static void worker_obey(struct worker *w, const struct br_dev_actions *did)
{
    for (uint32_t i = 0; i < did->n_actions; i++) {
        const struct br_dev_action *a = &did->actions[i];
        if (a->kind == BR_DO_SWAP_OUT || a->kind == BR_DO_SWAP_IN)
            worker_tell(
                w, &w->told,
                (struct br_dev_event){BR_DEV_KV, .seq = a->seq,
                                      .kv = a->kind == BR_DO_SWAP_IN ? BR_DEV_KV_ON_DEVICE : BR_DEV_KV_ON_HOST});
    }
    for (uint32_t i = 0; i < did->n_items; i++) {
        const struct br_dev_item *item = &did->items[i];
        worker_tell(
            w, &w->told,
            (struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = item->seq, .tokens = item->tokens, .emitted = item->last});
        if (item->last && br_rng_next(&w->rng) < .02) {
            worker_tell(w, &w->told, (struct br_dev_event){BR_DEV_SEQ_END, .seq = item->seq});
            worker_arrive(w, item->seq);
        }
    }
    if (did->n_items)
        worker_tell(w, &w->told,
                    (struct br_dev_event){BR_DEV_STEP_DONE, .slot = w->slot_of[did->items[0].seq], .step_s = .01});
}

static int worker_bench(const char *name, uint32_t n_slots, uint32_t n_seqs)
{
    static struct worker w;
    static struct br_dev_actions did;
    w = (struct worker){.n_slots = n_slots, .n_seqs = n_seqs, .rng = {.seed = 1}};
    if (worker_create(&w) < 0)
        return 1;
    for (uint32_t i = 0; i < n_seqs; i++)
        worker_arrive(&w, i);
    w.decide = times_of("boundary");
    w.told = times_of("told");
    for (uint32_t i = 0; i < ROUNDS / 10; i++) {
        w.now_s += .01;
        worker_tell(&w, &w.decide, (struct br_dev_event){.kind = BR_DEV_BOUNDARY});
        did = w.did;
        worker_obey(&w, &did);
    }
    br_dev_destroy(w.dev);
    free(w.slot_of);
    return times_print(&w.decide, name) + times_print(&w.told, name);
}

int main(int argc, char **argv)
{
    uint32_t devices = argc > 3 ? (uint32_t)atoi(argv[1]) : 1000, models = argc > 3 ? (uint32_t)atoi(argv[2]) : 1000;
    uint32_t seqs = argc > 3 ? (uint32_t)atoi(argv[3]) : 10000;
    int above = leader_bench(devices, models, seqs);
    printf("a device with 10 slots, 100 sequences; with 100 slots and all %u sequences\n", seqs);
    above += worker_bench("worker", 10, 100);
    above += worker_bench("worker", 100, seqs);
    return above > 0;
}
