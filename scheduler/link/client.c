#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "scheduler/link/address.h"
#include "scheduler/link/conn.h"
#include "scheduler/link/link.h"

enum { CLIENT_BACKOFF_MIN_MS = 50, CLIENT_BACKOFF_MAX_MS = 2000, CLIENT_STEADY_MS = 1000, CLIENT_LOG_EVERY = 32 };

struct br_link_client {
    uv_loop_t *loop;
    struct br_address address;
    char name[400];
    struct br_link_limits limits; /* token owned */
    struct br_link_client_cb cb;
    uv_timer_t retry;
    uv_getaddrinfo_t resolve;
    struct br_conn *conn; /* NULL between attempts */
    uint32_t backoff_ms, failures, attempts;
    uint64_t up_since_ms;
    struct br_rng rng;
    bool up, stopped, resolving, retry_closed;
};

static void client_free_if_done(struct br_link_client *client)
{
    if (!client->stopped || !client->retry_closed || client->conn || client->resolving)
        return;
    free((char *)client->limits.token);
    free(client);
}

/* ---- attempts ---- */

static void client_attempt(uv_timer_t *timer);

/* Waits half the back-off and a random part of the other half: workers that lost one scheduler do not come back at
 * once. */
static void client_retry(struct br_link_client *client)
{
    uint64_t half = client->backoff_ms / 2, wait_ms = half + (uint64_t)(br_rng_next(&client->rng) * (double)half);
    client->backoff_ms *= 2;
    if (client->backoff_ms > CLIENT_BACKOFF_MAX_MS)
        client->backoff_ms = CLIENT_BACKOFF_MAX_MS;
    uv_timer_start(&client->retry, client_attempt, wait_ms, 0);
}

static void client_failed(struct br_link_client *client, const char *why)
{
    if (client->failures++ % CLIENT_LOG_EVERY == 0)
        br_log(BR_WARN, "link_connect_failed", "address=%s attempts=%u reason=%s", client->name, client->failures,
               BR_Q(why));
    client_retry(client);
}

static void client_conn_closed(struct br_conn *conn, const char *why)
{
    struct br_link_client *client = conn->owner;
    bool was_up = client->up;
    client->up = false;
    client->conn = NULL;
    if (client->stopped) {
        client_free_if_done(client);
        return;
    }
    if (!was_up) {
        client_failed(client, why);
        return;
    }
    br_log(BR_WARN, "link_disconnected", "address=%s reason=%s", client->name, BR_Q(why));
    client_retry(client);
    client->cb.disconnected(client->cb.ctx);
}

static void client_conn_frame(struct br_conn *conn, const Briareus__Frame *frame)
{
    struct br_link_client *client = conn->owner;
    /* Only a server that talks to us for a while resets it: not one that refuses us, nor one that breaks the connection
     * over what we exchange first, again and again. */
    if (uv_now(client->loop) - client->up_since_ms >= CLIENT_STEADY_MS)
        client->backoff_ms = CLIENT_BACKOFF_MIN_MS;
    client->cb.frame(client->cb.ctx, frame);
}

static const struct br_conn_cb client_conn_cb = {client_conn_frame, client_conn_closed};

static void client_connected(uv_connect_t *req, int status)
{
    struct br_conn *conn = req->data;
    struct br_link_client *client = conn->owner;
    if (conn->closing)
        return;
    if (status == 0)
        status = br_conn_start(conn, BR_LINK_MAX_FRAME);
    if (status) {
        br_conn_close(conn, uv_strerror(status));
        return;
    }
    client->up = true;
    client->up_since_ms = uv_now(client->loop);
    client->failures = 0;
    br_conn_keep_alive(conn, client->limits.silence_ms);
    br_log(BR_INFO, "link_connected", "address=%s", client->name);
    client->cb.connected(client->cb.ctx);
}

static bool client_open(struct br_link_client *client)
{
    struct br_err err;
    if (br_conn_create(client->loop, client->address.is_unix, client->limits.max_out_bytes, &client_conn_cb, client,
                       &client->conn, &err)) {
        client->conn = NULL;
        client_failed(client, err.msg);
        return false;
    }
    br_conn_deadline(client->conn, client->limits.silence_ms, "no connection in time");
    return true;
}

