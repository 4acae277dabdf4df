/* A request body: JSON in, sequences out. Two steps, both free of shared state, so that long ones run on a thread:
 * parse (what the client wrote; no model needed), then bind (to a model: prompts become token ids, lengths are
 * checked). */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_REQUEST_H
#define BRIAREUS_SCHEDULER_GATEWAY_REQUEST_H

#include <jansson.h>

#include "scheduler/gateway/error.h"
#include "scheduler/gateway/gateway.h"

enum { BR_REQUEST_INLINE_BYTES = 16 << 10 }; /* shorter bodies are parsed and tokenised on the loop's thread */

enum br_request_kind {
    BR_REQUEST_CHAT,
    BR_REQUEST_COMPLETION,
    BR_REQUEST_MESSAGES,   /* Anthropic's */
    BR_REQUEST_COUNT,      /* the same, to be counted only */
    BR_REQUEST_TOKENIZE,   /* of a prompt or of messages */
    BR_REQUEST_DETOKENIZE, /* ids in prompts[0] */
};

enum { BR_REQUEST_UNKNOWN = 4, BR_REQUEST_FIELD = 40 };

struct br_request_prompt {
    const char *text; /* borrowed from root; NULL: ids were given */
    size_t len;
    struct br_ids ids;
    char *echo; /* owned; what `echo` puts in front of the answer */
};

struct br_request {
    enum br_request_kind kind;
    char model[BR_MAX_MODEL_NAME];
    char id[BR_MAX_REQUEST_ID]; /* chatcmpl-..., cmpl-... or msg_... */
    struct br_seq_spec base;    /* everything but id, choice and prompt */
    bool has_max_tokens;
    unsigned given; /* br_default: what the client has set itself */
    bool stream, include_usage, running_usage, echo, generation_prompt, no_thinking;
    bool keeps_alive, token_strings, no_special; /* no_special: tokenize without BOS and the like */
    double keep_alive_s;
    char unknown[BR_REQUEST_UNKNOWN][BR_REQUEST_FIELD]; /* names of fields that nothing is known of, cut */
    uint32_t n_unknown;
    uint32_t n; /* choices for each prompt */
    struct br_request_prompt *prompts;
    uint32_t n_prompts; /* all but completions: 1 */

    /* What bind needs and then gives back. */
    json_t *root;
    struct br_chat_message *messages;
    uint32_t n_messages, n_system; /* of these, in front: what stood apart from the messages */
    char **joined;                 /* owned: contents that came in parts */
    uint32_t n_joined;
    struct br_chat_tool_call *calls;
    uint32_t n_calls;
};

/* 0, or -1 and *problem (nothing to free then). max_choices: bound of n x prompts. */
int br_request_parse(struct br_request *request, enum br_request_kind kind, const char *body, size_t len,
                     uint32_t max_choices, struct br_problem *problem);
/* Renders, tokenises, checks ids and lengths, sets max_tokens and the model's SLO (where base has none); the weight is
 * the request's times the model's. */
int br_request_bind(struct br_request *request, const struct br_gateway_model *model, struct br_problem *problem);
/* Whether it is answered from the tokenizer alone. */
bool br_request_is_local(const struct br_request *request);
/* The text of a detokenize request's ids, or the JSON answer of the other local ones. */
void br_request_answer_local(const struct br_request *request, const struct br_gateway_model *model,
                             struct br_buf *out);

/* n x prompts specs with new ids. They borrow what the request owns: free the array only. */
struct br_seq_spec *br_request_specs(const struct br_request *request, uint32_t *n);
void br_request_free(struct br_request *request);

/* An SLO header's value in milliseconds, to seconds; "" leaves *out alone. */
int br_request_slo(const char *header, const char *value, double *out_s, struct br_problem *problem);

/* ---- between request*.c ---- */

/* Typed members of a JSON object. A missing member or null leaves *out alone (and *given, which may be NULL, false). */
int br_field_number(json_t *obj, const char *name, double min, double max, double *out, struct br_problem *problem);
int br_field_int(json_t *obj, const char *name, int64_t min, int64_t max, int64_t *out, bool *given,
                 struct br_problem *problem);
int br_field_bool(json_t *obj, const char *name, bool *out, struct br_problem *problem);
int br_field_type(const char *name, const char *expected, const json_t *value, struct br_problem *problem);
bool br_field_present(json_t *obj, const char *name); /* there and not null */

/* request_bias.c, request_urgency.c, request_unknown.c: parts of br_request_sampling */
int br_request_bias(struct br_request *request, struct br_problem *problem);
int br_request_urgency(struct br_request *request, struct br_problem *problem);
void br_request_unknown(struct br_request *request);

/* messages or prompt; checks n x prompts */
int br_request_input(struct br_request *request, uint32_t max_choices, struct br_problem *problem);
int br_request_ids(const json_t *list, const char *param, struct br_ids *ids, struct br_problem *problem);
int br_request_sampling(struct br_request *request, struct br_problem *problem); /* all but those; goes first */
void br_request_drop_json(struct br_request *request);

#endif
