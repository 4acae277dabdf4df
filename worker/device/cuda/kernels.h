/* The CUDA kernels, one file an operation. Each call enqueues work on a stream and returns; the structs are copied.
 * Addresses, shapes, strides and layouts are those of worker/device/kernels.h and worker/weights/layout.h, the same
 * bytes as on the CPU: a cell (two neighbouring inputs of a column; two neighbouring dimensions of K; two neighbouring
 * positions of V) is what a lane feeds to a tensor core, so weights and KV are read as they lie.
 *
 * Sums are F32. Exact always: a row's bits are a function of that row and the weights, whatever rows there are beside
 * it and however prompts are cut. Products add up BR_CUDA_PARTS stretches of inputs one after another, in decode (a
 * warp a stretch) as in prefill (a warp all of them); attention folds segments of BR_ATTENTION_SEGMENT positions in
 * order.
 *
 * Errors of a launch are found by cudaGetLastError behind it. `stream` is a cudaStream_t. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_KERNELS_H
#define BRIAREUS_WORKER_DEVICE_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif
#include "worker/device/kernels.h"
#ifdef __cplusplus
}
#endif

enum { BR_CUDA_PARTS = 8, BR_CUDA_CANDIDATES = 1024 };

/* Scratch of a stream's for one call at a time. */
struct br_cuda_work {
    br_devptr at; /* 16-byte aligned */
    uint64_t bytes;
};

/* out = rmsnorm(in) in activations; with add: in += add first, both F32 [..][k]. */
struct br_cuda_norm_op {
    enum br_numeric numeric;
    uint32_t rows, k;
    br_devptr in;
    br_devptr row;  /* uint32 [rows]: which row of `in` each is; 0: all in order. Not with add */
    br_devptr add;  /* 0: none */
    br_devptr norm; /* F32 [k] */
    br_devptr out;  /* activations [rows][k], zeros between k and the stride */
    float eps;
};

/* out = silu(gate) * up; columns of `in` F32 [rows][2 width] as in layout.h: 32 gates, then their 32 ups. */
struct br_cuda_silu_mul_op {
    enum br_numeric numeric;
    uint32_t rows, width; /* width: a multiple of 32 */
    br_devptr in, out;    /* out: activations [rows][width] */
};

/* Weights in panels to row-major [n][k], as libraries for large products want them: the numbers that the codes stand
 * for, rounded to BF16 (numeric BF16) or exactly (F32). */
struct br_cuda_dequantise_op {
    enum br_numeric numeric; /* of out, and of dense panels */
    uint32_t k, n;
    struct br_matrix_format format; /* code NONE: dense panels */
    br_devptr weights, out;
};

/* A row of logits to a token. Greedy (temperature 0) and unfiltered draws are those of worker/sampler bit for bit; with
 * top_k, top_p or min_p sums run over candidates in the order of value, so a draw within rounding (1e-12) of a border
 * may differ. Adjustments (penalties, masks) are to be in the logits. */
struct br_cuda_sample_row {
    double scale;     /* 1 / temperature; 0: greedy */
    double u;         /* uniform in [0, 1) */
    double top_p;     /* 1: off */
    double min_p;     /* 0: off */
    uint32_t top_k;   /* 0: off */
    uint32_t logprob; /* of the raw row: 1 wanted */
};
enum br_cuda_sample_state {
    BR_CUDA_SAMPLED,
    BR_CUDA_SAMPLE_HOST, /* more candidates than BR_CUDA_CANDIDATES could matter: draw it on the host */
    BR_CUDA_SAMPLE_BAD,  /* id: of the first logit that is not finite */
};
struct br_cuda_sample_result {
    int32_t id;
    uint32_t state;
    double log_sum; /* logprob of id t: logits[t] - log_sum; only if wanted */
};
struct br_cuda_sample_op {
    uint32_t rows, vocab;
    br_devptr logits; /* F32 [rows][vocab] */
    br_devptr row;    /* struct br_cuda_sample_row [rows] */
    br_devptr out;    /* struct br_cuda_sample_result [rows] */
};

/* KV blocks to and from one staging area, or about: n copies of `bytes` each. */
struct br_cuda_copy_pair {
    br_devptr dst, src; /* 16-byte aligned */
};
struct br_cuda_blocks_op {
    uint32_t n;
    uint64_t bytes;  /* a multiple of 16 */
    br_devptr pairs; /* struct br_cuda_copy_pair [n]; no destination overlaps anything else */
};

#ifdef __cplusplus
extern "C" {
#endif
void br_cuda_embed(void *stream, const struct br_embed_op *op);
void br_cuda_norm(void *stream, const struct br_cuda_norm_op *op);
/* Any format; few rows and many are different kernels with the same bits. */
void br_cuda_linear(void *stream, const struct br_linear_op *op);
/* kv BR_KV_FP8 (BF16 only): K and V are E4M3, one byte an element in the same order, half the bytes and offsets. */
void br_cuda_rope(void *stream, const struct br_rope_op *op, enum br_kv_format kv);
/* work: partial results of sequences with few rows and a long past; what does not fit is not split, with the same bits.
 * Enough: br_cuda_attention_work(). */
void br_cuda_attention(void *stream, const struct br_attention_op *op, enum br_kv_format kv,
                       const struct br_cuda_work *work);
void br_cuda_silu_mul(void *stream, const struct br_cuda_silu_mul_op *op);
void br_cuda_dequantise(void *stream, const struct br_cuda_dequantise_op *op);
void br_cuda_sample(void *stream, const struct br_cuda_sample_op *op);
void br_cuda_copy_blocks(void *stream, const struct br_cuda_blocks_op *op);
#ifdef __cplusplus
}
#endif

/* Bytes for `items` sequences of `positions` all together. */
static inline uint64_t br_cuda_attention_work(uint32_t kv_heads, uint32_t head_dim, uint32_t items, uint64_t positions)
{
    uint64_t segments = positions / BR_ATTENTION_SEGMENT + items;
    return segments * kv_heads * 16 * ((uint64_t)head_dim + 2) * 4;
}

#endif
