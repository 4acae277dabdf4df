#include "scheduler/gateway/answer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "text/utf8.h"

void br_answer_head(const struct br_request *request, bool chunk, int64_t created_s, struct br_buf *out)
{
    const char *chat = chunk ? "chat.completion.chunk" : "chat.completion";
    br_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", request->id,
                  request->kind == BR_REQUEST_CHAT ? chat : "text_completion", created_s);
    br_json_put(out, request->model, strlen(request->model));
    br_buf_puts(out, ",\"system_fingerprint\":null,\"choices\":[");
}

static void put_finish(struct br_buf *out, const char *finish)
{
    if (finish)
        br_buf_printf(out, ",\"finish_reason\":\"%s\"}", finish);
    else
        br_buf_puts(out, ",\"finish_reason\":null}");
}

static void put_buf(struct br_buf *out, const struct br_buf *buf)
{
    br_buf_add(out, buf->data, buf->len);
}

static void put_logprobs(const struct br_request *request, const struct br_answer_logprobs *logprobs,
                         struct br_buf *out)
{
    br_buf_puts(out, ",\"logprobs\":");
    if (!logprobs) {
        br_buf_puts(out, "null");
        return;
    }
    br_buf_puts(out, request->kind == BR_REQUEST_CHAT ? "{\"content\":[" : "{\"tokens\":[");
    put_buf(out, &logprobs->tokens);
    if (request->kind == BR_REQUEST_CHAT) {
        br_buf_puts(out, "],\"refusal\":null}");
        return;
    }
    br_buf_puts(out, "],\"token_logprobs\":[");
    put_buf(out, &logprobs->values);
    br_buf_puts(out, "],\"top_logprobs\":[");
    put_buf(out, &logprobs->tops);
    br_buf_puts(out, "],\"text_offset\":[");
    put_buf(out, &logprobs->offsets);
    br_buf_puts(out, "]}");
}

void br_answer_choice(const struct br_request *request, const struct br_answer_choice *choice, struct br_buf *out)
{
    bool chat = request->kind == BR_REQUEST_CHAT;
    br_buf_printf(out, "{\"index\":%u,%s", choice->index,
                  chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    br_json_put(out, choice->text, choice->len);
    if (chat)
        br_buf_puts(out, ",\"refusal\":null}");
    put_logprobs(request, choice->logprobs, out);
    put_finish(out, choice->finish);
}

static void put_delta(const struct br_answer_choice *choice, struct br_buf *out)
{
    br_buf_puts(out, "\"delta\":{");
    if (choice->first)
        br_buf_puts(out, "\"role\":\"assistant\",");
    if (choice->first || choice->len > 0) {
        br_buf_puts(out, "\"content\":");
        br_json_put(out, choice->text, choice->len);
    }
    br_buf_puts(out, "}");
}

void br_answer_chunk(const struct br_request *request, const struct br_answer_choice *choice, struct br_buf *out)
{
    br_buf_puts(out, "{\"index\":");
    br_buf_put_u64(out, choice->index);
    br_buf_puts(out, ",");
    if (request->kind == BR_REQUEST_CHAT) {
        put_delta(choice, out);
    } else {
        br_buf_puts(out, "\"text\":");
        br_json_put(out, choice->text, choice->len);
    }
    put_logprobs(request, choice->logprobs && choice->logprobs->tokens.len > 0 ? choice->logprobs : NULL, out);
    put_finish(out, choice->finish);
}

void br_answer_usage(uint64_t prompt_tokens, uint64_t cached_tokens, uint64_t completion_tokens, struct br_buf *out)
{
    br_buf_printf(out,
                  ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu64
                  "},\"completion_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64 "}",
                  prompt_tokens, cached_tokens, completion_tokens, prompt_tokens + completion_tokens);
}

/* ---- log probabilities ---- */

static void put_value(struct br_buf *out, float value)
{
    br_buf_printf(out, "%.7g", isfinite(value) ? (double)value : -9999.0); /* JSON has no infinity; OpenAI's stand-in */
}

static void put_bytes(struct br_buf *out, const char *piece, size_t len)
{
    br_buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        br_buf_printf(out, i ? ",%d" : "%d", (unsigned char)piece[i]);
    br_buf_puts(out, "]");
}

static void chat_entry(const struct br_tokenizer *tokenizer, int32_t id, float logprob, struct br_buf *out)
{
    size_t len = 0;
    const char *piece = br_tokenizer_piece(tokenizer, id, &len);
    br_buf_puts(out, "{\"token\":");
    br_json_put(out, piece, len);
    put_bytes(out, piece, len);
    br_buf_puts(out, ",\"logprob\":");
    put_value(out, logprob);
}

