#include "tests/unit/worker/engine/toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

const struct toy_shape toy_shapes[TOY_SHAPES] = {
    {"llama_hd8",
     {.arch = BR_ARCH_LLAMA,
      .hidden = 64,
      .ffn = 172,
      .layers = 2,
      .heads = 8,
      .kv_heads = 4,
      .head_dim = 8,
      .vocab = 70,
      .max_positions = 512,
      .rms_eps = 1e-5f,
      .rope = {.theta = 10000}}},
    {"qwen2_bias",
     {.arch = BR_ARCH_QWEN2,
      .hidden = 96,
      .ffn = 80,
      .layers = 2,
      .heads = 6,
      .kv_heads = 1,
      .head_dim = 16,
      .vocab = 64,
      .max_positions = 512,
      .rms_eps = 1e-6f,
      .rope = {.theta = 1000000},
      .qkv_bias = true}},
    {"qwen3_qknorm",
     {.arch = BR_ARCH_QWEN3,
      .hidden = 67,
      .ffn = 33,
      .layers = 3,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 64,
      .vocab = 131,
      .max_positions = 512,
      .rms_eps = 1e-6f,
      .rope = {.theta = 10000},
      .qk_norm = true,
      .tied = true}},
    {"llama_hd128",
     {.arch = BR_ARCH_LLAMA,
      .hidden = 80,
      .ffn = 96,
      .layers = 1,
      .heads = 8,
      .kv_heads = 8,
      .head_dim = 128,
      .vocab = 50,
      .max_positions = 512,
      .rms_eps = 1e-5f,
      .rope = {.theta = 10000},
      .tied = true}},
};

uint16_t toy_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float toy_from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

static float *random_values(struct br_rng *rng, size_t n, double base, double spread)
{
    float *out = br_malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = toy_from_bf16(toy_to_bf16((float)(base + spread * (2 * br_rng_next(rng) - 1))));
    return out;
}

static float *random_matrix(struct br_rng *rng, uint32_t out, uint32_t in)
{
    return random_values(rng, (size_t)out * in, 0, 1.7 / sqrt(in));
}

static void layer_random(struct toy_layer *l, const struct br_model_shape *s, struct br_rng *rng)
{
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    l->attn_norm = random_values(rng, s->hidden, 1, 0.2);
    l->q = random_matrix(rng, q, s->hidden);
    l->k = random_matrix(rng, kv, s->hidden);
    l->v = random_matrix(rng, kv, s->hidden);
    l->bias = random_values(rng, q + 2 * kv, 0, s->qkv_bias ? 0.5 : 0);
    l->q_norm = random_values(rng, s->head_dim, 1.2, 0.3);
    l->k_norm = random_values(rng, s->head_dim, 1.2, 0.3);
    l->o = random_matrix(rng, s->hidden, q);
    l->mlp_norm = random_values(rng, s->hidden, 1, 0.2);
    l->gate = random_matrix(rng, s->ffn, s->hidden);
    l->up = random_matrix(rng, s->ffn, s->hidden);
    l->down = random_matrix(rng, s->hidden, s->ffn);
}

void toy_pack(void *out, uint32_t k, uint32_t n, enum br_numeric numeric, toy_value_fn *value, const void *ctx)
{
    size_t kp = numeric == BR_NUMERIC_BF16 ? (k + 1) / 2 * 2 : k;
    for (uint32_t col = 0; col < n; col++)
        for (uint32_t i = 0; i < k; i++) {
            float x = value(ctx, i, col);
            size_t panel = col / 64 * kp * 64, j = col % 64;
            if (numeric == BR_NUMERIC_BF16)
                ((uint16_t *)out)[panel + (size_t)(i / 2) * 128 + j * 2 + i % 2] = toy_to_bf16(x);
            else
                ((float *)out)[panel + (size_t)i * 64 + j] = x;
        }
}

struct parts {
    const float *row[3];
    uint32_t rows[3], in;
};

static float rows_value(const void *ctx, uint32_t k, uint32_t n)
{
    const struct parts *p = ctx;
    int i = 0;
    while (n >= p->rows[i])
        n -= p->rows[i++];
    return p->row[i][(size_t)n * p->in + k];
}

/* 32 gates, then their ups. */
static float gate_up_value(const void *ctx, uint32_t k, uint32_t n)
{
    const struct parts *p = ctx;
    uint32_t row = n / 64 * 32 + n % 32;
    return row < p->rows[0] ? p->row[n % 64 >= 32][(size_t)row * p->in + k] : 0;
}

static float down_value(const void *ctx, uint32_t k, uint32_t n)
{
    const struct parts *p = ctx;
    return k < p->in ? p->row[0][(size_t)n * p->in + k] : 0;
}

