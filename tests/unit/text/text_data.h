/* Where the tests of text/ find reference data. Missing data fails the test with the path that was looked for. */
#ifndef BRIAREUS_TESTS_TEXT_DATA_H
#define BRIAREUS_TESTS_TEXT_DATA_H

#include <jansson.h>

#include "text/tokenizer.h"

enum data_place {
    DATA_SHARED, /* $BRIAREUS_SHARED/data */
    DATA_NPM,    /* tests/npm/node_modules */
    DATA_HERE,   /* tests/unit/text */
};

/* The tokenizers that the tests know, by index; NULL at the end. Loaded once, kept until data_free. */
enum data_tokenizer { TOK_QWEN3, TOK_LLAMA3, TOK_STORIES, TOK_TINY_QWEN2, TOK_COUNT };
const struct br_tokenizer *data_tokenizer(enum data_tokenizer which);
void data_free(void);

/* A static buffer with the path of a file; data_json fails the test if it cannot be read. */
const char *data_path(enum data_place place, const char *name);
json_t *data_json(enum data_place place, const char *name);

/* Ids of a JSON list of integers. */
struct br_ids data_ids(json_t *list);

/* Encodes or fails the test. */
struct br_ids data_encode(const struct br_tokenizer *tokenizer, const char *text, size_t len, unsigned flags);

/* Fails the test, naming the text, unless both lists are equal. */
void data_assert_ids(const struct br_ids *got, const struct br_ids *want, const char *text);

#endif
