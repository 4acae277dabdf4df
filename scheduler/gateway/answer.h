/* The JSON of answers: whole bodies and the chunks of a stream, of chats and of completions. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_ANSWER_H
#define BRIAREUS_SCHEDULER_GATEWAY_ANSWER_H

#include "scheduler/gateway/request.h"

/* Log probabilities of a choice's tokens, as JSON list items that gather until they are sent. */
struct br_answer_logprobs {
    struct br_buf tokens, values, tops, offsets; /* chat: tokens alone */
    uint64_t offset;                             /* characters of all tokens so far */
};

/* What is said of one choice: in a whole answer, or in a chunk. */
struct br_answer_choice {
    uint32_t index;
    const char *text;
    size_t len;
    struct br_answer_logprobs *logprobs; /* NULL: none asked for */
    const char *finish;                  /* NULL: not yet */
    bool first;                          /* chunk: opens the choice (chat: carries the role) */
};

/* What all answers and chunks of a request begin with: from { to the bracket of choices. */
void br_answer_head(const struct br_request *request, bool chunk, int64_t created_s, struct br_buf *out);
void br_answer_choice(const struct br_request *request, const struct br_answer_choice *choice, struct br_buf *out);
void br_answer_chunk(const struct br_request *request, const struct br_answer_choice *choice, struct br_buf *out);
/* ,"usage":{...} */
void br_answer_usage(uint64_t prompt_tokens, uint64_t cached_tokens, uint64_t completion_tokens, struct br_buf *out);

void br_answer_logprob(const struct br_request *request, const struct br_tokenizer *tokenizer,
                       const struct br_token *token, struct br_answer_logprobs *out);
void br_answer_logprobs_clear(struct br_answer_logprobs *logprobs);
void br_answer_logprobs_free(struct br_answer_logprobs *logprobs);

/* "stop", "length" or "error". */
const char *br_answer_finish(enum br_end end);

/* {"id","object":"model",...} */
void br_answer_model(const struct br_gateway_model *model, struct br_buf *out);

#endif
