/* The input is a byte (bit 0: a stream; the rest: where to cut) and then what a server sends. Any cut gives the same
 * end, and JSON that a parser takes is taken by the reader without one. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loadgen/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_tokens(void *ctx, uint32_t n)
{
    *(uint64_t *)ctx += n;
}

static enum load_outcome read_answer(struct load_answer *a, const char *bytes, size_t n, size_t cut, bool stream,
                                     uint64_t *tokens)
{
    *tokens = 0;
    load_answer_start(a, stream, on_tokens, tokens);
    if (!load_answer_feed(a, bytes, cut) && !load_answer_feed(a, bytes + cut, n - cut))
        load_answer_eof(a, "end");
    if (a->outcome == LOAD_PENDING || *tokens != a->tokens || memchr(a->why, 0, sizeof a->why) == NULL)
        abort();
    return a->outcome;
}

static void check_json(const char *bytes, size_t n)
{
    struct load_chunk chunk;
    json_t *root = json_loadb(bytes, n, 0, NULL);
    bool deep = n > LOAD_CHUNK_DEPTH;         /* only then can it be nested too deep */
    bool zeros = memchr(bytes, 0, n) != NULL; /* jansson passes over some of them */
    if (json_is_object(root) && load_chunk_parse(bytes, n, &chunk) && !deep && !zeros)
        abort();
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct load_answer answer = {0};
    uint64_t whole, pieces;
    enum load_outcome a, b;
    const char *bytes = (const char *)data + 1;
    if (size < 2)
        return 0;
    a = read_answer(&answer, bytes, size - 1, 0, data[0] & 1, &whole);
    b = read_answer(&answer, bytes, size - 1, (data[0] >> 1) % size, data[0] & 1, &pieces);
    if (a != b || whole != pieces)
        abort();
    check_json(bytes, size - 1);
    load_answer_free(&answer);
    return 0;
}
