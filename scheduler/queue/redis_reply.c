#include "scheduler/queue/redis_reply.h"

#include <stdlib.h>
#include <string.h>

static const redisReply *element(const redisReply *reply, size_t i, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || i >= reply->elements || !reply->element[i] ||
        reply->element[i]->type != type)
        return NULL;
    return reply->element[i];
}

/* Decimal digits only, no sign, no blanks, no overflow. */
static int parse_u64(const char *text, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    if (len == 0 || len > 20)
        return BR_EINVAL;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value))
            return BR_EINVAL;
    }
    *out = value;
    return 0;
}

int br_reply_code(const redisReply *reply)
{
    const redisReply *code = element(reply, 0, REDIS_REPLY_INTEGER);
    if (!code)
        return BR_EIO;
    switch (code->integer) {
    case BR_OK:
    case BR_EINVAL:
    case BR_ENOENT:
    case BR_ESTALE:
    case BR_ECORRUPT:
        return (int)code->integer;
    default:
        return BR_EIO;
    }
}

static int positive(const redisReply *reply, size_t i, uint64_t *out)
{
    const redisReply *value = element(reply, i, REDIS_REPLY_INTEGER);
    if (!value || value->integer <= 0)
        return BR_EIO;
    *out = (uint64_t)value->integer;
    return 0;
}

int br_reply_accept(const redisReply *reply, int64_t *arrival_us, uint64_t *fence)
{
    uint64_t arrival = 0;
    int rc = br_reply_code(reply);
    if (rc == 0 && (positive(reply, 1, &arrival) || positive(reply, 2, fence)))
        rc = BR_EIO;
    *arrival_us = (int64_t)arrival;
    return rc;
}

int br_reply_lease(const redisReply *reply, uint64_t *fence)
{
    int rc = br_reply_code(reply);
    return rc ? rc : positive(reply, 1, fence);
}

int br_reply_sha(const redisReply *reply, char sha[41])
{
    if (reply->type != REDIS_REPLY_STRING || reply->len != 40)
        return BR_EIO;
    memcpy(sha, reply->str, 40);
    sha[40] = 0;
    return 0;
}

int br_reply_page(const redisReply *reply, size_t *n_members)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2)
        return BR_EIO;
    for (size_t i = 0; i < reply->elements; i++)
        if (!element(reply, i, REDIS_REPLY_STRING) || (i % 2 && reply->element[i]->len > 32))
            return BR_EIO;
    *n_members = reply->elements / 2;
    return 0;
}

int br_reply_member(const redisReply *member, uint64_t *seq)
{
    if (member->type != REDIS_REPLY_STRING || parse_u64(member->str, member->len, seq) || member->str[0] == '0')
        return BR_EINVAL; /* no other spelling of an id, and not 0 */
    return 0;
}

/* ---- a stored sequence ---- */

static int entry_number(const redisReply *reply, size_t i, const char *name, uint64_t max, uint64_t *out,
                        struct br_err *err)
{
    const redisReply *text = element(reply, i, REDIS_REPLY_STRING);
    if (!text || parse_u64(text->str, text->len, out) || *out > max)
        return br_err_set(err, BR_ECORRUPT, "field %s is no number from 0 to %llu", name, (unsigned long long)max);
    return 0;
}

static int entry_spec(const redisReply *reply, uint64_t seq, struct br_seq_spec *spec, struct br_err *err)
{
    const redisReply *blob = element(reply, 1, REDIS_REPLY_STRING);
    if (!blob)
        return br_err_set(err, BR_ECORRUPT, "field spec is no string");
    if (br_seq_spec_unpack(blob->str, blob->len, spec, err))
        return err->code = BR_ECORRUPT;
    if (spec->id == seq)
        return 0;
    br_err_set(err, BR_ECORRUPT, "spec is of sequence %llu", (unsigned long long)spec->id);
    br_seq_spec_free(spec);
    return err->code;
}

static void entry_reserve(struct br_entry *out, uint32_t n)
{
    if (n <= out->cap)
        return;
    out->cap = n + n / 2;
    out->tokens = br_realloc(out->tokens, out->cap * sizeof *out->tokens);
}

/* Runs may overlap (a part was sent again); the first that was stored stands. */
static int entry_add_run(const redisReply *blob, struct br_entry *out, struct br_err *err)
{
    struct br_token *tokens;
    uint32_t first, n, known;
    if (br_tokens_unpack(blob->str, blob->len, &first, &tokens, &n, err))
        return err->code = BR_ECORRUPT;
    known = out->n_tokens - first;
    if (first > out->n_tokens || n > BR_MAX_PROMPT_TOKENS - first) {
        free(tokens);
        return br_err_set(err, BR_ECORRUPT, "a run of %u tokens starts at %u, %u are there", n, first, out->n_tokens);
    }
    if (n > known) {
        entry_reserve(out, first + n);
        memcpy(out->tokens + out->n_tokens, tokens + known, (n - known) * sizeof *tokens);
        out->n_tokens = first + n;
    }
    free(tokens);
    return 0;
}

static int entry_tokens(const redisReply *reply, uint64_t count, struct br_entry *out, struct br_err *err)
{
    const redisReply *runs = element(reply, 6, REDIS_REPLY_ARRAY);
    if (!runs)
        return br_err_set(err, BR_ECORRUPT, "token runs are no list");
    for (size_t i = 0; i < runs->elements; i++) {
        const redisReply *blob = element(runs, i, REDIS_REPLY_STRING);
        if (!blob)
            return br_err_set(err, BR_ECORRUPT, "run %zu is no string", i);
        if (entry_add_run(blob, out, err))
            return br_err_wrap(err, "run %zu", i);
    }
    if (out->n_tokens != count)
        return br_err_set(err, BR_ECORRUPT, "%u tokens are there, field n says %llu", out->n_tokens,
                          (unsigned long long)count);
    return 0;
}

static int entry_fields(const redisReply *reply, struct br_entry *out, struct br_err *err)
{
    uint64_t count, arrival_us, now_us;
    if (entry_number(reply, 2, "fence", INT64_MAX, &out->fence, err) ||
        entry_number(reply, 3, "n", BR_MAX_PROMPT_TOKENS, &count, err) ||
        entry_number(reply, 4, "arrival", INT64_MAX, &arrival_us, err) || entry_tokens(reply, count, out, err))
        return err->code;
    if (positive(reply, 5, &now_us))
        return br_err_set(err, BR_EIO, "Redis sent no time");
    out->spec.arrival_us = (int64_t)arrival_us;
    out->age_s = now_us > arrival_us ? (double)(now_us - arrival_us) / 1e6 : 0;
    return 0;
}

int br_reply_entry(const redisReply *reply, uint64_t seq, struct br_entry *out, struct br_err *err)
{
    int rc = br_reply_code(reply);
    *out = (struct br_entry){0};
    if (rc)
        return br_err_set(err, rc, rc == BR_ECORRUPT ? "a field is missing or of another type" : "no entry");
    if (entry_spec(reply, seq, &out->spec, err))
        return err->code;
    rc = entry_fields(reply, out, err);
    if (rc) {
        br_seq_spec_free(&out->spec);
        free(out->tokens);
        *out = (struct br_entry){0};
    }
    return rc;
}

int br_reply_error(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return 0;
    return strncmp(reply->str, "OOM", 3) == 0 ? BR_ENOMEM : BR_EIO;
}
