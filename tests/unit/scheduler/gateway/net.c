#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { NET_PATIENCE_S = 10 };

const struct br_gateway_config net_config = {.host = "127.0.0.1",
                                             .max_connections = 8,
                                             .max_header_bytes = 2048,
                                             .max_body_bytes = 1 << 20,
                                             .max_choices = 8,
                                             .header_timeout_ms = 5000,
                                             .idle_timeout_ms = 5000,
                                             .max_out_bytes = 1 << 20};

/* ---- the backend ---- */

static const struct br_gateway_model *net_model(void *ctx, const char *name)
{
    struct net *net = ctx;
    for (int i = 0; i < 2; i++)
        if (strcmp(net->models[i].name, name) == 0)
            return &net->models[i];
    return NULL;
}

static uint32_t net_n_models(void *ctx)
{
    (void)ctx;
    return 2;
}

static const struct br_gateway_model *net_model_at(void *ctx, uint32_t i)
{
    return &((struct net *)ctx)->models[i];
}

static const char *net_trouble(void *ctx, const struct br_gateway_model *model)
{
    (void)model;
    return ((struct net *)ctx)->trouble;
}

static bool net_healthy(void *ctx, const char **why)
{
    struct net *net = ctx;
    *why = net->sick;
    return !net->sick;
}

static void net_forget(struct net *net)
{
    for (uint32_t i = 0; i < net->n_specs; i++)
        br_seq_spec_free(&net->specs[i]);
    net->n_specs = 0;
}

static void net_echo(struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n)
{
    br_gateway_accepted(call);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < specs[i].n_prompt; k++)
            br_gateway_tokens(call, specs[i].id, &(struct br_token){.id = specs[i].prompt[k]}, 1, BR_END_NONE, NULL);
        br_gateway_tokens(call, specs[i].id, &(struct br_token){.id = 2}, 1, BR_END_STOP, NULL);
    }
}

static void net_submit(void *ctx, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n)
{
    struct net *net = ctx;
    net_forget(net);
    net->call = call;
    net->n_submitted++;
    net->n_specs = n < NET_MAX_SEQS ? n : NET_MAX_SEQS;
    for (uint32_t i = 0; i < net->n_specs; i++)
        br_seq_spec_copy(&net->specs[i], &specs[i]);
    if (net->echo)
        net_echo(call, specs, n);
    else if (net->refuse)
        br_gateway_refused(call, net->refuse, 2.5, "the queue is full");
}

static void net_cancel(void *ctx, struct br_gateway_call *call, uint64_t seq)
{
    struct net *net = ctx;
    assert_ptr_equal(call, net->call);
    if (net->n_cancelled < NET_MAX_SEQS)
        net->cancelled[net->n_cancelled++] = seq;
}

static void net_pace(void *ctx, uint64_t seq, bool pause)
{
    struct net *net = ctx;
    *(pause ? &net->n_paused : &net->n_resumed) += 1;
    net->paced = seq;
}

struct net *net_open(const struct br_gateway_config *config)
{
    struct net *net = br_calloc(1, sizeof *net);
    struct br_gateway_backend backend = {.ctx = net,
                                         .model = net_model,
                                         .n_models = net_n_models,
                                         .model_at = net_model_at,
                                         .model_trouble = net_trouble,
                                         .submit = net_submit,
                                         .cancel = net_cancel,
                                         .pace = net_pace,
                                         .healthy = net_healthy};
    struct br_err err;
    net->models[0] = fixture_model("tiny-qwen2");
    net->models[1] = fixture_model("stories260K");
    uv_loop_init(&net->loop);
    if (br_gateway_start(&net->loop, config ? config : &net_config, &backend, &net->gateway, &err) < 0)
        fail_msg("%s", err.msg);
    return net;
}

void net_close(struct net *net)
{
    br_gateway_stop(net->gateway);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&net->loop), 0);
    net_forget(net);
    fixture_free(&net->models[0]);
    fixture_free(&net->models[1]);
    free(net);
}

/* ---- the client ---- */

void client_open(struct client *client, struct net *net)
{
    client_open_port(client, net, br_gateway_port(net->gateway));
}

void client_open_port(struct client *client, struct net *net, int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *client = (struct client){.net = net, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(client->fd >= 0);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&addr, sizeof addr), 0);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
}

void client_close(struct client *client)
{
    close(client->fd);
    br_buf_free(&client->in);
    client->fd = -1;
}

void client_reset(struct client *client)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    client_close(client);
}

