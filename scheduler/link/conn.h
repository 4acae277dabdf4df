/* One connection of the link, either side: frames in and out, pings, time-outs. Private to scheduler/link. */
#ifndef BRIAREUS_SCHEDULER_LINK_CONN_H
#define BRIAREUS_SCHEDULER_LINK_CONN_H

#include <stdbool.h>
#include <uv.h>

#include "scheduler/link/frame.h"

struct br_conn;

struct br_conn_cb {
    void (*frame)(struct br_conn *conn, const Briareus__Frame *frame); /* pings and pongs are answered inside */
    void (*closed)(struct br_conn *conn, const char *why);             /* conn is freed after this */
};

struct br_conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    uv_connect_t connect; /* the client's, here because it must live as long as the stream */
    uv_timer_t timer;     /* a deadline first, pings and silence later */
    uv_idle_t flush;      /* runs while bytes wait: everything of one loop turn leaves in one write */
    uv_write_t write;
    struct br_frame_reader reader;
    struct br_buf out;    /* not yet given to libuv */
    struct br_buf flying; /* being written; empty if no write is under way */
    uint64_t max_out_bytes;
    uint32_t silence_ms;
    int64_t received_ns, ticked_ns;
    uint64_t pings;
    bool writing, closing;
    int open_handles;
    char name[80], why[160];
    struct br_conn_cb cb;
    void *owner;
    char chunk[64 << 10];
};

/* A stream that is neither connected nor accepted yet. */
int br_conn_create(uv_loop_t *loop, bool is_unix, uint64_t max_out_bytes, const struct br_conn_cb *cb, void *owner,
                   struct br_conn **out, struct br_err *err);
/* The stream is connected: starts to read. */
int br_conn_start(struct br_conn *conn, uint32_t max_frame);
/* Closed with this reason when the time is over, unless br_conn_keep_alive comes first. */
void br_conn_deadline(struct br_conn *conn, uint32_t ms, const char *why);
/* From now on: pings, and the end after silence_ms without a byte. */
void br_conn_keep_alive(struct br_conn *conn, uint32_t silence_ms);
/* BR_EBUSY: more than max_out_bytes would wait, the connection is being closed; BR_EIO: it is closing already;
 * BR_EINVAL: longer than a frame may be. */
int br_conn_send(struct br_conn *conn, const Briareus__Frame *frame);
/* closed comes from the loop later; no frame comes in between. What is waiting is written if the socket takes it at
 * once. The first reason stays. */
void br_conn_close(struct br_conn *conn, const char *why);

#endif
