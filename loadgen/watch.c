#include "loadgen/watch.h"

#include <stdlib.h>

#include "base/buf.h"

void load_watch_init(struct load_watch *w, const struct load_journal *j, const struct load_slo *slo, double warmup_s,
                     bool whole_answers)
{
    *w = (struct load_watch){.slo = *slo, .warmup_s = warmup_s, .whole_answers = whole_answers};
    w->tokens = br_calloc(j->n + 1, sizeof *w->tokens);
    w->late = br_calloc(j->n + 1, sizeof *w->late);
    for (size_t i = 0; i < j->n; i++)
        if (j->records[i].scheduled_s >= warmup_s)
            w->owed += j->records[i].output;
}

void load_watch_free(struct load_watch *w)
{
    free(w->tokens);
    free(w->late);
    *w = (struct load_watch){0};
}

static void take_piece(struct load_watch *w, const struct load_record *r, const struct load_piece *piece)
{
    for (uint32_t i = 0; i < piece->tokens; i++) {
        double due = r->scheduled_s + w->slo.ttft_s + w->tokens[piece->request]++ * w->slo.tbt_s;
        w->late[piece->request] += piece->at_s > due + 1e-9;
    }
}

/* Tokens that are late although they are not here. */
static uint32_t missing(const struct load_watch *w, const struct load_record *r, uint32_t tokens, double now_s)
{
    uint32_t left = r->output > tokens ? r->output - tokens : 0;
    double due = (now_s - r->scheduled_s - w->slo.ttft_s) / w->slo.tbt_s;
    if (load_outcome_failed(r->outcome))
        return left;
    if (r->outcome != LOAD_PENDING || !w->whole_answers || due < 0)
        return 0;
    due = due + 1 - tokens;
    return due <= 0 ? 0 : due < left ? (uint32_t)due : left;
}

double load_watch_bound(struct load_watch *w, const struct load_journal *j, double now_s)
{
    uint64_t late = 0;
    for (; w->n_pieces < j->n_pieces; w->n_pieces++) {
        const struct load_piece *piece = load_journal_piece(j, w->n_pieces);
        take_piece(w, &j->records[piece->request], piece);
    }
    for (size_t i = 0; i < j->n && j->records[i].scheduled_s <= now_s; i++) {
        const struct load_record *r = &j->records[i];
        if (r->scheduled_s >= w->warmup_s && !(r->traits & (LOAD_SLOW | LOAD_CANCELS)))
            late += w->late[i] + missing(w, r, w->tokens[i], now_s);
    }
    return w->owed && late < w->owed ? 1 - (double)late / (double)w->owed : w->owed ? 0 : 1;
}
