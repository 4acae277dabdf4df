/* A sequence as every part of the system sees it: what was asked for (spec), a token that came out, how it ended. The
 * same bytes (protobuf messages of worker.proto) travel on the link and lie in Redis. */
#ifndef BRIAREUS_PROTO_SEQ_H
#define BRIAREUS_PROTO_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    BR_MAX_TOP_LOGPROBS = 20,
    BR_MAX_STOP_STRINGS = 16,
    BR_MAX_STOP_STRING_BYTES = 256,
    BR_MAX_STOP_IDS = 64,
    BR_MAX_LOGIT_BIAS = 1024,
    BR_MAX_PROMPT_TOKENS = 1 << 20,
    BR_MAX_MODEL_NAME = 128,
    BR_MAX_REQUEST_ID = 64,
    BR_MAX_TRACEPARENT = 56, /* 00-32-16-2 hexadecimal digits, NUL */
};

/* Why a sequence is over. Every accepted one ends in exactly one of them. */
enum br_end {
    BR_END_NONE = 0,
    BR_END_STOP = 1,      /* eos or a stop id */
    BR_END_STOP_TEXT = 2, /* a stop string */
    BR_END_LENGTH = 3,    /* max_tokens or the context is full */
    BR_END_CANCELLED = 4,
    BR_END_FAILED = 5,
};

struct br_sampling {
    float temperature;                         /* 0: greedy */
    float top_p;                               /* 1: off */
    float min_p;                               /* 0: off */
    int32_t top_k;                             /* 0: off */
    float repetition_penalty;                  /* 1: off; over prompt and output */
    float frequency_penalty, presence_penalty; /* 0: off; over output */
    uint64_t seed;                             /* always set: drawn at acceptance when the client gave none */
    int32_t logprobs;                          /* -1: none; n: of the token and of the n most likely */
};

struct br_seq_spec {
    uint64_t id;                        /* unique; never 0 */
    char request_id[BR_MAX_REQUEST_ID]; /* of the client's request */
    uint32_t choice;                    /* index of this completion in the request (and key of its random numbers) */
    char model[BR_MAX_MODEL_NAME];
    struct br_sampling sampling;
    uint32_t max_tokens, min_tokens;
    bool ignore_eos;
    int32_t *stop_ids; /* owned */
    uint32_t n_stop_ids;
    int32_t *bias_ids; /* owned: [n_bias] ids, no id twice, and what is added to the logit of each */
    float *bias;
    uint32_t n_bias;
    char **stop; /* owned, each owned */
    uint32_t n_stop;
    bool include_stop;
    bool continues_text; /* a completion: goes on in the prompt's text, so a first space counts */
    bool show_special;   /* special tokens are part of the text */
    int32_t *prompt;     /* owned: [n_prompt] */
    uint32_t n_prompt;
    double ttft_s, tbt_s; /* SLO */
    double weight;        /* its urgency beside others'; above 0, 1 is usual */
    double deadline_s;    /* after arrival: not finished by then, it fails; 0: none */
    int64_t arrival_us;   /* Redis TIME at acceptance */
    uint64_t salt;        /* only sequences of one salt may share cached KV; 0: of nobody in particular */
    char traceparent[BR_MAX_TRACEPARENT]; /* W3C trace context of its request; "": nobody traces it */
};

struct br_token {
    int32_t id;
    float logprob;
    uint32_t n_top;
    int32_t top_id[BR_MAX_TOP_LOGPROBS];
    float top_logprob[BR_MAX_TOP_LOGPROBS];
};

void br_seq_spec_init(struct br_seq_spec *spec); /* defaults: temperature 1, top_p 1, no limits; owns nothing */
void br_seq_spec_free(struct br_seq_spec *spec); /* what it owns, not spec itself */
int br_seq_spec_copy(struct br_seq_spec *out, const struct br_seq_spec *spec);
/* Serialised protobuf SeqSpec, appended to out. */
void br_seq_spec_pack(const struct br_seq_spec *spec, struct br_buf *out);
/* Checks every limit above; out is untouched on error. */
int br_seq_spec_unpack(const void *data, size_t len, struct br_seq_spec *out, struct br_err *err);

/* Serialised TokenRun: n tokens from index `first` on. */
void br_tokens_pack(uint32_t first, const struct br_token *tokens, uint32_t n, struct br_buf *out);
/* *tokens is malloc'ed (caller frees). */
int br_tokens_unpack(const void *data, size_t len, uint32_t *first, struct br_token **tokens, uint32_t *n,
                     struct br_err *err);

const char *br_end_name(enum br_end end); /* "none", "stop", "stop_text", "length", "cancelled", "failed" */

#endif
