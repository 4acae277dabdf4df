/* One HTTP answer of a server, fed in pieces: what it says and how it ends. No sockets, no clock. */
#ifndef BRIAREUS_LOADGEN_ANSWER_H
#define BRIAREUS_LOADGEN_ANSWER_H

#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "loadgen/chunk.h"
#include "loadgen/journal.h"
#include "loadgen/sse.h"

enum { LOAD_MAX_HEAD = 64 << 10, LOAD_MAX_ANSWER = 16 << 20, LOAD_MAX_ERROR = 4096 };

struct load_answer {
    llhttp_t parser;
    struct load_sse sse;
    struct br_buf body;      /* of answers that are no stream */
    struct load_chunk chunk; /* the last one; of a whole answer: itself */
    void (*on_tokens)(void *ctx, uint32_t n);
    void *ctx;
    uint32_t tokens, prompt_tokens;
    uint16_t status;
    enum load_outcome outcome; /* LOAD_PENDING until it has ended */
    bool stream, html, events, done, keep_alive;
    size_t head_bytes, value_len;
    char value[9]; /* the first bytes of the current header's value */
    char why[160];
};

/* Ready for the next answer; buffers are kept. */
void load_answer_start(struct load_answer *answer, bool stream, void (*on_tokens)(void *ctx, uint32_t n), void *ctx);
/* true: it has ended, well or not (outcome, why); keep_alive says whether the connection can carry another request. */
bool load_answer_feed(struct load_answer *answer, const char *bytes, size_t n);
/* The connection is at its end; the answer then is too. why: of the connection. */
void load_answer_eof(struct load_answer *answer, const char *why);
void load_answer_free(struct load_answer *answer);

#endif
