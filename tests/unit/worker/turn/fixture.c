#include "fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"

/* ---- model folders ---- */

struct shape {
    const char *arch, *dtype;
    uint32_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab, context;
    bool tied, bias, qk_norm;
};

static const struct shape shapes[FX_RANDOM] = {
    {"LlamaForCausalLM", "float32", 48, 80, 4, 4, 2, 12, 150, 200, true, false, false},
    {"Qwen3ForCausalLM", "bfloat16", 64, 96, 3, 4, 1, 32, 300, 256, false, false, true},
    {"Qwen2ForCausalLM", "float32", 32, 72, 6, 2, 2, 16, 97, 160, false, true, false},
};

struct writer {
    const struct shape *shape;
    struct br_buf header, data;
    struct br_rng rng;
};

static void put_number(struct writer *w, float x)
{
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &x, 4);
    half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (strcmp(w->shape->dtype, "bfloat16") == 0)
        br_buf_add(&w->data, &half, 2);
    else
        br_buf_add(&w->data, &bits, 4);
}

static void put_tensor(struct writer *w, const char *name, uint32_t rows, uint32_t columns, double mean, double spread)
{
    size_t from = w->data.len;
    char dims[32];
    for (uint64_t i = 0; i < (uint64_t)rows * (columns ? columns : 1); i++)
        put_number(w, (float)(mean + spread * (2 * br_rng_next(&w->rng) - 1)));
    snprintf(dims, sizeof dims, columns ? "%u,%u" : "%u", rows, columns);
    br_buf_printf(&w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                  w->header.len > 1 ? "," : "", name, strcmp(w->shape->dtype, "bfloat16") ? "F32" : "BF16", dims, from,
                  w->data.len);
}

static void put_part(struct writer *w, uint32_t layer, const char *part, uint32_t rows, uint32_t columns, double mean,
                     double spread)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%u.%s", layer, part);
    put_tensor(w, name, rows, columns, mean, spread);
}

static void put_layer(struct writer *w, uint32_t l)
{
    const struct shape *s = w->shape;
    uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    double spread = 1.7 / sqrt(s->hidden);
    put_part(w, l, "input_layernorm.weight", s->hidden, 0, 1, .2);
    put_part(w, l, "self_attn.q_proj.weight", q, s->hidden, 0, 2 * spread);
    put_part(w, l, "self_attn.k_proj.weight", kv, s->hidden, 0, 2 * spread);
    put_part(w, l, "self_attn.v_proj.weight", kv, s->hidden, 0, spread);
    if (s->bias) {
        put_part(w, l, "self_attn.q_proj.bias", q, 0, 0, .3);
        put_part(w, l, "self_attn.k_proj.bias", kv, 0, 0, .3);
        put_part(w, l, "self_attn.v_proj.bias", kv, 0, 0, .3);
    }
    if (s->qk_norm) {
        put_part(w, l, "self_attn.q_norm.weight", s->head_dim, 0, 1, .2);
        put_part(w, l, "self_attn.k_norm.weight", s->head_dim, 0, 1, .2);
    }
    put_part(w, l, "self_attn.o_proj.weight", s->hidden, q, 0, spread);
    put_part(w, l, "post_attention_layernorm.weight", s->hidden, 0, 1, .2);
    put_part(w, l, "mlp.gate_proj.weight", s->ffn, s->hidden, 0, spread);
    put_part(w, l, "mlp.up_proj.weight", s->ffn, s->hidden, 0, spread);
    put_part(w, l, "mlp.down_proj.weight", s->hidden, s->ffn, 0, spread);
}

static void write_file(const char *dir, const char *name, const struct br_buf *parts, uint32_t n)
{
    char path[400];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(fwrite(parts[i].data, 1, parts[i].len, f), parts[i].len);
    fclose(f);
}

static void write_weights(const char *dir, const struct shape *s, uint64_t seed)
{
    struct writer w = {.shape = s, .rng = {.seed = seed}};
    struct br_buf parts[3] = {{0}};
    uint64_t len;
    br_buf_puts(&w.header, "{");
    put_tensor(&w, "model.embed_tokens.weight", s->vocab, s->hidden, 0, 1);
    for (uint32_t l = 0; l < s->layers; l++)
        put_layer(&w, l);
    put_tensor(&w, "model.norm.weight", s->hidden, 0, 1, .2);
    if (!s->tied)
        put_tensor(&w, "lm_head.weight", s->vocab, s->hidden, 0, 3 / sqrt(s->hidden));
    br_buf_puts(&w.header, "}");
    while (w.header.len % 8)
        br_buf_puts(&w.header, " ");
    len = w.header.len;
    br_buf_add(&parts[0], &len, 8);
    parts[1] = w.header;
    parts[2] = w.data;
    write_file(dir, "model.safetensors", parts, 3);
    for (int i = 0; i < 3; i++)
        br_buf_free(&parts[i]);
}

