/* 30000 random operations against a naive model that knows the owner and the content of every byte. */
#include <string.h>

#include "base/rng.h"
#include "kvcache/kvcache.h"
#include "tests/cmocka.h"

enum { SLAB = 960, DEVICE = 9 * SLAB, HOST = 6 * SLAB, SHAPES = 4, SEQS = 24, BLOCKS = 12, OPS = 30000 };

static const uint64_t BLOCK_BYTES[SHAPES] = {64, 100, 240, 959};

struct model_seq {
    bool used;
    int32_t handle;
    uint32_t shape, n_blocks;
    enum br_kv_where where;
    uint64_t device[BLOCKS], host[BLOCKS];
    uint8_t stamp; /* block i holds stamp + i */
};

struct model_swap {
    bool used, closed;
    struct br_kv_swap swap;
    struct model_seq seq; /* as it was at the start, with both sides' offsets */
    uint32_t index;
};

struct model {
    struct br_kv *kv;
    struct br_rng rng;
    uint32_t shapes[SHAPES];
    struct model_seq seqs[SEQS];
    struct model_swap swaps[SEQS];
    int16_t owner_device[DEVICE], owner_host[HOST]; /* 0: free, else a mark of the block's shape + 1 */
    uint8_t device[DEVICE], host[HOST];
    uint8_t next_stamp;
};

static uint32_t draw(struct model *m, uint32_t n)
{
    return (uint32_t)(br_rng_next(&m->rng) * n);
}

static void mark(int16_t *owner, uint64_t offset, uint32_t shape, bool take)
{
    for (uint64_t i = offset; i < offset + BLOCK_BYTES[shape]; i++) {
        assert_int_equal(owner[i], take ? 0 : (int)shape + 1);
        owner[i] = take ? (int16_t)(shape + 1) : 0;
    }
}

/* Free blocks of a shape by the definition: those of its own slabs and those of free slabs. */
static uint32_t model_free(const int16_t *owner, uint32_t slabs, uint32_t shape)
{
    uint32_t free = 0, per_slab = SLAB / (uint32_t)BLOCK_BYTES[shape];
    for (uint32_t s = 0; s < slabs; s++) {
        uint32_t bytes = 0, bound = 0;
        for (uint32_t i = 0; i < SLAB; i++)
            if (owner[s * SLAB + i]) {
                assert_true(!bound || bound == (uint32_t)owner[s * SLAB + i]); /* one shape a slab */
                bound = (uint32_t)owner[s * SLAB + i];
                bytes++;
            }
        if (!bound || bound == shape + 1)
            free += per_slab - bytes / (uint32_t)BLOCK_BYTES[shape];
    }
    return free;
}

static void content_verify(const struct model *m, const struct model_seq *s, const uint8_t *region, const uint64_t *at)
{
    (void)m;
    for (uint32_t b = 0; b < s->n_blocks; b++)
        for (uint64_t i = 0; i < BLOCK_BYTES[s->shape]; i++)
            assert_int_equal(region[at[b] + i], (uint8_t)(s->stamp + b));
}

static void op_open(struct model *m, struct model_seq *s)
{
    uint32_t shape = draw(m, SHAPES);
    struct br_err err;
    int32_t handle;
    int rc = br_kv_open(m->kv, m->shapes[shape], &handle, &err);
    if (rc) {
        assert_int_equal(rc, BR_ENOMEM); /* handles of those closed in flight */
        return;
    }
    m->next_stamp = (uint8_t)(m->next_stamp + 16);
    *s = (struct model_seq){.used = true, .handle = handle, .shape = shape, .stamp = m->next_stamp};
}

