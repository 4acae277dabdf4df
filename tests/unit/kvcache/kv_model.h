/* A naive model of the books: the bytes of the three tiers, cell by cell, and what each sequence has to read there. It
 * counts room by definition, from scratch, every time: a slab serves a shape when nothing that has to stay is in it, or
 * when what stays is of that shape. Where blocks are it reads from the books; that they hold what they should is the
 * test. Copies are done as late as allowed: when they are reported done. */
#ifndef TESTS_KV_MODEL_H
#define TESTS_KV_MODEL_H

#include "base/rng.h"
#include "kvcache/books.h"

enum {
    CELL = 16,
    SLAB_CELLS = 24,
    SLABS_MOST = 10,
    CELLS = SLABS_MOST * SLAB_CELLS,
    SHAPES = 3,
    SEQS = 20,
    BLOCKS = 12,
    KNOWN = 128,  /* contents that were published, the latest ones */
    TICKETS = 64, /* lists of device copies under way, first in first out */
    COPIES = 512,
};

struct model_seq {
    bool used, closed; /* closed: while in a swap */
    int32_t handle;
    uint32_t shape, n, pins;
    enum br_kv_where where;
    uint32_t content[BLOCKS];
    struct br_kv_swap swap; /* while in one */
};

struct model {
    struct br_kv *kv;
    struct br_rng rng;
    uint32_t shapes[SHAPES];
    uint32_t slabs[KV_TIERS];
    struct model_seq seqs[SEQS];
    uint32_t memory[KV_TIERS][CELLS]; /* content of each cell */
    uint32_t next_content;
    struct {
        uint32_t content, shape;
    } known[KNOWN];
    uint32_t n_known;
    struct {
        uint32_t from, to, n; /* cells */
    } copies[COPIES];         /* under way, oldest first */
    uint32_t n_copies;
    struct {
        int32_t ticket;
        uint32_t n;
    } tickets[TICKETS];
    uint32_t n_tickets;
    uint8_t stays[KV_TIERS][CELLS]; /* scratch of model_room: shape + 1 of what has to stay */
};

uint32_t model_draw(struct model *m, uint32_t n);
uint32_t model_cells(uint32_t shape);
struct br_kv_key model_key(uint32_t content);
/* First cell of the sequence's block i in a tier, or UINT32_MAX: it has none there. */
uint32_t model_cell(const struct model *m, const struct model_seq *s, enum kv_tier tier, uint32_t i);
/* First cell of the block that the index has for the content, or UINT32_MAX. */
uint32_t model_found(const struct model *m, enum kv_tier tier, uint32_t shape, uint32_t content);
void model_write(struct model *m, enum kv_tier tier, uint32_t shape, uint32_t cell, uint32_t content);
/* Marks what has to stay: blocks of sequences, and both ends of copies under way. */
void model_stays(struct model *m);
/* One more block that has to stay, as seen after model_stays. */
void model_stay(struct model *m, enum kv_tier tier, uint32_t shape, uint32_t cell);
/* Blocks of the shape that could be had in the tier, given the marks. */
uint32_t model_room(const struct model *m, enum kv_tier tier, uint32_t shape);
/* Slabs up to the highest one (from the far end) in which something has to stay. */
uint32_t model_floor(const struct model *m);
bool model_copying(const struct model *m, uint32_t cell, uint32_t n);
void model_copies_add(struct model *m, const struct br_kv_moves *moves);
/* The oldest list of device copies is carried out and reported done. */
void model_copies_finish(struct model *m);
/* Everything that the sequence reads is what it wrote. */
void model_seq_verify(const struct model *m, const struct model_seq *s);
/* All sequences, everything in the index, and the books themselves. */
void model_verify(struct model *m);

#endif
