#include "worker/sampler/end_watch.h"

#include <stdlib.h>
#include <string.h>

#include "text/detok.h"
#include "text/stop.h"

struct br_end_watch {
    int32_t *ids; /* that end the sequence */
    uint32_t n_ids;
    uint32_t min_tokens, n, limit; /* limit: of output tokens */
    struct br_detok detok;
    struct br_stop stop;
    struct br_buf text; /* scratch */
};

static uint32_t output_limit(const struct br_seq_spec *spec, uint32_t max_positions)
{
    uint32_t room = spec->n_prompt < max_positions ? max_positions - spec->n_prompt : 0;
    return spec->max_tokens && spec->max_tokens < room ? spec->max_tokens : room;
}

static void copy_ids(struct br_end_watch *w, const int32_t *ids, uint32_t n)
{
    if (!n)
        return;
    w->ids = br_realloc(w->ids, (w->n_ids + n) * sizeof *w->ids);
    memcpy(w->ids + w->n_ids, ids, n * sizeof *w->ids);
    w->n_ids += n;
}

int br_end_watch_create(const struct br_seq_spec *spec, const struct br_tokenizer *tokenizer, const int32_t *eos,
                        uint32_t n_eos, uint32_t max_positions, struct br_end_watch **out, struct br_err *err)
{
    struct br_end_watch *w = br_calloc(1, sizeof *w);
    int rc = 0;
    w->min_tokens = spec->min_tokens;
    w->limit = output_limit(spec, max_positions);
    copy_ids(w, spec->stop_ids, spec->n_stop_ids);
    if (!spec->ignore_eos)
        copy_ids(w, eos, n_eos);
    if (spec->n_stop && !tokenizer)
        rc = br_err_set(err, BR_EINVAL, "stop strings need a tokenizer");
    else if (spec->n_stop)
        rc = br_stop_init(&w->stop, (const char *const *)spec->stop, spec->n_stop, spec->include_stop, err);
    if (rc) {
        br_end_watch_destroy(w);
        return rc;
    }
    if (tokenizer)
        br_detok_init(&w->detok, tokenizer, !spec->show_special);
    if (spec->continues_text)
        br_detok_continue(&w->detok);
    *out = w;
    return 0;
}

void br_end_watch_destroy(struct br_end_watch *w)
{
    if (!w)
        return;
    br_stop_free(&w->stop);
    br_buf_free(&w->text);
    free(w->ids);
    free(w);
}

static bool is_end_id(const struct br_end_watch *w, int32_t id)
{
    for (uint32_t i = 0; i < w->n_ids; i++)
        if (w->ids[i] == id)
            return true;
    return false;
}

/* The text of the first min_tokens tokens is not searched (the gateway, which cuts the text, does the same). */
static bool text_stops(struct br_end_watch *w, int32_t id)
{
    uint64_t safe;
    if (!w->stop.n)
        return false;
    br_buf_clear(&w->text);
    br_detok_push(&w->detok, id, &w->text);
    if (w->n <= w->min_tokens)
        return false;
    return w->text.len && br_stop_feed(&w->stop, w->text.data, w->text.len, &safe) >= 0;
}

enum br_end br_end_watch_push(struct br_end_watch *w, int32_t id)
{
    bool may_end = ++w->n > w->min_tokens;
    if (may_end && is_end_id(w, id))
        return BR_END_STOP;
    if (text_stops(w, id))
        return BR_END_STOP_TEXT;
    return w->n >= w->limit ? BR_END_LENGTH : BR_END_NONE;
}