static void write_config(const char *dir, const struct shape *s)
{
    struct br_buf b = {0};
    const char *type = strstr(s->arch, "Llama") ? "llama" : strstr(s->arch, "Qwen3") ? "qwen3" : "qwen2";
    br_buf_printf(&b,
                  "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"hidden_size\":%u,\"intermediate_size\":%u,"
                  "\"num_hidden_layers\":%u,\"num_attention_heads\":%u,\"num_key_value_heads\":%u,\"head_dim\":%u,"
                  "\"vocab_size\":%u,\"max_position_embeddings\":%u,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
                  "\"hidden_act\":\"silu\",\"tie_word_embeddings\":%s,\"bos_token_id\":1,\"eos_token_id\":2,"
                  "\"torch_dtype\":\"%s\"}",
                  s->arch, type, s->hidden, s->ffn, s->layers, s->heads, s->kv_heads, s->head_dim, s->vocab, s->context,
                  s->tied ? "true" : "false", s->dtype);
    write_file(dir, "config.json", &b, 1);
    br_buf_free(&b);
}

static void model_open(struct fx_models *m, uint32_t i)
{
    static const char *names[FX_MODELS] = {"llama-f32", "qwen3-bf16", "qwen2-f32", "stories", "tiny-qwen2"};
    struct br_err err;
    int rc = br_weight_image_open(m->folder[i], names[i], m->dir, BR_NUMERIC_AUTO, &m->image[i], &err);
    uint64_t bytes;
    if (rc)
        fail_msg("%s: %s", names[i], err.msg);
    m->model[i].name = names[i];
    m->model[i].image = m->image[i];
    m->model[i].tokenizer = m->tokenizer[i];
    bytes = br_layout_total_bytes(&m->image[i]->layout);
    m->all_bytes += bytes;
    m->largest_bytes = bytes > m->largest_bytes ? bytes : m->largest_bytes;
}

static void shared_open(struct fx_models *m, uint32_t i, const char *name)
{
    const char *shared = getenv("BRIAREUS_SHARED"), *source = getenv("BRIAREUS_SOURCE");
    char path[400];
    struct br_err err;
    if (shared && *shared)
        snprintf(m->folder[i], sizeof m->folder[i], "%s/data/models/%s", shared, name);
    else
        snprintf(m->folder[i], sizeof m->folder[i], "%s/../shared/data/models/%s", source ? source : ".", name);
    snprintf(path, sizeof path, "%s/tokenizer.json", m->folder[i]);
    if (br_tokenizer_load(path, &m->tokenizer[i], &err))
        fail_msg("%s", err.msg);
    model_open(m, i);
}

void fx_models_open(struct fx_models *m)
{
    *m = (struct fx_models){.dir = "/tmp/briareus-turn-XXXXXX"};
    assert_non_null(mkdtemp(m->dir));
    for (uint32_t i = 0; i < FX_RANDOM; i++) {
        snprintf(m->folder[i], sizeof m->folder[i], "%s/%u", m->dir, i);
        assert_int_equal(mkdir(m->folder[i], 0700), 0);
        write_config(m->folder[i], &shapes[i]);
        write_weights(m->folder[i], &shapes[i], 100 + i);
        model_open(m, i);
    }
    shared_open(m, 3, "stories260K");
    shared_open(m, 4, "tiny-qwen2");
}

void fx_models_close(struct fx_models *m)
{
    char command[128];
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        br_weight_image_close(m->image[i]);
        br_tokenizer_free(m->tokenizer[i]);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", m->dir);
    assert_int_equal(system(command), 0);
}

/* ---- runs ---- */

static void on_output(void *ctx, const struct br_turn_output *out)
{
    struct fx_run *run = ctx;
    pthread_mutex_lock(&run->mutex);
    for (uint32_t i = 0; i < run->n; i++) {
        struct fx_result *r = &run->results[i];
        if (r->seq != out->seq)
            continue;
        if (r->end != BR_END_NONE || r->n != out->first) { /* not the test's thread: no assert_* here */
            fprintf(stderr, "seq %lu: output from %u on, has %u\n", (unsigned long)r->seq, out->first, r->n);
            abort();
        }
        for (uint32_t k = 0; k < out->n; k++)
            r->tokens[r->n + k] = out->tokens[k];
        r->n += out->n;
        r->cached = out->cached;
        r->end = out->end;
        snprintf(r->error, sizeof r->error, "%s", out->error ? out->error : "");
        run->ended += out->end != BR_END_NONE;
    }
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
}

static void on_drained(void *ctx)
{
    struct fx_run *run = ctx;
    pthread_mutex_lock(&run->mutex);
    run->drained = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
}

void fx_config(const struct fx_models *m, struct br_turn_config *config)
{
    br_turn_config_init(config);
    config->kv_bytes = 16 << 20;
    config->host_kv_bytes = 16 << 20;
    config->device.memory_bytes = m->all_bytes + config->kv_bytes + 4096;
    config->max_context = 256;
    config->max_seqs = 256;
    config->no_profile = config->check = true;
}

