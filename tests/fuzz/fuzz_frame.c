/* Bytes off the link: the frame decoder with arbitrary cuts, then what users of the link do with a frame; and the same
 * bytes as a stored spec and token run. */
#include <stdint.h>
#include <stdlib.h>

#include "proto/convert.h"
#include "scheduler/link/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void spec_round_trip(const struct br_seq_spec *spec)
{
    struct br_seq_spec again;
    struct br_buf buf = {0};
    struct br_err err;
    br_seq_spec_pack(spec, &buf);
    if (br_seq_spec_unpack(buf.data, buf.len, &again, &err))
        abort(); /* what was taken once must be taken again */
    br_seq_spec_free(&again);
    br_buf_free(&buf);
}

static void try_spec(const Briareus__SeqSpec *msg)
{
    struct br_seq_spec spec;
    struct br_err err;
    if (br_seq_spec_from_pb(msg, &spec, &err))
        return;
    spec_round_trip(&spec);
    br_seq_spec_free(&spec);
}

static void try_tokens(const Briareus__TokenRun *msg)
{
    struct br_token *tokens;
    uint32_t first, n;
    struct br_err err;
    struct br_buf buf = {0};
    if (br_tokens_from_pb(msg, &first, &tokens, &n, &err))
        return;
    br_tokens_pack(first, tokens, n, &buf);
    free(tokens);
    if (br_tokens_unpack(buf.data, buf.len, &first, &tokens, &n, &err))
        abort();
    free(tokens);
    br_buf_free(&buf);
}

static void try_frame(const Briareus__Frame *frame)
{
    struct br_buf buf = {0};
    br_frame_encode(frame, 1 << 20, &buf);
    br_buf_free(&buf);
    if (frame->body_case == BRIAREUS__FRAME__BODY_ASSIGN) {
        try_spec(frame->assign->spec);
        try_tokens(frame->assign->tokens);
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_TOKENS) {
        try_tokens(frame->tokens->run);
    }
}

/* The first byte says how long the pieces are that the bytes come in. */
static void try_stream(const uint8_t *data, size_t size)
{
    struct br_frame_reader reader;
    Briareus__Frame *frame;
    struct br_err err;
    size_t piece = data[0] ? data[0] : size;
    int rc = 0;
    br_frame_reader_init(&reader, 1 << 20);
    for (size_t at = 1; at < size && rc >= 0; at += piece) {
        br_frame_feed(&reader, data + at, size - at < piece ? size - at : piece);
        while ((rc = br_frame_pull(&reader, &frame, &err)) == 1) {
            try_frame(frame);
            briareus__frame__free_unpacked(frame, NULL);
        }
    }
    br_frame_reader_free(&reader);
}

static void try_stored(const uint8_t *data, size_t size)
{
    struct br_seq_spec spec;
    struct br_token *tokens;
    uint32_t first, n;
    struct br_err err;
    if (br_seq_spec_unpack(data, size, &spec, &err) == 0) {
        spec_round_trip(&spec);
        br_seq_spec_free(&spec);
    }
    if (br_tokens_unpack(data, size, &first, &tokens, &n, &err) == 0)
        free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    try_stream(data, size);
    try_stored(data + 1, size - 1);
    return 0;
}