static void client_receive(struct client *client)
{
    char data[65536];
    ssize_t n;
    while (client->fd >= 0 && !client->eof && (n = recv(client->fd, data, sizeof data, 0)) != -1) {
        client->eof = n == 0;
        br_buf_add(&client->in, data, (size_t)n);
    }
    if (client->fd >= 0 && !client->eof && errno == ECONNRESET)
        client->eof = true;
}

void client_turn(struct client *client)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    uv_run(&client->net->loop, UV_RUN_NOWAIT);
    poll(&poll_fd, client->fd >= 0 && !client->eof ? 1 : 0, 1);
    client_receive(client);
}

void client_send(struct client *client, const char *data, size_t len)
{
    double deadline_s = br_now_s() + NET_PATIENCE_S;
    while (len > 0 && br_now_s() < deadline_s) {
        ssize_t n = send(client->fd, data, len, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN) {
            return; /* the server has closed: what it said is for the test to see */
        }
        if (len > 0)
            client_turn(client);
    }
}

void client_puts(struct client *client, const char *text)
{
    client_send(client, text, strlen(text));
}

void client_post(struct client *client, const char *path, const char *body)
{
    struct br_buf text = {0};
    br_buf_printf(&text,
                  "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                  path, strlen(body), body);
    client_send(client, text.data, text.len);
    br_buf_free(&text);
}

static bool client_times_out(struct client *client, double since_s, const char *what)
{
    if (br_now_s() - since_s < NET_PATIENCE_S)
        return false;
    fail_msg("waited for %s, have: %s", what, client->in.data ? client->in.data : "(nothing)");
    return true;
}

size_t client_await(struct client *client, size_t from, const char *text)
{
    double since_s = br_now_s();
    for (;;) {
        const char *at = client->in.len > from ? strstr(client->in.data + from, text) : NULL;
        if (at)
            return (size_t)(at - client->in.data) + strlen(text);
        if (client->eof)
            fail_msg("closed before %s, have: %s", text, client->in.data ? client->in.data : "(nothing)");
        if (client_times_out(client, since_s, text))
            return 0;
        client_turn(client);
    }
}

void client_await_eof(struct client *client)
{
    double since_s = br_now_s();
    while (!client->eof && !client_times_out(client, since_s, "the end of the connection"))
        client_turn(client);
}

void client_has(struct client *client, const char *text)
{
    if (!client->in.data || !strstr(client->in.data, text))
        fail_msg("no '%s' in: %s", text, client->in.data ? client->in.data : "(nothing)");
}

void client_has_not(struct client *client, const char *text)
{
    if (client->in.data && strstr(client->in.data, text))
        fail_msg("'%s' in: %s", text, client->in.data);
}

const char *client_answer(struct client *client, int status)
{
    char line[32];
    size_t head = client_await(client, 0, "\r\n\r\n"), want;
    const char *length = strstr(client->in.data, "Content-Length: ");
    double since_s = br_now_s();
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(client->in.data, line, strlen(line)) != 0 || !length)
        fail_msg("not a %d: %s", status, client->in.data);
    want = head + strtoul(length + 16, NULL, 10);
    while (client->in.len < want && !client_times_out(client, since_s, "the body"))
        client_turn(client);
    br_buf_consume(&client->in, head);
    return client->in.data;
}

void net_await_submits(struct client *client, uint32_t n)
{
    double since_s = br_now_s();
    while (client->net->n_submitted < n && !client_times_out(client, since_s, "a submit"))
        client_turn(client);
}

void net_await_cancels(struct client *client, uint32_t n)
{
    double since_s = br_now_s();
    while (client->net->n_cancelled < n && !client_times_out(client, since_s, "a cancel"))
        client_turn(client);
    assert_int_equal(client->net->n_cancelled, n);
}

/* ---- the backend's words ---- */

void net_accept(struct net *net)
{
    br_gateway_accepted(net->call);
}

void net_tokens(struct net *net, uint32_t i, const int32_t *ids, uint32_t n, enum br_end end)
{
    struct br_token tokens[64] = {0};
    assert_true(n <= 64);
    for (uint32_t k = 0; k < n; k++)
        tokens[k].id = ids[k];
    br_gateway_tokens(net->call, net->specs[i].id, tokens, n, end, end == BR_END_FAILED ? "the device died" : NULL);
}

void net_text(struct net *net, uint32_t i, const char *text, enum br_end end)
{
    const struct br_gateway_model *model = net_model(net, net->specs[i].model);
    struct br_ids ids = {0};
    struct br_err err;
    assert_int_equal(br_tokenizer_encode(model->tokenizer, text, strlen(text), 0, &ids, &err), 0);
    net_tokens(net, i, ids.data, (uint32_t)ids.len, end);
    br_ids_free(&ids);
}