void fx_start(struct fx_run *run, const struct br_turn_config *config, const struct fx_models *m, uint32_t n_models)
{
    struct br_turn_cb cb = {.ctx = run, .output = on_output, .drained = on_drained};
    struct br_err err;
    *run = (struct fx_run){.cap = 512};
    run->results = br_calloc(run->cap, sizeof *run->results);
    pthread_mutex_init(&run->mutex, NULL);
    pthread_cond_init(&run->changed, NULL);
    if (br_turn_create(config, m->model, n_models, &cb, &run->turn, &err))
        fail_msg("%s", err.msg);
}

void fx_stop(struct fx_run *run)
{
    br_turn_destroy(run->turn);
    free(run->results);
    pthread_mutex_destroy(&run->mutex);
    pthread_cond_destroy(&run->changed);
}

void fx_spec(const struct fx_models *m, uint32_t model, uint32_t k, struct br_seq_spec *out)
{
    struct br_rng rng = {.seed = 1000 * model + k};
    uint32_t vocab = m->image[model]->layout.shape.vocab;
    br_seq_spec_init(out);
    out->id = 1 + 1000 * model + k;
    out->choice = k % 3;
    snprintf(out->model, sizeof out->model, "%s", m->model[model].name);
    out->n_prompt = 1 + (uint32_t)(70 * br_rng_next(&rng));
    out->prompt = br_malloc(out->n_prompt * sizeof *out->prompt);
    for (uint32_t i = 0; i < out->n_prompt; i++)
        out->prompt[i] = (int32_t)(vocab * br_rng_next(&rng));
    out->max_tokens = 6 + (uint32_t)(19 * br_rng_next(&rng));
    out->ignore_eos = k % 4 != 3;
    out->sampling.temperature = k % 2 ? .9f : 0;
    out->sampling.seed = 77 + k;
    out->sampling.top_k = k % 4 == 1 ? 20 : 0;
    out->sampling.top_p = k % 3 == 1 ? .9f : 1;
    out->sampling.repetition_penalty = k % 5 == 4 ? 1.2f : 1;
    out->sampling.logprobs = (int32_t)(k % 4) - 1;
}

uint32_t fx_add(struct fx_run *run, const struct br_seq_spec *spec, const struct br_token *before, uint32_t given)
{
    struct br_seq_spec copy;
    int32_t ids[160];
    uint32_t index;
    assert_int_equal(br_seq_spec_copy(&copy, spec), 0);
    for (uint32_t i = 0; i < given; i++)
        ids[i] = before[i].id;
    pthread_mutex_lock(&run->mutex);
    index = run->n++;
    assert_true(run->n <= run->cap);
    run->results[index] = (struct fx_result){.seq = spec->id, .given = given, .n = given};
    pthread_mutex_unlock(&run->mutex);
    br_turn_add(run->turn, &copy, 1, ids, given, 0);
    return index;
}

void fx_wait(struct fx_run *run)
{
    pthread_mutex_lock(&run->mutex);
    while (run->ended < run->n)
        pthread_cond_wait(&run->changed, &run->mutex);
    pthread_mutex_unlock(&run->mutex);
}

void fx_wait_tokens(struct fx_run *run, uint32_t index, uint32_t n)
{
    pthread_mutex_lock(&run->mutex);
    while (run->results[index].n < n && run->results[index].end == BR_END_NONE)
        pthread_cond_wait(&run->changed, &run->mutex);
    pthread_mutex_unlock(&run->mutex);
}

void fx_alone(const struct fx_models *m, uint32_t model, uint32_t k, struct fx_result *out)
{
    struct br_seq_spec spec;
    fx_spec(m, model, k, &spec);
    fx_alone_spec(m, model, &spec, out);
    br_seq_spec_free(&spec);
}

void fx_alone_spec(const struct fx_models *m, uint32_t model, const struct br_seq_spec *spec, struct fx_result *out)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct fx_models one = {0};
    fx_config(m, &config);
    config.prefill_chunk = 256;
    config.prefix_cache = false;
    one.model[0] = m->model[model];
    fx_start(&run, &config, &one, 1);
    fx_add(&run, spec, NULL, 0);
    fx_wait(&run);
    *out = run.results[0];
    fx_stop(&run);
    if (out->end == BR_END_FAILED)
        fail_msg("seq %lu failed: %s", (unsigned long)out->seq, out->error);
    assert_true(out->n > 0);
}

void fx_same(const struct fx_result *want, const struct fx_result *got, uint32_t from)
{
    if (got->end != want->end || got->n != want->n)
        fail_msg("seq %lu: end %s after %u tokens, want %s after %u (%s)", (unsigned long)got->seq,
                 br_end_name(got->end), got->n, br_end_name(want->end), want->n, got->error);
    for (uint32_t i = from; i < want->n; i++) {
        const struct br_token *a = &want->tokens[i], *b = &got->tokens[i];
        if (a->id != b->id || memcmp(&a->logprob, &b->logprob, 4) || a->n_top != b->n_top)
            fail_msg("seq %lu token %u: id %d logprob %a, want %d %a", (unsigned long)got->seq, i, b->id, b->logprob,
                     a->id, a->logprob);
        assert_memory_equal(a->top_id, b->top_id, a->n_top * sizeof *a->top_id);
        assert_memory_equal(a->top_logprob, b->top_logprob, a->n_top * sizeof *a->top_logprob);
    }
}
