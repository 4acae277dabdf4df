#include "scheduler/gateway/otlp.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "scheduler/gateway/error.h"

enum { FLUSH_MS = 1000 };

static const char g_head[] = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"
                             "\"stringValue\":\"briareus\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"briareus\"},"
                             "\"spans\":[";
static const char g_tail[] = "]}]}]}";

struct br_otlp {
    uv_loop_t *loop;
    uv_timer_t timer;
    char host[256], port[8], path[512]; /* path: of the file when there is no host */
    int fd;                             /* -1: to a collector */
    struct br_buf waiting, flying;      /* spans with commas; a whole batch */
    uint64_t n_waiting, n_flying;
    struct br_otlp_counts counts;
    uv_fs_t write;
    struct br_otlp_post *post;
    bool busy, closed, failing, stopping; /* closed: the timer; failing: the last batch did not arrive */
};

/* ---- JSON ---- */

static void put_id(struct br_buf *out, const char *key, const uint8_t *id, int n)
{
    br_buf_printf(out, "\"%s\":\"", key);
    for (int i = 0; i < n; i++)
        br_buf_printf(out, "%02x", id[i]);
    br_buf_puts(out, "\",");
}

static void put_attr(struct br_buf *out, const struct br_span_attr *attr)
{
    br_buf_printf(out, "{\"key\":\"%s\",\"value\":{", attr->key);
    if (attr->text) {
        br_buf_puts(out, "\"stringValue\":");
        br_json_put(out, attr->text, strlen(attr->text));
    } else if (attr->number == floor(attr->number) && fabs(attr->number) < 0x1p53) {
        br_buf_printf(out, "\"intValue\":\"%.0f\"", attr->number); /* 64-bit integers are strings in JSON */
    } else {
        br_buf_printf(out, "\"doubleValue\":%.9g", isfinite(attr->number) ? attr->number : 0);
    }
    br_buf_puts(out, "}}");
}

static void put_span(struct br_buf *out, const struct br_span *span)
{
    br_buf_puts(out, "{");
    put_id(out, "traceId", span->trace, 16);
    put_id(out, "spanId", span->id, 8);
    if (span->parent)
        put_id(out, "parentSpanId", span->parent, 8);
    if (span->state && *span->state) {
        br_buf_puts(out, "\"traceState\":");
        br_json_put(out, span->state, strlen(span->state));
        br_buf_puts(out, ",");
    }
    br_buf_puts(out, "\"name\":");
    br_json_put(out, span->name, strlen(span->name));
    br_buf_printf(out, ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64 "\"",
                  (int)span->kind, span->start_ns, span->end_ns > span->start_ns ? span->end_ns : span->start_ns);
    br_buf_puts(out, ",\"attributes\":[");
    for (uint32_t i = 0; i < span->n_attrs; i++) {
        br_buf_puts(out, i ? "," : "");
        put_attr(out, &span->attrs[i]);
    }
    br_buf_puts(out, "],\"status\":{");
    if (span->error) {
        br_buf_puts(out, "\"code\":2,\"message\":");
        br_json_put(out, span->error, strlen(span->error));
    }
    br_buf_puts(out, "}}");
}

/* ---- batches ---- */

static void otlp_free_if_done(struct br_otlp *otlp)
{
    if (!otlp->stopping || !otlp->closed || otlp->busy)
        return;
    if (otlp->fd >= 0)
        close(otlp->fd);
    br_buf_free(&otlp->waiting);
    br_buf_free(&otlp->flying);
    free(otlp);
}

/* Told when it begins to fail and when it works again, not for every batch. */
static void batch_done(struct br_otlp *otlp, const char *why)
{
    otlp->busy = false;
    if (why)
        otlp->counts.dropped += otlp->n_flying;
    else
        otlp->counts.exported += otlp->n_flying;
    if (why && !otlp->failing && !otlp->stopping)
        br_log(BR_WARN, "traces_lost", "to=%s spans=%" PRIu64 " why=%s", BR_Q(otlp->fd < 0 ? otlp->host : otlp->path),
               otlp->n_flying, BR_Q(why));
    else if (!why && otlp->failing)
        br_log(BR_INFO, "traces_again", "to=%s", BR_Q(otlp->fd < 0 ? otlp->host : otlp->path));
    otlp->failing = why != NULL;
    br_buf_clear(&otlp->flying);
    otlp_free_if_done(otlp);
}

static void on_posted(void *ctx, int rc)
{
    struct br_otlp *otlp = ctx;
    char status[32];
    otlp->post = NULL;
    snprintf(status, sizeof status, "HTTP status %d", rc);
    batch_done(otlp, rc == 0 ? NULL : rc > 0 ? status : uv_strerror(rc));
}

static void on_file_written(uv_fs_t *req)
{
    struct br_otlp *otlp = req->data;
    ssize_t n = req->result;
    uv_fs_req_cleanup(req);
    batch_done(otlp, n < 0 ? uv_strerror((int)n) : (size_t)n < otlp->flying.len ? "no room" : NULL);
}

static void batch_make(struct br_otlp *otlp)
{
    br_buf_puts(&otlp->flying, g_head);
    br_buf_add(&otlp->flying, otlp->waiting.data, otlp->waiting.len);
    br_buf_puts(&otlp->flying, otlp->fd >= 0 ? "]}]}]}\n" : g_tail);
    otlp->n_flying = otlp->n_waiting;
    otlp->n_waiting = 0;
    br_buf_clear(&otlp->waiting);
    otlp->busy = true;
}

