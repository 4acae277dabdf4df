#include "tests/unit/kvcache/kv_model.h"

#include <string.h>

#include "tests/cmocka.h"

uint32_t model_draw(struct model *m, uint32_t n)
{
    return (uint32_t)(br_rng_next(&m->rng) * n);
}

/* Blocks of 2, 3 and 5 cells: 12, 8 and 4 in a slab, with four cells of the last kind's slab unused. */
uint32_t model_cells(uint32_t shape)
{
    static const uint32_t cells[SHAPES] = {2, 3, 5};
    return cells[shape];
}

static uint32_t per_slab(uint32_t shape)
{
    return SLAB_CELLS / model_cells(shape);
}

struct br_kv_key model_key(uint32_t content)
{
    return (struct br_kv_key){content * 0x9e3779b97f4a7c15ull >> 32, content};
}

static uint32_t cell_of(const struct model *m, enum kv_tier tier, uint32_t shape, uint32_t block)
{
    return (uint32_t)(kv_offset(m->kv, tier, m->shapes[shape], block) / CELL);
}

uint32_t model_cell(const struct model *m, const struct model_seq *s, enum kv_tier tier, uint32_t i)
{
    uint32_t block;
    if (!kv_in_tier(s->where, tier))
        return UINT32_MAX;
    block = kv_table(m->kv, tier, s->handle)[i];
    return block == KV_NO_BLOCK ? UINT32_MAX : cell_of(m, tier, s->shape, block);
}

uint32_t model_found(const struct model *m, enum kv_tier tier, uint32_t shape, uint32_t content)
{
    struct br_kv_key key = model_key(content);
    int32_t node = kv_find(m->kv, tier, m->shapes[shape], &key);
    return node == BR_KV_NONE ? UINT32_MAX : cell_of(m, tier, shape, m->kv->nodes[node].block);
}

void model_write(struct model *m, enum kv_tier tier, uint32_t shape, uint32_t cell, uint32_t content)
{
    assert_true(cell + model_cells(shape) <= m->slabs[tier] * SLAB_CELLS);
    assert_true(tier != KV_DEVICE || !model_copying(m, cell, model_cells(shape)));
    for (uint32_t c = 0; c < model_cells(shape); c++)
        m->memory[tier][cell + c] = content;
}

void model_stay(struct model *m, enum kv_tier tier, uint32_t shape, uint32_t cell)
{
    if (cell == UINT32_MAX)
        return;
    for (uint32_t c = cell; c < cell + model_cells(shape); c++) {
        assert_true(m->stays[tier][c] == 0 || m->stays[tier][c] == shape + 1);
        m->stays[tier][c] = (uint8_t)(shape + 1);
    }
}

void model_stays(struct model *m)
{
    memset(m->stays, 0, sizeof m->stays);
    for (int i = 0; i < SEQS; i++)
        for (enum kv_tier tier = 0; tier < KV_TIERS; tier++)
            for (uint32_t b = 0; m->seqs[i].used && b < m->seqs[i].n; b++)
                model_stay(m, tier, m->seqs[i].shape, model_cell(m, &m->seqs[i], tier, b));
    for (uint32_t i = 0; i < m->n_copies; i++)
        for (uint32_t c = 0; c < m->copies[i].n; c++)
            for (uint32_t shape = 0; shape < SHAPES; shape++)
                if (model_cells(shape) == m->copies[i].n) {
                    m->stays[KV_DEVICE][m->copies[i].from + c] = (uint8_t)(shape + 1);
                    m->stays[KV_DEVICE][m->copies[i].to + c] = (uint8_t)(shape + 1);
                }
}

uint32_t model_room(const struct model *m, enum kv_tier tier, uint32_t shape)
{
    uint32_t room = 0, first = 0;
    if (tier == KV_DEVICE)
        first = m->slabs[tier] - (uint32_t)(br_kv_device_limit_bytes(m->kv) / (SLAB_CELLS * CELL));
    for (uint32_t slab = first; slab < m->slabs[tier]; slab++) {
        const uint8_t *cells = m->stays[tier] + (size_t)slab * SLAB_CELLS;
        uint32_t taken = 0;
        bool other = false;
        for (uint32_t c = 0; c < SLAB_CELLS; c++) {
            other = other || (cells[c] && cells[c] != shape + 1);
            taken += cells[c] == shape + 1;
        }
        room += other ? 0 : per_slab(shape) - taken / model_cells(shape);
    }
    return room;
}

uint32_t model_floor(const struct model *m)
{
    for (uint32_t cell = 0; cell < m->slabs[KV_DEVICE] * SLAB_CELLS; cell++)
        if (m->stays[KV_DEVICE][cell])
            return m->slabs[KV_DEVICE] - cell / SLAB_CELLS;
    return 0;
}

