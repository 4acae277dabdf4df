#include "tests/unit/worker/device/quant_twin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

const char *const quant_sort_names[QUANT_SORTS] = {"awq",         "gptq 4",       "gptq 8",     "gptq 4, act order",
                                                   "fp8, tensor", "fp8, channel", "fp8, block", "Q8_0",
                                                   "Q4_0",        "Q4_K",         "Q6_K"};

static unsigned char *random_bytes(size_t n, struct br_rng *rng)
{
    unsigned char *bytes = br_malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(256 * br_rng_next(rng));
    return bytes;
}

static void tensor_init(struct br_tensor *t, const char *dtype, uint64_t rows, uint64_t columns, unsigned char *data)
{
    *t = (struct br_tensor){.name = (char *)"twin", .dtype = BR_TENSOR_OTHER, .rank = 2, .file = "twin", .data = data};
    snprintf(t->dtype_name, sizeof t->dtype_name, "%s", dtype);
    if (strcmp(dtype, "F16") == 0)
        t->dtype = BR_TENSOR_F16;
    if (strcmp(dtype, "F32") == 0)
        t->dtype = BR_TENSOR_F32;
    t->shape[0] = rows;
    t->shape[1] = columns;
    t->elements = rows * columns;
}

/* An F16 of 1/scale .. 2/scale; exponents only differ by one. */
static void half_put(unsigned char *at, int exponent, struct br_rng *rng)
{
    uint16_t half = (uint16_t)((15 + exponent) << 10 | (unsigned)(1024 * br_rng_next(rng)));
    memcpy(at, &half, sizeof half);
}

static void halves(unsigned char *at, uint64_t n, int exponent, struct br_rng *rng)
{
    for (uint64_t i = 0; i < n; i++)
        half_put(at + 2 * i, exponent, rng);
}

static void words_init(struct quant_twin *t, enum quant_sort sort, uint64_t n, uint64_t k, struct br_rng *rng)
{
    uint64_t groups = k / 128, bits = sort == QUANT_SORT_GPTQ8 ? 8 : 4;
    bool awq = sort == QUANT_SORT_AWQ;
    struct br_quant_source *s = &t->linear.quant;
    t->bytes[0] = random_bytes(n * k * bits / 8, rng);
    t->bytes[1] = random_bytes(groups * n * bits / 8, rng);
    t->bytes[2] = random_bytes(groups * n * 2, rng);
    tensor_init(&t->weight, "I32", awq ? k : k * bits / 32, awq ? n * bits / 32 : n, t->bytes[0]);
    tensor_init(&t->zeros, "I32", groups, n * bits / 32, t->bytes[1]);
    tensor_init(&t->scales, "F16", groups, n, t->bytes[2]);
    halves(t->bytes[2], groups * n, bits == 4 ? -4 : -8, rng);
    s->kind = awq ? BR_QUANT_KIND_AWQ4 : bits == 4 ? BR_QUANT_KIND_GPTQ4 : BR_QUANT_KIND_GPTQ8;
    s->zeros = &t->zeros;
    s->format = (struct br_matrix_format){
        .code = bits == 4 ? BR_CODE_U4 : BR_CODE_U8, .group = 128, .zero = !awq, .span = 1, .zeros = 1};
}

static void order_init(struct quant_twin *t, uint64_t k, struct br_rng *rng)
{
    uint32_t *g = br_malloc(k * sizeof *g);
    for (uint64_t i = 0; i < k; i++)
        g[i] = (uint32_t)((double)(k / 128) * br_rng_next(rng));
    t->bytes[3] = (unsigned char *)g;
    tensor_init(&t->g_idx, "I32", 1, k, t->bytes[3]);
    t->linear.quant.g_idx = &t->g_idx;
    t->linear.quant.format.indexed = 1;
}

static void fp8_init(struct quant_twin *t, enum quant_sort sort, uint64_t n, uint64_t k, struct br_rng *rng)
{
    bool block = sort == QUANT_SORT_FP8_BLOCK, channel = sort == QUANT_SORT_FP8_CHANNEL;
    uint64_t rows = block ? (n + 127) / 128 : channel ? n : 1, columns = block ? (k + 127) / 128 : 1;
    struct br_quant_source *s = &t->linear.quant;
    t->bytes[0] = random_bytes(n * k, rng);
    for (uint64_t i = 0; i < n * k; i++)
        if ((t->bytes[0][i] & 0x7f) == 0x7f)
            t->bytes[0][i] = 0; /* not a number */
    float *scales = br_malloc(rows * columns * sizeof *scales);
    for (uint64_t i = 0; i < rows * columns; i++)
        scales[i] = (float)(1 + br_rng_next(rng)) / 448;
    t->bytes[2] = (unsigned char *)scales;
    tensor_init(&t->weight, "F8_E4M3", n, k, t->bytes[0]);
    tensor_init(&t->scales, "F32", rows, columns, t->bytes[2]);
    s->kind = BR_QUANT_KIND_FP8;
    s->block_n = block ? 128 : 0;
    s->format =
        (struct br_matrix_format){.code = BR_CODE_E4M3, .group = block ? 128 : 0, .span = channel ? 1 : 32, .wide = 1};
}

/* Where in a block its halves are, and about how large they may be. */
static void blocks_init(struct quant_twin *t, enum quant_sort sort, uint64_t n, uint64_t k, struct br_rng *rng)
{
    static const struct {
        const char *name;
        int at[2], exponent;
    } types[] = {{"Q8_0", {0, -1}, -7}, {"Q4_0", {0, -1}, -3}, {"Q4_K", {0, 2}, -9}, {"Q6_K", {208, -1}, -12}};
    uint32_t type = sort - QUANT_SORT_Q8_0;
    enum br_quant_kind kind = br_quant_block_kind(types[type].name);
    uint64_t blocks = n * k / br_quant_block_values(kind), size = br_quant_block_bytes(kind);
    struct br_err err;
    t->bytes[0] = random_bytes(blocks * size, rng);
    for (uint64_t b = 0; b < blocks; b++)
        for (int i = 0; i < 2 && types[type].at[i] >= 0; i++)
            half_put(t->bytes[0] + b * size + (unsigned)types[type].at[i], types[type].exponent, rng);
    tensor_init(&t->weight, types[type].name, n, k, t->bytes[0]);
    if (br_quant_of_blocks(&t->weight, &t->linear.quant, &err))
        abort();
}

void quant_twin_init(struct quant_twin *t, enum quant_sort sort, uint64_t n, uint64_t k, struct br_rng *rng)
{
    memset(t, 0, sizeof *t);
    if (sort >= QUANT_SORT_Q8_0)
        blocks_init(t, sort, n, k, rng);
    else if (sort >= QUANT_SORT_FP8_TENSOR)
        fp8_init(t, sort, n, k, rng);
    else
        words_init(t, sort, n, k, rng);
    if (sort == QUANT_SORT_GPTQ4_ORDER)
        order_init(t, k, rng);
    t->linear.quant.n = t->linear.n = n;
    t->linear.quant.k = k;
    t->linear.quant.weight = t->linear.tensor = &t->weight;
    t->linear.quant.scales = t->bytes[2] ? &t->scales : NULL;
}

void quant_twin_free(struct quant_twin *t)
{
    for (int i = 0; i < 4; i++)
        free(t->bytes[i]);
}
