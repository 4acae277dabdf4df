/* KV of sequences that go on on another device of the node: out into a parcel when the sequence leaves, in from one
 * right before its first rows. Whatever goes wrong on the way, the KV is computed instead, with the same bits. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/turn/internal.h"

enum { LEAST_TOKENS = 2 * BR_KV_TOKENS /* fewer are computed sooner than moved */ };
static const int64_t APPEAR_NS = 300 * BR_NS_PER_MS; /* until the other device has said anything */
static const int64_t COME_NS = 3 * BR_NS_PER_S;      /* until it is there */

/* One that goes out; its blocks stay owned until the copies are done. */
struct turn_hand_out {
    struct br_parcels *parcels;
    struct br_event *done; /* owned */
    int32_t kv, place;
    struct br_parcel_label label;
    unsigned char *data;
    const unsigned char **from; /* owned: blocks in host memory; NULL: copied from the device */
    uint32_t n_blocks;
};

/* Of the weights' content and layout, and of whatever else the bits of KV depend on. */
static uint64_t model_key(const struct br_turn *t, const struct turn_seq *s)
{
    uint64_t keys[] = {br_weight_image_key(t->models[s->slot].image),
                       XXH3_64bits(t->dev->numeric_profile, strlen(t->dev->numeric_profile))};
    return XXH3_64bits(keys, sizeof keys);
}

static uint64_t blocks_of(uint32_t tokens)
{
    return ((uint64_t)tokens + BR_KV_TOKENS - 1) / BR_KV_TOKENS;
}

/* ---- out ---- */

static void seal(void *arg)
{
    struct turn_hand_out *o = arg;
    for (uint32_t i = 0; o->from && i < o->n_blocks; i++)
        memcpy(o->data + i * o->label.block_bytes, o->from[i], o->label.block_bytes);
    br_parcel_seal(o->parcels, o->place, &o->label);
}

static void copy_out(struct br_turn *t, const struct turn_seq *s, struct turn_hand_out *o)
{
    uint64_t block = o->label.block_bytes;
    if (t->moving) /* a copy on the device may still write what is read here */
        t->dev->ops->event_wait(t->kv_out, t->moved);
    for (uint32_t i = 0; i < o->n_blocks; i++)
        t->dev->ops->copy(t->kv_out, BR_COPY_D2H, o->data + i * block,
                          (const void *)(uintptr_t)(t->dev->memory + br_kv_block_offset(t->kv, s->kv, i)), block);
}

static void out_start(struct br_turn *t, struct turn_seq *s, struct turn_hand_out *o)
{
    if (br_kv_where(t->kv, s->kv) == BR_KV_DEVICE) {
        copy_out(t, s, o);
    } else {
        o->from = br_calloc(o->n_blocks, sizeof *o->from);
        for (uint32_t i = 0; i < o->n_blocks; i++)
            o->from[i] = t->host_kv + br_kv_block_host_offset(t->kv, s->kv, i);
    }
    memcpy(o->data + o->n_blocks * o->label.block_bytes, s->ids, s->n_kv * sizeof *s->ids);
    if (t->dev->ops->stream_hold)
        t->dev->ops->stream_hold(t->kv_out, seal, o);
    t->dev->ops->event_record(o->done, t->kv_out);
    turn_notify(t, t->kv_out);
    br_kv_pin(t->kv, s->kv);
    o->kv = s->kv;
    s->kv = BR_KV_NONE;
    t->stats.handed_out_bytes += o->n_blocks * o->label.block_bytes;
}

static bool worth_it(const struct br_turn *t, const struct turn_seq *s)
{
    enum br_kv_where where = s->kv == BR_KV_NONE ? BR_KV_EMPTY : br_kv_where(t->kv, s->kv);
    return s->n_kv >= LEAST_TOKENS && t->n_outs < TURN_MAX_OUTS && (where == BR_KV_DEVICE || where == BR_KV_HOST);
}

void turn_hand_announce(struct br_turn *t, struct turn_seq *s, uint64_t seq)
{
    int32_t place = t->config.parcels ? br_parcel_announce(t->config.parcels, seq) : -1;
    if (s)
        s->hand_place = place + 1;
    else if (place >= 0)
        br_parcel_refuse(t->config.parcels, place);
}

void turn_hand_out(struct br_turn *t, struct turn_seq *s)
{
    int32_t place = s->hand_place - 1;
    struct turn_hand_out *o = NULL;
    struct br_err err;
    s->hand_place = 0;
    if (worth_it(t, s)) {
        o = br_calloc(1, sizeof *o);
        *o = (struct turn_hand_out){
            .parcels = t->config.parcels, .place = place, .n_blocks = (uint32_t)blocks_of(s->n_kv)};
        o->label = (struct br_parcel_label){s->id, model_key(t, s), t->models[s->slot].info.kv_block_bytes, s->n_kv};
        o->data = br_parcel_memory(o->parcels, place, o->n_blocks * o->label.block_bytes + s->n_kv * sizeof *s->ids);
    }
    if (!o || !o->data || t->dev->ops->event_create(t->dev, &o->done, &err)) {
        br_parcel_refuse(t->config.parcels, place);
        free(o);
        return;
    }
    t->outs[t->n_outs++] = o;
    out_start(t, s, o);
}

static void out_end(struct br_turn *t, uint32_t i)
{
    struct turn_hand_out *o = t->outs[i];
    t->outs[i] = t->outs[--t->n_outs];
    if (!t->dev->ops->stream_hold)
        seal(o);
    br_kv_unpin(t->kv, o->kv);
    br_kv_close(t->kv, o->kv);
    t->dev->ops->event_destroy(o->done);
    free(o->from);
    free(o);
    t->changed = true;
}

