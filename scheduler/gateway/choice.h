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
    struct br_buf kept; /* tokens for later: ids, or with log probabilities whole tokens */
    uint32_t n_kept, n_released;
    enum br_end kept_end; /* to come behind those */
    bool opened;          /* its first chunk is out */
};

void br_choice_init(struct br_choice *choice, const struct br_request *request, const struct br_tokenizer *tokenizer);
void br_choice_free(struct br_choice *choice);

/* The next tokens. Stop strings are looked for after the first min_tokens tokens. The text of an eos or stop id is left
 * out unless include_stop is set, as in vLLM. */
void br_choice_push(struct br_choice *choice, const struct br_request *request, const struct br_token *tokens,
                    uint32_t n, enum br_end end);
/* Keeps tokens instead: a client that does not read costs four bytes for each. */
void br_choice_keep(struct br_choice *choice, const struct br_request *request, const struct br_token *tokens,
                    uint32_t n, enum br_end end);
/* Takes at most n of the kept tokens in, as br_choice_push does; how many. Behind the last of them comes the end. */
uint32_t br_choice_release(struct br_choice *choice, const struct br_request *request, uint32_t n);
/* Whether nothing more is to come from the backend. */
static inline bool br_choice_over(const struct br_choice *choice)
{
    return choice->end != BR_END_NONE || choice->kept_end != BR_END_NONE;
}
/* The ready text was given out. */
void br_choice_given(struct br_choice *choice);

#endif
