#include "loadgen/answer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The first reason stays. */
static void answer_fail(struct load_answer *a, enum load_outcome outcome, const char *why)
{
    if (a->outcome != LOAD_PENDING)
        return;
    a->outcome = outcome;
    a->keep_alive = false;
    snprintf(a->why, sizeof a->why, "%s", why);
}

static void answer_tokens(struct load_answer *a, uint32_t total)
{
    uint32_t fresh = total > a->tokens ? total - a->tokens : 0;
    if (fresh) {
        a->tokens = total;
        a->on_tokens(a->ctx, fresh);
    }
}

/* Servers that send no usage with a chunk are counted one token a chunk with text. */
static void take_chunk(struct load_answer *a)
{
    const struct load_chunk *c = &a->chunk;
    if (c->error) {
        answer_fail(a, LOAD_STREAM_ERROR, c->message[0] ? c->message : "an error without a message");
        return;
    }
    if (c->prompt_tokens > 0)
        a->prompt_tokens = (uint32_t)c->prompt_tokens;
    if (c->completion_tokens >= 0 && c->completion_tokens < UINT32_MAX)
        answer_tokens(a, (uint32_t)c->completion_tokens);
    else if (c->text)
        answer_tokens(a, a->tokens + 1);
}

static void on_event(void *ctx, const char *data, size_t len)
{
    struct load_answer *a = ctx;
    if (a->outcome != LOAD_PENDING)
        return;
    a->events = true;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0)
        a->done = true;
    else if (load_chunk_parse(data, len, &a->chunk) == 0)
        take_chunk(a);
    else
        answer_fail(a, LOAD_BAD_STREAM, "an event that is not JSON");
}

static struct load_answer *of(llhttp_t *parser)
{
    return parser->data;
}

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    (void)at, (void)n;
    of(parser)->value_len = 0;
    return 0;
}

/* The only value that begins so is that of Content-Type; it may come in pieces. */
static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    struct load_answer *a = of(parser);
    size_t room = sizeof a->value - a->value_len, take = n < room ? n : room;
    memcpy(a->value + a->value_len, at, take);
    a->value_len += take;
    if (a->value_len == sizeof a->value && strncasecmp(a->value, "text/html", sizeof a->value) == 0)
        a->html = true;
    return 0;
}

static int on_headers(llhttp_t *parser)
{
    struct load_answer *a = of(parser);
    a->status = parser->status_code;
    a->head_bytes = 0;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct load_answer *a = of(parser);
    if (a->status == 200 && a->stream && !a->html) {
        if (load_sse_feed(&a->sse, at, n, on_event, a))
            answer_fail(a, LOAD_BAD_STREAM, "an event of more than 1 MiB");
    } else if (a->status == 200 && !a->html) {
        if (a->body.len + n > LOAD_MAX_ANSWER)
            answer_fail(a, LOAD_BAD_HTTP, "an answer of more than 16 MiB");
        else
            br_buf_add(&a->body, at, n);
    } else if (a->body.len < LOAD_MAX_ERROR) {
        br_buf_add(&a->body, at, n < LOAD_MAX_ERROR ? n : LOAD_MAX_ERROR);
    }
    return a->outcome == LOAD_PENDING ? 0 : HPE_USER;
}

/* What an error page says: the message of its JSON, or its first bytes. */
static void refused(struct load_answer *a)
{
    enum load_outcome outcome = a->status == 429                       ? LOAD_HTTP_429
                                : a->status == 503                     ? LOAD_HTTP_503
                                : a->status >= 400 && a->status <= 499 ? LOAD_HTTP_4XX
                                                                       : LOAD_HTTP_OTHER;
    const char *text = a->body.data ? a->body.data : "";
    bool keep = a->keep_alive;
    char why[sizeof a->why];
    if (load_chunk_parse(text, a->body.len, &a->chunk) == 0 && a->chunk.message[0])
        text = a->chunk.message;
    snprintf(why, sizeof why, "HTTP %u: %.*s", a->status, (int)strcspn(text, "\r\n"), text);
    answer_fail(a, outcome, why);
    a->keep_alive = keep;
}

static void whole(struct load_answer *a)
{
    if (load_chunk_parse(a->body.data ? a->body.data : "", a->body.len, &a->chunk))
        answer_fail(a, LOAD_BAD_STREAM, "the answer is not JSON");
    else
        take_chunk(a);
    if (a->outcome == LOAD_PENDING)
        a->outcome = LOAD_OK;
}

static void streamed(struct load_answer *a)
{
    if (a->done)
        a->outcome = LOAD_OK;
    else if (!a->events)
        answer_fail(a, LOAD_BAD_STREAM, "a 200 answer without any event");
    else
        answer_fail(a, LOAD_CLOSED, "the stream ended before [DONE]");
}

static int on_complete(llhttp_t *parser)
{
    struct load_answer *a = of(parser);
    if (a->status < 200) /* 100 Continue and the like go before the answer */
        return 0;
    a->keep_alive = llhttp_should_keep_alive(parser);
    if (a->status != 200)
        refused(a);
    else if (a->html)
        answer_fail(a, LOAD_BAD_STREAM, "a page of HTML where an answer should be");
    else if (a->stream)
        streamed(a);
    else
        whole(a);
    return HPE_PAUSED;
}

static const llhttp_settings_t g_settings = {.on_header_field = on_field,
                                             .on_header_value = on_value,
                                             .on_headers_complete = on_headers,
                                             .on_body = on_body,
                                             .on_message_complete = on_complete};

void load_answer_start(struct load_answer *a, bool stream, void (*on_tokens)(void *ctx, uint32_t n), void *ctx)
{
    llhttp_init(&a->parser, HTTP_RESPONSE, &g_settings);
    a->parser.data = a;
    load_sse_clear(&a->sse);
    br_buf_clear(&a->body);
    a->on_tokens = on_tokens;
    a->ctx = ctx;
    a->stream = stream;
    a->tokens = a->prompt_tokens = 0;
    a->status = 0;
    a->outcome = LOAD_PENDING;
    a->html = a->events = a->done = a->keep_alive = false;
    a->head_bytes = a->value_len = 0;
    a->why[0] = 0;
}

bool load_answer_feed(struct load_answer *a, const char *bytes, size_t n)
{
    llhttp_errno_t rc = llhttp_execute(&a->parser, bytes, n);
    if (rc == HPE_PAUSED) {
        if (llhttp_get_error_pos(&a->parser) != bytes + n) /* more than the answer: not to be trusted any further */
            a->keep_alive = false;
    } else if (rc != HPE_OK) {
        const char *reason = llhttp_get_error_reason(&a->parser);
        answer_fail(a, LOAD_BAD_HTTP, reason ? reason : "not HTTP");
    } else if (!a->status && (a->head_bytes += n) > LOAD_MAX_HEAD) {
        answer_fail(a, LOAD_BAD_HTTP, "headers of more than 64 KiB");
    }
    return a->outcome != LOAD_PENDING;
}

void load_answer_eof(struct load_answer *a, const char *why)
{
    if (a->outcome == LOAD_PENDING && a->status >= 200)
        llhttp_finish(&a->parser); /* an answer without a length ends here */
    a->keep_alive = false;
    answer_fail(a, LOAD_CLOSED, why);
    if (a->outcome == LOAD_OK && a->stream && !a->done)
        a->outcome = LOAD_CLOSED;
}

void load_answer_free(struct load_answer *a)
{
    load_sse_free(&a->sse);
    br_buf_free(&a->body);
}
