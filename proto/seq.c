#include "proto/seq.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/convert.h"

void br_seq_spec_init(struct br_seq_spec *spec)
{
    *spec = (struct br_seq_spec){
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .logprobs = -1},
        .max_tokens = BR_MAX_PROMPT_TOKENS,
        .ttft_s = 10,
        .tbt_s = 0.1,
        .weight = 1,
    };
}

void br_seq_spec_free(struct br_seq_spec *spec)
{
    for (uint32_t i = 0; i < spec->n_stop; i++)
        free(spec->stop[i]);
    free(spec->stop);
    free(spec->stop_ids);
    free(spec->bias_ids);
    free(spec->bias);
    free(spec->prompt);
    spec->stop = NULL;
    spec->stop_ids = spec->bias_ids = spec->prompt = NULL;
    spec->bias = NULL;
    spec->n_stop = spec->n_stop_ids = spec->n_bias = spec->n_prompt = 0;
}

static int32_t *copy_ids(const int32_t *ids, size_t n)
{
    int32_t *copy = n ? br_malloc(n * sizeof *copy) : NULL;
    if (n)
        memcpy(copy, ids, n * sizeof *copy);
    return copy;
}

static float *copy_floats(const float *values, size_t n)
{
    float *copy = n ? br_malloc(n * sizeof *copy) : NULL;
    if (n)
        memcpy(copy, values, n * sizeof *copy);
    return copy;
}

int br_seq_spec_copy(struct br_seq_spec *out, const struct br_seq_spec *spec)
{
    *out = *spec;
    out->stop_ids = copy_ids(spec->stop_ids, spec->n_stop_ids);
    out->prompt = copy_ids(spec->prompt, spec->n_prompt);
    out->bias_ids = copy_ids(spec->bias_ids, spec->n_bias);
    out->bias = copy_floats(spec->bias, spec->n_bias);
    out->stop = spec->n_stop ? br_calloc(spec->n_stop, sizeof *out->stop) : NULL;
    for (uint32_t i = 0; i < spec->n_stop; i++)
        out->stop[i] = br_strdup(spec->stop[i]);
    return 0;
}

/* ---- spec to message ---- */

static void sampling_to_pb(const struct br_sampling *s, Briareus__Sampling *msg)
{
    briareus__sampling__init(msg);
    msg->temperature = s->temperature;
    msg->top_p = s->top_p;
    msg->min_p = s->min_p;
    msg->top_k = s->top_k;
    msg->repetition_penalty = s->repetition_penalty;
    msg->frequency_penalty = s->frequency_penalty;
    msg->presence_penalty = s->presence_penalty;
    msg->seed = s->seed;
    msg->logprobs = s->logprobs;
}

static void spec_lists_to_pb(const struct br_seq_spec *spec, struct br_seq_spec_pb *pb)
{
    assert(spec->n_stop <= BR_MAX_STOP_STRINGS);
    for (uint32_t i = 0; i < spec->n_stop; i++) {
        pb->stop[i].data = (uint8_t *)spec->stop[i];
        pb->stop[i].len = strlen(spec->stop[i]);
    }
    pb->msg.n_stop = spec->n_stop;
    pb->msg.stop = pb->stop;
    pb->msg.n_stop_ids = spec->n_stop_ids;
    pb->msg.stop_ids = spec->stop_ids;
    pb->msg.n_bias_ids = pb->msg.n_bias = spec->n_bias;
    pb->msg.bias_ids = spec->bias_ids;
    pb->msg.bias = spec->bias;
    pb->msg.n_prompt = spec->n_prompt;
    pb->msg.prompt = spec->prompt;
}

