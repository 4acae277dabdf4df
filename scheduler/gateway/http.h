/* HTTP/1.x on one connection, as bytes in and bytes out: no sockets, no clock. The server (server.h) or a test feeds
 * what arrives and sends what has gathered in `out`.
 *
 * One request at a time: when one is complete, `request` is called and what follows it (pipelined) waits in `pending`
 * until its answer is complete. Whatever is wrong with a request is answered here with an OpenAI error object. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_HTTP_H
#define BRIAREUS_SCHEDULER_GATEWAY_HTTP_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scheduler/gateway/error.h"

enum {
    BR_HTTP_HEADER_VALUE = 128,   /* bytes kept of a header that matters here */
    BR_HTTP_PENDING = 64 << 10,   /* pipelined bytes held before reading stops */
    BR_HTTP_OUT_HIGH = 256 << 10, /* unsent bytes above which pipelined requests wait */
    BR_HTTP_KEEP = 64 << 10,      /* buffers larger than this are given back between requests */
};

enum br_http_header {
    BR_HEADER_HOST,
    BR_HEADER_EXPECT,
    BR_HEADER_CONTENT_ENCODING,
    BR_HEADER_TRANSFER_ENCODING,
    BR_HEADER_REQUEST_ID,
    BR_HEADER_SLO_TTFT,
    BR_HEADER_SLO_TBT,
    BR_HEADER_AUTHORIZATION,
    BR_HEADER_API_KEY,
    BR_HEADER_TRACEPARENT,
    BR_HEADER_TRACESTATE,
    BR_N_HEADERS,
};

enum br_http_state {
    BR_HTTP_IDLE,    /* between requests */
    BR_HTTP_HEAD,    /* some of a head is there */
    BR_HTTP_BODY,    /* head complete, body not */
    BR_HTTP_ANSWER,  /* request handed over, nothing of the answer sent */
    BR_HTTP_STREAM,  /* answer begun */
    BR_HTTP_CLOSING, /* nothing more is read: send `out`, then close */
};

struct br_http;
struct br_client;

struct br_http_limits {
    uint32_t max_header_bytes; /* request line, headers, trailers, chunk extensions */
    uint32_t max_body_bytes;
};

struct br_http_events {
    /* The request is complete: answer it now or later with the functions below. */
    void (*request)(struct br_http *http);
    /* The answer owed to the last request will not be read by anybody (called by the transport). */
    void (*gone)(struct br_http *http);
    /* There is something to send, or to parse (br_http_pump). */
    void (*wake)(struct br_http *http);
};

struct br_http {
    const struct br_http_limits *limits;
    const struct br_http_events *events;
    void *ctx;                /* the transport's */
    void *call;               /* the request handler's */
    void *admin;              /* the same, of an order about a model */
    struct br_client *client; /* whose key the request came with (access.h); NULL: nobody's */

    llhttp_t parser;
    enum br_http_state state;
    bool draining;   /* close after the answer under way */
    bool pumping;    /* br_http_pump is on the stack */
    uint64_t served; /* requests begun */

    /* The request at hand. */
    struct br_buf target, body;
    char header[BR_N_HEADERS][BR_HTTP_HEADER_VALUE]; /* "" when missing; cut when longer */
    unsigned method, minor;                          /* llhttp_method; HTTP/1.minor */
    bool keep_alive;
    bool anthropic;      /* set by the handler: how problems are said */
    uint32_t head_bytes; /* so far */
    char field[24];      /* the header name being read */
    uint32_t field_len;  /* may exceed the room: then no name that matters here */
    int header_at;       /* br_http_header being read, -1: another one */
    bool in_value;
    bool line_begins, head_seen; /* of the raw bytes: at the first of a line; the head's last line is there */

    struct br_buf pending; /* input not parsed yet */
    struct br_buf out;     /* output not sent yet; the transport consumes it */
};

void br_http_init(struct br_http *http, const struct br_http_limits *limits, const struct br_http_events *events,
                  void *ctx);
/* Gives everything back; the struct may be initialised again. */
void br_http_free(struct br_http *http);

/* Takes input. At most BR_HTTP_PENDING + len bytes are held: stop feeding while br_http_full says so. */
void br_http_feed(struct br_http *http, const char *data, size_t len);
bool br_http_full(const struct br_http *http);
/* Goes on with input that waits; the transport calls it after wake and after sending. */
void br_http_pump(struct br_http *http);

/* Whether the client is owed an answer. */
static inline bool br_http_owes(const struct br_http *http)
{
    return http->state == BR_HTTP_ANSWER || http->state == BR_HTTP_STREAM;
}

/* A whole answer; the request's target, headers and body are gone afterwards. headers: further header lines, each ended
 * by CRLF, or "". The connection goes on to the next request or closes, as the client asked. */
void br_http_answer(struct br_http *http, int status, const char *content_type, const char *headers, const char *body,
                    size_t len);
void br_http_answer_problem(struct br_http *http, const struct br_problem *problem, const char *headers);
/* Answers what could not be read (408, 413, ...): the connection closes afterwards. */
void br_http_fail(struct br_http *http, int status, const char *message);

/* An answer in pieces: begin, writes, end. Chunked for HTTP/1.1, until close for 1.0. */
void br_http_stream_begin(struct br_http *http, const char *content_type, const char *headers);
void br_http_stream_write(struct br_http *http, const char *data, size_t len);
void br_http_stream_end(struct br_http *http);

/* The answer is complete: on to the next request, or to closing. The request's target, headers and body are gone. */
void br_http_done(struct br_http *http);

#endif
