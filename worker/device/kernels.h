/* The step kernels of a device: what a forward pass is made of. Every call enqueues work on a stream and returns; the
 * structs are copied. All addresses are device addresses; only `upload` takes a host one, which must stay valid until
 * an event recorded behind it is done.
 *
 * Types. "Activations" are what goes into a matrix product: rows of BF16 (numeric BF16) or F32 (numeric F32), each row
 * br_act_stride() bytes apart. Everything else between kernels is F32; rows of F32 are br_f32_stride() bytes apart.
 * Columns between a row's width and its stride hold nothing of meaning.
 *
 * A KV block holds K and V of BR_KV_BLOCK_TOKENS = 16 positions for all layers, contiguously:
 *   [layer][kv head]{ K: BF16 [head_dim/2][16][2] | F32 [head_dim][16];  V: BF16 [8][head_dim][2] | F32 [16][head_dim]
 * } K is stored so that 16 positions times one pair of dimensions are one 64-byte vector, V so that neighbouring
 * positions of a dimension are the pair: both are then what the weight panels are, and one microkernel serves all.
 * Positions of a block that were never written may hold anything, NaN included: kernels must not let them through.
 *
 * Exact mode: every kernel computes a row from that row and the weights alone, in one fixed order over the inputs;
 * attention runs in segments of BR_ATTENTION_SEGMENT absolute positions that are combined in order. */
#ifndef BRIAREUS_WORKER_DEVICE_KERNELS_H
#define BRIAREUS_WORKER_DEVICE_KERNELS_H

#include "cost/cost.h"
#include "worker/device/device.h"

enum { BR_ATTENTION_SEGMENT = 256, BR_MAX_HEAD_DIM = 512, BR_MAX_GROUP = 64 };

static inline BR_HOST_DEVICE uint64_t br_act_stride(uint32_t width, enum br_numeric numeric)
{
    uint64_t bytes = (uint64_t)width * (numeric == BR_NUMERIC_BF16 ? 2 : 4);
    return (bytes + 63) / 64 * 64;
}

static inline BR_HOST_DEVICE uint64_t br_f32_stride(uint32_t width)
{
    return ((uint64_t)width + BR_PANEL - 1) / BR_PANEL * BR_PANEL * 4;
}

/* Byte offset of a layer's and KV head's K in a block; its V follows 16 * head_dim elements later. */
static inline BR_HOST_DEVICE uint64_t br_kv_offset(uint32_t layer, uint32_t kv_head, uint32_t kv_heads,
                                                   uint32_t head_dim, enum br_numeric numeric)
{
    uint64_t elt = numeric == BR_NUMERIC_BF16 ? 2 : 4;
    return ((uint64_t)layer * kv_heads + kv_head) * 2 * BR_KV_BLOCK_TOKENS * head_dim * elt;
}

/* One item (sequence) of a step, in device memory. */
struct br_batch_item {
    uint32_t first_row, rows; /* of the step's rows */
    uint32_t pos;             /* position of the first row */
    uint32_t table;           /* index of its first block in the step's block table */
};

/* What the rows of a step are, all in device memory. */
struct br_batch {
    uint32_t rows, items;
    br_devptr ids;      /* int32 [rows] */
    br_devptr pos;      /* uint32 [rows] */
    br_devptr row_item; /* uint32 [rows]: index into item */
    br_devptr item;     /* struct br_batch_item [items] */
    br_devptr table;    /* br_devptr: addresses of KV blocks, item after item */
};

struct br_embed_op {
    struct br_batch batch;
    enum br_numeric numeric;
    bool panels; /* tied: the table is the head's panels */
    uint32_t hidden;
    br_devptr weights;
    br_devptr out; /* F32 [rows][hidden] */
};

enum br_linear_end {
    BR_LINEAR_STORE,  /* out F32 [rows][n] = y (+ bias) */
    BR_LINEAR_ADD,    /* out F32 [rows][n] += y */
    BR_LINEAR_SWIGLU, /* out activations [rows][n/2] = silu(gate) * up, columns interleaved as in layout.h */
};

/* y = in x weights; with norm: y = rmsnorm(in) x weights, in F32 [.][k], normalised rows passing through act. */
struct br_linear_op {
    enum br_numeric numeric;
    enum br_linear_end end;
    uint32_t rows, k, n;
    br_devptr in;   /* activations [rows][k]; with norm F32 */
    br_devptr row;  /* with norm: uint32 [rows], which row of `in` each is; 0: all in order */
    br_devptr norm; /* F32 [k]; 0: none */
    br_devptr act;  /* with norm: scratch, activations [rows][k] */
    struct br_matrix_format format;
    br_devptr weights; /* panels, as format says */
    br_devptr bias;    /* F32 [n rounded up to a panel]; 0: none */
    br_devptr out;
    float eps;
};

/* From raw q, k, v: norm per head (if asked), rotary embedding, q scaled by 1/sqrt(head_dim), k and v into the blocks.
 * Rotary pairs are (d, d + head_dim/2). */
struct br_rope_op {
    struct br_batch batch;
    enum br_numeric numeric;
    uint32_t heads, kv_heads, head_dim, layer;
    float eps;
    br_devptr qkv;            /* F32 [rows][(heads + 2 kv_heads) head_dim] */
    br_devptr q_norm, k_norm; /* F32 [head_dim]; 0: none */
    br_devptr cos_sin;        /* F32 [positions][2][head_dim/2]: cosines, then sines */
    br_devptr q;              /* out, activations [rows][heads * head_dim] */
};

/* Causal attention of every row over positions 0 .. its own. */
struct br_attention_op {
    struct br_batch batch;
    enum br_numeric numeric;
    uint32_t heads, kv_heads, head_dim, layer;
    br_devptr q;   /* activations [rows][heads * head_dim] */
    br_devptr out; /* activations, the same shape */
};

struct br_kernels {
    /* Scratch apart from the reservation: 64-byte aligned, zeroed. For set-up, not for steps. */
    int (*scratch_alloc)(struct br_device *dev, uint64_t bytes, br_devptr *out, struct br_err *err);
    void (*scratch_free)(struct br_device *dev, br_devptr at, uint64_t bytes);
    /* Host to scratch, small and outside the link's cap. */
    void (*upload)(struct br_stream *stream, br_devptr dst, const void *src, uint64_t bytes);
    void (*embed)(struct br_stream *stream, const struct br_embed_op *op);
    void (*linear)(struct br_stream *stream, const struct br_linear_op *op);
    void (*rope)(struct br_stream *stream, const struct br_rope_op *op);
    void (*attention)(struct br_stream *stream, const struct br_attention_op *op);
    /* Of a device that does not compute (there upload does nothing and embed to attention are NULL; elsewhere these two
     * are): what a model costs on it, and a stretch of `seconds` on a stream, in the time of cost. */
    int (*cost)(const struct br_device *dev, const struct br_footprint *model, struct br_cost *out, struct br_err *err);
    void (*delay)(struct br_stream *stream, double seconds);
};

#endif