void br_seq_spec_to_pb(const struct br_seq_spec *spec, struct br_seq_spec_pb *pb)
{
    Briareus__SeqSpec *msg = &pb->msg;
    briareus__seq_spec__init(msg);
    msg->id = spec->id;
    msg->request_id = (char *)spec->request_id; /* protobuf-c knows no const, packing only reads */
    msg->choice = spec->choice;
    msg->model = (char *)spec->model;
    msg->sampling = &pb->sampling;
    sampling_to_pb(&spec->sampling, &pb->sampling);
    msg->max_tokens = spec->max_tokens;
    msg->min_tokens = spec->min_tokens;
    msg->ignore_eos = spec->ignore_eos;
    msg->include_stop = spec->include_stop;
    msg->continues_text = spec->continues_text;
    msg->show_special = spec->show_special;
    spec_lists_to_pb(spec, pb);
    msg->ttft_s = spec->ttft_s;
    msg->tbt_s = spec->tbt_s;
    msg->weight = spec->weight;
    msg->deadline_s = spec->deadline_s;
    msg->salt = spec->salt;
    msg->traceparent = (char *)spec->traceparent;
    msg->arrival_us = spec->arrival_us;
}

void br_seq_spec_pack(const struct br_seq_spec *spec, struct br_buf *out)
{
    struct br_seq_spec_pb pb;
    size_t size;
    br_seq_spec_to_pb(spec, &pb);
    size = briareus__seq_spec__get_packed_size(&pb.msg);
    br_buf_reserve(out, size);
    briareus__seq_spec__pack(&pb.msg, (uint8_t *)out->data + out->len);
    out->len += size;
    out->data[out->len] = 0;
}

/* ---- message to spec ---- */

/* Written so that NaN fails too. */
static bool in_range(double value, double low, double high)
{
    return value >= low && value <= high;
}

static int range_check(const char *name, double value, double low, double high, struct br_err *err)
{
    if (in_range(value, low, high))
        return 0;
    return br_err_set(err, BR_EINVAL, "%s is %g, must be from %g to %g", name, value, low, high);
}

static int sampling_check(const Briareus__Sampling *s, struct br_err *err)
{
    if (!s)
        return br_err_set(err, BR_EINVAL, "sampling parameters are missing");
    if (range_check("temperature", s->temperature, 0, 1e6, err) || range_check("min_p", s->min_p, 0, 1, err) ||
        range_check("top_p", s->top_p, 0, 1, err) || range_check("top_k", s->top_k, 0, INT32_MAX, err) ||
        range_check("repetition_penalty", s->repetition_penalty, 0, 1e6, err) ||
        range_check("frequency_penalty", s->frequency_penalty, -1e6, 1e6, err) ||
        range_check("presence_penalty", s->presence_penalty, -1e6, 1e6, err) ||
        range_check("logprobs", s->logprobs, -1, BR_MAX_TOP_LOGPROBS, err))
        return err->code;
    if (s->top_p == 0.0f)
        return br_err_set(err, BR_EINVAL, "top_p is 0, must be above 0 (1: off)");
    if (s->repetition_penalty == 0.0f)
        return br_err_set(err, BR_EINVAL, "repetition_penalty is 0, must be above 0 (1: off)");
    return 0;
}

static int ids_check(const char *name, const int32_t *ids, size_t n, size_t max, struct br_err *err)
{
    if (n > max)
        return br_err_set(err, BR_EINVAL, "%s has %zu token ids, at most %zu are allowed", name, n, max);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return br_err_set(err, BR_EINVAL, "%s[%zu] is %d, a token id is never negative", name, i, (int)ids[i]);
    return 0;
}

static int stop_check(const Briareus__SeqSpec *m, struct br_err *err)
{
    if (m->n_stop > BR_MAX_STOP_STRINGS)
        return br_err_set(err, BR_EINVAL, "%zu stop strings, at most %d are allowed", m->n_stop, BR_MAX_STOP_STRINGS);
    for (size_t i = 0; i < m->n_stop; i++) {
        const ProtobufCBinaryData *s = &m->stop[i];
        if (s->len == 0 || s->len > BR_MAX_STOP_STRING_BYTES)
            return br_err_set(err, BR_EINVAL, "stop string %zu has %zu bytes, must have 1 to %d", i, s->len,
                              BR_MAX_STOP_STRING_BYTES);
        if (memchr(s->data, 0, s->len))
            return br_err_set(err, BR_EINVAL, "stop string %zu has a NUL byte in it", i);
    }
    return 0;
}