static void chat_logprob(const struct br_tokenizer *tokenizer, const struct br_token *token, uint32_t n_top,
                         struct br_buf *out)
{
    br_buf_puts(out, out->len ? "," : "");
    chat_entry(tokenizer, token->id, token->logprob, out);
    br_buf_puts(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < n_top; i++) {
        br_buf_puts(out, i ? "," : "");
        chat_entry(tokenizer, token->top_id[i], token->top_logprob[i], out);
        br_buf_puts(out, "}");
    }
    br_buf_puts(out, "]}");
}

/* A token that is no text by itself is written as OpenAI's completions do it: bytes:\xe2\x82. */
static void put_token(const struct br_tokenizer *tokenizer, int32_t id, struct br_buf *out)
{
    size_t len = 0;
    const char *piece = br_tokenizer_piece(tokenizer, id, &len);
    struct br_buf text = {0};
    if (br_utf8_valid_len(piece ? piece : "", len) == len) {
        br_json_put(out, piece, len);
        return;
    }
    br_buf_puts(&text, "bytes:");
    for (size_t i = 0; i < len; i++)
        br_buf_printf(&text, "\\x%02x", (unsigned char)piece[i]);
    br_json_put(out, text.data, text.len);
    br_buf_free(&text);
}

static void put_top(const struct br_tokenizer *tokenizer, int32_t id, float logprob, bool comma, struct br_buf *out)
{
    br_buf_puts(out, comma ? "," : "");
    put_token(tokenizer, id, out);
    br_buf_puts(out, ":");
    put_value(out, logprob);
}

static uint64_t count_chars(const char *text, size_t len)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += br_utf8_is_start(text[i]);
    return n;
}

static void completion_logprob(const struct br_tokenizer *tokenizer, const struct br_token *token, uint32_t n_top,
                               struct br_answer_logprobs *out)
{
    const char *comma = out->tokens.len ? "," : "";
    bool among = false;
    size_t len = 0;
    const char *piece = br_tokenizer_piece(tokenizer, token->id, &len);
    br_buf_puts(&out->tokens, comma);
    put_token(tokenizer, token->id, &out->tokens);
    br_buf_puts(&out->values, comma);
    put_value(&out->values, token->logprob);
    br_buf_printf(&out->tops, "%s{", comma);
    for (uint32_t i = 0; i < n_top; i++) {
        among = among || token->top_id[i] == token->id;
        put_top(tokenizer, token->top_id[i], token->top_logprob[i], i > 0, &out->tops);
    }
    if (!among) /* the token itself is always there */
        put_top(tokenizer, token->id, token->logprob, n_top > 0, &out->tops);
    br_buf_puts(&out->tops, "}");
    br_buf_printf(&out->offsets, "%s%" PRIu64, comma, out->offset);
    out->offset += count_chars(piece, len);
}

void br_answer_logprob(const struct br_request *request, const struct br_tokenizer *tokenizer,
                       const struct br_token *token, struct br_answer_logprobs *out)
{
    uint32_t wanted = (uint32_t)request->base.sampling.logprobs;
    uint32_t n_top = token->n_top < wanted ? token->n_top : wanted;
    if (request->kind == BR_REQUEST_CHAT)
        chat_logprob(tokenizer, token, n_top, &out->tokens);
    else
        completion_logprob(tokenizer, token, n_top, out);
}

void br_answer_logprobs_clear(struct br_answer_logprobs *logprobs)
{
    br_buf_clear(&logprobs->tokens);
    br_buf_clear(&logprobs->values);
    br_buf_clear(&logprobs->tops);
    br_buf_clear(&logprobs->offsets);
}

void br_answer_logprobs_free(struct br_answer_logprobs *logprobs)
{
    br_buf_free(&logprobs->tokens);
    br_buf_free(&logprobs->values);
    br_buf_free(&logprobs->tops);
    br_buf_free(&logprobs->offsets);
}

const char *br_answer_finish(enum br_end end)
{
    switch (end) {
    case BR_END_STOP:
    case BR_END_STOP_TEXT:
        return "stop";
    case BR_END_LENGTH:
        return "length";
    default:
        return "error";
    }
}

void br_answer_model(const struct br_gateway_model *model, struct br_buf *out)
{
    br_buf_puts(out, "{\"id\":");
    br_json_put(out, model->name, strlen(model->name));
    br_buf_printf(
        out, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"briareus\",\"root\":", model->created_s);
    br_json_put(out, model->name, strlen(model->name));
    br_buf_printf(out, ",\"parent\":null,\"max_model_len\":%u}", model->max_context);
}
