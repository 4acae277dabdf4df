#include "scheduler/gateway/choice.h"

#include <string.h>

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
    br_buf_free(&choice->kept);
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

/* ---- kept tokens ---- */

static bool keeps_ids(const struct br_request *request)
{
    return request->base.sampling.logprobs < 0;
}

void br_choice_keep(struct br_choice *choice, const struct br_request *request, const struct br_token *tokens,
                    uint32_t n, enum br_end end)
{
    for (uint32_t i = 0; i < n; i++)
        if (keeps_ids(request))
            br_buf_add(&choice->kept, (const char *)&tokens[i].id, sizeof tokens[i].id);
        else
            br_buf_add(&choice->kept, (const char *)&tokens[i], sizeof tokens[i]);
    choice->n_kept += n;
    choice->kept_end = end;
}

static struct br_token kept_token(const struct br_choice *choice, const struct br_request *request, uint32_t i)
{
    struct br_token token = {0};
    size_t size = keeps_ids(request) ? sizeof token.id : sizeof token;
    memcpy(keeps_ids(request) ? (void *)&token.id : (void *)&token, choice->kept.data + i * size, size);
    return token;
}

uint32_t br_choice_release(struct br_choice *choice, const struct br_request *request, uint32_t n)
{
    uint32_t left = choice->n_kept - choice->n_released;
    n = n < left ? n : left;
    if (n == 0 && choice->kept_end != BR_END_NONE && choice->end == BR_END_NONE)
        br_choice_push(choice, request, NULL, 0, choice->kept_end);
    for (uint32_t i = 0; i < n; i++) {
        struct br_token token = kept_token(choice, request, choice->n_released++);
        bool last = choice->n_released == choice->n_kept;
        br_choice_push(choice, request, &token, 1, last ? choice->kept_end : BR_END_NONE);
    }
    if (choice->n_released == choice->n_kept) {
        br_buf_free(&choice->kept);
        choice->n_kept = choice->n_released = 0;
    }
    return n;
}
