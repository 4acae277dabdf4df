/* Which chat template a model has. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text/chat.h"
#include "text/json_get.h"

enum { TEMPLATE_MAX_BYTES = 1 << 20, CONFIG_MAX_BYTES = 64 << 20 };

static const char qwen25_system[] = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
static const char qwen2_system[] = "You are a helpful assistant.";

static bool has(const char *jinja_template, const char *text)
{
    return jinja_template && strstr(jinja_template, text) != NULL;
}

static int format_by_name(const char *name, enum br_chat_format *out, struct br_err *err)
{
    if (strcmp(name, "chatml") == 0)
        *out = BR_CHAT_CHATML;
    else if (strcmp(name, "llama3") == 0)
        *out = BR_CHAT_LLAMA3;
    else
        return br_err_set(err, BR_EINVAL, "chat template \"%.80s\" is unknown: use chatml or llama3", name);
    return 0;
}

static int format_by_text(const char *jinja_template, enum br_chat_format *out, struct br_err *err)
{
    if (!jinja_template || !jinja_template[0])
        return br_err_set(err, BR_ENOTSUP, "the model has no chat template: name one (chatml or llama3)");
    if (has(jinja_template, "<|start_header_id|>"))
        *out = BR_CHAT_LLAMA3;
    else if (has(jinja_template, "<|im_start|>"))
        *out = BR_CHAT_CHATML;
    else
        return br_err_set(err, BR_ENOTSUP,
                          "the model's chat template is of no known family (begins \"%.60s\"): if one "
                          "of them fits, name it (chatml or llama3)",
                          jinja_template);
    return 0;
}

int br_chat_detect(const char *jinja_template, const char *override_name, struct br_chat_template *out,
                   struct br_err *err)
{
    enum br_chat_format seen;
    struct br_err ignored;
    int rc;
    *out = (struct br_chat_template){0};
    rc = override_name ? format_by_name(override_name, &out->format, err)
                       : format_by_text(jinja_template, &out->format, err);
    if (rc)
        return rc;
    if (format_by_text(jinja_template, &seen, &ignored) != 0 || seen != out->format)
        return 0; /* a named family that is not the template's own: its plain form */
    out->date_header = seen == BR_CHAT_LLAMA3 && has(jinja_template, "Cutting Knowledge Date");
    if (seen == BR_CHAT_LLAMA3)
        return 0;
    out->tool_response = has(jinja_template, "<tool_response>");
    out->think = has(jinja_template, "</think>") && has(jinja_template, "last_query_index");
    out->default_system = has(jinja_template, qwen25_system)  ? qwen25_system
                          : has(jinja_template, qwen2_system) ? qwen2_system
                                                              : NULL;
    return 0;
}

/* chat_template of the config: a string, or of a list the one named default. NULL: none. */
static const char *config_template(json_t *config)
{
    json_t *value = json_object_get(config, "chat_template"), *entry;
    size_t i;
    json_array_foreach(value, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(entry, "template"));
    }
    return json_string_value(value);
}

static int read_config(const char *path, struct br_buf *out, struct br_err *err)
{
    struct br_buf text = {0};
    const char *found;
    json_error_t where;
    json_t *config;
    int rc = 0;
    if (br_buf_read_file(&text, path, CONFIG_MAX_BYTES) != 0)
        return errno == ENOENT ? 0 : br_buf_read_error(err, BR_EIO, "%s", path);
    /* model_max_length is often 10^30: too big for an integer */
    config = json_loadb(text.data ? text.data : "", text.len, JSON_DECODE_INT_AS_REAL, &where);
    found = config_template(config);
    if (!config)
        rc = br_err_set(err, BR_EINVAL, "%s: not valid JSON: %s (line %d)", path, where.text, where.line);
    else if (br_json_has(config, "chat_template") && !found)
        rc = br_err_set(err, BR_EINVAL, "%s: chat_template is neither a string nor a list with one named \"default\"",
                        path);
    else if (found)
        br_buf_puts(out, found);
    json_decref(config);
    br_buf_free(&text);
    return rc;
}

int br_chat_template_from_config(const char *path, struct br_buf *out, struct br_err *err)
{
    const char *slash = strrchr(path, '/');
    struct br_buf beside = {0};
    size_t before = out->len;
    int rc = read_config(path, out, err);
    if (rc || out->len > before)
        return rc;
    br_buf_printf(&beside, "%.*schat_template.jinja", slash ? (int)(slash - path + 1) : 0, path);
    if (br_buf_read_file(out, beside.data, TEMPLATE_MAX_BYTES) != 0)
        rc = br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%s has no chat_template, and %s", path,
                               beside.data);
    br_buf_free(&beside);
    return rc;
}
