/* Specs and token runs: what goes in comes out, and nothing that breaks a limit comes in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "proto/convert.h"
#include "proto/seq.h"
#include "tests/cmocka.h"

static uint32_t pick(struct br_rng *rng, uint32_t below)
{
    return (uint32_t)(br_rng_next(rng) * below);
}

static int32_t *random_ids(struct br_rng *rng, uint32_t n)
{
    int32_t *ids = n ? br_malloc(n * sizeof *ids) : NULL;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)pick(rng, INT32_MAX);
    return ids;
}

static void random_spec(struct br_rng *rng, struct br_seq_spec *spec)
{
    br_seq_spec_init(spec);
    spec->id = 1 + br_rng_u64(rng->seed, 7, rng->next++, 0) / 2;
    snprintf(spec->request_id, sizeof spec->request_id, "req-%u", pick(rng, 1u << 30));
    memset(spec->model, 'm', 1 + pick(rng, BR_MAX_MODEL_NAME - 1));
    spec->choice = pick(rng, 8);
    spec->sampling = (struct br_sampling){(float)(2 * br_rng_next(rng)),
                                          1 - (float)br_rng_next(rng) / 2,
                                          (float)br_rng_next(rng),
                                          (int32_t)pick(rng, 100),
                                          0.5f + (float)br_rng_next(rng),
                                          (float)(br_rng_next(rng) - 0.5),
                                          (float)(br_rng_next(rng) - 0.5),
                                          br_rng_u64(rng->seed, 8, rng->next++, 0),
                                          (int32_t)pick(rng, BR_MAX_TOP_LOGPROBS + 2) - 1};
    spec->max_tokens = 1 + pick(rng, 5000);
    spec->min_tokens = pick(rng, spec->max_tokens);
    spec->ignore_eos = pick(rng, 2);
    spec->include_stop = pick(rng, 2);
    spec->continues_text = pick(rng, 2);
    spec->show_special = pick(rng, 2);
    spec->stop_ids = random_ids(rng, spec->n_stop_ids = pick(rng, BR_MAX_STOP_IDS + 1));
    spec->bias_ids = random_ids(rng, spec->n_bias = pick(rng, BR_MAX_LOGIT_BIAS + 1));
    spec->bias = br_calloc(BR_MAX_LOGIT_BIAS, sizeof *spec->bias);
    for (uint32_t i = 0; i < spec->n_bias; i++)
        spec->bias[i] = (float)(200 * br_rng_next(rng) - 100);
    spec->prompt = random_ids(rng, spec->n_prompt = 1 + pick(rng, 3000));
    spec->n_stop = pick(rng, BR_MAX_STOP_STRINGS + 1);
    spec->stop = br_calloc(BR_MAX_STOP_STRINGS, sizeof *spec->stop);
    for (uint32_t i = 0; i < spec->n_stop; i++) {
        uint32_t len = 1 + pick(rng, BR_MAX_STOP_STRING_BYTES);
        spec->stop[i] = br_calloc(1, len + 1);
        memset(spec->stop[i], (int)(1 + pick(rng, 255)), len);
    }
    spec->ttft_s = 10 * br_rng_next(rng);
    spec->tbt_s = br_rng_next(rng);
    spec->weight = 0.01 + br_rng_next(rng);
    spec->salt = br_rng_u64(rng->seed, 9, rng->next++, 0);
    memset(spec->traceparent, 'a', pick(rng, BR_MAX_TRACEPARENT));
    spec->deadline_s = pick(rng, 2) ? 100 * br_rng_next(rng) : 0;
    spec->arrival_us = (int64_t)(br_rng_next(rng) * 1e16);
}

static void ids_equal(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    assert_int_equal(n_a, n_b);
    if (n_a)
        assert_memory_equal(a, b, n_a * sizeof *a);
}

static void specs_equal(const struct br_seq_spec *a, const struct br_seq_spec *b)
{
    assert_int_equal(a->id, b->id);
    assert_string_equal(a->request_id, b->request_id);
    assert_string_equal(a->model, b->model);
    assert_int_equal(a->choice, b->choice);
    assert_memory_equal(&a->sampling, &b->sampling, 7 * 4);
    assert_int_equal(a->sampling.seed, b->sampling.seed);
    assert_int_equal(a->sampling.logprobs, b->sampling.logprobs);
    assert_int_equal(a->max_tokens, b->max_tokens);
    assert_int_equal(a->min_tokens, b->min_tokens);
    assert_int_equal(a->ignore_eos, b->ignore_eos);
    assert_int_equal(a->include_stop, b->include_stop);
    assert_int_equal(a->continues_text, b->continues_text);
    assert_int_equal(a->show_special, b->show_special);
    ids_equal(a->stop_ids, a->n_stop_ids, b->stop_ids, b->n_stop_ids);
    ids_equal(a->bias_ids, a->n_bias, b->bias_ids, b->n_bias);
    if (a->n_bias)
        assert_memory_equal(a->bias, b->bias, a->n_bias * sizeof *a->bias);
    ids_equal(a->prompt, a->n_prompt, b->prompt, b->n_prompt);
    assert_int_equal(a->n_stop, b->n_stop);
    for (uint32_t i = 0; i < a->n_stop; i++)
        assert_string_equal(a->stop[i], b->stop[i]);
    assert_true(a->ttft_s == b->ttft_s && a->tbt_s == b->tbt_s);
    assert_true(a->salt == b->salt);
    assert_string_equal(a->traceparent, b->traceparent);
    assert_true(a->weight == b->weight && a->deadline_s == b->deadline_s);
    assert_int_equal(a->arrival_us, b->arrival_us);
}

static void test_spec_round_trip(void **state)
{
    struct br_rng rng = {.seed = 1};
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct br_seq_spec spec, copy, back;
        struct br_buf buf = {0};
        struct br_err err;
        random_spec(&rng, &spec);
        br_buf_puts(&buf, "before"); /* pack appends */
        br_seq_spec_pack(&spec, &buf);
        assert_int_equal(br_seq_spec_unpack(buf.data + 6, buf.len - 6, &back, &err), 0);
        assert_int_equal(br_seq_spec_copy(&copy, &spec), 0);
        specs_equal(&spec, &back);
        specs_equal(&spec, &copy);
        br_seq_spec_free(&spec);
        br_seq_spec_free(&copy);
        br_seq_spec_free(&back);
        br_buf_free(&buf);
    }
}

