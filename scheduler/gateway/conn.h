/* One connection of the server: its socket, its timer, its writes. Private to conn.c and server.c. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_CONN_H
#define BRIAREUS_SCHEDULER_GATEWAY_CONN_H

#include "scheduler/gateway/server.h"

enum {
    SERVER_BACKLOG = 1024,
    SERVER_READ = 64 << 10,
    SERVER_LINGER_MS = 1000, /* how long a client may go on sending after the last answer, before it is reset */
    SERVER_KEEPALIVE_S = 60, /* TCP's: for clients that vanish without a word while they wait */
    SERVER_SPARE = 64,       /* closed connections kept for the next ones */
    SERVER_EXCESS = 64,      /* connections over the limit that are told so at the same time */
};

/* What the one timer of a connection waits for. */
enum conn_wait { CONN_NONE, CONN_IDLE, CONN_REQUEST, CONN_SENDING, CONN_LINGER };

struct conn {
    struct br_http http;
    struct br_server *server;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct br_buf inflight; /* being written */
    struct br_tls *tls;     /* owned; NULL: plain */
    struct br_buf sealed;   /* with TLS: what http.out has become */
    enum conn_wait wait;
    uint64_t waits_for; /* number of the request that the timer is for */
    size_t unsent;      /* when the timer was set */
    bool writing, reading, dirty, eof, lingering, closed, excess, slow;
    int open_handles;
    struct conn *prev, *next; /* of server->conns, or of server->spare */
    struct conn *next_dirty;
};

struct br_server {
    uv_loop_t *loop;
    struct br_server_config config;
    struct br_server_handler handler;
    uv_tcp_t listener;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    int open_handles;
    struct conn *conns, *spare, *dirty;
    uint32_t n_conns, n_spare, n_excess;
    bool winding_down, draining, stopping;
    void (*done)(void *ctx);
    void *done_ctx;
    char input[SERVER_READ];
};

/* A connection of the server's list with its handles initialised; recycled, or new. */
struct conn *conn_take(struct br_server *server);
/* Something happened: conn_turn comes in this turn of the loop. */
void conn_mark(struct conn *conn);
/* Parses what waits, sends what has gathered, and sees whether it is over. */
void conn_turn(struct conn *conn);
/* Closes at once; the request's handler hears of it first when an answer is owed. */
void conn_close(struct conn *conn);
/* Gives it back once its handles are closed. */
void conn_release(struct conn *conn);

void server_free_if_done(struct br_server *server);

#endif
