/* TLS 1.2 and 1.3 on a connection, as bytes in and bytes out: no sockets (OpenSSL on memory). */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_TLS_H
#define BRIAREUS_SCHEDULER_GATEWAY_TLS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct br_tls_context; /* certificate and key of a server */
struct br_tls;         /* one connection */

/* PEM files; cert: the server's and those between it and the root, in this order. Errors (BR_EINVAL) name the file. */
int br_tls_context_load(const char *cert, const char *key, struct br_tls_context **out, struct br_err *err);
/* Connections under way keep what they need. NULL: nothing. */
void br_tls_context_free(struct br_tls_context *context);

struct br_tls *br_tls_accept(struct br_tls_context *context);
void br_tls_free(struct br_tls *tls); /* NULL: nothing */

/* The handshake is over. */
bool br_tls_ready(const struct br_tls *tls);
/* Takes what came from the peer, appends what it said to plain and what is to be sent back to sealed. -1: broken; an
 * alert may be in sealed. */
int br_tls_receive(struct br_tls *tls, const char *data, size_t len, struct br_buf *plain, struct br_buf *sealed);
/* Moves plain, once the handshake is over, to sealed. -1: broken. */
int br_tls_send(struct br_tls *tls, struct br_buf *plain, struct br_buf *sealed);
/* The last word (close_notify), once. */
void br_tls_finish(struct br_tls *tls, struct br_buf *sealed);

#endif