static void random_tokens(struct br_rng *rng, struct br_token *tokens, uint32_t n)
{
    memset(tokens, 0, n * sizeof *tokens);
    for (uint32_t i = 0; i < n; i++) {
        tokens[i].id = (int32_t)pick(rng, 200000);
        tokens[i].logprob = pick(rng, 10) ? -(float)br_rng_next(rng) : -INFINITY;
        tokens[i].n_top = pick(rng, BR_MAX_TOP_LOGPROBS + 1);
        for (uint32_t j = 0; j < tokens[i].n_top; j++) {
            tokens[i].top_id[j] = (int32_t)pick(rng, 200000);
            tokens[i].top_logprob[j] = -(float)br_rng_next(rng);
        }
    }
}

static void test_tokens_round_trip(void **state)
{
    struct br_rng rng = {.seed = 2};
    (void)state;
    for (uint32_t n = 0; n < 60; n++) {
        struct br_token tokens[60], *back = NULL;
        struct br_buf buf = {0};
        struct br_err err;
        uint32_t first = 0, n_back = 0, at = pick(&rng, 1u << 20);
        random_tokens(&rng, tokens, n);
        br_tokens_pack(at, tokens, n, &buf);
        assert_int_equal(br_tokens_unpack(buf.data, buf.len, &first, &back, &n_back, &err), 0);
        assert_int_equal(first, at);
        assert_int_equal(n_back, n);
        if (n)
            assert_memory_equal(back, tokens, n * sizeof *tokens);
        free(back);
        br_buf_free(&buf);
    }
}

/* ---- what must be refused ---- */

struct bad_spec {
    struct br_seq_spec_pb pb;
    struct br_seq_spec spec;
};

static void bad_spec_init(struct bad_spec *bad)
{
    static int32_t prompt[] = {1, 2, 3};
    br_seq_spec_init(&bad->spec);
    bad->spec.id = 9;
    strcpy(bad->spec.model, "m");
    br_seq_spec_to_pb(&bad->spec, &bad->pb);
    bad->pb.msg.prompt = prompt;
    bad->pb.msg.n_prompt = 3;
}

/* Over the wire, as a stranger would send it; the message must name the field. */
static void refused(struct bad_spec *bad, const char *names)
{
    struct br_seq_spec out = {.id = 77};
    struct br_err err;
    size_t size = briareus__seq_spec__get_packed_size(&bad->pb.msg);
    uint8_t *data = br_malloc(size + 1);
    briareus__seq_spec__pack(&bad->pb.msg, data);
    assert_int_equal(br_seq_spec_unpack(data, size, &out, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, names));
    assert_int_equal(out.id, 77);
    free(data);
}

#define REFUSED(names, change)                                                                                         \
    do {                                                                                                               \
        struct bad_spec bad;                                                                                           \
        bad_spec_init(&bad);                                                                                           \
        change;                                                                                                        \
        refused(&bad, names);                                                                                          \
    } while (0)

