/* Random operations of every kind against the naive model: test_kvcache_model [OPERATIONS [SEED]] */
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/kvcache/kv_model.h"

static uint64_t operations = 200000, first_seed = 1;

static bool moving(const struct model_seq *s)
{
    return s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN || s->where == BR_KV_GOING_TO_DISK ||
           s->where == BR_KV_COMING_FROM_DISK;
}

static struct model_seq *unused(struct model *m)
{
    for (int i = 0; i < SEQS; i++)
        if (!m->seqs[i].used)
            return &m->seqs[i];
    return NULL;
}

static void op_open(struct model *m)
{
    struct model_seq *s = unused(m);
    uint32_t shape = model_draw(m, SHAPES);
    struct br_err err;
    int32_t handle;
    int rc = br_kv_open(m->kv, m->shapes[shape], &handle, &err);
    assert_int_equal(rc, s ? 0 : BR_ENOMEM);
    if (s)
        *s = (struct model_seq){.used = true, .handle = handle, .shape = shape, .where = BR_KV_EMPTY};
}

/* Blocks that are neither referred to nor in the index: what an extension may take before it evicts anything. */
static uint32_t strictly_free(struct model *m, uint32_t shape)
{
    for (uint32_t i = 0; i < m->n_known; i++)
        model_stay(m, KV_DEVICE, m->known[i].shape, model_found(m, KV_DEVICE, m->known[i].shape, m->known[i].content));
    return model_room(m, KV_DEVICE, shape);
}

static void op_extend(struct model *m, struct model_seq *s)
{
    uint32_t tokens = model_draw(m, BLOCKS * BR_KV_TOKENS + 1), want = (tokens + 15) / 16, more, room, spare;
    uint64_t evicted = m->kv->n_evicted;
    struct br_err err;
    if (s->where != BR_KV_EMPTY && s->where != BR_KV_DEVICE)
        return;
    more = want > s->n ? want - s->n : 0;
    model_stays(m);
    room = model_room(m, KV_DEVICE, s->shape);
    spare = strictly_free(m, s->shape);
    assert_int_equal(br_kv_device_blocks_free(m->kv, m->shapes[s->shape]), room);
    assert_int_equal(br_kv_can_extend(m->kv, s->handle, tokens), more <= room);
    assert_int_equal(br_kv_extend(m->kv, s->handle, tokens, &err), more <= room ? 0 : BR_ENOMEM);
    if (more > room || !more)
        return;
    if (more <= spare)
        assert_int_equal(m->kv->n_evicted, evicted);
    s->where = BR_KV_DEVICE;
    for (; s->n < want; s->n++) {
        s->content[s->n] = ++m->next_content;
        model_write(m, KV_DEVICE, s->shape, model_cell(m, s, KV_DEVICE, s->n), s->content[s->n]);
    }
}

/* The index is to know only what the model knows, so what the model forgets is used up in the index first. */
static void known_add(struct model *m, uint32_t shape, uint32_t content)
{
    uint32_t at = m->n_known < KNOWN ? m->n_known++ : model_draw(m, KNOWN);
    m->known[at].content = content;
    m->known[at].shape = shape;
}

static void op_publish(struct model *m, struct model_seq *s)
{
    uint32_t i;
    struct br_kv_key key;
    if (s->where != BR_KV_DEVICE || m->n_known == KNOWN)
        return;
    i = model_draw(m, s->n);
    key = model_key(s->content[i]);
    if (model_found(m, KV_DEVICE, s->shape, s->content[i]) == UINT32_MAX)
        known_add(m, s->shape, s->content[i]);
    br_kv_publish(m->kv, s->handle, i, &key, 1);
    assert_true(model_found(m, KV_DEVICE, s->shape, s->content[i]) != UINT32_MAX);
}

