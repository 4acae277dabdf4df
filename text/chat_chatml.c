/* ChatML as Qwen's templates write it. */
#include <string.h>

#include "text/chat_writer.h"
#include "text/utf8.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t len = strlen(text), n = strlen(with);
    return len >= n && strcmp(text + len - n, with) == 0;
}

/* Qwen3: the last message that is a user's own question; the index of the last message if there is none. */
static size_t last_query(const struct br_chat_message *messages, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        const char *text = chat_text(&messages[i]);
        if (chat_role(&messages[i]) == CHAT_USER &&
            !(begins(text, "<tool_response>") && ends(text, "</tool_response>")))
            return i;
    }
    return n - 1;
}

struct piece {
    const char *text;
    size_t len;
};

static struct piece strip_newlines(struct piece p, bool left, bool right)
{
    while (left && p.len > 0 && p.text[0] == '\n') {
        p.text++;
        p.len--;
    }
    while (right && p.len > 0 && p.text[p.len - 1] == '\n')
        p.len--;
    return p;
}

/* The last place of a string in a piece. */
static const char *find_last(struct piece p, const char *what)
{
    const char *last = NULL, *at = p.text, *end = p.text + p.len;
    while ((at = br_text_find(at, (size_t)(end - at), what, strlen(what)))) {
        last = at;
        at += strlen(what);
    }
    return last;
}

/* Takes a Qwen3 answer apart: "<think>\nreasoning\n</think>\n\ncontent". */
static void split_thinking(const struct br_chat_message *message, struct piece *content, struct piece *reasoning)
{
    static const char open[] = "<think>", close[] = "</think>";
    const char *text = chat_text(message), *first = strstr(text, close), *last;
    *content = (struct piece){text, strlen(text)};
    *reasoning = (struct piece){"", 0};
    if (message->reasoning) {
        *reasoning = (struct piece){message->reasoning, strlen(message->reasoning)};
        return;
    }
    if (!first)
        return;
    last = find_last(*content, close) + strlen(close);
    *reasoning = strip_newlines((struct piece){text, (size_t)(first - text)}, false, true);
    *content = strip_newlines((struct piece){last, strlen(last)}, true, false);
    last = find_last(*reasoning, open);
    if (last) {
        last += strlen(open);
        *reasoning = (struct piece){last, (size_t)(reasoning->text + reasoning->len - last)};
    }
    *reasoning = strip_newlines(*reasoning, true, false);
}

static void write_piece(struct chat_writer *w, struct piece p)
{
    chat_content(w, p.text, p.len);
}

static void write_tool_calls(const struct br_chat_message *message, bool newline_first, struct chat_writer *w)
{
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const struct br_chat_tool_call *call = &message->tool_calls[i];
        chat_literal(w, i > 0 || newline_first ? "\n<tool_call>\n{\"name\": \"" : "<tool_call>\n{\"name\": \"");
        chat_content(w, call->name, strlen(call->name));
        chat_literal(w, "\", \"arguments\": ");
        chat_content(w, call->arguments, strlen(call->arguments));
        chat_literal(w, "}\n</tool_call>");
    }
}

static void write_assistant(const struct br_chat_template *chat, const struct br_chat_message *message, bool recent,
                            bool last, struct chat_writer *w)
{
    struct piece content = {chat_text(message), strlen(chat_text(message))}, reasoning = {"", 0};
    chat_literal(w, "<|im_start|>assistant");
    if (chat->think)
        split_thinking(message, &content, &reasoning);
    if (chat->think && recent && (last || reasoning.len > 0)) {
        chat_literal(w, "\n<think>\n");
        write_piece(w, strip_newlines(reasoning, true, true));
        chat_literal(w, "\n</think>\n\n");
        write_piece(w, strip_newlines(content, true, false));
    } else if (chat->think || content.len > 0 || message->n_tool_calls == 0) {
        chat_literal(w, "\n");
        write_piece(w, content);
    }
    /* Qwen2.5 starts every call on a new line, Qwen3 the first one only after content */
    write_tool_calls(message, !chat->think || content.len > 0, w);
    chat_literal(w, "<|im_end|>\n");
}

static void write_tool(const struct br_chat_message *messages, size_t n, size_t i, struct chat_writer *w)
{
    if (i == 0 || chat_role(&messages[i - 1]) != CHAT_TOOL)
        chat_literal(w, "<|im_start|>user");
    chat_literal(w, "\n<tool_response>\n");
    chat_content(w, chat_text(&messages[i]), strlen(chat_text(&messages[i])));
    chat_literal(w, "\n</tool_response>");
    if (i + 1 == n || chat_role(&messages[i + 1]) != CHAT_TOOL)
        chat_literal(w, "<|im_end|>\n");
}

static void write_plain(const char *head, const char *text, struct chat_writer *w)
{
    chat_literal(w, head);
    chat_content(w, text, strlen(text));
    chat_literal(w, "<|im_end|>\n");
}

void chat_chatml(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n, bool generate,
                 struct chat_writer *w)
{
    static const char *const heads[] = {
        [CHAT_SYSTEM] = "<|im_start|>system\n", [CHAT_USER] = "<|im_start|>user\n", [CHAT_TOOL] = "<|im_start|>tool\n"};
    size_t query = last_query(messages, n);
    if (chat->default_system && chat_role(&messages[0]) != CHAT_SYSTEM) {
        chat_literal(w, heads[CHAT_SYSTEM]);
        chat_literal(w, chat->default_system);
        chat_literal(w, "<|im_end|>\n");
    }
    for (size_t i = 0; i < n; i++) {
        enum chat_role role = chat_role(&messages[i]);
        if (role == CHAT_ASSISTANT)
            write_assistant(chat, &messages[i], i > query, i + 1 == n, w);
        else if (role == CHAT_TOOL && chat->tool_response)
            write_tool(messages, n, i, w);
        else
            write_plain(heads[role], chat_text(&messages[i]), w);
    }
    if (generate)
        chat_literal(w, "<|im_start|>assistant\n");
    if (generate && chat->think && chat->no_thinking)
        chat_literal(w, "<think>\n\n</think>\n\n");
}
