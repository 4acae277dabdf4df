/* Llama 3 and 3.1. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_writer.h"
#include "text/utf8.h"

static void write_head(struct chat_writer *w, const char *role)
{
    chat_literal(w, "<|start_header_id|>");
    chat_literal(w, role);
    chat_literal(w, "<|end_header_id|>\n\n");
}

/* Content without white space at its ends, which the templates trim. */
static void write_trimmed(struct chat_writer *w, const char *text)
{
    struct br_buf repaired = {0};
    size_t from = 0, to;
    int len;
    br_utf8_lossy(&repaired, text, strlen(text));
    to = repaired.len;
    while (from < to && br_char_is_space(br_utf8_decode(repaired.data + from, &len)))
        from += (size_t)len;
    while (to > from) {
        size_t at = to - 1;
        while (!br_utf8_is_start(repaired.data[at]))
            at--;
        if (!br_char_is_space(br_utf8_decode(repaired.data + at, &len)))
            break;
        to = at;
    }
    if (to > from)
        chat_content(w, repaired.data + from, to - from);
    br_buf_free(&repaired);
}

/* Llama 3.1 writes the results of tools as JSON strings. */
static void write_json_string(struct chat_writer *w, const char *text)
{
    struct br_buf repaired = {0};
    json_t *string;
    char *json;
    br_utf8_lossy(&repaired, text, strlen(text));
    string = json_stringn(repaired.data ? repaired.data : "", repaired.len);
    json = json_dumps(string, JSON_ENCODE_ANY);
    if (json)
        chat_content(w, json, strlen(json));
    free(json);
    json_decref(string);
    br_buf_free(&repaired);
}

static void write_tool_call(struct chat_writer *w, const struct br_chat_tool_call *call)
{
    write_head(w, "assistant");
    chat_literal(w, "{\"name\": \"");
    chat_content(w, call->name, strlen(call->name));
    chat_literal(w, "\", \"parameters\": ");
    chat_content(w, call->arguments, strlen(call->arguments));
    chat_literal(w, "}<|eot_id|>");
}

static void write_message(const struct br_chat_template *chat, const struct br_chat_message *message,
                          struct chat_writer *w)
{
    static const char *const names[] = {
        [CHAT_SYSTEM] = "system", [CHAT_USER] = "user", [CHAT_ASSISTANT] = "assistant", [CHAT_TOOL] = "tool"};
    enum chat_role role = chat_role(message);
    if (message->n_tool_calls > 0) {
        write_tool_call(w, &message->tool_calls[0]);
        return;
    }
    write_head(w, role == CHAT_TOOL && chat->date_header ? "ipython" : names[role]);
    if (role == CHAT_TOOL && chat->date_header)
        write_json_string(w, chat_text(message));
    else
        write_trimmed(w, chat_text(message));
    chat_literal(w, "<|eot_id|>");
}

/* Llama 3.1's system message, which is always there; returns how many messages it took. */
static size_t write_date_header(const struct br_chat_message *first, struct chat_writer *w)
{
    bool given = chat_role(first) == CHAT_SYSTEM;
    write_head(w, "system");
    chat_literal(w, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
    write_trimmed(w, given ? chat_text(first) : "");
    chat_literal(w, "<|eot_id|>");
    return given;
}

int chat_llama3(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n, bool generate,
                struct chat_writer *w, struct br_err *err)
{
    size_t i = 0;
    for (size_t k = 0; k < n; k++)
        if (messages[k].n_tool_calls > 1)
            return br_err_set(err, BR_EINVAL, "messages[%zu]: this model's template takes one tool call a message", k);
    chat_literal(w, "<|begin_of_text|>");
    if (chat->date_header)
        i = write_date_header(&messages[0], w);
    for (; i < n; i++)
        write_message(chat, &messages[i], w);
    if (generate)
        write_head(w, "assistant");
    return 0;
}
