#include "tests/unit/loadgen/stub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { MAX_PEERS = 4096 };

struct peer {
    int fd;
    struct br_buf in;
    bool answering;
    int64_t due_ns;
    uint32_t tokens, sent; /* of the answer */
};

struct stub {
    struct stub_script script;
    int listener, wake[2];
    uint16_t port;
    char url[64];
    pthread_t thread;
    struct peer peers[MAX_PEERS];
    uint32_t n_peers, n_requests;
    int64_t first_ns; /* arrival of the first request; 0: none yet */
    char **recorded;
    uint32_t n_recorded;
};

static const char STREAM_HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
                                  "\r\n";

static void put(struct peer *p, const char *data, size_t n)
{
    while (n) {
        ssize_t sent = send(p->fd, data, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = p->fd, .events = POLLOUT}, 1, 1000);
            continue;
        }
        if (sent <= 0)
            return;
        data += sent;
        n -= (size_t)sent;
    }
}

static void chunk(struct br_buf *out, const char *event)
{
    br_buf_printf(out, "%zx\r\n%s\r\n", strlen(event), event);
}

static void fixed(struct peer *p, int status, const char *type, const char *body)
{
    struct br_buf out = {0};
    br_buf_printf(&out, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s", status, type,
                  strlen(body), body);
    put(p, out.data, out.len);
    br_buf_free(&out);
    p->answering = false;
}

static void hang_up(struct peer *p)
{
    close(p->fd);
    p->fd = -1;
    p->answering = false;
}

static const char TOKEN[] =
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":"
    "\" tok\",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

static void stream_end(const struct stub *s, struct peer *p, struct br_buf *out)
{
    char usage[256];
    snprintf(usage, sizeof usage, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%u}}\n\n",
             p->tokens);
    chunk(out, usage);
    if (s->script.kind != STUB_NO_DONE)
        chunk(out, "data: [DONE]\n\n");
    br_buf_puts(out, "0\r\n\r\n");
}

/* The next tokens of a stream, as many as go together. */
static void stream_on(struct stub *s, struct peer *p, int64_t now)
{
    struct br_buf out = {0};
    uint32_t batch = s->script.batch ? s->script.batch : 1;
    bool over;
    if (p->sent == 0)
        br_buf_puts(&out, STREAM_HEAD);
    for (uint32_t i = 0; i < batch && p->sent < p->tokens; i++, p->sent++)
        chunk(&out, TOKEN);
    over = p->sent == p->tokens;
    if (over)
        stream_end(s, p, &out);
    put(p, out.data, out.len);
    br_buf_free(&out);
    p->answering = !over;
    p->due_ns = (s->script.gap_us ? p->due_ns : now) + (int64_t)s->script.gap_us * 1000;
    if (over && s->script.kind == STUB_DROP)
        hang_up(p);
}

/* Broken streams: everything at once. */
static void stream_broken(struct stub *s, struct peer *p)
{
    struct br_buf out = {0};
    br_buf_puts(&out, STREAM_HEAD);
    chunk(&out, TOKEN);
    if (s->script.kind == STUB_BROKEN_JSON)
        chunk(&out, "data: {\"choices\":[{\"te\n\n");
    else if (s->script.kind == STUB_ERROR_EVENT)
        chunk(&out, "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}\n\n");
    else if (s->script.kind == STUB_CLOSE_MIDWAY)
        br_buf_printf(&out, "%zx\r\n%s\r\n%x\r\ndata: {", strlen(TOKEN), TOKEN, 500);
    put(p, out.data, out.len);
    br_buf_free(&out);
    if (s->script.kind == STUB_CLOSE_MIDWAY)
        hang_up(p);
    p->answering = false;
}

