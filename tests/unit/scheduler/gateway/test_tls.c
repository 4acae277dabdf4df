/* The server's side of TLS against OpenSSL's client, in memory and through the gateway's socket. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "base/rng.h"
#include "net.h"
#include "scheduler/gateway/tls.h"

static char g_dir[] = "/tmp/briareus-tls-XXXXXX", g_cert[2][64], g_key[2][64];

static void certificate_make(int i)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    FILE *f;
    ASN1_INTEGER_set(X509_get_serialNumber(cert), i + 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)(i ? "second" : "first"), -1, -1, 0);
    X509_set_issuer_name(cert, name);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    snprintf(g_cert[i], sizeof g_cert[i], "%s/cert%d", g_dir, i);
    snprintf(g_key[i], sizeof g_key[i], "%s/key%d", g_dir, i);
    assert_non_null(f = fopen(g_cert[i], "w"));
    assert_int_equal(PEM_write_X509(f, cert), 1);
    fclose(f);
    assert_non_null(f = fopen(g_key[i], "w"));
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int group_setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(g_dir));
    certificate_make(0);
    certificate_make(1);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        unlink(g_cert[i]);
        unlink(g_key[i]);
    }
    rmdir(g_dir);
    return 0;
}

/* ---- OpenSSL's client on memory ---- */

struct peer {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
};

static struct peer peer_open(int most_version)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
    struct peer p = {.context = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_max_proto_version(p.context, most_version);
    SSL_CTX_set_min_proto_version(p.context, 0);
    SSL_CTX_set_security_level(p.context, 0);
    p.ssl = SSL_new(p.context);
    SSL_set_alpn_protos(p.ssl, protocols, sizeof protocols - 1);
    p.in = BIO_new(BIO_s_mem());
    p.out = BIO_new(BIO_s_mem());
    SSL_set_bio(p.ssl, p.in, p.out);
    SSL_set_connect_state(p.ssl);
    return p;
}

static void peer_close(struct peer *p)
{
    SSL_free(p->ssl);
    SSL_CTX_free(p->context);
}

/* Reads and says all that it can. */
static void peer_turn(struct peer *p, struct br_buf *got, struct br_buf *say)
{
    char piece[4096];
    int n = SSL_is_init_finished(p->ssl) ? 1 : SSL_do_handshake(p->ssl);
    if (n != 1)
        return;
    if (say->len) {
        assert_int_equal(SSL_write(p->ssl, say->data, (int)say->len), (int)say->len);
        br_buf_clear(say);
    }
    while ((n = SSL_read(p->ssl, piece, sizeof piece)) > 0)
        br_buf_add(got, piece, (size_t)n);
}

static void fill(struct br_buf *buf, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        char byte = (char)br_rng_u64(seed, 0, i, 0);
        br_buf_add(buf, &byte, 1);
    }
}

static void run(struct br_tls_context *context, int version, size_t piece)
{
    struct br_tls *tls = br_tls_accept(context);
    struct peer p = peer_open(version);
    struct br_buf ask = {0}, answer = {0}, asked = {0}, answered = {0}, sealed = {0}, want_ask = {0}, want_answer = {0};
    const unsigned char *protocol;
    unsigned protocol_len;
    fill(&want_ask, 50000, 1);
    fill(&want_answer, 100000, 2);
    br_buf_add(&ask, want_ask.data, want_ask.len);
    br_buf_add(&answer, want_answer.data, want_answer.len);
    for (int turn = 0; asked.len < want_ask.len || answered.len < want_answer.len; turn++) {
        char data[65536];
        int n;
        assert_true(turn < 1000000); /* a byte a turn, both ways */
        peer_turn(&p, &answered, &ask);
        n = BIO_read(p.out, data, (int)piece);
        if (n > 0)
            assert_int_equal(br_tls_receive(tls, data, (size_t)n, &asked, &sealed), 0);
        assert_int_equal(br_tls_send(tls, &answer, &sealed), 0);
        BIO_write(p.in, sealed.data, (int)(sealed.len < piece ? sealed.len : piece));
        br_buf_consume(&sealed, sealed.len < piece ? sealed.len : piece);
    }
    assert_memory_equal(asked.data, want_ask.data, want_ask.len);
    assert_memory_equal(answered.data, want_answer.data, want_answer.len);
    SSL_get0_alpn_selected(p.ssl, &protocol, &protocol_len);
    assert_int_equal(protocol_len, 8);
    assert_memory_equal(protocol, "http/1.1", 8);
    br_tls_finish(tls, &sealed);
    BIO_write(p.in, sealed.data, (int)sealed.len);
    assert_int_equal(SSL_read(p.ssl, (char[1]){0}, 1), 0);
    assert_int_equal(SSL_get_error(p.ssl, 0), SSL_ERROR_ZERO_RETURN); /* an end, not a cut */
    for (struct br_buf *bufs[] = {&ask, &answer, &asked, &answered, &sealed, &want_ask, &want_answer}, **b = bufs;
         b < bufs + 7; b++)
        br_buf_free(*b);
    br_tls_free(tls);
    peer_close(&p);
}