static void *layer_pack(const struct toy *toy, const struct toy_layer *l)
{
    const struct br_model_shape *s = &toy->layout.shape;
    const struct br_layer_offsets *at = &toy->layout.layer;
    enum br_numeric numeric = toy->layout.numeric;
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    char *out = br_calloc(1, at->bytes);
    struct parts qkv = {{l->q, l->k, l->v}, {q, kv, kv}, s->hidden}, o = {{l->o}, {s->hidden}, q};
    struct parts gate_up = {{l->gate, l->up}, {s->ffn}, s->hidden}, down = {{l->down}, {s->hidden}, s->ffn};
    memcpy(out + at->attn_norm, l->attn_norm, 4 * s->hidden);
    memcpy(out + at->mlp_norm, l->mlp_norm, 4 * s->hidden);
    toy_pack(out + at->qkv, s->hidden, q + 2 * kv, numeric, rows_value, &qkv);
    toy_pack(out + at->o, q, s->hidden, numeric, rows_value, &o);
    toy_pack(out + at->gate_up, s->hidden, 2 * toy->layout.ffn_padded, numeric, gate_up_value, &gate_up);
    toy_pack(out + at->down, toy->layout.ffn_padded, s->hidden, numeric, down_value, &down);
    if (s->qkv_bias)
        memcpy(out + at->qkv_bias, l->bias, 4 * (q + 2 * kv));
    if (s->qk_norm) {
        memcpy(out + at->q_norm, l->q_norm, 4 * s->head_dim);
        memcpy(out + at->k_norm, l->k_norm, 4 * s->head_dim);
    }
    return out;
}

static void *embed_pack(const struct toy *toy)
{
    const struct br_model_shape *s = &toy->layout.shape;
    size_t n = (size_t)s->vocab * s->hidden;
    void *out = br_calloc(1, toy->layout.embed_bytes);
    struct parts rows = {{toy->embed}, {s->vocab}, s->hidden};
    if (s->tied)
        toy_pack(out, s->hidden, s->vocab, toy->layout.numeric, rows_value, &rows);
    for (size_t i = 0; !s->tied && i < n; i++)
        if (toy->layout.numeric == BR_NUMERIC_BF16)
            ((uint16_t *)out)[i] = toy_to_bf16(toy->embed[i]);
        else
            ((float *)out)[i] = toy->embed[i];
    return out;
}

static void *last_pack(const struct toy *toy)
{
    const struct br_model_shape *s = &toy->layout.shape;
    char *out = br_calloc(1, toy->layout.last_bytes);
    struct parts rows = {{toy->head}, {s->vocab}, s->hidden};
    memcpy(out + toy->layout.final_norm, toy->final_norm, 4 * s->hidden);
    if (!s->tied)
        toy_pack(out + toy->layout.head, s->hidden, s->vocab, toy->layout.numeric, rows_value, &rows);
    return out;
}

struct toy *toy_create(const struct br_model_shape *s, enum br_numeric numeric, uint64_t seed)
{
    struct toy *toy = br_calloc(1, sizeof *toy);
    struct br_rng rng = {.seed = seed};
    br_model_layout_init(&toy->layout, s, numeric, NULL);
    toy->embed = random_values(&rng, (size_t)s->vocab * s->hidden, 0, s->tied ? 0.3 : 1);
    toy->head = s->tied ? NULL : random_matrix(&rng, s->vocab, s->hidden);
    toy->final_norm = random_values(&rng, s->hidden, 1, 0.2);
    toy->layer = br_calloc(s->layers, sizeof *toy->layer);
    toy->unit = br_calloc(toy->layout.units, sizeof *toy->unit);
    for (uint32_t i = 0; i < s->layers; i++) {
        layer_random(&toy->layer[i], s, &rng);
        toy->unit[1 + i] = layer_pack(toy, &toy->layer[i]);
    }
    toy->unit[0] = embed_pack(toy);
    toy->unit[toy->layout.units - 1] = last_pack(toy);
    return toy;
}

void toy_destroy(struct toy *toy)
{
    for (uint32_t i = 0; i < toy->layout.shape.layers; i++) {
        float **field = (float **)&toy->layer[i];
        for (size_t f = 0; f < sizeof toy->layer[i] / sizeof *field; f++)
            free(field[f]);
    }
    for (uint32_t i = 0; i < toy->layout.units; i++)
        free(toy->unit[i]);
    free(toy->unit);
    free(toy->layer);
    free(toy->embed);
    free(toy->head);
    free(toy->final_norm);
    free(toy);
}

/* The reference. */

static void ref_norm(const double *x, const float *w, uint32_t n, double eps, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] / sqrt(sum / n + eps) * w[i];
}

static void ref_linear(const double *x, const float *w, uint32_t in, uint32_t out, const float *bias, double *y)
{
    for (uint32_t o = 0; o < out; o++) {
        y[o] = bias ? bias[o] : 0;
        for (uint32_t i = 0; i < in; i++)
            y[o] += x[i] * w[(size_t)o * in + i];
    }
}

