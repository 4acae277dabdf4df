/* Random quantised linears of every kind, for tests: tensors in memory as a checkpoint has them. */
#ifndef BRIAREUS_TESTS_QUANT_TWIN_H
#define BRIAREUS_TESTS_QUANT_TWIN_H

#include "base/rng.h"
#include "worker/weights/quant_pack.h"

enum quant_sort {
    QUANT_SORT_AWQ,
    QUANT_SORT_GPTQ4,
    QUANT_SORT_GPTQ8,
    QUANT_SORT_GPTQ4_ORDER, /* g_idx in another order */
    QUANT_SORT_FP8_TENSOR,
    QUANT_SORT_FP8_CHANNEL,
    QUANT_SORT_FP8_BLOCK,
    QUANT_SORT_Q8_0,
    QUANT_SORT_Q4_0,
    QUANT_SORT_Q4_K,
    QUANT_SORT_Q6_K,
    QUANT_SORTS
};

extern const char *const quant_sort_names[QUANT_SORTS];

struct quant_twin {
    struct br_tensor weight, scales, zeros, g_idx;
    unsigned char *bytes[4]; /* owned */
    struct br_linear linear;
};

/* n outputs, k inputs; both multiples of what the sort packs (256 suits all). Weights are within about -2 .. 2. */
void quant_twin_init(struct quant_twin *twin, enum quant_sort sort, uint64_t n, uint64_t k, struct br_rng *rng);
void quant_twin_free(struct quant_twin *twin);

#endif
