#include "chaos_core.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "scheduler/core/device.h"

struct chaos_seq {
    bool used, paused;
    uint32_t slot, left;
    enum br_dev_kv kv;
    bool asked; /* for a swap-in that has not been answered */
    uint64_t arrival;
};

struct chaos_slot {
    bool used, loading; /* loading: a LOAD that has not been answered */
    uint64_t bytes, all;
};

struct br_dev {
    struct br_dev_config config;
    struct chaos_slot *slots;
    struct chaos_seq *seqs;
    uint64_t n_arrivals;
    int32_t stepping;
};

static struct br_rng g_rng;
static struct chaos_counts g_counts;

void chaos_seed(uint64_t seed)
{
    g_rng = (struct br_rng){.seed = seed};
    g_counts = (struct chaos_counts){0};
}

struct chaos_counts chaos_counts(void)
{
    return g_counts;
}

static bool chance(double p)
{
    return br_rng_next(&g_rng) < p;
}

static uint32_t below(uint64_t n)
{
    return (uint32_t)((double)n * br_rng_next(&g_rng));
}

int br_dev_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    (void)err;
    *out = br_calloc(1, sizeof **out);
    (*out)->config = *config;
    (*out)->slots = br_calloc(config->max_slots, sizeof *(*out)->slots);
    (*out)->seqs = br_calloc(config->max_seqs, sizeof *(*out)->seqs);
    (*out)->stepping = -1;
    return 0;
}

void br_dev_destroy(struct br_dev *dev)
{
    free(dev->slots);
    free(dev->seqs);
    free(dev);
}

static struct br_dev_action *act(struct br_dev_actions *a, enum br_dev_action_kind kind, uint32_t slot, uint32_t seq)
{
    assert(a->n_actions < BR_DEV_MAX_ACTIONS);
    a->actions[a->n_actions] = (struct br_dev_action){.kind = kind, .slot = slot, .seq = seq};
    return &a->actions[a->n_actions++];
}

static bool runnable(const struct chaos_seq *q, uint32_t slot)
{
    return q->used && !q->paused && q->slot == slot && (q->kv == BR_DEV_KV_NONE || q->kv == BR_DEV_KV_ON_DEVICE);
}

static bool slot_runnable(const struct br_dev *dev, uint32_t slot)
{
    for (uint32_t i = 0; i < dev->config.max_seqs; i++)
        if (runnable(&dev->seqs[i], slot))
            return true;
    return false;
}

static int32_t slot_choose(const struct br_dev *dev)
{
    uint32_t from = below(dev->config.max_slots);
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        uint32_t slot = (from + i) % dev->config.max_slots;
        if (dev->slots[slot].used && slot_runnable(dev, slot))
            return (int32_t)slot;
    }
    return -1;
}

/* Weights and KV of all slots but `but` go and come. */
static void shuffle(struct br_dev *dev, int32_t but, struct br_dev_actions *a)
{
    for (uint32_t i = 0; i < dev->config.max_seqs && a->n_actions < BR_DEV_MAX_ACTIONS / 2; i++) {
        struct chaos_seq *q = &dev->seqs[i];
        if (!q->used)
            continue;
        if (q->kv == BR_DEV_KV_ON_HOST && !q->asked && chance(.5)) {
            act(a, BR_DO_SWAP_IN, q->slot, i);
            q->asked = true;
            g_counts.swaps_in++;
        } else if (q->kv == BR_DEV_KV_ON_DEVICE && (int32_t)q->slot != but && chance(.04)) {
            bool drop = chance(.05);
            act(a, drop ? BR_DO_DROP : BR_DO_SWAP_OUT, q->slot, i);
            q->kv = BR_DEV_KV_MOVING;
            *(drop ? &g_counts.drops : &g_counts.swaps_out) += 1;
        }
    }
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        struct chaos_slot *s = &dev->slots[i];
        if (!s->used || (int32_t)i == but || s->loading)
            continue;
        if (s->bytes && chance(.06)) {
            act(a, BR_DO_EVICT, i, 0)->bytes = 1 + below(s->all);
            g_counts.evicts++;
        } else if (s->bytes < s->all && chance(.3)) {
            act(a, BR_DO_LOAD, i, 0)->bytes = 1 + below(s->all);
            s->loading = true;
            g_counts.loads++;
        }
    }
}

static void compose(struct br_dev *dev, uint32_t slot, struct br_dev_actions *a)
{
    uint32_t rows = dev->config.max_step_tokens, from = below(dev->config.max_seqs);
    for (uint32_t k = 0; k < dev->config.max_seqs && rows && a->n_items < dev->config.max_batch; k++) {
        uint32_t i = (from + k) % dev->config.max_seqs, n;
        const struct chaos_seq *q = &dev->seqs[i];
        if (!runnable(q, slot) || (a->n_items && chance(.3)))
            continue;
        n = q->left > 1 ? 1 + below(q->left) : 1;
        n = n > dev->config.prefill_chunk ? dev->config.prefill_chunk : n;
        n = n > rows ? rows : n;
        a->items[a->n_items++] = (struct br_dev_item){i, n, n == (q->left ? q->left : 1)};
        rows -= n;
    }
}