static void ref_rope(double *x, uint32_t head_dim, double theta, uint32_t pos)
{
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        double angle = pos * pow(theta, -2.0 * i / head_dim), a = x[i], b = x[i + head_dim / 2];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + head_dim / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void ref_heads(const struct br_model_shape *s, double *x, uint32_t heads, const float *norm, uint32_t pos)
{
    for (uint32_t h = 0; h < heads; h++) {
        double *head = x + (size_t)h * s->head_dim;
        if (s->qk_norm)
            ref_norm(head, norm, s->head_dim, s->rms_eps, head);
        ref_rope(head, s->head_dim, s->rope.theta, pos);
    }
}

static void ref_attend(const struct br_model_shape *s, const double *q, const double *k, const double *v, uint32_t pos,
                       double *out)
{
    uint32_t d = s->head_dim, kv = s->kv_heads * d;
    double *p = br_malloc((pos + 1) * sizeof *p);
    for (uint32_t h = 0; h < s->heads; h++) {
        uint32_t at = h / (s->heads / s->kv_heads) * d;
        double total = 0, most = -INFINITY;
        for (uint32_t t = 0; t <= pos; t++) {
            p[t] = 0;
            for (uint32_t i = 0; i < d; i++)
                p[t] += q[h * d + i] * k[(size_t)t * kv + at + i] / sqrt(d);
            most = fmax(most, p[t]);
        }
        for (uint32_t t = 0; t <= pos; t++)
            total += p[t] = exp(p[t] - most);
        for (uint32_t i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (uint32_t t = 0; t <= pos; t++)
                out[h * d + i] += p[t] / total * v[(size_t)t * kv + at + i];
        }
    }
    free(p);
}

struct ref {
    double *norm, *q, *mix, *gate, *up, *delta, *k, *v;
};

static void ref_layer(const struct toy *toy, const struct toy_layer *l, struct ref *r, double *x, uint32_t pos)
{
    const struct br_model_shape *s = &toy->layout.shape;
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    double *k = r->k + (size_t)pos * kv, *v = r->v + (size_t)pos * kv;
    ref_norm(x, l->attn_norm, s->hidden, s->rms_eps, r->norm);
    ref_linear(r->norm, l->q, s->hidden, q, l->bias, r->q);
    ref_linear(r->norm, l->k, s->hidden, kv, l->bias + q, k);
    ref_linear(r->norm, l->v, s->hidden, kv, l->bias + q + kv, v);
    ref_heads(s, r->q, s->heads, l->q_norm, pos);
    ref_heads(s, k, s->kv_heads, l->k_norm, pos);
    ref_attend(s, r->q, r->k, r->v, pos, r->mix);
    ref_linear(r->mix, l->o, q, s->hidden, NULL, r->delta);
    for (uint32_t i = 0; i < s->hidden; i++)
        x[i] += r->delta[i];
    ref_norm(x, l->mlp_norm, s->hidden, s->rms_eps, r->norm);
    ref_linear(r->norm, l->gate, s->hidden, s->ffn, NULL, r->gate);
    ref_linear(r->norm, l->up, s->hidden, s->ffn, NULL, r->up);
    for (uint32_t i = 0; i < s->ffn; i++)
        r->gate[i] *= r->up[i] / (1 + exp(-r->gate[i]));
    ref_linear(r->gate, l->down, s->ffn, s->hidden, NULL, r->delta);
    for (uint32_t i = 0; i < s->hidden; i++)
        x[i] += r->delta[i];
}

static double *doubles(size_t n)
{
    return br_calloc(n, sizeof(double));
}

void toy_reference(const struct toy *toy, const int32_t *ids, uint32_t n, double *logits)
{
    const struct br_model_shape *s = &toy->layout.shape;
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    struct ref r = {.norm = doubles(s->hidden), .q = doubles(q), .mix = doubles(q), .delta = doubles(s->hidden)};
    double *x = doubles((size_t)n * s->hidden);
    r.gate = doubles(s->ffn);
    r.up = doubles(s->ffn);
    r.k = doubles((size_t)n * kv);
    r.v = doubles((size_t)n * kv);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < s->hidden; i++)
            x[(size_t)t * s->hidden + i] = toy->embed[(size_t)ids[t] * s->hidden + i];
    for (uint32_t l = 0; l < s->layers; l++)
        for (uint32_t t = 0; t < n; t++)
            ref_layer(toy, &toy->layer[l], &r, x + (size_t)t * s->hidden, t);
    for (uint32_t t = 0; t < n; t++) {
        ref_norm(x + (size_t)t * s->hidden, toy->final_norm, s->hidden, s->rms_eps, r.norm);
        ref_linear(r.norm, s->tied ? toy->embed : toy->head, s->hidden, s->vocab, NULL, logits + (size_t)t * s->vocab);
    }
    double **field = (double **)&r;
    for (size_t i = 0; i < sizeof r / sizeof *field; i++)
        free(field[i]);
    free(x);
}
