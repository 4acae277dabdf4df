/* Connections to one server, kept open and used again. A request goes out at once: on an idle connection or a new one.
 */
#ifndef BRIAREUS_LOADGEN_CONN_H
#define BRIAREUS_LOADGEN_CONN_H

#include <uv.h>

#include "base/buf.h"
#include "loadgen/answer.h"
#include "loadgen/target.h"

struct load_conn;

struct load_pool {
    uv_loop_t *loop;
    const struct load_target *target; /* borrowed */
    struct load_conn *idle;           /* last used first */
    double read_at_s;                 /* br_now_s() of the read that is being worked on */
    uint64_t opened, stale;
    uint32_t n_open;
    bool closing;
    char bytes[65536]; /* every read goes through here */
};

struct load_conn_cb {
    void *ctx;
    void (*tokens)(void *ctx, uint32_t n);
    /* The request now is on another connection (the server had closed the kept one). */
    void (*moved)(void *ctx, struct load_conn *conn);
    /* Once, unless aborted; the answer is valid until it returns. The connection is no longer the caller's. */
    void (*end)(void *ctx, const struct load_answer *answer);
};

void load_pool_init(struct load_pool *pool, uv_loop_t *loop, const struct load_target *target);
/* Closes idle connections and those that end from now on; the loop has to run on until n_open is 0. */
void load_pool_close(struct load_pool *pool);

/* Sends the bytes of a request (taken over; *request is left empty). `end` always follows, never from inside. */
struct load_conn *load_conn_send(struct load_pool *pool, struct br_buf *request, bool stream,
                                 const struct load_conn_cb *cb);
/* Hangs up; no callback follows. */
void load_conn_abort(struct load_conn *conn);
/* A slow reader: reads 512 bytes, then nothing until resumed. */
void load_conn_slow(struct load_conn *conn);
void load_conn_resume(struct load_conn *conn);

#endif
