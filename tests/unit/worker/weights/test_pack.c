/* Every cell of every packed unit against layout.h's formulas, cell by cell, and every way in which a folder may not be
 * what its config says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/model_dir.h"
#include "worker/weights/convert.h"
#include "worker/weights/pack.h"

/* Sizes that are multiples of nothing: hidden odd (a BF16 pair is half padding), ffn no multiple of 32. */
static const struct br_model_shape g_shape = {.arch = BR_ARCH_QWEN2,
                                              .hidden = 75,
                                              .ffn = 90,
                                              .layers = 2,
                                              .heads = 6,
                                              .kv_heads = 2,
                                              .head_dim = 26,
                                              .vocab = 131,
                                              .max_positions = 64,
                                              .qkv_bias = true};

struct packed {
    struct test_model model;
    struct br_safetensors *st;
    struct br_packer packer;
    struct br_model_shape shape;
};

static int packed_open(struct packed *p, enum br_numeric numeric, uint32_t shards, struct br_err *err)
{
    int rc;
    test_model_write(&p->model, shards);
    assert_int_equal(br_model_shape_load(p->model.dir, &p->shape, err), 0);
    assert_int_equal(br_safetensors_open(p->model.dir, &p->st, err), 0);
    rc = br_packer_init(&p->packer, p->st, &p->shape, numeric, err);
    return rc;
}

static void packed_close(struct packed *p)
{
    br_packer_free(&p->packer);
    br_safetensors_close(p->st);
    test_model_free(&p->model);
}

/* Input k of output n of a matrix in panels, by the words of layout.h. */
static float panel_at(const unsigned char *m, uint64_t k_total, enum br_numeric numeric, uint64_t k, uint64_t n)
{
    uint64_t panel = n / 64, column = n % 64, kp = (k_total + 1) / 2 * 2;
    if (numeric == BR_NUMERIC_F32)
        return ((const float *)(const void *)m)[(panel * k_total + k) * 64 + column];
    return br_f32_from_bits(br_bf16_to_f32_bits(
        ((const uint16_t *)(const void *)m)[((panel * (kp / 2) + k / 2) * 64 + column) * 2 + k % 2]));
}

static void check_matrix(const unsigned char *m, const char *name, uint64_t first, uint64_t n, uint64_t k,
                         uint64_t k_total, enum br_numeric numeric)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < k_total; j++) {
            float want = j < k ? test_value(name, i * k + j) : 0;
            if (panel_at(m, k_total, numeric, j, first + i) != want)
                fail_msg("%s: output %lu, input %lu", name, i, j);
        }
}

static void check_vector(const unsigned char *at, const char *name, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (((const float *)(const void *)at)[i] != test_value(name, i))
            fail_msg("%s: value %lu", name, i);
}

static void check_gate_up(const unsigned char *m, const char *gate, const char *up, const struct br_model_layout *l)
{
    const struct br_model_shape *s = &l->shape;
    for (uint64_t i = 0; i < l->ffn_padded; i++)
        for (uint64_t j = 0; j < s->hidden; j++) {
            uint64_t column = i / 32 * 64 + i % 32;
            float g = i < s->ffn ? test_value(gate, i * s->hidden + j) : 0;
            float u = i < s->ffn ? test_value(up, i * s->hidden + j) : 0;
            assert_true(panel_at(m, s->hidden, l->numeric, j, column) == g);
            assert_true(panel_at(m, s->hidden, l->numeric, j, column + 32) == u);
        }
}

static void check_layer(const struct packed *p, uint32_t layer, const unsigned char *unit)
{
    const struct br_model_layout *l = &p->packer.layout;
    const struct br_model_shape *s = &l->shape;
    const struct br_layer_offsets *at = &l->layer;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    char name[2][128];
#define NAME(i, what) (snprintf(name[i], sizeof name[i], "model.layers.%u.%s", layer, what), name[i])
    check_vector(unit + at->attn_norm, NAME(0, "input_layernorm.weight"), s->hidden);
    check_matrix(unit + at->qkv, NAME(0, "self_attn.q_proj.weight"), 0, q, s->hidden, s->hidden, l->numeric);
    check_matrix(unit + at->qkv, NAME(0, "self_attn.k_proj.weight"), q, kv, s->hidden, s->hidden, l->numeric);
    check_matrix(unit + at->qkv, NAME(0, "self_attn.v_proj.weight"), q + kv, kv, s->hidden, s->hidden, l->numeric);
    if (s->qkv_bias) {
        check_vector(unit + at->qkv_bias, NAME(0, "self_attn.q_proj.bias"), q);
        check_vector(unit + at->qkv_bias + 4 * q, NAME(0, "self_attn.k_proj.bias"), kv);
        check_vector(unit + at->qkv_bias + 4 * (q + kv), NAME(0, "self_attn.v_proj.bias"), kv);
    }
    if (s->qk_norm) {
        check_vector(unit + at->q_norm, NAME(0, "self_attn.q_norm.weight"), s->head_dim);
        check_vector(unit + at->k_norm, NAME(0, "self_attn.k_norm.weight"), s->head_dim);
    }
    check_matrix(unit + at->o, NAME(0, "self_attn.o_proj.weight"), 0, s->hidden, q, q, l->numeric);
    check_vector(unit + at->mlp_norm, NAME(0, "post_attention_layernorm.weight"), s->hidden);
    check_gate_up(unit + at->gate_up, NAME(0, "mlp.gate_proj.weight"), NAME(1, "mlp.up_proj.weight"), l);
    check_matrix(unit + at->down, NAME(0, "mlp.down_proj.weight"), 0, s->hidden, s->ffn, l->ffn_padded, l->numeric);
#undef NAME
}