static int bias_check(const Briareus__SeqSpec *m, struct br_err *err)
{
    if (m->n_bias != m->n_bias_ids)
        return br_err_set(err, BR_EINVAL, "%zu biases for %zu token ids", m->n_bias, m->n_bias_ids);
    if (ids_check("bias_ids", m->bias_ids, m->n_bias_ids, BR_MAX_LOGIT_BIAS, err))
        return err->code;
    for (size_t i = 0; i < m->n_bias; i++)
        if (range_check("bias", (double)m->bias[i], -1e6, 1e6, err))
            return err->code;
    return 0;
}

static int names_check(const Briareus__SeqSpec *m, struct br_err *err)
{
    if (m->id == 0)
        return br_err_set(err, BR_EINVAL, "sequence id is 0");
    if (strlen(m->request_id) >= BR_MAX_REQUEST_ID)
        return br_err_set(err, BR_EINVAL, "request id has %zu bytes, at most %d are allowed", strlen(m->request_id),
                          BR_MAX_REQUEST_ID - 1);
    if (strlen(m->traceparent) >= BR_MAX_TRACEPARENT)
        return br_err_set(err, BR_EINVAL, "traceparent has %zu bytes, at most %d are allowed", strlen(m->traceparent),
                          BR_MAX_TRACEPARENT - 1);
    if (!*m->model || strlen(m->model) >= BR_MAX_MODEL_NAME)
        return br_err_set(err, BR_EINVAL, "model name has %zu bytes, must have 1 to %d", strlen(m->model),
                          BR_MAX_MODEL_NAME - 1);
    return 0;
}

static int spec_check(const Briareus__SeqSpec *m, struct br_err *err)
{
    if (names_check(m, err) || sampling_check(m->sampling, err) || stop_check(m, err) || bias_check(m, err) ||
        ids_check("stop_ids", m->stop_ids, m->n_stop_ids, BR_MAX_STOP_IDS, err) ||
        ids_check("prompt", m->prompt, m->n_prompt, BR_MAX_PROMPT_TOKENS, err) ||
        range_check("ttft_s", m->ttft_s, 0, 1e9, err) || range_check("tbt_s", m->tbt_s, 0, 1e9, err) ||
        range_check("weight", m->weight, 0, 1e9, err) || range_check("deadline_s", m->deadline_s, 0, 1e9, err))
        return err->code;
    if (m->n_prompt == 0)
        return br_err_set(err, BR_EINVAL, "prompt is empty: a sequence needs at least one token to start from");
    if (m->max_tokens == 0 || m->min_tokens > m->max_tokens)
        return br_err_set(err, BR_EINVAL,
                          "max_tokens is %u and min_tokens %u: max_tokens must be above 0 and not below "
                          "min_tokens",
                          m->max_tokens, m->min_tokens);
    if (m->arrival_us < 0)
        return br_err_set(err, BR_EINVAL, "arrival_us is %lld, must not be negative", (long long)m->arrival_us);
    return 0;
}

static struct br_sampling sampling_from_pb(const Briareus__Sampling *s)
{
    return (struct br_sampling){
        .temperature = s->temperature,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .top_k = s->top_k,
        .repetition_penalty = s->repetition_penalty,
        .frequency_penalty = s->frequency_penalty,
        .presence_penalty = s->presence_penalty,
        .seed = s->seed,
        .logprobs = s->logprobs,
    };
}