static void test_numbers_refused(void **state)
{
    const float bad_floats[] = {NAN, -NAN, INFINITY, -INFINITY};
    (void)state;
    for (int i = 0; i < 4; i++) {
        float f = bad_floats[i];
        REFUSED("temperature", bad.pb.sampling.temperature = f);
        REFUSED("top_p", bad.pb.sampling.top_p = f);
        REFUSED("min_p", bad.pb.sampling.min_p = f);
        REFUSED("repetition_penalty", bad.pb.sampling.repetition_penalty = f);
        REFUSED("frequency_penalty", bad.pb.sampling.frequency_penalty = f);
        REFUSED("presence_penalty", bad.pb.sampling.presence_penalty = f);
        REFUSED("ttft_s", bad.pb.msg.ttft_s = (double)f);
        REFUSED("tbt_s", bad.pb.msg.tbt_s = (double)f);
        REFUSED("weight", bad.pb.msg.weight = (double)f);
        REFUSED("deadline_s", bad.pb.msg.deadline_s = (double)f);
    }
    REFUSED("temperature", bad.pb.sampling.temperature = -0.1f);
    REFUSED("top_p", bad.pb.sampling.top_p = 0);
    REFUSED("top_p", bad.pb.sampling.top_p = 1.1f);
    REFUSED("min_p", bad.pb.sampling.min_p = 1.1f);
    REFUSED("top_k", bad.pb.sampling.top_k = -1);
    REFUSED("repetition_penalty", bad.pb.sampling.repetition_penalty = 0);
    REFUSED("logprobs", bad.pb.sampling.logprobs = BR_MAX_TOP_LOGPROBS + 1);
    REFUSED("logprobs", bad.pb.sampling.logprobs = -2);
    REFUSED("weight", bad.pb.msg.weight = -1);
    REFUSED("deadline_s", bad.pb.msg.deadline_s = -1);
    REFUSED("arrival_us", bad.pb.msg.arrival_us = -1);
    REFUSED("max_tokens", bad.pb.msg.max_tokens = 0);
    REFUSED("min_tokens", bad.pb.msg.min_tokens = BR_MAX_PROMPT_TOKENS + 1);
}

static void test_lists_refused(void **state)
{
    static int32_t many[BR_MAX_PROMPT_TOKENS + 1];
    static int32_t negative[] = {1, -1};
    static float nan_bias[] = {1, NAN};
    static char name[BR_MAX_MODEL_NAME + 1];
    static uint8_t text[BR_MAX_STOP_STRING_BYTES + 1];
    ProtobufCBinaryData stop[BR_MAX_STOP_STRINGS + 1];
    (void)state;
    memset(name, 'x', BR_MAX_MODEL_NAME);
    memset(text, 'y', sizeof text);
    for (int i = 0; i <= BR_MAX_STOP_STRINGS; i++)
        stop[i] = (ProtobufCBinaryData){1, text};
    REFUSED("id is 0", bad.pb.msg.id = 0);
    REFUSED("sampling", bad.pb.msg.sampling = NULL);
    REFUSED("model", bad.pb.msg.model = name);
    REFUSED("model", bad.pb.msg.model = (char *)"");
    REFUSED("request id", bad.pb.msg.request_id = name + BR_MAX_MODEL_NAME - BR_MAX_REQUEST_ID);
    REFUSED("prompt", bad.pb.msg.n_prompt = 0);
    REFUSED("prompt", (bad.pb.msg.prompt = many, bad.pb.msg.n_prompt = BR_MAX_PROMPT_TOKENS + 1));
    REFUSED("prompt[1]", (bad.pb.msg.prompt = negative, bad.pb.msg.n_prompt = 2));
    REFUSED("stop_ids", (bad.pb.msg.stop_ids = many, bad.pb.msg.n_stop_ids = BR_MAX_STOP_IDS + 1));
    REFUSED("stop_ids[1]", (bad.pb.msg.stop_ids = negative, bad.pb.msg.n_stop_ids = 2));
    REFUSED("bias_ids has", (bad.pb.msg.bias_ids = many, bad.pb.msg.n_bias_ids = BR_MAX_LOGIT_BIAS + 1,
                             bad.pb.msg.bias = (float *)many, bad.pb.msg.n_bias = BR_MAX_LOGIT_BIAS + 1));
    REFUSED("biases for",
            (bad.pb.msg.bias_ids = many, bad.pb.msg.n_bias_ids = 2, bad.pb.msg.bias = nan_bias, bad.pb.msg.n_bias = 1));
    REFUSED("bias is nan",
            (bad.pb.msg.bias_ids = many, bad.pb.msg.n_bias_ids = 2, bad.pb.msg.bias = nan_bias, bad.pb.msg.n_bias = 2));
    REFUSED("stop strings", (bad.pb.msg.stop = stop, bad.pb.msg.n_stop = BR_MAX_STOP_STRINGS + 1));
    stop[0].len = sizeof text;
    REFUSED("stop string 0", (bad.pb.msg.stop = stop, bad.pb.msg.n_stop = 1));
    stop[0].len = 0;
    REFUSED("stop string 0", (bad.pb.msg.stop = stop, bad.pb.msg.n_stop = 1));
    stop[0] = (ProtobufCBinaryData){3, (uint8_t *)"a\0b"};
    REFUSED("NUL", (bad.pb.msg.stop = stop, bad.pb.msg.n_stop = 1));
}