/* Contents that no tier knows any more are forgotten. */
static void known_clean(struct model *m)
{
    for (uint32_t i = m->n_known; i-- > 0;) {
        bool there = false;
        for (enum kv_tier tier = 0; tier < KV_TIERS; tier++)
            there = there || model_found(m, tier, m->known[i].shape, m->known[i].content) != UINT32_MAX;
        if (!there)
            m->known[i] = m->known[--m->n_known];
    }
}

static void op_adopt(struct model *m, struct model_seq *s, bool host)
{
    enum kv_tier to = host ? KV_HOST : KV_DEVICE, from = host ? KV_DISK : KV_HOST;
    struct br_kv_key keys[BLOCKS];
    uint32_t content[BLOCKS], n = model_draw(m, BLOCKS) + 1, far = 0, k = 0;
    struct br_kv_swap swap;
    struct br_err err;
    bool gone = false;
    int want;
    if (s->where != BR_KV_EMPTY)
        return;
    model_stays(m);
    for (uint32_t tries = 0; k < n && tries < 40 && m->n_known; tries++) {
        uint32_t i = model_draw(m, m->n_known);
        uint32_t near_cell = model_found(m, to, s->shape, m->known[i].content);
        uint32_t far_cell = model_found(m, from, s->shape, m->known[i].content);
        if (m->known[i].shape != s->shape || (near_cell == UINT32_MAX && far_cell == UINT32_MAX && model_draw(m, 20)))
            continue;
        content[k] = m->known[i].content;
        keys[k++] = model_key(m->known[i].content);
        gone = gone || (near_cell == UINT32_MAX && far_cell == UINT32_MAX);
        far += near_cell == UINT32_MAX;
        model_stay(m, to, s->shape, near_cell);
    }
    want = gone ? BR_ENOENT : far > model_room(m, to, s->shape) ? BR_ENOMEM : 0;
    assert_int_equal((host ? br_kv_adopt_host : br_kv_adopt)(m->kv, s->handle, keys, k, &swap, &err), want);
    if (want || !k)
        return;
    s->n = k;
    memcpy(s->content, content, sizeof content);
    s->swap = swap;
    assert_int_equal(swap.ticket, far ? s->handle : BR_KV_NONE);
    if (far)
        s->where = host ? BR_KV_COMING_FROM_DISK : BR_KV_COMING_IN;
    else
        s->where = host ? BR_KV_HOST : BR_KV_DEVICE;
}

static void op_fork(struct model *m, const struct model_seq *parent)
{
    struct model_seq *s = unused(m);
    struct br_err err;
    int32_t child;
    if (!s || (parent->where != BR_KV_DEVICE && parent->where != BR_KV_EMPTY))
        return;
    assert_int_equal(br_kv_fork(m->kv, parent->handle, &child, &err), 0);
    *s = *parent;
    s->handle = child;
    s->pins = 0;
}

static uint32_t references(const struct model *m, uint32_t cell)
{
    uint32_t n = 0;
    for (int i = 0; i < SEQS; i++)
        for (uint32_t b = 0; m->seqs[i].used && b < m->seqs[i].n; b++)
            n += model_cell(m, &m->seqs[i], KV_DEVICE, b) == cell;
    return n;
}

/* The sequence writes from a token of its last block on. */
static void op_write(struct model *m, struct model_seq *s)
{
    struct br_kv_moves moves = {.ticket = BR_KV_NONE};
    uint32_t last, cell, token;
    struct br_err err;
    bool shared;
    int want;
    if (s->where != BR_KV_DEVICE || m->n_tickets == TICKETS || m->n_copies + 1 > COPIES)
        return;
    last = s->n - 1;
    cell = model_cell(m, s, KV_DEVICE, last);
    token = last * BR_KV_TOKENS + model_draw(m, BR_KV_TOKENS);
    shared = references(m, cell) > 1 || model_found(m, KV_DEVICE, s->shape, s->content[last]) == cell;
    model_stays(m);
    want = shared && !model_room(m, KV_DEVICE, s->shape) ? BR_ENOMEM : 0;
    assert_int_equal(br_kv_make_writable(m->kv, s->handle, token, &moves, &err), want);
    if (want)
        return;
    assert_int_equal(moves.n_moves, shared && token % BR_KV_TOKENS);
    assert_int_equal(model_cell(m, s, KV_DEVICE, last) == cell, !shared);
    model_copies_add(m, &moves);
    while (m->n_tickets && model_copying(m, model_cell(m, s, KV_DEVICE, last), 1))
        model_copies_finish(m); /* the write follows the copies on the stream */
    s->content[last] = ++m->next_content;
    model_write(m, KV_DEVICE, s->shape, model_cell(m, s, KV_DEVICE, last), s->content[last]);
}

