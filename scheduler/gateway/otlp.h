/* Spans to an OpenTelemetry collector as OTLP/JSON (opentelemetry-proto, trace/v1), or to a file, a batch a line (as
 * the collector's file exporter writes and reads). Never in the way of serving: the queue is bounded, what finds no
 * room or no listener is counted and gone, files are written on libuv's threads. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_OTLP_H
#define BRIAREUS_SCHEDULER_GATEWAY_OTLP_H

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    BR_OTLP_BATCH_BYTES = 256 << 10, /* from this on a batch leaves at once, else once a second */
    BR_OTLP_QUEUE_BYTES = 4 << 20,   /* waiting at most; more is dropped */
    BR_OTLP_TIMEOUT_MS = 10000,      /* of one batch */
    BR_OTLP_MAX_ATTRS = 12,
};

enum br_span_kind { BR_SPAN_INTERNAL = 1, BR_SPAN_SERVER = 2 }; /* as the protocol numbers them */

struct br_span_attr {
    const char *key;
    const char *text; /* NULL: number */
    double number;    /* written as an integer when it is whole */
};

struct br_span {
    const uint8_t *trace, *id; /* 16 and 8 bytes */
    const uint8_t *parent;     /* 8 bytes; NULL: a root */
    const char *name, *state;  /* state: tracestate; may be NULL */
    enum br_span_kind kind;
    int64_t start_ns, end_ns; /* since 1970 */
    const char *error;        /* NULL: it went well */
    struct br_span_attr attrs[BR_OTLP_MAX_ATTRS];
    uint32_t n_attrs;
};

struct br_otlp;

struct br_otlp_counts {
    uint64_t exported, dropped; /* spans */
};

/* endpoint: http://host[:port][/path] (4318, /v1/traces) or file:PATH (appended to). Errors: BR_EINVAL, BR_EIO. */
int br_otlp_start(uv_loop_t *loop, const char *endpoint, struct br_otlp **out, struct br_err *err);
void br_otlp_span(struct br_otlp *otlp, const struct br_span *span);
struct br_otlp_counts br_otlp_counts(const struct br_otlp *otlp);
void br_otlp_metrics(const struct br_otlp *otlp, struct br_buf *out);
/* Writes what waits when it goes to a file; what an open collector has not got is dropped. Frees once the loop has
 * closed its handles. NULL: nothing. */
void br_otlp_stop(struct br_otlp *otlp);

/* ---- between otlp*.c ---- */

struct br_otlp_post;

/* POSTs body (taken: empty afterwards) and calls done with 0 (2xx), an HTTP status, or a negative uv error, from the
 * loop; then all its handles are closed. One at a time per target. */
void br_otlp_post(uv_loop_t *loop, const char *host, const char *port, const char *path, struct br_buf *body,
                  void (*done)(void *ctx, int rc), void *ctx, struct br_otlp_post **out);
void br_otlp_post_cancel(struct br_otlp_post *post); /* done comes with UV_ECANCELED */

#endif
