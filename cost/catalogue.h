/* Models by name: the sizes that decide what they cost, and what they weigh in a format. */
#ifndef BRIAREUS_COST_CATALOGUE_H
#define BRIAREUS_COST_CATALOGUE_H

#include "cost/shape.h"

/* INT4: groups of 128 weights with a 16-bit scale and a 4-bit zero (AWQ, GPTQ). FP8: blocks of 128 x 128 with an F32
 * scale. INT8: one 16-bit scale a row. Embedding, head and norms stay in 16 bits in all of them. */
enum br_weight_format { BR_WEIGHTS_BF16, BR_WEIGHTS_FP8, BR_WEIGHTS_INT8, BR_WEIGHTS_INT4 };
enum br_kv_format { BR_KV_BF16, BR_KV_FP8 };

/* What the cost model needs of a decoder; dense, or a mixture of experts (experts > 0: ffn is the width of one). */
struct br_model_size {
    char name[64];
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t experts, experts_active;
    bool tied, qkv_bias, qk_norm;
};

/* The catalogue's entries in a fixed order, false past the end. */
bool br_catalogue_at(size_t index, struct br_model_size *out);
/* By name; case, punctuation, an owner ("Qwen/...") and a final Chat, Instruct or HF do not count. BR_ENOENT with the
 * nearest name. */
int br_catalogue_find(const char *name, struct br_model_size *out, struct br_err *err);
/* From a shape that the engine knows (dense: see shape.h). */
void br_model_size_of(const struct br_model_shape *shape, const char *name, struct br_model_size *out);
/* From a config.json's text: the architectures of shape.h, and Qwen3MoeForCausalLM with experts in every layer, which
 * can be planned for though the engine does not run it. Errors name `file`, the key and the value. */
int br_model_size_parse(const char *config, size_t len, const char *file, const char *name, struct br_model_size *out,
                        struct br_err *err);
/* DIR/config.json. The model is called by the folder's own name. */
int br_model_size_load(const char *dir, struct br_model_size *out, struct br_err *err);

/* All parameters, and those that one token meets (a mixture: only its experts; the embedding counts, as published
 * figures count it). */
double br_size_params(const struct br_model_size *size);
double br_size_active_params(const struct br_model_size *size);

/* What a model takes, from its size and formats. Fields may be set by hand to published figures afterwards. */
struct br_footprint {
    struct br_model_size size;
    enum br_weight_format weights;
    enum br_kv_format kv;
    double params, active_params;
    double weight_bytes;     /* all of it, in device memory */
    double bytes_per_weight; /* of the matrices of the layers, scales included */
    double common_params;    /* matrices of all layers that every token meets: attention, dense ffn, router */
    double expert_params;    /* one expert in all layers; 0: dense */
    double head_params, embedding_params; /* the embedding is looked up, not read; 0 when tied to the head */
    double kv_bytes_per_token;            /* K and V of all layers, grouped heads as they are */
};
void br_footprint_init(struct br_footprint *out, const struct br_model_size *size, enum br_weight_format weights,
                       enum br_kv_format kv);

/* Expected bytes of weights that a step over `tokens` tokens reads: all of a dense model but its embedding; of a
 * mixture the experts that some token chose, E (1 - (1 - k/E)^tokens) of E when choices are even and independent. */
double br_footprint_read_bytes(const struct br_footprint *footprint, double tokens);
/* Parameters of the layers' matrices that one token is multiplied with (no head, no embedding). */
double br_footprint_matrix_params(const struct br_footprint *footprint);

/* "bf16", "fp8", "int8", "int4"; "bf16", "fp8". BR_EINVAL names the known ones. */
int br_weight_format_parse(const char *text, enum br_weight_format *out, struct br_err *err);
int br_kv_format_parse(const char *text, enum br_kv_format *out, struct br_err *err);

#endif
