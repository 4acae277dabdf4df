/* HTTP/1.1 as RFC 9112 has it, and what abuses it: each case as bytes, and the statuses that come back, in order, on a
 * real connection. What could make this server and a proxy in front of it disagree about where a request ends is
 * refused and the connection closed. */
#include "net.h"

static struct net *net;

enum after { OPEN, CLOSED };

struct row {
    const char *name, *bytes;
    const char *statuses; /* "200 400": in this order, and no more */
    enum after after;
};

#define HOST "Host: x\r\n"
#define GET "GET /health HTTP/1.1\r\n" HOST "\r\n"
#define POST "POST /v1/completions HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define BODY "{\"model\":\"tiny-qwen2\",\"prompt\":[5,6,7]}" /* 39 bytes */
#define SMUGGLED "GET /v1/models HTTP/1.1\r\n" HOST "\r\n"

static const struct row rows[] = {
    /* smuggling: two lengths, or one that can be read in two ways */
    {"length and chunked", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400",
     CLOSED},
    {"chunked and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED, "400",
     CLOSED},
    {"two lengths that differ", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a list of lengths", POST "Content-Length: 5, 5\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a length with a sign", POST "Content-Length: +5\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a negative length", POST "Content-Length: -5\r\n\r\n" SMUGGLED, "400", CLOSED},
    {"a hexadecimal length", POST "Content-Length: 0x5\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a length beyond 64 bits", POST "Content-Length: 18446744073709551621\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a blank before the colon", POST "Content-Length : 5\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a folded header", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400", CLOSED},
    {"chunked is not the last coding", POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501",
     CLOSED},
    {"another coding", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "501", CLOSED},
    {"chunked twice", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED,
     "400 501", CLOSED},
    {"a coding that is nearly chunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501",
     CLOSED},
    {"a vertical tab in a coding",
     POST "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n0\r\n\r\n" SMUGGLED,
     "400 501", CLOSED},
    {"a bare CR in a header", POST "X: a\rContent-Length: 5\r\n\r\nhello" SMUGGLED, "400", CLOSED},
    {"a header without a name", POST ": x\r\n\r\n" SMUGGLED, "400", CLOSED},
    {"a header without a colon", POST "nonsense\r\n\r\n" SMUGGLED, "400", CLOSED},
    /* chunked bodies */
    {"a chunk size of no digits", CHUNKED "\r\n" SMUGGLED, "400", CLOSED},
    {"a chunk size that is no number", CHUNKED "zz\r\n" SMUGGLED, "400", CLOSED},
    {"a negative chunk size", CHUNKED "-1\r\n" SMUGGLED, "400", CLOSED},
    {"a chunk size with 0x", CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "400", CLOSED},
    {"a chunk size beyond 64 bits", CHUNKED "10000000000000001\r\n" SMUGGLED, "400", CLOSED},
    {"a chunk that is longer than it says", CHUNKED "2\r\nhello\r\n0\r\n\r\n" SMUGGLED, "400", CLOSED},
    {"a chunk size with an extension", CHUNKED "27;a=b\r\n" BODY "\r\n0\r\n\r\n" GET, "200 200", OPEN},
    {"capital digits and zeros in front", CHUNKED "00027\r\n" BODY "\r\n0\r\n\r\n" GET, "200 200", OPEN},
    {"trailers", CHUNKED "27\r\n" BODY "\r\n0\r\nContent-Length: 7\r\nX: y\r\n\r\n" GET, "200 200", OPEN},
    {"an empty chunked body", CHUNKED "0\r\n\r\n" GET, "400 200", OPEN},
    /* the request line and the head */
    {"no host", "GET /health HTTP/1.1\r\n\r\n", "400", CLOSED},
    {"HTTP/1.0 needs none", "GET /health HTTP/1.0\r\n\r\n" GET, "200", CLOSED},
    {"HTTP/2.0", "GET /health HTTP/2.0\r\n" HOST "\r\n", "505", CLOSED},
    {"HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", CLOSED},
    {"HTTP/0.9", "GET /health\r\n\r\n", "400 505", CLOSED},
    {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", "400", CLOSED},
    {"TLS without a server for it", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03 TLS\r\n\r\n", "400", CLOSED},
    {"a control byte in the URL", "GET /health\x01 HTTP/1.1\r\n" HOST "\r\n", "400", CLOSED},
    {"an unknown method", "FROB /health HTTP/1.1\r\n" HOST "\r\n", "400", CLOSED},
    {"a method that is not for this path", "DELETE /health HTTP/1.1\r\n" HOST "\r\n" GET, "405 200", OPEN},
    {"TRACE", "TRACE /health HTTP/1.1\r\n" HOST "\r\n" GET, "405 200", OPEN},
    {"OPTIONS of the server", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n" GET, "204 200", OPEN},
    {"a path that climbs", "GET /../../etc/passwd HTTP/1.1\r\n" HOST "\r\n" GET, "404 200", OPEN},
    {"a NUL as an escape", "GET /v1/models/a%00b HTTP/1.1\r\n" HOST "\r\n" GET, "404 200", OPEN},
    {"blank lines before a request", "\r\n\r\n" GET, "200", OPEN},
    {"an upgrade nobody speaks", "GET /health HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" GET,
     "200 200", OPEN},
    {"a compressed body", POST "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello" SMUGGLED, "415", CLOSED},
    /* lengths and keeping alive */
    {"a body with GET", "GET /health HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello" GET, "200 200", OPEN},
    {"the same length twice", POST "Content-Length: 39\r\nContent-Length: 39\r\n\r\n" BODY GET, "400", CLOSED},
    {"no body at all", POST "\r\n" GET, "400 200", OPEN},
    {"a body that is announced too long", POST "Content-Length: 99999999\r\n\r\n" SMUGGLED, "413", CLOSED},
    {"pipelined", GET GET POST "Content-Length: 39\r\n\r\n" BODY GET, "200 200 200 200", OPEN},
    {"pipelined behind a close", "GET /health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" GET, "200", CLOSED},
    {"pipelined behind an error in JSON", POST "Content-Length: 1\r\n\r\n{" GET, "400 200", OPEN},
    {"expectations: 100-continue", POST "Expect: 100-continue\r\nContent-Length: 39\r\n\r\n" BODY GET, "100 200 200",
     OPEN},
    {"expectations: of nothing", "GET /health HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n\r\n" GET, "200 200", OPEN},
    {"expectations: too much", POST "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", "413", CLOSED},
    {"expectations: others", POST "Expect: tea\r\nContent-Length: 39\r\n\r\n" BODY, "417", CLOSED},
};

static int setup(void **state)
{
    (void)state;
    net = net_open(NULL);
    net->echo = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    net_close(net);
    return 0;
}

/* Statuses of all answers so far, in order. */
static void statuses_of(const struct br_buf *in, char *out, size_t size)
{
    *out = 0;
    for (const char *at = in->data ? strstr(in->data, "HTTP/1.1 ") : NULL; at; at = strstr(at + 9, "HTTP/1.1 "))
        if (at[9] >= '1' && at[9] <= '5') /* messages speak of HTTP/1.1 too */
            snprintf(out + strlen(out), size - strlen(out), *out ? " %.3s" : "%.3s", at + 9);
}

/* "400 501" of a refusal means either: both say no, and which is a matter of the parser's version. */
static bool statuses_match(const struct row *row, const char *got)
{
    bool either = row->after == CLOSED && strlen(row->statuses) == 7 && strlen(got) == 3;
    return strcmp(got, row->statuses) == 0 || (either && strstr(row->statuses, got));
}

static int count(const char *statuses)
{
    return (int)(strlen(statuses) + 1) / 4;
}

/* Sends the bytes in pieces; an OPEN connection is asked once more at the end, and has to answer. */
static void check(const struct row *row, size_t piece)
{
    struct client c;
    char got[128] = "";
    size_t len = strlen(row->bytes);
    client_open(&c, net);
    for (size_t at = 0; at < len && !c.eof; at += piece) {
        client_send(&c, row->bytes + at, len - at < piece ? len - at : piece);
        if (piece < len)
            uv_run(&net->loop, UV_RUN_NOWAIT);
    }
    if (row->after == CLOSED)
        client_await_eof(&c);
    while (row->after == OPEN && !c.eof && count(got) < count(row->statuses)) {
        client_turn(&c);
        statuses_of(&c.in, got, sizeof got);
    }
    statuses_of(&c.in, got, sizeof got);
    if (!statuses_match(row, got))
        fail_msg("%s, in pieces of %zu bytes: got %s, want %s", row->name, piece, got, row->statuses);
    if (row->after == OPEN) {
        br_buf_clear(&c.in);
        client_puts(&c, "GET /v1/models/tiny-qwen2 HTTP/1.1\r\n" HOST "\r\n");
        client_answer(&c, 200);
    }
    client_close(&c);
}

static void every_case_has_its_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i], strlen(rows[i].bytes));
}

/* Where a refusal comes while the rest is on its way, the same. */
static void the_same_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i], 1);
}

