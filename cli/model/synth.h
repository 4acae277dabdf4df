/* The parts of `briareus model synth`. */
#ifndef BRIAREUS_CLI_MODEL_SYNTH_H
#define BRIAREUS_CLI_MODEL_SYNTH_H

#include "cost/shape.h"
#include "text/byte_tokenizer.h"

/* 256 byte tokens, then <|endoftext|>, <|im_start|>, <|im_end|>. */
enum { BR_SYNTH_BOS = BR_BYTE_ENDOFTEXT, BR_SYNTH_EOS = BR_BYTE_IM_END, BR_SYNTH_MIN_VOCAB = BR_BYTE_VOCAB };

enum br_synth_quant { BR_SYNTH_DENSE, BR_SYNTH_AWQ, BR_SYNTH_GPTQ, BR_SYNTH_GPTQ8, BR_SYNTH_FP8 };
extern const char *const br_synth_quant_names[4]; /* "awq", ... */

/* What a tensor holds: values of its own, or a part of a quantised linear, or the numbers that one stands for. */
enum br_synth_content { BR_SYNTH_PLAIN, BR_SYNTH_CODES, BR_SYNTH_NUMBERS, BR_SYNTH_ZEROS, BR_SYNTH_SCALES };

struct br_synth_options {
    const char *dir;
    struct br_model_shape shape;
    uint64_t seed;
    enum br_synth_quant quant; /* of the layers' matrices */
    bool dequantised;          /* the same numbers, as tensors of shape.dtype */
};

/* A tensor of the model; plain ones hold uniform values around `mean`. */
struct br_synth_tensor {
    char name[96];
    uint64_t n, k; /* as the file says; k 0: a vector */
    float mean, spread;
    const char *dtype; /* NULL: the model's */
    enum br_synth_content content;
    /* Of a quantised linear (see synth_quant.c): */
    uint64_t outputs, inputs;
    uint32_t key;
    enum br_synth_quant quant;
    enum br_dtype plain;
};

/* model.safetensors */
int br_synth_weights(const struct br_synth_options *options, struct br_err *err);
void br_synth_add(struct br_synth_tensor **list, uint32_t *count, struct br_synth_tensor tensor);
uint16_t br_synth_f16(float v);

/* synth_quant.c: the tensors that stand for linear `plain` ("X.weight"); elements [first, first + n) of one of them. */
void br_synth_add_quantised(struct br_synth_tensor **list, uint32_t *count, const struct br_synth_tensor *plain,
                            const struct br_synth_options *options);
void br_synth_quantised_fill(const struct br_synth_tensor *t, uint64_t seed, uint64_t first, uint64_t n, void *out);
/* ",\n \"quantization_config\": {...}", or "". */
const char *br_synth_quant_config(const struct br_synth_options *options);
int br_synth_quant_check(const struct br_synth_options *options, struct br_err *err);

/* Writes tokenizer.json and tokenizer_config.json (ChatML). */
int br_synth_tokenizer(const char *dir, struct br_err *err);
/* A whole text file at once. */
int br_synth_text(const char *dir, const char *name, const char *text, size_t len, struct br_err *err);

#endif