static bool copying(const struct model *m, const struct model_seq *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (model_copying(m, model_cell(m, s, KV_DEVICE, i), 1))
            return true;
    return false;
}

/* What of the sequence has to be copied: all that `to` does not know by the key by which `from` knows it. */
static uint32_t to_copy(struct model *m, const struct model_seq *s, enum kv_tier from, enum kv_tier to)
{
    uint32_t n = 0;
    model_stays(m);
    for (uint32_t i = 0; i < s->n; i++) {
        bool known = model_found(m, from, s->shape, s->content[i]) == model_cell(m, s, from, i);
        uint32_t cell = known ? model_found(m, to, s->shape, s->content[i]) : UINT32_MAX;
        model_stay(m, to, s->shape, cell);
        n += cell == UINT32_MAX;
    }
    return n;
}

static uint64_t swap_bytes(const struct br_kv_swap *swap)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < swap->n_copies; i++)
        bytes += swap->copies[i].bytes;
    return bytes;
}

static void op_swap(struct model *m, struct model_seq *s)
{
    static int (*const calls[])(struct br_kv *, int32_t, struct br_kv_swap *,
                                struct br_err *) = {br_kv_swap_out, br_kv_swap_in, br_kv_to_disk, br_kv_from_disk};
    static const enum br_kv_where during[] = {BR_KV_GOING_OUT, BR_KV_COMING_IN, BR_KV_GOING_TO_DISK,
                                              BR_KV_COMING_FROM_DISK};
    static const enum kv_tier from[] = {KV_DEVICE, KV_HOST, KV_HOST, KV_DISK},
                              to[] = {KV_HOST, KV_DEVICE, KV_DISK, KV_HOST};
    uint32_t way, n;
    struct br_err err;
    int want;
    if (moving(s) || s->where == BR_KV_EMPTY || s->pins)
        return;
    way = s->where == BR_KV_DEVICE ? 0 : s->where == BR_KV_DISK ? 3 : 1 + model_draw(m, 2);
    n = to_copy(m, s, from[way], to[way]);
    want = n <= model_room(m, to[way], s->shape) ? 0 : BR_ENOMEM;
    if (way == 0 && copying(m, s))
        want = BR_EBUSY;
    assert_int_equal(calls[way](m->kv, s->handle, &s->swap, &err), want);
    if (want)
        return;
    assert_int_equal(swap_bytes(&s->swap), (uint64_t)n * model_cells(s->shape) * CELL);
    s->where = during[way];
}

