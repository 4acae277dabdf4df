/* One completion of a call on its way out: tokens in, text that may be given to the client out. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_CHOICE_H
#define BRIAREUS_SCHEDULER_GATEWAY_CHOICE_H

#include "scheduler/gateway/answer.h"
#include "text/detok.h"
#include "text/stop.h"

struct br_choice {
    uint64_t seq;
    uint32_t index;
    uint32_t n_tokens, n_cached;
    int64_t last_ns; /* when the last of them came; 0: none yet */
    struct br_detok detok;
    struct br_stop stop;
    struct br_buf text; /* not given out yet */
    size_t ready;       /* bytes of text that may be given out now */
    uint64_t given;     /* bytes given out before text */
    uint64_t unwatched; /* bytes at the beginning that no stop string was looked for in */
    struct br_answer_logprobs logprobs;
    enum br_end end;
    bool opened; /* its first chunk is out */
};

void br_choice_init(struct br_choice *choice, const struct br_request *request, const struct br_tokenizer *tokenizer);
void br_choice_free(struct br_choice *choice);

/* The next tokens. Stop strings are looked for after the first min_tokens tokens. The text of an eos or stop id is left
 * out unless include_stop is set, as in vLLM. */
void br_choice_push(struct br_choice *choice, const struct br_request *request, const struct br_token *tokens,
                    uint32_t n, enum br_end end);
/* The ready text was given out. */
void br_choice_given(struct br_choice *choice);

#endif
