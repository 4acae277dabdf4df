#include "scheduler/model_terms.h"

#include <stdio.h>
#include <string.h>

#define ROW(name, kind, field, min, max)                                                                               \
    {                                                                                                                  \
        name, kind, offsetof(struct br_model_terms, field), NULL, min, max, ""                                         \
    }

static const struct br_option g_keys[] = {
    ROW("ttft", BR_OPT_SECONDS, ttft_s, 0.001, 86400),
    ROW("tbt", BR_OPT_SECONDS, tbt_s, 0.0001, 3600),
    ROW("weight", BR_OPT_NUMBER, weight, 0.001, 1000),
    ROW("pinned", BR_OPT_BOOL, pinned, 0, 0),
};

static char *trimmed(char *text)
{
    char *end;
    while (*text == ' ' || *text == '\t')
        text++;
    end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    return text;
}

/* A key alone sets it, which `pinned` understands and the others refuse. */
static int pair_set(char *pair, struct br_model_terms *terms, struct br_err *err)
{
    char *equals = strchr(pair, '=');
    if (equals)
        *equals = 0;
    return br_options_set(g_keys, sizeof g_keys / sizeof *g_keys, terms, trimmed(pair),
                          equals ? trimmed(equals + 1) : "true", err);
}

int br_model_terms_parse(const char *name, const char *text, struct br_model_terms *terms, struct br_err *err)
{
    struct br_model_terms changed = *terms;
    char copy[BR_MODEL_TERMS_MAX], *rest = copy, *pair;
    if (strlen(text) >= sizeof copy)
        return br_err_set(err, BR_EINVAL, "model-terms: those of '%.64s' have more than %d bytes", name,
                          BR_MODEL_TERMS_MAX - 1);
    strcpy(copy, text);
    while ((pair = strsep(&rest, ",")))
        if (pair_set(trimmed(pair), &changed, err))
            return br_err_wrap(err, "model-terms of '%.64s'", name);
    *terms = changed;
    return 0;
}

int br_model_terms_apply(const struct br_option_list *list, const char *name, struct br_model_terms *terms,
                         struct br_err *err)
{
    size_t len = strlen(name);
    for (uint32_t i = 0; list && i < list->n; i++) {
        const char *item = list->items[i];
        if (strncmp(item, name, len) == 0 && item[len] == '=' && br_model_terms_parse(name, item + len + 1, terms, err))
            return err->code;
    }
    return 0;
}