void turn_hand_release(struct br_turn *t)
{
    while (t->n_outs) {
        t->dev->ops->event_sync(t->outs[0]->done);
        out_end(t, 0);
    }
}

/* ---- in ---- */

void turn_hand_expect(struct br_turn *t, struct turn_seq *s, uint32_t from)
{
    if (!t->config.parcels || !from || s->n_ids <= LEAST_TOKENS)
        return;
    s->hand_from = from;
    s->hand_until_ns = br_now_ns() + APPEAR_NS;
    s->hand_waits = true;
    t->n_expected++;
}

static void waits_no_more(struct br_turn *t, struct turn_seq *s)
{
    t->n_expected -= s->hand_waits;
    s->hand_waits = false;
}

void turn_hand_forget(struct br_turn *t, struct turn_seq *s)
{
    waits_no_more(t, s);
    s->hand_from = 0;
}

/* Tokens of it that are this sequence's, in this model's KV: the other device may have been ahead of those that were
 * stored. One row at least is left to be computed, for the logits. */
static uint32_t usable(const struct br_turn *t, const struct turn_seq *s, const struct br_parcel *p)
{
    uint64_t block = t->models[s->slot].info.kv_block_bytes, blocks = blocks_of(p->label.tokens) * block;
    const int32_t *ids = (const int32_t *)(const void *)(p->data + blocks);
    uint32_t most = p->label.tokens < s->n_ids ? p->label.tokens : s->n_ids - 1, n = 0;
    if (p->label.model != model_key(t, s) || p->label.block_bytes != block ||
        blocks + p->label.tokens * sizeof *ids > p->bytes)
        return 0;
    while (n < most && ids[n] == s->ids[n])
        n++;
    return n < LEAST_TOKENS ? 0 : n;
}

/* True: it has come, or will; false: nothing is to be waited for any more. */
static bool look(struct br_turn *t, struct turn_seq *s, struct br_parcel *p, bool *here)
{
    enum br_parcel_state state = br_parcel_find(t->config.parcels, s->hand_from - 1, s->id, p);
    int64_t late_ns = br_now_ns() - s->hand_until_ns;
    *here = state == BR_PARCEL_HERE;
    if (*here)
        return (p->label.tokens = usable(t, s, p)) > 0;
    return state != BR_PARCEL_REFUSED && late_ns < (state == BR_PARCEL_COMING ? COME_NS : 0);
}

static void copy_in(struct br_turn *t, uint32_t index, const struct br_parcel *p)
{
    struct turn_seq *s = &t->seqs[index];
    uint64_t block = p->label.block_bytes;
    uint32_t n = (uint32_t)blocks_of(p->label.tokens);
    turn_room_settle(t, t->kv_in);
    for (uint32_t i = 0; i < n; i++)
        t->dev->ops->copy(t->kv_in, BR_COPY_H2D,
                          (void *)(uintptr_t)(t->dev->memory + br_kv_block_offset(t->kv, s->kv, i)),
                          p->data + i * block, block);
    t->dev->ops->event_record(t->handed, t->kv_in);
    t->dev->ops->event_sync(t->handed);
    s->n_kv = s->n_handed = p->label.tokens;
    t->stats.handed_in_bytes += n * block;
    t->stats.handed_tokens += p->label.tokens;
}

/* out->label.tokens: those that are of use. */
enum turn_hand turn_hand_look(struct br_turn *t, uint32_t index, struct br_parcel *out)
{
    struct turn_seq *s = &t->seqs[index];
    bool here;
    if (!s->hand_from)
        return HAND_NOTHING;
    if (s->n_kv == 0 && look(t, s, out, &here))
        return here ? HAND_HERE : HAND_COMING;
    turn_hand_forget(t, s);
    return HAND_NOTHING;
}

/* The device has nothing else to do: no step runs while one is put together. So the copy is waited for, and nobody has
 * to know of blocks that are still written to. */
void turn_hand_in(struct br_turn *t, uint32_t index, const struct br_parcel *p)
{
    struct turn_seq *s = &t->seqs[index];
    int64_t from_ns = br_now_ns();
    turn_hand_forget(t, s);
    if (!br_parcel_verify(t->config.parcels, p)) {
        br_log(BR_WARN, "kv_parcel_damaged", "seq=%" PRIu64 " device=%u tokens=%u effect=\"computed again\"", s->id,
               p->device, p->label.tokens);
        t->stats.handed_damaged++;
        return;
    }
    if (!br_parcel_take(t->config.parcels, p))
        return;
    copy_in(t, index, p);
    br_parcel_done(t->config.parcels, p);
    t->stats.handed_in_s += (double)(br_now_ns() - from_ns) / 1e9;
}

static void expected_poll(struct br_turn *t, uint32_t index)
{
    struct br_parcel parcel;
    if (turn_hand_look(t, index, &parcel) == HAND_COMING)
        return;
    waits_no_more(t, &t->seqs[index]);
    t->changed = true;
}

void turn_hand_poll(struct br_turn *t)
{
    for (uint32_t i = t->n_outs; i-- > 0;)
        if (t->dev->ops->event_done(t->outs[i]->done))
            out_end(t, i);
    for (uint32_t i = 0; t->n_expected && i < t->config.max_seqs; i++)
        if (t->seqs[i].hand_waits)
            expected_poll(t, i);
}