static void both_versions_in_pieces_of_any_size(void **state)
{
    static const size_t pieces[] = {1, 7, 1000, 65536};
    struct br_tls_context *context;
    struct br_err err;
    (void)state;
    assert_int_equal(br_tls_context_load(g_cert[0], g_key[0], &context, &err), 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        run(context, TLS1_2_VERSION, pieces[i]);
        run(context, TLS1_3_VERSION, pieces[i]);
    }
    br_tls_context_free(context);
}

static void what_is_no_tls_is_broken(void **state)
{
    struct br_tls_context *context;
    struct br_tls *tls;
    struct br_buf plain = {0}, sealed = {0}, say = {0};
    struct peer old = peer_open(TLS1_1_VERSION);
    char data[4096];
    int n;
    struct br_err err;
    (void)state;
    assert_int_equal(br_tls_context_load(g_cert[0], g_key[0], &context, &err), 0);
    tls = br_tls_accept(context);
    assert_int_equal(br_tls_receive(tls, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, &plain, &sealed), -1);
    assert_int_equal(plain.len, 0);
    br_tls_free(tls);
    tls = br_tls_accept(context);
    peer_turn(&old, &plain, &say); /* TLS 1.1 is not spoken */
    n = BIO_read(old.out, data, sizeof data);
    assert_true(n > 0 && br_tls_receive(tls, data, (size_t)n, &plain, &sealed) == -1);
    br_tls_free(tls);
    peer_close(&old);
    br_buf_free(&plain);
    br_buf_free(&sealed);
    br_tls_context_free(context);
}

static void files_that_are_wrong(void **state)
{
    struct br_tls_context *context;
    struct br_err err;
    (void)state;
    assert_int_equal(br_tls_context_load("/nowhere/cert", g_key[0], &context, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "tls-cert: /nowhere/cert"));
    assert_int_equal(br_tls_context_load(g_cert[0], g_cert[0], &context, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "tls-key"));
    assert_int_equal(br_tls_context_load(g_cert[0], g_key[1], &context, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "tls-key"));
}

/* ---- through the gateway ---- */

static struct net *net;

static void gateway_open(uint32_t handshake_ms)
{
    struct br_gateway_config config = net_config;
    config.tls_cert = g_cert[0];
    config.tls_key = g_key[0];
    config.header_timeout_ms = handshake_ms;
    net = net_open(&config);
    net->echo = true;
}

/* One turn of client and gateway. */
static void exchange(struct client *c, struct peer *p, struct br_buf *got, struct br_buf *say)
{
    char data[65536];
    int n;
    peer_turn(p, got, say);
    while ((n = BIO_read(p->out, data, sizeof data)) > 0)
        client_send(c, data, (size_t)n);
    client_turn(c);
    if (c->in.len)
        BIO_write(p->in, c->in.data, (int)c->in.len);
    br_buf_clear(&c->in);
}

static void ask(const char *common_name, const char *request, const char *want)
{
    struct client c;
    struct peer p = peer_open(0);
    struct br_buf got = {0}, say = {0};
    char subject[64];
    client_open(&c, net);
    br_buf_puts(&say, request);
    for (int i = 0; i < 10000 && !(got.data && strstr(got.data, want)); i++)
        exchange(&c, &p, &got, &say);
    if (!got.data || !strstr(got.data, want))
        fail_msg("no '%s' in: %s", want, got.data ? got.data : "(nothing)");
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(p.ssl)), NID_commonName, subject,
                              sizeof subject);
    assert_string_equal(subject, common_name);
    br_buf_free(&got);
    br_buf_free(&say);
    client_close(&c);
    peer_close(&p);
}

#define STREAM "{\"model\":\"stories260K\",\"prompt\":[100,101,102],\"stream\":true}"

static void https(void **state)
{
    struct br_err err;
    (void)state;
    gateway_open(5000);
    ask("first", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "{\"status\":\"ok\"}");
    ask("first", "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
        "\"object\":\"list\"");
    ask("first", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\n" STREAM, "data: [DONE]");
    assert_int_equal(rename(g_cert[1], g_cert[0]) | rename(g_key[1], g_key[0]), 0);
    assert_int_equal(br_gateway_reload_tls(net->gateway, &err), 0);
    ask("second", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "{\"status\":\"ok\"}");
    net_close(net);
}

/* A client that says nothing, one that speaks plain HTTP, one that leaves in the middle. */
static void clients_without_tls(void **state)
{
    struct client c;
    (void)state;
    gateway_open(50);
    client_open(&c, net);
    client_await_eof(&c);
    client_close(&c);
    client_open(&c, net);
    client_puts(&c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    client_await_eof(&c);
    client_has_not(&c, "HTTP/1.1 200");
    client_close(&c);
    client_open(&c, net);
    client_puts(&c, "\x16\x03\x01");
    client_turn(&c);
    client_close(&c);
    net_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_in_pieces_of_any_size),
        cmocka_unit_test(what_is_no_tls_is_broken),
        cmocka_unit_test(files_that_are_wrong),
        cmocka_unit_test(https),
        cmocka_unit_test(clients_without_tls),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