static void batch_send(struct br_otlp *otlp)
{
    uv_buf_t buf;
    int rc;
    if (otlp->busy || otlp->n_waiting == 0 || otlp->stopping)
        return;
    batch_make(otlp);
    if (otlp->fd < 0) {
        br_otlp_post(otlp->loop, otlp->host, otlp->port, otlp->path, &otlp->flying, on_posted, otlp, &otlp->post);
        return;
    }
    buf = uv_buf_init(otlp->flying.data, (unsigned)otlp->flying.len);
    otlp->write.data = otlp;
    rc = uv_fs_write(otlp->loop, &otlp->write, otlp->fd, &buf, 1, -1, on_file_written);
    if (rc < 0)
        batch_done(otlp, uv_strerror(rc));
}

static void on_timer(uv_timer_t *timer)
{
    batch_send(timer->data);
}

void br_otlp_span(struct br_otlp *otlp, const struct br_span *span)
{
    if (otlp->waiting.len > BR_OTLP_QUEUE_BYTES) {
        otlp->counts.dropped++;
        return;
    }
    br_buf_puts(&otlp->waiting, otlp->waiting.len ? "," : "");
    put_span(&otlp->waiting, span);
    otlp->n_waiting++;
    if (otlp->waiting.len >= BR_OTLP_BATCH_BYTES)
        batch_send(otlp);
}

struct br_otlp_counts br_otlp_counts(const struct br_otlp *otlp)
{
    return otlp->counts;
}

void br_otlp_metrics(const struct br_otlp *otlp, struct br_buf *out)
{
    br_metric_family(out, "briareus_spans_exported_total", "counter", "Spans that the collector or the file has.");
    br_metric_put(out, "briareus_spans_exported_total", NULL, (double)otlp->counts.exported);
    br_metric_family(out, "briareus_spans_dropped_total", "counter", "Spans that found no room, or no collector.");
    br_metric_put(out, "briareus_spans_dropped_total", NULL, (double)otlp->counts.dropped);
}

/* ---- start and stop ---- */

static int endpoint_bad(const char *endpoint, struct br_err *err)
{
    return br_err_set(err, BR_EINVAL,
                      "otlp-traces-endpoint: '%.200s' is neither http://host:port/v1/traces nor file:PATH", endpoint);
}

static int url_parse(struct br_otlp *otlp, const char *endpoint, struct br_err *err)
{
    const char *at = endpoint + strlen("http://"), *end = at + strcspn(at, "/");
    const char *host_end = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : memchr(at, ':', (size_t)(end - at));
    const char *port = *at == '[' ? (host_end ? host_end + 1 : NULL) : host_end;
    if (*at == '[' && !host_end)
        return endpoint_bad(endpoint, err);
    host_end = host_end ? host_end : end;
    at += *at == '[';
    if (host_end == at || (size_t)(host_end - at) >= sizeof otlp->host || strlen(end) >= sizeof otlp->path ||
        strpbrk(endpoint, " \r\n\t"))
        return endpoint_bad(endpoint, err);
    snprintf(otlp->host, sizeof otlp->host, "%.*s", (int)(host_end - at), at);
    snprintf(otlp->path, sizeof otlp->path, "%s", *end ? end : "/v1/traces");
    strcpy(otlp->port, "4318");
    if (!port || port == end)
        return 0;
    if (*port != ':' || end - port < 2 || end - port > 6 || strspn(port + 1, "0123456789") < (size_t)(end - port - 1))
        return endpoint_bad(endpoint, err);
    snprintf(otlp->port, sizeof otlp->port, "%.*s", (int)(end - port - 1), port + 1);
    return 0;
}

static int target_open(struct br_otlp *otlp, const char *endpoint, struct br_err *err)
{
    otlp->fd = -1;
    if (strncmp(endpoint, "http://", 7) == 0)
        return url_parse(otlp, endpoint, err);
    if (strncmp(endpoint, "file:", 5) != 0 || !endpoint[5] || strlen(endpoint + 5) >= sizeof otlp->path)
        return endpoint_bad(endpoint, err);
    snprintf(otlp->path, sizeof otlp->path, "%s", endpoint + 5);
    otlp->fd = open(otlp->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return otlp->fd < 0 ? br_err_errno(err, BR_EIO, "otlp-traces-endpoint: cannot write %s", otlp->path) : 0;
}

int br_otlp_start(uv_loop_t *loop, const char *endpoint, struct br_otlp **out, struct br_err *err)
{
    struct br_otlp *otlp = br_calloc(1, sizeof *otlp);
    if (target_open(otlp, endpoint, err)) {
        free(otlp);
        return err->code;
    }
    otlp->loop = loop;
    uv_timer_init(loop, &otlp->timer);
    otlp->timer.data = otlp;
    uv_timer_start(&otlp->timer, on_timer, FLUSH_MS, FLUSH_MS);
    uv_unref((uv_handle_t *)&otlp->timer);
    *out = otlp;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct br_otlp *otlp = handle->data;
    otlp->closed = true;
    otlp_free_if_done(otlp);
}

/* The last batch of a file is written at once; a write under way is before it in the file or behind it, whole. */
static void file_finish(struct br_otlp *otlp)
{
    struct br_buf last = {0};
    br_buf_puts(&last, g_head);
    br_buf_add(&last, otlp->waiting.data, otlp->waiting.len);
    br_buf_puts(&last, "]}]}]}\n");
    if (write(otlp->fd, last.data, last.len) == (ssize_t)last.len)
        otlp->counts.exported += otlp->n_waiting;
    br_buf_free(&last);
}

void br_otlp_stop(struct br_otlp *otlp)
{
    if (!otlp)
        return;
    otlp->stopping = true;
    if (otlp->fd >= 0 && otlp->n_waiting)
        file_finish(otlp);
    if (otlp->post)
        br_otlp_post_cancel(otlp->post);
    uv_close((uv_handle_t *)&otlp->timer, on_timer_closed);
}
