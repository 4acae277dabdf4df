#include "text/normalizer.h"

#include <string.h>

#include "text/json_get.h"
#include "text/utf8.h"

enum { NORMALIZED_MAX_BYTES = 256 << 20 };

static int parse_replace(struct br_normalizer_step *step, json_t *json, struct br_err *err)
{
    json_t *pattern = br_json_need(json, "pattern", JSON_OBJECT, "normalizer Replace", err);
    const char *to = pattern ? br_json_string(json, "content", NULL, "normalizer Replace", err) : NULL;
    const char *from;
    if (!to)
        return err->code;
    from = json_string_value(json_object_get(pattern, "String"));
    if (!from || !from[0])
        return br_err_set(err, BR_ENOTSUP,
                          "normalizer Replace: only a non-empty {\"String\": ...} pattern is supported");
    step->kind = BR_NORM_REPLACE;
    step->from = br_strdup(from);
    step->to = br_strdup(to);
    return 0;
}

static int parse_prepend(struct br_normalizer_step *step, json_t *json, struct br_err *err)
{
    const char *text = br_json_string(json, "prepend", NULL, "normalizer Prepend", err);
    if (!text)
        return err->code;
    step->kind = BR_NORM_PREPEND;
    step->to = br_strdup(text);
    return 0;
}

static int parse_strip(struct br_normalizer_step *step, json_t *json, struct br_err *err)
{
    int rc = br_json_bool(json, "strip_left", true, &step->left, "normalizer Strip", err);
    step->kind = BR_NORM_STRIP;
    return rc ? rc : br_json_bool(json, "strip_right", true, &step->right, "normalizer Strip", err);
}

static int parse_step(struct br_normalizer_step *step, const char *type, json_t *json, struct br_err *err)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(type, forms[i]) == 0) {
            step->kind = BR_NORM_UNICODE;
            step->form = (enum br_unicode_form)i;
            return 0;
        }
    if (strcmp(type, "Prepend") == 0)
        return parse_prepend(step, json, err);
    if (strcmp(type, "Replace") == 0)
        return parse_replace(step, json, err);
    if (strcmp(type, "Strip") == 0)
        return parse_strip(step, json, err);
    return br_err_set(err, BR_ENOTSUP,
                      "normalizer: type \"%.40s\" is not supported (NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
                      "Sequence are)",
                      type);
}

static int parse_any(struct br_normalizer *norm, json_t *json, int depth, struct br_err *err)
{
    const char *type = br_json_string(json, "type", NULL, "normalizer", err);
    json_t *list, *entry;
    size_t i;
    if (!type)
        return err->code;
    if (strcmp(type, "Sequence") != 0) {
        if (norm->n == BR_NORMALIZER_STEPS)
            return br_err_set(err, BR_ENOTSUP, "normalizer: more than %d steps", BR_NORMALIZER_STEPS);
        return parse_step(&norm->steps[norm->n++], type, json, err);
    }
    if (depth > 4)
        return br_err_set(err, BR_ENOTSUP, "normalizer: Sequences nest too deeply");
    if (!(list = br_json_need(json, "normalizers", JSON_ARRAY, "normalizer Sequence", err)))
        return err->code;
    json_array_foreach(list, i, entry)
    {
        if (parse_any(norm, entry, depth + 1, err) != 0)
            return err->code;
    }
    return 0;
}

int br_normalizer_parse(struct br_normalizer *norm, json_t *json, struct br_err *err)
{
    *norm = (struct br_normalizer){0};
    if (!json || json_is_null(json))
        return 0;
    if (parse_any(norm, json, 0, err) == 0)
        return 0;
    br_normalizer_free(norm);
    return err->code;
}

void br_normalizer_free(struct br_normalizer *norm)
{
    for (size_t i = 0; i < norm->n; i++) {
        free(norm->steps[i].from);
        free(norm->steps[i].to);
    }
    norm->n = 0;
}

static int apply_replace(const struct br_normalizer_step *step, const char *text, size_t len, struct br_buf *out,
                         struct br_err *err)
{
    size_t from_len = strlen(step->from), to_len = strlen(step->to), at = 0;
    while (at < len) {
        const char *hit = br_text_find(text + at, len - at, step->from, from_len);
        size_t plain = hit ? (size_t)(hit - text) - at : len - at;
        br_buf_add(out, text + at, plain);
        at += plain;
        if (!hit)
            break;
        if (out->len + to_len > NORMALIZED_MAX_BYTES)
            return br_err_set(err, BR_EINVAL, "text: longer than %d bytes after normalisation", NORMALIZED_MAX_BYTES);
        br_buf_add(out, step->to, to_len);
        at += from_len;
    }
    return 0;
}

static void apply_strip(const struct br_normalizer_step *step, const char **text, size_t *len)
{
    int n;
    while (step->left && *len > 0 && br_char_is_space(br_utf8_decode(*text, &n))) {
        *text += n;
        *len -= (size_t)n;
    }
    while (step->right && *len > 0) {
        size_t start = *len - 1;
        while (start > 0 && !br_utf8_is_start((*text)[start]))
            start--;
        if (!br_char_is_space(br_utf8_decode(*text + start, &n)))
            break;
        *len = start;
    }
}

/* One step from text to *text, by way of buf if it has to change. */
static int apply_step(const struct br_normalizer_step *step, const char **text, size_t *len, struct br_buf *buf,
                      struct br_err *err)
{
    int rc = 0;
    if (step->kind == BR_NORM_STRIP) {
        apply_strip(step, text, len);
        return 0;
    }
    if (*len == 0 || (step->kind == BR_NORM_UNICODE && br_unicode_is_normal(step->form, *text, *len)))
        return 0;
    br_buf_clear(buf);
    br_buf_reserve(buf, *len + 1);
    if (step->kind == BR_NORM_REPLACE) {
        rc = apply_replace(step, *text, *len, buf, err);
    } else if (step->kind == BR_NORM_PREPEND) {
        br_buf_puts(buf, step->to);
        br_buf_add(buf, *text, *len);
    } else {
        br_unicode_normalize(step->form, *text, *len, buf);
    }
    *text = buf->data;
    *len = buf->len;
    return rc;
}

int br_normalizer_apply(const struct br_normalizer *norm, const char *text, size_t len, struct br_buf bufs[2],
                        const char **out, size_t *out_len, struct br_err *err)
{
    size_t next = 0;
    for (size_t i = 0; i < norm->n; i++) {
        const char *before = text;
        if (apply_step(&norm->steps[i], &text, &len, &bufs[next], err) != 0)
            return err->code;
        if (text != before && norm->steps[i].kind != BR_NORM_STRIP)
            next = 1 - next;
    }
    *out = text;
    *out_len = len;
    return 0;
}
