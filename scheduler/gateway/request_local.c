/* What the tokenizer alone answers: /tokenize and /detokenize as in vLLM, /v1/messages/count_tokens as in Anthropic's
 * API. */
#include <string.h>

#include "scheduler/gateway/request.h"

bool br_request_is_local(const struct br_request *request)
{
    return request->kind >= BR_REQUEST_COUNT;
}

static void put_strings(const struct br_ids *ids, const struct br_tokenizer *tokenizer, struct br_buf *out)
{
    br_buf_puts(out, ",\"token_strs\":[");
    for (size_t i = 0; i < ids->len; i++) {
        size_t len = 0;
        const char *piece = br_tokenizer_piece(tokenizer, ids->data[i], &len);
        br_buf_puts(out, i ? "," : "");
        br_json_put(out, piece, len);
    }
    br_buf_puts(out, "]");
}

static void answer_tokens(const struct br_request *request, const struct br_gateway_model *model, struct br_buf *out)
{
    const struct br_ids *ids = &request->prompts[0].ids;
    br_buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids->len, model->max_context);
    for (size_t i = 0; i < ids->len; i++)
        br_buf_printf(out, i ? ",%d" : "%d", ids->data[i]);
    br_buf_puts(out, "]");
    if (request->token_strings)
        put_strings(ids, model->tokenizer, out);
    else
        br_buf_puts(out, ",\"token_strs\":null");
    br_buf_puts(out, "}");
}

static void answer_text(const struct br_request *request, const struct br_gateway_model *model, struct br_buf *out)
{
    const struct br_ids *ids = &request->prompts[0].ids;
    struct br_buf text = {0};
    br_tokenizer_decode(model->tokenizer, ids->data, ids->len, false, &text);
    br_buf_puts(out, "{\"prompt\":");
    br_json_put(out, text.data, text.len);
    br_buf_puts(out, "}");
    br_buf_free(&text);
}

void br_request_answer_local(const struct br_request *request, const struct br_gateway_model *model, struct br_buf *out)
{
    if (request->kind == BR_REQUEST_TOKENIZE)
        answer_tokens(request, model, out);
    else if (request->kind == BR_REQUEST_DETOKENIZE)
        answer_text(request, model, out);
    else
        br_buf_printf(out, "{\"input_tokens\":%zu}", request->prompts[0].ids.len);
}