static char **stop_copy(const Briareus__SeqSpec *m)
{
    char **stop = m->n_stop ? br_calloc(m->n_stop, sizeof *stop) : NULL;
    for (size_t i = 0; i < m->n_stop; i++) {
        stop[i] = br_malloc(m->stop[i].len + 1);
        memcpy(stop[i], m->stop[i].data, m->stop[i].len);
        stop[i][m->stop[i].len] = 0;
    }
    return stop;
}

int br_seq_spec_from_pb(const Briareus__SeqSpec *m, struct br_seq_spec *out, struct br_err *err)
{
    if (!m)
        return br_err_set(err, BR_EINVAL, "sequence spec is missing");
    if (spec_check(m, err))
        return br_err_wrap(err, "sequence %llu", (unsigned long long)m->id);
    *out = (struct br_seq_spec){
        .id = m->id,
        .choice = m->choice,
        .sampling = sampling_from_pb(m->sampling),
        .max_tokens = m->max_tokens,
        .min_tokens = m->min_tokens,
        .ignore_eos = m->ignore_eos,
        .stop_ids = copy_ids(m->stop_ids, m->n_stop_ids),
        .n_stop_ids = (uint32_t)m->n_stop_ids,
        .bias_ids = copy_ids(m->bias_ids, m->n_bias_ids),
        .bias = copy_floats(m->bias, m->n_bias),
        .n_bias = (uint32_t)m->n_bias,
        .stop = stop_copy(m),
        .n_stop = (uint32_t)m->n_stop,
        .include_stop = m->include_stop,
        .continues_text = m->continues_text,
        .show_special = m->show_special,
        .prompt = copy_ids(m->prompt, m->n_prompt),
        .n_prompt = (uint32_t)m->n_prompt,
        .ttft_s = m->ttft_s,
        .tbt_s = m->tbt_s,
        .weight = m->weight > 0 ? m->weight : 1, /* 0: from a peer or a store that knows no weights */
        .deadline_s = m->deadline_s,
        .arrival_us = m->arrival_us,
        .salt = m->salt,
    };
    strcpy(out->request_id, m->request_id); /* lengths are checked above */
    strcpy(out->model, m->model);
    strcpy(out->traceparent, m->traceparent);
    return 0;
}

int br_seq_spec_unpack(const void *data, size_t len, struct br_seq_spec *out, struct br_err *err)
{
    int rc;
    Briareus__SeqSpec *msg = briareus__seq_spec__unpack(NULL, len, data);
    if (!msg)
        return br_err_set(err, BR_EINVAL, "%zu bytes are not a SeqSpec message", len);
    rc = br_seq_spec_from_pb(msg, out, err);
    briareus__seq_spec__free_unpacked(msg, NULL);
    return rc;
}

/* ---- tokens ---- */

Briareus__TokenRun *br_tokens_to_pb(uint32_t first, const struct br_token *tokens, uint32_t n)
{
    struct {
        Briareus__TokenRun run;
        Briareus__Token *list[];
    } *block = br_malloc(sizeof *block + n * (sizeof block->list[0] + sizeof(Briareus__Token)));
    Briareus__Token *messages = (Briareus__Token *)(block->list + n);
    briareus__token_run__init(&block->run);
    block->run.first = first;
    block->run.n_tokens = n;
    block->run.tokens = block->list;
    for (uint32_t i = 0; i < n; i++) {
        Briareus__Token *m = block->list[i] = &messages[i];
        briareus__token__init(m);
        assert(tokens[i].n_top <= BR_MAX_TOP_LOGPROBS);
        m->id = tokens[i].id;
        m->logprob = tokens[i].logprob;
        m->n_top_id = m->n_top_logprob = tokens[i].n_top;
        m->top_id = (int32_t *)tokens[i].top_id;
        m->top_logprob = (float *)tokens[i].top_logprob;
    }
    return &block->run;
}

void br_tokens_pack(uint32_t first, const struct br_token *tokens, uint32_t n, struct br_buf *out)
{
    Briareus__TokenRun *run = br_tokens_to_pb(first, tokens, n);
    size_t size = briareus__token_run__get_packed_size(run);
    br_buf_reserve(out, size);
    briareus__token_run__pack(run, (uint8_t *)out->data + out->len);
    out->len += size;
    out->data[out->len] = 0;
    free(run);
}

