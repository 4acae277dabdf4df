#include "scheduler/gateway/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

enum { PIECE = 16 << 10 };

struct br_tls_context {
    SSL_CTX *ssl;
};

struct br_tls {
    SSL *ssl;
    BIO *in, *out; /* the connection's */
    bool finished;
};

/* ---- certificates ---- */

static int ssl_error(const char *what, const char *path, struct br_err *err)
{
    char text[160] = "unknown error";
    unsigned long code = ERR_peek_last_error();
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return br_err_set(err, BR_EINVAL, "%s: %s: %s", what, path, text);
}

static int choose_http(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    static const unsigned char http[] = "\x08http/1.1";
    (void)ssl;
    (void)arg;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, http, sizeof http - 1, in, in_len) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_NOACK;
}

static int context_load(SSL_CTX *ssl, const char *cert, const char *key, struct br_err *err)
{
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(ssl, choose_http, NULL);
    if (SSL_CTX_use_certificate_chain_file(ssl, cert) != 1)
        return ssl_error("tls-cert", cert, err);
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        return ssl_error("tls-key", key, err);
    return 0;
}

int br_tls_context_load(const char *cert, const char *key, struct br_tls_context **out, struct br_err *err)
{
    struct br_tls_context *context = br_calloc(1, sizeof *context);
    context->ssl = SSL_CTX_new(TLS_server_method());
    if (!context->ssl || context_load(context->ssl, cert, key, err)) {
        int rc = context->ssl ? err->code : ssl_error("tls", "no context", err);
        br_tls_context_free(context);
        return rc;
    }
    *out = context;
    return 0;
}

void br_tls_context_free(struct br_tls_context *context)
{
    if (context)
        SSL_CTX_free(context->ssl); /* counted by its connections */
    free(context);
}

/* ---- connections ---- */

static void *or_abort(void *made)
{
    if (!made) {
        fprintf(stderr, "out of memory for TLS\n");
        abort();
    }
    return made;
}

struct br_tls *br_tls_accept(struct br_tls_context *context)
{
    struct br_tls *tls = br_calloc(1, sizeof *tls);
    tls->ssl = or_abort(SSL_new(context->ssl));
    tls->in = or_abort(BIO_new(BIO_s_mem()));
    tls->out = or_abort(BIO_new(BIO_s_mem()));
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_accept_state(tls->ssl);
    return tls;
}

void br_tls_free(struct br_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

bool br_tls_ready(const struct br_tls *tls)
{
    return SSL_is_init_finished(tls->ssl);
}

static void drain(struct br_tls *tls, struct br_buf *sealed)
{
    char *data;
    long n = BIO_get_mem_data(tls->out, &data);
    if (n > 0)
        br_buf_add(sealed, data, (size_t)n);
    (void)BIO_reset(tls->out);
}

/* Of a call that did not do all: may it go on later? */
static bool goes_on(struct br_tls *tls, int rc)
{
    int why = SSL_get_error(tls->ssl, rc);
    ERR_clear_error();
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_ZERO_RETURN;
}

int br_tls_receive(struct br_tls *tls, const char *data, size_t len, struct br_buf *plain, struct br_buf *sealed)
{
    char piece[PIECE];
    int n;
    if (BIO_write(tls->in, data, (int)len) != (int)len)
        return -1;
    while ((n = SSL_read(tls->ssl, piece, sizeof piece)) > 0)
        br_buf_add(plain, piece, (size_t)n);
    n = goes_on(tls, n) ? 0 : -1;
    drain(tls, sealed);
    return n;
}

int br_tls_send(struct br_tls *tls, struct br_buf *plain, struct br_buf *sealed)
{
    int rc = 0;
    size_t done = 0;
    if (!br_tls_ready(tls) || tls->finished)
        return 0;
    while (rc == 0 && done < plain->len) {
        size_t piece = plain->len - done < PIECE ? plain->len - done : PIECE;
        int n = SSL_write(tls->ssl, plain->data + done, (int)piece);
        if (n > 0)
            done += (size_t)n;
        else
            rc = -1; /* memory takes everything: nothing is waited for */
        drain(tls, sealed);
    }
    ERR_clear_error();
    br_buf_consume(plain, done);
    return rc;
}

void br_tls_finish(struct br_tls *tls, struct br_buf *sealed)
{
    if (tls->finished || !br_tls_ready(tls))
        return;
    tls->finished = true;
    SSL_shutdown(tls->ssl);
    ERR_clear_error();
    drain(tls, sealed);
}