static void endless(struct peer *p, const char *head)
{
    static char x[65536];
    memset(x, 'x', sizeof x);
    put(p, head, strlen(head));
    for (int i = 0; i < 40; i++) {
        if (send(p->fd, x, sizeof x, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            break;
        poll(&(struct pollfd){.fd = p->fd, .events = POLLOUT}, 1, 100);
    }
    p->answering = false;
}

static void whole(struct peer *p)
{
    char body[256];
    snprintf(
        body, sizeof body,
        "{\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"all\",\"finish_reason\":\"length\"}],"
        "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%u,\"total_tokens\":%u}}",
        p->tokens, p->tokens + 7);
    fixed(p, 200, "application/json", body);
}

static void answer(struct stub *s, struct peer *p, int64_t now)
{
    static const char page[] = "<html><body>It works!</body></html>";
    switch (s->script.kind) {
    case STUB_STREAM:
    case STUB_NO_DONE:
    case STUB_DROP:
        stream_on(s, p, now);
        break;
    case STUB_WHOLE:
        whole(p);
        break;
    case STUB_HANG:
        p->answering = false;
        break;
    case STUB_CLOSE:
        hang_up(p);
        break;
    case STUB_CLOSE_MIDWAY:
    case STUB_BROKEN_JSON:
    case STUB_ERROR_EVENT:
        stream_broken(s, p);
        break;
    case STUB_HTML:
        fixed(p, 200, "text/html", page);
        break;
    case STUB_HTML_502:
        fixed(p, 502, "text/html", page);
        break;
    case STUB_BUSY:
        fixed(p, 429, "application/json", "{\"error\":{\"message\":\"queue full\"}}");
        break;
    case STUB_LOADING:
        fixed(p, 503, "application/json", "{\"error\":{\"message\":\"loading\"}}");
        break;
    case STUB_MISSING:
        fixed(p, 404, "application/json", "{\"error\":{\"message\":\"no such model\"}}");
        break;
    case STUB_NOT_HTTP:
        put(p, "220 mail.example ESMTP\r\n", 24);
        p->answering = false;
        break;
    case STUB_ENDLESS_HEAD:
        endless(p, "HTTP/1.1 200 OK\r\nX-Header: ");
        break;
    case STUB_ENDLESS_LINE:
        endless(p, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ");
        break;
    }
}

static void tokenize(struct peer *p, const char *body)
{
    const char *text = strstr(body, "\"prompt\":\"");
    uint32_t words = 1;
    char out[64];
    for (text = text ? text + 10 : ""; *text && *text != '"'; text++)
        words += *text == ' ';
    snprintf(out, sizeof out, "{\"count\":%u,\"tokens\":[]}", words + 2);
    fixed(p, 200, "application/json", out);
}

/* A whole request at the front of the peer's bytes? Takes it. */
static bool take_request(struct stub *s, struct peer *p)
{
    char *end = p->in.data ? strstr(p->in.data, "\r\n\r\n") : NULL, *length, *max;
    size_t total;
    if (!end || p->answering)
        return false;
    length = strstr(p->in.data, "Content-Length:");
    total = (size_t)(end + 4 - p->in.data) + (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
    if (p->in.len < total)
        return false;
    if (strncmp(p->in.data, "POST /tokenize ", 15) == 0) {
        if (s->script.tokenize)
            tokenize(p, end + 4);
        else
            fixed(p, 404, "application/json", "{\"error\":{\"message\":\"no such path\"}}");
        br_buf_consume(&p->in, total);
        return true;
    }
    if (s->script.record) {
        s->recorded = br_realloc(s->recorded, (s->n_recorded + 1) * sizeof *s->recorded);
        s->recorded[s->n_recorded++] = strndup(p->in.data, total);
    }
    max = strstr(end, "\"max_tokens\":");
    p->tokens = max ? (uint32_t)strtoul(max + 13, NULL, 10) : 1;
    p->sent = 0;
    p->answering = true;
    if (!s->first_ns)
        s->first_ns = br_now_ns();
    p->due_ns = br_now_ns();
    if (s->script.n_first)
        p->due_ns += (int64_t)s->script.first_us[s->n_requests % s->script.n_first] * 1000;
    s->n_requests++;
    br_buf_consume(&p->in, total);
    return true;
}

static void hear(struct stub *s, struct peer *p)
{
    char bytes[65536];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            hang_up(p);
        return;
    }
    br_buf_add(&p->in, bytes, (size_t)n);
    while (take_request(s, p))
        ;
}

/* What is due in the stall waits for its end. */
static int64_t due_of(const struct stub *s, const struct peer *p)
{
    int64_t from = s->first_ns + (int64_t)(s->script.stall_from_s * 1e9),
            to = from + (int64_t)(s->script.stall_s * 1e9);
    return p->due_ns >= from && p->due_ns < to ? to : p->due_ns;
}

static void meet(struct stub *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK), one = 1;
    struct peer *p;
    if (fd < 0)
        return;
    if (s->n_peers == MAX_PEERS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    p = &s->peers[s->n_peers++];
    *p = (struct peer){.fd = fd};
}

static void forget_closed(struct stub *s)
{
    for (uint32_t i = 0; i < s->n_peers;) {
        if (s->peers[i].fd >= 0) {
            i++;
            continue;
        }
        br_buf_free(&s->peers[i].in);
        s->peers[i] = s->peers[--s->n_peers];
    }
}

/* Waits for bytes or the next due time; false: told to stop. */
static bool wait_all(struct stub *s, struct pollfd *fds)
{
    int64_t due = INT64_MAX, wait;
    uint32_t n = s->n_peers;
    fds[0] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    for (uint32_t i = 0; i < n; i++) {
        fds[i + 2] = (struct pollfd){.fd = s->peers[i].fd, .events = POLLIN};
        if (s->peers[i].answering && due_of(s, &s->peers[i]) < due)
            due = due_of(s, &s->peers[i]);
    }
    wait = due == INT64_MAX ? BR_NS_PER_S : due - br_now_ns();
    if (wait < 0)
        wait = 0;
    ppoll(fds, n + 2, &(struct timespec){wait / BR_NS_PER_S, wait % BR_NS_PER_S}, NULL);
    return !fds[0].revents;
}

static void *serve(void *arg)
{
    struct stub *s = arg;
    struct pollfd *fds = br_malloc((MAX_PEERS + 2) * sizeof *fds);
    while (wait_all(s, fds)) {
        uint32_t n = s->n_peers;
        for (uint32_t i = 0; i < n; i++)
            if (fds[i + 2].revents)
                hear(s, &s->peers[i]);
        for (uint32_t i = 0; i < n; i++) {
            struct peer *p = &s->peers[i];
            int64_t now = br_now_ns();
            if (p->fd >= 0 && p->answering && due_of(s, p) <= now) {
                p->due_ns = due_of(s, p);
                answer(s, p, now);
                while (p->fd >= 0 && take_request(s, p))
                    ;
            }
        }
        if (fds[1].revents)
            meet(s);
        forget_closed(s);
    }
    free(fds);
    return NULL;
}

struct stub *stub_start(const struct stub_script *script)
{
    struct stub *s = br_calloc(1, sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->script = *script;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&at, sizeof at) || listen(s->listener, 4096) ||
        getsockname(s->listener, (struct sockaddr *)&at, &len) || pipe(s->wake) ||
        pthread_create(&s->thread, NULL, serve, s))
        abort();
    s->port = ntohs(at.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", s->port);
    return s;
}

uint16_t stub_port(const struct stub *s)
{
    return s->port;
}

const char *stub_url(const struct stub *s)
{
    return s->url;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **stub_requests(struct stub *s, uint32_t *n)
{
    qsort(s->recorded, s->n_recorded, sizeof *s->recorded, by_text);
    *n = s->n_recorded;
    return s->recorded;
}

void stub_stop(struct stub *s)
{
    if (write(s->wake[1], "x", 1) != 1)
        abort();
    pthread_join(s->thread, NULL);
    for (uint32_t i = 0; i < s->n_peers; i++) {
        close(s->peers[i].fd);
        br_buf_free(&s->peers[i].in);
    }
    for (uint32_t i = 0; i < s->n_recorded; i++)
        free(s->recorded[i]);
    free(s->recorded);
    close(s->listener);
    close(s->wake[0]);
    close(s->wake[1]);
    free(s);
}
