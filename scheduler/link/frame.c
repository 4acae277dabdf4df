#include "scheduler/link/frame.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_KEEP_BYTES = 1 << 20 }; /* a buffer that one huge frame has blown up is given back */

void br_frame_reader_init(struct br_frame_reader *reader, uint32_t max_frame)
{
    *reader = (struct br_frame_reader){.max_frame = max_frame};
}

void br_frame_reader_free(struct br_frame_reader *reader)
{
    br_buf_free(&reader->in);
    reader->at = 0;
}

static void reader_compact(struct br_frame_reader *reader)
{
    if (reader->at == reader->in.len && reader->in.cap > FRAME_KEEP_BYTES)
        br_buf_free(&reader->in);
    else if (reader->at)
        br_buf_consume(&reader->in, reader->at);
    reader->at = 0;
}

void br_frame_feed(struct br_frame_reader *reader, const void *data, size_t len)
{
    reader_compact(reader);
    br_buf_add(&reader->in, data, len);
}

/* protobuf-c asks for memory in proportion to counts in the message: a budget bounds what a stranger can make us take.
 */
static void *budget_alloc(void *data, size_t size)
{
    size_t *left = data;
    if (size > *left)
        return NULL;
    *left -= size;
    return br_malloc(size ? size : 1);
}

static void budget_free(void *data, void *p)
{
    (void)data;
    free(p);
}

static Briareus__Frame *body_unpack(const uint8_t *body, uint32_t len)
{
    size_t left = (size_t)len * BR_FRAME_MAX_BLOWUP + BR_FRAME_SMALL_BYTES;
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &left};
    return briareus__frame__unpack(&allocator, len, body);
}

static int frame_pull_any(struct br_frame_reader *reader, Briareus__Frame **out, struct br_err *err)
{
    const uint8_t *head = (const uint8_t *)reader->in.data + reader->at;
    size_t have = reader->in.len - reader->at;
    uint32_t len;
    if (have < BR_FRAME_HEADER)
        return 0;
    len = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    if (len == 0 || len > reader->max_frame)
        return br_err_set(err, BR_EINVAL, "frame length %u, must be 1 to %u", len, reader->max_frame);
    if (have - BR_FRAME_HEADER < len)
        return 0;
    *out = body_unpack(head + BR_FRAME_HEADER, len);
    if (!*out)
        return br_err_set(err, BR_EINVAL, "%u bytes that are no Frame message", len);
    reader->at += BR_FRAME_HEADER + len;
    return 1;
}

int br_frame_pull(struct br_frame_reader *reader, Briareus__Frame **out, struct br_err *err)
{
    int rc;
    while ((rc = frame_pull_any(reader, out, err)) == 1) {
        if ((*out)->body_case != BRIAREUS__FRAME__BODY__NOT_SET)
            return 1;
        briareus__frame__free_unpacked(*out, NULL);
    }
    return rc;
}

int br_frame_encode(const Briareus__Frame *frame, uint32_t max_frame, struct br_buf *out)
{
    size_t len = briareus__frame__get_packed_size(frame);
    uint8_t *at;
    if (len == 0 || len > max_frame)
        return BR_EINVAL;
    br_buf_reserve(out, BR_FRAME_HEADER + len);
    at = (uint8_t *)out->data + out->len;
    for (int i = 0; i < BR_FRAME_HEADER; i++)
        at[i] = (uint8_t)(len >> (8 * i));
    briareus__frame__pack(frame, at + BR_FRAME_HEADER);
    out->len += BR_FRAME_HEADER + len;
    out->data[out->len] = 0;
    return 0;
}
