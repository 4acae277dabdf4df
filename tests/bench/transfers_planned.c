/* Loads that the policy orders while another model computes: three models, memory for two. The first one always has
 * work; the others are asked in turns, so each time one has to come in where the other goes out. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/bench/transfers.h"
#include "worker/turn/turn.h"

enum { MODELS = 3, BUSY = 2, PROMPT = 16, ANSWER = 4, WARM = 4 };

static const uint64_t LINK = 1000000000;

struct listener {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint64_t last; /* sequence that ended last */
    uint64_t tokens;
};

static void on_output(void *ctx, const struct br_turn_output *out)
{
    struct listener *l = ctx;
    pthread_mutex_lock(&l->lock);
    l->tokens += out->n;
    if (out->end == BR_END_FAILED) {
        fprintf(stderr, "bench_transfers: %s\n", out->error);
        exit(1);
    }
    if (out->end != BR_END_NONE)
        l->last = out->seq;
    pthread_cond_broadcast(&l->ended);
    pthread_mutex_unlock(&l->lock);
}

static void ask(struct br_turn *turn, uint64_t id, const char *model, uint32_t answer)
{
    struct br_seq_spec spec;
    br_seq_spec_init(&spec);
    spec.id = id;
    snprintf(spec.model, sizeof spec.model, "%s", model);
    spec.n_prompt = PROMPT;
    spec.prompt = br_calloc(PROMPT, sizeof *spec.prompt);
    spec.max_tokens = answer;
    spec.ignore_eos = true;
    spec.sampling.temperature = 0;
    spec.ttft_s = 5;
    spec.tbt_s = .2;
    br_turn_add(turn, &spec, 1, NULL, 0, 0);
}

static void wait_end(struct listener *l, uint64_t id)
{
    pthread_mutex_lock(&l->lock);
    while (l->last != id)
        pthread_cond_wait(&l->ended, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

static struct br_turn *turn_open(const struct transfers *t, struct listener *l)
{
    static const char *const names[MODELS] = {"busy", "left", "right"};
    uint64_t weights = br_layout_total_bytes(&t->image->layout);
    struct br_turn_model models[MODELS];
    struct br_turn_cb cb = {.ctx = l, .output = on_output};
    struct br_turn_config config;
    struct br_turn *turn;
    struct br_err err;
    br_turn_config_init(&config);
    config.device.threads = t->threads;
    config.device.link_bytes_per_s = LINK;
    config.device.memory_bytes = 2 * weights + (48ull << 20);
    config.host_kv_bytes = 64 << 20;
    config.max_context = 4096;
    config.max_seqs = 64;
    for (int i = 0; i < MODELS; i++)
        models[i] = (struct br_turn_model){.name = names[i], .image = t->image};
    if (br_turn_create(&config, models, MODELS, &cb, &turn, &err)) {
        fprintf(stderr, "bench_transfers: %s\n", err.msg);
        exit(1);
    }
    return turn;
}

int transfers_planned(const struct transfers *t)
{
    struct listener l = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    struct br_turn *turn = turn_open(t, &l);
    struct br_turn_stats before = {0}, after;
    double load_s = (double)br_layout_total_bytes(&t->image->layout) / (double)LINK, loads;
    int rounds = 2 * t->rounds;
    for (uint64_t i = 0; i < BUSY; i++)
        ask(turn, 1 + i, "busy", 4000);
    for (int i = 0; i < WARM + rounds; i++) {
        if (i == WARM)
            br_turn_stats(turn, &before, NULL);
        ask(turn, 100 + (uint64_t)i, i % 2 ? "left" : "right", ANSWER);
        wait_end(&l, 100 + (uint64_t)i);
    }
    br_turn_stats(turn, &after, NULL);
    br_turn_destroy(turn);
    loads = (double)(after.loaded_bytes - before.loaded_bytes) / (double)br_layout_total_bytes(&t->image->layout);
    printf(
        "planned: %d questions, %.1f loads of %.0f ms, %lu of %lu switches found all weights there; nothing computed "
        "for %.1f ms of %.0f\n",
        rounds, loads, 1e3 * load_s, (unsigned long)(after.switch_hits - before.switch_hits),
        (unsigned long)(after.switches - before.switches), 1e3 * (after.stalled_s - before.stalled_s),
        1e3 * (after.wall_s - before.wall_s));
    printf("  of it waiting for weights %.1f, KV %.1f, room %.1f, compaction %.1f, other %.1f ms\n",
           1e3 * (after.stalled_weights_s - before.stalled_weights_s), 1e3 * (after.stalled_kv_s - before.stalled_kv_s),
           1e3 * (after.stalled_room_s - before.stalled_room_s),
           1e3 * (after.stalled_compaction_s - before.stalled_compaction_s),
           1e3 * (after.stalled_other_s - before.stalled_other_s));
    return bar("stall / load time", (after.stalled_s - before.stalled_s) / (loads * load_s), .03, false);
}
