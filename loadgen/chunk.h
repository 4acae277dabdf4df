/* What an answer's JSON says, read without allocating: once for every token of every stream. Knows the shapes of
 * /v1/completions and /v1/chat/completions, streamed or whole, and of errors. */
#ifndef BRIAREUS_LOADGEN_CHUNK_H
#define BRIAREUS_LOADGEN_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_CHUNK_DEPTH = 64 };

struct load_chunk {
    bool text;             /* a choice brings text or a tool call */
    int64_t prompt_tokens; /* usage; -1: not said */
    int64_t completion_tokens;
    bool error;
    char message[160]; /* of the error, cut */
    int64_t count;     /* top-level "count" or length of "tokens" (answers of /tokenize); -1: neither */
};

/* -1: not a JSON object (or nested deeper than LOAD_CHUNK_DEPTH); *out then means nothing. */
int load_chunk_parse(const char *json, size_t n, struct load_chunk *out);

#endif
