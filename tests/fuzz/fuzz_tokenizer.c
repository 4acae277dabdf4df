/* Any bytes as a tokenizer.json; with those that load, a part of the input is encoded and decoded. */
#include <stdlib.h>
#include <string.h>

#include "text/detok.h"
#include "text/tokenizer.h"

enum { TEXT_MAX = 256 }; /* a pattern may backtrack at every byte */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode_and_decode(const struct br_tokenizer *tokenizer, const char *text, size_t len, unsigned flags)
{
    struct br_ids ids = {0};
    struct br_buf whole = {0}, parts = {0};
    struct br_detok detok;
    struct br_err err;
    if (br_tokenizer_encode(tokenizer, text, len, flags, &ids, &err) == 0) {
        br_tokenizer_decode(tokenizer, ids.data, ids.len, flags & BR_ENCODE_ADD_SPECIAL, &whole);
        br_detok_init(&detok, tokenizer, flags & BR_ENCODE_ADD_SPECIAL);
        for (size_t i = 0; i < ids.len; i++)
            br_detok_push(&detok, ids.data[i], &parts);
        br_detok_flush(&detok, &parts);
        if (whole.len != parts.len || (whole.len && memcmp(whole.data, parts.data, whole.len) != 0))
            abort();
    }
    br_ids_free(&ids);
    br_buf_free(&whole);
    br_buf_free(&parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t len = size < TEXT_MAX ? size : TEXT_MAX;
    struct br_tokenizer *tokenizer;
    struct br_err err;
    if (br_tokenizer_parse(text, size, &tokenizer, &err) != 0)
        return 0;
    for (unsigned flags = 0; flags < 4; flags++) {
        encode_and_decode(tokenizer, text, len, flags);
        encode_and_decode(tokenizer, text + size - len, len, flags);
    }
    br_tokenizer_free(tokenizer);
    return 0;
}
