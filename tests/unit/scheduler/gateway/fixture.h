/* What the gateway's tests share: the small models of the reference data. */
#ifndef BRIAREUS_TESTS_GATEWAY_FIXTURE_H
#define BRIAREUS_TESTS_GATEWAY_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/gateway.h"
#include "tests/cmocka.h"

static inline void fixture_path(char *out, size_t size, const char *model, const char *file)
{
    const char *shared = getenv("BRIAREUS_SHARED"), *source = getenv("BRIAREUS_SOURCE");
    if (shared && *shared)
        snprintf(out, size, "%s/data/models/%s/%s", shared, model, file);
    else
        snprintf(out, size, "%s/../shared/data/models/%s/%s", source ? source : ".", model, file);
}

/* Fails the test when the reference data is missing. */
static inline struct br_gateway_model fixture_model(const char *name)
{
    struct br_gateway_model model = {.name = name, .created_s = 1700000000, .ttft_s = 10, .tbt_s = 0.1};
    struct br_tokenizer *tokenizer = NULL;
    struct br_buf jinja = {0};
    struct br_err err;
    char path[1024];
    fixture_path(path, sizeof path, name, "tokenizer.json");
    if (br_tokenizer_load(path, &tokenizer, &err) < 0)
        fail_msg("set BRIAREUS_SHARED to the reference data: %s", err.msg);
    model.tokenizer = tokenizer;
    model.vocab = (uint32_t)br_tokenizer_vocab_size(tokenizer);
    model.max_context = 512;
    fixture_path(path, sizeof path, name, "tokenizer_config.json");
    model.has_chat = br_chat_template_from_config(path, &jinja, &err) == 0 &&
                     br_chat_detect(jinja.data, NULL, &model.chat, &err) == 0;
    br_buf_free(&jinja);
    return model;
}

static inline void fixture_free(struct br_gateway_model *model)
{
    br_tokenizer_free((struct br_tokenizer *)(uintptr_t)model->tokenizer);
    model->tokenizer = NULL;
}

#endif
