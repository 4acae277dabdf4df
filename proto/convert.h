/* Between the structs of seq.h and the messages of worker.proto, for whoever puts a spec or tokens into a larger
 * message (Assign, Tokens) and must not serialise them twice. */
#ifndef BRIAREUS_PROTO_CONVERT_H
#define BRIAREUS_PROTO_CONVERT_H

#include "proto/seq.h"
#include "proto/worker.pb-c.h"

/* A SeqSpec message with room for its parts; msg points into this struct, so it must not be moved. */
struct br_seq_spec_pb {
    Briareus__SeqSpec msg;
    Briareus__Sampling sampling;
    ProtobufCBinaryData stop[BR_MAX_STOP_STRINGS];
};

/* Fills pb; it borrows spec's strings and arrays: nothing to free, valid as long as spec is unchanged. */
void br_seq_spec_to_pb(const struct br_seq_spec *spec, struct br_seq_spec_pb *pb);
/* Checks and copies, as br_seq_spec_unpack does; out is untouched on error and owns its parts otherwise. BR_EINVAL. */
int br_seq_spec_from_pb(const Briareus__SeqSpec *msg, struct br_seq_spec *out, struct br_err *err);

/* A TokenRun in one block, to be freed with free(); its top lists are borrowed from tokens. */
Briareus__TokenRun *br_tokens_to_pb(uint32_t first, const struct br_token *tokens, uint32_t n);
/* Checks and copies, as br_tokens_unpack does; *tokens is malloc'ed (caller frees), NULL when *n is 0. msg may be NULL:
 * no tokens from index 0 on. Outputs are untouched on error. BR_EINVAL. */
int br_tokens_from_pb(const Briareus__TokenRun *msg, uint32_t *first, struct br_token **tokens, uint32_t *n,
                      struct br_err *err);

#endif
