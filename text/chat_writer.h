/* Where the renderers write to: the prompt, and which ranges of it come from messages. For text/chat*.c only. */
#ifndef BRIAREUS_TEXT_CHAT_WRITER_H
#define BRIAREUS_TEXT_CHAT_WRITER_H

#include "text/added.h"
#include "text/chat.h"

struct chat_writer {
    struct br_buf *out;
    struct br_span *plain; /* owned, ordered */
    size_t n_plain, cap_plain;
};

void chat_literal(struct chat_writer *w, const char *text);
/* Text of a message: never a special token. */
void chat_content(struct chat_writer *w, const char *text, size_t len);

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL };
/* The role of a message that br_chat_render has checked. */
enum chat_role chat_role(const struct br_chat_message *message);
const char *chat_text(const struct br_chat_message *message);

void chat_chatml(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n, bool generate,
                 struct chat_writer *w);
int chat_llama3(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n, bool generate,
                struct chat_writer *w, struct br_err *err);

#endif
