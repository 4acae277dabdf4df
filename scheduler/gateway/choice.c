#include "scheduler/gateway/choice.h"

void br_choice_init(struct br_choice *choice, const struct br_request *request, const struct br_tokenizer *tokenizer)
{
    struct br_err err;
    *choice = (struct br_choice){0};
    br_detok_init(&choice->detok, tokenizer, !request->base.show_special);
    if (request->base.continues_text)
        br_detok_continue(&choice->detok);
    /* Cannot fail: br_request_parse checked number and lengths, which are below br_stop's. */
    br_stop_init(&choice->stop, (const char *const *)request->base.stop, request->base.n_stop,
                 request->base.include_stop, &err);
}

void br_choice_free(struct br_choice *choice)
{
    br_stop_free(&choice->stop);
    br_buf_free(&choice->text);
    br_answer_logprobs_free(&choice->logprobs);
}

/* Looks at the text from byte `from` of choice->text on. */
static void choice_watch(struct br_choice *choice, const struct br_request *request, size_t from)
{
    uint64_t safe;
    if (choice->n_tokens <= request->base.min_tokens && request->base.min_tokens > 0) {
        choice->unwatched += choice->text.len - from;
        choice->ready = choice->text.len;
        return;
    }
    br_stop_feed(&choice->stop, choice->text.data + from, choice->text.len - from, &safe);
    choice->ready = (size_t)(choice->unwatched + safe - choice->given);
}

static bool choice_hit(const struct br_choice *choice)
{
    return choice->stop.n > 0 && choice->stop.hit >= 0;
}

static void choice_token(struct br_choice *choice, const struct br_request *request, int32_t id)
{
    size_t from = choice->text.len;
    if (choice_hit(choice))
        return;
    br_detok_push(&choice->detok, id, &choice->text);
    if (choice->text.len > from)
        choice_watch(choice, request, from);
}

static void choice_close(struct br_choice *choice, const struct br_request *request)
{
    size_t from = choice->text.len;
    if (!choice_hit(choice)) {
        br_detok_flush(&choice->detok, &choice->text);
        if (choice->text.len > from)
            choice_watch(choice, request, from);
    }
    if (!choice_hit(choice))
        choice->ready = choice->text.len;
}

void br_choice_push(struct br_choice *choice, const struct br_request *request, const struct br_token *tokens,
                    uint32_t n, enum br_end end)
{
    for (uint32_t i = 0; i < n; i++) {
        bool mute = i + 1 == n && end == BR_END_STOP && !request->base.include_stop;
        choice->n_tokens++;
        if (request->base.sampling.logprobs >= 0)
            br_answer_logprob(request, choice->detok.tokenizer, &tokens[i], &choice->logprobs);
        if (!mute)
            choice_token(choice, request, tokens[i].id);
    }
    choice->end = end;
    if (end != BR_END_NONE)
        choice_close(choice, request);
}

void br_choice_given(struct br_choice *choice)
{
    choice->given += choice->ready;
    br_buf_consume(&choice->text, choice->ready);
    choice->ready = 0;
}
