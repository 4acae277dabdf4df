/* What the gateway's files share. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_GATEWAY_IMPL_H
#define BRIAREUS_SCHEDULER_GATEWAY_GATEWAY_IMPL_H

#include "scheduler/gateway/choice.h"
#include "scheduler/gateway/otlp.h"
#include "scheduler/gateway/server.h"
#include "scheduler/gateway/watch.h"

struct br_gateway {
    uv_loop_t *loop;
    struct br_gateway_config config;
    struct br_gateway_backend backend;
    struct br_server *server;   /* NULL once it is closed */
    struct br_server *admin;    /* operators' listener, the same; NULL also if there is none */
    struct br_auth *auth;       /* owned; NULL: no keys are asked for */
    struct br_tls_context *tls; /* owned; NULL: plain HTTP */
    char *tls_cert, *tls_key;   /* owned */
    struct br_otlp *otlp;       /* owned; NULL: no spans */
    struct br_gateway_metrics metrics;
    struct br_gateway_call *calls;
    struct br_gateway_admin *admins; /* orders about models under way */
    uint32_t n_jobs;                 /* calls with work on the thread pool */
    uv_timer_t ping;
    bool ping_open; /* not closed yet */
    bool stopping;
    double retry_after_s;              /* while it drains */
    char warned[64][BR_REQUEST_FIELD]; /* unknown fields that were said already */
    uint32_t n_warned;
};

enum call_state {
    CALL_READING,   /* parsing, tokenising */
    CALL_SUBMITTED, /* the backend has it */
    CALL_ACCEPTED,  /* stored; tokens may come */
};

struct br_gateway_call {
    struct br_gateway *gateway;
    struct br_http *http; /* NULL: the client is gone, only a job keeps the call */
    struct br_gateway_call *prev, *next;
    enum call_state state;
    struct br_request request;
    const struct br_gateway_model *model;
    int64_t created_s;
    double ttft_s, tbt_s; /* of the request's headers; 0: the model's */
    char request_id[BR_HTTP_HEADER_VALUE];
    struct br_watch watch;

    /* Work on the thread pool. */
    uv_work_t work;
    struct br_buf body;
    size_t body_len;
    struct br_problem problem;
    int rc;

    struct br_choice *choices;
    uint32_t n_choices, n_open;
    uint64_t prompt_tokens;
    struct br_buf head;  /* what every chunk begins with */
    struct br_buf event; /* the chunk being put together */
    char error[256];     /* of a sequence that failed; "" for none */
    uint32_t n_kept;     /* tokens of all choices that wait for a client that does not read */
    bool held, paused;   /* tokens are kept; its sequences are told to pause */
    bool silent;         /* nothing sent since the last ping */
    bool submitting;     /* backend.submit is on the stack */
    bool over;           /* to be freed when submit returns */
};

void br_route(struct br_http *http); /* router.c */

void br_call_start(struct br_gateway *gateway, struct br_http *http, enum br_request_kind kind);
/* The client is gone. */
void br_call_abandon(struct br_gateway_call *call);
uint64_t br_call_cached(const struct br_gateway_call *call);
/* The client does not read, or reads again. */
bool br_call_pace(struct br_gateway_call *call, bool slow); /* as br_server_handler.slow */
/* The gateway stops: tells the client, cancels. */
void br_call_stop(struct br_gateway_call *call);
void br_gateway_job_done(struct br_gateway *gateway);

/* "x-request-id: ...\r\n" with the client's id, or else ours; "" when that is empty. */
void br_request_id_line(char *out, size_t size, const char *wanted, const char *own);

/* messages.c: the same for Anthropic's clients. */
void br_messages_answer(struct br_gateway_call *call, struct br_buf *out);
void br_messages_begin(struct br_gateway_call *call);
void br_messages_deliver(struct br_gateway_call *call, struct br_choice *choice);
void br_messages_ping(struct br_gateway_call *call);
void br_messages_end(struct br_gateway_call *call);

/* sse.c: the stream of a call. */
void br_sse_send(struct br_gateway_call *call); /* the event that is put together */
void br_sse_begin(struct br_gateway_call *call);
void br_sse_deliver(struct br_gateway_call *call, struct br_choice *choice);
void br_sse_ping(struct br_gateway_call *call);
void br_sse_error(struct br_gateway_call *call, int status, const char *message);
void br_sse_end(struct br_gateway_call *call);

#endif
