#include "tests/unit/worker/weights/model_dir.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

void test_dir_make(char dir[64])
{
    snprintf(dir, 64, "/tmp/briareus-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
}

void test_dir_remove(const char *dir)
{
    struct dirent *entry;
    DIR *d = opendir(dir);
    while (d && (entry = readdir(d))) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

void test_file_write(const char *dir, const char *name, const void *data, size_t len)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
        abort();
}

/* 7 significant bits, so that BF16's 8 hold it. */
float test_value(const char *name, uint64_t i)
{
    uint64_t h = 1469598103934665603ull;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211ull;
    h = (h ^ i) * 0x9e3779b97f4a7c15ull;
    return (float)((int)(h >> 40 & 0xff) - 128) / 64.0f;
}

void test_model_add(struct test_model *m, const char *name, const char *dtype, uint64_t n, uint64_t k)
{
    struct test_tensor *t;
    m->tensors = br_realloc(m->tensors, (m->n + 1) * sizeof *t);
    t = &m->tensors[m->n++];
    *t = (struct test_tensor){.rank = k ? 2 : 1, .shape = {n, k}};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
}

struct test_tensor *test_model_find(struct test_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    abort();
}

void test_model_drop(struct test_model *m, const char *name)
{
    struct test_tensor *t = test_model_find(m, name);
    *t = m->tensors[--m->n];
}

static void add_layer(struct test_model *m, uint32_t i, const char *matrix, const char *vector)
{
    const struct br_model_shape *s = &m->shape;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        bool there;
        uint64_t n, k;
    } list[] = {
        {"input_layernorm.weight", true, s->hidden, 0},
        {"self_attn.q_proj.weight", true, q, s->hidden},
        {"self_attn.k_proj.weight", true, kv, s->hidden},
        {"self_attn.v_proj.weight", true, kv, s->hidden},
        {"self_attn.q_proj.bias", s->qkv_bias, q, 0},
        {"self_attn.k_proj.bias", s->qkv_bias, kv, 0},
        {"self_attn.v_proj.bias", s->qkv_bias, kv, 0},
        {"self_attn.q_norm.weight", s->qk_norm, s->head_dim, 0},
        {"self_attn.k_norm.weight", s->qk_norm, s->head_dim, 0},
        {"self_attn.o_proj.weight", true, s->hidden, q},
        {"post_attention_layernorm.weight", true, s->hidden, 0},
        {"mlp.gate_proj.weight", true, s->ffn, s->hidden},
        {"mlp.up_proj.weight", true, s->ffn, s->hidden},
        {"mlp.down_proj.weight", true, s->hidden, s->ffn},
    };
    for (size_t j = 0; j < sizeof list / sizeof list[0]; j++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.%u.%s", i, list[j].name);
        if (list[j].there)
            test_model_add(m, name, list[j].k ? matrix : vector, list[j].n, list[j].k);
    }
}

void test_model_init(struct test_model *m, const struct br_model_shape *s, const char *dtype, bool mixed)
{
    const char *vector = mixed ? "F32" : dtype;
    *m = (struct test_model){.shape = *s};
    test_dir_make(m->dir);
    test_model_add(m, "model.embed_tokens.weight", dtype, s->vocab, s->hidden);
    test_model_add(m, "model.norm.weight", vector, s->hidden, 0);
    if (!s->tied)
        test_model_add(m, "lm_head.weight", dtype, s->vocab, s->hidden);
    for (uint32_t i = 0; i < s->layers; i++)
        add_layer(m, i, dtype, vector);
}

static uint16_t f16_of(float v)
{
    uint32_t bits;
    int exponent;
    memcpy(&bits, &v, 4);
    if (v == 0)
        return 0;
    exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
    assert(exponent > 0 && exponent < 31);
    return (uint16_t)((bits >> 16 & 0x8000) | (unsigned)exponent << 10 | (bits >> 13 & 0x3ff));
}

static uint64_t tensor_elements(const struct test_tensor *t)
{
    return t->shape[0] * (t->rank == 2 ? t->shape[1] : 1);
}

static void write_values(FILE *f, const struct test_tensor *t)
{
    uint64_t n = tensor_elements(t);
    for (uint64_t i = 0; i < n; i++) {
        float v = test_value(t->name, i);
        uint32_t bits;
        uint16_t half;
        memcpy(&bits, &v, 4);
        half = strcmp(t->dtype, "F16") == 0 ? f16_of(v) : (uint16_t)(bits >> 16);
        if (strcmp(t->dtype, "F32") == 0)
            fwrite(&bits, 4, 1, f);
        else
            fwrite(&half, 2, 1, f);
    }
}

static void write_shard(const struct test_model *m, const char *name, uint32_t first, uint32_t end)
{
    struct br_buf header = {0};
    char path[512];
    uint64_t at = 0, len;
    FILE *f;
    br_buf_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = first; i < end; i++) {
        const struct test_tensor *t = &m->tensors[i];
        uint64_t bytes = tensor_elements(t) * (strcmp(t->dtype, "F32") == 0 ? 4 : 2);
        br_buf_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, t->name, t->dtype, t->shape[0]);
        if (t->rank == 2)
            br_buf_printf(&header, ",%" PRIu64, t->shape[1]);
        br_buf_printf(&header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    br_buf_puts(&header, "}");
    snprintf(path, sizeof path, "%s/%s", m->dir, name);
    f = fopen(path, "wb");
    if (!f)
        abort();
    len = header.len;
    fwrite(&len, 8, 1, f);
    fwrite(header.data, 1, len, f);
    for (uint32_t i = first; i < end; i++)
        write_values(f, &m->tensors[i]);
    fclose(f);
    br_buf_free(&header);
}

static void write_config(const struct test_model *m)
{
    static const char *const archs[] = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"};
    const struct br_model_shape *s = &m->shape;
    struct br_buf text = {0};
    br_buf_printf(&text,
                  "{\"architectures\":[\"%s\"],\"hidden_size\":%u,\"intermediate_size\":%u,\"num_hidden_layers\":%u,"
                  "\"num_attention_heads\":%u,\"num_key_value_heads\":%u,\"head_dim\":%u,\"vocab_size\":%u,"
                  "\"max_position_embeddings\":%u,\"tie_word_embeddings\":%s,\"attention_bias\":%s}",
                  archs[s->arch], s->hidden, s->ffn, s->layers, s->heads, s->kv_heads, s->head_dim, s->vocab,
                  s->max_positions, s->tied ? "true" : "false", s->qkv_bias ? "true" : "false");
    test_file_write(m->dir, "config.json", text.data, text.len);
    br_buf_free(&text);
}

void test_model_write(const struct test_model *m, uint32_t shards)
{
    struct br_buf index = {0};
    write_config(m);
    if (shards <= 1) {
        write_shard(m, "model.safetensors", 0, m->n);
        return;
    }
    br_buf_puts(&index, "{\"metadata\":{},\"weight_map\":{");
    for (uint32_t i = 0; i < shards; i++) {
        uint32_t first = m->n * i / shards, end = m->n * (i + 1) / shards;
        char name[64];
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i + 1, shards);
        write_shard(m, name, first, end);
        for (uint32_t j = first; j < end; j++)
            br_buf_printf(&index, "%s\"%s\":\"%s\"", j ? "," : "", m->tensors[j].name, name);
    }
    br_buf_puts(&index, "}}");
    test_file_write(m->dir, "model.safetensors.index.json", index.data, index.len);
    br_buf_free(&index);
}

void test_model_free(struct test_model *m)
{
    test_dir_remove(m->dir);
    free(m->tensors);
}