static void check_embedding(const struct packed *p, const unsigned char *unit)
{
    static const char name[] = "model.embed_tokens.weight";
    const struct br_model_layout *l = &p->packer.layout;
    const struct br_model_shape *s = &l->shape;
    if (s->tied)
        check_matrix(unit, name, 0, s->vocab, s->hidden, s->hidden, l->numeric);
    for (uint64_t i = 0; !s->tied && i < (uint64_t)s->vocab * s->hidden; i++) {
        float got = l->numeric == BR_NUMERIC_F32
                        ? ((const float *)(const void *)unit)[i]
                        : br_f32_from_bits(br_bf16_to_f32_bits(((const uint16_t *)(const void *)unit)[i]));
        assert_true(got == test_value(name, i));
    }
}

/* Packs into dirty and into clean memory: equal bytes mean that every byte, padding too, is written. */
static unsigned char *unit_pack(const struct packed *p, uint32_t unit)
{
    uint64_t bytes = br_layout_unit_bytes(&p->packer.layout, unit);
    unsigned char *clean = aligned_alloc(64, bytes), *dirty = aligned_alloc(64, bytes);
    memset(clean, 0, bytes);
    memset(dirty, 0xa5, bytes);
    br_pack_unit(&p->packer, unit, clean);
    br_pack_unit(&p->packer, unit, dirty);
    assert_memory_equal(clean, dirty, bytes);
    free(dirty);
    return clean;
}