static void token_refused(Briareus__Token *token, uint32_t first)
{
    Briareus__TokenRun run = BRIAREUS__TOKEN_RUN__INIT;
    uint8_t data[1024];
    struct br_token *out = (struct br_token *)data;
    struct br_err err;
    uint32_t at = 5, n = 6;
    run.first = first;
    run.n_tokens = 1;
    run.tokens = &token;
    assert_int_equal(br_tokens_unpack(data, briareus__token_run__pack(&run, data), &at, &out, &n, &err), BR_EINVAL);
    assert_true(out == (struct br_token *)data && at == 5 && n == 6);
}

static void test_tokens_refused(void **state)
{
    int32_t ids[BR_MAX_TOP_LOGPROBS + 1] = {0};
    float logprobs[BR_MAX_TOP_LOGPROBS + 1] = {0};
    Briareus__Token good = BRIAREUS__TOKEN__INIT, bad;
    (void)state;
    good.top_id = ids;
    good.top_logprob = logprobs;
    bad = good, bad.id = -1, token_refused(&bad, 0);
    bad = good, bad.logprob = NAN, token_refused(&bad, 0);
    bad = good, bad.logprob = INFINITY, token_refused(&bad, 0);
    bad = good, bad.n_top_id = 1, token_refused(&bad, 0);
    bad = good, bad.n_top_id = bad.n_top_logprob = BR_MAX_TOP_LOGPROBS + 1, token_refused(&bad, 0);
    token_refused(&good, UINT32_MAX);
    ids[0] = -5;
    bad = good, bad.n_top_id = bad.n_top_logprob = 1, token_refused(&bad, 0);
    ids[0] = 5, logprobs[0] = NAN;
    token_refused(&bad, 0);
}

/* No cut-off prefix or flipped byte of a good message may crash or leave something half filled. */
static void test_damaged_bytes(void **state)
{
    struct br_rng rng = {.seed = 3};
    struct br_seq_spec spec, out;
    struct br_buf buf = {0};
    struct br_err err;
    (void)state;
    random_spec(&rng, &spec);
    br_seq_spec_pack(&spec, &buf);
    for (size_t len = 0; len < buf.len; len += 1 + pick(&rng, 3))
        if (br_seq_spec_unpack(buf.data, len, &out, &err) == 0)
            br_seq_spec_free(&out);
    for (int i = 0; i < 3000; i++) {
        uint32_t at = pick(&rng, (uint32_t)buf.len);
        char old = buf.data[at];
        buf.data[at] = (char)pick(&rng, 256);
        if (br_seq_spec_unpack(buf.data, buf.len, &out, &err) == 0)
            br_seq_spec_free(&out);
        buf.data[at] = old;
    }
    br_seq_spec_free(&spec);
    br_buf_free(&buf);
}

/* What an older peer, or a record in Redis from before, does not say. */
static void test_no_weight_is_one(void **state)
{
    struct bad_spec old;
    struct br_seq_spec out;
    struct br_err err;
    (void)state;
    bad_spec_init(&old);
    old.pb.msg.weight = 0;
    assert_int_equal(br_seq_spec_from_pb(&old.pb.msg, &out, &err), 0);
    assert_true(out.weight == 1 && out.deadline_s == 0);
    br_seq_spec_free(&out);
}

static void test_missing(void **state)
{
    struct br_seq_spec spec;
    struct br_token *tokens = (struct br_token *)&spec;
    struct br_err err;
    uint32_t first = 1, n = 1;
    (void)state;
    assert_int_equal(br_seq_spec_from_pb(NULL, &spec, &err), BR_EINVAL);
    assert_int_equal(br_tokens_from_pb(NULL, &first, &tokens, &n, &err), 0);
    assert_true(first == 0 && n == 0 && !tokens);
    assert_string_equal(br_end_name(BR_END_STOP_TEXT), "stop_text");
    assert_string_equal(br_end_name(BR_END_FAILED), "failed");
    assert_string_equal(br_end_name((enum br_end)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_round_trip), cmocka_unit_test(test_tokens_round_trip),
        cmocka_unit_test(test_numbers_refused), cmocka_unit_test(test_lists_refused),
        cmocka_unit_test(test_tokens_refused),  cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_missing),         cmocka_unit_test(test_no_weight_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