/* Minus infinity stands (a token that was ruled out); NaN and plus infinity are nobody's logprob. */
static bool logprob_ok(float logprob)
{
    return logprob < INFINITY;
}

static int token_check(const Briareus__Token *m, size_t at, struct br_err *err)
{
    if (m->id < 0)
        return br_err_set(err, BR_EINVAL, "token %zu has id %d, a token id is never negative", at, (int)m->id);
    if (m->n_top_id > BR_MAX_TOP_LOGPROBS || m->n_top_id != m->n_top_logprob)
        return br_err_set(err, BR_EINVAL,
                          "token %zu has %zu top ids and %zu top logprobs, must be equal and at most %d", at,
                          m->n_top_id, m->n_top_logprob, BR_MAX_TOP_LOGPROBS);
    for (size_t i = 0; i < m->n_top_id; i++)
        if (m->top_id[i] < 0 || !logprob_ok(m->top_logprob[i]))
            return br_err_set(err, BR_EINVAL, "token %zu: top entry %zu (id %d, logprob %g) is not valid", at, i,
                              (int)m->top_id[i], (double)m->top_logprob[i]);
    if (!logprob_ok(m->logprob))
        return br_err_set(err, BR_EINVAL, "token %zu has logprob %g", at, (double)m->logprob);
    return 0;
}

static int run_check(const Briareus__TokenRun *m, struct br_err *err)
{
    if (m->n_tokens > BR_MAX_PROMPT_TOKENS || m->first > UINT32_MAX - m->n_tokens)
        return br_err_set(err, BR_EINVAL, "%zu tokens from index %u on, at most %d at a time are allowed", m->n_tokens,
                          m->first, BR_MAX_PROMPT_TOKENS);
    for (size_t i = 0; i < m->n_tokens; i++)
        if (token_check(m->tokens[i], i, err))
            return err->code;
    return 0;
}

static void token_from_pb(const Briareus__Token *m, struct br_token *out)
{
    *out = (struct br_token){.id = m->id, .logprob = m->logprob, .n_top = (uint32_t)m->n_top_id};
    for (size_t i = 0; i < m->n_top_id; i++) {
        out->top_id[i] = m->top_id[i];
        out->top_logprob[i] = m->top_logprob[i];
    }
}

int br_tokens_from_pb(const Briareus__TokenRun *m, uint32_t *first, struct br_token **tokens, uint32_t *n,
                      struct br_err *err)
{
    static const Briareus__TokenRun empty = BRIAREUS__TOKEN_RUN__INIT;
    if (!m)
        m = &empty;
    if (run_check(m, err))
        return br_err_wrap(err, "token run");
    *first = m->first;
    *n = (uint32_t)m->n_tokens;
    *tokens = *n ? br_malloc(*n * sizeof **tokens) : NULL;
    for (uint32_t i = 0; i < *n; i++)
        token_from_pb(m->tokens[i], &(*tokens)[i]);
    return 0;
}

int br_tokens_unpack(const void *data, size_t len, uint32_t *first, struct br_token **tokens, uint32_t *n,
                     struct br_err *err)
{
    int rc;
    Briareus__TokenRun *msg = briareus__token_run__unpack(NULL, len, data);
    if (!msg)
        return br_err_set(err, BR_EINVAL, "%zu bytes are not a TokenRun message", len);
    rc = br_tokens_from_pb(msg, first, tokens, n, err);
    briareus__token_run__free_unpacked(msg, NULL);
    return rc;
}

const char *br_end_name(enum br_end end)
{
    static const char *const names[] = {"none", "stop", "stop_text", "length", "cancelled", "failed"};
    return (unsigned)end < sizeof names / sizeof names[0] ? names[end] : "unknown";
}