static void op_extend(struct model *m, struct model_seq *s)
{
    uint32_t tokens = draw(m, BLOCKS * BR_KV_TOKENS + 1), want = (tokens + 15) / 16;
    uint32_t more = want > s->n_blocks ? want - s->n_blocks : 0;
    bool fits = more <= model_free(m->owner_device, DEVICE / SLAB, s->shape);
    struct br_err err;
    int rc;
    assert_int_equal(br_kv_device_blocks_free(m->kv, m->shapes[s->shape]),
                     model_free(m->owner_device, DEVICE / SLAB, s->shape));
    if (s->where != BR_KV_EMPTY && s->where != BR_KV_DEVICE) {
        assert_false(br_kv_can_extend(m->kv, s->handle, tokens));
        return;
    }
    assert_int_equal(br_kv_can_extend(m->kv, s->handle, tokens), fits);
    rc = br_kv_extend(m->kv, s->handle, tokens, &err);
    assert_int_equal(rc, fits ? 0 : BR_ENOMEM);
    if (rc || !more)
        return;
    for (uint32_t i = s->n_blocks; i < want; i++) {
        s->device[i] = br_kv_block_offset(m->kv, s->handle, i);
        mark(m->owner_device, s->device[i], s->shape, true);
        memset(m->device + s->device[i], (uint8_t)(s->stamp + i), BLOCK_BYTES[s->shape]);
    }
    s->n_blocks = want;
    s->where = BR_KV_DEVICE;
}

static void give_back(int16_t *owner, const struct model_seq *s, const uint64_t *at)
{
    for (uint32_t i = 0; i < s->n_blocks; i++)
        mark(owner, at[i], s->shape, false);
}

static void op_drop_or_close(struct model *m, struct model_seq *s, bool close)
{
    bool flying = s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN;
    if (flying && !close)
        return;
    if (flying) {
        for (int i = 0; i < SEQS; i++)
            if (m->swaps[i].used && !m->swaps[i].closed && m->swaps[i].seq.handle == s->handle)
                m->swaps[i].closed = true;
    } else if (s->where == BR_KV_DEVICE) {
        content_verify(m, s, m->device, s->device);
        give_back(m->owner_device, s, s->device);
    } else if (s->where == BR_KV_HOST) {
        content_verify(m, s, m->host, s->host);
        give_back(m->owner_host, s, s->host);
    }
    if (close)
        br_kv_close(m->kv, s->handle);
    else
        br_kv_drop(m->kv, s->handle);
    s->n_blocks = 0;
    s->where = BR_KV_EMPTY;
    s->used = !close;
}

static struct model_swap *free_swap(struct model *m)
{
    for (int i = 0; i < SEQS; i++)
        if (!m->swaps[i].used)
            return &m->swaps[i];
    return NULL;
}

/* Splits the merged copies into blocks again; for a swap out the device side is known, for a swap in the host side. */
static void copies_expand(struct model *m, struct model_seq *s, const struct br_kv_swap *swap, bool out)
{
    uint32_t b = 0;
    for (uint32_t i = 0; i < swap->n_copies; i++) {
        assert_int_equal(swap->copies[i].bytes % BLOCK_BYTES[s->shape], 0);
        for (uint64_t at = 0; at < swap->copies[i].bytes; at += BLOCK_BYTES[s->shape], b++) {
            if (out)
                assert_int_equal(s->device[b], swap->copies[i].device + at);
            else
                assert_int_equal(s->host[b], swap->copies[i].host + at);
            s->device[b] = swap->copies[i].device + at;
            s->host[b] = swap->copies[i].host + at;
            if (out)
                mark(m->owner_host, s->host[b], s->shape, true);
            else
                mark(m->owner_device, s->device[b], s->shape, true);
        }
    }
    assert_int_equal(b, s->n_blocks);
}

static void op_swap(struct model *m, struct model_seq *s)
{
    bool out = s->where == BR_KV_DEVICE;
    struct model_swap *f = free_swap(m);
    struct br_err err;
    bool fits;
    int rc;
    if (!f || (!out && s->where != BR_KV_HOST))
        return;
    fits = s->n_blocks <= (out ? model_free(m->owner_host, HOST / SLAB, s->shape)
                               : model_free(m->owner_device, DEVICE / SLAB, s->shape));
    rc = out ? br_kv_swap_out(m->kv, s->handle, &f->swap, &err) : br_kv_swap_in(m->kv, s->handle, &f->swap, &err);
    assert_int_equal(rc, fits ? 0 : BR_ENOMEM);
    if (rc)
        return;
    copies_expand(m, s, &f->swap, out);
    s->where = out ? BR_KV_GOING_OUT : BR_KV_COMING_IN;
    f->used = true;
    f->closed = false;
    f->seq = *s;
    f->index = (uint32_t)(s - m->seqs);
}

