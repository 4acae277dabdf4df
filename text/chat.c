#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "text/chat_writer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

static const struct {
    const char *name;
    enum chat_role role;
} roles[] = {{"system", CHAT_SYSTEM},
             {"developer", CHAT_SYSTEM},
             {"user", CHAT_USER},
             {"assistant", CHAT_ASSISTANT},
             {"tool", CHAT_TOOL}};

static int find_role(const char *name)
{
    for (size_t i = 0; name && i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(name, roles[i].name) == 0)
            return (int)roles[i].role;
    return -1;
}

enum chat_role chat_role(const struct br_chat_message *message)
{
    return (enum chat_role)find_role(message->role);
}

const char *chat_text(const struct br_chat_message *message)
{
    return message->content ? message->content : "";
}

void chat_literal(struct chat_writer *w, const char *text)
{
    br_buf_puts(w->out, text);
}

void chat_content(struct chat_writer *w, const char *text, size_t len)
{
    size_t from = w->out->len;
    br_utf8_lossy(w->out, text, len);
    if (w->out->len == from)
        return;
    if (w->n_plain == w->cap_plain) {
        w->cap_plain = w->cap_plain ? 2 * w->cap_plain : 16;
        w->plain = br_realloc(w->plain, w->cap_plain * sizeof *w->plain);
    }
    w->plain[w->n_plain++] = (struct br_span){from, w->out->len};
}

static int write_prompt(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n,
                        bool generate, struct chat_writer *w, struct br_err *err)
{
    if (n == 0)
        return br_err_set(err, BR_EINVAL, "messages: there must be at least one");
    for (size_t i = 0; i < n; i++)
        if (find_role(messages[i].role) < 0)
            return br_err_set(err, BR_EINVAL,
                              "messages[%zu]: role \"%.40s\" is not one of system, developer, user, "
                              "assistant, tool",
                              i, messages[i].role ? messages[i].role : "");
    if (chat->format == BR_CHAT_LLAMA3)
        return chat_llama3(chat, messages, n, generate, w, err);
    chat_chatml(chat, messages, n, generate, w);
    return 0;
}

int br_chat_render(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n,
                   bool add_generation_prompt, struct br_buf *out, struct br_err *err)
{
    struct chat_writer w = {.out = out};
    size_t start = out->len;
    int rc = write_prompt(chat, messages, n, add_generation_prompt, &w, err);
    if (rc && out->data) {
        out->len = start;
        out->data[start] = 0;
    }
    free(w.plain);
    return rc;
}

int br_chat_encode(const struct br_tokenizer *tokenizer, const struct br_chat_template *chat,
                   const struct br_chat_message *messages, size_t n, bool add_generation_prompt, struct br_ids *out,
                   struct br_err *err)
{
    struct br_buf prompt = {0};
    struct chat_writer w = {.out = &prompt};
    int rc = write_prompt(chat, messages, n, add_generation_prompt, &w, err);
    if (rc == 0)
        rc = br_tokenizer_encode_mixed(tokenizer, prompt.data, prompt.len, BR_ENCODE_PARSE_SPECIAL, w.plain, w.n_plain,
                                       out, err);
    free(w.plain);
    br_buf_free(&prompt);
    return rc;
}
