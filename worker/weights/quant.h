/* Quantised matrices as checkpoints store them: AWQ ("gemm"), GPTQ, FP8 (E4M3) and the blocks of GGUF files. Each is a
 * [n outputs][k inputs] matrix, read one output row at a time as codes, scales and zeros (quant_panel.h), or as the
 * numbers they stand for. Layouts: github.com/casper-hansen/AutoAWQ (WQLinear_GEMM), github.com/AutoGPTQ/AutoGPTQ
 * (qlinear), github.com/vllm-project/compressed-tensors, github.com/ggml-org/llama.cpp (ggml-common.h). */
#ifndef BRIAREUS_WORKER_WEIGHTS_QUANT_H
#define BRIAREUS_WORKER_WEIGHTS_QUANT_H

#include "cost/quant.h"
#include "worker/weights/quant_panel.h"
#include "worker/weights/safetensors.h"

enum br_quant_kind {
    BR_QUANT_KIND_NONE,
    BR_QUANT_KIND_AWQ4,
    BR_QUANT_KIND_GPTQ4,
    BR_QUANT_KIND_GPTQ8,
    BR_QUANT_KIND_FP8,
    BR_QUANT_KIND_Q8_0,
    BR_QUANT_KIND_Q4_0,
    BR_QUANT_KIND_Q4_K,
    BR_QUANT_KIND_Q6_K,
    BR_QUANT_KINDS
};

enum { BR_QUANT_TENSORS = 4 };

struct br_quant_source {
    enum br_quant_kind kind;
    uint64_t n, k;
    uint32_t block_n; /* FP8 in blocks: outputs that share a scale; 0: a scale a tensor or channel */
    struct br_matrix_format format;
    /* Borrowed; zeros and g_idx NULL where the kind has none. g_idx only when it is not the order of the inputs. */
    const struct br_tensor *weight, *scales, *zeros, *g_idx;
};

/* One output row; all arrays are the caller's. */
struct br_quant_row {
    uint8_t *code;   /* [k] */
    uint32_t *scale; /* [groups]: bits of an F16, or of an F32 if format.wide */
    uint8_t *zero;   /* [groups], if format.zeros */
    float *min;      /* [groups], if format.mins */
};

/* Finds the tensors of the linear `name` ("model.layers.0.mlp.gate_proj"; NAME.qweight, NAME.weight_scale, ...) and
 * checks their dtypes and shapes, and that every g_idx names a group. n or k 0: as the tensors say. used: [table.n],
 * set for what was found, or NULL. BR_ECORRUPT: missing, or a shape that contradicts; BR_ENOTSUP: another dtype. */
int br_quant_find(const struct br_safetensors *st, const struct br_quant_config *config, const char *name, uint64_t n,
                  uint64_t k, bool *used, struct br_quant_source *out, struct br_err *err);
/* The kind of a GGUF block type ("Q4_K"); NONE: not one of them. */
enum br_quant_kind br_quant_block_kind(const char *dtype_name);
/* A [n][k] matrix of GGUF blocks. */
int br_quant_of_blocks(const struct br_tensor *weight, struct br_quant_source *out, struct br_err *err);
/* Values and bytes of a block of a kind of GGUF. */
uint32_t br_quant_block_values(enum br_quant_kind kind);
uint32_t br_quant_block_bytes(enum br_quant_kind kind);

/* Tensors that make up the source; returns how many. */
int br_quant_tensors(const struct br_quant_source *src, const struct br_tensor *out[BR_QUANT_TENSORS]);

/* Allocates a row for sources of `format` and k inputs; br_quant_row_free frees it. */
void br_quant_row_init(struct br_quant_row *row, const struct br_matrix_format *format, uint64_t k);
void br_quant_row_free(struct br_quant_row *row);
void br_quant_row_read(const struct br_quant_source *src, uint64_t index, struct br_quant_row *out);
/* The group of input k. */
uint32_t br_quant_group_of(const struct br_quant_source *src, uint64_t k);

/* Row `index` as numbers: out[k] = (code - zero) * scale - min in F32, rounded once. row: scratch. */
void br_quant_row_values(const struct br_quant_source *src, uint64_t index, struct br_quant_row *row, float *out);

/* E4M3 ("fn": no infinities, 0x7f and 0xff are NaN) to F32. */
float br_e4m3_value(uint8_t code);

#endif
