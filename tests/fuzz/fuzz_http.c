/* Bytes from the network through the HTTP connection: first byte says how they are cut and how answers come. Checks
 * what must always hold: bounded buffers, an answer a request, agreement of whole and piecewise input. */
#include <stdint.h>
#include <stdlib.h>

#include "scheduler/gateway/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct br_http_limits limits = {.max_header_bytes = 512, .max_body_bytes = 1024};
static bool later, stream;
static uint64_t answers;

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void answer(struct br_http *http)
{
    answers++;
    check(http->target.len <= limits.max_header_bytes && http->body.len <= limits.max_body_bytes);
    if (stream) {
        br_http_stream_begin(http, "text/event-stream", "");
        br_http_stream_write(http, http->body.data, http->body.len);
        br_http_stream_end(http);
    } else {
        br_http_answer(http, 200, "text/plain", "", http->target.data, http->target.len);
    }
}

static void on_request(struct br_http *http)
{
    if (!later)
        answer(http);
}

static void on_wake(struct br_http *http)
{
    check(http->state != BR_HTTP_ANSWER);
}

static const struct br_http_events events = {.request = on_request, .wake = on_wake};

static void catch_up(struct br_http *http)
{
    do {
        if (br_http_owes(http))
            answer(http);
        br_buf_clear(&http->out);
        br_http_pump(http);
    } while (br_http_owes(http) || (http->state <= BR_HTTP_BODY && http->pending.len > 0));
}

static uint64_t run(const char *data, size_t size, size_t piece)
{
    struct br_http http;
    uint64_t served;
    answers = 0;
    br_http_init(&http, &limits, &events, NULL);
    for (size_t at = 0; at < size; at += piece) {
        br_http_feed(&http, data + at, size - at < piece ? size - at : piece);
        check(http.pending.len <= size && http.head_bytes <= limits.max_header_bytes);
        if (later)
            catch_up(&http);
    }
    catch_up(&http);
    served = answers;
    br_http_free(&http);
    return served;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole;
    size_t piece;
    if (size < 2 || size > 1 << 16)
        return 0;
    later = data[0] & 1;
    stream = data[0] & 2;
    piece = (size_t)(data[0] >> 2) + 1;
    whole = run((const char *)data + 1, size - 1, size);
    check(run((const char *)data + 1, size - 1, piece) <= whole); /* blanks count only where a head is cut */
    return 0;
}
