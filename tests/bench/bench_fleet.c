/* core/fleet as the service drives it: an event for every sequence's token, now and then something else. */
#include "tests/bench/bench_fleet.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/rng.h"
#include "scheduler/core/fleet.h"

enum { LIMIT_NS = 50000, MODELS_PER_DEVICE = 40, EVENTS = 500000 };

struct bench {
    uint32_t devices, models, seqs;
    struct br_fleet *fleet;
    struct br_fleet_actions *did;
    uint32_t *of_model, *delivered; /* [seqs] */
    double now_s;
    struct br_rng rng;
    uint64_t moves;
};

struct kind {
    const char *name;
    struct br_hist hist;
};

static uint32_t draw(struct bench *b, uint32_t n)
{
    return (uint32_t)(br_rng_next(&b->rng) * n);
}

static void step(struct bench *b, struct br_fleet_event event, struct kind *kind)
{
    int64_t from = br_now_ns();
    br_fleet_step(b->fleet, b->now_s, &event, b->did);
    if (kind)
        br_hist_add(&kind->hist, (uint64_t)(br_now_ns() - from));
    for (uint32_t i = 0; i < b->did->n; i++)
        b->moves += b->did->actions[i].kind == BR_FLEET_MOVE;
}

/* It may run a stretch of the models, as with their weights in its node's host memory. */
static void device_open(struct bench *b, uint32_t d)
{
    step(b,
         (struct br_fleet_event){.kind = BR_FLEET_DEVICE_UP,
                                 .device = d,
                                 .node = d / 8,
                                 .memory_bytes = 86ll << 30,
                                 .link_bytes_per_s = 5e10},
         NULL);
    for (uint32_t i = 0; i < MODELS_PER_DEVICE; i++)
        step(b,
             (struct br_fleet_event){.kind = BR_FLEET_MODEL_ON,
                                     .device = d,
                                     .model = (d * 7 + i * 25) % b->models,
                                     .weights_bytes = 15ll << 30,
                                     .kv_token_bytes = 57344,
                                     .shape = {.0015, .03, 3e-13, 2e-5}},
             NULL);
}

static void arrive(struct bench *b, uint32_t seq, struct kind *kind)
{
    b->of_model[seq] = draw(b, b->models);
    b->delivered[seq] = 0;
    step(b,
         (struct br_fleet_event){
             .kind = BR_FLEET_ARRIVE, .seq = seq, .model = b->of_model[seq], .prompt = 16 + draw(b, 2000)},
         kind);
}

enum { ARRIVE, END, TOKENS, TICK, RESIDENT, ADMITS, DOWN, KINDS };

static void admits(struct bench *b, struct kind *kind)
{
    uint32_t model = draw(b, b->models);
    int64_t from = br_now_ns();
    br_fleet_admits(b->fleet, b->now_s, &(struct br_fleet_request){.model = model, .n_seqs = 1, .prompt = 500});
    br_hist_add(&kind->hist, (uint64_t)(br_now_ns() - from));
}

/* As in service: for each sequence's token an event, and now and then something else. */
static void event(struct bench *b, struct kind kinds[KINDS])
{
    uint32_t seq = draw(b, b->seqs), what = draw(b, 100);
    b->now_s += 1e-4;
    if (draw(b, 5000) == 0) { /* a device is lost and comes back empty: what it ran moves away, something comes to it */
        uint32_t d = draw(b, b->devices);
        step(b, (struct br_fleet_event){.kind = BR_FLEET_DEVICE_DOWN, .device = d}, &kinds[DOWN]);
        device_open(b, d);
    }
    if (what < 5) {
        step(b, (struct br_fleet_event){.kind = BR_FLEET_END, .seq = seq}, &kinds[END]);
        admits(b, &kinds[ADMITS]);
        arrive(b, seq, &kinds[ARRIVE]);
    } else if (what < 8)
        step(b, (struct br_fleet_event){.kind = BR_FLEET_TICK}, &kinds[TICK]);
    else if (what < 12)
        step(b,
             (struct br_fleet_event){.kind = BR_FLEET_RESIDENT,
                                     .device = draw(b, b->devices),
                                     .model = draw(b, b->models),
                                     .bytes = (int64_t)draw(b, 15) << 30},
             &kinds[RESIDENT]);
    else
        step(b, (struct br_fleet_event){.kind = BR_FLEET_TOKENS, .seq = seq, .delivered = ++b->delivered[seq]},
             &kinds[TOKENS]);
}

static double us(const struct br_hist *hist, double p)
{
    return (double)br_hist_quantile(hist, p) / 1000;
}

static int report(const struct bench *b, const struct kind kinds[KINDS])
{
    static struct br_hist all;
    br_hist_init(&all);
    printf("the leader with all its books (core/fleet): %u devices, %u models, %u sequences\n", b->devices, b->models,
           b->seqs);
    for (int k = 0; k < KINDS; k++) {
        br_hist_merge(&all, &kinds[k].hist);
        printf("fleet   %-9s %8lu times  p50 %6.1f us  p99 %6.1f us  worst %8.1f us\n", kinds[k].name,
               kinds[k].hist.total, us(&kinds[k].hist, .5), us(&kinds[k].hist, .99), us(&kinds[k].hist, 1));
    }
    printf("fleet   %-9s %8lu times  p50 %6.1f us  p99 %6.1f us  worst %8.1f us (%lu moves)\n", "all", all.total,
           us(&all, .5), us(&all, .99), us(&all, 1), b->moves);
    return br_hist_quantile(&all, .99) > LIMIT_NS;
}

static int bench_open(struct bench *b, struct br_err *err)
{
    struct br_fleet_config config = {.max_devices = b->devices,
                                     .max_models = b->models,
                                     .max_seqs = b->seqs,
                                     .max_unfinished = b->seqs,
                                     .max_nodes = b->devices / 8 + 1,
                                     .admission = true};
    b->did = calloc(1, sizeof *b->did);
    b->of_model = calloc(b->seqs, sizeof *b->of_model);
    b->delivered = calloc(b->seqs, sizeof *b->delivered);
    if (!b->did || !b->of_model || !b->delivered)
        return br_err_set(err, BR_ENOMEM, "no memory");
    return br_fleet_create(&config, &b->fleet, err);
}

int bench_fleet(uint32_t n_devices, uint32_t n_models, uint32_t n_seqs)
{
    static struct kind kinds[KINDS] = {{.name = "arrive"},   {.name = "end"},    {.name = "tokens"}, {.name = "tick"},
                                       {.name = "resident"}, {.name = "admits"}, {.name = "down"}};
    struct bench b = {.devices = n_devices, .models = n_models, .seqs = n_seqs, .rng = {.seed = 1}};
    struct br_err err;
    if (bench_open(&b, &err)) {
        fprintf(stderr, "bench_fleet: %s\n", err.msg);
        return 1;
    }
    for (int k = 0; k < KINDS; k++)
        br_hist_init(&kinds[k].hist);
    for (uint32_t d = 0; d < b.devices; d++)
        device_open(&b, d);
    for (uint32_t i = 0; i < b.seqs; i++)
        arrive(&b, i, NULL);
    for (uint32_t i = 0; i < EVENTS; i++)
        event(&b, kinds);
    int rc = report(&b, kinds);
    br_fleet_destroy(b.fleet);
    free(b.did);
    free(b.of_model);
    free(b.delivered);
    return rc;
}