bool model_copying(const struct model *m, uint32_t cell, uint32_t n)
{
    for (uint32_t i = 0; i < m->n_copies; i++)
        if ((cell < m->copies[i].from + m->copies[i].n && m->copies[i].from < cell + n) ||
            (cell < m->copies[i].to + m->copies[i].n && m->copies[i].to < cell + n))
            return true;
    return false;
}

/* Size of a block at this device offset, as its slab is bound. */
static uint32_t block_bytes_at(const struct model *m, uint64_t offset)
{
    uint32_t slab = (uint32_t)(m->slabs[KV_DEVICE] - 1 - offset / (SLAB_CELLS * CELL));
    return (uint32_t)m->kv->block_bytes[m->kv->tiers[KV_DEVICE].pool.slabs[slab].shape];
}

/* Merged copies are taken apart into blocks; one may run from a full slab into the next, of another shape. */
void model_copies_add(struct model *m, const struct br_kv_moves *moves)
{
    if (moves->ticket == BR_KV_NONE)
        return;
    m->tickets[m->n_tickets].ticket = moves->ticket;
    m->tickets[m->n_tickets].n = 0;
    for (uint32_t i = 0; i < moves->n_moves; i++) {
        const struct br_kv_move *v = &moves->moves[i];
        for (uint64_t at = 0, step; at < v->bytes; at += step) {
            step = block_bytes_at(m, v->to + at);
            assert_int_equal(block_bytes_at(m, v->from + at), step);
            assert_true(at + step <= v->bytes);
            assert_true(m->n_copies < COPIES);
            m->copies[m->n_copies].from = (uint32_t)((v->from + at) / CELL);
            m->copies[m->n_copies].to = (uint32_t)((v->to + at) / CELL);
            m->copies[m->n_copies++].n = (uint32_t)(step / CELL);
            m->tickets[m->n_tickets].n++;
        }
    }
    m->n_tickets++;
}

void model_copies_finish(struct model *m)
{
    uint32_t n = m->tickets[0].n;
    for (uint32_t i = 0; i < n; i++)
        memcpy(&m->memory[KV_DEVICE][m->copies[i].to], &m->memory[KV_DEVICE][m->copies[i].from],
               m->copies[i].n * sizeof m->memory[0][0]);
    br_kv_moves_done(m->kv, m->tickets[0].ticket);
    m->n_copies -= n;
    memmove(m->copies, m->copies + n, m->n_copies * sizeof m->copies[0]);
    memmove(m->tickets, m->tickets + 1, --m->n_tickets * sizeof m->tickets[0]);
}

/* What a step would read in the cell: the copies ahead of it on the stream are done by then. */
static uint32_t device_read(const struct model *m, uint32_t cell)
{
    for (uint32_t i = m->n_copies; i-- > 0;)
        if (cell >= m->copies[i].to && cell < m->copies[i].to + m->copies[i].n)
            cell = m->copies[i].from + (cell - m->copies[i].to);
    return m->memory[KV_DEVICE][cell];
}

static void block_verify(const struct model *m, enum kv_tier tier, uint32_t shape, uint32_t cell, uint32_t content)
{
    for (uint32_t c = cell; c < cell + model_cells(shape); c++)
        assert_int_equal(tier == KV_DEVICE ? device_read(m, c) : m->memory[tier][c], content);
}

void model_seq_verify(const struct model *m, const struct model_seq *s)
{
    static const enum br_kv_where home[KV_TIERS] = {BR_KV_DEVICE, BR_KV_HOST, BR_KV_DISK};
    if (!s->closed) {
        assert_int_equal(br_kv_where(m->kv, s->handle), s->where);
        assert_int_equal(br_kv_blocks(m->kv, s->handle), s->n);
    }
    for (enum kv_tier tier = 0; tier < KV_TIERS; tier++)
        for (uint32_t i = 0; s->where == home[tier] && i < s->n; i++)
            block_verify(m, tier, s->shape, model_cell(m, s, tier, i), s->content[i]);
}

void model_verify(struct model *m)
{
    struct br_err err = {0};
    if (br_kv_check(m->kv, &err))
        fail_msg("%s", err.msg);
    model_stays(m);
    for (int i = 0; i < SEQS; i++)
        if (m->seqs[i].used)
            model_seq_verify(m, &m->seqs[i]);
    for (uint32_t i = 0; i < m->n_known; i++)
        for (enum kv_tier tier = 0; tier < KV_TIERS; tier++) {
            uint32_t cell = model_found(m, tier, m->known[i].shape, m->known[i].content);
            if (cell != UINT32_MAX)
                block_verify(m, tier, m->known[i].shape, cell, m->known[i].content);
        }
    for (uint32_t i = 0; i < SHAPES; i++)
        assert_int_equal(br_kv_device_blocks_free(m->kv, m->shapes[i]), model_room(m, KV_DEVICE, i));
    assert_int_equal(br_kv_device_floor_bytes(m->kv), model_floor(m) * SLAB_CELLS * CELL);
}
