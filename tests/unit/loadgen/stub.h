/* A server whose every delay is known: a thread with a script. For tests of the load generator. */
#ifndef BRIAREUS_TESTS_LOADGEN_STUB_H
#define BRIAREUS_TESTS_LOADGEN_STUB_H

#include <stdbool.h>
#include <stdint.h>

enum stub_kind {
    STUB_STREAM,       /* events, one token each, then [DONE] */
    STUB_WHOLE,        /* one JSON answer */
    STUB_HANG,         /* reads, never answers */
    STUB_CLOSE,        /* closes instead of answering */
    STUB_CLOSE_MIDWAY, /* closes after two tokens, in the middle of a third */
    STUB_NO_DONE,      /* ends the answer properly, but without [DONE] */
    STUB_BROKEN_JSON,  /* an event that is none */
    STUB_ERROR_EVENT,  /* {"error": ...} after a token */
    STUB_HTML,         /* 200, a page */
    STUB_HTML_502,
    STUB_BUSY,    /* 429, JSON */
    STUB_LOADING, /* 503, JSON */
    STUB_MISSING, /* 404, JSON */
    STUB_NOT_HTTP,
    STUB_ENDLESS_HEAD,
    STUB_ENDLESS_LINE, /* an event that has no end */
    STUB_DROP,         /* STREAM, but closes the connection after each answer although it said keep-alive */
};

struct stub_script {
    enum stub_kind kind;
    const uint32_t *first_us; /* the k-th request's time to its first byte: first_us[k % n_first] */
    uint32_t n_first;
    uint32_t gap_us;     /* between tokens */
    uint32_t batch;      /* tokens a write; 0: 1 */
    double stall_from_s; /* since the first request: in this span nothing leaves */
    double stall_s;
    bool tokenize; /* answers /tokenize, words as tokens, two more in front */
    bool record;
};

struct stub;

/* Listens on a free port of 127.0.0.1. */
struct stub *stub_start(const struct stub_script *script);
uint16_t stub_port(const struct stub *stub);
const char *stub_url(const struct stub *stub);
/* Of the requests so far (record): sorted, so that connections do not matter. */
char **stub_requests(struct stub *stub, uint32_t *n);
void stub_stop(struct stub *stub);

#endif
