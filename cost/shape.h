/* The shape of a decoder-only transformer, from a Hugging Face config.json: what the engine, the memory books and the
 * cost model need to know about a model without opening its weights. */
#ifndef BRIAREUS_COST_SHAPE_H
#define BRIAREUS_COST_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cost/quant.h"

enum br_arch { BR_ARCH_LLAMA, BR_ARCH_QWEN2, BR_ARCH_QWEN3 };
enum br_dtype { BR_F32, BR_F16, BR_BF16 };

/* How the engine computes: weights and KV as stored, sums always in F32.
 * BF16: BF16 weights and KV, activations rounded to BF16 in front of every matrix product.
 * F32: everything in F32 (BF16 and F16 weights widened). */
enum br_numeric { BR_NUMERIC_AUTO, BR_NUMERIC_BF16, BR_NUMERIC_F32 };

enum br_rope_kind { BR_ROPE_DEFAULT, BR_ROPE_LINEAR, BR_ROPE_DYNAMIC, BR_ROPE_LLAMA3, BR_ROPE_YARN };

struct br_rope {
    enum br_rope_kind kind;
    double theta;
    double factor;                                 /* linear, dynamic, llama3, yarn */
    double low_freq_factor, high_freq_factor;      /* llama3 */
    double beta_fast, beta_slow, attention_factor; /* yarn; attention_factor 0: 0.1 ln(factor) + 1 */
    uint32_t original_max_positions;
};

enum { BR_MAX_EOS = 8, BR_KV_BLOCK_TOKENS = 16 };

struct br_model_shape {
    enum br_arch arch;
    enum br_dtype dtype; /* as config.json says (torch_dtype); the files decide */
    uint32_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab, max_positions;
    float rms_eps;
    struct br_rope rope;
    bool tied, qkv_bias, qk_norm;
    int32_t bos;             /* -1: none */
    int32_t eos[BR_MAX_EOS]; /* generation_config.json's list if there, else config.json's */
    uint32_t n_eos;
    struct br_quant_config quant; /* of the layers' matrices */
};

/* Reads DIR/config.json and, if there, DIR/generation_config.json. Errors name the file, the key and the value.
 * Refused: unknown architectures, sliding windows in use, sizes of zero or beyond sane limits, heads % kv_heads. */
int br_model_shape_load(const char *dir, struct br_model_shape *out, struct br_err *err);
/* The same from text; generation may be NULL. For tests and fuzzing. */
int br_model_shape_parse(const char *config, size_t config_len, const char *generation, size_t generation_len,
                         struct br_model_shape *out, struct br_err *err);

uint64_t br_model_params(const struct br_model_shape *shape);
/* Bytes of one KV block: BR_KV_BLOCK_TOKENS tokens, K and V, all layers. numeric is BF16 or F32. */
uint64_t br_kv_block_bytes(const struct br_model_shape *shape, enum br_numeric numeric);

#endif
