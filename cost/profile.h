/* Measured timings as CSV files, of two kinds that the header tells apart; other columns are ignored:
 *   steps:  model,gpu,prompt_tokens,batch,prefill_ms_median,decode_step_ms_median
 *           a prefill of batch prompts of prompt_tokens each, then decode steps of that batch, on one GPU
 *   layers: gpu,model,tp,tokens, and the operators of one layer in ms (attention itself left out), on one GPU of tp:
 *           attn_pre_proj_ms,attn_post_proj_ms,mlp_up_proj_ms,mlp_act_ms,mlp_down_proj_ms,input_layernorm_ms,
 *           post_attention_layernorm_ms,attn_rope_ms,add_ms */
#ifndef BRIAREUS_COST_PROFILE_H
#define BRIAREUS_COST_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum br_profile_kind { BR_PROFILE_STEPS, BR_PROFILE_LAYERS };
enum { BR_PROFILE_PREFILL, BR_PROFILE_DECODE };
enum {
    BR_PROFILE_MAX_BYTES = 16 << 20,
    BR_PROFILE_MAX_ROWS = 100000,
    BR_PROFILE_MAX_PAIRS = 512,
    BR_PROFILE_TIMES = 9
};

struct br_profile_row {
    uint32_t line;
    uint32_t tokens; /* of each prompt, or of the whole layer pass */
    uint32_t batch;  /* steps; 1 in layers */
    uint32_t tp;     /* layers; 1 in steps */
    double ms[BR_PROFILE_TIMES];
};

/* The rows of one model on one GPU, contiguous. */
struct br_profile_pair {
    char model[48], gpu[32]; /* as the file writes them */
    size_t first, n;
};

struct br_profile {
    enum br_profile_kind kind;
    struct br_profile_row *rows; /* owned */
    size_t n_rows;
    struct br_profile_pair *pairs; /* owned */
    size_t n_pairs;
};

/* At most BR_PROFILE_MAX_BYTES of text; `file` names it in errors, which give the line, column and value. Refused:
 * missing columns, no rows, numbers that are not positive and finite, rows of a pair that are not together, steps of a
 * pair that do not ascend by prompt_tokens and batch (twice the same included), layers of a pair that descend in tp. */
int br_profile_parse(const char *text, size_t len, const char *file, struct br_profile *out, struct br_err *err);
int br_profile_load(const char *path, struct br_profile *out, struct br_err *err);
void br_profile_free(struct br_profile *profile);

#endif
