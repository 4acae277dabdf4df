/* Frames as bytes: a 4-byte little-endian length, then one protobuf Frame. Knows no socket: bytes are fed, frames
 * pulled.
 */
#ifndef BRIAREUS_SCHEDULER_LINK_FRAME_H
#define BRIAREUS_SCHEDULER_LINK_FRAME_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/worker.pb-c.h"

enum {
    BR_FRAME_HEADER = 4,
    /* A message may take this many times its bytes once unpacked. The densest real one is a run of tokens without log
     * probabilities: from two bytes each on the wire (an id of 0) to six; 72 in memory, and up to 64 more while
     * protobuf-c scans them, since its slabs double and what is freed is not counted back. */
    BR_FRAME_MAX_BLOWUP = 72,
    BR_FRAME_SMALL_BYTES = 64 << 10, /* and this much more, for what does not grow with the message */
};

struct br_frame_reader {
    struct br_buf in;
    size_t at;          /* bytes of in that were pulled already */
    uint32_t max_frame; /* longest body allowed; may be changed at any time */
};

void br_frame_reader_init(struct br_frame_reader *reader, uint32_t max_frame);
void br_frame_reader_free(struct br_frame_reader *reader);
/* Copies the bytes. Pull until 0 after each feed: what is kept then is at most one frame that is not complete. */
void br_frame_feed(struct br_frame_reader *reader, const void *data, size_t len);
/* 1: *out is a frame (briareus__frame__free_unpacked(*out, NULL)); 0: more bytes are needed; BR_EINVAL: a length of 0
 * or above max_frame, or a body that is no Frame: nothing behind it can be trusted. Frames of a kind that this version
 * does not know are passed over. */
int br_frame_pull(struct br_frame_reader *reader, Briareus__Frame **out, struct br_err *err);

/* Appends the frame with its header; BR_EINVAL and out unchanged if its body is longer than max_frame. */
int br_frame_encode(const Briareus__Frame *frame, uint32_t max_frame, struct br_buf *out);

#endif