static void check_model(const struct br_model_shape *shape, const char *dtype, bool mixed, enum br_numeric ask,
                        enum br_numeric want, uint32_t shards)
{
    struct packed p = {0};
    struct br_err err;
    test_model_init(&p.model, shape, dtype, mixed);
    if (packed_open(&p, ask, shards, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(p.packer.layout.numeric, want);
    for (uint32_t u = 0; u < p.packer.layout.units; u++) {
        unsigned char *unit = unit_pack(&p, u);
        if (u == 0)
            check_embedding(&p, unit);
        else if (u < p.packer.layout.units - 1)
            check_layer(&p, u - 1, unit);
        else {
            check_vector(unit + p.packer.layout.final_norm, "model.norm.weight", shape->hidden);
            if (!shape->tied)
                check_matrix(unit + p.packer.layout.head, "lm_head.weight", 0, shape->vocab, shape->hidden,
                             shape->hidden, want);
        }
        free(unit);
    }
    packed_close(&p);
}

static void every_cell_is_where_the_layout_says(void **state)
{
    static const struct {
        const char *dtype;
        bool mixed;
        enum br_numeric ask, want;
    } cases[] = {
        {"BF16", false, BR_NUMERIC_AUTO, BR_NUMERIC_BF16}, {"BF16", true, BR_NUMERIC_AUTO, BR_NUMERIC_BF16},
        {"BF16", false, BR_NUMERIC_F32, BR_NUMERIC_F32},   {"F32", false, BR_NUMERIC_AUTO, BR_NUMERIC_F32},
        {"F16", false, BR_NUMERIC_AUTO, BR_NUMERIC_F32},   {"F16", true, BR_NUMERIC_BF16, BR_NUMERIC_BF16},
        {"F32", false, BR_NUMERIC_BF16, BR_NUMERIC_BF16}, /* test values are exact in BF16 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int variant = 0; variant < 4; variant++) {
            struct br_model_shape s = g_shape;
            s.tied = variant & 1;
            if (variant & 2) {
                s.arch = BR_ARCH_QWEN3;
                s.qkv_bias = false;
                s.qk_norm = true;
                s.hidden = 128;
                s.ffn = 192;
            }
            check_model(&s, cases[i].dtype, cases[i].mixed, cases[i].ask, cases[i].want, variant == 1 ? 3 : 1);
        }
}

/* Round to nearest even, by hand: 1 + 2^-8 is half way between 1 and 1 + 2^-7; 1 + 3 * 2^-8 between odd and even. */
static void bf16_rounds_to_nearest_even(void **state)
{
    static const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
        {0x3f817fff, 0x3f81}, {0x80000000, 0x8000}, {0x7f800000, 0x7f80}, {0xff7fffff, 0xff80},
        {0x7f800001, 0x7fc0}, {0x00000001, 0x0000}, {0x00018000, 0x0002},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(br_f32_bits_to_bf16(cases[i].from), cases[i].to);
}

/* All 65536 halves against the definition of binary16. */
static void f16_widens_exactly(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = h >> 10 & 31, mantissa = h & 1023;
        float got = br_f32_from_bits(br_f16_to_f32_bits((uint16_t)h));
        double want = exponent ? ldexp(1 + mantissa / 1024.0, exponent - 15) : ldexp(mantissa, -24);
        if (exponent == 31) {
            assert_true(mantissa ? isnan(got) : isinf(got));
            continue;
        }
        assert_true((double)got == (h & 0x8000 ? -want : want));
        assert_int_equal(signbit(got) != 0, h >> 15);
    }
}

enum change { DROP, ADD, DTYPE, RESHAPE };

static void refused_with(const char *name, enum change change, uint64_t n, uint64_t k, const char *const *parts)
{
    struct packed p = {0};
    struct br_err err;
    test_model_init(&p.model, &g_shape, "F32", false);
    if (change == DROP)
        test_model_drop(&p.model, name);
    if (change == ADD)
        test_model_add(&p.model, name, "F32", n, k);
    if (change == DTYPE)
        snprintf(test_model_find(&p.model, name)->dtype, 12, "I16");
    if (change == RESHAPE) {
        struct test_tensor *t = test_model_find(&p.model, name);
        t->shape[0] = n;
        t->shape[1] = k;
        t->rank = k ? 2 : 1;
    }
    assert_true(packed_open(&p, BR_NUMERIC_AUTO, 1, &err) < 0);
    assert_non_null(strstr(err.msg, p.model.dir));
    for (; *parts; parts++)
        if (!strstr(err.msg, *parts))
            fail_msg("\"%s\" lacks \"%s\"", err.msg, *parts);
    packed_close(&p);
}
#define REFUSED(name, change, n, k, ...) refused_with(name, change, n, k, (const char *const[]){__VA_ARGS__, NULL})

static void mismatches_name_tensor_and_shapes(void **state)
{
    (void)state;
    REFUSED("model.layers.1.mlp.up_proj.weight", RESHAPE, 91, 75,
            "model.layers.1.mlp.up_proj.weight has shape [91, 75]", "config.json asks for [90, 75]",
            "model.safetensors");
    REFUSED("model.norm.weight", RESHAPE, 75, 1, "model.norm.weight has shape [75, 1]", "asks for [75]");
    REFUSED("model.layers.0.self_attn.q_proj.bias", RESHAPE, 155, 0, "q_proj.bias has shape [155]", "asks for [156]");
    REFUSED("model.layers.0.self_attn.k_proj.weight", DROP, 0, 0, "model.layers.0.self_attn.k_proj.weight is missing");
    REFUSED("lm_head.weight", DROP, 0, 0, "tensor lm_head.weight is missing");
    REFUSED("model.layers.1.mlp.down_proj.weight", DTYPE, 0, 0, "model.layers.1.mlp.down_proj.weight is I16",
            "supported are F32, F16 and BF16");
    REFUSED("model.layers.1.self_attn.o_proj.bias", ADD, 75, 0, "model.layers.1.self_attn.o_proj.bias would change");
    REFUSED("model.layers.0.self_attn.q_norm.weight", ADD, 26, 0, "q_norm.weight would change the result");
}

static void harmless_extras_are_tolerated(void **state)
{
    struct packed p = {0};
    struct br_model_shape tied = g_shape;
    struct br_err err;
    (void)state;
    tied.tied = true;
    test_model_init(&p.model, &tied, "F32", false);
    test_model_add(&p.model, "lm_head.weight", "F32", tied.vocab, tied.hidden);
    test_model_add(&p.model, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 13, 0);
    test_model_add(&p.model, "model.layers.2.self_attn.q_proj.bias", "F32", 13, 0); /* beyond the config's layers */
    assert_int_equal(packed_open(&p, BR_NUMERIC_AUTO, 1, &err), 0);
    assert_null(p.packer.head);
    packed_close(&p);
}

static void non_finite_values_are_found(void **state)
{
    struct packed p = {0};
    struct br_err err;
    struct br_tensor *t;
    float *copy;
    (void)state;
    test_model_init(&p.model, &g_shape, "F32", false);
    assert_int_equal(packed_open(&p, BR_NUMERIC_AUTO, 1, &err), 0);
    assert_int_equal(br_packer_check_finite(&p.packer, &err), 0);
    t = (struct br_tensor *)p.packer.layers[1].up;
    copy = malloc(t->bytes);
    memcpy(copy, t->data, t->bytes);
    copy[4321] = -INFINITY;
    t->data = (const unsigned char *)copy;
    assert_int_equal(br_packer_check_finite(&p.packer, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "model.layers.1.mlp.up_proj.weight: value 4321 is -inf"));
    free(copy);
    packed_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_where_the_layout_says),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_widens_exactly),
        cmocka_unit_test(mismatches_name_tensor_and_shapes),
        cmocka_unit_test(harmless_extras_are_tolerated),
        cmocka_unit_test(non_finite_values_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