static void boundary(struct br_dev *dev, double now_s, struct br_dev_actions *a)
{
    int32_t slot = chance(.9) ? slot_choose(dev) : -1;
    dev->stepping = -1;
    a->wake_s = now_s + .0002;
    shuffle(dev, slot, a);
    if (slot < 0)
        return;
    if (dev->slots[slot].bytes < dev->slots[slot].all && chance(.8)) {
        act(a, BR_DO_LOAD, (uint32_t)slot, 0)->bytes = dev->slots[slot].all;
        dev->slots[slot].loading = true;
    }
    compose(dev, (uint32_t)slot, a);
    act(a, BR_DO_STEP, (uint32_t)slot, 0);
    dev->stepping = slot; /* until STEP_DONE, or the next boundary if it could not run */
    g_counts.steps++;
}

static void seq_event(struct br_dev *dev, const struct br_dev_event *e)
{
    struct chaos_seq *q = &dev->seqs[e->seq];
    switch (e->kind) {
    case BR_DEV_SEQ_ADD:
        *q = (struct chaos_seq){.used = true, .slot = e->slot, .left = e->tokens, .arrival = dev->n_arrivals++};
        break;
    case BR_DEV_SEQ_END:
        q->used = false;
        break;
    case BR_DEV_SEQ_RESET:
        q->left = e->tokens;
        q->kv = BR_DEV_KV_NONE;
        break;
    case BR_DEV_SEQ_STEPPED:
        assert(q->used && (int32_t)q->slot == dev->stepping);
        q->kv = BR_DEV_KV_ON_DEVICE;
        q->left = q->left > e->tokens ? q->left - e->tokens : 0;
        break;
    case BR_DEV_SEQ_FOUND:
        assert(q->used && e->tokens && e->tokens < q->left);
        q->kv = BR_DEV_KV_ON_DEVICE;
        q->left -= e->tokens;
        break;
    case BR_DEV_KV:
        q->kv = e->kv;
        q->asked = false;
        break;
    default:
        q->paused = e->kind == BR_DEV_SEQ_PAUSE;
    }
}

void br_dev_step(struct br_dev *dev, double now_s, const struct br_dev_event *e, struct br_dev_actions *a)
{
    struct chaos_slot *s = &dev->slots[e->slot];
    a->n_actions = a->n_items = 0;
    a->wake_s = -1;
    switch (e->kind) {
    case BR_DEV_SLOT_ADD:
        assert(e->bytes_all && e->kv_token_bytes && e->shape.row_s > 0 && e->shape.read_s > 0 && e->ttft_s > 0);
        s->used = true;
        break;
    case BR_DEV_WEIGHTS:
        assert(e->bytes <= e->bytes_all);
        s->bytes = e->bytes;
        s->all = e->bytes_all;
        break;
    case BR_DEV_LOADED:
        s->loading = false;
        g_counts.partial_loads += s->bytes < s->all;
        break;
    case BR_DEV_STEP_DONE:
        assert(dev->stepping == (int32_t)e->slot && e->step_s > 0);
        g_counts.waited += e->waited;
        dev->stepping = -1;
        break;
    case BR_DEV_BOUNDARY:
        boundary(dev, now_s, a);
        break;
    case BR_DEV_BESIDE:
        assert(dev->stepping >= 0);
        g_counts.besides++;
        if (chance(.25)) /* not so often that sequences never get on */
            shuffle(dev, dev->stepping, a);
        break;
    case BR_DEV_SLOT_REMOVE:
        s->used = false;
        break;
    default:
        seq_event(dev, e);
    }
}

int32_t br_dev_weights_victim(const struct br_dev *dev, uint32_t target)
{
    uint32_t from = below(dev->config.max_slots);
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        uint32_t slot = (from + i) % dev->config.max_slots;
        if (slot == target || (int32_t)slot == dev->stepping || !dev->slots[slot].bytes)
            continue;
        g_counts.victims++;
        return (int32_t)slot;
    }
    return -1;
}

int32_t br_dev_kv_victim(const struct br_dev *dev, uint32_t target, uint32_t keep)
{
    int32_t own = -1;
    for (uint32_t i = 0; i < dev->config.max_seqs; i++) {
        const struct chaos_seq *q = &dev->seqs[i];
        if (!q->used || q->kv != BR_DEV_KV_ON_DEVICE || i == keep)
            continue;
        if (q->slot != target)
            return (int32_t)i;
        if (own < 0 || q->arrival > dev->seqs[own].arrival)
            own = (int32_t)i;
    }
    if (own >= 0 && keep < dev->config.max_seqs && dev->seqs[keep].used && dev->seqs[keep].kv != BR_DEV_KV_ON_DEVICE &&
        dev->seqs[own].arrival < dev->seqs[keep].arrival)
        return -1;
    return own;
}

bool br_dev_shape(const struct br_dev *dev, uint32_t slot, struct br_step_shape *shape)
{
    (void)dev, (void)slot, (void)shape;
    return false;
}

int32_t br_dev_next_slot(const struct br_dev *dev)
{
    (void)dev;
    return -1;
}

int br_dev_check(const struct br_dev *dev, struct br_err *err)
{
    (void)dev, (void)err;
    return 0;
}