static void op_done(struct model *m, struct model_seq *s)
{
    bool disk = s->where == BR_KV_GOING_TO_DISK || s->where == BR_KV_COMING_FROM_DISK;
    bool down = s->where == BR_KV_GOING_TO_DISK || s->where == BR_KV_GOING_OUT;
    enum kv_tier near = disk ? KV_HOST : KV_DEVICE, far = disk ? KV_DISK : KV_HOST;
    enum kv_tier from = down ? near : far, to = down ? far : near;
    for (uint32_t i = 0; i < s->swap.n_copies; i++) {
        const struct br_kv_copy *c = &s->swap.copies[i];
        uint64_t source = from == KV_DEVICE ? c->device : from == KV_HOST ? c->host : c->disk;
        uint64_t target = to == KV_DEVICE ? c->device : to == KV_HOST ? c->host : c->disk;
        assert_true(to != KV_DEVICE || !model_copying(m, (uint32_t)(target / CELL), (uint32_t)(c->bytes / CELL)));
        memcpy(&m->memory[to][target / CELL], &m->memory[from][source / CELL], c->bytes / CELL * sizeof(uint32_t));
    }
    br_kv_swap_done(m->kv, s->swap.ticket);
    s->where = to == KV_DEVICE ? BR_KV_DEVICE : to == KV_HOST ? BR_KV_HOST : BR_KV_DISK;
    s->used = !s->closed;
}

static void op_drop_or_close(struct model *m, struct model_seq *s, bool close)
{
    if (moving(s) && !close)
        return;
    while (s->pins) {
        br_kv_unpin(m->kv, s->handle);
        s->pins--;
    }
    if (close)
        br_kv_close(m->kv, s->handle);
    else
        br_kv_drop(m->kv, s->handle);
    s->closed = close && moving(s);
    s->used = !close || s->closed;
    if (moving(s))
        return;
    s->n = 0;
    s->where = BR_KV_EMPTY;
}

static void op_compact(struct model *m)
{
    struct br_kv_moves moves;
    uint32_t before[SEQS][BLOCKS] = {{0}}, budget = model_draw(m, 40);
    if (m->n_tickets == TICKETS || m->n_copies + budget > COPIES)
        return;
    for (int i = 0; i < SEQS; i++)
        for (uint32_t b = 0; m->seqs[i].used && b < m->seqs[i].n; b++)
            before[i][b] = model_cell(m, &m->seqs[i], KV_DEVICE, b);
    (model_draw(m, 2) ? br_kv_compact : br_kv_merge)(m->kv, budget, &moves);
    for (int i = 0; i < SEQS; i++)
        for (uint32_t b = 0; m->seqs[i].used && m->seqs[i].pins && b < m->seqs[i].n; b++)
            assert_int_equal(model_cell(m, &m->seqs[i], KV_DEVICE, b), before[i][b]);
    model_copies_add(m, &moves);
    assert_true(m->n_tickets == 0 || moves.ticket == BR_KV_NONE || m->tickets[m->n_tickets - 1].n <= budget);
}

static void op_limit(struct model *m)
{
    uint32_t slabs = model_draw(m, m->slabs[KV_DEVICE] + 1);
    struct br_err err;
    int want;
    model_stays(m);
    want = slabs < model_floor(m) ? BR_EINVAL : 0;
    assert_int_equal(br_kv_device_limit(m->kv, slabs * SLAB_CELLS * CELL, &err), want);
    if (!want)
        assert_true(br_kv_device_used_bytes(m->kv) <= slabs * SLAB_CELLS * CELL);
}

static void op_pin(struct model *m, struct model_seq *s)
{
    if (s->where != BR_KV_DEVICE)
        return;
    if (s->pins) {
        br_kv_unpin(m->kv, s->handle);
        s->pins--;
    } else {
        br_kv_pin(m->kv, s->handle);
        s->pins++;
    }
}

static void op_evict(struct model *m)
{
    struct br_kv_key keys[4];
    uint32_t shape = model_draw(m, SHAPES);
    if (model_draw(m, 10) == 0)
        br_kv_evict_all(m->kv, m->shapes[shape]);
    for (int i = 0; i < 4; i++)
        keys[i] = model_key(m->n_known ? m->known[model_draw(m, m->n_known)].content : 0);
    br_kv_evict_first(m->kv, m->shapes[shape], keys, 4);
}

static void op_of_all(struct model *m, uint32_t what)
{
    if (what < 30 && m->n_tickets)
        model_copies_finish(m);
    else if (what < 50)
        op_open(m);
    else if (what < 65)
        op_compact(m);
    else if (what < 75)
        op_limit(m);
    else if (what < 80)
        op_evict(m);
    else
        known_clean(m);
}