static void op_done(struct model *m, struct model_swap *f)
{
    struct model_seq *s = &f->seq;
    bool out = s->where == BR_KV_GOING_OUT;
    for (uint32_t i = 0; i < f->swap.n_copies; i++) {
        const struct br_kv_copy *c = &f->swap.copies[i];
        if (out)
            memcpy(m->host + c->host, m->device + c->device, c->bytes);
        else
            memcpy(m->device + c->device, m->host + c->host, c->bytes);
    }
    br_kv_swap_done(m->kv, f->swap.ticket);
    f->used = false;
    if (out || f->closed)
        give_back(m->owner_device, s, s->device);
    if (!out || f->closed)
        give_back(m->owner_host, s, s->host);
    if (f->closed)
        return;
    m->seqs[f->index].where = out ? BR_KV_HOST : BR_KV_DEVICE;
}

static void model_verify(const struct model *m)
{
    struct br_err err = {0};
    struct br_kv_stats stats;
    uint64_t device = 0, host = 0;
    if (br_kv_check(m->kv, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < SEQS; i++) {
        const struct model_seq *s = &m->seqs[i];
        if (!s->used)
            continue;
        assert_int_equal(br_kv_where(m->kv, s->handle), s->where);
        assert_int_equal(br_kv_blocks(m->kv, s->handle), s->n_blocks);
        device += s->where == BR_KV_DEVICE ? s->n_blocks * BLOCK_BYTES[s->shape] : 0;
        host += s->where == BR_KV_HOST ? s->n_blocks * BLOCK_BYTES[s->shape] : 0;
    }
    br_kv_stats(m->kv, &stats);
    assert_int_equal(stats.device_bytes_owned, device);
    assert_int_equal(stats.host_bytes_owned, host);
}

static void op_random(struct model *m)
{
    struct model_seq *s = &m->seqs[draw(m, SEQS)];
    struct model_swap *f = &m->swaps[draw(m, SEQS)];
    uint32_t what = draw(m, 100);
    if (f->used && what < 50)
        op_done(m, f);
    if (!s->used)
        op_open(m, s);
    else if (what < 45)
        op_extend(m, s);
    else if (what < 85)
        op_swap(m, s);
    else
        op_drop_or_close(m, s, what >= 90);
}

static void model_create(struct model *m, uint64_t seed)
{
    struct br_kv_config config = {.device_bytes = DEVICE + 5,
                                  .host_bytes = HOST + 7,
                                  .slab_bytes = SLAB,
                                  .max_shapes = SHAPES,
                                  .max_seqs = SEQS,
                                  .max_blocks_per_seq = BLOCKS};
    struct br_err err;
    memset(m, 0, sizeof *m);
    m->rng.seed = seed;
    assert_int_equal(br_kv_create(&config, &m->kv, &err), 0);
    for (int i = 0; i < SHAPES; i++)
        assert_int_equal(br_kv_shape_add(m->kv, BLOCK_BYTES[i], &m->shapes[i], &err), 0);
}

static void random_operations(void **state)
{
    static struct model m;
    struct br_kv_stats stats;
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        model_create(&m, seed);
        for (int i = 0; i < OPS / 4; i++) {
            op_random(&m);
            model_verify(&m);
        }
        for (int i = 0; i < SEQS; i++)
            if (m.swaps[i].used)
                op_done(&m, &m.swaps[i]);
        for (int i = 0; i < SEQS; i++)
            if (m.seqs[i].used)
                op_drop_or_close(&m, &m.seqs[i], true);
        br_kv_stats(m.kv, &stats);
        assert_int_equal(stats.device_slabs_free, stats.device_slabs);
        assert_int_equal(stats.host_slabs_free, stats.host_slabs);
        br_kv_destroy(m.kv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