/* A name may have several addresses; each attempt takes the next one. */
static void client_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct br_link_client *client = req->data;
    uint32_t n = 0;
    client->resolving = false;
    for (struct addrinfo *a = list; a; a = a->ai_next)
        n++;
    if (client->stopped) {
        client_free_if_done(client);
    } else if (status || n == 0) {
        client_failed(client, status ? uv_strerror(status) : "name has no address");
    } else if (client_open(client)) {
        struct addrinfo *a = list;
        for (uint32_t skip = client->attempts++ % n; skip; skip--)
            a = a->ai_next;
        status = uv_tcp_connect(&client->conn->connect, &client->conn->io.tcp, a->ai_addr, client_connected);
        if (status)
            br_conn_close(client->conn, uv_strerror(status));
    }
    uv_freeaddrinfo(list);
}

static void client_attempt(uv_timer_t *timer)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct br_link_client *client = timer->data;
    int rc;
    if (client->address.is_unix) {
        if (client_open(client))
            uv_pipe_connect(&client->conn->connect, &client->conn->io.pipe, client->address.path, client_connected);
        return;
    }
    client->resolve.data = client;
    rc = uv_getaddrinfo(client->loop, &client->resolve, client_resolved, client->address.host, client->address.service,
                        &hints);
    if (rc)
        client_failed(client, uv_strerror(rc));
    else
        client->resolving = true;
}

/* ---- the public side ---- */

int br_link_client_start(uv_loop_t *loop, const char *address, const struct br_link_limits *limits,
                         const struct br_link_client_cb *cb, struct br_link_client **out, struct br_err *err)
{
    struct br_link_client *client;
    struct br_address parsed;
    int rc = br_address_parse(address, &parsed, err);
    if (rc)
        return rc;
    signal(SIGPIPE, SIG_IGN); /* libuv 1.44 writes without MSG_NOSIGNAL */
    client = br_calloc(1, sizeof *client);
    client->loop = loop;
    client->address = parsed;
    snprintf(client->name, sizeof client->name, "%s", address);
    client->limits = *limits;
    client->limits.token = limits->token ? br_strdup(limits->token) : NULL;
    client->cb = *cb;
    client->backoff_ms = CLIENT_BACKOFF_MIN_MS;
    client->rng.seed = br_rng_entropy();
    uv_timer_init(loop, &client->retry);
    client->retry.data = client;
    uv_timer_start(&client->retry, client_attempt, 0, 0); /* callbacks come from the loop */
    *out = client;
    return 0;
}

static void client_retry_closed(uv_handle_t *handle)
{
    struct br_link_client *client = handle->data;
    client->retry_closed = true;
    client_free_if_done(client);
}

void br_link_client_stop(struct br_link_client *client)
{
    client->stopped = true;
    if (client->resolving)
        uv_cancel((uv_req_t *)&client->resolve); /* client_resolved comes in any case */
    if (client->conn)
        br_conn_close(client->conn, "client stops");
    uv_close((uv_handle_t *)&client->retry, client_retry_closed);
}

/* A Register without a token gets the one of the limits. */
static int client_send_register(struct br_link_client *client, const Briareus__Frame *frame)
{
    Briareus__Register hello = *frame->register_;
    Briareus__Frame with_token = *frame;
    hello.token = (char *)client->limits.token;
    with_token.register_ = &hello;
    return br_conn_send(client->conn, &with_token);
}

int br_link_client_send(struct br_link_client *client, const Briareus__Frame *frame)
{
    if (!br_link_client_connected(client))
        return BR_EIO;
    if (frame->body_case == BRIAREUS__FRAME__BODY_REGISTER_ && client->limits.token && !*frame->register_->token)
        return client_send_register(client, frame);
    return br_conn_send(client->conn, frame);
}

bool br_link_client_connected(const struct br_link_client *client)
{
    return client->up && !client->conn->closing;
}