/* Slowloris: hundreds of connections that send a byte now and then. Each has until the request's time-out, whatever it
 * sends meanwhile; and while they are open others are served. */
static void slow_senders_are_bounded(void **state)
{
    enum { N = 40 };
    struct br_gateway_config config = net_config;
    struct client slow[N], c;
    int open = N;
    net_close(net);
    config.header_timeout_ms = 300;
    config.max_connections = N + 8;
    net = net_open(&config);
    *state = NULL;
    for (int i = 0; i < N; i++) {
        client_open(&slow[i], net);
        client_puts(&slow[i], "POST /v1/completions HTTP/1.1\r\nX: ");
    }
    client_open(&c, net);
    client_puts(&c, GET);
    client_answer(&c, 200);
    client_close(&c);
    while (open > 0) { /* the time-out ends this: every client goes on sending */
        open = 0;
        for (int i = 0; i < N; i++) {
            if (!slow[i].eof)
                client_puts(&slow[i], "x");
            client_turn(&slow[i]);
            open += !slow[i].eof;
        }
        if (slow[0].in.len > 0) /* told so: no more is sent into a closing connection */
            break;
    }
    for (int i = 0; i < N; i++) {
        client_await_eof(&slow[i]);
        client_has(&slow[i], "HTTP/1.1 408 ");
        client_close(&slow[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_case_has_its_status, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_byte_by_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_senders_are_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
