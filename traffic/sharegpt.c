/* Lengths from a file of conversations, which may be far larger than memory: its array is read one element at a time.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "traffic/lengths.h"

enum { MAX_ELEMENT = 64 << 20 };
#define MAX_BYTES (8ull << 30)

struct source {
    FILE *stream;
    const char *path;
    uint64_t line, bytes;
    size_t element; /* bytes of the current one */
};

static int source_get(struct source *s)
{
    int c = getc_unlocked(s->stream);
    s->bytes += c != EOF;
    s->line += c == '\n';
    return c;
}

/* One byte at a time, so that nothing beyond the element is taken. */
static size_t element_read(void *buffer, size_t size, void *context)
{
    struct source *s = context;
    int c = size && s->element++ < MAX_ELEMENT && s->bytes < MAX_BYTES ? source_get(s) : EOF;
    if (c == EOF)
        return 0;
    *(char *)buffer = (char)c;
    return 1;
}

static int source_fail(const struct source *s, const char *what, struct br_err *err)
{
    return br_err_set(err, BR_EINVAL, "%.100s:%llu: %s", s->path, (unsigned long long)s->line, what);
}

static int after_space(struct source *s)
{
    int c;
    do
        c = source_get(s);
    while (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    return c;
}

static bool turn_is(const json_t *turn, const char *one, const char *other)
{
    const char *from = json_string_value(json_object_get(turn, "from"));
    return from && (strcmp(from, one) == 0 || strcmp(from, other) == 0) &&
           json_is_string(json_object_get(turn, "value"));
}

static uint32_t text_tokens(const struct br_sharegpt_options *o, const json_t *turn)
{
    const json_t *value = json_object_get(turn, "value");
    size_t len = json_string_length(value);
    if (o->count)
        return o->count(o->context, json_string_value(value), len);
    return (uint32_t)((len + 3) / 4);
}

static bool conversation_pair(const json_t *element, const struct br_sharegpt_options *o, uint32_t pair[2])
{
    const json_t *turns = json_object_get(element, "conversations");
    for (size_t i = 0; i + 1 < json_array_size(turns); i++) {
        const json_t *asks = json_array_get(turns, i), *answers = json_array_get(turns, i + 1);
        if (!turn_is(asks, "human", "user") || !turn_is(answers, "gpt", "assistant"))
            continue;
        pair[0] = text_tokens(o, asks);
        pair[1] = text_tokens(o, answers);
        return pair[0] && pair[1] && pair[0] <= BR_WORKLOAD_MAX_TOKENS && pair[1] <= BR_WORKLOAD_MAX_TOKENS;
    }
    return false;
}

static void sample_add(struct br_length_sample *sample, const uint32_t pair[2])
{
    if ((sample->n & (sample->n - 1)) == 0) /* full at every power of two */
        sample->pairs = br_realloc(sample->pairs, (sample->n ? 2 * sample->n : 1) * sizeof *sample->pairs);
    memcpy(sample->pairs[sample->n++], pair, sizeof *sample->pairs);
}

static int element_take(struct source *s, const struct br_sharegpt_options *o, struct br_length_sample *out,
                        size_t *left_out, struct br_err *err)
{
    json_error_t why;
    uint32_t pair[2];
    uint64_t line = s->line;
    json_t *element;
    s->element = 0;
    element = json_load_callback(element_read, s, JSON_DISABLE_EOF_CHECK, &why);
    if (!element) {
        s->line = line + (uint64_t)(why.line > 0 ? why.line - 1 : 0);
        return source_fail(s, s->element > MAX_ELEMENT ? "a conversation larger than 64 MiB" : why.text, err);
    }
    if (conversation_pair(element, o, pair))
        sample_add(out, pair);
    else
        ++*left_out;
    json_decref(element);
    return 0;
}

/* '[' element ',' element ... ']' */
static int elements_read(struct source *s, const struct br_sharegpt_options *o, struct br_length_sample *out,
                         size_t *left_out, struct br_err *err)
{
    int rc, c = after_space(s);
    if (c != '[')
        return source_fail(s, "not a JSON list of conversations", err);
    c = after_space(s);
    if (c == ']')
        return source_fail(s, "no conversations", err);
    ungetc(c, s->stream);
    do {
        rc = element_take(s, o, out, left_out, err);
        if (rc || (o->max_pairs && out->n == o->max_pairs))
            return rc;
        if (out->n == BR_WORKLOAD_MAX_REQUESTS)
            return source_fail(s, "more than 5e7 conversations", err);
        c = after_space(s);
    } while (c == ',');
    if (c != ']')
        return source_fail(s, "expected ',' or ']' after a conversation", err);
    return out->n ? 0 : source_fail(s, "no conversation in which a human asks and gpt answers", err);
}

int br_length_sample_sharegpt_read(struct br_length_sample *out, FILE *stream, const char *file,
                                   const struct br_sharegpt_options *options, struct br_err *err)
{
    struct source s = {.stream = stream, .path = file, .line = 1};
    size_t left_out = 0;
    int rc;
    *out = (struct br_length_sample){0};
    rc = elements_read(&s, options, out, &left_out, err);
    if (rc)
        br_length_sample_free(out);
    if (options->left_out)
        *options->left_out = left_out;
    return rc;
}

int br_length_sample_sharegpt(struct br_length_sample *out, const char *path, const struct br_sharegpt_options *options,
                              struct br_err *err)
{
    FILE *stream = br_open_regular(path);
    int rc;
    *out = (struct br_length_sample){0};
    if (!stream)
        return br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%.200s: cannot be read", path);
    rc = br_length_sample_sharegpt_read(out, stream, path, options, err);
    fclose(stream);
    return rc;
}
