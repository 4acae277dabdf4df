/* Chat templates: messages to the prompt that a model was trained on. Two families are known, ChatML (Qwen and many
 * others) and Llama 3; which one, and its particulars, is read from the model's own Jinja template. */
#ifndef BRIAREUS_TEXT_CHAT_H
#define BRIAREUS_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct br_tokenizer;
struct br_ids;

enum br_chat_format { BR_CHAT_CHATML, BR_CHAT_LLAMA3 };

struct br_chat_template {
    enum br_chat_format format;
    const char *default_system; /* system message where the caller gives none; NULL: none. A static string */
    bool tool_response;         /* ChatML: tool results go into <tool_response> of a user message */
    bool think;                 /* ChatML: Qwen3's rules for <think> in earlier answers */
    bool no_thinking;           /* set by the caller: with `think`, the answer begins with an empty <think> block */
    bool date_header;           /* Llama 3.1: system header with knowledge cut-off and date (26 Jul 2024) */
};

struct br_chat_tool_call {
    const char *name;
    const char *arguments; /* JSON, put in as it is */
};

/* All strings are NUL-terminated UTF-8, borrowed; ill-formed bytes become U+FFFD. */
struct br_chat_message {
    const char *role;                           /* system, developer (= system), user, assistant, tool */
    const char *content;                        /* NULL: empty */
    const char *reasoning;                      /* assistant, with `think`; NULL: none, or inside content */
    const struct br_chat_tool_call *tool_calls; /* assistant; (n_tool_calls) */
    size_t n_tool_calls;
};

/* Chooses the format by the model's Jinja template (may be NULL) or by name ("chatml", "llama3"; may be NULL), the name
 * going first. BR_EINVAL for an unknown name, BR_ENOTSUP when the template is of no known family or there is none; both
 * messages list the names. */
int br_chat_detect(const char *jinja_template, const char *override_name, struct br_chat_template *out,
                   struct br_err *err);

/* Puts the model's Jinja template into out: chat_template of the tokenizer_config.json at path (a string, or the one
 * named "default" of a list), else the file chat_template.jinja beside it. BR_ENOENT when there is neither; BR_EINVAL
 * for a broken file. */
int br_chat_template_from_config(const char *path, struct br_buf *out, struct br_err *err);

/* Appends the prompt. add_generation_prompt: ends with the head of the assistant's answer. BR_EINVAL for an unknown
 * role (message index and role are named) or no messages at all. On error out has its old length again. */
int br_chat_render(const struct br_chat_template *chat, const struct br_chat_message *messages, size_t n,
                   bool add_generation_prompt, struct br_buf *out, struct br_err *err);

/* Appends the ids of the prompt. Special tokens count only where the template itself writes them: text of a message
 * that looks like one stays text. */
int br_chat_encode(const struct br_tokenizer *tokenizer, const struct br_chat_template *chat,
                   const struct br_chat_message *messages, size_t n, bool add_generation_prompt, struct br_ids *out,
                   struct br_err *err);

#endif
