#include "scheduler/gateway/gateway.h"

#include <stdlib.h>

#include "scheduler/gateway/gateway_impl.h"
#include "scheduler/gateway/models_admin.h"

static void gateway_free_if_done(struct br_gateway *gateway)
{
    if (gateway->stopping && !gateway->server && !gateway->ping_open && gateway->n_jobs == 0)
        free(gateway);
}

static void on_server_closed(void *ctx)
{
    struct br_gateway *gateway = ctx;
    gateway->server = NULL;
    gateway_free_if_done(gateway);
}

void br_gateway_job_done(struct br_gateway *gateway)
{
    gateway_free_if_done(gateway);
}

static void on_ping(uv_timer_t *timer)
{
    struct br_gateway *gateway = timer->data;
    for (struct br_gateway_call *call = gateway->calls; call; call = call->next)
        if (call->http && call->http->state == BR_HTTP_STREAM)
            br_sse_ping(call);
}

static void on_ping_closed(uv_handle_t *handle)
{
    struct br_gateway *gateway = handle->data;
    gateway->ping_open = false;
    gateway_free_if_done(gateway);
}

static void gateway_ping(struct br_gateway *gateway)
{
    uint64_t every_ms = gateway->config.ping_ms ? gateway->config.ping_ms : 30000;
    uv_timer_init(gateway->loop, &gateway->ping);
    gateway->ping.data = gateway;
    gateway->ping_open = true;
    uv_timer_start(&gateway->ping, on_ping, every_ms, every_ms);
    uv_unref((uv_handle_t *)&gateway->ping);
}

static void on_gone(struct br_http *http)
{
    if (http->call)
        br_call_abandon(http->call);
    if (http->admin)
        br_admin_abandon(http->admin);
}

static void on_slow(struct br_http *http, bool slow)
{
    if (http->call)
        br_call_pace(http->call, slow);
}

int br_gateway_start(uv_loop_t *loop, const struct br_gateway_config *config, const struct br_gateway_backend *backend,
                     struct br_gateway **out, struct br_err *err)
{
    struct br_gateway *gateway = br_calloc(1, sizeof *gateway);
    struct br_server_config server = {
        .host = config->host,
        .port = config->port,
        .max_connections = config->max_connections,
        .limits = {.max_header_bytes = config->max_header_bytes, .max_body_bytes = config->max_body_bytes},
        .header_timeout_ms = config->header_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
        .max_out_bytes = config->max_out_bytes,
        .slow_out_bytes = config->slow_out_bytes ? config->slow_out_bytes : config->max_out_bytes / 8};
    struct br_server_handler handler = {.ctx = gateway, .request = br_route, .gone = on_gone, .slow = on_slow};
    json_object_seed(0); /* before threads parse */
    gateway->loop = loop;
    gateway->config = *config;
    gateway->backend = *backend;
    if (br_server_start(loop, &server, &handler, &gateway->server, err) < 0) {
        free(gateway);
        return err->code;
    }
    gateway->config.host = NULL; /* the caller's; not needed again */
    gateway_ping(gateway);
    *out = gateway;
    return 0;
}

void br_gateway_drain(struct br_gateway *gateway)
{
    br_server_drain(gateway->server);
}

uint32_t br_gateway_open_calls(const struct br_gateway *gateway)
{
    uint32_t n = 0;
    for (const struct br_gateway_call *call = gateway->calls; call; call = call->next)
        n++;
    return n;
}

void br_gateway_stop(struct br_gateway *gateway)
{
    struct br_gateway_call *next;
    gateway->stopping = true;
    br_server_drain(gateway->server);
    for (struct br_gateway_call *call = gateway->calls; call; call = next) {
        next = call->next;
        if (call->http)
            br_call_stop(call);
    }
    br_admin_stop(gateway);
    uv_close((uv_handle_t *)&gateway->ping, on_ping_closed);
    br_server_stop(gateway->server, on_server_closed, gateway);
}

int br_gateway_port(const struct br_gateway *gateway)
{
    return br_server_port(gateway->server);
}