static void op_of_one(struct model *m, struct model_seq *s, uint32_t what)
{
    if (moving(s)) {
        if (what < 40)
            op_done(m, s);
        else if (what >= 97 && !s->closed)
            op_drop_or_close(m, s, true);
    } else if (what < 30)
        op_extend(m, s);
    else if (what < 45)
        op_publish(m, s);
    else if (what < 60)
        s->where == BR_KV_EMPTY ? op_adopt(m, s, what % 3 == 0) : op_swap(m, s);
    else if (what < 75)
        op_swap(m, s);
    else if (what < 79)
        op_fork(m, s);
    else if (what < 87)
        op_write(m, s);
    else if (what < 91)
        op_pin(m, s);
    else
        op_drop_or_close(m, s, what >= 95);
}

static void model_create(struct model *m, uint64_t seed)
{
    struct br_kv_config c = {.slab_bytes = SLAB_CELLS * CELL,
                             .max_shapes = SHAPES,
                             .max_seqs = SEQS,
                             .max_blocks_per_seq = BLOCKS,
                             .max_cached = KV_TIERS * (KNOWN + 1)};
    struct br_err err;
    memset(m, 0, sizeof *m);
    m->rng.seed = seed;
    m->slabs[KV_DEVICE] = 10;
    m->slabs[KV_HOST] = 6;
    m->slabs[KV_DISK] = 5;
    c.device_bytes = m->slabs[KV_DEVICE] * c.slab_bytes + 5;
    c.host_bytes = m->slabs[KV_HOST] * c.slab_bytes;
    c.disk_bytes = m->slabs[KV_DISK] * c.slab_bytes;
    assert_int_equal(br_kv_create(&c, &m->kv, &err), 0);
    for (uint32_t i = 0; i < SHAPES; i++)
        assert_int_equal(br_kv_shape_add(m->kv, model_cells(i) * CELL, &m->shapes[i], &err), 0);
}

static void model_end(struct model *m)
{
    struct br_kv_stats stats;
    while (m->n_tickets)
        model_copies_finish(m);
    for (int i = 0; i < SEQS; i++) {
        struct model_seq *s = &m->seqs[i];
        if (s->used && moving(s))
            op_done(m, s);
        if (s->used)
            op_drop_or_close(m, s, true);
    }
    model_verify(m);
    for (uint32_t i = 0; i < SHAPES; i++)
        br_kv_evict_all(m->kv, m->shapes[i]);
    br_kv_stats(m->kv, &stats);
    assert_int_equal(stats.device_slabs_free, br_kv_device_limit_bytes(m->kv) / (SLAB_CELLS * CELL));
    assert_int_equal(stats.host_slabs_free, m->slabs[KV_HOST]);
    assert_int_equal(stats.disk_slabs_free, m->slabs[KV_DISK]);
    br_kv_destroy(m->kv);
}

static void random_operations(void **state)
{
    static struct model m;
    const int seeds = 4;
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        model_create(&m, seed);
        for (uint64_t op = 0; op < operations / seeds; op++) {
            struct model_seq *s = &m.seqs[model_draw(&m, SEQS)];
            uint32_t what = model_draw(&m, 100);
            if (!s->used || model_draw(&m, 5) == 0)
                op_of_all(&m, what);
            else
                op_of_one(&m, s, what);
            if (s->used)
                model_seq_verify(&m, s);
            if (op % 16 == 0)
                model_verify(&m);
        }
        print_message("seed %llu: %llu operations, %llu blocks adopted, %llu evicted, %u contents written\n",
                      (unsigned long long)seed, (unsigned long long)(operations / seeds),
                      (unsigned long long)m.kv->n_hits, (unsigned long long)m.kv->n_evicted, m.next_content);
        model_end(&m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
